//! SUM and AVG: one state, the sum beside the number of values, finished in two ways.
//!
//! Integers wrap as Java's do: SUM in the argument's width, AVG over a 64-bit sum, truncated toward zero. DECIMAL sums have
//! 38 digits; one that needs more is NULL, for good in AVG, until the next value in SUM, which begins anew as Flink's does.
//! AVG rounds half up. FLOAT is summed in 32-bit steps. The sum of no values is NULL, of $SUM0 it is 0.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, PrimitiveArray};
use arrow::compute;
use arrow::datatypes::*;

use super::accumulator::{Accumulator, AggregateRows, clear, nulls_where};
use crate::error::{Error, Result};
use crate::state::{Groups, keep_at};

/// How a state becomes a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    Sum,
    /// 0 over no values.
    SumZero,
    Average,
}

/// Sum and number of values, side by side so that a row touches one cache line.
#[derive(Clone, Copy, Default)]
struct State<T> {
    sum: T,
    count: i64,
}

fn counts<T>(states: &[State<T>], groups: &Groups) -> ArrayRef {
    Arc::new(Int64Array::from(groups.map(|group| states[group].count)))
}

impl Finish {
    /// Whether so many values have a result.
    fn is_valid(self, count: i64) -> bool {
        count != 0 || self == Finish::SumZero
    }
}

/// SUM or AVG of TINYINT, SMALLINT, INT, BIGINT; the sum is kept in 64 bits, of which the result takes the lower ones.
pub(super) struct IntegerSumAccumulator {
    result: DataType,
    finish: Finish,
    states: Vec<State<i64>>,
}

impl IntegerSumAccumulator {
    pub(super) fn new(finish: Finish, result: DataType) -> Self {
        IntegerSumAccumulator {
            result,
            finish,
            states: Vec::new(),
        }
    }

    fn add<T: ArrowPrimitiveType>(&mut self, rows: &AggregateRows)
    where
        T::Native: Into<i64>,
    {
        let values = rows.arguments[0].as_primitive::<T>().values();
        let states = self.states.as_mut_slice();
        rows.for_each_weighted(|row, group, weight| states[group].add(values[row].into(), weight));
    }

    fn add_running<T: ArrowPrimitiveType>(&mut self, rows: &AggregateRows) -> Vec<State<i64>>
    where
        T::Native: Into<i64>,
    {
        let values = rows.arguments[0].as_primitive::<T>().values();
        rows.running(
            &mut self.states,
            |state, row, weight| state.add(values[row].into(), weight),
            |state| *state,
        )
    }

    fn finished(&self, states: &[State<i64>]) -> ArrayRef {
        let nulls = nulls_where(states, |state| self.finish.is_valid(state.count));
        let values = states.iter().map(|state| match self.finish {
            Finish::Sum | Finish::SumZero => state.sum,
            Finish::Average if state.count == 0 => 0,
            Finish::Average => state.sum.wrapping_div(state.count),
        });
        match self.result {
            DataType::Int8 => Arc::new(PrimitiveArray::<Int8Type>::new(
                values.map(|value| value as i8).collect(),
                nulls,
            )),
            DataType::Int16 => Arc::new(PrimitiveArray::<Int16Type>::new(
                values.map(|value| value as i16).collect(),
                nulls,
            )),
            DataType::Int32 => Arc::new(PrimitiveArray::<Int32Type>::new(
                values.map(|value| value as i32).collect(),
                nulls,
            )),
            _ => Arc::new(Int64Array::new(values.collect(), nulls)),
        }
    }
}

impl State<i64> {
    #[inline(always)]
    fn add(&mut self, value: i64, weight: i64) {
        self.sum = self.sum.wrapping_add(value.wrapping_mul(weight));
        self.count += weight;
    }
}

impl Accumulator for IntegerSumAccumulator {
    fn grow(&mut self, groups: usize) {
        self.states.resize(groups, State::default());
    }

    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()> {
        match rows.arguments[0].data_type() {
            DataType::Int8 => self.add::<Int8Type>(rows),
            DataType::Int16 => self.add::<Int16Type>(rows),
            DataType::Int32 => self.add::<Int32Type>(rows),
            DataType::Int64 => self.add::<Int64Type>(rows),
            other => return Err(Error::internal(format!("integer SUM of {other}"))),
        }
        Ok(())
    }

    fn accumulate_running(&mut self, rows: &AggregateRows) -> Result<ArrayRef> {
        let states = match rows.arguments[0].data_type() {
            DataType::Int8 => self.add_running::<Int8Type>(rows),
            DataType::Int16 => self.add_running::<Int16Type>(rows),
            DataType::Int32 => self.add_running::<Int32Type>(rows),
            DataType::Int64 => self.add_running::<Int64Type>(rows),
            other => return Err(Error::internal(format!("integer SUM of {other}"))),
        };
        Ok(self.finished(&states))
    }

    fn reset(&mut self, groups: &[u32]) {
        clear(&mut self.states, groups);
    }

    fn keep(&mut self, groups: &[u32]) {
        keep_at(&mut self.states, groups);
    }

    fn merge(&mut self, ids: &[u32], partials: &[ArrayRef]) -> Result<()> {
        let sums = partials[0].as_primitive::<Int64Type>().values();
        let counts = partials[1].as_primitive::<Int64Type>().values();
        for ((id, sum), count) in ids.iter().zip(sums).zip(counts) {
            let state = &mut self.states[*id as usize];
            state.sum = state.sum.wrapping_add(*sum);
            state.count += count;
        }
        Ok(())
    }

    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let sums = groups.map(|group| self.states[group].sum);
        Ok(vec![
            Arc::new(Int64Array::from(sums)),
            counts(&self.states, groups),
        ])
    }

    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef> {
        Ok(self.finished(&groups.gather(&self.states)))
    }

    fn size_bytes(&self) -> usize {
        self.states.capacity() * size_of::<State<i64>>()
    }
}

/// SUM or AVG of FLOAT and DOUBLE.
pub(super) struct DoubleSumAccumulator {
    result: DataType,
    finish: Finish,
    states: Vec<State<f64>>,
}

impl DoubleSumAccumulator {
    pub(super) fn new(finish: Finish, result: DataType) -> Self {
        DoubleSumAccumulator {
            result,
            finish,
            states: Vec::new(),
        }
    }

    fn finished(&self, states: &[State<f64>]) -> ArrayRef {
        let nulls = nulls_where(states, |state| self.finish.is_valid(state.count));
        let values = states.iter().map(|state| match self.finish {
            Finish::Sum | Finish::SumZero => state.sum,
            Finish::Average => state.sum / state.count as f64,
        });
        if self.result == DataType::Float32 {
            let values = values.map(|value| value as f32).collect();
            Arc::new(PrimitiveArray::<Float32Type>::new(values, nulls))
        } else {
            Arc::new(Float64Array::new(values.collect(), nulls))
        }
    }

    /// Whether each step of the sum is rounded to 32 bits.
    fn is_single(&self) -> bool {
        self.finish != Finish::Average && self.result == DataType::Float32
    }
}

impl Accumulator for DoubleSumAccumulator {
    fn grow(&mut self, groups: usize) {
        self.states.resize(groups, State::default());
    }

    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()> {
        let single = self.is_single();
        let states = self.states.as_mut_slice();
        match rows.arguments[0].data_type() {
            DataType::Float64 => {
                let values = rows.arguments[0].as_primitive::<Float64Type>().values();
                rows.for_each_weighted(|row, group, weight| {
                    states[group].add(values[row], weight, false)
                });
            }
            DataType::Float32 => {
                let values = rows.arguments[0].as_primitive::<Float32Type>().values();
                rows.for_each_weighted(|row, group, weight| {
                    states[group].add(values[row] as f64, weight, single)
                });
            }
            other => return Err(Error::internal(format!("approximate SUM of {other}"))),
        }
        Ok(())
    }

    fn accumulate_running(&mut self, rows: &AggregateRows) -> Result<ArrayRef> {
        let single = self.is_single();
        let values = compute::cast(&rows.arguments[0], &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>().values();
        let states = rows.running(
            &mut self.states,
            |state, row, weight| state.add(values[row], weight, single),
            |state| *state,
        );
        Ok(self.finished(&states))
    }

    fn reset(&mut self, groups: &[u32]) {
        clear(&mut self.states, groups);
    }

    fn keep(&mut self, groups: &[u32]) {
        keep_at(&mut self.states, groups);
    }

    fn merge(&mut self, ids: &[u32], partials: &[ArrayRef]) -> Result<()> {
        let single = self.is_single();
        let sums = partials[0].as_primitive::<Float64Type>().values();
        let counts = partials[1].as_primitive::<Int64Type>().values();
        for ((id, more), count) in ids.iter().zip(sums).zip(counts) {
            let state = &mut self.states[*id as usize];
            let sum = state.sum + more;
            state.sum = if single { sum as f32 as f64 } else { sum };
            state.count += count;
        }
        Ok(())
    }

    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let sums = groups.map(|group| self.states[group].sum);
        Ok(vec![
            Arc::new(Float64Array::from(sums)),
            counts(&self.states, groups),
        ])
    }

    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef> {
        Ok(self.finished(&groups.gather(&self.states)))
    }

    fn size_bytes(&self) -> usize {
        self.states.capacity() * size_of::<State<f64>>()
    }
}

impl State<f64> {
    #[inline(always)]
    fn add(&mut self, value: f64, weight: i64, single: bool) {
        let sum = self.sum + value * weight as f64;
        self.sum = if single { sum as f32 as f64 } else { sum };
        self.count += weight;
    }
}

/// SUM or AVG of DECIMAL; the sum has the argument's scale and 38 digits.
pub(super) struct DecimalSumAccumulator {
    scale: i8,
    result_scale: i8,
    finish: Finish,
    states: Vec<State<i128>>,
}

/// The sum that needed more than 38 digits; no decimal has this value.
const OVERFLOWED: i128 = i128::MIN;
/// 10^38: the first number of 39 digits.
pub(super) const LIMIT: i128 = 100_000_000_000_000_000_000_000_000_000_000_000_000;

fn add_decimals(sum: i128, value: i128) -> i128 {
    match sum.checked_add(value) {
        Some(total)
            if sum != OVERFLOWED && value != OVERFLOWED && -LIMIT < total && total < LIMIT =>
        {
            total
        }
        _ => OVERFLOWED,
    }
}

impl State<i128> {
    #[inline(always)]
    fn add(&mut self, value: i128, weight: i64, finish: Finish) {
        // Flink's SUM keeps a sum that may be NULL, and sets a NULL anew.
        self.sum = if self.sum == OVERFLOWED && finish == Finish::Sum {
            value
        } else {
            add_decimals(self.sum, value)
        };
        self.count += weight;
    }

    /// Adds a partial whose sum is NULL: what was summed beside it stays in SUM.
    fn merge_overflowed(&mut self, count: i64, finish: Finish) {
        let is_empty = self.sum == 0 && self.count == 0;
        if is_empty || finish != Finish::Sum {
            self.sum = OVERFLOWED;
        }
        self.count += count;
    }
}

impl DecimalSumAccumulator {
    pub(super) fn new(finish: Finish, scale: i8, result_scale: i8) -> Self {
        DecimalSumAccumulator {
            scale,
            result_scale,
            finish,
            states: Vec::new(),
        }
    }

    fn finished(&self, states: &[State<i128>]) -> Result<ArrayRef> {
        let values = states.iter().map(|state| self.value(*state));
        let array = values.collect::<Decimal128Array>();
        let array = array.with_precision_and_scale(38, self.result_scale)?;
        Ok(Arc::new(array))
    }

    fn value(&self, state: State<i128>) -> Option<i128> {
        if !self.finish.is_valid(state.count) || state.sum == OVERFLOWED {
            return None;
        }
        match self.finish {
            Finish::Sum | Finish::SumZero => Some(state.sum),
            Finish::Average => {
                let factor = 10i128.pow((self.result_scale - self.scale).max(0) as u32);
                divide_half_up(state.sum, state.count as i128, factor)
            }
        }
    }
}

/// `sum * factor / count`, rounded half away from zero; `None` beyond 38 digits. The product may exceed 128 bits, so the whole
/// part and the rest are scaled apart.
pub(super) fn divide_half_up(sum: i128, count: i128, factor: i128) -> Option<i128> {
    let whole = (sum / count).checked_mul(factor)?;
    let rest = (sum % count) * factor;
    let mut quotient = rest / count;
    if 2 * (rest % count).abs() >= count.abs() {
        quotient += if (rest < 0) == (count < 0) { 1 } else { -1 };
    }
    let total = whole.checked_add(quotient)?;
    (-LIMIT < total && total < LIMIT).then_some(total)
}

impl Accumulator for DecimalSumAccumulator {
    fn grow(&mut self, groups: usize) {
        self.states.resize(groups, State::default());
    }

    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()> {
        let values = rows.arguments[0].as_primitive::<Decimal128Type>().values();
        let (states, finish) = (self.states.as_mut_slice(), self.finish);
        rows.for_each_weighted(|row, group, weight| {
            states[group].add(values[row] * weight as i128, weight, finish)
        });
        Ok(())
    }

    fn accumulate_running(&mut self, rows: &AggregateRows) -> Result<ArrayRef> {
        let values = rows.arguments[0].as_primitive::<Decimal128Type>().values();
        let finish = self.finish;
        let states = rows.running(
            &mut self.states,
            |state, row, weight| state.add(values[row] * weight as i128, weight, finish),
            |state| *state,
        );
        self.finished(&states)
    }

    fn reset(&mut self, groups: &[u32]) {
        clear(&mut self.states, groups);
    }

    fn keep(&mut self, groups: &[u32]) {
        keep_at(&mut self.states, groups);
    }

    fn merge(&mut self, ids: &[u32], partials: &[ArrayRef]) -> Result<()> {
        let sums = partials[0].as_primitive::<Decimal128Type>();
        let counts = partials[1].as_primitive::<Int64Type>().values();
        for ((id, sum), count) in ids.iter().zip(sums).zip(counts) {
            let state = &mut self.states[*id as usize];
            match sum {
                Some(sum) => state.add(sum, *count, self.finish),
                None => state.merge_overflowed(*count, self.finish),
            }
        }
        Ok(())
    }

    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let states = groups.gather(&self.states);
        let nulls = nulls_where(&states, |state| state.sum != OVERFLOWED);
        let sums: Vec<i128> = states.iter().map(|state| state.sum).collect();
        let sums =
            Decimal128Array::new(sums.into(), nulls).with_precision_and_scale(38, self.scale)?;
        Ok(vec![Arc::new(sums), counts(&self.states, groups)])
    }

    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef> {
        self.finished(&groups.gather(&self.states))
    }

    fn size_bytes(&self) -> usize {
        self.states.capacity() * size_of::<State<i128>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_averages_round_half_away_from_zero() {
        assert_eq!(divide_half_up(1, 2, 1), Some(1));
        assert_eq!(divide_half_up(-1, 2, 1), Some(-1));
        assert_eq!(divide_half_up(-1, 3, 1000), Some(-333));
        assert_eq!(divide_half_up(2, 3, 1000), Some(667));
        assert_eq!(divide_half_up(LIMIT - 1, 1, 10), None);
    }

    #[test]
    fn a_decimal_sum_of_39_digits_is_null_for_good() {
        assert_eq!(add_decimals(LIMIT - 1, 1), OVERFLOWED);
        assert_eq!(add_decimals(OVERFLOWED, -1), OVERFLOWED);
        assert_eq!(add_decimals(1 - LIMIT, LIMIT - 1), 0);
    }
}
