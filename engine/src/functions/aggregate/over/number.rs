//! COUNT, SUM and AVG: a sum and a number of values, from which those of leaving rows are taken again.
//!
//! Integers wrap and decimals have 38 digits as in [`super::super::sum`]. Over a bounded frame a decimal sum is NULL only while it
//! is too long, and approximate sums carry their rounding errors along (as a second number), so that a frame forgets a
//! large value, an infinity or a NaN when it has left.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, PrimitiveArray};
use arrow::datatypes::*;

use super::super::sum::{Finish, LIMIT, divide_half_up};
use super::{FrameKind, FunctionRows, OverFunction, OverScript, Validity};
use crate::error::{Error, Result};
use crate::functions::AggregateCall;
use crate::state::{Groups, fixed_array};
use crate::types::{LogicalType, TypeRoot};

/// COUNT of rows that count.
#[derive(Default)]
pub(super) struct CountFunction {
    counts: Vec<i64>,
}

impl OverFunction for CountFunction {
    fn grow(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
    }

    fn run(&mut self, script: &OverScript, rows: &FunctionRows) -> Result<ArrayRef> {
        let mut results = Vec::with_capacity(script.results());
        script.play(
            &mut self.counts,
            rows.counted,
            |count, _| *count += 1,
            |count, _| *count -= 1,
            |count| results.push(*count),
        );
        Ok(Arc::new(Int64Array::from(results)))
    }

    fn reset(&mut self, groups: &[u32]) {
        groups
            .iter()
            .for_each(|group| self.counts[*group as usize] = 0);
    }

    fn save(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(Int64Array::from(
            groups.gather(&self.counts),
        ))])
    }

    fn load(&mut self, ids: &[u32], saved: &[ArrayRef]) -> Result<()> {
        let counts = saved[0].as_primitive::<Int64Type>().values();
        for (id, count) in ids.iter().zip(counts) {
            self.counts[*id as usize] = *count;
        }
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.counts.capacity() * 8
    }
}

/// SUM, AVG or $SUM0 of a number.
pub(super) fn number(
    call: &AggregateCall,
    argument: &LogicalType,
    frame: FrameKind,
) -> Result<Box<dyn OverFunction>> {
    let finish = Finishing {
        finish: match call.function.as_str() {
            "AVG" => Finish::Average,
            _ => Finish::Sum,
        },
        empty_is_zero: call.function == "$SUM0",
        data_type: call.logical_type.to_arrow(),
    };
    Ok(match (&argument.root, &call.logical_type.root) {
        (TypeRoot::Decimal { scale, .. }, TypeRoot::Decimal { scale: result, .. }) => {
            Box::new(DecimalSum {
                finish,
                frame,
                factor: 10i128.pow(result.saturating_sub(*scale) as u32),
                scale: *scale as i8,
                states: Vec::new(),
            })
        }
        (TypeRoot::Float | TypeRoot::Double, _) => Box::new(DoubleSum {
            finish,
            frame,
            states: Vec::new(),
        }),
        (root, _) if root.is_integer() => Box::new(IntegerSum {
            finish,
            states: Vec::new(),
        }),
        (root, _) => return Err(Error::internal(format!("a sum of {root}"))),
    })
}

/// How sums become results.
struct Finishing {
    finish: Finish,
    empty_is_zero: bool,
    data_type: DataType,
}

impl Finishing {
    fn is_valid(&self, count: i64) -> bool {
        count != 0 || self.empty_is_zero
    }
}

#[derive(Clone, Copy, Default)]
struct IntegerState {
    sum: i64,
    count: i64,
}

struct IntegerSum {
    finish: Finishing,
    states: Vec<IntegerState>,
}

impl IntegerSum {
    fn play<T: ArrowPrimitiveType>(&mut self, script: &OverScript, rows: &FunctionRows) -> ArrayRef
    where
        T::Native: Into<i64>,
    {
        let values = rows.arguments[0].as_primitive::<T>().values();
        let average = self.finish.finish == Finish::Average;
        let mut results = Vec::with_capacity(script.results());
        let mut valid = Validity::with_capacity(script.results());
        script.play(
            &mut self.states,
            rows.counted,
            |state, row| {
                state.sum = state.sum.wrapping_add(values[row].into());
                state.count += 1;
            },
            |state, row| {
                state.sum = state.sum.wrapping_sub(values[row].into());
                state.count -= 1;
            },
            |state| {
                valid.push(self.finish.is_valid(state.count));
                results.push(if average && state.count != 0 {
                    state.sum.wrapping_div(state.count)
                } else {
                    state.sum
                });
            },
        );
        fixed_array(&self.finish.data_type, results, valid.finish())
    }
}

impl OverFunction for IntegerSum {
    fn grow(&mut self, groups: usize) {
        self.states.resize(groups, IntegerState::default());
    }

    fn run(&mut self, script: &OverScript, rows: &FunctionRows) -> Result<ArrayRef> {
        Ok(match rows.arguments[0].data_type() {
            DataType::Int8 => self.play::<Int8Type>(script, rows),
            DataType::Int16 => self.play::<Int16Type>(script, rows),
            DataType::Int32 => self.play::<Int32Type>(script, rows),
            DataType::Int64 => self.play::<Int64Type>(script, rows),
            other => return Err(Error::internal(format!("integer SUM of {other}"))),
        })
    }

    fn reset(&mut self, groups: &[u32]) {
        for group in groups {
            self.states[*group as usize] = IntegerState::default();
        }
    }

    fn save(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let sums = groups.map(|group| self.states[group].sum);
        let counts = groups.map(|group| self.states[group].count);
        Ok(vec![
            Arc::new(Int64Array::from(sums)),
            Arc::new(Int64Array::from(counts)),
        ])
    }

    fn load(&mut self, ids: &[u32], saved: &[ArrayRef]) -> Result<()> {
        let sums = saved[0].as_primitive::<Int64Type>().values();
        let counts = saved[1].as_primitive::<Int64Type>().values();
        for (row, id) in ids.iter().enumerate() {
            self.states[*id as usize] = IntegerState {
                sum: sums[row],
                count: counts[row],
            };
        }
        Ok(())
    }

    fn saved_columns(&self) -> usize {
        2
    }

    fn size_bytes(&self) -> usize {
        self.states.capacity() * size_of::<IntegerState>()
    }
}

#[derive(Clone, Copy, Default)]
struct DoubleState {
    sum: f64,
    /// What rounding took from the sum; bounded frames only.
    rest: f64,
    count: i64,
    /// Values that are no finite numbers; bounded frames only.
    nans: u32,
    infinities: u32,
    negative_infinities: u32,
}

impl DoubleState {
    /// Adds a finite number exactly: what the sum cannot hold goes to the rest.
    #[inline(always)]
    fn shift(&mut self, value: f64) {
        let sum = self.sum + value;
        let part = sum - self.sum;
        self.rest += (self.sum - (sum - part)) + (value - part);
        self.sum = sum;
    }

    #[inline(always)]
    fn special(&mut self, value: f64) -> &mut u32 {
        if value.is_nan() {
            &mut self.nans
        } else if value > 0.0 {
            &mut self.infinities
        } else {
            &mut self.negative_infinities
        }
    }

    #[inline(always)]
    fn enter(&mut self, value: f64) {
        self.count += 1;
        if value.is_finite() {
            self.shift(value);
        } else {
            *self.special(value) += 1;
        }
    }

    #[inline(always)]
    fn leave(&mut self, value: f64) {
        self.count -= 1;
        if self.count == 0 {
            *self = DoubleState::default();
        } else if value.is_finite() {
            self.shift(-value);
        } else {
            *self.special(value) -= 1;
        }
    }

    fn value(&self) -> f64 {
        match (self.nans, self.infinities, self.negative_infinities) {
            (0, 0, 0) => self.sum + self.rest,
            (0, _, 0) => f64::INFINITY,
            (0, 0, _) => f64::NEG_INFINITY,
            _ => f64::NAN,
        }
    }
}

struct DoubleSum {
    finish: Finishing,
    frame: FrameKind,
    states: Vec<DoubleState>,
}

impl DoubleSum {
    fn play(
        &mut self,
        script: &OverScript,
        rows: &FunctionRows,
        value: impl Fn(usize) -> f64,
    ) -> ArrayRef {
        let average = self.finish.finish == Finish::Average;
        let single = self.finish.data_type == DataType::Float32;
        let in_single_steps = single && !average;
        let bounded = self.frame == FrameKind::Bounded;
        let mut results = Vec::with_capacity(script.results());
        let mut valid = Validity::with_capacity(script.results());
        script.play(
            &mut self.states,
            rows.counted,
            |state, row| {
                if bounded {
                    state.enter(value(row));
                    return;
                }
                state.count += 1;
                state.sum += value(row);
                if in_single_steps {
                    state.sum = state.sum as f32 as f64;
                }
            },
            |state, row| state.leave(value(row)),
            |state| {
                valid.push(self.finish.is_valid(state.count));
                let sum = if bounded { state.value() } else { state.sum };
                let divisor = if average { state.count as f64 } else { 1.0 };
                results.push(sum / divisor);
            },
        );
        if single {
            let results = results.into_iter().map(|value| value as f32).collect();
            return Arc::new(PrimitiveArray::<Float32Type>::new(results, valid.finish()));
        }
        Arc::new(Float64Array::new(results.into(), valid.finish()))
    }
}

impl OverFunction for DoubleSum {
    fn grow(&mut self, groups: usize) {
        self.states.resize(groups, DoubleState::default());
    }

    fn run(&mut self, script: &OverScript, rows: &FunctionRows) -> Result<ArrayRef> {
        let argument = rows.arguments[0].clone();
        Ok(match argument.data_type() {
            DataType::Float64 => {
                let values = argument.as_primitive::<Float64Type>().values();
                self.play(script, rows, |row| values[row])
            }
            DataType::Float32 => {
                let values = argument.as_primitive::<Float32Type>().values();
                self.play(script, rows, |row| values[row] as f64)
            }
            other => return Err(Error::internal(format!("approximate SUM of {other}"))),
        })
    }

    fn reset(&mut self, groups: &[u32]) {
        for group in groups {
            self.states[*group as usize] = DoubleState::default();
        }
    }

    fn save(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let sums = groups.map(|group| self.states[group].sum);
        let counts = groups.map(|group| self.states[group].count);
        Ok(vec![
            Arc::new(Float64Array::from(sums)),
            Arc::new(Int64Array::from(counts)),
        ])
    }

    fn load(&mut self, ids: &[u32], saved: &[ArrayRef]) -> Result<()> {
        let sums = saved[0].as_primitive::<Float64Type>().values();
        let counts = saved[1].as_primitive::<Int64Type>().values();
        for (row, id) in ids.iter().enumerate() {
            self.states[*id as usize] = DoubleState {
                sum: sums[row],
                count: counts[row],
                ..DoubleState::default()
            };
        }
        Ok(())
    }

    fn saved_columns(&self) -> usize {
        2
    }

    fn size_bytes(&self) -> usize {
        self.states.capacity() * size_of::<DoubleState>()
    }
}

#[derive(Clone, Copy, Default)]
struct DecimalState {
    sum: i128,
    count: i64,
    /// How often the sum went through the end of its 128 bits upwards, less downwards.
    wraps: i32,
    /// Over an unbounded frame a sum that was too long once is NULL for good.
    overflowed: bool,
}

impl DecimalState {
    fn add(&mut self, value: i128) {
        let (sum, wrapped) = self.sum.overflowing_add(value);
        self.wraps += match (wrapped, value > 0) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => -1,
        };
        self.sum = sum;
    }

    fn fits(&self) -> bool {
        !self.overflowed && self.wraps == 0 && -LIMIT < self.sum && self.sum < LIMIT
    }
}

struct DecimalSum {
    finish: Finishing,
    frame: FrameKind,
    /// What an average is multiplied by before it is divided.
    factor: i128,
    /// Of the argument and of the sum.
    scale: i8,
    states: Vec<DecimalState>,
}

impl DecimalSum {
    fn value(&self, state: &DecimalState) -> Option<i128> {
        if !state.fits() || !self.finish.is_valid(state.count) {
            return None;
        }
        match self.finish.finish {
            Finish::Sum | Finish::SumZero => Some(state.sum),
            Finish::Average => divide_half_up(state.sum, state.count as i128, self.factor),
        }
    }
}

impl OverFunction for DecimalSum {
    fn grow(&mut self, groups: usize) {
        self.states.resize(groups, DecimalState::default());
    }

    fn run(&mut self, script: &OverScript, rows: &FunctionRows) -> Result<ArrayRef> {
        let values = rows.arguments[0].as_primitive::<Decimal128Type>().values();
        let bounded = self.frame == FrameKind::Bounded;
        let mut states = std::mem::take(&mut self.states);
        let mut results = Vec::with_capacity(script.results());
        script.play(
            &mut states,
            rows.counted,
            |state, row| {
                state.add(values[row]);
                state.count += 1;
                state.overflowed |= !bounded && !state.fits();
            },
            |state, row| {
                state.add(-values[row]);
                state.count -= 1;
            },
            |state| results.push(self.value(state)),
        );
        self.states = states;
        let results: Decimal128Array = results.into_iter().collect();
        Ok(Arc::new(
            results.with_data_type(self.finish.data_type.clone()),
        ))
    }

    fn reset(&mut self, groups: &[u32]) {
        for group in groups {
            self.states[*group as usize] = DecimalState::default();
        }
    }

    fn save(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let sums = groups.map(|group| {
            let state = &self.states[group];
            state.fits().then_some(state.sum)
        });
        let sums: Decimal128Array = sums.into_iter().collect();
        let counts = groups.map(|group| self.states[group].count);
        Ok(vec![
            Arc::new(sums.with_precision_and_scale(38, self.scale)?),
            Arc::new(Int64Array::from(counts)),
        ])
    }

    fn load(&mut self, ids: &[u32], saved: &[ArrayRef]) -> Result<()> {
        let sums = saved[0].as_primitive::<Decimal128Type>();
        let counts = saved[1].as_primitive::<Int64Type>().values();
        for ((id, sum), count) in ids.iter().zip(sums).zip(counts) {
            self.states[*id as usize] = DecimalState {
                sum: sum.unwrap_or(0),
                count: *count,
                wraps: 0,
                overflowed: sum.is_none(),
            };
        }
        Ok(())
    }

    fn saved_columns(&self) -> usize {
        2
    }

    fn size_bytes(&self) -> usize {
        self.states.capacity() * size_of::<DecimalState>()
    }
}
