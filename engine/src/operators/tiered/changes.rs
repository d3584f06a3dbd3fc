//! Which keys changed since the last snapshot.

use crate::error::Result;
use crate::operators::{Context, KeySet, KeyedState};
use crate::planted::{Bug, is_planted};
use crate::state::StateSnapshot;

/// See the file.
#[derive(Debug)]
pub(super) struct Changes {
    tracked: bool,
    /// Whether the operator knows itself which keys its rows change.
    by_operator: bool,
    changed: KeySet,
}

impl Changes {
    pub(super) fn new(tracked: bool, keyed: &mut dyn KeyedState) -> Self {
        let by_operator = tracked && keyed.tracks_changes();
        if by_operator {
            keyed.track_changes();
        }
        Changes {
            tracked,
            by_operator,
            changed: KeySet::default(),
        }
    }

    pub(super) fn are_tracked(&self) -> bool {
        self.tracked
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
            ctx.track_changed_keys();
            self.changed.extend(ctx.take_changed_keys());
        }
    }

    /// What is at hand of the keys that changed; none has from now on.
    pub(super) fn export(
        &mut self,
        ctx: &mut Context,
        keyed: &mut dyn KeyedState,
    ) -> Result<StateSnapshot> {
        self.note_told(ctx);
        if self.by_operator
            && !is_planted(Bug::ChangeForgotten)
            && self.changed.is_empty()
            && let Some(snapshot) = keyed.export_changed(ctx)?
        {
            return Ok(snapshot);
        }
        self.gather(ctx, keyed);
        let mut changed = std::mem::take(&mut self.changed);
        if is_planted(Bug::ChangeForgotten) {
            let forgotten = changed.iter().min().copied();
            forgotten.map(|hash| changed.remove(&hash));
        }
        let mut snapshot = keyed.export_keyed(ctx, &changed)?;
        let mut changed: Vec<u64> = changed.into_iter().collect();
        changed.sort_unstable();
        snapshot.changed = Some(changed);
        Ok(snapshot)
    }

    /// Those of the keys that changed, which are forgotten.
    pub(super) fn take_among(
        &mut self,
        keys: &KeySet,
        ctx: &mut Context,
        keyed: &mut dyn KeyedState,
    ) -> KeySet {
        self.gather(ctx, keyed);
        self.changed
            .extract_if(|hash| keys.contains(hash))
            .collect()
    }

    fn gather(&mut self, ctx: &mut Context, keyed: &mut dyn KeyedState) {
        self.note_told(ctx);
        if self.by_operator {
            self.changed.extend(keyed.take_changed());
        }
    }
}
