//! MIN and MAX. Over an unbounded frame the best value so far; over a bounded one a queue of those values that are better than
//! all behind them: the first is the best, and a value is looked at twice at most.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, AsArray, PrimitiveArray, downcast_primitive, new_null_array,
};
use arrow::compute;
use arrow::datatypes::*;
use arrow::row::{RowConverter, SortField};

use super::{FrameKind, FunctionRows, OverFunction, OverScript};
use crate::error::Result;
use crate::state::Groups;

/// The function for a type; `max` tells MAX from MIN.
pub(super) fn extreme(
    data_type: &DataType,
    max: bool,
    frame: FrameKind,
) -> Result<Box<dyn OverFunction>> {
    macro_rules! primitive {
        ($type:ty) => {
            Box::new(PrimitiveExtreme::<$type> {
                data_type: data_type.clone(),
                max,
                bounded: frame == FrameKind::Bounded,
                states: Vec::new(),
            })
        };
    }
    Ok(downcast_primitive! {
        data_type => (primitive),
        other => Box::new(EncodedExtreme {
            data_type: other.clone(),
            converter: RowConverter::new(vec![SortField::new(other.clone())])?,
            max,
            bounded: frame == FrameKind::Bounded,
            states: Vec::new(),
        }),
    })
}

/// Values that may still be the best, and how many have come and gone.
#[derive(Clone)]
struct Candidates<V> {
    values: VecDeque<(u64, V)>,
    came: u64,
    went: u64,
}

impl<V> Default for Candidates<V> {
    fn default() -> Self {
        Candidates {
            values: VecDeque::new(),
            came: 0,
            went: 0,
        }
    }
}

impl<V> Candidates<V> {
    /// `beats(a, b)`: once `a` is there, the earlier `b` will never be the best again.
    #[inline(always)]
    fn enter(&mut self, value: V, beats: impl Fn(&V, &V) -> bool) {
        while self
            .values
            .pop_back_if(|(_, last)| beats(&value, last))
            .is_some()
        {}
        self.values.push_back((self.came, value));
        self.came += 1;
    }

    /// The only value, where none ever leaves.
    #[inline(always)]
    fn keep(&mut self, value: V, is_better: impl Fn(&V, &V) -> bool) {
        match self.values.front_mut() {
            None => self.values.push_back((0, value)),
            Some((_, best)) if is_better(&value, best) => *best = value,
            _ => {}
        }
    }

    #[inline(always)]
    fn leave(&mut self) {
        let gone = self.went;
        self.values.pop_front_if(|(number, _)| *number == gone);
        self.went += 1;
        if self.went == self.came {
            (self.came, self.went) = (0, 0);
        }
    }

    #[inline(always)]
    fn best(&self) -> Option<&V> {
        self.values.front().map(|(_, value)| value)
    }

    fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.values.capacity() * size_of::<(u64, V)>()
    }
}

struct PrimitiveExtreme<T: ArrowPrimitiveType> {
    data_type: DataType,
    max: bool,
    bounded: bool,
    states: Vec<Candidates<T::Native>>,
}

impl<T: ArrowPrimitiveType> OverFunction for PrimitiveExtreme<T> {
    fn grow(&mut self, groups: usize) {
        self.states.resize(groups, Candidates::default());
    }

    fn run(&mut self, script: &OverScript, rows: &FunctionRows) -> Result<ArrayRef> {
        let values = rows.arguments[0].as_primitive::<T>().values();
        let (max, bounded) = (self.max, self.bounded);
        // Over an unbounded frame NaN neither replaces nor is replaced; over a bounded one it is the largest number.
        let is_better = |a: &T::Native, b: &T::Native| if max { a > b } else { a < b };
        let beats = |a: &T::Native, b: &T::Native| if max { a.is_ge(*b) } else { a.is_le(*b) };
        let mut results: Vec<Option<T::Native>> = Vec::with_capacity(script.results());
        script.play(
            &mut self.states,
            rows.counted,
            |state, row| match bounded {
                true => state.enter(values[row], beats),
                false => state.keep(values[row], is_better),
            },
            |state, _| state.leave(),
            |state| results.push(state.best().copied()),
        );
        let results: PrimitiveArray<T> = results.into_iter().collect();
        Ok(Arc::new(results.with_data_type(self.data_type.clone())))
    }

    fn reset(&mut self, groups: &[u32]) {
        for group in groups {
            self.states[*group as usize] = Candidates::default();
        }
    }

    fn save(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let best = groups.map(|group| self.states[group].best().copied());
        let best: PrimitiveArray<T> = best.into_iter().collect();
        Ok(vec![Arc::new(best.with_data_type(self.data_type.clone()))])
    }

    fn load(&mut self, ids: &[u32], saved: &[ArrayRef]) -> Result<()> {
        for (id, value) in ids.iter().zip(saved[0].as_primitive::<T>()) {
            if let Some(value) = value {
                self.states[*id as usize].keep(value, |_, _| true);
            }
        }
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.states.iter().map(Candidates::size_bytes).sum()
    }
}

/// Values of any other type with an order, as their `arrow-row` bytes.
struct EncodedExtreme {
    data_type: DataType,
    converter: RowConverter,
    max: bool,
    bounded: bool,
    states: Vec<Candidates<Box<[u8]>>>,
}

impl EncodedExtreme {
    fn decode(&self, values: &[Option<Box<[u8]>>]) -> Result<ArrayRef> {
        let present: Vec<&[u8]> = values.iter().flatten().map(|value| &**value).collect();
        if present.is_empty() {
            return Ok(new_null_array(&self.data_type, values.len()));
        }
        let parser = self.converter.parser();
        let rows = present.iter().map(|value| parser.parse(value));
        let decoded = self.converter.convert_rows(rows)?.remove(0);
        if present.len() == values.len() {
            return Ok(decoded);
        }
        let mut next = 0..;
        let indices: arrow::array::UInt32Array = values
            .iter()
            .map(|value| value.as_ref().and_then(|_| next.next()))
            .collect();
        Ok(compute::take(&decoded, &indices, None)?)
    }
}

impl OverFunction for EncodedExtreme {
    fn grow(&mut self, groups: usize) {
        self.states.resize(groups, Candidates::default());
    }

    fn run(&mut self, script: &OverScript, rows: &FunctionRows) -> Result<ArrayRef> {
        let encoded = self.converter.convert_columns(&rows.arguments[..1])?;
        let (max, bounded) = (self.max, self.bounded);
        let is_better = |a: &[u8], b: &[u8]| if max { a > b } else { a < b };
        let mut results = Vec::with_capacity(script.results());
        script.play(
            &mut self.states,
            rows.counted,
            |state, row| {
                let value = encoded.row(row).data();
                if bounded {
                    state.enter(value.into(), |a, b| !is_better(b, a));
                } else if state.best().is_none_or(|best| is_better(value, best)) {
                    state.keep(value.into(), |_, _| true);
                }
            },
            |state, _| state.leave(),
            |state| results.push(state.best().cloned()),
        );
        self.decode(&results)
    }

    fn reset(&mut self, groups: &[u32]) {
        for group in groups {
            self.states[*group as usize] = Candidates::default();
        }
    }

    fn save(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let best = groups.map(|group| self.states[group].best().cloned());
        Ok(vec![self.decode(&best)?])
    }

    fn load(&mut self, ids: &[u32], saved: &[ArrayRef]) -> Result<()> {
        let encoded = self.converter.convert_columns(&saved[..1])?;
        for (row, id) in ids.iter().enumerate() {
            if saved[0].is_valid(row) {
                let value = encoded.row(row).data();
                self.states[*id as usize].keep(value.into(), |_, _| true);
            }
        }
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        let bytes = |state: &Candidates<Box<[u8]>>| {
            let values: usize = state.values.iter().map(|(_, value)| value.len()).sum();
            state.size_bytes() + values
        };
        self.states.iter().map(bytes).sum()
    }
}
