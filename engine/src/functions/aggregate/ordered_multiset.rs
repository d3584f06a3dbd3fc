//! All values of a group with their counts, in order: MIN and MAX over input that also takes rows back, and COLLECT.
//!
//! A value taken back before it came has a negative count and cancels against it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, MapArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields, Int64Type};

use super::accumulator::{Accumulator, AggregateRows, clear};
use super::codec::{Codec, FixedCodec, RowCodec};
use crate::error::Result;
use crate::state::{Groups, is_fixed, keep_at};

/// What of the values is the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    /// The smallest.
    Min,
    /// The greatest.
    Max,
    /// All of them, a MULTISET.
    Collect,
}

/// An accumulator for a type.
pub(super) fn ordered_multiset(
    data_type: &DataType,
    finish: Finish,
) -> Result<Box<dyn Accumulator>> {
    Ok(if is_fixed(data_type) {
        Box::new(OrderedMultiset {
            finish,
            codec: FixedCodec(data_type.clone()),
            groups: Vec::new(),
            entries: 0,
        })
    } else {
        Box::new(OrderedMultiset {
            finish,
            codec: RowCodec::new(data_type)?,
            groups: Vec::new(),
            entries: 0,
        })
    })
}

type Values<K> = BTreeMap<K, i64>;

struct OrderedMultiset<C: Codec> {
    finish: Finish,
    codec: C,
    groups: Vec<Values<C::Key>>,
    /// How many values all groups have.
    entries: usize,
}

fn add<K: Ord>(values: &mut Values<K>, key: K, weight: i64, entries: &mut usize) {
    match values.entry(key) {
        Entry::Vacant(entry) => {
            entry.insert(weight);
            *entries += 1;
        }
        Entry::Occupied(mut entry) => {
            *entry.get_mut() += weight;
            if *entry.get() == 0 {
                entry.remove();
                *entries -= 1;
            }
        }
    }
}

impl<C: Codec> OrderedMultiset<C> {
    fn best(values: &Values<C::Key>, finish: Finish) -> Option<&C::Key> {
        let mut present = values.iter().filter(|(_, count)| **count > 0);
        let best = match finish {
            Finish::Max => present.next_back(),
            _ => present.next(),
        };
        best.map(|(key, _)| key)
    }

    fn keys(&self, rows: &AggregateRows) -> Result<Vec<Option<C::Key>>> {
        let keys = self.codec.encode(&rows.arguments[0])?;
        Ok(keys.into_iter().map(Some).collect())
    }

    /// Maps from values to counts; `all`: with those that were only taken back.
    fn maps(&self, groups: &[Vec<(&C::Key, i64)>], counts: ArrayRef) -> Result<ArrayRef> {
        let keys: Vec<&C::Key> = groups.iter().flatten().map(|(key, _)| *key).collect();
        let entries = StructArray::new(
            Fields::from(vec![
                Field::new("key", self.codec.data_type().clone(), false),
                Field::new("value", counts.data_type().clone(), false),
            ]),
            vec![self.codec.decode(&keys)?, counts],
            None,
        );
        let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        let offsets = OffsetBuffer::from_lengths(groups.iter().map(Vec::len));
        Ok(Arc::new(MapArray::try_new(
            field, offsets, entries, None, false,
        )?))
    }

    fn collected(&self, groups: &[Vec<(&C::Key, i64)>]) -> Result<ArrayRef> {
        let counts = groups.iter().flatten().map(|(_, count)| *count as i32);
        self.maps(groups, Arc::new(Int32Array::from_iter_values(counts)))
    }
}

fn present<K>(values: &Values<K>) -> Vec<(&K, i64)> {
    let values = values.iter().filter(|(_, count)| **count > 0);
    values.map(|(key, count)| (key, *count)).collect()
}

impl<C: Codec> Accumulator for OrderedMultiset<C> {
    fn grow(&mut self, groups: usize) {
        self.groups.resize_with(groups, BTreeMap::new);
    }

    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()> {
        let mut keys = self.keys(rows)?;
        rows.for_each_weighted(|row, group, weight| {
            let key = keys[row].take().expect("each row comes once");
            add(&mut self.groups[group], key, weight, &mut self.entries);
        });
        Ok(())
    }

    fn accumulate_running(&mut self, rows: &AggregateRows) -> Result<ArrayRef> {
        let mut keys = self.keys(rows)?;
        let entries = &mut self.entries;
        let fold = |values: &mut Values<C::Key>, row: usize, weight: i64| {
            let key = keys[row].take().expect("each row comes once");
            add(values, key, weight, entries);
        };
        let finish = self.finish;
        if finish == Finish::Collect {
            let owned = |values: &Values<C::Key>| -> Vec<(C::Key, i64)> {
                let present = present(values).into_iter();
                present.map(|(key, count)| (key.clone(), count)).collect()
            };
            let behind = rows.running(&mut self.groups, fold, owned);
            let lists: Vec<Vec<(&C::Key, i64)>> = behind
                .iter()
                .map(|list| list.iter().map(|(key, count)| (key, *count)).collect())
                .collect();
            return self.collected(&lists);
        }
        let best = rows.running(&mut self.groups, fold, |values| {
            Self::best(values, finish).cloned()
        });
        let best: Vec<Option<&C::Key>> = best.iter().map(Option::as_ref).collect();
        self.codec.decode_options(&best)
    }

    fn reset(&mut self, groups: &[u32]) {
        let gone = groups
            .iter()
            .map(|group| self.groups[*group as usize].len());
        self.entries -= gone.sum::<usize>();
        clear(&mut self.groups, groups);
    }

    fn keep(&mut self, groups: &[u32]) {
        keep_at(&mut self.groups, groups);
        self.entries = self.groups.iter().map(BTreeMap::len).sum();
    }

    fn merge(&mut self, ids: &[u32], partials: &[ArrayRef]) -> Result<()> {
        let maps = partials[0].as_map();
        let offsets = maps.value_offsets();
        let counts = maps.values().as_primitive::<Int64Type>().values();
        let mut keys = self.codec.encode(maps.keys())?.into_iter();
        // Entries before the first offset belong to no row of this slice.
        keys.by_ref().take(offsets[0] as usize).for_each(drop);
        for (row, id) in ids.iter().enumerate() {
            let group = &mut self.groups[*id as usize];
            for entry in offsets[row]..offsets[row + 1] {
                let key = keys.next().expect("a key for every entry");
                add(group, key, counts[entry as usize], &mut self.entries);
            }
        }
        Ok(())
    }

    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let all = groups.map(|group| {
            let values = self.groups[group].iter();
            values.map(|(key, count)| (key, *count)).collect::<Vec<_>>()
        });
        let counts = all.iter().flatten().map(|(_, count)| *count);
        let counts = Arc::new(Int64Array::from_iter_values(counts));
        Ok(vec![self.maps(&all, counts)?])
    }

    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef> {
        if self.finish == Finish::Collect {
            return self.collected(&groups.map(|group| present(&self.groups[group])));
        }
        let best = groups.map(|group| Self::best(&self.groups[group], self.finish));
        self.codec.decode_options(&best)
    }

    fn size_bytes(&self) -> usize {
        self.entries * (size_of::<C::Key>() + 16)
            + self.groups.capacity() * size_of::<Values<C::Key>>()
    }
}
