//! MIN and MAX over input that only grows: the best value so far.
//!
//! A value replaces another only where the comparison says so. Every comparison with NaN is false, so NaN neither replaces
//! nor is replaced, and of 0.0 and -0.0 the first stays: what Flink's generated code does.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, PrimitiveArray, StringArray,
    downcast_primitive,
};
use arrow::datatypes::*;

use super::accumulator::{Accumulator, AggregateRows, clear};
use crate::error::{Error, Result};
use crate::state::{Groups, keep_at};

/// An accumulator for a type; `max` tells MAX from MIN.
pub(super) fn min_max(data_type: &DataType, max: bool) -> Result<Box<dyn Accumulator>> {
    macro_rules! primitive {
        ($type:ty) => {
            if max {
                Box::new(PrimitiveMinMax::<$type, true>::new(data_type.clone()))
            } else {
                Box::new(PrimitiveMinMax::<$type, false>::new(data_type.clone()))
            }
        };
    }
    Ok(downcast_primitive! {
        data_type => (primitive),
        DataType::Boolean => Box::new(BooleanMinMax { max, best: Vec::new() }),
        DataType::Utf8 | DataType::Binary => Box::new(BytesMinMax {
            max,
            text: *data_type == DataType::Utf8,
            best: Vec::new(),
            bytes: 0,
        }),
        other => return Err(Error::internal(format!("no order is defined for {other}"))),
    })
}

struct PrimitiveMinMax<T: ArrowPrimitiveType, const MAX: bool> {
    data_type: DataType,
    best: Vec<Option<T::Native>>,
}

impl<T: ArrowPrimitiveType, const MAX: bool> PrimitiveMinMax<T, MAX> {
    fn new(data_type: DataType) -> Self {
        PrimitiveMinMax {
            data_type,
            best: Vec::new(),
        }
    }

    fn array(&self, best: Vec<Option<T::Native>>) -> ArrayRef {
        let array: PrimitiveArray<T> = best.into_iter().collect();
        Arc::new(array.with_data_type(self.data_type.clone()))
    }

    #[inline(always)]
    fn offer(best: &mut Option<T::Native>, value: T::Native) {
        let better = match best {
            None => true,
            Some(best) if MAX => value > *best,
            Some(best) => value < *best,
        };
        if better {
            *best = Some(value);
        }
    }
}

impl<T: ArrowPrimitiveType, const MAX: bool> Accumulator for PrimitiveMinMax<T, MAX> {
    fn grow(&mut self, groups: usize) {
        self.best.resize(groups, None);
    }

    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()> {
        let values = rows.arguments[0].as_primitive::<T>().values();
        let best = self.best.as_mut_slice();
        rows.for_each(|row, group| Self::offer(&mut best[group], values[row]));
        Ok(())
    }

    fn accumulate_running(&mut self, rows: &AggregateRows) -> Result<ArrayRef> {
        let values = rows.arguments[0].as_primitive::<T>().values();
        let best = rows.running(
            &mut self.best,
            |best, row, _| Self::offer(best, values[row]),
            |best| *best,
        );
        Ok(self.array(best))
    }

    fn reset(&mut self, groups: &[u32]) {
        clear(&mut self.best, groups);
    }

    fn keep(&mut self, groups: &[u32]) {
        keep_at(&mut self.best, groups);
    }

    fn merge(&mut self, ids: &[u32], partials: &[ArrayRef]) -> Result<()> {
        for (id, value) in ids.iter().zip(partials[0].as_primitive::<T>()) {
            if let Some(value) = value {
                Self::offer(&mut self.best[*id as usize], value);
            }
        }
        Ok(())
    }

    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(groups)?])
    }

    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef> {
        Ok(self.array(groups.gather(&self.best)))
    }

    fn size_bytes(&self) -> usize {
        self.best.capacity() * size_of::<Option<T::Native>>()
    }
}

struct BooleanMinMax {
    max: bool,
    best: Vec<Option<bool>>,
}

impl BooleanMinMax {
    fn offer(best: &mut Option<bool>, value: bool, max: bool) {
        *best = Some(match *best {
            None => value,
            Some(best) if max => best | value,
            Some(best) => best & value,
        });
    }
}

impl Accumulator for BooleanMinMax {
    fn grow(&mut self, groups: usize) {
        self.best.resize(groups, None);
    }

    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()> {
        let values = rows.arguments[0].as_boolean().values();
        rows.for_each(|row, group| Self::offer(&mut self.best[group], values.value(row), self.max));
        Ok(())
    }

    fn accumulate_running(&mut self, rows: &AggregateRows) -> Result<ArrayRef> {
        let values = rows.arguments[0].as_boolean().values();
        let max = self.max;
        let best = rows.running(
            &mut self.best,
            |best, row, _| Self::offer(best, values.value(row), max),
            |best| *best,
        );
        Ok(Arc::new(BooleanArray::from(best)))
    }

    fn reset(&mut self, groups: &[u32]) {
        clear(&mut self.best, groups);
    }

    fn keep(&mut self, groups: &[u32]) {
        keep_at(&mut self.best, groups);
    }

    fn merge(&mut self, ids: &[u32], partials: &[ArrayRef]) -> Result<()> {
        for (id, value) in ids.iter().zip(partials[0].as_boolean()) {
            if let Some(value) = value {
                Self::offer(&mut self.best[*id as usize], value, self.max);
            }
        }
        Ok(())
    }

    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(groups)?])
    }

    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef> {
        Ok(Arc::new(BooleanArray::from(groups.gather(&self.best))))
    }

    fn size_bytes(&self) -> usize {
        self.best.capacity()
    }
}

/// Text and binary, ordered by bytes as Flink orders them.
struct BytesMinMax {
    max: bool,
    text: bool,
    best: Vec<Option<Vec<u8>>>,
    /// Bytes of all values.
    bytes: usize,
}

impl BytesMinMax {
    /// `bytes` counts those of all values.
    fn offer(best: &mut Option<Vec<u8>>, value: &[u8], max: bool, bytes: &mut usize) {
        match best {
            Some(best) => {
                let better = if max {
                    value > best.as_slice()
                } else {
                    value < best.as_slice()
                };
                if better {
                    *bytes -= best.len();
                    *bytes += value.len();
                    best.clear();
                    best.extend_from_slice(value);
                }
            }
            empty => {
                *bytes += value.len();
                *empty = Some(value.to_vec());
            }
        }
    }
}

/// The bytes of each row of a text or binary column.
pub(super) fn bytes_of<'a>(array: &'a ArrayRef) -> Box<dyn Fn(usize) -> &'a [u8] + 'a> {
    if *array.data_type() == DataType::Utf8 {
        let array = array.as_string::<i32>();
        Box::new(|row| array.value(row).as_bytes())
    } else {
        let array = array.as_binary::<i32>();
        Box::new(|row| array.value(row))
    }
}

/// Optional byte strings as a text or binary column.
pub(super) fn bytes_array<'a>(
    text: bool,
    values: impl Iterator<Item = Option<&'a [u8]>>,
) -> Result<ArrayRef> {
    if !text {
        return Ok(Arc::new(values.collect::<BinaryArray>()));
    }
    let values = values.map(|value| {
        value.map(|bytes| std::str::from_utf8(bytes).expect("text columns hold valid UTF-8"))
    });
    Ok(Arc::new(values.collect::<StringArray>()))
}

impl Accumulator for BytesMinMax {
    fn grow(&mut self, groups: usize) {
        self.best.resize(groups, None);
    }

    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()> {
        let value = bytes_of(&rows.arguments[0]);
        let BytesMinMax {
            max, best, bytes, ..
        } = self;
        rows.for_each(|row, group| Self::offer(&mut best[group], value(row), *max, bytes));
        Ok(())
    }

    fn accumulate_running(&mut self, rows: &AggregateRows) -> Result<ArrayRef> {
        let value = bytes_of(&rows.arguments[0]);
        let (max, bytes) = (self.max, &mut self.bytes);
        let best = rows.running(
            &mut self.best,
            |best, row, _| Self::offer(best, value(row), max, bytes),
            |best| best.clone(),
        );
        bytes_array(self.text, best.iter().map(Option::as_deref))
    }

    fn reset(&mut self, groups: &[u32]) {
        let gone = groups.iter().flat_map(|group| &self.best[*group as usize]);
        self.bytes -= gone.map(Vec::len).sum::<usize>();
        clear(&mut self.best, groups);
    }

    fn keep(&mut self, groups: &[u32]) {
        keep_at(&mut self.best, groups);
        self.bytes = self.best.iter().flatten().map(Vec::len).sum();
    }

    fn merge(&mut self, ids: &[u32], partials: &[ArrayRef]) -> Result<()> {
        let value = bytes_of(&partials[0]);
        for (row, id) in ids.iter().enumerate() {
            if partials[0].is_valid(row) {
                let best = &mut self.best[*id as usize];
                Self::offer(best, value(row), self.max, &mut self.bytes);
            }
        }
        Ok(())
    }

    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(groups)?])
    }

    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef> {
        let values = groups.map(|group| self.best[group].as_deref());
        bytes_array(self.text, values.into_iter())
    }

    fn size_bytes(&self) -> usize {
        self.bytes + self.best.capacity() * size_of::<Option<Vec<u8>>>()
    }
}
