//! The contract of an aggregate function's state: typed columns indexed by group id, filled batch by batch.

use arrow::array::{ArrayRef, BooleanBufferBuilder};
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

    /// Calls `fold(row, group, weight)` for each row that counts, in order. Without weights the loop is compiled for 1.
    #[inline(always)]
    pub(super) fn for_each_weighted(&self, mut fold: impl FnMut(usize, usize, i64)) {
        match self.weights {
            None => self.for_each(|row, group| fold(row, group, 1)),
            Some(weights) => self.for_each(|row, group| fold(row, group, weights[row] as i64)),
        }
    }
}

/// The NULL buffer of a result: valid where `valid(group)` holds; `None` where it holds for all.
pub(super) fn nulls_where(groups: &Groups, valid: impl Fn(usize) -> bool) -> Option<NullBuffer> {
    let mut all = true;
    groups.map(|group| all &= valid(group));
    if all {
        return None;
    }
    let mut bits = BooleanBufferBuilder::new(groups.len());
    groups.map(|group| bits.append(valid(group)));
    Some(NullBuffer::new(bits.finish()))
}
