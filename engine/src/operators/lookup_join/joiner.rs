//! What a lookup join does with one batch: what it asks, and what it makes of the answer.

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute;
use arrow::datatypes::SchemaRef;

use super::{LookupJoinSpec, LookupKeyValue};
use crate::connectors::{LookupRequest, LookupRows};
use crate::error::Result;
use crate::expr::RowContext;
use crate::operators::Context;
use crate::operators::calc::batch_of;
use crate::stream::{ChangelogBatch, WatermarkSteps};
use crate::types::JoinKind;

/// See the module. No state.
pub(super) struct Joiner {
    spec: LookupJoinSpec,
    schema: SchemaRef,
}

/// The keys of the rows of a batch that ask: those whose keys have no NULL.
pub(super) struct Question {
    keys: Vec<ArrayRef>,
    /// Which rows of the batch these are; `None`: all.
    rows: Option<Vec<u32>>,
}

/// Left rows beside rows of the table; `None`: nothing was found.
struct Pairs {
    left: Vec<u32>,
    table: Vec<Option<u32>>,
}

impl Question {
    /// What the table is asked.
    pub(super) fn request(&self, ctx: &Context) -> LookupRequest<'_> {
        LookupRequest {
            keys: &self.keys,
            now: ctx.processing_time(),
        }
    }

    /// The answer with `of` counting rows of the batch.
    pub(super) fn by_row(&self, mut found: LookupRows) -> LookupRows {
        assert_eq!(
            found.rows.num_rows(),
            found.of.len(),
            "a lookup says for each row whose it is"
        );
        if let Some(rows) = &self.rows {
            let of = found.of.iter_mut();
            of.for_each(|row| *row = rows[*row as usize]);
        }
        found
    }

    /// Which of the rows of the batch asked and found nothing. `found` counts rows of the batch.
    pub(super) fn missed(&self, rows: usize, found: &LookupRows) -> Vec<bool> {
        let mut missed = vec![self.rows.is_none(); rows];
        let asked = self.rows.iter().flatten();
        asked.for_each(|row| missed[*row as usize] = true);
        found
            .of
            .iter()
            .for_each(|row| missed[*row as usize] = false);
        missed
    }
}

impl Joiner {
    pub(super) fn new(spec: LookupJoinSpec) -> Self {
        Joiner {
            schema: spec.output.to_arrow(),
            spec,
        }
    }

    /// What the rows of a batch ask.
    pub(super) fn question(&self, ctx: &Context, batch: &ChangelogBatch) -> Result<Question> {
        let keys = self.keys(ctx, batch)?;
        let nulls = keys.iter().fold(None, |all, key| {
            NullBuffer::union(all.as_ref(), key.logical_nulls().as_ref())
        });
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
            return Ok(Question { keys, rows: None });
        };
        let rows = nulls.valid_indices().map(|row| row as u32).collect();
        let mask = BooleanArray::new(nulls.into_inner(), None);
        let keys = keys
            .iter()
            .map(|key| compute::filter(key, &mask))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Question {
            keys,
            rows: Some(rows),
        })
    }

    /// The rows with what was found for them, `of` counting rows of the batch.
    pub(super) fn joined(
        &self,
        ctx: &Context,
        batch: &ChangelogBatch,
        found: &LookupRows,
    ) -> Result<ChangelogBatch> {
        let matches = self.satisfying(ctx, batch, found)?;
        let pairs = self.pairs(batch.num_rows(), &found.of, &matches);
        let left = UInt32Array::from(pairs.left);
        let table = UInt32Array::from(pairs.table);
        let (taken, _) = batch.take(&left)?;
        let mut columns = taken.rows.columns().to_vec();
        for column in found.rows.columns() {
            columns.push(compute::take(column, &table, None)?);
        }
        let rows = batch_of(&self.schema, columns, left.len())?;
        Ok(taken.with_rows(rows))
    }

    fn keys(&self, ctx: &Context, batch: &ChangelogBatch) -> Result<Vec<ArrayRef>> {
        let context = row_context(ctx);
        let value = |key: &LookupKeyValue| match key {
            LookupKeyValue::Column(column) => Ok(batch.rows.column(*column).clone()),
            LookupKeyValue::Constant(constant) => constant.evaluate(&batch.rows, &context),
        };
        self.spec.keys.iter().map(value).collect()
    }

    /// Which of the rows found satisfy the condition.
    fn satisfying(
        &self,
        ctx: &Context,
        batch: &ChangelogBatch,
        found: &LookupRows,
    ) -> Result<Vec<bool>> {
        let Some(condition) = &self.spec.condition else {
            return Ok(vec![true; found.of.len()]);
        };
        let left = UInt32Array::from(found.of.clone());
        let left = compute::take_record_batch(&batch.rows, &left)?;
        let columns = [left.columns(), found.rows.columns()].concat();
        let pairs: RecordBatch = batch_of(&self.schema, columns, found.of.len())?;
        let mask = condition.evaluate_mask(&pairs, &row_context(ctx))?;
        Ok(mask.values().iter().collect())
    }

    /// The rows in their order, each with what was found for it.
    fn pairs(&self, rows: usize, of: &[u32], matches: &[bool]) -> Pairs {
        let keeps = self.spec.kind == JoinKind::Left;
        let mut pairs = Pairs {
            left: Vec::with_capacity(rows),
            table: Vec::with_capacity(rows),
        };
        let mut next = 0;
        for row in 0..rows as u32 {
            let before = pairs.left.len();
            while next < of.len() && of[next] == row {
                if matches[next] {
                    pairs.left.push(row);
                    pairs.table.push(Some(next as u32));
                }
                next += 1;
            }
            if keeps && pairs.left.len() == before {
                pairs.left.push(row);
                pairs.table.push(None);
            }
        }
        pairs
    }
}

fn row_context(ctx: &Context) -> RowContext<'static> {
    static NO_STEPS: WatermarkSteps = WatermarkSteps::NONE;
    RowContext {
        processing_time: ctx.processing_time(),
        watermark: ctx.watermark(),
        steps: &NO_STEPS,
    }
}
