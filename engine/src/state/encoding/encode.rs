//! Rows to values: sorts the rows of each table by hash, measures every unit, and writes each at its place.

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute;
use arrow::datatypes::DataType;

use super::columns::{Layout, has_weight, layout};
use super::{AT, CodecTable, EncodedUnits, NEVER, UnitTimes, varint};
use crate::error::{Error, Result};
use crate::state::{StateSnapshot, key_hashes_of};

/// Rows that belong to one unit, in an array.
#[derive(Debug, Clone, Copy)]
struct Run {
    unit: usize,
    start: usize,
    rows: usize,
}

/// A table of a snapshot, sorted.
struct SortedTable {
    number: usize,
    /// All but the hashes.
    columns: Vec<ArrayRef>,
    /// The hash of each run.
    hashes: Vec<u64>,
    runs: Vec<Run>,
    /// For each column which runs have a NULL; empty where none has.
    nulls: Vec<Vec<bool>>,
    has_padding: bool,
}

/// Where encoded bytes go: into a count, or to their places.
trait Target {
    fn put(&mut self, unit: usize, bytes: &[u8]);

    fn put_fixed<const W: usize>(&mut self, unit: usize, bytes: &[u8; W]);

    fn put_varint(&mut self, unit: usize, number: u64) {
        let (bytes, length) = varint::encode(number);
        self.put(unit, &bytes[..length]);
    }
}

struct Measure<'a>(&'a mut [usize]);

impl Target for Measure<'_> {
    fn put(&mut self, unit: usize, bytes: &[u8]) {
        self.0[unit] += bytes.len();
    }

    fn put_fixed<const W: usize>(&mut self, unit: usize, _bytes: &[u8; W]) {
        self.0[unit] += W;
    }
}

struct Write<'a> {
    /// Where the next byte of each unit goes.
    places: &'a mut [usize],
    bytes: &'a mut [u8],
}

impl Target for Write<'_> {
    fn put(&mut self, unit: usize, bytes: &[u8]) {
        let place = &mut self.places[unit];
        self.bytes[*place..*place + bytes.len()].copy_from_slice(bytes);
        *place += bytes.len();
    }

    fn put_fixed<const W: usize>(&mut self, unit: usize, bytes: &[u8; W]) {
        let place = &mut self.places[unit];
        self.bytes[*place..*place + W].copy_from_slice(bytes);
        *place += W;
    }
}

/// See [`super::UnitCodec::encode`].
pub(super) fn encode(
    tables: &[CodecTable],
    snapshot: &StateSnapshot,
    times: &dyn UnitTimes,
    units: &mut EncodedUnits,
) -> Result<()> {
    let mut sorted = Vec::new();
    let mut unit_times = Vec::new();
    for (number, table) in tables.iter().enumerate() {
        if let Some(rows) = sort_rows(snapshot.batches(&table.name))? {
            unit_times.push(RowTimes::of(times, &table.name, &rows));
            sorted.push(SortedTable::new(number, &rows)?);
        }
    }
    number_units(&mut sorted, &mut units.hashes);
    fold_times(&sorted, &unit_times, units);
    write_values(&sorted, units)
}

/// All rows in one batch, by hash, those of one hash in the order in which they came; `None` without rows.
fn sort_rows(batches: &[RecordBatch]) -> Result<Option<RecordBatch>> {
    let filled: Vec<&RecordBatch> = batches
        .iter()
        .filter(|batch| batch.num_rows() > 0)
        .collect();
    let rows = match filled[..] {
        [] => return Ok(None),
        [one] => one.clone(),
        [first, ..] => compute::concat_batches(first.schema_ref(), filled)?,
    };
    let hashes = key_hashes_of(&rows);
    if hashes.is_sorted() {
        return Ok(Some(rows));
    }
    let mut order: Vec<(u64, u32)> = std::iter::zip(hashes.iter().copied(), 0..).collect();
    order.sort_unstable();
    let order = UInt32Array::from_iter_values(order.into_iter().map(|(_, row)| row));
    Ok(Some(compute::take_record_batch(&rows, &order)?))
}

impl SortedTable {
    fn new(number: usize, rows: &RecordBatch) -> Result<Self> {
        let columns: Vec<ArrayRef> = rows.columns()[1..]
            .iter()
            .map(|column| Ok(without_dictionary(column)?.into_owned()))
            .collect::<Result<_>>()?;
        let (hashes, runs) = runs_of(key_hashes_of(rows));
        let nulls = columns
            .iter()
            .map(|column| runs_with_nulls(column, &runs))
            .collect();
        let has_padding = !columns.iter().any(|column| has_weight(column.data_type()));
        Ok(SortedTable {
            number,
            columns,
            hashes,
            runs,
            nulls,
            has_padding,
        })
    }

    fn encode_to<T: Target>(&self, target: &mut T) -> Result<()> {
        self.encode_heads(target);
        for (column, nulls) in std::iter::zip(&self.columns, &self.nulls) {
            encode_column(column, &self.runs, nulls, target)?;
        }
        Ok(())
    }

    fn encode_heads<T: Target>(&self, target: &mut T) {
        let mut flags = vec![0; self.columns.len().div_ceil(8)];
        for (at, run) in self.runs.iter().enumerate() {
            target.put_varint(run.unit, self.number as u64);
            target.put_varint(run.unit, run.rows as u64);
            flags.fill(0);
            for (column, nulls) in self.nulls.iter().enumerate() {
                if nulls.get(at) == Some(&true) {
                    flags[column / 8] |= 1 << (column % 8);
                }
            }
            target.put(run.unit, &flags);
            if self.has_padding {
                target.put(run.unit, &vec![0; run.rows.div_ceil(8)]);
            }
        }
    }
}

/// The hashes, each once, and the rows of each. Units are numbered as they come; [`number_units`] may change that.
fn runs_of(hashes: &[u64]) -> (Vec<u64>, Vec<Run>) {
    let mut distinct = Vec::with_capacity(hashes.len());
    let mut runs: Vec<Run> = Vec::with_capacity(hashes.len());
    for (row, hash) in hashes.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if distinct.last() == Some(hash) => run.rows += 1,
            _ => {
                runs.push(Run {
                    unit: distinct.len(),
                    start: row,
                    rows: 1,
                });
                distinct.push(*hash);
            }
        }
    }
    (distinct, runs)
}

/// The hashes of all tables, ascending and each once; runs get the number of their hash.
fn number_units(tables: &mut [SortedTable], hashes: &mut Vec<u64>) {
    hashes.clear();
    for table in tables.iter() {
        hashes.extend(&table.hashes);
    }
    if tables.len() < 2 {
        return;
    }
    hashes.sort_unstable();
    hashes.dedup();
    for table in tables {
        let mut unit = 0;
        for (run, hash) in std::iter::zip(&mut table.runs, &table.hashes) {
            while hashes[unit] != *hash {
                unit += 1;
            }
            run.unit = unit;
        }
    }
}

/// When the rows of a table act and are forgotten.
struct RowTimes {
    due: Option<Vec<i64>>,
    expiries: Option<Vec<i64>>,
}

impl RowTimes {
    fn of(times: &dyn UnitTimes, table: &str, rows: &RecordBatch) -> Self {
        RowTimes {
            due: times.due(table, rows),
            expiries: times.expiries(table, rows),
        }
    }
}

/// A unit acts with the first of its rows, and is forgotten with the last.
fn fold_times(tables: &[SortedTable], times: &[RowTimes], units: &mut EncodedUnits) {
    let count = units.hashes.len();
    units.dues.clear();
    units.dues.resize(count, i64::MAX);
    units.expiries.clear();
    units.expiries.resize(count, i64::MIN);
    for (table, times) in std::iter::zip(tables, times) {
        for run in &table.runs {
            let rows = run.start..run.start + run.rows;
            let first = |due: &Vec<i64>| due[rows.clone()].iter().copied().min();
            let last = |expiries: &Vec<i64>| expiries[rows.clone()].iter().copied().max();
            let due = times.due.as_ref().and_then(first).unwrap_or(i64::MAX);
            let expiry = times.expiries.as_ref().and_then(last).unwrap_or(i64::MAX);
            units.dues[run.unit] = units.dues[run.unit].min(due);
            units.expiries[run.unit] = units.expiries[run.unit].max(expiry);
        }
    }
}

fn write_values(tables: &[SortedTable], units: &mut EncodedUnits) -> Result<()> {
    let mut places = vec![0; units.hashes.len()];
    encode_dues(&units.dues, &mut Measure(&mut places));
    for table in tables {
        table.encode_to(&mut Measure(&mut places))?;
    }
    let mut end = 0;
    units.ends.clear();
    for place in &mut places {
        let start = end;
        end += *place;
        *place = start;
        units.ends.push(end);
    }
    units.bytes.clear();
    units.bytes.resize(end, 0);
    let mut target = Write {
        places: &mut places,
        bytes: &mut units.bytes,
    };
    encode_dues(&units.dues, &mut target);
    tables
        .iter()
        .try_for_each(|table| table.encode_to(&mut target))
}

fn encode_dues<T: Target>(dues: &[i64], target: &mut T) {
    for (unit, due) in dues.iter().enumerate() {
        match *due {
            i64::MAX => target.put_fixed(unit, &[NEVER]),
            due => {
                target.put_fixed(unit, &[AT]);
                target.put_fixed(unit, &due.to_le_bytes());
            }
        }
    }
}

/// Which runs have a NULL; empty where none has.
fn runs_with_nulls(column: &dyn Array, runs: &[Run]) -> Vec<bool> {
    let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) else {
        return Vec::new();
    };
    let has_null = |run: &Run| match run.rows {
        1 => nulls.is_null(run.start),
        rows => nulls.slice(run.start, rows).null_count() > 0,
    };
    runs.iter().map(has_null).collect()
}

/// The values of a dictionary in its place.
fn without_dictionary(column: &ArrayRef) -> Result<Cow<'_, ArrayRef>> {
    Ok(match column.data_type() {
        DataType::Dictionary(_, values) => Cow::Owned(compute::cast(column, values)?),
        _ => Cow::Borrowed(column),
    })
}

/// A column of a table; `nulls` says which runs have a NULL.
fn encode_column<T: Target>(
    column: &ArrayRef,
    runs: &[Run],
    nulls: &[bool],
    target: &mut T,
) -> Result<()> {
    let rows = Rows {
        runs,
        nulls,
        validity: column.nulls(),
    };
    rows.encode_validity(target);
    match layout(column.data_type()) {
        Some(Layout::Nothing) => Ok(()),
        Some(Layout::Bits) => rows.encode_bits(column.as_boolean().values(), target),
        Some(Layout::Fixed(width)) => rows.encode_fixed(column, width, target),
        Some(Layout::Bytes) => rows.encode_bytes(column, target),
        Some(Layout::List) => rows.encode_lists(column, target),
        Some(Layout::FixedList(size)) => rows.encode_fixed_lists(column, size, target),
        Some(Layout::Struct) => {
            let mut columns = column.as_struct().columns().iter();
            columns.try_for_each(|inner| encode_inner(inner, runs, target))
        }
        Some(Layout::Dictionary) | None => Err(Error::internal(format!(
            "state of the type {} cannot be encoded",
            column.data_type()
        ))),
    }
}

/// A column inside another, behind a byte that says whether it has a NULL. Runs without rows are left out.
fn encode_inner<T: Target>(column: &ArrayRef, runs: &[Run], target: &mut T) -> Result<()> {
    let column = without_dictionary(column)?;
    let column = column.as_ref();
    let runs: Vec<Run> = runs.iter().copied().filter(|run| run.rows > 0).collect();
    let nulls = runs_with_nulls(column, &runs);
    for (at, run) in runs.iter().enumerate() {
        target.put_fixed(run.unit, &[u8::from(nulls.get(at) == Some(&true))]);
    }
    encode_column(column, &runs, &nulls, target)
}

/// The rows of a column by unit.
struct Rows<'a> {
    runs: &'a [Run],
    nulls: &'a [bool],
    validity: Option<&'a NullBuffer>,
}

impl Rows<'_> {
    /// The validity of a run's rows where some are NULL.
    fn validity_of(&self, run: usize) -> Option<&NullBuffer> {
        self.validity.filter(|_| self.nulls.get(run) == Some(&true))
    }

    fn encode_validity<T: Target>(&self, target: &mut T) {
        for (at, run) in self.runs.iter().enumerate() {
            if let Some(validity) = self.validity_of(at)
                && run.rows > 1
            {
                put_bits(validity.inner(), run, target);
            }
        }
    }

    fn encode_bits<T: Target>(&self, values: &BooleanBuffer, target: &mut T) -> Result<()> {
        self.runs
            .iter()
            .for_each(|run| put_bits(values, run, target));
        Ok(())
    }

    fn encode_fixed<T: Target>(
        &self,
        column: &ArrayRef,
        width: usize,
        target: &mut T,
    ) -> Result<()> {
        let data = column.to_data();
        let bytes = &data.buffers()[0].as_slice()[data.offset() * width..];
        match width {
            1 => self.encode_width::<1, T>(bytes, target),
            2 => self.encode_width::<2, T>(bytes, target),
            4 => self.encode_width::<4, T>(bytes, target),
            8 => self.encode_width::<8, T>(bytes, target),
            16 => self.encode_width::<16, T>(bytes, target),
            _ => self.encode_any_width(bytes, width, target),
        }
        Ok(())
    }

    fn encode_width<const W: usize, T: Target>(&self, bytes: &[u8], target: &mut T) {
        let (values, _) = bytes.as_chunks::<W>();
        for (at, run) in self.runs.iter().enumerate() {
            let values = &values[run.start..run.start + run.rows];
            match (self.validity_of(at), values) {
                (None, [value]) => target.put_fixed(run.unit, value),
                (None, values) => target.put(run.unit, values.as_flattened()),
                (Some(validity), values) => {
                    for (row, value) in values.iter().enumerate() {
                        if validity.is_valid(run.start + row) {
                            target.put_fixed(run.unit, value);
                        }
                    }
                }
            }
        }
    }

    fn encode_any_width<T: Target>(&self, bytes: &[u8], width: usize, target: &mut T) {
        for (at, run) in self.runs.iter().enumerate() {
            for row in self.valid_rows(at, run) {
                target.put(run.unit, &bytes[row * width..(row + 1) * width]);
            }
        }
    }

    /// The rows of a run that are not NULL.
    fn valid_rows(&self, at: usize, run: &Run) -> impl Iterator<Item = usize> {
        let validity = self.validity_of(at);
        (run.start..run.start + run.rows)
            .filter(move |row| validity.is_none_or(|validity| validity.is_valid(*row)))
    }

    fn encode_bytes<T: Target>(&self, column: &ArrayRef, target: &mut T) -> Result<()> {
        let (offsets, bytes) = match column.data_type() {
            DataType::Utf8 => {
                let texts = column.as_string::<i32>();
                (texts.value_offsets(), texts.value_data())
            }
            _ => {
                let values = column.as_binary::<i32>();
                (values.value_offsets(), values.value_data())
            }
        };
        let range = |row: usize| offsets[row] as usize..offsets[row + 1] as usize;
        for (at, run) in self.runs.iter().enumerate() {
            for row in self.valid_rows(at, run) {
                target.put_varint(run.unit, range(row).len() as u64);
            }
            match self.validity_of(at) {
                None => {
                    let all = offsets[run.start] as usize..offsets[run.start + run.rows] as usize;
                    target.put(run.unit, &bytes[all]);
                }
                Some(_) => self
                    .valid_rows(at, run)
                    .for_each(|row| target.put(run.unit, &bytes[range(row)])),
            }
        }
        Ok(())
    }

    fn encode_lists<T: Target>(&self, column: &ArrayRef, target: &mut T) -> Result<()> {
        let entries: ArrayRef;
        let (offsets, elements) = match column.data_type() {
            DataType::Map(_, _) => {
                let maps = column.as_map();
                entries = std::sync::Arc::new(maps.entries().clone());
                (maps.value_offsets(), &entries)
            }
            _ => {
                let lists = column.as_list::<i32>();
                (lists.value_offsets(), lists.values())
            }
        };
        let place = |row: usize| offsets[row] as usize;
        let mut inner = Vec::with_capacity(self.runs.len());
        for run in self.runs {
            let end = run.start + run.rows;
            for row in run.start..end {
                target.put_varint(run.unit, (place(row + 1) - place(row)) as u64);
            }
            inner.push(Run {
                unit: run.unit,
                start: place(run.start),
                rows: place(end) - place(run.start),
            });
        }
        encode_inner(elements, &inner, target)
    }

    fn encode_fixed_lists<T: Target>(
        &self,
        column: &ArrayRef,
        size: usize,
        target: &mut T,
    ) -> Result<()> {
        let inner: Vec<Run> = self
            .runs
            .iter()
            .map(|run| Run {
                unit: run.unit,
                start: run.start * size,
                rows: run.rows * size,
            })
            .collect();
        encode_inner(column.as_fixed_size_list().values(), &inner, target)
    }
}

/// The bits of a run, padded to bytes.
fn put_bits<T: Target>(bits: &BooleanBuffer, run: &Run, target: &mut T) {
    let mut row = run.start;
    let end = run.start + run.rows;
    while row < end {
        let count = (end - row).min(8);
        let byte = (0..count).fold(0_u8, |byte, bit| {
            byte | u8::from(bits.value(row + bit)) << bit
        });
        target.put_fixed(run.unit, &[byte]);
        row += count;
    }
}
