//! The state of a Top-N in checkpoints: the rows with their arrival, and the last ranks of partitions that have none.

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Int64Type, SchemaRef, UInt64Type};

use super::super::ranked_rows::RankedRow;
use super::super::sort_order::RankKey;
use super::super::{EXPIRY, RankEnd};
use super::{RankOperator, Slot, tie};
use crate::error::Result;
use crate::operators::Context;
use crate::operators::keyed_rows::{SNAPSHOT_ROWS, keyed_batch, keyed_schema, unkeyed_batch};
use crate::operators::partition_table::at;
use crate::state::StateSnapshot;

const ROWS: &str = "rows";
/// The last ranks of partitions without rows.
const ENDS: &str = "ends";

impl<K: RankKey> RankOperator<K> {
    pub(super) fn snapshot(&self, ctx: &Context) -> Result<StateSnapshot> {
        let held: Vec<(u32, &RankedRow<K>)> = self
            .tops
            .iter()
            .enumerate()
            .flat_map(|(partition, top)| {
                let rows = top.rows.iter();
                rows.map(move |entry| (partition as u32, entry))
            })
            .collect();
        let batches: Result<Vec<RecordBatch>> = held
            .chunks(SNAPSHOT_ROWS)
            .map(|held| self.snapshot_rows(held, ctx))
            .collect();
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(ROWS, batches?);
        if let RankEnd::Column(_) = self.spec.end {
            snapshot.insert_keyed(ENDS, self.snapshot_ends(ctx)?);
        }
        Ok(snapshot)
    }

    /// The columns of the rows that are held.
    pub(super) fn kept_columns(&self) -> Vec<(String, SchemaRef)> {
        let notes = [
            ("arrival", DataType::UInt64),
            ("end", DataType::Int64),
            (EXPIRY, DataType::Int64),
        ];
        vec![(ROWS.to_string(), keyed_schema(&notes, self.rows.schema()))]
    }

    pub(super) fn restore(&mut self, snapshot: &StateSnapshot) -> Result<()> {
        let batches = snapshot.batches(ROWS);
        batches
            .iter()
            .try_for_each(|batch| self.restore_rows(batch))?;
        let ends = snapshot.batches(ENDS);
        ends.iter().try_for_each(|batch| self.restore_ends(batch))?;
        self.index_anew()
    }

    fn snapshot_rows(&self, held: &[(u32, &RankedRow<K>)], ctx: &Context) -> Result<RecordBatch> {
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
            &at(self.partitions.hashes(), &partitions),
            ctx.subtask().max_parallelism,
            &[
                ("arrival", Arc::new(UInt64Array::from_iter_values(arrivals))),
                ("end", Arc::new(Int64Array::from_iter_values(ends))),
                (EXPIRY, Arc::new(Int64Array::from_iter_values(expiry))),
            ],
            &self.rows.gather(&ids)?,
        )
    }

    fn restore_rows(&mut self, batch: &RecordBatch) -> Result<()> {
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
            top.rows.insert(RankedRow {
                key: K::of(keys.bytes(row)),
                tie: tie(self.spec.ties, arrivals[row]),
                row: ids[row],
            });
            self.arrivals = self.arrivals.max(arrivals[row] + 1);
        }
        Ok(())
    }

    fn snapshot_ends(&self, ctx: &Context) -> Result<Vec<RecordBatch>> {
        let is_empty = |partition: &u32| self.tops[*partition as usize].rows.len() == 0;
        let empty: Vec<u32> = (0..self.tops.len() as u32).filter(is_empty).collect();
        let batches = empty.chunks(SNAPSHOT_ROWS).map(|partitions| {
            let tops = || partitions.iter().map(|at| &self.tops[*at as usize]);
            let ends = tops().map(|top| i64::try_from(top.end).unwrap_or(i64::MAX));
            let expiry = tops().map(|top| top.expiry);
            keyed_batch(
                &at(self.partitions.hashes(), partitions),
                ctx.subtask().max_parallelism,
                &[
                    ("end", Arc::new(Int64Array::from_iter_values(ends))),
                    (EXPIRY, Arc::new(Int64Array::from_iter_values(expiry))),
                ],
                &self.partitions.key_rows(partitions)?,
            )
        });
        batches.collect()
    }

    fn restore_ends(&mut self, batch: &RecordBatch) -> Result<()> {
        let ends = batch.column(1).as_primitive::<Int64Type>().values();
        let expiry = batch.column(2).as_primitive::<Int64Type>().values();
        let keys = &batch.columns()[3..];
        let partitions = self.partitions.resolve_keys(keys, batch.num_rows())?;
        self.grow();
        for (row, partition) in partitions.iter().enumerate() {
            let top = &mut self.tops[*partition as usize];
            top.end = usize::try_from(ends[row]).unwrap_or(0);
            top.expiry = expiry[row];
            self.empty += 1;
        }
        Ok(())
    }

    /// Builds the index of the rows that are held, in their order of arrival.
    fn index_anew(&mut self) -> Result<()> {
        self.slots.resize(self.rows.capacity(), None);
        let mut held: Vec<(u64, u32, RankedRow<K>)> = Vec::new();
        for (partition, top) in self.tops.iter().enumerate() {
            let rows = top.rows.iter();
            held.extend(rows.map(|entry| {
                let arrival = tie(self.spec.ties, entry.tie);
                (arrival, partition as u32, entry.clone())
            }));
        }
        held.sort_unstable_by_key(|(arrival, partition, _)| (*arrival, *partition));
        let Some(index) = &mut self.index else {
            return Ok(());
        };
        for held in held.chunks(SNAPSHOT_ROWS) {
            let ids: Vec<u32> = held.iter().map(|(_, _, entry)| entry.row).collect();
            let hashes = index.hashes(&self.rows.gather(&ids)?)?;
            for ((_, partition, entry), hash) in held.iter().zip(hashes) {
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
