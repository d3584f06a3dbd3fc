//! Rows on the move: an Arrow batch with a row kind, a watermark and a key hash for each row, all of them optional.

use arrow::array::{BooleanArray, RecordBatch, UInt32Array};
use arrow::compute;
use arrow::datatypes::SchemaRef;

use super::{KeyHashes, WatermarkStep, WatermarkSteps};
use crate::error::Result;
use crate::types::{EventTime, RowKinds};

/// A batch of changes. See `docs/architecture/stream.md` for how each part is kept right by filters and exchanges.
#[derive(Debug, Clone)]
pub struct ChangelogBatch {
    /// The columns.
    pub rows: RecordBatch,
    /// What each row does; absent on insert-only edges.
    pub kinds: RowKinds,
    /// How far event time had come before each row.
    pub steps: WatermarkSteps,
    /// The hash of the key of each row, computed once at the exchange.
    pub hashes: Option<KeyHashes>,
}

/// A run of rows of a batch before which the watermark is the same. From [`ChangelogBatch::by_steps`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepSlice {
    /// First row.
    pub offset: usize,
    /// Number of rows, at least one.
    pub length: usize,
    /// The watermark before these rows.
    pub watermark: EventTime,
}

impl ChangelogBatch {
    /// Inserts without steps and hashes.
    pub fn insert_only(rows: RecordBatch) -> Self {
        ChangelogBatch {
            rows,
            kinds: RowKinds::INSERT_ONLY,
            steps: WatermarkSteps::NONE,
            hashes: None,
        }
    }

    /// Changes without steps and hashes.
    pub fn new(rows: RecordBatch, kinds: RowKinds) -> Self {
        ChangelogBatch {
            rows,
            kinds,
            steps: WatermarkSteps::NONE,
            hashes: None,
        }
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.rows.num_rows()
    }

    /// Bytes that the rows take, counting slices by their own length; what bounded queues count.
    pub fn size_bytes(&self) -> usize {
        let columns: usize = self
            .rows
            .columns()
            .iter()
            .map(|column| {
                column
                    .to_data()
                    .get_slice_memory_size()
                    .unwrap_or_else(|_| column.get_array_memory_size())
            })
            .sum();
        columns
            + self.kinds.bytes().map_or(0, <[u8]>::len)
            + self
                .hashes
                .as_ref()
                .map_or(0, |hashes| hashes.values().len() * 8)
    }

    /// The same changes with other columns of the same length. Hashes go: their columns may have moved.
    pub fn with_rows(self, rows: RecordBatch) -> Self {
        assert_eq!(
            rows.num_rows(),
            self.rows.num_rows(),
            "a projection keeps the number of rows"
        );
        ChangelogBatch {
            rows,
            hashes: None,
            ..self
        }
    }

    /// Rows `offset .. offset + length` without a copy. Steps before the slice move to its first row.
    pub fn slice(&self, offset: usize, length: usize) -> Self {
        ChangelogBatch {
            rows: self.rows.slice(offset, length),
            kinds: self.kinds.slice(offset, length),
            steps: self.steps.slice(offset, length),
            hashes: self
                .hashes
                .as_ref()
                .map(|hashes| hashes.slice(offset, length)),
        }
    }

    /// The rows that `mask` keeps (NULL counts as false), and the watermark of steps behind the last kept row, which the
    /// caller must emit after the batch: `let (batch, behind) = …; out.emit(batch); behind.map(|w| …)`. Operators may drop
    /// `behind` where the input's own watermark element follows at once, as it does behind every batch with steps.
    pub fn filter(&self, mask: &BooleanArray) -> Result<(Self, Option<EventTime>)> {
        let keep = if arrow::array::Array::null_count(mask) > 0 {
            compute::prep_null_mask_filter(mask)
        } else {
            mask.clone()
        };
        let kept = keep.true_count();
        if kept == self.num_rows() {
            return Ok((self.clone(), None));
        }
        let (steps, behind) = if self.steps.is_empty() {
            (WatermarkSteps::NONE, None)
        } else {
            let bits = keep.values();
            let (mut counted, mut before) = (0, 0);
            let kept_before = |row: usize| {
                before += bits.slice(counted, row - counted).count_set_bits();
                counted = row;
                before
            };
            self.steps.reindex(kept_before, kept)
        };
        let batch = ChangelogBatch {
            rows: compute::filter_record_batch(&self.rows, &keep)?,
            kinds: self.kinds.filter(&keep),
            steps,
            hashes: self.hashes.as_ref().map(|hashes| hashes.filter(&keep)),
        };
        Ok((batch, behind))
    }

    /// The rows at `indices`. The indices must not fall, except where there are no steps; steps move with their rows.
    pub fn take(&self, indices: &UInt32Array) -> Result<(Self, Option<EventTime>)> {
        let (steps, behind) = if self.steps.is_empty() {
            (WatermarkSteps::NONE, None)
        } else {
            let rows = indices.values();
            debug_assert!(
                rows.is_sorted(),
                "rows with watermark steps keep their order"
            );
            self.steps.reindex(
                |row| rows.partition_point(|index| (*index as usize) < row),
                rows.len(),
            )
        };
        let batch = ChangelogBatch {
            rows: compute::take_record_batch(&self.rows, indices)?,
            kinds: self.kinds.take(indices),
            steps,
            hashes: self.hashes.as_ref().map(|hashes| hashes.take(indices)),
        };
        Ok((batch, behind))
    }

    /// The runs of rows before which the watermark is the same, given the watermark before the batch. The default loop of an
    /// operator of time: advance to `watermark`, then fold rows `offset .. offset + length`.
    pub fn by_steps(&self, before: EventTime) -> Vec<StepSlice> {
        let mut slices = Vec::new();
        let (mut offset, mut watermark) = (0, before);
        let end = WatermarkStep {
            row: self.num_rows(),
            watermark: EventTime::MIN,
        };
        for step in self.steps.iter().chain([end]) {
            if step.row > offset {
                slices.push(StepSlice {
                    offset,
                    length: step.row - offset,
                    watermark,
                });
                offset = step.row;
            }
            watermark = watermark.max(step.watermark);
        }
        slices
    }
}

/// Several batches of one schema as one; steps are re-indexed, hashes stay where all batches have them for the same key.
/// There must be at least one batch.
pub fn concat_batches(schema: &SchemaRef, batches: &[ChangelogBatch]) -> Result<ChangelogBatch> {
    if let [single] = batches {
        return Ok(single.clone());
    }
    let rows = compute::concat_batches(schema, batches.iter().map(|batch| &batch.rows))?;
    let kinds = RowKinds::concat(
        &batches
            .iter()
            .map(|batch| (&batch.kinds, batch.num_rows()))
            .collect::<Vec<_>>(),
    );
    let mut steps = WatermarkSteps::NONE;
    let mut offset = 0;
    for batch in batches {
        batch.steps.iter().for_each(|step| {
            steps.push(WatermarkStep {
                row: step.row + offset,
                ..step
            })
        });
        offset += batch.num_rows();
    }
    Ok(ChangelogBatch {
        rows,
        kinds,
        steps,
        hashes: KeyHashes::concat(batches.iter().map(|batch| batch.hashes.as_ref())),
    })
}
