//! Faults planted on purpose, to see that the simulation finds them (`./dev plant`, docs/testing.md).
//!
//! Each is one wrong line at its place in the engine, switched on for the calling thread. Without the feature `planted-bugs`, which no build for
//! users has, [`is_planted`] is the constant false and nothing of this is in the binary.

/// The faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// An input gate reads on from a channel whose barrier has come while others' have not.
    BarrierOvertaken,
    /// A restore forgets the watermark of operators.
    WatermarkForgotten,
    /// A restored source goes on without its watermark and those of its splits.
    SourceWatermarkForgotten,
    /// A restored source forgets that a split is idle.
    IdleForgotten,
    /// A reader's position is one row behind.
    PositionBehind,
    /// A sink does not commit again what a snapshot holds.
    CommitSkippedAtRestore,
    /// A sink forgets what it prepared once another checkpoint is prepared.
    PreparedForgotten,
    /// A sink commits when it prepares.
    CommitTooEarly,
    /// The test sink writes a transaction again that is committed again.
    CommitRepeats,
    /// A sink does not take back what a damaged checkpoint had committed.
    NotTakenBack,
    /// Bundles are not flushed before a barrier.
    BundleNotFlushed,
    /// An instance takes up the key groups of its range but the first.
    KeyGroupLost,
    /// An instance takes up some key groups of its neighbour as well.
    KeyGroupDoubled,
    /// A task that has ended is missing in later checkpoints.
    EndedTaskForgotten,
    /// A restored operator forgets the windows that it still has to fire.
    TimersForgotten,
    /// A key that time makes act, and that is not at hand, does not act.
    DueForgotten,
    /// A key that is taken out of memory is not written to the lower tier.
    EvictedNotWritten,
    /// A change of state since the checkpoint before is left out of an incremental snapshot.
    ChangeForgotten,
    /// Keys that are gone are left out of an incremental snapshot.
    TombstoneForgotten,
    /// What a checkpoint that failed held is not in the next one.
    FailedChangesLost,
    /// A group that is to be copied for a snapshot is not copied before a row behind the barrier changes it.
    FrozenChanged,
    /// A snapshot that tells all keys anew holds those alone that changed.
    AllToldInPart,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 22] = [
        Bug::BarrierOvertaken,
        Bug::WatermarkForgotten,
        Bug::SourceWatermarkForgotten,
        Bug::IdleForgotten,
        Bug::PositionBehind,
        Bug::CommitSkippedAtRestore,
        Bug::PreparedForgotten,
        Bug::CommitTooEarly,
        Bug::CommitRepeats,
        Bug::NotTakenBack,
        Bug::BundleNotFlushed,
        Bug::KeyGroupLost,
        Bug::KeyGroupDoubled,
        Bug::EndedTaskForgotten,
        Bug::TimersForgotten,
        Bug::DueForgotten,
        Bug::EvictedNotWritten,
        Bug::ChangeForgotten,
        Bug::TombstoneForgotten,
        Bug::FailedChangesLost,
        Bug::FrozenChanged,
        Bug::AllToldInPart,
    ];
}

#[cfg(feature = "planted-bugs")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a fault in what this thread runs from now on, or takes it away.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Whether this fault is planted.
    pub(crate) fn is_planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "planted-bugs")]
pub(crate) use switch::is_planted;
#[cfg(feature = "planted-bugs")]
pub use switch::plant;

/// Whether this fault is planted: it is not.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub(crate) const fn is_planted(_: Bug) -> bool {
    false
}
