//! Keyed state that can be taken apart: what a backend on disk and incremental checkpoints ask of an operator.
//!
//! The unit is the *key*, known by its hash: all that an operator keeps for the keys of one hash moves together. Whoever holds an
//! operator can take the state of some keys out, put it back later, or ask for the state of those that changed, and the
//! operator answers as if all of it had been there, provided that the state of a key is there whenever a row of the key
//! comes and whenever time makes the key act ([`KeyedState::due`]).

#[cfg(test)]
pub(super) mod conformance;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use hashbrown::HashSet;

use super::{Context, InputIndex};
use crate::error::Result;
use crate::state::StateSnapshot;
use crate::stream::CheckpointId;

/// Hashes of keys.
pub type KeySet = HashSet<u64, nohash::BuildNoHash>;

pub use crate::state::EXPIRY_COLUMN;

/// What makes a key act without a row of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DueTime {
    /// Nothing.
    #[default]
    Never,
    /// Watermarks.
    Event,
    /// The clock.
    Processing,
}

/// See the module. Called between two calls of the operator, with nothing held back in a bundle ([`super::Operator::flush_bundle`] has been
/// called) and no call unfinished.
pub trait KeyedState {
    /// The columns of the key in the rows of an input.
    fn key_columns(&self, input: InputIndex) -> &[usize];

    /// All keyed tables, each beginning with [`crate::state::KEY_HASH_COLUMN`], without any effect.
    fn snapshot_keyed(&mut self, ctx: &Context) -> Result<StateSnapshot>;

    /// All tables of the operator that are not by key, for the snapshot of a checkpoint.
    fn snapshot_unkeyed(
        &mut self,
        ctx: &Context,
        checkpoint: CheckpointId,
    ) -> Result<StateSnapshot> {
        let _ = (ctx, checkpoint);
        Ok(StateSnapshot::default())
    }

    /// The hashes of all keys with state, each once.
    fn keys(&mut self, ctx: &Context) -> Result<Vec<u64>> {
        Ok(self.snapshot_keyed(ctx)?.key_hashes())
    }

    /// Adds state of keys of which none is here.
    fn load_keyed(&mut self, ctx: &Context, snapshot: &StateSnapshot) -> Result<()>;

    /// Forgets the state of all keys, and gives the memory back; everything else stays as it is.
    fn clear_keyed(&mut self) -> Result<()>;

    /// Bytes held for keys.
    fn size_bytes(&self) -> usize;

    /// By which time keys act that no row wakes.
    fn due_time(&self) -> DueTime {
        DueTime::Never
    }

    /// For each row of a table the time at which its key acts next, at the latest then; `i64::MAX`: never. Of event time: the key acts at the
    /// first watermark that is at least this. Asked for where [`KeyedState::due_time`] is not `Never`.
    fn due(&self, table: &str, rows: &RecordBatch) -> Vec<i64> {
        let _ = table;
        vec![i64::MAX; rows.num_rows()]
    }

    /// For each row of a table when it may be forgotten, in processing time; `None`: never. Default: the column [`EXPIRY_COLUMN`].
    fn expiries(&self, table: &str, rows: &RecordBatch) -> Option<Vec<i64>> {
        let _ = table;
        let column = rows.column_by_name(EXPIRY_COLUMN)?;
        Some(column.as_primitive::<Int64Type>().values().to_vec())
    }

    /// The state of some keys, without any effect.
    fn export_keyed(&mut self, ctx: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        self.snapshot_keyed(ctx)?
            .filter_keyed(&|hash| keys.contains(&hash))
    }

    /// Takes the state of some keys out.
    fn evict_keyed(&mut self, ctx: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let all = self.snapshot_keyed(ctx)?;
        let gone = all.filter_keyed(&|hash| keys.contains(&hash))?;
        let kept = all.filter_keyed(&|hash| !keys.contains(&hash))?;
        self.clear_keyed()?;
        self.load_keyed(ctx, &kept)?;
        Ok(gone)
    }

    /// Whether the operator itself knows which keys changed. Then [`KeyedState::take_changed`] is asked; else rows are taken to change
    /// their keys, and [`Context::keys_changed`] tells of others.
    fn tracks_changes(&self) -> bool {
        false
    }

    /// From now on the operator remembers which keys change, if it can. Until this is called it need not.
    fn track_changes(&mut self) {}

    /// The keys that changed since this was called last, or since [`KeyedState::track_changes`]; those that have gone and those that were
    /// evicted in between are among them. Some may come twice.
    fn take_changed(&mut self) -> Vec<u64> {
        Vec::new()
    }

    /// Those of some keys that [`KeyedState::take_changed`] would tell, which it does not tell any more. `None` where the operator is no
    /// faster at it than whoever asks.
    fn take_changed_among(&mut self, keys: &KeySet) -> Option<KeySet> {
        let _ = keys;
        None
    }

    /// Freezes the state of some keys as it is now, to be copied by [`KeyedState::thaw`] while the operator goes on, so that rows need not
    /// wait for the copy. Called again only when all is thawed. `false`: the operator cannot.
    fn freeze(&mut self, ctx: &Context, keys: Frozen<'_>) -> Result<bool> {
        let _ = (ctx, keys);
        Ok(false)
    }

    /// A piece of what is frozen, at most about so many keys, by what it was then: rows of keys of which no other piece has any, and in [`StateSnapshot::gone`] keys
    /// without. `None`: that was all. May be called between any two calls of the operator, also within a bundle.
    fn thaw(&mut self, ctx: &Context, keys: usize) -> Result<Option<StateSnapshot>> {
        let _ = (ctx, keys);
        Ok(None)
    }
}

/// What is frozen; see [`KeyedState::freeze`].
#[derive(Debug, Clone, Copy)]
pub enum Frozen<'a> {
    /// All keys.
    All,
    /// The keys that [`KeyedState::take_changed`] would tell, which it does not tell any more, and these.
    Changed(&'a KeySet),
}

/// Hashes ascending and each once.
pub(super) fn distinct(mut hashes: Vec<u64>) -> Vec<u64> {
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Hash tables keyed by something that is a hash already.
pub mod nohash {
    use std::hash::{BuildHasher, Hasher};

    /// Takes a 64-bit hash for what it is.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct BuildNoHash;

    /// See [`BuildNoHash`].
    #[derive(Debug, Default)]
    pub struct NoHash(u64);

    impl BuildHasher for BuildNoHash {
        type Hasher = NoHash;
        fn build_hasher(&self) -> NoHash {
            NoHash(0)
        }
    }

    impl Hasher for NoHash {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
            }
        }
        /// The upper half decides the key group and is nearly the same for all keys of a subtask.
        fn write_u64(&mut self, hash: u64) {
            self.0 = hash ^ (hash << 32);
        }
    }
}
