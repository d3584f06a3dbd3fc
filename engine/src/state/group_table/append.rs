//! Many new keys at once, as a restore has them: they enter the hash table in the order of its slots, so that the part that is being
//! filled stays near the processor. Key by key, nearly every one would wait for memory.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;

use super::{GroupTable, Index, Keys, Packed, Slot, spread, with_fixed_values};
use crate::error::Result;

/// With fewer rows than this the order gains nothing.
const LEAST_ROWS: usize = 32 << 10;
/// Slots that are filled at a time: some 270 kB.
const PART_SLOTS: usize = 16 << 10;
/// At most so many parts: each is a place to write to when keys are put in order.
const MOST_PARTS: usize = 1024;

/// The key columns of some rows and the hash of each row.
pub type KeyRows<'a> = (&'a [ArrayRef], &'a [u64]);

/// A key on its way into the hash table.
#[derive(Clone, Copy, Default)]
struct New {
    hash: u64,
    slot: Slot,
}

impl GroupTable {
    /// Takes up the keys of all rows as groups of the next ids, if there are many, none is here and none comes twice; else changes
    /// nothing and gives `false`: [`GroupTable::resolve`] is for those.
    pub fn append(&mut self, batches: &[KeyRows<'_>]) -> Result<bool> {
        let rows: usize = batches.iter().map(|(_, hashes)| hashes.len()).sum();
        if rows < LEAST_ROWS || matches!(self.keys, Keys::None) {
            return Ok(false);
        }
        self.reserve(rows);
        let (known, null) = (self.len(), self.group_without_slot());
        let mut appended = true;
        for (keys, hashes) in batches {
            appended &= self.append_keys(keys, hashes)?;
        }
        if !(appended && self.append_slots(known)) {
            self.truncate(known, null);
            return Ok(false);
        }
        Ok(true)
    }

    /// Gives `false` where there is a second NULL.
    fn append_keys(&mut self, keys: &[ArrayRef], hashes: &[u64]) -> Result<bool> {
        let known = self.len();
        self.index.hashes.extend_from_slice(hashes);
        let null = match &mut self.keys {
            Keys::None => return Ok(false),
            Keys::Fixed { values, null, .. } => {
                with_fixed_values(&keys[0], |column| values.extend_from_slice(column));
                null
            }
            Keys::Text {
                data_type,
                bytes,
                null,
            } => {
                match data_type {
                    DataType::Utf8 => bytes.extend(keys[0].as_string::<i32>().iter()),
                    _ => bytes.extend(keys[0].as_binary::<i32>().iter()),
                }
                null
            }
            Keys::Rows { converter, bytes } => {
                let rows = converter.convert_columns(keys)?;
                rows.iter().for_each(|row| bytes.push(row.data()));
                return Ok(true);
            }
        };
        let column = keys[0].nulls().filter(|nulls| nulls.null_count() > 0);
        let mut nulls = column.into_iter().flat_map(|nulls| {
            let rows = 0..nulls.len();
            rows.filter(|row| nulls.is_null(*row))
        });
        Ok(nulls.all(|row| null.replace((known + row) as u32).is_none()))
    }

    /// Makes the groups from `known` on be found. Gives `false` where one was found before.
    fn append_slots(&mut self, known: usize) -> bool {
        let GroupTable {
            index,
            keys,
            collides,
        } = self;
        let mut same_bytes = |bytes: &Packed, one: u32, other: u32| {
            let same = bytes.get(one as usize) == bytes.get(other as usize);
            *collides |= !same;
            same
        };
        match keys {
            Keys::None => false,
            Keys::Fixed { values, null, .. } => {
                let tag = |id: usize, _| values[id] as u64;
                index.append_slots(known, *null, tag, |_, _| true)
            }
            Keys::Text { bytes, null, .. } => index.append_slots(
                known,
                *null,
                |_, hash| hash,
                |one, other| same_bytes(bytes, one, other),
            ),
            Keys::Rows { bytes, .. } => index.append_slots(
                known,
                None,
                |_, hash| hash,
                |one, other| same_bytes(bytes, one, other),
            ),
        }
    }

    /// Forgets the groups from `known` on.
    fn truncate(&mut self, known: usize, null_before: Option<u32>) {
        let Index { slots, hashes } = &mut self.index;
        slots.retain(|slot| (slot.id as usize) < known);
        hashes.truncate(known);
        match &mut self.keys {
            Keys::None => {}
            Keys::Fixed { values, null, .. } => {
                values.truncate(known);
                *null = null_before;
            }
            Keys::Text { bytes, null, .. } => {
                bytes.truncate(known);
                *null = null_before;
            }
            Keys::Rows { bytes, .. } => bytes.truncate(known),
        }
    }
}

impl Packed {
    /// NULL as the empty string.
    fn extend<T: AsRef<[u8]>>(&mut self, values: impl Iterator<Item = Option<T>>) {
        for value in values {
            self.push(value.as_ref().map_or(&[], AsRef::as_ref));
        }
    }

    fn truncate(&mut self, strings: usize) {
        self.ends.truncate(strings);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

impl Index {
    /// Gives the groups from `known` on, but for that of NULL, a slot. Ends with `false` where a slot has the same tag and the groups are the `same`.
    fn append_slots(
        &mut self,
        known: usize,
        null: Option<u32>,
        tag: impl Fn(usize, u64) -> u64,
        mut same: impl FnMut(u32, u32) -> bool,
    ) -> bool {
        let Index { slots, hashes } = self;
        let groups = (known..hashes.len()).filter(|id| null != Some(*id as u32));
        let new = groups.map(|id| {
            let hash = hashes[id];
            let slot = Slot {
                tag: tag(id, hash),
                id: id as u32,
            };
            New { hash, slot }
        });
        in_slot_order(new, slots.num_buckets())
            .iter()
            .all(|New { hash, slot }| {
                let is_same = |other: &Slot| other.tag == slot.tag && same(other.id, slot.id);
                if slots.find(spread(*hash), is_same).is_some() {
                    return false;
                }
                slots.insert_unique(spread(*hash), *slot, |slot| {
                    spread(hashes[slot.id as usize])
                });
                true
            })
    }
}

/// Part of the table after part, within each as they came. `buckets`: a power of two; the lowest bits of what [`spread`] gives are the place.
fn in_slot_order(keys: impl Iterator<Item = New> + Clone, buckets: usize) -> Vec<New> {
    let parts = (buckets / PART_SLOTS).clamp(1, MOST_PARTS);
    let shift = (buckets / parts).trailing_zeros();
    let part = |new: &New| (spread(new.hash) as usize & (buckets - 1)) >> shift;
    let mut next = vec![0; parts + 1];
    for new in keys.clone() {
        next[part(&new) + 1] += 1;
    }
    for index in 0..parts {
        next[index + 1] += next[index];
    }
    let mut ordered = vec![New::default(); next[parts]];
    for new in keys {
        let next = &mut next[part(&new)];
        ordered[*next] = new;
        *next += 1;
    }
    ordered
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Decimal128Array, Int64Array, StringArray};

    use super::*;
    use crate::state::Groups;
    use crate::stream::hash_columns;

    const ROWS: i64 = 3 * LEAST_ROWS as i64;

    fn decimals(numbers: impl Iterator<Item = Option<i64>>) -> ArrayRef {
        let numbers = numbers.map(|number| number.map(i128::from));
        Arc::new(Decimal128Array::from_iter(numbers))
    }

    fn texts(numbers: impl Iterator<Item = Option<i64>>) -> ArrayRef {
        let texts = numbers.map(|number| number.map(|number| format!("key {number}")));
        Arc::new(StringArray::from_iter(texts))
    }

    fn integers(numbers: impl Iterator<Item = Option<i64>>) -> ArrayRef {
        Arc::new(Int64Array::from_iter(numbers))
    }

    /// Every kind of key: of numbers, and of nothing but NULL.
    type Column = fn(&mut dyn Iterator<Item = Option<i64>>) -> ArrayRef;
    const COLUMNS: [Column; 3] = [
        |numbers| integers(numbers),
        |numbers| texts(numbers),
        |numbers| decimals(numbers),
    ];

    fn append(table: &mut GroupTable, columns: &[ArrayRef]) -> bool {
        let batches: Vec<_> = columns
            .iter()
            .map(|column| {
                let columns = vec![column.clone()];
                let hashes = hash_columns(&columns, column.len()).unwrap();
                (columns, hashes)
            })
            .collect();
        let batches: Vec<KeyRows> = batches
            .iter()
            .map(|(columns, hashes)| (columns.as_slice(), hashes.as_ref()))
            .collect();
        table.append(&batches).unwrap()
    }

    fn ids(table: &mut GroupTable, column: &ArrayRef) -> Vec<u32> {
        let columns = [column.clone()];
        let hashes = hash_columns(&columns, column.len()).unwrap();
        let mut ids = Vec::new();
        table.resolve(&columns, &hashes, &mut ids).unwrap();
        ids
    }

    fn keys(table: &GroupTable) -> ArrayRef {
        let all = Groups::Range(0..table.len());
        table.keys(&all).unwrap().remove(0)
    }

    #[test]
    fn what_is_appended_is_found() {
        for column in COLUMNS {
            let first = column(&mut (0..ROWS).map(Some));
            let null_among = (ROWS..2 * ROWS).map(|at| (at != ROWS + 9).then_some(at));
            let second = column(&mut null_among.clone());
            let mut table = GroupTable::new(&[first.data_type().clone()]).unwrap();
            assert!(append(
                &mut table,
                &[first.slice(0, 5), first.slice(5, ROWS as usize - 5)]
            ));
            assert!(append(&mut table, std::slice::from_ref(&second)));
            let all = column(&mut (0..ROWS).map(Some).chain(null_among));
            assert_eq!(&keys(&table), &all);
            assert_eq!(
                ids(&mut table, &first),
                (0..ROWS as u32).collect::<Vec<_>>()
            );
            assert_eq!(ids(&mut table, &second)[9], ROWS as u32 + 9);
            assert_eq!(table.len(), 2 * ROWS as usize);
            assert!(!table.has_collisions());
        }
    }

    #[test]
    fn keys_that_are_there_or_come_twice_are_left_to_others() {
        for column in COLUMNS {
            let some = column(&mut [Some(1), None, Some(-7)].into_iter());
            let fresh = column(&mut (10..10 + ROWS).map(Some));
            for twice in [Some(1), None, Some(10)] {
                let mut table = GroupTable::new(&[some.data_type().clone()]).unwrap();
                ids(&mut table, &some);
                assert!(!append(
                    &mut table,
                    &[fresh.clone(), column(&mut [twice].into_iter())]
                ));
                assert_eq!(&keys(&table), &some);
                assert_eq!(ids(&mut table, &some), [0, 1, 2]);
                assert!(append(&mut table, std::slice::from_ref(&fresh)));
                assert_eq!(ids(&mut table, &fresh.slice(0, 1)), [3]);
            }
        }
    }

    #[test]
    fn few_rows_and_keys_without_columns_are_left_to_others() {
        let few = integers((0..5).map(Some));
        let mut table = GroupTable::new(&[few.data_type().clone()]).unwrap();
        assert!(!append(&mut table, &[few]));
        assert!(table.is_empty());
        let mut table = GroupTable::new(&[]).unwrap();
        assert!(!table.append(&[(&[], &[3; LEAST_ROWS])]).unwrap());
    }
}
