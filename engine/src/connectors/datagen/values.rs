//! Makes the cells of one column: a value for each cell number, built straight into an Arrow array.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DurationMillisecondArray,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    IntervalYearMonthArray, ListArray, StringArray, StructArray, Time32MillisecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, TimeUnit};

use super::super::draw::{ColumnDraws, Draw};
use crate::error::{Error, Result};
use crate::types::{LogicalType, ProcessingTime, TimeZone, TypeRoot};

/// The generator of a column, an array's elements or a row's field.
#[derive(Debug, Clone)]
pub(super) struct CellGenerator {
    pub(super) logical_type: LogicalType,
    pub(super) maker: Maker,
    /// The share of cells that are NULL.
    pub(super) null_rate: f64,
    pub(super) values: ColumnDraws,
    pub(super) nulls: ColumnDraws,
}

/// What a cell holds.
#[derive(Debug, Clone)]
pub(super) enum Maker {
    /// `start` + cell number.
    Sequence { start: i64 },
    /// True or false.
    Boolean,
    /// `min` to `min + span`, both included.
    Integer { min: i64, span: u64 },
    /// `min` to `max`.
    Real { min: f64, max: f64 },
    /// Unscaled, both included.
    Decimal { min: i128, max: i128 },
    /// Hexadecimal digits as text, or random bytes.
    Text { length: usize, variable: bool },
    /// Today.
    Date,
    /// Now.
    Time,
    /// Now or up to `max_past_ms` ago.
    Timestamp { max_past_ms: u64 },
    /// As many elements as `length`.
    Array {
        length: usize,
        element: Box<CellGenerator>,
    },
    /// One generator a field.
    Row(Vec<CellGenerator>),
}

/// The clock that dates and times follow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) instant: ProcessingTime,
    pub(super) zone: TimeZone,
}

impl Now {
    fn local_ms(&self) -> i64 {
        self.zone.to_local_millis(self.instant.millis())
    }
}

const DAY_MS: i64 = 86_400_000;

impl CellGenerator {
    /// About how many bytes a cell takes.
    pub(super) fn average_bytes(&self) -> usize {
        match &self.maker {
            Maker::Text { length, variable } => 4 + if *variable { length / 2 } else { *length },
            Maker::Array { length, element } => 4 + length * element.average_bytes(),
            Maker::Row(fields) => fields.iter().map(CellGenerator::average_bytes).sum(),
            Maker::Decimal { .. } => 16,
            _ => 8,
        }
    }

    /// The cells of these numbers.
    pub(super) fn array(&self, cells: &[u64], now: &Now) -> Result<ArrayRef> {
        let nulls = self.null_buffer(cells);
        Ok(match &self.maker {
            Maker::Sequence { start } => self.sequence(*start, cells, nulls)?,
            Maker::Boolean => {
                let bits = BooleanBuffer::collect_bool(cells.len(), |row| {
                    self.draw(cells[row]).once_in(2)
                });
                Arc::new(BooleanArray::new(bits, nulls))
            }
            Maker::Integer { min, span } => {
                let value = |cell| match span.checked_add(1) {
                    Some(count) => min.wrapping_add_unsigned(self.draw(cell).below(count)),
                    None => self.draw(cell).bits() as i64,
                };
                self.numbers(cells.iter().map(|cell| value(*cell)), nulls)?
            }
            Maker::Real { min, max } => {
                let value = |cell: &u64| {
                    let unit = self.draw(*cell).unit();
                    min * (1.0 - unit) + max * unit
                };
                self.reals(cells.iter().map(value), nulls)?
            }
            Maker::Decimal { min, max } => {
                // Up to 2e38: more than an i128 holds.
                let span = max.wrapping_sub(*min) as u128 + 1;
                self.decimals(
                    cells.iter().map(|cell| {
                        let mut draw = self.draw(*cell);
                        let bits = (draw.bits() as u128) << 64 | draw.bits() as u128;
                        min.wrapping_add_unsigned(bits % span)
                    }),
                    nulls,
                )?
            }
            Maker::Text { length, variable } => self.texts(*length, *variable, cells, nulls)?,
            Maker::Date => {
                let today = now.local_ms().div_euclid(DAY_MS) as i32;
                Arc::new(Date32Array::new(vec![today; cells.len()].into(), nulls))
            }
            Maker::Time => {
                let time = now.local_ms().rem_euclid(DAY_MS) as i32;
                Arc::new(Time32MillisecondArray::new(
                    vec![time; cells.len()].into(),
                    nulls,
                ))
            }
            Maker::Timestamp { max_past_ms } => self.timestamps(*max_past_ms, cells, now, nulls)?,
            Maker::Array { length, element } => {
                let elements: Vec<u64> = cells
                    .iter()
                    .flat_map(|cell| {
                        (0..*length as u64)
                            .map(move |place| cell.wrapping_mul(*length as u64).wrapping_add(place))
                    })
                    .collect();
                let DataType::List(field) = self.logical_type.to_arrow() else {
                    unreachable!("an ARRAY is laid out as a List");
                };
                let offsets = OffsetBuffer::from_repeated_length(*length, cells.len());
                Arc::new(ListArray::try_new(
                    field,
                    offsets,
                    element.array(&elements, now)?,
                    nulls,
                )?)
            }
            Maker::Row(fields) => {
                let DataType::Struct(names) = self.logical_type.to_arrow() else {
                    unreachable!("a ROW is laid out as a Struct");
                };
                let columns = fields
                    .iter()
                    .map(|field| field.array(cells, now))
                    .collect::<Result<Vec<_>>>()?;
                Arc::new(StructArray::try_new_with_length(
                    names,
                    columns,
                    nulls,
                    cells.len(),
                )?)
            }
        })
    }

    #[inline]
    fn draw(&self, cell: u64) -> Draw {
        self.values.row(cell)
    }

    fn null_buffer(&self, cells: &[u64]) -> Option<NullBuffer> {
        (self.null_rate > 0.0).then(|| {
            NullBuffer::new(BooleanBuffer::collect_bool(cells.len(), |row| {
                self.nulls.row(cells[row]).unit() >= self.null_rate
            }))
        })
    }

    fn sequence(&self, start: i64, cells: &[u64], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let numbers = cells.iter().map(|cell| start.wrapping_add_unsigned(*cell));
        match &self.logical_type.root {
            root if root.is_integer() => self.numbers(numbers, nulls),
            root if root.is_approximate() => self.reals(numbers.map(|number| number as f64), nulls),
            TypeRoot::Decimal { scale, .. } => {
                let unit = 10i128.pow(*scale as u32);
                self.decimals(numbers.map(|number| number as i128 * unit), nulls)
            }
            _ => {
                let texts = numbers.map(|number| number.to_string());
                let texts = StringArray::from_iter_values(texts);
                let (offsets, bytes, _) = texts.into_parts();
                Ok(Arc::new(StringArray::try_new(offsets, bytes, nulls)?))
            }
        }
    }

    fn numbers(
        &self,
        values: impl Iterator<Item = i64>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        Ok(match &self.logical_type.root {
            TypeRoot::TinyInt => Arc::new(Int8Array::new(values.map(|v| v as i8).collect(), nulls)),
            TypeRoot::SmallInt => {
                Arc::new(Int16Array::new(values.map(|v| v as i16).collect(), nulls))
            }
            TypeRoot::Int => Arc::new(Int32Array::new(values.map(|v| v as i32).collect(), nulls)),
            TypeRoot::BigInt => Arc::new(Int64Array::new(values.collect(), nulls)),
            TypeRoot::IntervalYearMonth => Arc::new(IntervalYearMonthArray::new(
                values.map(|v| v as i32).collect(),
                nulls,
            )),
            TypeRoot::IntervalDayTime => {
                Arc::new(DurationMillisecondArray::new(values.collect(), nulls))
            }
            other => return Err(self.no_values(other)),
        })
    }

    fn reals(
        &self,
        values: impl Iterator<Item = f64>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        Ok(match &self.logical_type.root {
            TypeRoot::Float => {
                Arc::new(Float32Array::new(values.map(|v| v as f32).collect(), nulls))
            }
            TypeRoot::Double => Arc::new(Float64Array::new(values.collect(), nulls)),
            other => return Err(self.no_values(other)),
        })
    }

    fn decimals(
        &self,
        values: impl Iterator<Item = i128>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let TypeRoot::Decimal { precision, scale } = self.logical_type.root else {
            return Err(self.no_values(&self.logical_type.root));
        };
        let values = Decimal128Array::new(values.collect(), nulls);
        Ok(Arc::new(
            values.with_precision_and_scale(precision, scale as i8)?,
        ))
    }

    fn texts(
        &self,
        length: usize,
        variable: bool,
        cells: &[u64],
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let as_text = self.logical_type.root.is_string();
        let mut bytes = Vec::with_capacity(cells.len() * length);
        let mut offsets = Vec::with_capacity(cells.len() + 1);
        offsets.push(0i32);
        for cell in cells {
            let mut draw = self.draw(*cell);
            let length = if variable && length > 1 {
                1 + draw.below(length as u64) as usize
            } else {
                length
            };
            let end = bytes.len() + length;
            while bytes.len() < end {
                let word = draw.bits().to_le_bytes();
                let left = (end - bytes.len()).min(8);
                bytes.extend(word[..left].iter().map(|byte| match as_text {
                    true => b"0123456789abcdef"[(byte & 15) as usize],
                    false => *byte,
                }));
            }
            offsets.push(i32::try_from(bytes.len()).map_err(|_| {
                Error::resource("a batch of generated texts is over 2 GB")
                    .hint("lower 'fields.NAME.length' or 'volley.batch.rows'")
            })?);
        }
        let offsets = OffsetBuffer::new(offsets.into());
        Ok(if as_text {
            Arc::new(StringArray::try_new(offsets, bytes.into(), nulls)?)
        } else {
            Arc::new(BinaryArray::try_new(offsets, bytes.into(), nulls)?)
        })
    }

    fn timestamps(
        &self,
        max_past_ms: u64,
        cells: &[u64],
        now: &Now,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let instant = now.instant.millis();
        let (precision, local) = match self.logical_type.root {
            TypeRoot::Timestamp(p) => (p, true),
            TypeRoot::TimestampLtz(p) => (p, false),
            ref other => return Err(self.no_values(other)),
        };
        let millis = cells.iter().map(|cell| {
            let past = match max_past_ms.checked_add(1) {
                Some(count) => self.draw(*cell).below(count),
                None => self.draw(*cell).bits(),
            };
            let instant = instant.saturating_sub_unsigned(past);
            if local {
                now.zone.to_local_millis(instant)
            } else {
                instant
            }
        });
        let zone: Option<Arc<str>> = match self.logical_type.to_arrow() {
            DataType::Timestamp(_, zone) => zone,
            _ => None,
        };
        Ok(match TypeRoot::time_unit(precision) {
            TimeUnit::Microsecond => Arc::new(
                TimestampMicrosecondArray::new(
                    millis.map(|ms| ms.saturating_mul(1_000)).collect(),
                    nulls,
                )
                .with_timezone_opt(zone),
            ),
            TimeUnit::Nanosecond => Arc::new(
                TimestampNanosecondArray::new(
                    millis.map(|ms| ms.saturating_mul(1_000_000)).collect(),
                    nulls,
                )
                .with_timezone_opt(zone),
            ),
            _ => Arc::new(
                TimestampMillisecondArray::new(millis.collect(), nulls).with_timezone_opt(zone),
            ),
        })
    }

    fn no_values(&self, root: &TypeRoot) -> Error {
        Error::internal(format!("datagen has no values of type {root}"))
    }
}
