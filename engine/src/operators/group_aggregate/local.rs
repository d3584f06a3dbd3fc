//! Local group aggregation: folds the rows of a bundle before the exchange, so that one partial a group travels.
//!
//! It remembers nothing over the end of a bundle, a watermark or a barrier. Rows that were taken back count with their sign, so
//! that a partial may take back what other rows gave; the global phase decides what becomes of it.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;

use super::{GroupAggregateSpec, partial_schema};
use crate::error::Result;
use crate::functions::aggregate::{AggregateSet, AggregateSetSpec};
use crate::operators::window_aggregate::{OUTPUT_ROWS, pick, weights};
use crate::operators::{Bundle, Context, Flow, InputIndex, Operator, Output, key_hashes};
use crate::state::{GroupTable, Groups, StateBackend};
use crate::stream::{ChangelogBatch, KeyHashes};
use crate::types::EventTime;

/// See the file.
pub struct LocalGroupAggregateOperator {
    keys: Vec<usize>,
    spec: AggregateSetSpec,
    schema: SchemaRef,
    key_types: Vec<arrow::datatypes::DataType>,
    backend: Arc<dyn StateBackend>,
    bundle: Bundle,
    table: GroupTable,
    aggregates: AggregateSet,
    ids: Vec<u32>,
}

impl LocalGroupAggregateOperator {
    /// The local phase of an aggregation. Fails where an aggregate cannot be computed.
    pub fn new(spec: &GroupAggregateSpec, backend: Arc<dyn StateBackend>) -> Result<Self> {
        let aggregates = AggregateSetSpec::new(&spec.aggregates, spec.insert_only)?;
        let keys = spec.key_fields();
        let key_types: Vec<_> = keys.iter().map(|key| key.logical_type.to_arrow()).collect();
        Ok(LocalGroupAggregateOperator {
            keys: spec.keys.clone(),
            schema: partial_schema(keys, &aggregates).to_arrow(),
            bundle: Bundle::new(spec.mini_batch_rows.unwrap_or(OUTPUT_ROWS)),
            table: backend.group_table(&key_types, 0)?,
            aggregates: aggregates.create()?,
            spec: aggregates,
            key_types,
            backend,
            ids: Vec::new(),
        })
    }

    fn fold(&mut self, batch: &ChangelogBatch) -> Result<()> {
        let hashes = key_hashes(batch, &self.keys)?;
        let keys = pick(&batch.rows, &self.keys);
        self.table.resolve(&keys, hashes.values(), &mut self.ids)?;
        self.aggregates.grow(self.table.len());
        let columns = pick(&batch.rows, self.spec.columns());
        self.aggregates
            .accumulate(&self.spec, &self.ids, &columns, weights(batch).as_deref())
    }

    /// Emits the partials of all groups and forgets them.
    fn flush(&mut self, out: &mut Output) -> Result<()> {
        self.bundle.close();
        let groups = self.table.len();
        for first in (0..groups).step_by(OUTPUT_ROWS) {
            let last = (first + OUTPUT_ROWS).min(groups);
            self.emit(&Groups::Range(first..last), out)?;
        }
        if groups > 0 {
            self.table = self.backend.group_table(&self.key_types, groups)?;
            self.aggregates = self.spec.create()?;
        }
        Ok(())
    }

    fn emit(&self, groups: &Groups, out: &mut Output) -> Result<()> {
        let mut columns = self.table.keys(groups)?;
        let keys: Vec<usize> = (0..columns.len()).collect();
        columns.extend(self.aggregates.partials(groups)?);
        let options = RecordBatchOptions::new().with_row_count(Some(groups.len()));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let hashes = groups.gather(self.table.hashes());
        out.emit(ChangelogBatch {
            hashes: Some(KeyHashes::known(&keys, hashes.into())),
            ..ChangelogBatch::insert_only(rows)
        });
        Ok(())
    }
}

impl Operator for LocalGroupAggregateOperator {
    fn process_batch(
        &mut self,
        _: &mut Context,
        _: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        for part in self.bundle.parts(batch.num_rows()) {
            self.fold(&batch.slice(part.offset, part.length))?;
            if part.ends {
                self.flush(out)?;
            }
        }
        Ok(Flow::Done)
    }

    fn process_watermark(
        &mut self,
        _: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        self.flush(out)?;
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn flush_bundle(&mut self, _: &mut Context, out: &mut Output) -> Result<Flow> {
        self.flush(out)?;
        Ok(Flow::Done)
    }
}
