//! Aggregates by key: a group table and the accumulators that are indexed by its ids.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::DataType;

use crate::error::Result;
use crate::functions::aggregate::{AggregateSet, AggregateSetSpec};
use crate::operators::KeySet;
use crate::state::{GroupTable, Groups, StateBackend};

/// What all tables of an operator have in common.
#[derive(Debug, Clone)]
pub(crate) struct Grouping {
    pub(crate) key_types: Vec<DataType>,
    pub(crate) aggregates: AggregateSetSpec,
    pub(crate) backend: Arc<dyn StateBackend>,
}

/// The states of some keys, for one slice, window or bundle.
pub(crate) struct GroupedAggregates {
    table: GroupTable,
    aggregates: AggregateSet,
    ids: Vec<u32>,
}

/// Rows by key: the columns that a fold or a merge reads.
#[derive(Clone)]
pub(crate) struct KeyedColumns {
    /// The key columns.
    pub(crate) keys: Vec<ArrayRef>,
    /// The hash of each row's key.
    pub(crate) hashes: Hashes,
    /// The columns of [`AggregateSetSpec::columns`], or partials.
    pub(crate) columns: Vec<ArrayRef>,
    /// See [`AggregateSet::accumulate`].
    pub(crate) weights: Option<Vec<i8>>,
}

/// Hashes without a copy.
pub(crate) type Hashes = arrow::buffer::ScalarBuffer<u64>;

impl KeyedColumns {
    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    fn slice_of(columns: &[ArrayRef], offset: usize, length: usize) -> Vec<ArrayRef> {
        columns
            .iter()
            .map(|column| column.slice(offset, length))
            .collect()
    }
}

impl Grouping {
    /// An empty table with room for about so many groups.
    pub(crate) fn create(&self, groups: usize) -> Result<GroupedAggregates> {
        Ok(GroupedAggregates {
            table: self.backend.group_table(&self.key_types, groups)?,
            aggregates: self.aggregates.create()?,
            ids: Vec::new(),
        })
    }
}

impl GroupedAggregates {
    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes held.
    pub(crate) fn size_bytes(&self) -> usize {
        self.table.size_bytes() + self.aggregates.size_bytes()
    }

    /// Folds rows `offset .. offset + length`.
    pub(crate) fn fold(
        &mut self,
        grouping: &Grouping,
        rows: &KeyedColumns,
        offset: usize,
        length: usize,
    ) -> Result<()> {
        let weights = rows
            .weights
            .as_ref()
            .map(|weights| &weights[offset..offset + length]);
        if length == rows.len() {
            self.resolve(&rows.keys, &rows.hashes)?;
            return self.aggregates.accumulate(
                &grouping.aggregates,
                &self.ids,
                &rows.columns,
                weights,
            );
        }
        let keys = KeyedColumns::slice_of(&rows.keys, offset, length);
        self.resolve(&keys, &rows.hashes[offset..offset + length])?;
        let columns = KeyedColumns::slice_of(&rows.columns, offset, length);
        self.aggregates
            .accumulate(&grouping.aggregates, &self.ids, &columns, weights)
    }

    /// Merges partials of rows `offset .. offset + length`.
    pub(crate) fn merge(
        &mut self,
        grouping: &Grouping,
        rows: &KeyedColumns,
        offset: usize,
        length: usize,
    ) -> Result<()> {
        let keys = KeyedColumns::slice_of(&rows.keys, offset, length);
        let columns = KeyedColumns::slice_of(&rows.columns, offset, length);
        self.resolve(&keys, &rows.hashes[offset..offset + length])?;
        self.aggregates
            .merge(&grouping.aggregates, &self.ids, &columns)
    }

    /// Merges all groups of another table.
    pub(crate) fn merge_from(
        &mut self,
        grouping: &Grouping,
        other: &GroupedAggregates,
    ) -> Result<()> {
        let all = Groups::Range(0..other.len());
        self.resolve(&other.table.keys(&all)?, other.table.hashes())?;
        self.aggregates.merge(
            &grouping.aggregates,
            &self.ids,
            &other.aggregates.partials(&all)?,
        )
    }

    fn resolve(&mut self, keys: &[ArrayRef], hashes: &[u64]) -> Result<()> {
        self.table.resolve(keys, hashes, &mut self.ids)?;
        self.aggregates.grow(self.table.len());
        Ok(())
    }

    /// The groups of some keys, ascending.
    pub(crate) fn ids_of(&self, keys: &KeySet) -> Vec<u32> {
        if keys.len() < self.len() {
            return self.table.ids_of(keys.iter().copied());
        }
        let hashes = self.hashes();
        (0..self.len() as u32)
            .filter(|id| keys.contains(&hashes[*id as usize]))
            .collect()
    }

    /// Forgets all groups but these, given ascending, which get the numbers of their places here.
    pub(crate) fn keep(&mut self, ids: &[u32]) -> Result<()> {
        self.table.keep(ids);
        self.aggregates.keep(ids)
    }

    /// The group of each row of the last fold or merge.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The hash of each group's key.
    pub(crate) fn hashes(&self) -> &[u64] {
        self.table.hashes()
    }

    /// The keys of groups.
    pub(crate) fn keys(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        self.table.keys(groups)
    }

    /// The states of groups.
    pub(crate) fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        self.aggregates.partials(groups)
    }

    /// The results of groups.
    pub(crate) fn evaluate(&self, grouping: &Grouping, groups: &Groups) -> Result<Vec<ArrayRef>> {
        self.aggregates.evaluate(&grouping.aggregates, groups)
    }

    /// The groups with a row left; `None`: all.
    pub(crate) fn present(&self, grouping: &Grouping, groups: &Groups) -> Option<BooleanArray> {
        self.aggregates.present(&grouping.aggregates, groups)
    }
}
