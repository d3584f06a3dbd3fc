//! Which keys changed since the last snapshot.

use super::volume::Volume;
use crate::error::Result;
use crate::operators::keyed_state::Frozen;
use crate::operators::{Context, KeySet, KeyedState};
use crate::planted::{Bug, is_planted};
use crate::state::{StateSnapshot, key_hashes_of};

/// See the file.
#[derive(Debug)]
pub(super) struct Changes {
    tracked: bool,
    /// Whether the operator knows itself which keys its rows change.
    by_operator: bool,
    changed: KeySet,
    volume: Volume,
}

impl Changes {
    pub(super) fn new(tracked: bool, most_changes: u64, keyed: &mut dyn KeyedState) -> Self {
        let by_operator = tracked && keyed.tracks_changes();
        if by_operator {
            keyed.track_changes();
        }
        Changes {
            tracked,
            by_operator,
            changed: KeySet::default(),
            volume: Volume::new(most_changes),
        }
    }

    pub(super) fn are_tracked(&self) -> bool {
        self.tracked
    }

    /// Has the operator tell from now on which keys change by time alone: before its first call.
    pub(super) fn listen(&self, ctx: &mut Context) {
        if self.tracked {
            ctx.track_changed_keys();
        }
    }

    /// Whether rows must be noted here.
    pub(super) fn notes_rows(&self) -> bool {
        self.tracked && !self.by_operator
    }

    /// The keys of rows that the operator is about to take.
    pub(super) fn note_rows(&mut self, hashes: &[u64]) {
        if self.notes_rows() {
            self.changed.extend(hashes.iter().copied());
        }
    }

    /// The keys that the operator told of during a call.
    pub(super) fn note_told(&mut self, ctx: &mut Context) {
        if self.tracked {
            self.changed.extend(ctx.take_changed_keys());
        }
    }

    /// So many rows of keyed tables were restored.
    pub(super) fn note_restored(&mut self, rows: usize) {
        self.volume.restored(rows);
    }

    /// A piece of the snapshot that was begun last, which the operator had frozen.
    pub(super) fn note_thawed(&mut self, piece: &StateSnapshot) {
        let gone = piece.gone.as_ref().map_or(0, Vec::len);
        self.volume.add(piece.keyed_rows(), gone);
    }

    /// What is at hand of the keys that changed, or nothing of it yet ([`KeyedState::freeze`]); none has changed from now on. It may be
    /// of all keys, where the caller says so.
    pub(super) fn export(
        &mut self,
        ctx: &mut Context,
        keyed: &mut dyn KeyedState,
        may_be_all: bool,
    ) -> Result<StateSnapshot> {
        self.note_told(ctx);
        if self.by_operator && !is_planted(Bug::ChangeForgotten) {
            let tells_all = may_be_all && self.volume.asks_for_all(keyed.size_bytes());
            let frozen = match tells_all && !is_planted(Bug::AllToldInPart) {
                true => Frozen::All,
                false => Frozen::Changed(&self.changed),
            };
            if keyed.freeze(ctx, frozen)? {
                self.changed.clear();
                self.volume.begin(tells_all);
                return Ok(StateSnapshot {
                    gone: (!tells_all).then(Vec::new),
                    ..StateSnapshot::default()
                });
            }
        }
        self.gather(ctx, keyed);
        let mut changed = std::mem::take(&mut self.changed);
        if is_planted(Bug::ChangeForgotten) {
            let forgotten = changed.iter().min().copied();
            forgotten.map(|hash| changed.remove(&hash));
        }
        let mut snapshot = keyed.export_keyed(ctx, &changed)?;
        snapshot.gone = Some(gone(changed, &snapshot));
        Ok(snapshot)
    }

    /// Those of the keys that changed, which are forgotten.
    pub(super) fn take_among(
        &mut self,
        keys: &KeySet,
        ctx: &mut Context,
        keyed: &mut dyn KeyedState,
    ) -> KeySet {
        self.note_told(ctx);
        let told = if self.by_operator {
            keyed.take_changed_among(keys)
        } else {
            None
        };
        if told.is_none() {
            self.gather(ctx, keyed);
        }
        let mut among = told.unwrap_or_default();
        among.extend(self.changed.extract_if(|hash| keys.contains(hash)));
        among
    }

    fn gather(&mut self, ctx: &mut Context, keyed: &mut dyn KeyedState) {
        self.note_told(ctx);
        if self.by_operator {
            self.changed.extend(keyed.take_changed());
        }
    }
}

/// Those of the keys that changed which have no rows any more.
pub(super) fn gone(mut changed: KeySet, snapshot: &StateSnapshot) -> Vec<u64> {
    let batches = snapshot.tables.values().flat_map(|table| &table.batches);
    for hash in batches.flat_map(key_hashes_of) {
        changed.remove(hash);
    }
    changed.into_iter().collect()
}
