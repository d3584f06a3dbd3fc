//! ROW_NUMBER, RANK and DENSE_RANK as running functions: how many rows, times or both have come before.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;

use super::{FunctionRows, OverFunction, OverScript};
use crate::error::Result;
use crate::state::Groups;

/// Which of them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ranking {
    RowNumber,
    Rank,
    DenseRank,
}

#[derive(Clone, Copy, Default)]
struct State {
    rows: i64,
    /// The number of the first row of this time.
    rank: i64,
    /// The number of times.
    times: i64,
    time: i64,
}

/// See the module.
pub(super) struct RankingFunction {
    ranking: Ranking,
    states: Vec<State>,
}

impl RankingFunction {
    pub(super) fn new(ranking: Ranking) -> Self {
        RankingFunction {
            ranking,
            states: Vec::new(),
        }
    }
}

impl OverFunction for RankingFunction {
    fn grow(&mut self, groups: usize) {
        self.states.resize(groups, State::default());
    }

    fn run(&mut self, script: &OverScript, rows: &FunctionRows) -> Result<ArrayRef> {
        let times = script.times();
        let ranking = self.ranking;
        let mut results = Vec::with_capacity(script.results());
        script.play(
            &mut self.states,
            rows.counted,
            |state, row| {
                state.rows += 1;
                if state.rows == 1 || state.time != times[row] {
                    state.time = times[row];
                    state.rank = state.rows;
                    state.times += 1;
                }
            },
            |_, _| {},
            |state| {
                results.push(match ranking {
                    Ranking::RowNumber => state.rows,
                    Ranking::Rank => state.rank,
                    Ranking::DenseRank => state.times,
                })
            },
        );
        Ok(Arc::new(Int64Array::from(results)))
    }

    fn reset(&mut self, groups: &[u32]) {
        for group in groups {
            self.states[*group as usize] = State::default();
        }
    }

    fn save(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let of = |part: fn(&State) -> i64| -> ArrayRef {
            let values = groups.map(|group| part(&self.states[group]));
            Arc::new(Int64Array::from(values))
        };
        Ok(vec![
            of(|state| state.rows),
            of(|state| state.rank),
            of(|state| state.times),
            of(|state| state.time),
        ])
    }

    fn load(&mut self, ids: &[u32], saved: &[ArrayRef]) -> Result<()> {
        let part = |column: usize| saved[column].as_primitive::<Int64Type>().values();
        for (row, id) in ids.iter().enumerate() {
            self.states[*id as usize] = State {
                rows: part(0)[row],
                rank: part(1)[row],
                times: part(2)[row],
                time: part(3)[row],
            };
        }
        Ok(())
    }

    fn saved_columns(&self) -> usize {
        4
    }

    fn size_bytes(&self) -> usize {
        self.states.capacity() * size_of::<State>()
    }
}
