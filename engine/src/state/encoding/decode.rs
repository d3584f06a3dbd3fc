//! Values to rows: goes through all units table by table and column by column, each unit from where it was left.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryArray, BooleanArray, BooleanBufferBuilder,
    ListArray, MapArray, NullArray, NullBufferBuilder, RecordBatch, StringArray, StructArray,
    UInt64Array, make_array,
};
use arrow::buffer::{MutableBuffer, NullBuffer, OffsetBuffer};
use arrow::compute;
use arrow::datatypes::{DataType, Field, Fields};
use arrow::error::ArrowError;

use super::columns::{Layout, has_weight, layout};
use super::{AT, CodecTable, NEVER, varint};
use crate::error::{Error, Result};
use crate::state::StateSnapshot;

/// Rows of one unit in the column that is being decoded.
#[derive(Debug, Clone, Copy)]
struct Run {
    unit: usize,
    rows: usize,
    /// Whether one of them is NULL.
    has_null: bool,
}

/// What is left of each unit.
struct Rest<'a>(Vec<&'a [u8]>);

fn damaged() -> Error {
    Error::external("a value of keyed state on the local disk is damaged")
        .hint("check the disk under state.backend.rocksdb.localdir; a restart begins with the latest checkpoint")
}

/// What Arrow refuses to make an array of was not encoded by us.
fn refused(_: ArrowError) -> Error {
    damaged()
}

impl<'a> Rest<'a> {
    fn take(&mut self, unit: usize, bytes: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0[unit].split_at_checked(bytes).ok_or_else(damaged)?;
        self.0[unit] = rest;
        Ok(taken)
    }

    fn varint(&mut self, unit: usize) -> Result<usize> {
        let (number, rest) = varint::decode(self.0[unit]).ok_or_else(damaged)?;
        self.0[unit] = rest;
        usize::try_from(number).map_err(|_| damaged())
    }

    fn bits(&mut self, unit: usize, rows: usize) -> Result<impl Iterator<Item = bool> + use<'a>> {
        let bytes = self.take(unit, rows.div_ceil(8))?;
        Ok((0..rows).map(move |row| bytes[row / 8] >> (row % 8) & 1 == 1))
    }

    /// No column of these runs takes more.
    fn bytes_of(&self, runs: &[Run]) -> usize {
        runs.iter().map(|run| self.0[run.unit].len()).sum()
    }
}

/// See [`super::UnitCodec::decode`].
pub(super) fn decode(
    tables: &[CodecTable],
    hashes: Vec<u64>,
    values: Vec<&[u8]>,
) -> Result<StateSnapshot> {
    let rows = values.into_iter().map(|value| Ok(due_and_rows(value)?.1));
    let mut rest = Rest(rows.collect::<Result<_>>()?);
    let mut snapshot = StateSnapshot::default();
    for (number, table) in tables.iter().enumerate() {
        if let Some(batch) = decode_table(number, table, &hashes, &mut rest)? {
            snapshot.insert_keyed(&table.name, vec![batch]);
        }
    }
    let all_read = rest.0.iter().all(|unit| unit.is_empty());
    all_read.then_some(snapshot).ok_or_else(damaged)
}

/// When a unit acts next, and what is behind that in its value.
pub(super) fn due_and_rows(value: &[u8]) -> Result<(i64, &[u8])> {
    match value.split_first().ok_or_else(damaged)? {
        (&NEVER, rows) => Ok((i64::MAX, rows)),
        (&AT, rest) => {
            let (due, rows) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
            Ok((i64::from_le_bytes(*due), rows))
        }
        _ => Err(damaged()),
    }
}

fn decode_table(
    number: usize,
    table: &CodecTable,
    hashes: &[u64],
    rest: &mut Rest,
) -> Result<Option<RecordBatch>> {
    let columns = &table.schema.fields()[1..];
    let (mut runs, flags) = decode_heads(number, columns, rest)?;
    if runs.is_empty() {
        return Ok(None);
    }
    let key_hashes = runs
        .iter()
        .flat_map(|run| std::iter::repeat_n(hashes[run.unit], run.rows));
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from_iter_values(key_hashes))];
    for (column, field) in columns.iter().enumerate() {
        for (run, flags) in std::iter::zip(&mut runs, &flags) {
            run.has_null = flags[column / 8] >> (column % 8) & 1 == 1;
        }
        arrays.push(decode_column(field.data_type(), &runs, rest)?);
    }
    RecordBatch::try_new(table.schema.clone(), arrays)
        .map(Some)
        .map_err(refused)
}

/// The units that have rows of a table, how many, and for each which columns have a NULL.
fn decode_heads<'a>(
    number: usize,
    columns: &[Arc<Field>],
    rest: &mut Rest<'a>,
) -> Result<(Vec<Run>, Vec<&'a [u8]>)> {
    let has_padding = !columns.iter().any(|column| has_weight(column.data_type()));
    let mut runs = Vec::with_capacity(rest.0.len());
    let mut flags = Vec::with_capacity(rest.0.len());
    for unit in 0..rest.0.len() {
        if !rest.begins_with(unit, number) {
            continue;
        }
        rest.varint(unit)?;
        let rows = rest.varint(unit)?;
        flags.push(rest.take(unit, columns.len().div_ceil(8))?);
        // Every row takes a bit at least.
        if rows == 0 || (rows > 1 && rows.div_ceil(8) > rest.0[unit].len()) {
            return Err(damaged());
        }
        if has_padding {
            rest.take(unit, rows.div_ceil(8))?;
        }
        runs.push(Run {
            unit,
            rows,
            has_null: false,
        });
    }
    Ok((runs, flags))
}

impl Rest<'_> {
    fn begins_with(&self, unit: usize, number: usize) -> bool {
        varint::decode(self.0[unit]).is_some_and(|(found, _)| found == number as u64)
    }
}

fn decode_column(data_type: &DataType, runs: &[Run], rest: &mut Rest) -> Result<ArrayRef> {
    if let DataType::Dictionary(_, values) = data_type {
        let column = decode_column(values, runs, rest)?;
        return Ok(compute::cast(&column, data_type)?);
    }
    let total = total_rows(runs)?;
    let nulls = decode_validity(runs, rest)?;
    let column = Column { runs, total, nulls };
    match layout(data_type) {
        Some(Layout::Nothing) => Ok(Arc::new(NullArray::new(total))),
        Some(Layout::Bits) => column.bits(rest),
        Some(Layout::Fixed(width)) => column.fixed(data_type, width, rest),
        Some(Layout::Bytes) => column.bytes(data_type, rest),
        Some(Layout::List) => column.lists(data_type, rest),
        Some(Layout::FixedList(size)) => column.fixed_lists(data_type, size, rest),
        Some(Layout::Struct) => column.structs(data_type, rest),
        Some(Layout::Dictionary) | None => Err(Error::internal(format!(
            "state of the type {data_type} cannot be decoded"
        ))),
    }
}

/// A column inside another.
fn decode_inner(data_type: &DataType, runs: Vec<Run>, rest: &mut Rest) -> Result<ArrayRef> {
    let mut runs = runs;
    runs.retain(|run| run.rows > 0);
    for run in &mut runs {
        run.has_null = match rest.take(run.unit, 1)? {
            [0] => false,
            [1] => true,
            _ => return Err(damaged()),
        };
    }
    decode_column(data_type, &runs, rest)
}

/// Offsets are 32 bits wide, so no column of ours has more.
fn total_rows(runs: &[Run]) -> Result<usize> {
    let total = runs
        .iter()
        .try_fold(0_usize, |total, run| total.checked_add(run.rows));
    total
        .filter(|total| *total <= i32::MAX as usize)
        .ok_or_else(damaged)
}

/// Which rows are not NULL; `None`: all. A run of one row with a NULL has nothing but that.
fn decode_validity(runs: &[Run], rest: &mut Rest) -> Result<Option<NullBuffer>> {
    if !runs.iter().any(|run| run.has_null) {
        return Ok(None);
    }
    let mut nulls = NullBufferBuilder::new(runs.len());
    for run in runs {
        match (run.has_null, run.rows) {
            (false, rows) => nulls.append_n_non_nulls(rows),
            (true, 1) => nulls.append_null(),
            (true, rows) => rest.bits(run.unit, rows)?.for_each(|bit| nulls.append(bit)),
        }
    }
    Ok(nulls.finish())
}

struct Column<'a> {
    runs: &'a [Run],
    total: usize,
    nulls: Option<NullBuffer>,
}

impl Column<'_> {
    /// Calls for every run with the place of its first row.
    fn for_each_run(&self, mut call: impl FnMut(&Run, usize) -> Result<()>) -> Result<()> {
        let mut start = 0;
        for run in self.runs {
            call(run, start)?;
            start += run.rows;
        }
        Ok(())
    }

    fn is_valid(&self, run: &Run, row: usize) -> bool {
        !run.has_null || self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }

    fn bits(self, rest: &mut Rest) -> Result<ArrayRef> {
        let mut values = BooleanBufferBuilder::new(self.runs.len());
        for run in self.runs {
            rest.bits(run.unit, run.rows)?
                .for_each(|bit| values.append(bit));
        }
        Ok(Arc::new(BooleanArray::new(values.finish(), self.nulls)))
    }

    fn fixed(self, data_type: &DataType, width: usize, rest: &mut Rest) -> Result<ArrayRef> {
        let bytes = self.total.saturating_mul(width);
        let mut values = MutableBuffer::with_capacity(bytes.min(rest.bytes_of(self.runs)));
        self.for_each_run(|run, start| {
            if !run.has_null {
                let bytes = run.rows.checked_mul(width).ok_or_else(damaged)?;
                values.extend_from_slice(rest.take(run.unit, bytes)?);
                return Ok(());
            }
            for row in start..start + run.rows {
                if self.is_valid(run, row) {
                    values.extend_from_slice(rest.take(run.unit, width)?);
                } else {
                    values.extend_zeros(width);
                }
            }
            Ok(())
        })?;
        let data = ArrayData::builder(data_type.clone())
            .len(self.total)
            .add_buffer(values.into())
            .nulls(self.nulls)
            .build();
        Ok(make_array(data.map_err(refused)?))
    }

    fn bytes(self, data_type: &DataType, rest: &mut Rest) -> Result<ArrayRef> {
        let mut offsets = Offsets::new(self.runs.len());
        let mut values = Vec::new();
        self.for_each_run(|run, start| {
            let before = offsets.end;
            for row in start..start + run.rows {
                let length = if self.is_valid(run, row) {
                    rest.varint(run.unit)?
                } else {
                    0
                };
                offsets.push(length)?;
            }
            values.extend_from_slice(rest.take(run.unit, offsets.end - before)?);
            Ok(())
        })?;
        let (offsets, values) = (offsets.finish(), values.into());
        Ok(match data_type {
            DataType::Utf8 => {
                Arc::new(StringArray::try_new(offsets, values, self.nulls).map_err(refused)?)
            }
            _ => Arc::new(BinaryArray::try_new(offsets, values, self.nulls).map_err(refused)?),
        })
    }

    fn lists(self, data_type: &DataType, rest: &mut Rest) -> Result<ArrayRef> {
        let mut offsets = Offsets::new(self.runs.len());
        let mut inner = Vec::with_capacity(self.runs.len());
        for run in self.runs {
            let before = offsets.end;
            for _ in 0..run.rows {
                offsets.push(rest.varint(run.unit)?)?;
            }
            inner.push(Run {
                rows: offsets.end - before,
                ..*run
            });
        }
        let offsets = offsets.finish();
        match data_type {
            DataType::Map(field, ordered) => {
                let entries = decode_inner(field.data_type(), inner, rest)?;
                let entries = entries.as_struct().clone();
                let maps = MapArray::try_new(field.clone(), offsets, entries, self.nulls, *ordered);
                Ok(Arc::new(maps.map_err(refused)?))
            }
            DataType::List(field) => {
                let elements = decode_inner(field.data_type(), inner, rest)?;
                let lists = ListArray::try_new(field.clone(), offsets, elements, self.nulls);
                Ok(Arc::new(lists.map_err(refused)?))
            }
            other => Err(Error::internal(format!("{other} is no list"))),
        }
    }

    fn fixed_lists(self, data_type: &DataType, size: usize, rest: &mut Rest) -> Result<ArrayRef> {
        let DataType::FixedSizeList(field, _) = data_type else {
            return Err(Error::internal(format!(
                "{data_type} is no list of fixed size"
            )));
        };
        let mut inner = self.runs.to_vec();
        for run in &mut inner {
            run.rows = run.rows.checked_mul(size).ok_or_else(damaged)?;
        }
        let elements = decode_inner(field.data_type(), inner, rest)?;
        let data = ArrayData::builder(data_type.clone())
            .len(self.total)
            .add_child_data(elements.to_data())
            .nulls(self.nulls)
            .build();
        Ok(make_array(data.map_err(refused)?))
    }

    fn structs(self, data_type: &DataType, rest: &mut Rest) -> Result<ArrayRef> {
        let fields: Fields = match data_type {
            DataType::Struct(fields) => fields.clone(),
            other => return Err(Error::internal(format!("{other} is no row"))),
        };
        let columns = fields
            .iter()
            .map(|field| decode_inner(field.data_type(), self.runs.to_vec(), rest))
            .collect::<Result<Vec<_>>>()?;
        let rows = StructArray::try_new_with_length(fields, columns, self.nulls, self.total);
        Ok(Arc::new(rows.map_err(refused)?))
    }
}

/// Offsets of a list or text, from lengths.
struct Offsets {
    offsets: Vec<i32>,
    end: usize,
}

impl Offsets {
    fn new(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Offsets { offsets, end: 0 }
    }

    fn push(&mut self, length: usize) -> Result<()> {
        self.end = self.end.checked_add(length).ok_or_else(damaged)?;
        self.offsets
            .push(i32::try_from(self.end).map_err(|_| damaged())?);
        Ok(())
    }

    fn finish(self) -> OffsetBuffer<i32> {
        OffsetBuffer::new(self.offsets.into())
    }
}
