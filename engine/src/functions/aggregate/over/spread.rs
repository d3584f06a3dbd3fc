//! VAR_POP, VAR_SAMP, STDDEV_POP and STDDEV_SAMP, with Welford's steps forwards and backwards.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::compute;
use arrow::datatypes::{DataType, Float64Type, Int64Type};

use super::super::variance::{Spread, State};
use super::{FunctionRows, OverFunction, OverScript, Validity};
use crate::error::Result;
use crate::state::Groups;

/// See the module.
pub(super) struct SpreadFunction {
    spread: Spread,
    result: DataType,
    states: Vec<State>,
}

impl SpreadFunction {
    pub(super) fn new(name: &str, result: DataType) -> Self {
        SpreadFunction {
            spread: Spread {
                sample: !name.ends_with("_POP"),
                deviation: name.starts_with("STDDEV"),
            },
            result,
            states: Vec::new(),
        }
    }
}

impl OverFunction for SpreadFunction {
    fn grow(&mut self, groups: usize) {
        self.states.resize(groups, State::default());
    }

    fn run(&mut self, script: &OverScript, rows: &FunctionRows) -> Result<ArrayRef> {
        let values = compute::cast(&rows.arguments[0], &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>().values();
        let spread = self.spread;
        let mut results = Vec::with_capacity(script.results());
        let mut valid = Validity::with_capacity(script.results());
        script.play(
            &mut self.states,
            rows.counted,
            |state, row| state.add(values[row]),
            |state, row| state.remove(values[row]),
            |state| {
                let value = state.value(spread);
                valid.push(value.is_some());
                results.push(value.unwrap_or(0.0));
            },
        );
        let results: ArrayRef = Arc::new(Float64Array::new(results.into(), valid.finish()));
        Ok(compute::cast(&results, &self.result)?)
    }

    fn reset(&mut self, groups: &[u32]) {
        for group in groups {
            self.states[*group as usize] = State::default();
        }
    }

    fn save(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let counts = groups.map(|group| self.states[group].count);
        let means = groups.map(|group| self.states[group].mean);
        let squares = groups.map(|group| self.states[group].squares);
        Ok(vec![
            Arc::new(Int64Array::from(counts)),
            Arc::new(Float64Array::from(means)),
            Arc::new(Float64Array::from(squares)),
        ])
    }

    fn load(&mut self, ids: &[u32], saved: &[ArrayRef]) -> Result<()> {
        let counts = saved[0].as_primitive::<Int64Type>().values();
        let means = saved[1].as_primitive::<Float64Type>().values();
        let squares = saved[2].as_primitive::<Float64Type>().values();
        for (row, id) in ids.iter().enumerate() {
            self.states[*id as usize] = State {
                count: counts[row],
                mean: means[row],
                squares: squares[row],
            };
        }
        Ok(())
    }

    fn saved_columns(&self) -> usize {
        3
    }

    fn size_bytes(&self) -> usize {
        self.states.capacity() * size_of::<State>()
    }
}
