//! Group tables: keys become dense numbers, so that whatever is kept for a key can lie in plain columns.
//!
//! A table gives every key it meets the next free id, from 0. The caller brings each row's hash (computed once, at the
//! exchange) and gets an id per row; everything else that is known about a group, such as its accumulators, is a column
//! indexed by id. A key is copied only when it is new. There are three layouts: one fixed-width column (the key itself
//! stands in the hash slot, so that a hit touches nothing else), one text column, and any other key as `arrow-row` bytes.
//! NULL is a key like any other, so all NULLs are one group; a key without columns is one group.

mod append;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, BooleanBufferBuilder, PrimitiveArray,
    StringArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::*;
use arrow::row::{RowConverter, SortField};
use hashbrown::HashTable;

pub use append::KeyRows;

use crate::error::{Error, Result};

/// Which groups an array is made of.
#[derive(Debug, Clone)]
pub enum Groups<'a> {
    /// The groups of these ids, in their order.
    Range(Range<usize>),
    /// These groups, in this order.
    Ids(&'a [u32]),
}

impl<'a> Groups<'a> {
    /// These groups; as a range, which is copied at once, where they follow each other.
    pub fn of(ids: &'a [u32]) -> Self {
        let follow = ids.windows(2).all(|two| two[0].wrapping_add(1) == two[1]);
        match ids.first() {
            Some(first) if follow => Groups::Range(*first as usize..*first as usize + ids.len()),
            _ => Groups::Ids(ids),
        }
    }
}

impl Groups<'_> {
    /// Number of groups.
    pub fn len(&self) -> usize {
        match self {
            Groups::Range(range) => range.len(),
            Groups::Ids(ids) => ids.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `value` of each group.
    #[inline]
    pub fn map<T>(&self, mut value: impl FnMut(usize) -> T) -> Vec<T> {
        match self {
            Groups::Range(range) => range.clone().map(value).collect(),
            Groups::Ids(ids) => ids.iter().map(|id| value(*id as usize)).collect(),
        }
    }

    /// The values of a column indexed by group id.
    pub fn gather<T: Copy>(&self, column: &[T]) -> Vec<T> {
        match self {
            Groups::Range(range) => column[range.clone()].to_vec(),
            Groups::Ids(ids) => ids.iter().map(|id| column[*id as usize]).collect(),
        }
    }
}

/// Keeps the values at these places, ascending, and moves them together; gives memory back where much is left.
pub(crate) fn keep_at<T>(column: &mut Vec<T>, places: &[u32]) {
    debug_assert!(places.is_sorted(), "what is kept keeps its order");
    for (new, old) in places.iter().enumerate() {
        column.swap(new, *old as usize);
    }
    column.truncate(places.len());
    give_back(column);
}

/// The places below `length` that are not among these, which are ascending.
pub(crate) fn all_but(places: &[u32], length: usize) -> Vec<u32> {
    let mut gone = places.iter().copied().peekable();
    (0..length as u32)
        .filter(|place| gone.next_if_eq(place).is_none())
        .collect()
}

/// Not for a few values, which come again: a column that is shrunk and grows is copied twice.
fn give_back<T>(column: &mut Vec<T>) {
    if column.capacity() > 2 * column.len() {
        column.shrink_to(column.len() + column.len() / 4);
    }
}

/// Keys to dense group ids.
///
/// Ids stay valid until the end of the bundle of rows they were resolved for; a table in memory keeps them for its life.
pub struct GroupTable {
    index: Index,
    keys: Keys,
    /// Whether two keys have met that have one hash.
    collides: bool,
}

/// The hash table proper and the hash of each group.
struct Index {
    slots: HashTable<Slot>,
    hashes: Vec<u64>,
}

/// What a hash slot holds: enough to recognise most keys without following the id.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The key itself where it has a fixed width, else its hash.
    tag: u64,
    id: u32,
}

enum Keys {
    None,
    Fixed {
        data_type: DataType,
        values: Vec<i64>,
        null: Option<u32>,
    },
    Text {
        data_type: DataType,
        bytes: Packed,
        null: Option<u32>,
    },
    Rows {
        converter: RowConverter,
        bytes: Packed,
    },
}

/// Byte strings one after the other.
struct Packed {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Packed {
    fn new() -> Self {
        Packed {
            bytes: Vec::new(),
            ends: Vec::new(),
        }
    }

    #[inline]
    fn get(&self, id: usize) -> &[u8] {
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.bytes[start..self.ends[id]]
    }

    fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
    }

    /// Keeps the strings of these ids, ascending, and moves them together.
    fn keep(&mut self, ids: &[u32]) {
        let mut end = 0;
        for (new, old) in ids.iter().enumerate() {
            let old = *old as usize;
            let start = if old == 0 { 0 } else { self.ends[old - 1] };
            let stop = self.ends[old];
            self.bytes.copy_within(start..stop, end);
            end += stop - start;
            self.ends[new] = end;
        }
        self.bytes.truncate(end);
        self.ends.truncate(ids.len());
        give_back(&mut self.bytes);
        give_back(&mut self.ends);
    }

    fn size_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// The strings of the groups with 32-bit offsets, as Arrow wants them.
    fn gather(&self, groups: &Groups) -> Result<(OffsetBuffer<i32>, Buffer)> {
        let mut offsets = Vec::with_capacity(groups.len() + 1);
        offsets.push(0i32);
        let mut bytes = Vec::new();
        let mut fits = true;
        groups.map(|id| {
            bytes.extend_from_slice(self.get(id));
            fits &= i32::try_from(bytes.len()).is_ok();
            offsets.push(bytes.len() as i32);
        });
        if !fits {
            return Err(Error::resource(
                "more than 2 GiB of key text in one batch of groups",
            ));
        }
        Ok((
            OffsetBuffer::new(ScalarBuffer::from(offsets)),
            Buffer::from_vec(bytes),
        ))
    }
}

/// Bits of the hash for the slot index and for the tag of the table. The upper half of a key's hash decides its key group
/// and is nearly the same for all keys of a subtask, so the lower half is mixed into it.
#[inline]
fn spread(hash: u64) -> u64 {
    hash ^ (hash << 32)
}

impl Index {
    /// The group whose slot has this tag and is the `same`, or a new one.
    #[inline]
    fn find_or_add(
        &mut self,
        hash: u64,
        tag: u64,
        mut same: impl FnMut(u32) -> bool,
    ) -> (u32, bool) {
        let spread_hash = spread(hash);
        let found = self
            .slots
            .find(spread_hash, |slot| slot.tag == tag && same(slot.id));
        match found {
            Some(slot) => (slot.id, false),
            None => (self.add(hash, tag), true),
        }
    }

    #[cold]
    fn add(&mut self, hash: u64, tag: u64) -> u32 {
        let id = self.add_without_slot(hash);
        let hashes = &self.hashes;
        self.slots
            .insert_unique(spread(hash), Slot { tag, id }, |slot| {
                spread(hashes[slot.id as usize])
            });
        id
    }

    /// The NULL group has no slot: its id is remembered beside.
    fn add_without_slot(&mut self, hash: u64) -> u32 {
        let id = self.hashes.len() as u32;
        self.hashes.push(hash);
        id
    }
}

impl GroupTable {
    /// An empty table for keys of these Arrow types.
    pub fn new(key_types: &[DataType]) -> Result<Self> {
        Self::with_capacity(key_types, 0)
    }

    /// The same with room for a number of groups.
    pub fn with_capacity(key_types: &[DataType], groups: usize) -> Result<Self> {
        let keys = match key_types {
            [] => Keys::None,
            [data_type] if is_fixed(data_type) => Keys::Fixed {
                data_type: data_type.clone(),
                values: Vec::with_capacity(groups),
                null: None,
            },
            [data_type @ (DataType::Utf8 | DataType::Binary)] => Keys::Text {
                data_type: data_type.clone(),
                bytes: Packed::new(),
                null: None,
            },
            several => Keys::Rows {
                converter: RowConverter::new(
                    several.iter().cloned().map(SortField::new).collect(),
                )?,
                bytes: Packed::new(),
            },
        };
        Ok(GroupTable {
            index: Index {
                slots: HashTable::with_capacity(groups),
                hashes: Vec::with_capacity(groups),
            },
            keys,
            collides: false,
        })
    }

    /// Makes room for more groups at once.
    pub fn reserve(&mut self, groups: usize) {
        let Index { slots, hashes } = &mut self.index;
        slots.reserve(groups, |slot| spread(hashes[slot.id as usize]));
        hashes.reserve(groups);
        if let Keys::Fixed { values, .. } = &mut self.keys {
            values.reserve(groups);
        }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.index.hashes.len()
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.index.hashes.is_empty()
    }

    /// The hash of each group's key, by id; snapshots and emission need no other.
    pub fn hashes(&self) -> &[u64] {
        &self.index.hashes
    }

    /// The groups whose keys have one of these hashes, ascending. The time it takes goes with the hashes, not with the groups.
    pub fn ids_of(&self, hashes: impl Iterator<Item = u64>) -> Vec<u32> {
        let apart = self.group_without_slot();
        let mut ids = Vec::with_capacity(hashes.size_hint().0);
        for hash in hashes {
            let has_hash = |id: &u32| self.index.hashes[*id as usize] == hash;
            let slots = self.index.slots.iter_hash(spread(hash));
            ids.extend(slots.map(|slot| slot.id).filter(has_hash));
            ids.extend(apart.filter(has_hash));
        }
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Whether two groups may have keys of one hash.
    pub fn has_collisions(&self) -> bool {
        let shares = |id: u32| {
            self.ids_of(std::iter::once(self.index.hashes[id as usize]))
                .len()
                > 1
        };
        self.collides || self.group_without_slot().is_some_and(shares)
    }

    fn group_without_slot(&self) -> Option<u32> {
        match &self.keys {
            Keys::None => (!self.is_empty()).then_some(0),
            Keys::Fixed { null, .. } | Keys::Text { null, .. } => *null,
            Keys::Rows { .. } => None,
        }
    }

    /// Forgets all groups but these, given ascending, which get the numbers of their places here. Everything else that is kept by group
    /// follows with [`keep_at`].
    pub fn keep(&mut self, ids: &[u32]) {
        const GONE: u32 = u32::MAX;
        let mut numbers = vec![GONE; self.len()];
        for (new, old) in ids.iter().enumerate() {
            numbers[*old as usize] = new as u32;
        }
        let number = |id: u32| Some(numbers[id as usize]).filter(|number| *number != GONE);
        let Index { slots, hashes } = &mut self.index;
        slots.retain(|slot| {
            slot.id = numbers[slot.id as usize];
            slot.id != GONE
        });
        keep_at(hashes, ids);
        if slots.capacity() > 2 * slots.len() {
            slots.shrink_to(0, |slot| spread(hashes[slot.id as usize]));
        }
        match &mut self.keys {
            Keys::None => {}
            Keys::Fixed { values, null, .. } => {
                keep_at(values, ids);
                *null = null.and_then(number);
            }
            Keys::Text { bytes, null, .. } => {
                bytes.keep(ids);
                *null = null.and_then(number);
            }
            Keys::Rows { bytes, .. } => bytes.keep(ids),
        }
    }

    /// Bytes held.
    pub fn size_bytes(&self) -> usize {
        let keys = match &self.keys {
            Keys::None => 0,
            Keys::Fixed { values, .. } => values.capacity() * size_of::<i64>(),
            Keys::Text { bytes, .. } => bytes.size_bytes(),
            Keys::Rows { converter, bytes } => converter.size() + bytes.size_bytes(),
        };
        keys + self.index.slots.allocation_size() + self.index.hashes.capacity() * size_of::<u64>()
    }

    /// The group id of each row's key, new keys getting new ids. `keys` are the key columns, `hashes` the hash of each row
    /// (from [`crate::stream::hash_columns`] over the same columns). `ids` is overwritten.
    pub fn resolve(&mut self, keys: &[ArrayRef], hashes: &[u64], ids: &mut Vec<u32>) -> Result<()> {
        ids.clear();
        ids.reserve(hashes.len());
        debug_assert!(
            keys.iter().all(|key| key.len() == hashes.len()),
            "a hash for every row"
        );
        assert!(
            self.len() + hashes.len() < u32::MAX as usize,
            "a group table holds fewer than 2^32 groups"
        );
        let GroupTable {
            index,
            keys: own,
            collides,
        } = self;
        match own {
            Keys::None => {
                if index.hashes.is_empty() && !hashes.is_empty() {
                    index.add_without_slot(hashes[0]);
                }
                ids.resize(hashes.len(), 0);
            }
            Keys::Fixed { values, null, .. } => {
                let nulls = keys[0].nulls();
                with_fixed_values(&keys[0], |column| {
                    resolve_fixed(index, values, null, column, nulls, hashes, ids);
                });
            }
            Keys::Text {
                data_type,
                bytes,
                null,
            } => {
                let nulls = keys[0].nulls();
                if *data_type == DataType::Utf8 {
                    let column = keys[0].as_string::<i32>();
                    let value = |row: usize| column.value(row).as_bytes();
                    resolve_bytes(index, bytes, null, collides, value, nulls, hashes, ids);
                } else {
                    let column = keys[0].as_binary::<i32>();
                    let value = |row: usize| column.value(row);
                    resolve_bytes(index, bytes, null, collides, value, nulls, hashes, ids);
                }
            }
            Keys::Rows { converter, bytes } => {
                let rows = converter.convert_columns(keys)?;
                let value = |row: usize| rows.row(row).data();
                resolve_bytes(index, bytes, &mut None, collides, value, None, hashes, ids);
            }
        }
        Ok(())
    }

    /// The keys of the groups, as columns.
    pub fn keys(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        Ok(match &self.keys {
            Keys::None => Vec::new(),
            Keys::Fixed {
                data_type,
                values,
                null,
            } => {
                let nulls = null_buffer(groups, *null);
                vec![fixed_array(data_type, groups.gather(values), nulls)]
            }
            Keys::Text {
                data_type,
                bytes,
                null,
            } => {
                let (offsets, data) = bytes.gather(groups)?;
                let nulls = null_buffer(groups, *null);
                let array: ArrayRef = if *data_type == DataType::Utf8 {
                    Arc::new(StringArray::try_new(offsets, data, nulls)?)
                } else {
                    Arc::new(BinaryArray::try_new(offsets, data, nulls)?)
                };
                vec![array]
            }
            Keys::Rows { converter, bytes } => {
                let parser = converter.parser();
                converter.convert_rows(groups.map(|id| parser.parse(bytes.get(id))))?
            }
        })
    }
}

fn resolve_fixed(
    index: &mut Index,
    values: &mut Vec<i64>,
    null: &mut Option<u32>,
    column: &[i64],
    nulls: Option<&NullBuffer>,
    hashes: &[u64],
    ids: &mut Vec<u32>,
) {
    #[inline(always)]
    fn of_value(index: &mut Index, values: &mut Vec<i64>, value: i64, hash: u64) -> u32 {
        let (id, new) = index.find_or_add(hash, value as u64, |_| true);
        if new {
            values.push(value);
        }
        id
    }
    let rows = column.iter().zip(hashes);
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None => ids.extend(rows.map(|(value, hash)| of_value(index, values, *value, *hash))),
        Some(nulls) => ids.extend(rows.zip(nulls).map(|((value, hash), valid)| {
            if valid {
                return of_value(index, values, *value, *hash);
            }
            *null.get_or_insert_with(|| {
                values.push(0);
                index.add_without_slot(*hash)
            })
        })),
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "the parts of one table and of one batch"
)]
fn resolve_bytes<'a>(
    index: &mut Index,
    bytes: &mut Packed,
    null: &mut Option<u32>,
    collides: &mut bool,
    value: impl Fn(usize) -> &'a [u8],
    nulls: Option<&NullBuffer>,
    hashes: &[u64],
    ids: &mut Vec<u32>,
) {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    ids.extend(hashes.iter().enumerate().map(|(row, hash)| {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return *null.get_or_insert_with(|| {
                bytes.push(&[]);
                index.add_without_slot(*hash)
            });
        }
        let value = value(row);
        let (id, new) = index.find_or_add(*hash, *hash, |id| {
            let same = bytes.get(id as usize) == value;
            *collides |= !same;
            same
        });
        if new {
            bytes.push(value);
        }
        id
    }));
}

/// Whether a column's values are told apart by 64 bits. FLOAT and DOUBLE are not among them: their equality is not that of
/// their bits.
pub(crate) fn is_fixed(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt32
            | DataType::UInt64
            | DataType::Date32
            | DataType::Time32(TimeUnit::Millisecond)
            | DataType::Timestamp(_, _)
            | DataType::Duration(TimeUnit::Millisecond)
            | DataType::Interval(IntervalUnit::YearMonth)
            | DataType::Boolean
    )
}

/// Hands the column over as 64-bit values, without a copy where it is one already.
pub(crate) fn with_fixed_values(column: &ArrayRef, mut use_values: impl FnMut(&[i64])) {
    macro_rules! widened {
        ($type:ty) => {{
            let values = column.as_primitive::<$type>().values().iter();
            use_values(&values.map(|value| *value as i64).collect::<Vec<_>>())
        }};
    }
    match column.data_type() {
        DataType::Int64 => use_values(column.as_primitive::<Int64Type>().values()),
        DataType::Timestamp(TimeUnit::Second, _) => {
            use_values(column.as_primitive::<TimestampSecondType>().values());
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            use_values(column.as_primitive::<TimestampMillisecondType>().values());
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            use_values(column.as_primitive::<TimestampMicrosecondType>().values());
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            use_values(column.as_primitive::<TimestampNanosecondType>().values());
        }
        DataType::Duration(_) => {
            use_values(column.as_primitive::<DurationMillisecondType>().values());
        }
        DataType::Int8 => widened!(Int8Type),
        DataType::Int16 => widened!(Int16Type),
        DataType::Int32 => widened!(Int32Type),
        DataType::UInt32 => widened!(UInt32Type),
        DataType::UInt64 => widened!(UInt64Type),
        DataType::Date32 => widened!(Date32Type),
        DataType::Time32(_) => widened!(Time32MillisecondType),
        DataType::Interval(_) => widened!(IntervalYearMonthType),
        DataType::Boolean => {
            let values = column.as_boolean().values().iter();
            use_values(&values.map(|value| value as i64).collect::<Vec<_>>());
        }
        other => unreachable!("{other} is no fixed-width key"),
    }
}

/// The inverse of [`with_fixed_values`].
pub(crate) fn fixed_array(
    data_type: &DataType,
    values: Vec<i64>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    macro_rules! narrowed {
        ($type:ty) => {{
            let values = values.into_iter().map(|value| value as _);
            let values: Vec<<$type as ArrowPrimitiveType>::Native> = values.collect();
            Arc::new(
                PrimitiveArray::<$type>::new(values.into(), nulls)
                    .with_data_type(data_type.clone()),
            )
        }};
    }
    match data_type {
        DataType::Int64 => Arc::new(PrimitiveArray::<Int64Type>::new(values.into(), nulls)),
        DataType::Timestamp(TimeUnit::Second, _) => narrowed!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => narrowed!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => narrowed!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => narrowed!(TimestampNanosecondType),
        DataType::Duration(_) => narrowed!(DurationMillisecondType),
        DataType::Int8 => narrowed!(Int8Type),
        DataType::Int16 => narrowed!(Int16Type),
        DataType::Int32 => narrowed!(Int32Type),
        DataType::UInt32 => narrowed!(UInt32Type),
        DataType::UInt64 => narrowed!(UInt64Type),
        DataType::Date32 => narrowed!(Date32Type),
        DataType::Time32(_) => narrowed!(Time32MillisecondType),
        DataType::Interval(_) => narrowed!(IntervalYearMonthType),
        DataType::Boolean => {
            let values = values.into_iter().map(|value| value != 0).collect();
            Arc::new(BooleanArray::new(values, nulls))
        }
        other => unreachable!("{other} is no fixed-width key"),
    }
}

/// All valid but the NULL group; `None` where that is not among the groups.
fn null_buffer(groups: &Groups, null: Option<u32>) -> Option<NullBuffer> {
    let null = null? as usize;
    let mut valid = BooleanBufferBuilder::new(groups.len());
    groups.map(|id| valid.append(id != null));
    let nulls = NullBuffer::new(valid.finish());
    (nulls.null_count() > 0).then_some(nulls)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Int64Array};

    use super::*;
    use crate::stream::hash_columns;

    /// Small deterministic pseudo-random numbers.
    fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed | 1;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        }
    }

    fn resolve(table: &mut GroupTable, keys: &[ArrayRef]) -> Vec<u32> {
        let hashes = hash_columns(keys, keys.first().map_or(3, |key| key.len())).unwrap();
        let mut ids = vec![77];
        table.resolve(keys, &hashes, &mut ids).unwrap();
        ids
    }

    fn all(table: &GroupTable) -> Vec<ArrayRef> {
        table.keys(&Groups::Range(0..table.len())).unwrap()
    }

    #[test]
    fn a_fixed_key_gets_ids_in_order_of_arrival_and_comes_back() {
        let mut table = GroupTable::new(&[DataType::Int64]).unwrap();
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![
            Some(7),
            None,
            Some(0),
            Some(7),
            None,
            Some(-1),
        ]));
        assert_eq!(resolve(&mut table, &[keys]), [0, 1, 2, 0, 1, 3]);
        let expected = Int64Array::from(vec![Some(7), None, Some(0), Some(-1)]);
        assert_eq!(all(&table)[0].as_primitive::<Int64Type>(), &expected);
        let some = table.keys(&Groups::Ids(&[3, 1])).unwrap();
        assert_eq!(
            some[0].as_primitive::<Int64Type>(),
            &Int64Array::from(vec![Some(-1), None])
        );
    }

    #[test]
    fn text_and_null_and_the_empty_text_are_different_keys() {
        let mut table = GroupTable::new(&[DataType::Utf8]).unwrap();
        let keys: ArrayRef = Arc::new(StringArray::from(vec![
            Some("a"),
            Some(""),
            None,
            Some("a"),
            None,
        ]));
        assert_eq!(resolve(&mut table, &[keys.clone()]), [0, 1, 2, 0, 2]);
        assert_eq!(
            all(&table)[0].as_string::<i32>(),
            &StringArray::from(vec![Some("a"), Some(""), None])
        );
    }

    #[test]
    fn no_key_is_one_group_and_no_row_is_none() {
        let mut table = GroupTable::new(&[]).unwrap();
        let mut ids = Vec::new();
        table.resolve(&[], &[], &mut ids).unwrap();
        assert!(table.is_empty());
        assert_eq!(resolve(&mut table, &[]), [0, 0, 0]);
        assert_eq!(table.len(), 1);
        assert!(all(&table).is_empty());
    }

    #[test]
    fn several_columns_and_decimals_are_keys_too() {
        let types = [DataType::Utf8, DataType::Decimal128(10, 2)];
        let mut table = GroupTable::new(&types).unwrap();
        let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("a"), None, None]));
        let number: ArrayRef = Arc::new(
            Decimal128Array::from(vec![Some(1), Some(2), None, None])
                .with_precision_and_scale(10, 2)
                .unwrap(),
        );
        assert_eq!(resolve(&mut table, &[text, number]), [0, 1, 2, 2]);
        assert_eq!(all(&table)[1].data_type(), &types[1]);
        assert_eq!(all(&table)[0].null_count(), 1);
    }

    #[test]
    fn a_big_table_agrees_with_a_map() {
        let mut next = numbers(11);
        let mut table = GroupTable::new(&[DataType::Int32]).unwrap();
        let mut twin = std::collections::BTreeMap::new();
        for _ in 0..50 {
            let keys: Vec<i32> = (0..500).map(|_| next(9_000) as i32 - 4_000).collect();
            let expected: Vec<u32> = keys
                .iter()
                .map(|key| {
                    let id = twin.len() as u32;
                    *twin.entry(*key).or_insert(id)
                })
                .collect();
            let column: ArrayRef = Arc::new(arrow::array::Int32Array::from(keys));
            assert_eq!(resolve(&mut table, &[column]), expected);
        }
        assert_eq!(table.len(), twin.len());
        let hashes = hash_columns(&all(&table), table.len()).unwrap();
        assert_eq!(table.hashes(), hashes);
    }
}
