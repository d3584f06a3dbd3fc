//! What a restore reads from: a checkpoint, a savepoint, or a snapshot in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{JobSnapshot, PlanFacts, RowCount, TableFacts};
use crate::error::Result;
use crate::state::{StateSnapshot, TableScope};
use crate::stream::{CheckpointId, KeyGroupRange};

/// The number of key groups where that of the writer is not known: by key hash any number will do.
const KEY_GROUPS: u16 = 128;
/// In how many pieces keyed state is read by whoever need not hold it.
pub(super) const PIECES: usize = 64;

/// The state of a job at one checkpoint, operator by operator and key group by key group, so that memory need not hold all of it.
pub trait SnapshotReader: Send + Sync {
    /// Which checkpoint.
    fn checkpoint(&self) -> CheckpointId;

    /// The stable ids of the operators with state.
    fn operators(&self) -> Vec<String>;

    /// Whether an operator has rows of its own there, not just the runtime's notes.
    fn has_rows(&self, uid: &str) -> Result<bool>;

    /// The state of an operator: the rows of keyed tables in these of `max_parallelism` key groups, and all rows of all other tables.
    fn read(&self, uid: &str, range: KeyGroupRange, max_parallelism: u16) -> Result<StateSnapshot>;

    /// About how many bytes are read for all of it, where that is known without reading. Default: it is not, 0.
    fn bytes(&self) -> u64 {
        0
    }

    /// Removes it from where it lies, as whoever has claimed it may. Default: it lies nowhere.
    fn remove(&self) -> Result<()> {
        Ok(())
    }

    /// The job that wrote the state, where that is kept beside it. Default: it is not.
    fn plan_facts(&self) -> Option<PlanFacts> {
        None
    }

    /// `pipeline.max-parallelism` of the job that wrote the state, where that is known.
    fn max_parallelism(&self) -> Option<u16> {
        None
    }

    /// The tables of an operator, without reading all of their rows where that can be helped. Default: reads them, a part of the key groups at a time.
    fn tables(&self, uid: &str) -> Result<Vec<TableFacts>> {
        let max_parallelism = self.max_parallelism().unwrap_or(KEY_GROUPS);
        let mut facts: BTreeMap<String, TableFacts> = BTreeMap::new();
        for range in KeyGroupRange::all(max_parallelism).pieces(PIECES) {
            for (name, table) in self.read(uid, range, max_parallelism)?.tables {
                let fact = facts.entry(name).or_insert_with_key(|name| TableFacts {
                    name: name.clone(),
                    scope: table.scope,
                    schema: None,
                    rows: RowCount::default(),
                    bytes: 0,
                });
                if table.scope == TableScope::Operator && fact.schema.is_some() {
                    continue;
                }
                for batch in &table.batches {
                    fact.schema.get_or_insert_with(|| batch.schema());
                    fact.rows += RowCount::exactly(batch.num_rows() as u64);
                    fact.bytes += batch.get_array_memory_size() as u64;
                }
            }
        }
        Ok(facts.into_values().collect())
    }
}

/// All methods of a [`SnapshotReader`] but [`SnapshotReader::read`], as another one has them: `reads_like!(self => self.reader)`.
macro_rules! reads_like {
    ($this:ident => $other:expr) => {
        fn checkpoint(&$this) -> $crate::stream::CheckpointId {
            $other.checkpoint()
        }
        fn operators(&$this) -> Vec<String> {
            $other.operators()
        }
        fn has_rows(&$this, uid: &str) -> $crate::error::Result<bool> {
            $other.has_rows(uid)
        }
        fn bytes(&$this) -> u64 {
            $other.bytes()
        }
        fn remove(&$this) -> $crate::error::Result<()> {
            $other.remove()
        }
        fn plan_facts(&$this) -> Option<$crate::checkpoint::PlanFacts> {
            $other.plan_facts()
        }
        fn max_parallelism(&$this) -> Option<u16> {
            $other.max_parallelism()
        }
        fn tables(&$this, uid: &str) -> $crate::error::Result<Vec<$crate::checkpoint::TableFacts>> {
            $other.tables(uid)
        }
    };
}
pub(crate) use reads_like;

/// A reader is read through whatever holds it.
macro_rules! read_through {
    ($holder:ty) => {
        impl<R: SnapshotReader + ?Sized> SnapshotReader for $holder {
            reads_like!(self => **self);

            fn read(
                &self,
                uid: &str,
                range: KeyGroupRange,
                max_parallelism: u16,
            ) -> Result<StateSnapshot> {
                (**self).read(uid, range, max_parallelism)
            }
        }
    };
}

read_through!(&R);
read_through!(Arc<R>);

impl SnapshotReader for JobSnapshot {
    fn checkpoint(&self) -> CheckpointId {
        self.checkpoint
    }

    fn operators(&self) -> Vec<String> {
        self.operators.keys().cloned().collect()
    }

    fn has_rows(&self, uid: &str) -> Result<bool> {
        Ok(self.operators.get(uid).is_some_and(StateSnapshot::has_rows))
    }

    fn read(&self, uid: &str, range: KeyGroupRange, max_parallelism: u16) -> Result<StateSnapshot> {
        match self.operators.get(uid) {
            Some(state) => state.for_key_groups(range, max_parallelism),
            None => Ok(StateSnapshot::default()),
        }
    }

    fn tables(&self, uid: &str) -> Result<Vec<TableFacts>> {
        let tables = self.operators.get(uid).into_iter();
        let tables = tables.flat_map(|state| &state.tables);
        let facts = tables.map(|(name, table)| {
            let batches = table.batches.iter();
            let rows = batches.clone().map(|batch| batch.num_rows() as u64);
            let bytes = batches.map(|batch| batch.get_array_memory_size() as u64);
            TableFacts {
                name: name.clone(),
                scope: table.scope,
                schema: table.batches.first().map(|batch| batch.schema()),
                rows: RowCount::exactly(rows.sum()),
                bytes: bytes.sum(),
            }
        });
        Ok(facts.collect())
    }
}
