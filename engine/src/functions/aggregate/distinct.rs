//! DISTINCT: which values each group has seen, how often, and the aggregates that count each value once.
//!
//! One set serves all DISTINCT aggregates over the same arguments; those with a FILTER of their own have a count of their own
//! for each value. A value gets a number in a dictionary of the set, and the pair (group, value number) a number among all
//! pairs, by which the counts lie in columns: two probes a row, whatever the type. An aggregate is told of a row only when
//! the count of its pair rises above zero (the value comes) or falls to it (the value goes).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, StructArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, OffsetBuffer};
use arrow::compute;
use arrow::datatypes::{DataType, Field, Fields, Int64Type};

use super::accumulator::{Accumulator, AggregateRows};
use crate::error::Result;
use crate::state::{GroupTable, Groups};
use crate::stream::hash_columns;

/// The rows that a set folds; NULL arguments and rows that no filter keeps are gone already.
pub(super) struct DistinctRows<'a> {
    pub(super) ids: &'a [u32],
    pub(super) arguments: &'a [ArrayRef],
    /// How often each row's value comes (or goes), by variant.
    pub(super) weights: Vec<Weights<'a>>,
}

/// How often the value of each row comes for one variant.
pub(super) enum Weights<'a> {
    /// Once for each row.
    One,
    /// As many times as the number says; 0: not at all.
    Each(std::borrow::Cow<'a, [i64]>),
}

pub(super) struct DistinctSet {
    values: GroupTable,
    pairs: GroupTable,
    /// By variant, by pair.
    counts: Vec<Vec<i64>>,
    /// The aggregates, each with its variant.
    aggregates: Vec<(usize, Box<dyn Accumulator>)>,
    fields: Fields,
}

impl DistinctSet {
    /// A set over arguments of these types with so many filter variants, serving `aggregates` (each with its variant).
    pub(super) fn new(
        value_types: &[DataType],
        variants: usize,
        aggregates: Vec<(usize, Box<dyn Accumulator>)>,
    ) -> Result<Self> {
        Ok(DistinctSet {
            values: GroupTable::new(value_types)?,
            pairs: GroupTable::new(&[DataType::Int64])?,
            counts: vec![Vec::new(); variants],
            aggregates,
            fields: entry_fields(value_types, variants),
        })
    }

    pub(super) fn grow(&mut self, groups: usize) {
        self.aggregates
            .iter_mut()
            .for_each(|(_, aggregate)| aggregate.grow(groups));
    }

    pub(super) fn fold(&mut self, rows: &DistinctRows) -> Result<()> {
        if rows.ids.is_empty() {
            return Ok(());
        }
        let pairs = self.resolve(rows)?;
        for (variant, weights) in rows.weights.iter().enumerate() {
            let counts = &mut self.counts[variant];
            counts.resize(self.pairs.len(), 0);
            let (mask, signs) = transitions(counts, &pairs, weights);
            let rows = AggregateRows {
                ids: rows.ids,
                arguments: rows.arguments,
                weights: signs.as_deref(),
                mask: Some(&mask),
            };
            for (_, aggregate) in self
                .aggregates
                .iter_mut()
                .filter(|(own, _)| *own == variant)
            {
                aggregate.accumulate(&rows)?;
            }
        }
        Ok(())
    }

    fn resolve(&mut self, rows: &DistinctRows) -> Result<Vec<u32>> {
        let hashes = hash_columns(rows.arguments, rows.ids.len())?;
        let mut numbers = Vec::new();
        self.values.resolve(rows.arguments, &hashes, &mut numbers)?;
        let keys: Vec<i64> = rows
            .ids
            .iter()
            .zip(&numbers)
            .map(|(group, value)| ((*group as i64) << 32) | *value as i64)
            .collect();
        let hashes: Vec<u64> = keys.iter().map(|key| mix(*key as u64)).collect();
        let keys: ArrayRef = Arc::new(Int64Array::from(keys));
        let mut pairs = Vec::new();
        self.pairs.resolve(&[keys], &hashes, &mut pairs)?;
        Ok(pairs)
    }

    /// The result of the aggregate at `index`.
    pub(super) fn evaluate(&self, index: usize, groups: &Groups) -> Result<ArrayRef> {
        self.aggregates[index].1.evaluate(groups)
    }

    /// The values of each group with their counts, as a list of rows.
    pub(super) fn partial(&self, groups: &Groups) -> Result<ArrayRef> {
        let all = self.pairs.keys(&Groups::Range(0..self.pairs.len()))?;
        let keys = all[0].as_primitive::<Int64Type>().values();
        let mut by_group: Vec<(u32, u32)> = keys
            .iter()
            .enumerate()
            .map(|(pair, key)| ((key >> 32) as u32, pair as u32))
            .collect();
        by_group.sort_unstable();
        let mut chosen = Vec::new();
        let lengths = groups.map(|group| {
            let first = by_group.partition_point(|(own, _)| (*own as usize) < group);
            let pairs = by_group[first..]
                .iter()
                .take_while(|(own, _)| *own as usize == group)
                .map(|(_, pair)| *pair)
                .filter(|pair| self.counts.iter().any(|counts| counts[*pair as usize] != 0));
            let before = chosen.len();
            chosen.extend(pairs);
            chosen.len() - before
        });
        let numbers: Vec<u32> = chosen
            .iter()
            .map(|pair| keys[*pair as usize] as u32)
            .collect();
        let mut columns = self.values.keys(&Groups::Ids(&numbers))?;
        for counts in &self.counts {
            let counts = Groups::Ids(&chosen).gather(counts);
            columns.push(Arc::new(Int64Array::from(counts)));
        }
        let entries = StructArray::try_new(self.fields.clone(), columns, None)?;
        let field = Arc::new(Field::new("item", entries.data_type().clone(), false));
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(Arc::new(ListArray::try_new(
            field,
            offsets,
            Arc::new(entries),
            None,
        )?))
    }

    /// Folds lists as [`DistinctSet::partial`] makes them into the groups `ids`.
    pub(super) fn merge(&mut self, ids: &[u32], partial: &ArrayRef) -> Result<()> {
        let lists = partial.as_list::<i32>();
        let offsets = lists.value_offsets();
        let first = offsets[0] as usize;
        let entries = lists
            .values()
            .slice(first, offsets[ids.len()] as usize - first);
        let entries = entries.as_struct();
        let mut groups = Vec::with_capacity(entries.len());
        for (row, id) in ids.iter().enumerate() {
            let length = (offsets[row + 1] - offsets[row]) as usize;
            groups.resize(groups.len() + length, *id);
        }
        let values = entries.num_columns() - self.counts.len();
        let weights = entries.columns()[values..].iter().map(|counts| {
            let counts = counts.as_primitive::<Int64Type>().values();
            Weights::Each((&counts[..]).into())
        });
        self.fold(&DistinctRows {
            ids: &groups,
            arguments: &entries.columns()[..values],
            weights: weights.collect(),
        })
    }

    pub(super) fn size_bytes(&self) -> usize {
        let counts: usize = self.counts.iter().map(|counts| counts.capacity() * 8).sum();
        let aggregates: usize = self
            .aggregates
            .iter()
            .map(|(_, aggregate)| aggregate.size_bytes())
            .sum();
        self.values.size_bytes() + self.pairs.size_bytes() + counts + aggregates
    }
}

#[inline]
fn mix(key: u64) -> u64 {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

/// Adds the weights to the counts of the pairs. Returns the rows at which a value came or went and, unless all came, which.
fn transitions(
    counts: &mut [i64],
    pairs: &[u32],
    weights: &Weights,
) -> (BooleanBuffer, Option<Vec<i8>>) {
    let add = |row: usize, weight: i64, counts: &mut [i64]| {
        let count = &mut counts[pairs[row] as usize];
        let before = *count > 0;
        *count += weight;
        (before, *count > 0)
    };
    match weights {
        Weights::One => {
            let mask = BooleanBuffer::collect_bool(pairs.len(), |row| {
                let (before, after) = add(row, 1, counts);
                before != after
            });
            (mask, None)
        }
        Weights::Each(weights) => {
            let mut signs = vec![1i8; pairs.len()];
            let mask = BooleanBuffer::collect_bool(pairs.len(), |row| {
                let (before, after) = add(row, weights[row], counts);
                if before {
                    signs[row] = -1;
                }
                before != after
            });
            let all_come = signs
                .iter()
                .enumerate()
                .all(|(row, sign)| *sign > 0 || !mask.value(row));
            (mask, (!all_come).then_some(signs))
        }
    }
}

fn entry_fields(value_types: &[DataType], variants: usize) -> Fields {
    let values = value_types
        .iter()
        .enumerate()
        .map(|(index, data_type)| Field::new(format!("v{index}"), data_type.clone(), true));
    let counts = (0..variants).map(|index| Field::new(format!("n{index}"), DataType::Int64, false));
    values.chain(counts).collect()
}

/// The rows of `columns` at `indices`.
pub(super) fn take_all(columns: &[ArrayRef], indices: &UInt32Array) -> Result<Vec<ArrayRef>> {
    columns
        .iter()
        .map(|column| Ok(compute::take(column, indices, None)?))
        .collect()
}
