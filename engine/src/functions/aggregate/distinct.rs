//! DISTINCT: which values each group has seen, how often, and the aggregates that count each value once.
//!
//! One set serves all DISTINCT aggregates over the same arguments; those with a FILTER of their own have a count of their own
//! for each value. A value gets a number in a dictionary of the set, and the pair (group, value number) a number among all
//! pairs, by which the counts lie in columns: two probes a row, whatever the type. An aggregate is told of a row only when
//! the count of its pair rises above zero (the value comes) or falls to it (the value goes).
//!
//! A group that is made empty gets another owner number, so that its pairs are nobody's. Pairs without an owner or a count
//! are given back when they are most of the table.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBufferBuilder, Int64Array, ListArray, StructArray, UInt32Array,
};
use arrow::buffer::{BooleanBuffer, OffsetBuffer};
use arrow::compute;
use arrow::datatypes::{DataType, Field, Fields, Int64Type};

use super::accumulator::{Accumulator, AggregateRows};
use crate::error::Result;
use crate::state::{GroupTable, Groups, keep_at};
use crate::stream::hash_columns;

/// In place of an arrival: the value is not there.
const ABSENT: u64 = u64::MAX;
/// From how many pairs on dead ones are looked for.
const LEAST_PAIRS: usize = 4096;

/// The rows that a set folds; NULL arguments and rows that no filter keeps are gone already.
pub(super) struct DistinctRows<'a> {
    pub(super) ids: &'a [u32],
    pub(super) arguments: &'a [ArrayRef],
    /// How often each row's value comes (or goes), by variant.
    pub(super) weights: Vec<Weights<'a>>,
}

/// All rows of a batch, of which [`DistinctRows`] are some.
pub(super) struct DistinctBatch<'a> {
    pub(super) ids: &'a [u32],
    pub(super) arguments: &'a [ArrayRef],
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
    /// When each pair's value came, as a number: aggregates that know an order have it from that.
    arrivals: Vec<u64>,
    next_arrival: u64,
    /// The number of each group in the keys of `pairs`; never used twice between two packings.
    owners: Vec<u32>,
    next_owner: u32,
    /// The number of pairs at which dead ones are looked for.
    pack_at: usize,
    value_types: Vec<DataType>,
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
            arrivals: Vec::new(),
            next_arrival: 0,
            owners: Vec::new(),
            next_owner: 0,
            pack_at: LEAST_PAIRS,
            value_types: value_types.to_vec(),
            aggregates,
            fields: entry_fields(value_types, variants),
        })
    }

    pub(super) fn grow(&mut self, groups: usize) {
        while self.owners.len() < groups {
            self.owners.push(self.next_owner);
            self.next_owner += 1;
        }
        self.aggregates
            .iter_mut()
            .for_each(|(_, aggregate)| aggregate.grow(groups));
    }

    pub(super) fn fold(&mut self, rows: &DistinctRows) -> Result<()> {
        if rows.ids.is_empty() {
            return Ok(());
        }
        for (variant, changes) in self.changes(rows)?.iter().enumerate() {
            let rows = AggregateRows {
                ids: rows.ids,
                arguments: rows.arguments,
                weights: changes.signs.as_deref(),
                mask: Some(&changes.mask),
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

    /// Folds the rows of a batch that count, which stand at `places` in it (`None`: all), and gives for each aggregate the
    /// result of each row of the batch right behind it.
    pub(super) fn fold_running(
        &mut self,
        rows: &DistinctRows,
        places: Option<&[u32]>,
        batch: &DistinctBatch,
    ) -> Result<Vec<ArrayRef>> {
        let changes = self.changes(rows)?;
        let changes: Vec<Changes> = match places {
            None => changes,
            Some(places) => changes
                .into_iter()
                .map(|changes| changes.spread(places, batch.ids.len()))
                .collect(),
        };
        let running = self.aggregates.iter_mut().map(|(variant, aggregate)| {
            aggregate.accumulate_running(&AggregateRows {
                ids: batch.ids,
                arguments: batch.arguments,
                weights: changes[*variant].signs.as_deref(),
                mask: Some(&changes[*variant].mask),
            })
        });
        running.collect()
    }

    /// At which rows a value comes or goes, by variant.
    fn changes(&mut self, rows: &DistinctRows) -> Result<Vec<Changes>> {
        self.pack()?;
        let pairs = self.resolve(rows)?;
        self.arrivals.resize(self.pairs.len(), ABSENT);
        let is_one = self.counts.len() == 1;
        let changes = rows.weights.iter().zip(&mut self.counts);
        let changes = changes.map(|(weights, counts)| {
            counts.resize(self.pairs.len(), 0);
            let arrives = |pair: u32| {
                if is_one {
                    self.arrivals[pair as usize] = self.next_arrival;
                    self.next_arrival += 1;
                }
            };
            transitions(counts, &pairs, weights, arrives)
        });
        let changes = changes.collect();
        if !is_one {
            self.note_arrivals(&pairs);
        }
        Ok(changes)
    }

    /// Notes which values have come, where they have several counts.
    fn note_arrivals(&mut self, pairs: &[u32]) {
        for pair in pairs {
            let pair = *pair as usize;
            let is_there = self.counts.iter().any(|counts| counts[pair] != 0);
            if !is_there {
                self.arrivals[pair] = ABSENT;
            } else if self.arrivals[pair] == ABSENT {
                self.arrivals[pair] = self.next_arrival;
                self.next_arrival += 1;
            }
        }
    }

    /// Makes groups empty again.
    pub(super) fn reset(&mut self, groups: &[u32]) {
        for group in groups {
            self.owners[*group as usize] = self.next_owner;
            self.next_owner += 1;
        }
        self.aggregates
            .iter_mut()
            .for_each(|(_, aggregate)| aggregate.reset(groups));
    }

    /// Forgets all groups but these, which get the numbers of their places here.
    pub(super) fn keep(&mut self, groups: &[u32]) -> Result<()> {
        keep_at(&mut self.owners, groups);
        let aggregates = self.aggregates.iter_mut();
        aggregates.for_each(|(_, aggregate)| aggregate.keep(groups));
        self.pack_at = 0;
        self.pack()
    }

    /// Gives dead pairs back where they are most of all.
    fn pack(&mut self) -> Result<()> {
        let owners_run_out = self.next_owner > u32::MAX / 2;
        if self.pairs.len() < self.pack_at && !owners_run_out {
            return Ok(());
        }
        let (groups, alive) = self.alive()?;
        self.pack_at = (2 * alive.len()).max(LEAST_PAIRS);
        if 2 * alive.len() > self.pairs.len() && !owners_run_out {
            return Ok(());
        }
        let keys = self.pairs.keys(&Groups::Ids(&alive))?;
        let keys = keys[0].as_primitive::<Int64Type>().values();
        let numbers: Vec<u32> = keys.iter().map(|key| *key as u32).collect();
        let values = self.values.keys(&Groups::Ids(&numbers))?;
        let counts = self.counts.iter();
        let counts: Vec<Vec<i64>> = counts
            .map(|counts| Groups::Ids(&alive).gather(counts))
            .collect();
        self.values = GroupTable::new(&self.value_types)?;
        self.pairs = GroupTable::new(&[DataType::Int64])?;
        self.next_owner = self.owners.len() as u32;
        self.owners = (0..self.next_owner).collect();
        self.counts = vec![Vec::new(); counts.len()];
        self.arrivals = Groups::Ids(&alive).gather(&self.arrivals);
        if groups.is_empty() {
            return Ok(());
        }
        let pairs = self.resolve(&DistinctRows {
            ids: &groups,
            arguments: &values,
            weights: Vec::new(),
        })?;
        debug_assert!(pairs.is_sorted(), "pairs are numbered anew in their order");
        self.counts = counts;
        Ok(())
    }

    /// The pairs whose group is there and whose value has a count, with their groups.
    fn alive(&self) -> Result<(Vec<u32>, Vec<u32>)> {
        const NONE: u32 = u32::MAX;
        let mut group_of = vec![NONE; self.next_owner as usize];
        for (group, owner) in self.owners.iter().enumerate() {
            group_of[*owner as usize] = group as u32;
        }
        let all = self.pairs.keys(&Groups::Range(0..self.pairs.len()))?;
        let keys = all[0].as_primitive::<Int64Type>().values();
        let (mut groups, mut alive) = (Vec::new(), Vec::new());
        for (pair, key) in keys.iter().enumerate() {
            let group = group_of[(*key >> 32) as usize];
            let counts = || self.counts.iter().any(|counts| counts[pair] != 0);
            if group != NONE && counts() {
                groups.push(group);
                alive.push(pair as u32);
            }
        }
        Ok((groups, alive))
    }

    fn resolve(&mut self, rows: &DistinctRows) -> Result<Vec<u32>> {
        let hashes = hash_columns(rows.arguments, rows.ids.len())?;
        let mut numbers = Vec::new();
        self.values.resolve(rows.arguments, &hashes, &mut numbers)?;
        let keys: Vec<i64> = rows
            .ids
            .iter()
            .zip(&numbers)
            .map(|(group, value)| ((self.owners[*group as usize] as i64) << 32) | *value as i64)
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

    /// The values of each group with their counts, as a list of rows in the order in which they came.
    pub(super) fn partial(&self, groups: &Groups) -> Result<ArrayRef> {
        let all = self.pairs.keys(&Groups::Range(0..self.pairs.len()))?;
        let keys = all[0].as_primitive::<Int64Type>().values();
        let (owners, alive) = self.alive()?;
        let mut by_group: Vec<(u32, u32)> = owners.into_iter().zip(alive).collect();
        by_group.sort_unstable_by_key(|(own, pair)| (*own, self.arrivals[*pair as usize], *pair));
        let mut chosen = Vec::new();
        let lengths = groups.map(|group| {
            let first = by_group.partition_point(|(own, _)| (*own as usize) < group);
            let pairs = by_group[first..]
                .iter()
                .take_while(|(own, _)| *own as usize == group)
                .map(|(_, pair)| *pair);
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
        let arrivals = self.arrivals.capacity() * 8;
        self.values.size_bytes() + self.pairs.size_bytes() + counts + arrivals + aggregates
    }
}

#[inline]
fn mix(key: u64) -> u64 {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

/// The rows at which a value came or went and, unless all came, which: +1 or -1.
struct Changes {
    mask: BooleanBuffer,
    signs: Option<Vec<i8>>,
}

impl Changes {
    /// The same over a batch of `rows` rows in which these stand at `places`.
    fn spread(self, places: &[u32], rows: usize) -> Changes {
        let mut mask = BooleanBufferBuilder::new(rows);
        mask.append_n(rows, false);
        for row in self.mask.set_indices() {
            mask.set_bit(places[row] as usize, true);
        }
        let signs = self.signs.map(|signs| {
            let mut spread = vec![1; rows];
            for (sign, place) in signs.iter().zip(places) {
                spread[*place as usize] = *sign;
            }
            spread
        });
        Changes {
            mask: mask.finish(),
            signs,
        }
    }
}

/// Adds the weights to the counts of the pairs, and tells which values come.
fn transitions(
    counts: &mut [i64],
    pairs: &[u32],
    weights: &Weights,
    mut arrives: impl FnMut(u32),
) -> Changes {
    let mut add = |row: usize, weight: i64, counts: &mut [i64]| {
        let count = &mut counts[pairs[row] as usize];
        let before = count.signum();
        *count += weight;
        if count.signum() != before {
            arrives(pairs[row]);
        }
        (before > 0, *count > 0)
    };
    match weights {
        Weights::One => {
            let mask = BooleanBuffer::collect_bool(pairs.len(), |row| {
                let (before, after) = add(row, 1, counts);
                before != after
            });
            Changes { mask, signs: None }
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
            Changes {
                mask,
                signs: (!all_come).then_some(signs),
            }
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
