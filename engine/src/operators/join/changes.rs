//! Takes the rows of a batch into the state of their side, and says what each of them does: adds, takes away, or replaces.
//!
//! Rows of one side do not see each other, so the state of the side is brought up to date for a whole batch before the other side
//! is probed; only the numbers of associations follow during the probe, in order.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute;
use hashbrown::HashSet;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use super::links::NONE;
use super::side::{Finder, Side};
use crate::error::Result;
use crate::operators::window_join::NO_KEY;
use crate::stream::{ChangelogBatch, hash_columns};
use crate::types::{ProcessingTime, RowKind};

/// What the rows of a batch do.
pub(in crate::operators) struct Changes {
    /// The rows of the batch, then those from the state that they replaced or took away.
    pub(in crate::operators) rows: RecordBatch,
    /// In the order of the batch.
    pub(in crate::operators) events: Vec<Event>,
    /// Whether any row replaces another one.
    pub(in crate::operators) replaces: bool,
}

/// What a row does.
#[derive(Debug, Clone, Copy)]
pub(in crate::operators) struct Event {
    pub(in crate::operators) kind: RowKind,
    /// Its join key; `NO_KEY` where that equals no other.
    pub(in crate::operators) group: u32,
    /// Its position in [`Changes::rows`].
    pub(in crate::operators) row: u32,
    /// Its id in the state; `NONE` where it is not there.
    pub(in crate::operators) id: u32,
    /// The position of the row that it replaces, `NONE` for none.
    pub(in crate::operators) old_row: u32,
    /// The former id of that row, or of the one that goes.
    pub(in crate::operators) old_id: u32,
    /// Whether the state has other rows of its join key; told only where a side notes it.
    pub(in crate::operators) has_others: bool,
}

impl Event {
    fn new(kind: RowKind, group: u32, row: usize) -> Self {
        Event {
            kind,
            group,
            row: row as u32,
            id: NONE,
            old_row: NONE,
            old_id: NONE,
            has_others: false,
        }
    }
}

/// Rows of the state whose values are needed after they have gone.
struct Stored {
    first: u32,
    ids: Vec<u32>,
}

impl Stored {
    fn behind(batch: &ChangelogBatch) -> Self {
        Stored {
            first: batch.num_rows() as u32,
            ids: Vec::new(),
        }
    }

    /// Keeps the values of a row; says where they will be.
    fn keep(&mut self, id: u32) -> u32 {
        self.ids.push(id);
        self.first + self.ids.len() as u32 - 1
    }

    fn append_to(&self, rows: RecordBatch, side: &Side) -> Result<RecordBatch> {
        if self.ids.is_empty() {
            return Ok(rows);
        }
        let stored = side.slab.gather(&self.ids)?;
        Ok(compute::concat_batches(
            side.slab.schema(),
            [&rows, &stored],
        )?)
    }
}

impl Side {
    /// Applies a batch. `groups` are the join keys of its rows, `known` the number of groups.
    pub(in crate::operators) fn apply(
        &mut self,
        batch: &ChangelogBatch,
        groups: &[u32],
        known: usize,
        now: ProcessingTime,
    ) -> Result<Changes> {
        match &self.finder {
            Finder::None { first_only: false } => self.append(batch, groups, known),
            Finder::None { first_only: true } => self.append_first(batch, groups, known),
            Finder::JoinKey => self.apply_by_key(batch, groups, None, known, now),
            Finder::UniqueKey(_) => {
                let numbers = self.unique_keys(&batch.rows)?;
                self.apply_by_key(batch, groups, Some(&numbers), known, now)
            }
            Finder::WholeRow { .. } => self.apply_by_row(batch, groups, known, now),
        }
    }

    fn append(&mut self, batch: &ChangelogBatch, groups: &[u32], known: usize) -> Result<Changes> {
        let mut ids = self.insert(batch, |row| groups[row] != NO_KEY)?.into_iter();
        self.reserve(known);
        let mut events = Vec::with_capacity(groups.len());
        for (row, group) in groups.iter().enumerate() {
            let mut event = Event::new(RowKind::Insert, *group, row);
            if *group != NO_KEY {
                event.id = ids.next().expect("every row with a key was inserted");
                self.links.link(event.id, *group);
                self.note_others(&mut event, ProcessingTime(0));
            }
            events.push(event);
        }
        Ok(Changes {
            rows: batch.rows.clone(),
            events,
            replaces: false,
        })
    }

    /// Keeps the first row of each join key; the others do nothing.
    fn append_first(
        &mut self,
        batch: &ChangelogBatch,
        groups: &[u32],
        known: usize,
    ) -> Result<Changes> {
        let mut seen: HashSet<u32, Xxh3DefaultBuilder> = HashSet::default();
        let mut first = |group: &u32| {
            let is_first = *group != NO_KEY && self.links.is_empty(*group) && seen.insert(*group);
            if is_first { *group } else { NO_KEY }
        };
        let firsts: Vec<u32> = groups.iter().map(&mut first).collect();
        self.append(batch, &firsts, known)
    }

    /// Stores some rows of a batch; gives their ids in order.
    fn insert(
        &mut self,
        batch: &ChangelogBatch,
        stays: impl Fn(usize) -> bool,
    ) -> Result<Vec<u32>> {
        let rows: Vec<u32> = (0..batch.num_rows())
            .filter(|row| stays(*row))
            .map(|row| row as u32)
            .collect();
        let mut ids = Vec::with_capacity(rows.len());
        if rows.len() == batch.num_rows() {
            self.slab.insert(&batch.rows, &mut ids)?;
        } else {
            self.slab.insert_some(&batch.rows, &rows, &mut ids)?;
        }
        Ok(ids)
    }

    /// The numbers of the unique keys of rows.
    pub(in crate::operators) fn unique_keys(&mut self, rows: &RecordBatch) -> Result<Vec<u32>> {
        let Finder::UniqueKey(keys) = &mut self.finder else {
            return Ok(Vec::new());
        };
        keys.compact()?;
        let columns: Vec<ArrayRef> = keys
            .columns
            .iter()
            .map(|c| rows.column(*c).clone())
            .collect();
        let hashes = hash_columns(&columns, rows.num_rows())?;
        let mut numbers = Vec::new();
        keys.table.resolve(&columns, &hashes, &mut numbers)?;
        keys.current.resize(keys.table.len(), NONE);
        Ok(numbers)
    }

    /// The row of a join key or, where given, of a unique key.
    fn current(&self, group: u32, number: Option<u32>) -> u32 {
        match (&self.finder, number) {
            (Finder::UniqueKey(keys), Some(number)) => keys.current[number as usize],
            _ => self.links.first(group),
        }
    }

    fn set_current(&mut self, number: Option<u32>, id: u32) {
        if let (Finder::UniqueKey(keys), Some(number)) = (&mut self.finder, number) {
            keys.current[number as usize] = id;
        }
    }

    fn apply_by_key(
        &mut self,
        batch: &ChangelogBatch,
        groups: &[u32],
        numbers: Option<&[u32]>,
        known: usize,
        now: ProcessingTime,
    ) -> Result<Changes> {
        let kind = |row: usize| batch.kinds.get(row);
        let stays = |row: usize| groups[row] != NO_KEY && kind(row).is_accumulate();
        let mut ids = self.insert(batch, stays)?.into_iter();
        self.reserve(known);
        let mut stored = Stored::behind(batch);
        let mut gone = Vec::new();
        let mut events = Vec::with_capacity(groups.len());
        for (row, group) in groups.iter().enumerate() {
            let mut event = Event::new(kind(row), *group, row);
            if *group == NO_KEY {
                events.push(event);
                continue;
            }
            let number = numbers.map(|numbers| numbers[row]);
            let old = self.current(*group, number);
            let is_alive = old != NONE && self.is_alive(old, now);
            if old != NONE {
                self.links.unlink(old);
                gone.push(old);
            }
            let tells_old = is_alive && self.spec.updates_by_key;
            if event.kind.is_accumulate() {
                event.id = ids.next().expect("every row that stays was inserted");
                self.links.link(event.id, *group);
                self.refresh(event.id, now);
                if tells_old {
                    (event.old_row, event.old_id) = (stored.keep(old), old);
                }
            } else {
                event.old_id = old;
                if tells_old {
                    event.row = stored.keep(old);
                }
            }
            self.set_current(number, event.id);
            self.note_others(&mut event, now);
            if self.folded && self.spec.updates_by_key && !is_alive && event.id == NONE {
                // It came and went within the bundle.
                continue;
            }
            events.push(event);
        }
        let rows = stored.append_to(batch.rows.clone(), self)?;
        self.slab.remove(&gone)?;
        Ok(Changes {
            rows,
            replaces: events.iter().any(|event| event.old_row != NONE),
            events,
        })
    }

    fn apply_by_row(
        &mut self,
        batch: &ChangelogBatch,
        groups: &[u32],
        known: usize,
        now: ProcessingTime,
    ) -> Result<Changes> {
        let with_key: Vec<u32> = (0..groups.len() as u32)
            .filter(|row| groups[*row as usize] != NO_KEY)
            .collect();
        let Finder::WholeRow { index, .. } = &mut self.finder else {
            unreachable!("rows are found by their content")
        };
        let ids = index.find_or_insert(&mut self.slab, &batch.rows, &with_key)?;
        self.reserve(known);
        let mut of_row = ids.iter();
        let mut events = Vec::with_capacity(groups.len());
        for (row, group) in groups.iter().enumerate() {
            let mut event = Event::new(batch.kinds.get(row), *group, row);
            if *group != NO_KEY {
                let id = *of_row.next().expect("every row with a key has an id");
                self.count(id, &mut event, now);
                self.note_others(&mut event, now);
            }
            events.push(event);
        }
        self.remove_uncounted(ids)?;
        Ok(Changes {
            rows: batch.rows.clone(),
            events,
            replaces: false,
        })
    }

    /// Notes whether its join key has other rows than that of an event, as of now.
    fn note_others(&self, event: &mut Event, now: ProcessingTime) {
        if self.notes_others {
            let is_other =
                |id: &u32| self.is_alive(*id, now) && (*id != event.id || self.copies(*id) > 1);
            event.has_others = self.links.rows(event.group).any(|id| is_other(&id));
        }
    }

    /// One copy more or less of a row.
    fn count(&mut self, id: u32, event: &mut Event, now: ProcessingTime) {
        let is_alive = self.is_alive(id, now);
        let Finder::WholeRow { copies, .. } = &mut self.finder else {
            unreachable!("rows are counted where they are found by their content")
        };
        let copies = &mut copies[id as usize];
        if *copies > 0 && !is_alive {
            *copies = 0;
            self.links.unlink(id);
        }
        if event.kind.is_accumulate() {
            event.id = id;
            *copies += 1;
            if *copies == 1 {
                self.links.link(id, event.group);
            }
        } else if *copies > 0 {
            event.old_id = id;
            *copies -= 1;
            if *copies == 0 {
                self.links.unlink(id);
            }
        }
        self.refresh(id, now);
    }

    fn remove_uncounted(&mut self, mut ids: Vec<u32>) -> Result<()> {
        let Finder::WholeRow { index, copies } = &mut self.finder else {
            return Ok(());
        };
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|id| copies[*id as usize] == 0);
        ids.iter().for_each(|id| index.remove(*id));
        self.slab.remove(&ids)
    }
}
