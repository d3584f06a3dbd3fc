//! The changes that an updating operator gives for a batch: rows of the batch and rows of the state, in one output batch.

use arrow::array::{
    Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, make_comparator,
};
use arrow::compute;

use crate::error::Result;
use crate::state::RowSlab;
use crate::stream::ChangelogBatch;
use crate::types::{RowKind, RowKinds};

/// A row of the batch at hand, or a row of the state by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowRef(u32);

/// Which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowPlace {
    State(u32),
    Batch(u32),
}

impl RowRef {
    const IN_BATCH: u32 = 1 << 31;
    /// No row.
    pub(super) const NONE: RowRef = RowRef(u32::MAX);

    pub(super) fn state(id: u32) -> Self {
        assert!(id < Self::IN_BATCH, "a state holds fewer than 2^31 rows");
        RowRef(id)
    }

    pub(super) fn batch(row: usize) -> Self {
        RowRef(row as u32 | Self::IN_BATCH)
    }

    pub(super) fn is_none(self) -> bool {
        self == Self::NONE
    }

    pub(super) fn place(self) -> RowPlace {
        if self.0 & Self::IN_BATCH == 0 {
            RowPlace::State(self.0)
        } else {
            RowPlace::Batch(self.0 & !Self::IN_BATCH)
        }
    }

    /// The id of a row of the state.
    pub(super) fn state_id(self) -> Option<u32> {
        match self.place() {
            RowPlace::State(id) => Some(id),
            RowPlace::Batch(_) => None,
        }
    }
}

/// Changes in the order in which they go out.
#[derive(Debug, Default)]
pub(super) struct RowChanges {
    rows: Vec<RowRef>,
    kinds: Vec<u8>,
    /// The input row that caused each change, for the watermarks between them.
    causes: Vec<u32>,
}

impl RowChanges {
    pub(super) fn with_capacity(changes: usize) -> Self {
        RowChanges {
            rows: Vec::with_capacity(changes),
            kinds: Vec::with_capacity(changes),
            causes: Vec::with_capacity(changes),
        }
    }

    pub(super) fn push(&mut self, kind: RowKind, row: RowRef, cause: usize) {
        debug_assert!(!row.is_none(), "a change has a row");
        self.rows.push(row);
        self.kinds.push(kind as u8);
        self.causes.push(cause as u32);
    }

    /// The changes as rows; the watermark steps of the input stand between those that they stood between.
    pub(super) fn into_batch(
        self,
        slab: &RowSlab,
        input: &ChangelogBatch,
    ) -> Result<ChangelogBatch> {
        let rows = gather(&self.rows, slab, &input.rows)?;
        let insert = RowKind::Insert as u8;
        let kinds = if self.kinds.iter().all(|kind| *kind == insert) {
            RowKinds::INSERT_ONLY
        } else {
            RowKinds::from_bytes(self.kinds.into())
        };
        let mut batch = ChangelogBatch::new(rows, kinds);
        if !input.steps.is_empty() {
            let before = |row| self.causes.partition_point(|cause| (*cause as usize) < row);
            batch.steps = input.steps.reindex(before, self.causes.len()).0;
        }
        Ok(batch)
    }
}

fn gather(refs: &[RowRef], slab: &RowSlab, batch: &RecordBatch) -> Result<RecordBatch> {
    let ids: Vec<u32> = refs.iter().filter_map(|row| row.state_id()).collect();
    if ids.len() == refs.len() {
        return slab.gather(&ids);
    }
    if ids.is_empty() {
        return take_rows(refs, batch);
    }
    let held = slab.gather(&ids)?;
    let mut next = 0..;
    let places: Vec<(usize, usize)> = refs
        .iter()
        .map(|row| match row.place() {
            RowPlace::State(_) => (0, next.next().expect("as many as there are")),
            RowPlace::Batch(row) => (1, row as usize),
        })
        .collect();
    let columns = held.columns().iter().enumerate();
    let columns = columns
        .map(|(index, held)| {
            let both: [&dyn Array; 2] = [held, batch.column(index)];
            Ok(compute::interleave(&both, &places)?)
        })
        .collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(refs.len()));
    Ok(RecordBatch::try_new_with_options(
        slab.schema().clone(),
        columns,
        &options,
    )?)
}

fn take_rows(refs: &[RowRef], batch: &RecordBatch) -> Result<RecordBatch> {
    let rows = refs.iter().map(|row| match row.place() {
        RowPlace::Batch(row) | RowPlace::State(row) => row,
    });
    let rows = UInt32Array::from_iter_values(rows);
    Ok(compute::take_record_batch(batch, &rows)?)
}

/// Whether a row of the batch equals the row beside it in all columns, NULLs being equal.
pub(super) fn equal_pairs(
    pairs: &[(RowRef, usize)],
    slab: &RowSlab,
    batch: &RecordBatch,
) -> Result<Vec<bool>> {
    let mut equal = vec![false; pairs.len()];
    let mut open: Vec<usize> = (0..pairs.len()).collect();
    for column in columns_by_width(batch) {
        if open.is_empty() {
            break;
        }
        let ids: Vec<u32> = open
            .iter()
            .filter_map(|pair| pairs[*pair].0.state_id())
            .collect();
        let held = slab.gather_columns(&[column], &ids)?.remove(0);
        let own = batch.column(column);
        let with_held = make_comparator(&held, own, Default::default())?;
        let with_own = make_comparator(own, own, Default::default())?;
        let mut next = 0..;
        open.retain(|pair| {
            let (other, row) = pairs[*pair];
            match other.place() {
                RowPlace::State(_) => {
                    with_held(next.next().expect("as many as there are"), row).is_eq()
                }
                RowPlace::Batch(other) => with_own(other as usize, row).is_eq(),
            }
        });
    }
    open.into_iter().for_each(|pair| equal[pair] = true);
    Ok(equal)
}

/// Narrow columns first: they tell most rows apart.
fn columns_by_width(batch: &RecordBatch) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..batch.num_columns()).collect();
    columns.sort_by_key(|column| {
        batch
            .column(*column)
            .data_type()
            .primitive_width()
            .unwrap_or(usize::MAX)
    });
    columns
}
