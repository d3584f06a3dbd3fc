//! What is known about each key besides its rows: how far it was released, and when it may be forgotten.
//!
//! A bounded range is forgotten as Flink forgets it. When a row comes and the planned time of forgetting is less than a
//! range behind it, forgetting is planned one and a half ranges behind it. A plan that was superseded still counts as
//! a release of the key when its time comes. A plan that is due waits for the next row: if that is ahead of the watermark it
//! supersedes the plan even so, since it must not matter whether such a row came before or after a watermark; if it is
//! behind, the key was forgotten.

use std::collections::BTreeSet;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::OverFrame;
use super::waiting::WaitingRow;
use crate::error::Result;
use crate::operators::KeySet;
use crate::state::{GroupTable, TimeToLive};
use crate::types::{EventTime, ProcessingTime, Schema};

/// No row was released: rows up to the epoch are late, as in Flink.
const NONE_RELEASED: i64 = 0;
/// Nothing is planned.
const NO_PLAN: i64 = i64::MIN;

/// See the module.
pub(super) struct Keys {
    pub(super) table: GroupTable,
    pub(super) states: Vec<KeyState>,
    /// Planned times of forgetting, superseded ones too.
    plans: BTreeSet<(i64, u32)>,
    /// The same by group; only where ranges are bounded.
    plans_of: Vec<Vec<i64>>,
    /// How many groups are of no key any more.
    pub(super) taken_out: usize,
    /// The length of a bounded range.
    range: Option<i64>,
    time_to_live: TimeToLive,
}

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyState {
    /// The time of the last row that was released.
    pub(super) released: i64,
    /// When the key is forgotten, by the clock of its rows.
    pub(super) plan: i64,
    /// When its time to live is over.
    pub(super) expiry: i64,
    /// How many of its rows wait.
    pub(super) waiting: u32,
    /// Whether its key is here; else the number is of no key any more.
    pub(super) is_here: bool,
}

const NEW: KeyState = KeyState {
    released: NONE_RELEASED,
    plan: NO_PLAN,
    expiry: i64::MAX,
    waiting: 0,
    is_here: false,
};

impl Keys {
    pub(super) fn new(
        input: &Schema,
        partition_by: &[usize],
        frame: OverFrame,
        time_to_live: TimeToLive,
    ) -> Result<Self> {
        let types: Vec<DataType> = partition_by
            .iter()
            .map(|column| input.fields[*column].logical_type.to_arrow())
            .collect();
        let range = match frame {
            OverFrame::Range(range) => range,
            OverFrame::Rows(_) => None,
        };
        Ok(Keys {
            table: GroupTable::new(&types)?,
            states: Vec::new(),
            plans: BTreeSet::new(),
            plans_of: Vec::new(),
            taken_out: 0,
            time_to_live: match range {
                Some(_) => TimeToLive::NEVER,
                None => time_to_live,
            },
            range,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.table.size_bytes()
            + self.states.capacity() * size_of::<KeyState>()
            + self.plans_of.capacity() * size_of::<Vec<i64>>()
            + self.plans.len() * 4 * size_of::<(i64, u32)>()
    }

    /// All keys that are here.
    pub(super) fn here(&self) -> Vec<u32> {
        let groups = 0..self.states.len() as u32;
        groups.filter(|group| self.is_here(*group)).collect()
    }

    /// The keys with these hashes that are here, ascending.
    pub(super) fn here_of(&self, keys: &KeySet) -> Vec<u32> {
        let mut groups = self.table.ids_of(keys.iter().copied());
        groups.retain(|group| self.is_here(*group));
        groups
    }

    fn is_here(&self, group: u32) -> bool {
        self.states[group as usize].is_here
    }

    /// Whether a key is remembered no longer, so that the next row begins anew.
    pub(super) fn is_over(&self, group: u32, now: ProcessingTime) -> bool {
        let state = &self.states[group as usize];
        state.waiting == 0 && TimeToLive::is_expired(state.expiry, now)
    }

    /// When a key may be forgotten: not while rows wait.
    pub(super) fn expiry(&self, group: u32) -> i64 {
        let state = &self.states[group as usize];
        if state.waiting > 0 {
            i64::MAX
        } else {
            state.expiry
        }
    }

    /// The planned times of a key, in the order in which they were made.
    pub(super) fn plans_of(&self, group: u32) -> &[i64] {
        self.plans_of.get(group as usize).map_or(&[], Vec::as_slice)
    }

    /// The next planned time of all.
    pub(super) fn first_plan(&self) -> Option<i64> {
        self.plans.first().map(|(time, _)| *time)
    }

    /// Plans to forget a key.
    pub(super) fn plan(&mut self, time: i64, group: u32) {
        if self.plans.insert((time, group)) {
            self.plans_of[group as usize].push(time);
        }
    }

    /// Forgets what is known of groups.
    pub(super) fn take_out(&mut self, groups: &[u32]) {
        for group in groups {
            self.states[*group as usize] = NEW;
            if let Some(plans) = self.plans_of.get_mut(*group as usize) {
                for time in std::mem::take(plans) {
                    self.plans.remove(&(time, *group));
                }
            }
        }
        self.taken_out += groups.len();
    }

    pub(super) fn resolve(&mut self, keys: &[ArrayRef], hashes: &[u64]) -> Result<Vec<u32>> {
        let mut groups = Vec::with_capacity(hashes.len());
        self.table.resolve(keys, hashes, &mut groups)?;
        let known = self.states.len();
        self.states.resize(self.table.len(), NEW);
        if self.range.is_some() {
            self.plans_of.resize_with(self.table.len(), Vec::new);
        }
        for group in &groups {
            let comes = !std::mem::replace(&mut self.states[*group as usize].is_here, true);
            if comes && (*group as usize) < known {
                self.taken_out -= 1;
            }
        }
        Ok(groups)
    }

    /// Rows of these groups have come: those groups begin anew whose time to live is over, and are returned.
    pub(super) fn touch(&mut self, groups: &[u32], now: ProcessingTime) -> Vec<u32> {
        let mut expired = Vec::new();
        if !self.time_to_live.is_enabled() {
            return expired;
        }
        let expiry = self.time_to_live.expiry(now);
        for group in groups {
            let state = &mut self.states[*group as usize];
            if state.waiting == 0 && TimeToLive::is_expired(state.expiry, now) {
                *state = KeyState {
                    is_here: true,
                    ..NEW
                };
                expired.push(*group);
            }
            state.expiry = expiry;
        }
        expired
    }

    /// A row has come at a watermark: says whether it waits, or is late.
    pub(super) fn accept(&mut self, time: i64, group: u32, watermark: EventTime) -> bool {
        let state = &mut self.states[group as usize];
        if state.plan != NO_PLAN && state.plan <= watermark.millis() {
            state.released = if time > watermark.millis() {
                state.released.max(state.plan)
            } else {
                NONE_RELEASED
            };
            state.plan = NO_PLAN;
        }
        if time <= state.released {
            return false;
        }
        if let Some(range) = self.range
            && (state.plan == NO_PLAN || state.plan < time.saturating_add(range).saturating_add(1))
        {
            let half_more = (range as f64 * 1.5) as i64;
            state.plan = time.saturating_add(half_more).saturating_add(1);
            let plan = state.plan;
            self.plan(plan, group);
        }
        true
    }

    /// Rows of these groups wait.
    pub(super) fn wait(&mut self, groups: impl Iterator<Item = u32>) {
        groups.for_each(|group| self.states[group as usize].waiting += 1);
    }

    /// Rows are released.
    pub(super) fn released(&mut self, rows: &[WaitingRow], now: ProcessingTime) {
        let expiry = self.time_to_live.expiry(now);
        for row in rows {
            let state = &mut self.states[row.group as usize];
            state.released = state.released.max(row.time);
            state.waiting -= 1;
            state.expiry = expiry;
        }
    }

    /// Time has come so far: the groups for which something was planned by then, each with whether its rows are out of all frames.
    pub(super) fn clean_up(&mut self, time: EventTime) -> Vec<(u32, bool)> {
        let mut due = Vec::new();
        while let Some((planned, group)) = self.plans.first().copied() {
            if planned > time.millis() {
                break;
            }
            self.plans.pop_first();
            self.plans_of[group as usize].retain(|other| *other != planned);
            let state = &mut self.states[group as usize];
            let is_over = state.plan <= planned;
            if !is_over {
                state.released = state.released.max(planned);
            }
            due.push((group, is_over));
        }
        due
    }
}
