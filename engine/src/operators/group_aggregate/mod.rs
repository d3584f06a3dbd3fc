//! Group aggregation: keeps the aggregates of each key and tells every change of them.
//!
//! Without mini-batch the changes are Flink's, record by record: the first row of a key gives +I, each further one the old
//! result (-U) and the new one (+U), the last row that goes -D. It is done a batch at a time all the same: the
//! accumulators give their result behind each row as a column, and what stood before a row is the result behind the
//! previous row of its group, or the group's result before the batch. With mini-batch rows are folded without results; the
//! result that a group had before the bundle is kept when the bundle first touches it, and at the bundle's end the
//! touched groups alone are visited, with one change each.
//!
//! An update that changes nothing is left out, unless state has a time to live: then it keeps the state behind alive. A row
//! taken back from a group that is not there is ignored.

mod change_marks;
mod changes;
mod frozen;
mod group_states;
mod keyed;
mod local;
mod record;
#[cfg(test)]
mod tests;
mod touched;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;

use self::changes::ChangeWriter;
use self::group_states::GroupStates;
use self::touched::Touched;
use super::window_aggregate::{pick, weights};
use super::{
    Bundle, Context, Flow, InputIndex, KeyedState, Operator, Output, RESTORE_PIECES, key_hashes,
};
use crate::error::{Error, Result};
use crate::functions::AggregateCall;
use crate::functions::aggregate::AggregateSetSpec;
use crate::state::{StateBackend, StateSnapshot, TimeToLive};
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{EventTime, Field, ProcessingTime, Schema, TypeRoot};

pub use self::local::LocalGroupAggregateOperator;

/// The name of the keyed table in snapshots.
const TABLE: &str = "groups";
/// How many rows are folded at once where each result is as long as its group has rows.
const LONG_RESULT_ROWS: usize = 256;

/// What a group aggregation is and how it runs.
#[derive(Debug, Clone)]
pub struct GroupAggregateSpec {
    /// The key columns; empty: all rows are one group.
    pub keys: Vec<usize>,
    /// The aggregates, over the rows that come (of the local phase, where there is one).
    pub aggregates: Vec<AggregateCall>,
    /// The rows that the aggregates speak of.
    pub input: Schema,
    /// Whether partials of [`LocalGroupAggregateOperator`] come rather than rows.
    pub merges_partials: bool,
    /// No row is ever taken back.
    pub insert_only: bool,
    /// Whether somebody needs the rows before updates.
    pub update_before: bool,
    /// How many rows make a bundle; `None`: every record is told.
    pub mini_batch_rows: Option<usize>,
    /// How long a group is remembered behind its last row.
    pub ttl: TimeToLive,
}

impl GroupAggregateSpec {
    fn key_fields(&self) -> Vec<Field> {
        self.input.project(&self.keys).fields
    }

    /// Keys, then aggregates.
    fn output(&self) -> Schema {
        let mut fields = self.key_fields();
        let results = self.aggregates.iter();
        fields.extend(results.map(|call| Field::new(&call.name, call.logical_type.clone())));
        Schema::new(fields)
    }

    /// Whether every row changes the results of its group: it counts them.
    fn always_changes(&self) -> bool {
        let counts_rows = |call: &AggregateCall| {
            call.function == "COUNT" && call.arguments.is_empty() && call.filter.is_none()
        };
        self.insert_only && self.aggregates.iter().any(counts_rows)
    }

    fn has_long_results(&self) -> bool {
        self.aggregates.iter().any(|call| {
            let root = &call.logical_type.root;
            call.function == "LISTAGG"
                || matches!(
                    root,
                    TypeRoot::Array(_) | TypeRoot::Multiset(_) | TypeRoot::Map(..)
                )
        })
    }
}

/// The columns between the local and the global phase: keys, then the accumulators.
fn partial_schema(keys: Vec<Field>, aggregates: &AggregateSetSpec) -> Schema {
    let mut fields = keys;
    fields.extend(aggregates.partial_fields());
    Schema::new(fields)
}

/// See the file.
pub struct GroupAggregateOperator {
    /// Where the keys are in the input.
    keys: Vec<usize>,
    /// The columns that accumulators read: arguments, or partials.
    columns: Vec<usize>,
    merges_partials: bool,
    /// The key columns of the rows that the aggregates speak of.
    grouping: Vec<usize>,
    key_names: Vec<String>,
    states: GroupStates,
    writer: ChangeWriter,
    bundle: Option<(Bundle, Touched)>,
    /// The most rows that are folded record by record at once.
    rows_at_once: usize,
    waiting: VecDeque<ChangelogBatch>,
    ttl: TimeToLive,
    next_sweep: Option<ProcessingTime>,
    /// Whether what a group had before a row is of interest.
    needs_before: bool,
    /// For each slot the row of results that holds what it has now; between batches all are [`group_states::NONE`].
    result_rows: Vec<u32>,
}

/// A batch, as the fold reads it.
struct InputRows {
    keys: Vec<ArrayRef>,
    hashes: arrow::buffer::ScalarBuffer<u64>,
    columns: Vec<ArrayRef>,
    weights: Option<Vec<i8>>,
}

impl GroupAggregateOperator {
    /// Fails where an aggregate cannot be computed.
    pub fn new(spec: GroupAggregateSpec, backend: Arc<dyn StateBackend>) -> Result<Self> {
        let aggregates = AggregateSetSpec::new(&spec.aggregates, spec.insert_only)?;
        if spec.merges_partials && spec.mini_batch_rows.is_none() {
            return Err(Error::internal("partials come in bundles"));
        }
        let key_fields = spec.key_fields();
        let (keys, columns) = if spec.merges_partials {
            let keys = key_fields.len();
            let partials = aggregates.partial_fields().len();
            ((0..keys).collect(), (keys..keys + partials).collect())
        } else {
            (spec.keys.clone(), aggregates.columns().to_vec())
        };
        let key_types = key_fields.iter().map(|key| key.logical_type.to_arrow());
        let states = GroupStates::new(
            aggregates,
            key_types.collect(),
            spec.insert_only,
            spec.ttl,
            backend,
        )?;
        let writer = ChangeWriter::new(
            spec.output().to_arrow(),
            keys.len(),
            spec.update_before,
            spec.ttl.is_enabled() || (spec.always_changes() && spec.mini_batch_rows.is_none()),
        );
        let bundle = spec.mini_batch_rows.map(Bundle::new);
        Ok(GroupAggregateOperator {
            rows_at_once: if spec.has_long_results() && bundle.is_none() {
                LONG_RESULT_ROWS
            } else {
                usize::MAX
            },
            keys,
            columns,
            merges_partials: spec.merges_partials,
            grouping: spec.keys,
            key_names: key_fields.into_iter().map(|key| key.name).collect(),
            states,
            bundle: bundle.map(|bundle| (bundle, Touched::default())),
            waiting: VecDeque::new(),
            ttl: spec.ttl,
            next_sweep: None,
            needs_before: spec.update_before || !spec.insert_only || !writer.tells_equal,
            result_rows: Vec::new(),
            writer,
        })
    }

    /// Names the columns of snapshots by what the columns of the rows hold, so that another query finds them again.
    pub fn with_column_texts(mut self, texts: &[String]) -> Self {
        self.key_names = self
            .grouping
            .iter()
            .map(|key| texts[*key].clone())
            .collect();
        self.states.spec = self.states.spec.with_column_texts(texts);
        self
    }

    /// Bytes of state.
    pub fn state_bytes(&self) -> usize {
        self.states.size_bytes()
    }

    /// How many groups are remembered.
    pub fn groups(&self) -> usize {
        self.states.live()
    }

    fn input_rows(&self, batch: &ChangelogBatch) -> Result<InputRows> {
        let hashes = key_hashes(batch, &self.keys)?;
        Ok(InputRows {
            keys: pick(&batch.rows, &self.keys),
            hashes: hashes.values().to_vec().into(),
            columns: pick(&batch.rows, &self.columns),
            weights: weights(batch),
        })
    }

    /// Folds what waits until the output is full.
    fn drive(&mut self, ctx: &Context, out: &mut Output) -> Result<Flow> {
        while !self.waiting.is_empty() {
            if out.is_full() {
                return Ok(Flow::Blocked);
            }
            if let Some(batch) = self.waiting.pop_front() {
                self.fold_records(ctx.processing_time(), &batch, out)?;
            }
        }
        Ok(Flow::Done)
    }

    fn plan_sweep(&mut self, now: ProcessingTime) {
        if self.ttl.is_enabled() && self.next_sweep.is_none() && self.states.live() > 0 {
            self.next_sweep = Some(ProcessingTime(self.ttl.expiry(now)));
        }
    }
}

impl Operator for GroupAggregateOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        if batch.num_rows() == 0 {
            return Ok(Flow::Done);
        }
        let now = ctx.processing_time();
        let Some((bundle, _)) = &mut self.bundle else {
            let at_once = self.rows_at_once.min(batch.num_rows());
            for offset in (0..batch.num_rows()).step_by(at_once) {
                let length = at_once.min(batch.num_rows() - offset);
                self.waiting.push_back(batch.slice(offset, length));
            }
            let flow = self.drive(ctx, out)?;
            self.plan_sweep(now);
            return Ok(flow);
        };
        for part in bundle.parts(batch.num_rows()) {
            self.fold_bundle(now, &batch.slice(part.offset, part.length))?;
            if part.ends {
                self.flush(out)?;
            }
        }
        self.plan_sweep(now);
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

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.drive(ctx, out)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        self.next_sweep
    }

    fn on_processing_time(&mut self, ctx: &mut Context, _: &mut Output) -> Result<Flow> {
        let now = ctx.processing_time();
        if self.next_sweep.is_some_and(|due| due <= now) {
            self.next_sweep = None;
            // The groups of an open bundle are told first.
            if self
                .bundle
                .as_ref()
                .is_none_or(|(bundle, _)| bundle.is_empty())
            {
                ctx.keys_changed(&self.states.sweep(now)?);
                self.states.pack()?;
            }
            self.plan_sweep(now);
        }
        Ok(Flow::Done)
    }

    fn flush_bundle(&mut self, _: &mut Context, out: &mut Output) -> Result<Flow> {
        self.flush(out)?;
        Ok(Flow::Done)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        self.snapshot_keyed(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        let schema = self.states.snapshot_schema(&self.key_names);
        vec![(TABLE.to_string(), Arc::new(schema))]
    }

    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        self.load_keyed(ctx, &snapshot)
    }

    fn restore_pieces(&self) -> usize {
        RESTORE_PIECES
    }

    fn keyed_state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }
}
