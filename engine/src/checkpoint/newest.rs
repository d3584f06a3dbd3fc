//! Which of several snapshots is restored: the newest that is whole.
//!
//! An older one takes the place of one that is [damaged](super::Damage), and of no other: what sinks have committed since the older one is
//! written again by whoever goes on from it, so a store that does not answer, or a right that is missing, is an error and a reason to try
//! again later.

use super::damage::{Damage, Verified};
use crate::error::{Error, Result};
use crate::stream::CheckpointId;

/// The newest whole snapshot, and those that it was taken instead of.
#[derive(Debug)]
pub struct Newest<S> {
    /// `None`: none is whole, or there is none at all.
    pub snapshot: Option<S>,
    /// The damaged ones, newest first: all are newer.
    pub passed_over: Vec<PassedOver>,
}

/// A snapshot that is damaged.
#[derive(Debug)]
pub struct PassedOver {
    /// Of which checkpoint.
    pub checkpoint: CheckpointId,
    /// What is wrong with it.
    pub damage: Damage,
}

impl<S> Newest<S> {
    /// One that had been named.
    pub fn only(snapshot: S) -> Self {
        Newest {
            snapshot: Some(snapshot),
            passed_over: Vec::new(),
        }
    }

    /// The snapshot; `None` where there is none. Errors: there are some, but none is whole. `place` says which: `in …`.
    pub fn whole(self, place: &str) -> Result<Option<S>> {
        if self.snapshot.is_some() || self.passed_over.is_empty() {
            return Ok(self.snapshot);
        }
        let damaged = self.passed_over.iter();
        let damaged: Vec<String> = damaged.map(|passed| passed.damage.to_string()).collect();
        Err(Error::external(format!(
            "no checkpoint {place} is whole: {}",
            damaged.join("; ")
        ))
        .hint("restore a savepoint, or start without 'execution.state-recovery.path' and --resume"))
    }

    /// The same of another kind.
    pub fn map<T>(self, kind: impl FnOnce(S) -> T) -> Newest<T> {
        Newest {
            snapshot: self.snapshot.map(kind),
            passed_over: self.passed_over,
        }
    }
}

/// Opens candidates, newest first, until one is whole. `open` gives an error where it is not known whether one is damaged, which ends the search.
pub fn newest_whole<S>(
    candidates: impl IntoIterator<Item = CheckpointId>,
    mut open: impl FnMut(CheckpointId) -> Result<Verified<S>>,
) -> Result<Newest<S>> {
    let mut passed_over = Vec::new();
    for checkpoint in candidates {
        match open(checkpoint)? {
            Err(damage) => passed_over.push(PassedOver { checkpoint, damage }),
            Ok(snapshot) => {
                return Ok(Newest {
                    snapshot: Some(snapshot),
                    passed_over,
                });
            }
        }
    }
    Ok(Newest {
        snapshot: None,
        passed_over,
    })
}
