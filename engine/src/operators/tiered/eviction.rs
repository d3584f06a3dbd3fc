//! Taking cold keys out of memory, and putting keys back.

use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;

use super::{Lower, TieredOperator, changes};
use crate::error::Result;
use crate::operators::{Context, DueTime, KeySet, KeyedState};
use crate::planted::{Bug, is_planted};
use crate::state::{MemoryShare, StateSnapshot, UnitTimes};

/// How many rows go by between two looks at the memory.
const CHECK_ROWS: usize = 4096;
/// How many keys of the lower tier make a part of a snapshot, at most and at least.
const PIECE_KEYS: usize = 64 << 10;
const LEAST_PIECE_KEYS: usize = 4 << 10;
/// Bytes of the operator's share of the memory for each of them: a key that is written takes several times what it takes at rest.
const PIECE_KEY_BYTES: usize = 1 << 10;
/// The fewest keys that are taken out at once, unless that is much of all, and into how many parts more are cut: every time all keys at hand
/// move together.
const EVICT_KEYS: usize = 16 << 10;
const EVICT_PARTS: usize = 4;
/// Less than this part of all keys is never taken out at once.
const EVICT_SHARE: usize = 6;
/// How many keys are put back at once.
const PUT_BACK_KEYS: usize = 8 << 10;
/// How many keys may come until the memory is looked at again.
const NEXT_KEYS: usize = 2 * CHECK_ROWS;
/// Budgets below this are looked at after every call: tests have them.
const TINY_BYTES: usize = 1 << 20;

/// When the rows of an operator act and are forgotten.
struct Times<'a> {
    keyed: &'a dyn KeyedState,
    due_time: DueTime,
}

impl UnitTimes for Times<'_> {
    fn due(&self, table: &str, rows: &RecordBatch) -> Option<Vec<i64>> {
        (self.due_time != DueTime::Never).then(|| self.keyed.due(table, rows))
    }

    fn expiries(&self, table: &str, rows: &RecordBatch) -> Option<Vec<i64>> {
        self.keyed.expiries(table, rows)
    }
}

impl TieredOperator {
    /// Whether keys must go. Looks now and then only.
    pub(super) fn is_over_budget(&mut self, _: &Context) -> bool {
        let Some(memory) = &mut self.memory else {
            return false;
        };
        let tiny = memory.budget_bytes() < TINY_BYTES;
        if self.rows_since_check < CHECK_ROWS && !tiny {
            return false;
        }
        self.rows_since_check = 0;
        let keyed = self.inner.keyed_state().expect("checked when made");
        let lower = self.lower.as_ref();
        let residents = lower.map_or(0, |lower| lower.residents.size_bytes());
        let held = keyed.size_bytes();
        memory.report(held + residents);
        if let Some(lower) = lower {
            let hot_bytes = &lower.store.metrics().hot_bytes;
            hot_bytes.store((held + residents) as u64, Ordering::Relaxed);
        }
        let none_left = held == 0
            || lower.is_some_and(|lower| lower.residents.are_known() && lower.residents.len() == 0);
        !none_left && memory.excess_after(growth_bytes(lower)) > 0
    }

    /// Takes the coldest keys out: so many that the next batches have room, a part at a time, for what is taken out is copied.
    pub(super) fn evict_cold(&mut self, ctx: &mut Context) -> Result<()> {
        let (Some(lower), Some(memory)) = (&mut self.lower, &self.memory) else {
            return Ok(());
        };
        let excess = memory.excess_bytes();
        if memory.excess_after(growth_bytes(Some(lower))) == 0 {
            return Ok(());
        }
        let keyed = self.inner.keyed_state().expect("checked when made");
        if !lower.residents.are_known() {
            lower.residents.know(keyed.keys(ctx)?);
        }
        let keys = lower.residents.len();
        let own = memory.own_bytes().max(1);
        let fraction = (excess as f64 / own as f64 + 0.125).min(1.0);
        let count = ((keys as f64 * fraction).ceil() as usize).min(keys);
        let victims = lower.residents.coldest(count);
        let least = EVICT_KEYS.min(keys / EVICT_SHARE).max(1);
        for part in victims.chunks((count / EVICT_PARTS).max(least)) {
            self.evict(ctx, &part.iter().copied().collect())?;
        }
        Ok(())
    }

    /// Takes keys out.
    pub(super) fn evict(&mut self, ctx: &mut Context, victims: &KeySet) -> Result<()> {
        let Some(lower) = &mut self.lower else {
            return Ok(());
        };
        let keyed = self.inner.keyed_state().expect("checked when made");
        let changed = self.changes.take_among(victims, ctx, keyed);
        let gone = keyed.evict_keyed(ctx, victims)?;
        if !changed.is_empty() {
            let mut part = gone.filter_keyed(&|hash| changed.contains(&hash))?;
            part.gone = Some(changes::gone(changed, &part));
            let part = self.parts.write(&part)?;
            self.parts.written.push(part);
        }
        lower.take_down(&gone, victims, keyed, self.due_time)
    }

    /// Puts keys back that are not at hand; `hashes` ascending.
    pub(super) fn put_back(&mut self, ctx: &mut Context, hashes: &[u64]) -> Result<()> {
        hashes
            .chunks(PUT_BACK_KEYS)
            .try_for_each(|hashes| self.put_back_some(ctx, hashes))
    }

    fn put_back_some(&mut self, ctx: &mut Context, hashes: &[u64]) -> Result<()> {
        let Some(lower) = &mut self.lower else {
            return Ok(());
        };
        if lower.store.is_empty() {
            return Ok(());
        }
        let mut values = Vec::new();
        lower
            .store
            .get(hashes, ctx.processing_time(), &mut values)?;
        let mut found: Vec<(u64, &[u8])> = Vec::with_capacity(hashes.len());
        let mut due = Vec::new();
        for (hash, value) in std::iter::zip(hashes, &values) {
            let Some(value) = value else { continue };
            let time = lower.codec.due_of(value)?;
            if time != i64::MAX {
                due.push((*hash, time));
            }
            found.push((*hash, value));
            lower.residents.is_below(*hash);
        }
        if found.is_empty() {
            return Ok(());
        }
        lower.store.forget_due(&due)?;
        let snapshot = lower.codec.decode(found)?;
        self.keyed().load_keyed(ctx, &snapshot)
    }
}

/// What is about to be allocated at once: tables double when they are full, those of the operator as those of its keys. Keys go before.
fn growth_bytes(lower: Option<&Lower>) -> usize {
    lower.map_or(0, |lower| 2 * lower.residents.growth_bytes(NEXT_KEYS))
}

impl Lower {
    /// Writes what was taken out of the operator, and removes what ended while it was at hand.
    fn take_down(
        &mut self,
        gone: &StateSnapshot,
        victims: &KeySet,
        keyed: &dyn KeyedState,
        due_time: DueTime,
    ) -> Result<()> {
        let times = Times { keyed, due_time };
        self.codec.encode(gone, &times, &mut self.units)?;
        let mut ended = Vec::new();
        let units = &self.units;
        self.residents.remove(victims, |hash, below| {
            if below && units.hashes().binary_search(&hash).is_err() {
                ended.push(hash);
            }
        });
        ended.sort_unstable();
        self.store.remove(&ended)?;
        let mut writes = self.units.writes();
        if is_planted(Bug::EvictedNotWritten) {
            writes.iter_mut().for_each(|write| write.value = None);
        }
        self.store.write(&writes)
    }

    /// All that lies below and is not at hand, piece by piece: smaller ones where the operator has a share of few bytes.
    pub(super) fn for_each_piece(
        &self,
        share: Option<&MemoryShare>,
        call: &mut dyn FnMut(StateSnapshot) -> Result<()>,
    ) -> Result<()> {
        let bytes = share.map_or(usize::MAX, MemoryShare::budget_bytes);
        let most = (bytes / PIECE_KEY_BYTES).clamp(LEAST_PIECE_KEYS, PIECE_KEYS);
        let mut piece: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut give = |piece: &mut Vec<(u64, Vec<u8>)>| -> Result<()> {
            let units = piece.iter().map(|(hash, value)| (*hash, &value[..]));
            let mut snapshot = self.codec.decode(units)?;
            snapshot.gone = Some(Vec::new());
            piece.clear();
            call(snapshot)
        };
        self.store.for_each(&mut |hash, value| {
            if !self.residents.contains(hash) {
                piece.push((hash, value.to_vec()));
            }
            if piece.len() >= most {
                return give(&mut piece);
            }
            Ok(())
        })?;
        if piece.is_empty() {
            return Ok(());
        }
        give(&mut piece)
    }
}
