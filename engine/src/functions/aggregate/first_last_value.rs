//! FIRST_VALUE and LAST_VALUE: the first or last value that is not NULL, in order of arrival. Input must only grow.

use arrow::array::{Array, ArrayRef, UInt32Array, new_empty_array};
use arrow::compute;
use arrow::datatypes::DataType;

use super::accumulator::{Accumulator, AggregateRows};
use crate::error::Result;
use crate::state::Groups;

/// Kept values lie in one array per fold, which a group points into; the arrays are packed when most of them is unused.
pub(super) struct FirstLastValue {
    last: bool,
    /// The values that groups point to, and maybe others.
    values: ArrayRef,
    /// For each group the index of its value.
    places: Vec<Option<u32>>,
}

impl FirstLastValue {
    pub(super) fn new(data_type: &DataType, last: bool) -> Self {
        FirstLastValue {
            last,
            values: new_empty_array(data_type),
            places: Vec::new(),
        }
    }

    /// Lets each group of `chosen` (group, row of `values`) point to its new value.
    fn keep(&mut self, chosen: &[(u32, u32)], values: &ArrayRef) -> Result<()> {
        if chosen.is_empty() {
            return Ok(());
        }
        let rows = UInt32Array::from_iter_values(chosen.iter().map(|(_, row)| *row));
        let new = compute::take(values, &rows, None)?;
        let offset = self.values.len() as u32;
        self.values = compute::concat(&[&self.values, &new])?;
        for (place, (group, _)) in chosen.iter().enumerate() {
            self.places[*group as usize] = Some(offset + place as u32);
        }
        if self.values.len() > 2 * self.places.len() + 64 {
            let all = Groups::Range(0..self.places.len());
            self.values = self.evaluate(&all)?;
            let filled = self.places.iter_mut().enumerate();
            filled.for_each(|(group, place)| *place = place.map(|_| group as u32));
        }
        Ok(())
    }

    /// The row that each group takes from a column of values, given which rows count.
    fn choose(&self, rows: impl Iterator<Item = (u32, u32)>) -> Vec<(u32, u32)> {
        let mut chosen: std::collections::BTreeMap<u32, u32> = Default::default();
        for (group, row) in rows {
            if self.last {
                chosen.insert(group, row);
            } else if self.places[group as usize].is_none() {
                chosen.entry(group).or_insert(row);
            }
        }
        chosen.into_iter().collect()
    }
}

impl Accumulator for FirstLastValue {
    fn grow(&mut self, groups: usize) {
        self.places.resize(groups, None);
    }

    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()> {
        let mut counting = Vec::with_capacity(rows.ids.len());
        rows.for_each(|row, group| counting.push((group as u32, row as u32)));
        let chosen = self.choose(counting.into_iter());
        self.keep(&chosen, &rows.arguments[0])
    }

    fn merge(&mut self, ids: &[u32], partials: &[ArrayRef]) -> Result<()> {
        let values = &partials[0];
        let present = (0..ids.len()).filter(|row| values.is_valid(*row));
        let chosen = self.choose(present.map(|row| (ids[row], row as u32)));
        self.keep(&chosen, values)
    }

    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(groups)?])
    }

    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef> {
        let places: UInt32Array = groups.gather(&self.places).into_iter().collect();
        Ok(compute::take(&self.values, &places, None)?)
    }

    fn size_bytes(&self) -> usize {
        self.values.get_array_memory_size() + self.places.capacity() * 8
    }
}
