//! The state of an interval join by key. A key acts when its first row goes: without a pair it may be padded then.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;

use super::cache::CachedRows;
use super::{IntervalJoinOperator, STATES};
use crate::error::Result;
use crate::operators::keyed_state::distinct;
use crate::operators::{Context, DueTime, InputIndex, KeySet, KeyedState};
use crate::state::{Groups, StateSnapshot, key_hashes_of};

impl KeyedState for IntervalJoinOperator {
    fn key_columns(&self, input: InputIndex) -> &[usize] {
        &self.side(input.0).keys
    }

    fn snapshot_keyed(&mut self, _: &Context) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        for (name, cache) in STATES.into_iter().zip(&self.caches) {
            snapshot.insert_keyed(name, vec![cache.snapshot(self.keys.hashes())?]);
        }
        Ok(snapshot)
    }

    fn keys(&mut self, _: &Context) -> Result<Vec<u64>> {
        let live = self.live_keys();
        Ok(distinct(Groups::Ids(&live).gather(self.keys.hashes())))
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
        for (side, name) in STATES.into_iter().enumerate() {
            for batch in snapshot.batches(name) {
                let kept = self.caches[side].of_snapshot(batch)?;
                let columns = self.side(side).keys.clone();
                let keys = self.key_numbers(&kept.rows, &columns, key_hashes_of(batch))?;
                let known = CachedRows {
                    keys: &keys.numbers,
                    times: &kept.times,
                    paired: &kept.paired,
                };
                let all: Vec<u32> = (0..kept.rows.num_rows() as u32).collect();
                self.caches[side].add(&kept.rows, &all, &known)?;
            }
        }
        Ok(())
    }

    fn clear_keyed(&mut self) -> Result<()> {
        let types = self.spec.left.key_types();
        self.keys = self.backend.group_table(&types, 0)?;
        self.caches.iter_mut().for_each(|cache| cache.clear());
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        let caches = self.caches.iter().map(|cache| cache.size_bytes());
        self.keys.size_bytes() + caches.sum::<usize>()
    }

    fn due_time(&self) -> DueTime {
        match self.spec.bounds.is_event_time {
            true => DueTime::Event,
            false => DueTime::Processing,
        }
    }

    fn due(&self, table: &str, rows: &RecordBatch) -> Vec<i64> {
        let side = usize::from(table == STATES[1]);
        let stay_ms = self.spec.bounds.stay_ms(side);
        let times = rows.column(1).as_primitive::<Int64Type>().values();
        // The largest watermark makes every row go.
        let due = |time: &i64| time.saturating_add(stay_ms).min(i64::MAX - 1);
        times.iter().map(due).collect()
    }

    fn export_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let keys = self.keys.ids_of(keys.iter().copied());
        let mut snapshot = StateSnapshot::default();
        for (name, cache) in STATES.into_iter().zip(&self.caches) {
            let rows = cache.snapshot_keys(&keys, self.keys.hashes())?;
            snapshot.insert_keyed(name, vec![rows]);
        }
        Ok(snapshot)
    }

    fn evict_keyed(&mut self, ctx: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let gone = self.export_keyed(ctx, keys)?;
        let keys = self.keys.ids_of(keys.iter().copied());
        for cache in &mut self.caches {
            cache.remove_keys(&keys)?;
        }
        self.forget_keys();
        Ok(gone)
    }
}
