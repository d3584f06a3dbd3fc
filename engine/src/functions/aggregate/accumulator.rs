//! The contract of an aggregate function's state: typed columns indexed by group id, filled batch by batch.

use arrow::array::ArrayRef;
use arrow::buffer::{BooleanBuffer, NullBuffer};

use crate::error::Result;
use crate::state::Groups;

/// The rows that an accumulator folds.
#[derive(Clone, Copy)]
pub struct AggregateRows<'a> {
    /// The group of each row.
    pub ids: &'a [u32],
    /// The arguments of the function, as long as `ids`.
    pub arguments: &'a [ArrayRef],
    /// +1 for rows that come, -1 for rows that are taken back; absent where all come.
    pub weights: Option<&'a [i8]>,
    /// The rows that count: FILTER is true and no argument is NULL. Absent where all do.
    pub mask: Option<&'a BooleanBuffer>,
}

/// The states of one aggregate function for many groups.
///
/// Groups are numbered from 0; [`Accumulator::grow`] makes them before they are named. A *partial* is a state as columns: it
/// travels from the local to the global phase, between slices and windows, and into snapshots.
pub trait Accumulator: Send {
    /// Makes room for the groups `0 .. groups`; new ones are empty.
    fn grow(&mut self, groups: usize);

    /// Folds rows into their groups.
    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()>;

    /// Folds rows as [`Accumulator::accumulate`] does. Returns for each row, whether it counts or not, the result of its group
    /// right behind it: what a changelog shows record by record.
    fn accumulate_running(&mut self, rows: &AggregateRows) -> Result<ArrayRef>;

    /// Makes groups empty again.
    fn reset(&mut self, groups: &[u32]);

    /// Forgets all groups but these, given ascending, which get the numbers of their places here.
    fn keep(&mut self, groups: &[u32]);

    /// Folds partials into the groups `ids`; `partials` are columns as [`Accumulator::partials`] makes them.
    fn merge(&mut self, ids: &[u32], partials: &[ArrayRef]) -> Result<()>;

    /// The states of groups as columns.
    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>>;

    /// The results of groups.
    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef>;

    /// Bytes held.
    fn size_bytes(&self) -> usize;
}

impl AggregateRows<'_> {
    /// Calls `fold(row, group)` for each row that counts, in order.
    #[inline(always)]
    pub(super) fn for_each(&self, mut fold: impl FnMut(usize, usize)) {
        match self.mask {
            None => (0..self.ids.len()).for_each(|row| fold(row, self.ids[row] as usize)),
            Some(mask) => mask
                .set_indices()
                .for_each(|row| fold(row, self.ids[row] as usize)),
        }
    }

    /// Calls `fold(state, row, weight)` for each row that counts, and collects the `value` of its group's state behind each
    /// row, in order.
    #[inline(always)]
    pub(super) fn running<S, T>(
        &self,
        states: &mut [S],
        mut fold: impl FnMut(&mut S, usize, i64),
        mut value: impl FnMut(&S) -> T,
    ) -> Vec<T> {
        let mut each = |row: usize, counts: bool, weight: i64| {
            let state = &mut states[self.ids[row] as usize];
            if counts {
                fold(state, row, weight);
            }
            value(state)
        };
        let rows = 0..self.ids.len();
        match (self.mask, self.weights) {
            (None, None) => rows.map(|row| each(row, true, 1)).collect(),
            (Some(mask), None) => rows.map(|row| each(row, mask.value(row), 1)).collect(),
            (None, Some(weights)) => rows
                .map(|row| each(row, true, weights[row] as i64))
                .collect(),
            (Some(mask), Some(weights)) => rows
                .map(|row| each(row, mask.value(row), weights[row] as i64))
                .collect(),
        }
    }

    /// Calls `fold(row, group, weight)` for each row that counts, in order. Without weights the loop is compiled for 1.
    #[inline(always)]
    pub(super) fn for_each_weighted(&self, mut fold: impl FnMut(usize, usize, i64)) {
        match self.weights {
            None => self.for_each(|row, group| fold(row, group, 1)),
            Some(weights) => self.for_each(|row, group| fold(row, group, weights[row] as i64)),
        }
    }
}

/// The NULL buffer of a result: valid where `valid(state)` holds; `None` where it holds for all.
pub(super) fn nulls_where<S>(states: &[S], valid: impl Fn(&S) -> bool) -> Option<NullBuffer> {
    if states.iter().all(&valid) {
        return None;
    }
    let bits = BooleanBuffer::collect_bool(states.len(), |row| valid(&states[row]));
    Some(NullBuffer::new(bits))
}

/// Makes the states of groups empty again.
pub(super) fn clear<S: Default>(states: &mut [S], groups: &[u32]) {
    for group in groups {
        states[*group as usize] = S::default();
    }
}
