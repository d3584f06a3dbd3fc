//! The groups of a group aggregation: from keys to states, which come and go.
//!
//! A key has a number in the group table, and while the group has rows a *slot*, by which the accumulators are indexed. A group
//! whose last row goes, or whose time to live is over, loses its slot; the next row of the key begins in another one, so
//! that no state has to be emptied between two rows of a batch. Slots are used again, and the table of keys is made anew when
//! most of its keys have no state. Where groups never go, the slot of a group is its number.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};

use super::change_marks::ChangeMarks;
use super::frozen::{Frozen, set_in};
use crate::error::Result;
use crate::functions::aggregate::{AggregateSet, AggregateSetSpec};
use crate::operators::keyed_state::{EXPIRY_COLUMN, KeySet};
use crate::planted::{Bug, is_planted};
use crate::state::{
    GroupTable, Groups, KEY_HASH_COLUMN, KeyRows, StateBackend, TimeToLive, all_but, keep_at,
    key_hashes_of,
};
use crate::types::ProcessingTime;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;
/// From how many keys on those without state are given back.
const LEAST_KEYS: usize = 4096;
/// The most groups in a batch of a snapshot.
const SNAPSHOT_GROUPS: usize = 1 << 20;

/// What a row does to its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupEvent {
    /// The group begins with it.
    First,
    /// The group has had rows and still has.
    Change,
    /// The group ends with it.
    Last,
    /// It takes back from a group that is not there.
    Ignored,
}

/// Where the rows of a batch belong.
#[derive(Default)]
pub(super) struct Assigned {
    /// The slot of each row; [`NONE`] where it is ignored.
    pub(super) slots: Vec<u32>,
    /// What each row does.
    pub(super) events: Vec<GroupEvent>,
    /// Whether a row is ignored.
    pub(super) ignores: bool,
}

/// See the file.
pub(super) struct GroupStates {
    pub(super) spec: AggregateSetSpec,
    pub(super) aggregates: AggregateSet,
    table: GroupTable,
    key_types: Vec<DataType>,
    backend: Arc<dyn StateBackend>,
    ttl: TimeToLive,
    /// Rows are never taken back, groups never expire: the slot of a group is its number.
    permanent: bool,
    insert_only: bool,
    /// The slot of each group.
    slots: Vec<u32>,
    /// The rows of each slot.
    counts: Vec<i64>,
    /// When each slot expires; empty without a time to live.
    expiries: Vec<i64>,
    free: Vec<u32>,
    /// Slots that are free as soon as the rows of the batch are folded.
    retired: Vec<u32>,
    marks: ChangeMarks,
    /// The snapshot that is being copied.
    frozen: Option<Frozen>,
}

impl GroupStates {
    pub(super) fn new(
        spec: AggregateSetSpec,
        key_types: Vec<DataType>,
        insert_only: bool,
        ttl: TimeToLive,
        backend: Arc<dyn StateBackend>,
    ) -> Result<Self> {
        Ok(GroupStates {
            aggregates: spec.create()?,
            table: backend.group_table(&key_types, 0)?,
            spec,
            key_types,
            backend,
            ttl,
            permanent: insert_only && !ttl.is_enabled(),
            insert_only,
            slots: Vec::new(),
            counts: Vec::new(),
            expiries: Vec::new(),
            free: Vec::new(),
            retired: Vec::new(),
            marks: ChangeMarks::default(),
            frozen: None,
        })
    }

    /// The number of the key of each row.
    pub(super) fn resolve(
        &mut self,
        keys: &[ArrayRef],
        hashes: &[u64],
        groups: &mut Vec<u32>,
    ) -> Result<()> {
        self.table.resolve(keys, hashes, groups)?;
        if !self.permanent {
            self.slots.resize(self.table.len(), NONE);
        }
        Ok(())
    }

    /// The number of keys, with state or not.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// How many groups have a state.
    pub(super) fn live(&self) -> usize {
        if self.permanent {
            self.table.len()
        } else {
            self.counts.len() - self.free.len() - self.retired.len()
        }
    }

    /// The slot of a group, [`NONE`] where it has no state. `known`: how many keys there were before the batch.
    pub(super) fn slot(&self, group: u32, known: usize, now: ProcessingTime) -> u32 {
        if self.permanent {
            return if (group as usize) < known {
                group
            } else {
                NONE
            };
        }
        let slot = self.slots[group as usize];
        if slot != NONE && self.is_expired(slot, now) {
            return NONE;
        }
        slot
    }

    /// The slot of a group whatever the time is.
    pub(super) fn current_slot(&self, group: u32) -> u32 {
        if self.permanent {
            group
        } else {
            self.slots[group as usize]
        }
    }

    fn is_expired(&self, slot: u32, now: ProcessingTime) -> bool {
        self.ttl.is_enabled() && TimeToLive::is_expired(self.expiries[slot as usize], now)
    }

    /// Says which groups the next rows change, some perhaps twice: a frozen snapshot still gets them as they are, and they count as changed.
    pub(super) fn before_change(&mut self, groups: &[u32]) -> Result<()> {
        self.marks.mark(groups, self.table.len());
        self.copy_before_change(groups)
    }

    /// Says which groups the next rows of a bundle change; adds to `touched` those that it did not change yet, each once. What is frozen of them
    /// must be copied before they change ([`GroupStates::copy_before_change`]).
    pub(super) fn touch(&mut self, groups: &[u32], touched: &mut Vec<u32>) {
        self.marks.touch(groups, self.table.len(), touched);
    }

    /// The bundle that touched these groups is closed.
    pub(super) fn untouch(&mut self, touched: &[u32]) {
        self.marks.release(touched);
    }

    /// Gives each row its slot; `known` keys were there before the batch. `weight` tells by how much a row changes the number
    /// of rows of its group. [`GroupStates::before_change`], or both [`GroupStates::touch`] and the copy, come first.
    pub(super) fn assign(
        &mut self,
        groups: &[u32],
        known: usize,
        weight: impl Fn(usize) -> i64,
        now: ProcessingTime,
    ) -> Result<Assigned> {
        let assigned = if self.permanent {
            permanent(groups, known)
        } else {
            self.assign_each(groups, weight, now)
        };
        let slots = if self.permanent {
            self.table.len()
        } else {
            self.counts.len()
        };
        self.aggregates.grow(slots);
        Ok(assigned)
    }

    fn assign_each(
        &mut self,
        groups: &[u32],
        weight: impl Fn(usize) -> i64,
        now: ProcessingTime,
    ) -> Assigned {
        let expiry = self.ttl.expiry(now);
        let mut assigned = Assigned {
            slots: Vec::with_capacity(groups.len()),
            events: Vec::with_capacity(groups.len()),
            ignores: false,
        };
        for (row, group) in groups.iter().enumerate() {
            let weight = weight(row);
            let (slot, event) = self.assign_one(*group, weight, now);
            if slot != NONE && self.ttl.is_enabled() {
                self.expiries[slot as usize] = expiry;
            }
            assigned.ignores |= event == GroupEvent::Ignored;
            assigned.slots.push(slot);
            assigned.events.push(event);
        }
        assigned
    }

    #[inline]
    fn assign_one(&mut self, group: u32, weight: i64, now: ProcessingTime) -> (u32, GroupEvent) {
        let mut slot = self.slots[group as usize];
        if slot != NONE && self.is_expired(slot, now) {
            self.retire(group);
            slot = NONE;
        }
        if slot == NONE {
            if weight <= 0 {
                return (NONE, GroupEvent::Ignored);
            }
            let slot = self.new_slot();
            self.slots[group as usize] = slot;
            self.counts[slot as usize] = weight;
            return (slot, GroupEvent::First);
        }
        let count = &mut self.counts[slot as usize];
        *count += weight;
        if *count <= 0 && !self.insert_only {
            self.retire(group);
            return (slot, GroupEvent::Last);
        }
        (slot, GroupEvent::Change)
    }

    fn new_slot(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        self.counts.push(0);
        if self.ttl.is_enabled() {
            self.expiries.push(i64::MAX);
        }
        (self.counts.len() - 1) as u32
    }

    fn retire(&mut self, group: u32) {
        let slot = std::mem::replace(&mut self.slots[group as usize], NONE);
        self.retired.push(slot);
    }

    /// Frees the slots of groups that ended: their rows are folded and their results read.
    pub(super) fn release(&mut self) {
        self.aggregates.reset(&self.retired);
        self.free.append(&mut self.retired);
    }

    /// Lets go of the groups whose time to live is over; gives the hashes of their keys.
    pub(super) fn sweep(&mut self, now: ProcessingTime) -> Result<Vec<u64>> {
        self.copy_rest()?;
        let mut expired = Vec::new();
        for group in 0..self.slots.len() as u32 {
            let slot = self.slots[group as usize];
            if slot != NONE && self.is_expired(slot, now) {
                self.retire(group);
                expired.push(group);
            }
        }
        self.release();
        self.marks.mark(&expired, self.table.len());
        Ok(self.hashes(&expired))
    }

    /// Gives memory back where most keys have no state. The numbers of groups change: nobody may hold one.
    pub(super) fn pack(&mut self) -> Result<()> {
        let keys = self.table.len();
        if self.permanent || keys < LEAST_KEYS || 2 * self.live() > keys {
            return Ok(());
        }
        let live = self.live_groups();
        self.keep(&live)
    }

    /// Forgets all groups but these, given ascending, and moves their states together where they are few.
    fn keep(&mut self, groups: &[u32]) -> Result<()> {
        debug_assert!(self.retired.is_empty(), "no batch is under way");
        if groups.is_empty() {
            return self.clear();
        }
        self.copy_rest()?;
        self.marks.keep(groups, self.table.hashes());
        self.table.keep(groups);
        if self.permanent {
            return self.aggregates.keep(groups);
        }
        keep_at(&mut self.slots, groups);
        if 4 * self.live() < 3 * self.counts.len() {
            self.pack_slots()?;
        }
        Ok(())
    }

    /// The slots that groups have, ascending.
    fn used_slots(&self) -> Vec<u32> {
        let mut used = vec![false; self.counts.len()];
        for slot in self.slots.iter().filter(|slot| **slot != NONE) {
            used[*slot as usize] = true;
        }
        (0..used.len() as u32)
            .filter(|slot| used[*slot as usize])
            .collect()
    }

    /// Moves all states together.
    fn pack_slots(&mut self) -> Result<()> {
        let used = self.used_slots();
        let mut numbers = vec![NONE; self.counts.len()];
        for (new, old) in used.iter().enumerate() {
            numbers[*old as usize] = new as u32;
        }
        for slot in self.slots.iter_mut().filter(|slot| **slot != NONE) {
            *slot = numbers[*slot as usize];
        }
        keep_at(&mut self.counts, &used);
        if self.ttl.is_enabled() {
            keep_at(&mut self.expiries, &used);
        }
        self.free = Vec::new();
        self.aggregates.keep(&used)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) -> Result<()> {
        self.copy_rest()?;
        self.marks.keep(&[], self.table.hashes());
        self.table = self.backend.group_table(&self.key_types, 0)?;
        self.aggregates = self.spec.create()?;
        self.slots = Vec::new();
        self.counts = Vec::new();
        self.expiries = Vec::new();
        self.free = Vec::new();
        self.retired = Vec::new();
        Ok(())
    }

    /// Forgets the groups of some keys.
    pub(super) fn remove(&mut self, keys: &KeySet) -> Result<()> {
        let gone = self.table.ids_of(keys.iter().copied());
        if gone.is_empty() {
            return Ok(());
        }
        self.copy_rest()?;
        for group in self.with_state(gone.clone()) {
            if !self.permanent {
                self.retire(group);
            }
        }
        self.release();
        self.keep(&all_but(&gone, self.table.len()))
    }

    /// Remembers from now on which groups change.
    pub(super) fn track_changes(&mut self) {
        self.marks.start();
    }

    /// The hashes of the keys whose groups changed.
    pub(super) fn take_changed(&mut self) -> Vec<u64> {
        let (groups, mut hashes) = self.marks.take();
        hashes.extend(self.hashes(&groups));
        hashes
    }

    /// Those of some keys whose groups changed; they count as told.
    pub(super) fn take_changed_among(&mut self, keys: &KeySet) -> KeySet {
        let mut changed: KeySet = self
            .marks
            .take_lost(|hash| keys.contains(&hash))
            .into_iter()
            .collect();
        for group in self.table.ids_of(keys.iter().copied()) {
            if self.marks.take_one(group) {
                changed.insert(self.table.hashes()[group as usize]);
            }
        }
        changed
    }

    fn live_groups(&self) -> Vec<u32> {
        self.with_state((0..self.table.len() as u32).collect())
    }

    /// The hashes of the keys of all groups with a state, each once.
    pub(super) fn live_keys(&self) -> Vec<u64> {
        let mut hashes = self.hashes(&self.live_groups());
        if self.table.has_collisions() {
            hashes.sort_unstable();
            hashes.dedup();
        }
        hashes
    }

    fn with_state(&self, mut groups: Vec<u32>) -> Vec<u32> {
        groups.retain(|group| self.current_slot(*group) != NONE);
        groups
    }

    fn among_with_state<'a>(&self, groups: &'a [u32]) -> Cow<'a, [u32]> {
        match self.permanent {
            true => Cow::Borrowed(groups),
            false => Cow::Owned(self.with_state(groups.to_vec())),
        }
    }

    fn slots_of<'a>(&self, groups: &'a [u32]) -> Cow<'a, [u32]> {
        match self.permanent {
            true => Cow::Borrowed(groups),
            false => Cow::Owned(Groups::Ids(groups).gather(&self.slots)),
        }
    }

    /// The keys of groups.
    pub(super) fn keys(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        self.table.keys(&Groups::Ids(groups))
    }

    /// The hashes of the keys of groups.
    pub(super) fn hashes(&self, groups: &[u32]) -> Vec<u64> {
        Groups::Ids(groups).gather(self.table.hashes())
    }

    /// The results of slots.
    pub(super) fn evaluate(&self, slots: &[u32]) -> Result<Vec<ArrayRef>> {
        self.aggregates.evaluate(&self.spec, &Groups::Ids(slots))
    }

    /// Bytes held.
    pub(super) fn size_bytes(&self) -> usize {
        let by_group = self.slots.capacity() * 4 + self.free.capacity() * 4;
        let by_slot = (self.counts.capacity() + self.expiries.capacity()) * 8;
        self.table.size_bytes()
            + self.aggregates.size_bytes()
            + self.marks.size_bytes()
            + self.frozen.as_ref().map_or(0, Frozen::size_bytes)
            + by_group
            + by_slot
    }

    /// All groups with a state: the hash of the key, keys, accumulators, and the time at which they expire.
    pub(super) fn snapshot(&self, key_names: &[String]) -> Result<Vec<RecordBatch>> {
        let schema = Arc::new(self.snapshot_schema(key_names));
        self.snapshot_groups(&self.live_groups(), &schema)
    }

    /// The same for the groups of some keys.
    pub(super) fn export(&self, key_names: &[String], keys: &KeySet) -> Result<Vec<RecordBatch>> {
        let groups = self.table.ids_of(keys.iter().copied());
        let schema = Arc::new(self.snapshot_schema(key_names));
        self.snapshot_groups(&self.with_state(groups), &schema)
    }

    /// Freezes the groups that changed and those of the keys `others`, or all.
    pub(super) fn freeze(
        &mut self,
        key_names: &[String],
        all: bool,
        others: &KeySet,
    ) -> Result<()> {
        debug_assert!(self.frozen.is_none(), "one snapshot at a time");
        let (mut bits, mut hashes) = self.marks.take_bits();
        let words = self.table.len().div_ceil(64);
        if all {
            // Those without a state are passed over when they are copied.
            bits = vec![u64::MAX; words];
            let beyond = words * 64 - self.table.len();
            if let Some(last) = bits.last_mut() {
                *last >>= beyond;
            }
        } else {
            bits.resize(words, 0);
            hashes.extend(others);
            if self.table.has_collisions() {
                hashes.extend(self.hashes(&set_in(&bits)));
            }
            set_bits(&mut bits, &self.table.ids_of(hashes.iter().copied()));
            hashes.retain(|hash| self.table.ids_of(std::iter::once(*hash)).is_empty());
        }
        let schema = Arc::new(self.snapshot_schema(key_names));
        let mut frozen = Frozen::new(bits, schema);
        frozen.gone = if all { Vec::new() } else { hashes };
        self.frozen = Some(frozen);
        Ok(())
    }

    /// Some of what is frozen: so many groups, and hashes of keys that have none. `None`: that was all.
    pub(super) fn thaw(&mut self, groups: usize) -> Result<Option<(Vec<RecordBatch>, Vec<u64>)>> {
        let Some(frozen) = &mut self.frozen else {
            return Ok(None);
        };
        let groups = frozen.take_some(groups);
        self.copy(&groups)?;
        if self.frozen.take_if(|frozen| frozen.is_over()).is_some() {
            return Ok(None);
        }
        let frozen = self.frozen.as_mut().expect("it is not over");
        let batches = std::mem::take(&mut frozen.batches);
        Ok(Some((batches, std::mem::take(&mut frozen.gone))))
    }

    /// Copies those of some groups that are frozen, which are about to change.
    pub(super) fn copy_before_change(&mut self, groups: &[u32]) -> Result<()> {
        let Some(frozen) = &mut self.frozen else {
            return Ok(());
        };
        if is_planted(Bug::FrozenChanged) {
            return Ok(());
        }
        let groups = frozen.take_among(groups);
        self.copy(&groups)
    }

    /// Copies all that is frozen: groups are about to get other numbers.
    fn copy_rest(&mut self) -> Result<()> {
        let Some(frozen) = &mut self.frozen else {
            return Ok(());
        };
        let groups = frozen.take_some(usize::MAX);
        self.copy(&groups)
    }

    fn copy(&mut self, groups: &[u32]) -> Result<()> {
        let Some(mut frozen) = self.frozen.take_if(|_| !groups.is_empty()) else {
            return Ok(());
        };
        let live = self.among_with_state(groups);
        if live.len() < groups.len() {
            let has_ended = |group: &&u32| self.current_slot(**group) == NONE;
            let ended = groups.iter().filter(has_ended);
            let hashes = self.table.hashes();
            frozen
                .gone
                .extend(ended.map(|group| hashes[*group as usize]));
        }
        frozen
            .batches
            .extend(self.snapshot_groups(&live, &frozen.schema)?);
        self.frozen = Some(frozen);
        Ok(())
    }

    fn snapshot_groups(&self, live: &[u32], schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
        let batches = live.chunks(SNAPSHOT_GROUPS).map(|groups| {
            let slots = self.slots_of(groups);
            let (groups, slots) = (Groups::of(groups), Groups::of(&slots));
            let hashes = groups.gather(self.table.hashes());
            let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from(hashes))];
            columns.extend(self.table.keys(&groups)?);
            let partials = self.aggregates.partials(&slots)?;
            columns.extend(self.spec.state_columns(partials)?);
            if self.ttl.is_enabled() {
                let expiries = slots.gather(&self.expiries);
                columns.push(Arc::new(Int64Array::from(expiries)));
            }
            Ok(RecordBatch::try_new(schema.clone(), columns)?)
        });
        batches.collect()
    }

    /// The columns of [`GroupStates::snapshot`].
    pub(super) fn snapshot_schema(&self, key_names: &[String]) -> Schema {
        let mut fields = vec![Field::new(KEY_HASH_COLUMN, DataType::UInt64, false)];
        let keys = key_names.iter().zip(&self.key_types);
        fields.extend(keys.map(|(name, key)| Field::new(name, key.clone(), true)));
        fields.extend(self.spec.state_fields());
        if self.ttl.is_enabled() {
            fields.push(Field::new(EXPIRY_COLUMN, DataType::Int64, false));
        }
        Schema::new(fields)
    }

    /// Makes room for the groups of some batches, or for all where these are the first of so many pieces.
    pub(super) fn make_room(&mut self, batches: &[RecordBatch], first_of: usize) {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if first_of < 2 {
            return self.table.reserve(rows);
        }
        // Pieces differ a little.
        let groups = rows * first_of + rows / 8;
        self.table.reserve(groups);
        self.aggregates
            .grow(self.table.len().max(self.counts.len()) + groups);
        if !self.permanent {
            self.slots.reserve(groups);
            self.counts.reserve(groups);
        }
    }

    /// Takes up groups of keys that are not here. A state written without a time to live expires when it has one again that has passed
    /// since the next write.
    pub(super) fn load(&mut self, batches: &[RecordBatch]) -> Result<()> {
        let mut known = self.table.len();
        let all_are_new = self.append_keys(batches)?;
        for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
            let first_partial = 1 + self.key_types.len();
            let last_partial = first_partial + self.spec.partial_fields().len();
            let partials = &batch.columns()[first_partial..last_partial];
            let counts = self.spec.row_counts(partials).filter(|_| !self.insert_only);
            let mut groups = Vec::new();
            if all_are_new {
                let ids = known as u32..(known + batch.num_rows()) as u32;
                groups.extend(ids);
            } else {
                known = self.table.len();
                self.resolve(self.keys_of(batch), key_hashes_of(batch), &mut groups)?;
            }
            let weight = |row: usize| counts.map_or(1, |counts| counts[row]);
            self.copy_before_change(&groups)?;
            let assigned = self.assign(&groups, known, weight, ProcessingTime(i64::MIN))?;
            debug_assert!(!assigned.ignores, "a group that is kept has rows");
            self.load_expiries(batch, &assigned.slots);
            self.aggregates
                .merge(&self.spec, &assigned.slots, partials)?;
            known += batch.num_rows();
        }
        Ok(())
    }

    /// Numbers the keys of all batches at once, if there are many and none is here.
    fn append_keys(&mut self, batches: &[RecordBatch]) -> Result<bool> {
        let keys = |batch| (self.keys_of(batch), key_hashes_of(batch));
        let keys: Vec<KeyRows> = batches.iter().map(keys).collect();
        let all_are_new = self.table.append(&keys)?;
        if !self.permanent {
            self.slots.resize(self.table.len(), NONE);
        }
        Ok(all_are_new)
    }

    fn keys_of<'a>(&self, batch: &'a RecordBatch) -> &'a [ArrayRef] {
        &batch.columns()[1..1 + self.key_types.len()]
    }

    fn load_expiries(&mut self, batch: &RecordBatch, slots: &[u32]) {
        if !self.ttl.is_enabled() {
            return;
        }
        let expiries = batch.column_by_name(EXPIRY_COLUMN);
        let expiries = expiries.map(|column| column.as_primitive::<Int64Type>().values());
        for (row, slot) in slots.iter().enumerate() {
            self.expiries[*slot as usize] = expiries.map_or(i64::MAX, |expiries| expiries[row]);
        }
    }
}

fn set_bits(bits: &mut [u64], groups: &[u32]) {
    for group in groups {
        bits[*group as usize / 64] |= 1 << (group % 64);
    }
}

/// Slots where groups never go: their numbers. New ones are numbered in order of arrival.
fn permanent(groups: &[u32], known: usize) -> Assigned {
    let mut next = known as u32;
    let events = groups.iter().map(|group| {
        if *group == next {
            next += 1;
            GroupEvent::First
        } else {
            GroupEvent::Change
        }
    });
    Assigned {
        events: events.collect(),
        slots: groups.to_vec(),
        ignores: false,
    }
}
