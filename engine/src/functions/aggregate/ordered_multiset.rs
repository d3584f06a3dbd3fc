//! MIN and MAX over input that also takes rows back: all values of a group with their counts, in order.
//!
//! Fixed-width values are ordered as 64-bit numbers, all others by their `arrow-row` bytes (FLOAT and DOUBLE in their total
//! order). A value taken back before it came has a negative count and cancels against it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, MapArray, StructArray, new_null_array};
use arrow::compute;
use arrow::datatypes::{DataType, Field, Fields, Int64Type};
use arrow::row::{RowConverter, SortField};

use super::accumulator::{Accumulator, AggregateRows};
use crate::error::{Error, Result};
use crate::state::{Groups, fixed_array, is_fixed, with_fixed_values};

/// An accumulator for a type; `max` tells MAX from MIN.
pub(super) fn ordered_multiset(data_type: &DataType, max: bool) -> Result<Box<dyn Accumulator>> {
    Ok(if is_fixed(data_type) {
        Box::new(OrderedMultiset {
            max,
            codec: FixedCodec(data_type.clone()),
            groups: Vec::new(),
        })
    } else {
        let converter = RowConverter::new(vec![SortField::new(data_type.clone())])?;
        Box::new(OrderedMultiset {
            max,
            codec: RowCodec(data_type.clone(), converter),
            groups: Vec::new(),
        })
    })
}

/// Values of a column as ordered keys and back.
trait Codec: Send {
    type Key: Ord + Send;
    fn data_type(&self) -> &DataType;
    fn encode(&self, values: &ArrayRef) -> Result<Vec<Self::Key>>;
    fn decode(&self, keys: &[&Self::Key]) -> Result<ArrayRef>;
}

struct FixedCodec(DataType);

impl Codec for FixedCodec {
    type Key = i64;

    fn data_type(&self) -> &DataType {
        &self.0
    }

    fn encode(&self, values: &ArrayRef) -> Result<Vec<i64>> {
        let mut keys = Vec::new();
        with_fixed_values(values, |values| keys.extend_from_slice(values));
        Ok(keys)
    }

    fn decode(&self, keys: &[&i64]) -> Result<ArrayRef> {
        let keys = keys.iter().map(|key| **key).collect();
        Ok(fixed_array(&self.0, keys, None))
    }
}

struct RowCodec(DataType, RowConverter);

impl Codec for RowCodec {
    type Key = Box<[u8]>;

    fn data_type(&self) -> &DataType {
        &self.0
    }

    fn encode(&self, values: &ArrayRef) -> Result<Vec<Box<[u8]>>> {
        let rows = self.1.convert_columns(std::slice::from_ref(values))?;
        Ok(rows.iter().map(|row| row.data().into()).collect())
    }

    fn decode(&self, keys: &[&Box<[u8]>]) -> Result<ArrayRef> {
        let parser = self.1.parser();
        let mut columns = self
            .1
            .convert_rows(keys.iter().map(|key| parser.parse(key)))?;
        columns
            .pop()
            .ok_or_else(|| Error::internal("one column in, one column out"))
    }
}

struct OrderedMultiset<C: Codec> {
    max: bool,
    codec: C,
    groups: Vec<BTreeMap<C::Key, i64>>,
}

fn add<K: Ord>(values: &mut BTreeMap<K, i64>, key: K, weight: i64) {
    match values.entry(key) {
        Entry::Vacant(entry) => drop(entry.insert(weight)),
        Entry::Occupied(mut entry) => {
            *entry.get_mut() += weight;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

impl<C: Codec> OrderedMultiset<C> {
    fn best(&self, group: usize) -> Option<&C::Key> {
        let mut present = self.groups[group].iter().filter(|(_, count)| **count > 0);
        let best = if self.max {
            present.next_back()
        } else {
            present.next()
        };
        best.map(|(key, _)| key)
    }
}

impl<C: Codec> Accumulator for OrderedMultiset<C> {
    fn grow(&mut self, groups: usize) {
        self.groups.resize_with(groups, BTreeMap::new);
    }

    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()> {
        let mut keys: Vec<Option<C::Key>> = self
            .codec
            .encode(&rows.arguments[0])?
            .into_iter()
            .map(Some)
            .collect();
        rows.for_each_weighted(|row, group, weight| {
            let key = keys[row].take().expect("each row comes once");
            add(&mut self.groups[group], key, weight);
        });
        Ok(())
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
                add(group, key, counts[entry as usize]);
            }
        }
        Ok(())
    }

    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let mut keys = Vec::new();
        let mut counts: Vec<i64> = Vec::new();
        let lengths = groups.map(|group| {
            let values = &self.groups[group];
            keys.extend(values.keys());
            counts.extend(values.values());
            values.len()
        });
        let entries = StructArray::new(
            entry_fields(self.codec.data_type()),
            vec![
                self.codec.decode(&keys)?,
                Arc::new(Int64Array::from(counts)),
            ],
            None,
        );
        let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths);
        Ok(vec![Arc::new(MapArray::try_new(
            field, offsets, entries, None, false,
        )?)])
    }

    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef> {
        let best = groups.map(|group| self.best(group));
        let keys: Vec<&C::Key> = best.iter().flatten().copied().collect();
        let values = self.codec.decode(&keys)?;
        if keys.len() == best.len() {
            return Ok(values);
        }
        if keys.is_empty() {
            return Ok(new_null_array(self.codec.data_type(), best.len()));
        }
        let mut next = 0..;
        let indices: arrow::array::UInt32Array = best
            .iter()
            .map(|best| best.and_then(|_| next.next()))
            .collect();
        Ok(compute::take(&values, &indices, None)?)
    }

    fn size_bytes(&self) -> usize {
        let entries: usize = self.groups.iter().map(BTreeMap::len).sum();
        entries * (size_of::<C::Key>() + 16)
            + self.groups.capacity() * size_of::<BTreeMap<C::Key, i64>>()
    }
}

fn entry_fields(data_type: &DataType) -> Fields {
    Fields::from(vec![
        Field::new("key", data_type.clone(), false),
        Field::new("value", DataType::Int64, false),
    ])
}
