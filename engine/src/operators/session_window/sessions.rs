//! Which session a row belongs to: sessions by key, grown and merged as rows come, and the order in which they end.
//!
//! A row opens `[time, time + gap)`; what overlaps or touches becomes one session. Rows are not taken one by one: a batch is
//! sorted by key and time and cut into runs whose rows are at most a gap apart, and a run meets the sessions of its key
//! once. Each session has a slot number by which its owner keeps what it knows of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Int64Type};

use crate::error::Result;
use crate::operators::KeySet;
use crate::state::{GroupTable, Groups, key_hashes_of};
use crate::types::EventTime;
use crate::window::WindowClock;

/// In place of a slot: the row is late.
pub(super) const LATE: u32 = u32::MAX;

/// The open sessions.
pub(super) struct Sessions {
    gap_ms: i64,
    clock: WindowClock,
    key_types: Vec<DataType>,
    keys: GroupTable,
    /// The slots of each key, by time.
    by_key: Vec<Vec<u32>>,
    slots: Vec<Session>,
    open: usize,
    /// Slots by the end they had when they were entered; entries that are no longer true are passed over.
    timers: BTreeMap<i64, Vec<u32>>,
}

/// One session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Session {
    pub(super) start: i64,
    pub(super) end: i64,
    key: u32,
    open: bool,
}

/// Where the rows of a batch went.
pub(super) struct Assigned {
    /// The slot of each row, or [`LATE`].
    pub(super) slots: Vec<u32>,
    /// Sessions that were merged away, each with the one that holds it now.
    pub(super) merged: Vec<(u32, u32)>,
}

impl Sessions {
    pub(super) fn new(gap_ms: i64, clock: WindowClock, key_types: Vec<DataType>) -> Result<Self> {
        Ok(Sessions {
            gap_ms,
            clock,
            keys: GroupTable::new(&key_types)?,
            key_types,
            by_key: Vec::new(),
            slots: Vec::new(),
            open: 0,
            timers: BTreeMap::new(),
        })
    }

    /// Number of slots that were ever given out since the last [`Sessions::compact`].
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn session(&self, slot: u32) -> Session {
        self.slots[slot as usize]
    }

    /// Whether the session that a row at `time` would open by itself is over at `watermark`.
    pub(super) fn is_over(&self, time: i64, watermark: EventTime) -> bool {
        self.clock.fire_time(time.saturating_add(self.gap_ms)) <= watermark
    }

    /// When the first session ends. It may have grown since; then nothing is due.
    pub(super) fn next_fire_time(&self) -> Option<EventTime> {
        let end = self.timers.first_key_value()?.0;
        Some(self.clock.fire_time(*end))
    }

    /// Brings rows to their sessions. `times` are wall clock. Where a `watermark` is given, a row is late when its session, after
    /// merging with those that are open, is over.
    pub(super) fn assign(
        &mut self,
        keys: &[ArrayRef],
        hashes: &[u64],
        times: &[i64],
        watermark: Option<EventTime>,
    ) -> Result<Assigned> {
        let mut ids = Vec::new();
        self.keys.resolve(keys, hashes, &mut ids)?;
        self.by_key.resize_with(self.keys.len(), Vec::new);
        let mut assigned = Assigned {
            slots: vec![LATE; times.len()],
            merged: Vec::new(),
        };
        let first = times.iter().min().copied().unwrap_or(i64::MAX);
        match watermark.filter(|watermark| self.is_over(first, *watermark)) {
            None => self.join_runs(&ids, times, 0..times.len(), &mut assigned),
            Some(watermark) => self.join_in_order(&ids, times, watermark, &mut assigned),
        }
        settle(&mut assigned);
        Ok(assigned)
    }

    /// A row that is over by itself counts only if a session is open for it at its turn, so those are taken one by one.
    fn join_in_order(
        &mut self,
        ids: &[u32],
        times: &[i64],
        watermark: EventTime,
        assigned: &mut Assigned,
    ) {
        let mut next = 0;
        while next < times.len() {
            let rest = &times[next..];
            let fresh = rest
                .iter()
                .position(|time| self.is_over(*time, watermark))
                .unwrap_or(rest.len());
            self.join_runs(ids, times, next..next + fresh, assigned);
            next += fresh;
            if next < times.len() {
                if self.has_open(ids[next], times[next]) {
                    self.join_runs(ids, times, next..next + 1, assigned);
                }
                next += 1;
            }
        }
    }

    fn has_open(&self, key: u32, time: i64) -> bool {
        let end = time.saturating_add(self.gap_ms);
        self.by_key[key as usize]
            .iter()
            .map(|slot| self.session(*slot))
            .any(|session| session.start <= end && session.end >= time)
    }

    fn join_runs(
        &mut self,
        ids: &[u32],
        times: &[i64],
        rows: std::ops::Range<usize>,
        assigned: &mut Assigned,
    ) {
        let mut sorted: Vec<(u32, i64, u32)> =
            rows.map(|row| (ids[row], times[row], row as u32)).collect();
        sorted.sort_unstable();
        let gap = self.gap_ms;
        let connected =
            |a: &(u32, i64, u32), b: &(u32, i64, u32)| a.0 == b.0 && b.1 <= a.1.saturating_add(gap);
        for run in sorted.chunk_by(connected) {
            let (first, last) = (run[0], run[run.len() - 1]);
            let slot = self.join(first.0, first.1, last.1.saturating_add(gap), assigned);
            for (_, _, row) in run {
                assigned.slots[*row as usize] = slot;
            }
        }
    }

    /// The session that holds `start .. end` of a key, after merging what it touches.
    fn join(&mut self, key: u32, start: i64, end: i64, assigned: &mut Assigned) -> u32 {
        let slots = &self.by_key[key as usize];
        let first = slots.partition_point(|slot| self.slots[*slot as usize].end < start);
        let touching = slots[first..]
            .iter()
            .take_while(|slot| self.slots[**slot as usize].start <= end)
            .count();
        if touching == 0 {
            return self.open(key, first, start, end);
        }
        let target = slots[first];
        let last = slots[first + touching - 1];
        let grown = end.max(self.slots[last as usize].end);
        for source in self.by_key[key as usize].drain(first + 1..first + touching) {
            self.slots[source as usize].open = false;
            self.open -= 1;
            assigned.merged.push((source, target));
        }
        let session = &mut self.slots[target as usize];
        session.start = session.start.min(start);
        if grown > session.end {
            session.end = grown;
            self.timers.entry(grown).or_default().push(target);
        }
        target
    }

    fn open(&mut self, key: u32, place: usize, start: i64, end: i64) -> u32 {
        let slot = self.slots.len() as u32;
        self.slots.push(Session {
            start,
            end,
            key,
            open: true,
        });
        self.open += 1;
        self.by_key[key as usize].insert(place, slot);
        self.timers.entry(end).or_default().push(slot);
        slot
    }

    /// Closes the sessions that are over at `time` and returns their slots by end. They can be asked about until
    /// [`Sessions::compact`].
    pub(super) fn close(&mut self, time: EventTime) -> Vec<u32> {
        let mut closed = Vec::new();
        while let Some(entry) = self.timers.first_entry() {
            let end = *entry.key();
            if self.clock.fire_time(end) > time {
                break;
            }
            for slot in entry.remove() {
                let session = &mut self.slots[slot as usize];
                if session.open && session.end == end {
                    session.open = false;
                    self.open -= 1;
                    let key = session.key;
                    self.by_key[key as usize].retain(|other| *other != slot);
                    closed.push(slot);
                }
            }
        }
        closed
    }

    /// The slots that are open.
    pub(super) fn open_slots(&self) -> Vec<u32> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, session)| session.open)
            .map(|(slot, _)| slot as u32)
            .collect()
    }

    /// The keys of slots.
    pub(super) fn keys_of(&self, slots: &[u32]) -> Result<Vec<ArrayRef>> {
        self.keys.keys(&Groups::Ids(&self.key_ids(slots)))
    }

    /// The hashes of the keys of slots.
    pub(super) fn hashes_of(&self, slots: &[u32]) -> Vec<u64> {
        Groups::Ids(&self.key_ids(slots)).gather(self.keys.hashes())
    }

    fn key_ids(&self, slots: &[u32]) -> Vec<u32> {
        slots.iter().map(|slot| self.session(*slot).key).collect()
    }

    /// The hash of the key and the bounds of each slot, as columns of a snapshot.
    pub(super) fn columns_of(&self, slots: &[u32]) -> Vec<ArrayRef> {
        let starts = slots.iter().map(|slot| self.session(*slot).start);
        let ends = slots.iter().map(|slot| self.session(*slot).end);
        vec![
            Arc::new(UInt64Array::from(self.hashes_of(slots))),
            Arc::new(Int64Array::from_iter_values(starts)),
            Arc::new(Int64Array::from_iter_values(ends)),
        ]
    }

    /// Opens the sessions of rows that begin with the columns of [`Sessions::columns_of`]; rows of one session may be several.
    pub(super) fn load(&mut self, keys: &[ArrayRef], rows: &RecordBatch) -> Result<Vec<u32>> {
        let bounds = |column: usize| rows.column(column).as_primitive::<Int64Type>().values();
        self.restore(keys, key_hashes_of(rows), bounds(1), bounds(2))
    }

    /// When the session of each row of a snapshot is over.
    pub(super) fn due(&self, rows: &RecordBatch) -> Vec<i64> {
        let ends = rows.column(2).as_primitive::<Int64Type>().values().iter();
        ends.map(|end| self.clock.fire_time(*end).millis())
            .collect()
    }

    /// Forgets all sessions.
    pub(super) fn clear(&mut self) -> Result<()> {
        *self = Sessions::new(self.gap_ms, self.clock, self.key_types.clone())?;
        Ok(())
    }

    /// Bytes held.
    pub(super) fn size_bytes(&self) -> usize {
        let timers = self.open * (size_of::<u32>() + size_of::<i64>());
        let keys = self.by_key.capacity() * (size_of::<Vec<u32>>() + size_of::<u32>());
        self.keys.size_bytes() + keys + self.slots.capacity() * size_of::<Session>() + timers
    }

    /// Opens sessions as they are; returns their slots.
    fn restore(
        &mut self,
        keys: &[ArrayRef],
        hashes: &[u64],
        starts: &[i64],
        ends: &[i64],
    ) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        self.keys.resolve(keys, hashes, &mut ids)?;
        self.by_key.resize_with(self.keys.len(), Vec::new);
        let sessions = ids.iter().zip(starts).zip(ends);
        Ok(sessions
            .map(|((key, start), end)| {
                let slots = &self.by_key[*key as usize];
                let place = slots.partition_point(|slot| self.slots[*slot as usize].start < *start);
                let known = slots.get(place).copied();
                let is_open = |slot: &u32| {
                    let session = self.slots[*slot as usize];
                    (session.start, session.end) == (*start, *end)
                };
                match known.filter(is_open) {
                    Some(slot) => slot,
                    None => self.open(*key, place, *start, *end),
                }
            })
            .collect())
    }

    /// Once most slots are closed: forgets them and the keys without a session, numbers the open ones anew and returns their old
    /// slots in the order of the new ones.
    pub(super) fn compact(&mut self) -> Result<Option<Vec<u32>>> {
        if self.slots.len() < 1024.max(3 * self.open) {
            return Ok(None);
        }
        self.renumber().map(Some)
    }

    /// The open sessions of some keys.
    pub(super) fn slots_of(&self, keys: &KeySet) -> Vec<u32> {
        let ids = self.keys.ids_of(keys.iter().copied());
        let slots = ids.iter().flat_map(|id| &self.by_key[*id as usize]);
        let mut slots: Vec<u32> = slots.copied().collect();
        slots.sort_unstable();
        slots
    }

    /// Forgets sessions, numbers the others anew and returns their old slots in the order of the new ones.
    pub(super) fn remove(&mut self, slots: &[u32]) -> Result<Vec<u32>> {
        for slot in slots {
            let session = &mut self.slots[*slot as usize];
            session.open = false;
            self.open -= 1;
            self.by_key[session.key as usize].retain(|other| other != slot);
        }
        self.renumber()
    }

    fn renumber(&mut self) -> Result<Vec<u32>> {
        let old = self.open_slots();
        let mut fresh = Sessions::new(self.gap_ms, self.clock, self.key_types.clone())?;
        let of = |field: fn(&Session) -> i64| -> Vec<i64> {
            old.iter()
                .map(|slot| field(&self.slots[*slot as usize]))
                .collect()
        };
        fresh.restore(
            &self.keys_of(&old)?,
            &self.hashes_of(&old),
            &of(|session| session.start),
            &of(|session| session.end),
        )?;
        *self = fresh;
        Ok(old)
    }
}

/// Follows merges to where each session ended up.
fn settle(assigned: &mut Assigned) {
    if assigned.merged.is_empty() {
        return;
    }
    let mut forward: BTreeMap<u32, u32> = BTreeMap::new();
    // A session that was merged later knows where those before it went.
    for (source, target) in assigned.merged.iter_mut().rev() {
        *target = forward.get(target).copied().unwrap_or(*target);
        forward.insert(*source, *target);
    }
    for slot in &mut assigned.slots {
        *slot = forward.get(slot).copied().unwrap_or(*slot);
    }
}
