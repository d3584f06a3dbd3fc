//! VAR_POP, VAR_SAMP, STDDEV_POP, STDDEV_SAMP: Welford's running mean and sum of squared distances, which do not cancel.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::compute;
use arrow::datatypes::{DataType, Float64Type, Int64Type};

use super::accumulator::{Accumulator, AggregateRows, clear};
use crate::error::Result;
use crate::state::{Groups, keep_at};

/// Which of the four.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    /// Divide by n - 1 rather than n.
    pub(super) sample: bool,
    /// Take the root.
    pub(super) deviation: bool,
}

#[derive(Clone, Copy, Default)]
pub(super) struct State {
    pub(super) count: i64,
    pub(super) mean: f64,
    pub(super) squares: f64,
}

impl State {
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
    }

    fn change(&mut self, value: f64, weight: i64) {
        if weight > 0 {
            self.add(value);
        } else {
            self.remove(value);
        }
    }

    pub(super) fn remove(&mut self, value: f64) {
        self.count -= 1;
        if self.count == 0 {
            *self = State::default();
            return;
        }
        let distance = value - self.mean;
        self.mean -= distance / self.count as f64;
        self.squares -= distance * (value - self.mean);
    }

    fn merge(&mut self, other: State) {
        let count = self.count + other.count;
        if self.count == 0 {
            // As it is: products of great numbers with 0 are no numbers.
            *self = other;
            return;
        }
        if other.count == 0 || count == 0 {
            return;
        }
        let distance = other.mean - self.mean;
        let share = other.count as f64 / count as f64;
        self.squares += other.squares + distance * distance * self.count as f64 * share;
        self.mean += distance * share;
        self.count = count;
    }

    /// The result; `None` where there are too few values.
    pub(super) fn value(&self, spread: Spread) -> Option<f64> {
        let divisor = self.count - spread.sample as i64;
        if divisor < 1 {
            return None;
        }
        let variance = (self.squares / divisor as f64).max(0.0);
        Some(if spread.deviation {
            variance.sqrt()
        } else {
            variance
        })
    }
}

/// The states of one of the four functions over values that can be cast to DOUBLE.
pub(super) struct VarianceAccumulator {
    spread: Spread,
    result: DataType,
    states: Vec<State>,
}

impl VarianceAccumulator {
    pub(super) fn new(spread: Spread, result: DataType) -> Self {
        VarianceAccumulator {
            spread,
            result,
            states: Vec::new(),
        }
    }

    fn finish(&self, states: &[State]) -> Result<ArrayRef> {
        let values = states.iter().map(|state| state.value(self.spread));
        let values: ArrayRef = Arc::new(Float64Array::from_iter(values));
        Ok(compute::cast(&values, &self.result)?)
    }
}

impl Accumulator for VarianceAccumulator {
    fn grow(&mut self, groups: usize) {
        self.states.resize(groups, State::default());
    }

    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()> {
        let values = compute::cast(&rows.arguments[0], &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>().values();
        rows.for_each_weighted(|row, group, weight| self.states[group].change(values[row], weight));
        Ok(())
    }

    fn accumulate_running(&mut self, rows: &AggregateRows) -> Result<ArrayRef> {
        let values = compute::cast(&rows.arguments[0], &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>().values();
        let states = rows.running(
            &mut self.states,
            |state, row, weight| state.change(values[row], weight),
            |state| *state,
        );
        self.finish(&states)
    }

    fn reset(&mut self, groups: &[u32]) {
        clear(&mut self.states, groups);
    }

    fn keep(&mut self, groups: &[u32]) {
        keep_at(&mut self.states, groups);
    }

    fn merge(&mut self, ids: &[u32], partials: &[ArrayRef]) -> Result<()> {
        let counts = partials[0].as_primitive::<Int64Type>().values();
        let means = partials[1].as_primitive::<Float64Type>().values();
        let squares = partials[2].as_primitive::<Float64Type>().values();
        for (row, id) in ids.iter().enumerate() {
            self.states[*id as usize].merge(State {
                count: counts[row],
                mean: means[row],
                squares: squares[row],
            });
        }
        Ok(())
    }

    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let of = |field: fn(&State) -> f64| -> ArrayRef {
            Arc::new(Float64Array::from(
                groups.map(|group| field(&self.states[group])),
            ))
        };
        let counts = groups.map(|group| self.states[group].count);
        Ok(vec![
            Arc::new(Int64Array::from(counts)),
            of(|state| state.mean),
            of(|state| state.squares),
        ])
    }

    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef> {
        self.finish(&groups.gather(&self.states))
    }

    fn size_bytes(&self) -> usize {
        self.states.capacity() * size_of::<State>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_and_merging_agree_with_adding() {
        let mut whole = State::default();
        let (mut left, mut right) = (State::default(), State::default());
        for value in [1.0, 4.0, 9.0, 16.0] {
            whole.add(value);
            if value < 5.0 { &mut left } else { &mut right }.add(value);
        }
        left.add(100.0);
        left.remove(100.0);
        left.merge(right);
        assert_eq!(left.count, whole.count);
        assert!(
            (left.mean - whole.mean).abs() < 1e-12 && (left.squares - whole.squares).abs() < 1e-9
        );
    }
}
