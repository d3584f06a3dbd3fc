//! FIRST_VALUE and LAST_VALUE over input that only grows: the first or last value that is not NULL, in order of arrival.
//! Also SINGLE_VALUE, the one value of a scalar subquery.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use std::sync::Arc;

use super::accumulator::{Accumulator, AggregateRows, clear};
use super::codec::{Codec, FixedCodec, RowCodec};
use crate::error::{Error, Result};
use crate::state::{Groups, is_fixed, keep_at};

/// FIRST_VALUE or LAST_VALUE of a type.
pub(super) fn first_last_value(data_type: &DataType, last: bool) -> Result<Box<dyn Accumulator>> {
    Ok(if is_fixed(data_type) {
        Box::new(FirstLastValue {
            last,
            codec: FixedCodec(data_type.clone()),
            values: Vec::new(),
        })
    } else {
        Box::new(FirstLastValue {
            last,
            codec: RowCodec::new(data_type)?,
            values: Vec::new(),
        })
    })
}

struct FirstLastValue<C: Codec> {
    last: bool,
    codec: C,
    values: Vec<Option<C::Key>>,
}

impl<C: Codec> FirstLastValue<C> {
    fn offer(value: &mut Option<C::Key>, new: Option<C::Key>, last: bool) {
        if last || value.is_none() {
            *value = new;
        }
    }

    fn array(&self, values: &[Option<C::Key>]) -> Result<ArrayRef> {
        let values: Vec<Option<&C::Key>> = values.iter().map(Option::as_ref).collect();
        self.codec.decode_options(&values)
    }

    fn encode(&self, values: &ArrayRef) -> Result<Vec<Option<C::Key>>> {
        let keys = self.codec.encode(values)?;
        Ok(keys.into_iter().map(Some).collect())
    }
}

impl<C: Codec> Accumulator for FirstLastValue<C> {
    fn grow(&mut self, groups: usize) {
        self.values.resize(groups, None);
    }

    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()> {
        let mut keys = self.encode(&rows.arguments[0])?;
        rows.for_each(|row, group| {
            Self::offer(&mut self.values[group], keys[row].take(), self.last);
        });
        Ok(())
    }

    fn accumulate_running(&mut self, rows: &AggregateRows) -> Result<ArrayRef> {
        let mut keys = self.encode(&rows.arguments[0])?;
        let last = self.last;
        let values = rows.running(
            &mut self.values,
            |value, row, _| Self::offer(value, keys[row].take(), last),
            |value| value.clone(),
        );
        self.array(&values)
    }

    fn reset(&mut self, groups: &[u32]) {
        clear(&mut self.values, groups);
    }

    fn keep(&mut self, groups: &[u32]) {
        keep_at(&mut self.values, groups);
    }

    fn merge(&mut self, ids: &[u32], partials: &[ArrayRef]) -> Result<()> {
        let mut keys = self.encode(&partials[0])?;
        for (row, id) in ids.iter().enumerate() {
            if partials[0].is_valid(row) {
                Self::offer(&mut self.values[*id as usize], keys[row].take(), self.last);
            }
        }
        Ok(())
    }

    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(groups)?])
    }

    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef> {
        let values = groups.map(|group| self.values[group].as_ref());
        self.codec.decode_options(&values)
    }

    fn size_bytes(&self) -> usize {
        // The bytes behind pointers are guessed: walking them would cost more than the number is worth.
        self.values.capacity() * (size_of::<Option<C::Key>>() + 8)
    }
}

/// The only value of each group; a second one is an error.
pub(super) struct SingleValue {
    codec: RowCodec,
    counts: Vec<i64>,
    values: Vec<Option<Box<[u8]>>>,
}

impl SingleValue {
    pub(super) fn new(data_type: &DataType) -> Result<Self> {
        Ok(SingleValue {
            codec: RowCodec::new(data_type)?,
            counts: Vec::new(),
            values: Vec::new(),
        })
    }

    fn change(&mut self, group: usize, value: &[u8], weight: i64) -> Result<()> {
        let count = &mut self.counts[group];
        *count += weight;
        if *count > 1 {
            return Err(Error::data(
                "SINGLE_VALUE received more than one element: a scalar subquery gave more than one row",
            ));
        }
        if *count == 1 {
            self.values[group] = Some(value.into());
        } else if *count == 0 {
            self.values[group] = None;
        }
        Ok(())
    }
}

impl Accumulator for SingleValue {
    fn grow(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
        self.values.resize(groups, None);
    }

    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()> {
        self.accumulate_running(rows).map(drop)
    }

    fn accumulate_running(&mut self, rows: &AggregateRows) -> Result<ArrayRef> {
        let keys = self.codec.encode(&rows.arguments[0])?;
        let mut behind = Vec::with_capacity(keys.len());
        for (row, group) in rows.ids.iter().enumerate() {
            let group = *group as usize;
            if rows.mask.is_none_or(|mask| mask.value(row)) {
                let weight = rows.weights.map_or(1, |weights| weights[row] as i64);
                self.change(group, &keys[row], weight)?;
            }
            behind.push(self.values[group].clone());
        }
        let behind: Vec<_> = behind.iter().map(Option::as_ref).collect();
        self.codec.decode_options(&behind)
    }

    fn reset(&mut self, groups: &[u32]) {
        clear(&mut self.counts, groups);
        clear(&mut self.values, groups);
    }

    fn keep(&mut self, groups: &[u32]) {
        keep_at(&mut self.counts, groups);
        keep_at(&mut self.values, groups);
    }

    fn merge(&mut self, ids: &[u32], partials: &[ArrayRef]) -> Result<()> {
        let keys = self.codec.encode(&partials[0])?;
        let counts = partials[1].as_primitive::<Int64Type>().values();
        for (row, id) in ids.iter().enumerate() {
            self.change(*id as usize, &keys[row], counts[row])?;
        }
        Ok(())
    }

    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let counts = groups.gather(&self.counts);
        Ok(vec![
            self.evaluate(groups)?,
            Arc::new(Int64Array::from(counts)),
        ])
    }

    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef> {
        let values = groups.map(|group| self.values[group].as_ref());
        self.codec.decode_options(&values)
    }

    fn size_bytes(&self) -> usize {
        self.values.capacity() * 32
    }
}
