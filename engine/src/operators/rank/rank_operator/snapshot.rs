//! The state of a Top-N as tables: the rows with their arrival, and the last ranks of partitions that have none.

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Int64Type, SchemaRef, UInt64Type};

use super::super::RankEnd;
use super::super::ranked_rows::RankedRow;
use super::super::sort_order::RankKey;
use super::{RankOperator, Slot, tie};
use crate::error::Result;
use crate::operators::keyed_rows::{SNAPSHOT_ROWS, keyed_batch, keyed_schema, unkeyed_batch};
use crate::operators::keyed_state::{EXPIRY_COLUMN, KeySet, KeyedState};
use crate::operators::partition_table::at;
use crate::operators::{Context, InputIndex};
use crate::state::StateSnapshot;

const ROWS: &str = "rows";
/// The last ranks of partitions without rows.
const ENDS: &str = "ends";

impl<K: RankKey> KeyedState for RankOperator<K> {
    fn key_columns(&self, _: InputIndex) -> &[usize] {
        self.partitions.keys()
    }

    fn snapshot_keyed(&mut self, _: &Context) -> Result<StateSnapshot> {
        self.snapshot_partitions(&self.partitions.ids())
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
        let mut loaded = Vec::new();
        for batch in snapshot.batches(ROWS) {
            self.load_rows(batch, &mut loaded)?;
        }
        let ends = snapshot.batches(ENDS);
        ends.iter().try_for_each(|batch| self.load_ends(batch))?;
        self.index_rows(loaded)
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.forget_rows();
        self.partitions.keep(&[])
    }

    fn size_bytes(&self) -> usize {
        let indexed = usize::from(self.index.is_some()) * (size_of::<Slot<K>>() + 64);
        let by_row = size_of::<RankedRow<K>>() + K::BYTES_APART + indexed;
        self.partitions.size_bytes()
            + self.rows.size_bytes()
            + self.rows.len() * by_row
            + self.tops.capacity() * size_of::<super::Top<K>>()
    }

    fn export_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        self.snapshot_partitions(&self.partitions.ids_of(keys))
    }

    fn evict_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let gone = self.partitions.ids_of(keys);
        let snapshot = self.snapshot_partitions(&gone)?;
        gone.iter()
            .try_for_each(|partition| self.clear(*partition))?;
        self.keep(&self.partitions.ids_but(keys))?;
        Ok(snapshot)
    }
}

impl<K: RankKey> RankOperator<K> {
    fn snapshot_partitions(&self, partitions: &[u32]) -> Result<StateSnapshot> {
        let held: Vec<(u32, &RankedRow<K>)> = partitions
            .iter()
            .flat_map(|partition| {
                let rows = self.tops[*partition as usize].rows.iter();
                rows.map(|entry| (*partition, entry))
            })
            .collect();
        let batches: Result<Vec<RecordBatch>> = held
            .chunks(SNAPSHOT_ROWS)
            .map(|held| self.snapshot_rows(held))
            .collect();
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(ROWS, batches?);
        if let RankEnd::Column(_) = self.spec.end {
            snapshot.insert_keyed(ENDS, self.snapshot_ends(partitions)?);
        }
        Ok(snapshot)
    }

    /// The columns of the rows that are held.
    pub(super) fn kept_columns(&self) -> Vec<(String, SchemaRef)> {
        let notes = [
            ("arrival", DataType::UInt64),
            ("end", DataType::Int64),
            (EXPIRY_COLUMN, DataType::Int64),
        ];
        vec![(ROWS.to_string(), keyed_schema(&notes, self.rows.schema()))]
    }

    fn snapshot_rows(&self, held: &[(u32, &RankedRow<K>)]) -> Result<RecordBatch> {
        let partitions: Vec<u32> = held.iter().map(|(partition, _)| *partition).collect();
        let ids: Vec<u32> = held.iter().map(|(_, entry)| entry.row).collect();
        let arrivals = held.iter().map(|(_, entry)| tie(self.spec.ties, entry.tie));
        let tops = || {
            let partitions = partitions.iter();
            partitions.map(|partition| &self.tops[*partition as usize])
        };
        let ends = tops().map(|top| i64::try_from(top.end).unwrap_or(i64::MAX));
        let expiry = tops().map(|top| top.expiry);
        keyed_batch(
            at(self.partitions.hashes(), &partitions),
            &[
                ("arrival", Arc::new(UInt64Array::from_iter_values(arrivals))),
                ("end", Arc::new(Int64Array::from_iter_values(ends))),
                (
                    EXPIRY_COLUMN,
                    Arc::new(Int64Array::from_iter_values(expiry)),
                ),
            ],
            &self.rows.gather(&ids)?,
        )
    }

    /// Takes rows up, and notes them with their arrivals and partitions.
    fn load_rows(&mut self, batch: &RecordBatch, loaded: &mut Vec<Loaded<K>>) -> Result<()> {
        let (notes, rows) = unkeyed_batch(batch, 3, self.rows.schema())?;
        let arrivals = notes[0].as_primitive::<UInt64Type>().values();
        let ends = notes[1].as_primitive::<Int64Type>().values();
        let expiry = notes[2].as_primitive::<Int64Type>().values();
        let partitions = self.partitions.resolve_rows(&rows)?;
        let keys = self.order.keys(&rows)?;
        let mut ids = Vec::new();
        self.rows.insert(&rows, &mut ids)?;
        self.grow();
        for (row, partition) in partitions.iter().enumerate() {
            let top = &mut self.tops[*partition as usize];
            top.expiry = expiry[row];
            top.end = match self.spec.end {
                RankEnd::Constant(end) => usize::try_from(end).unwrap_or(usize::MAX),
                RankEnd::Column(_) => usize::try_from(ends[row]).unwrap_or(0),
            };
            let entry = RankedRow {
                key: K::of(keys.bytes(row)),
                tie: tie(self.spec.ties, arrivals[row]),
                row: ids[row],
            };
            self.empty -= usize::from(top.rows.len() == 0);
            top.rows.insert(entry.clone());
            loaded.push((arrivals[row], *partition, entry));
            self.arrivals = self.arrivals.max(arrivals[row] + 1);
        }
        Ok(())
    }

    fn snapshot_ends(&self, partitions: &[u32]) -> Result<Vec<RecordBatch>> {
        let is_empty = |partition: &u32| self.tops[*partition as usize].rows.len() == 0;
        let empty: Vec<u32> = partitions.iter().copied().filter(is_empty).collect();
        let batches = empty.chunks(SNAPSHOT_ROWS).map(|partitions| {
            let tops = || partitions.iter().map(|at| &self.tops[*at as usize]);
            let ends = tops().map(|top| i64::try_from(top.end).unwrap_or(i64::MAX));
            let expiry = tops().map(|top| top.expiry);
            keyed_batch(
                at(self.partitions.hashes(), partitions),
                &[
                    ("end", Arc::new(Int64Array::from_iter_values(ends))),
                    (
                        EXPIRY_COLUMN,
                        Arc::new(Int64Array::from_iter_values(expiry)),
                    ),
                ],
                &self.partitions.key_rows(partitions)?,
            )
        });
        batches.collect()
    }

    fn load_ends(&mut self, batch: &RecordBatch) -> Result<()> {
        let ends = batch.column(1).as_primitive::<Int64Type>().values();
        let expiry = batch.column(2).as_primitive::<Int64Type>().values();
        let keys = &batch.columns()[3..];
        let partitions = self.partitions.resolve_keys(keys, batch.num_rows())?;
        self.grow();
        for (row, partition) in partitions.iter().enumerate() {
            let top = &mut self.tops[*partition as usize];
            top.end = usize::try_from(ends[row]).unwrap_or(0);
            top.expiry = expiry[row];
        }
        Ok(())
    }

    /// Adds rows to the index, in their order of arrival.
    fn index_rows(&mut self, mut loaded: Vec<Loaded<K>>) -> Result<()> {
        let Some(index) = &mut self.index else {
            return Ok(());
        };
        self.slots.resize(self.rows.capacity(), None);
        loaded.sort_unstable_by_key(|(arrival, partition, _)| (*arrival, *partition));
        for loaded in loaded.chunks(SNAPSHOT_ROWS) {
            let ids: Vec<u32> = loaded.iter().map(|(_, _, entry)| entry.row).collect();
            let hashes = index.hashes(&self.rows.gather(&ids)?)?;
            for ((_, partition, entry), hash) in loaded.iter().zip(hashes) {
                index.insert(hash, entry.row);
                self.slots[entry.row as usize] = Some(Slot {
                    partition: *partition,
                    key: entry.key.clone(),
                    tie: entry.tie,
                    hash,
                });
            }
        }
        Ok(())
    }
}

/// A row with its arrival and its partition.
type Loaded<K> = (u64, u32, RankedRow<K>);
