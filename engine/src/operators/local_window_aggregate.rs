//! Local window aggregation: folds rows by slice and key before an exchange, so that partials travel instead of rows.
//!
//! It holds a slice only until its first window could fire: its partials go out before the watermark that fires it, before a
//! barrier, at the end of a bundle, and when too many groups wait. Rows that come when their slice has already fired here are
//! not folded: each goes on as a partial of one row, in its place between the watermark steps, so that the global phase, whose
//! watermark may be behind, decides exactly whether it is late.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute;
use arrow::datatypes::SchemaRef;

use super::window_aggregate::{
    GroupedAggregates, Grouping, OUTPUT_ROWS, PartialLayout, SliceInput, SliceKey, SlicedRows,
    local_output_schema, pick, row_source, weights,
};
use crate::error::{Error, Result};
use crate::functions::aggregate::AggregateSetSpec;
use crate::operators::{Context, Flow, InputIndex, Operator, Output};
use crate::state::{Groups, StateBackend};
use crate::stream::{ChangelogBatch, KeyHashes};
use crate::types::{EventTime, Schema};
use crate::window::{SliceAssigner, WindowAggregateSpec, WindowClock, WindowInput};

/// How many groups may wait over all slices.
const MAX_GROUPS: usize = 1 << 16;

/// See the file.
pub struct LocalWindowAggregateOperator {
    input: SliceInput,
    grouping: Grouping,
    assigner: Option<SliceAssigner>,
    attached: bool,
    output_keys: Vec<usize>,
    schema: SchemaRef,
    slices: BTreeMap<SliceKey, LocalSlice>,
}

struct LocalSlice {
    groups: GroupedAggregates,
    /// How many rows were folded into each group, however they count.
    row_counts: Vec<i64>,
}

/// Partials on their way out.
struct Partials {
    rows: RecordBatch,
    hashes: Vec<u64>,
}

impl LocalWindowAggregateOperator {
    /// The local phase of `spec` over rows of `input_schema`; its output is [`local_output_schema`]. Fails for SESSION and for
    /// processing time, which have no local phase.
    pub fn new(
        spec: WindowAggregateSpec,
        input_schema: &Schema,
        insert_only: bool,
        backend: Arc<dyn StateBackend>,
    ) -> Result<Self> {
        if !spec.window.time.is_event_time() {
            return Err(Error::internal(
                "windows in processing time have no local phase",
            ));
        }
        let aggregates = AggregateSetSpec::new(&spec.aggregates, insert_only)?;
        let attached = matches!(spec.input, WindowInput::Attached { .. });
        let assigner = (!attached)
            .then(|| SliceAssigner::new(&spec.window))
            .transpose()?;
        let keys = input_schema.project(&spec.keys).to_arrow();
        Ok(LocalWindowAggregateOperator {
            input: SliceInput {
                source: row_source(&spec, assigner)?,
                clock: WindowClock::new(&spec.window.time)?,
                keys: spec.keys.clone(),
                columns: aggregates.columns().to_vec(),
            },
            assigner,
            attached,
            output_keys: PartialLayout::of(&spec, &aggregates).keys(),
            schema: local_output_schema(&spec, input_schema, insert_only)?.to_arrow(),
            grouping: Grouping {
                key_types: keys
                    .fields()
                    .iter()
                    .map(|key| key.data_type().clone())
                    .collect(),
                aggregates,
                backend,
            },
            slices: BTreeMap::new(),
        })
    }

    /// When the first window of a slice fires.
    fn fire_time(&self, slice: SliceKey) -> EventTime {
        let end = self
            .assigner
            .map_or(slice.end, |assigner| assigner.first_window_end(slice.end));
        self.input.clock.fire_time(end)
    }

    fn fold(
        &mut self,
        rows: &SlicedRows,
        slice: SliceKey,
        offset: usize,
        length: usize,
    ) -> Result<()> {
        let slice = match self.slices.entry(slice) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(LocalSlice {
                groups: self.grouping.create(0)?,
                row_counts: Vec::new(),
            }),
        };
        let groups = &mut slice.groups;
        groups.fold(&self.grouping, &rows.columns, offset, length)?;
        slice.row_counts.resize(groups.len(), 0);
        for id in groups.ids() {
            slice.row_counts[*id as usize] += 1;
        }
        Ok(())
    }

    /// Emits the slices whose first window fires by `watermark`, the oldest first.
    fn flush_due(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        let mut due = Vec::new();
        while let Some((key, _)) = self.slices.first_key_value() {
            if self.fire_time(*key) > watermark {
                break;
            }
            due.extend(self.slices.pop_first());
        }
        self.emit_slices(due, out)
    }

    fn flush_all(&mut self, out: &mut Output) -> Result<()> {
        let all = std::mem::take(&mut self.slices);
        self.emit_slices(all.into_iter().collect(), out)
    }

    fn emit_slices(&self, slices: Vec<(SliceKey, LocalSlice)>, out: &mut Output) -> Result<()> {
        let mut waiting: Vec<Partials> = Vec::new();
        let mut rows = 0;
        for (key, slice) in slices {
            let partials = self.partials_of(key, slice)?;
            if rows + partials.hashes.len() > OUTPUT_ROWS {
                self.emit(std::mem::take(&mut waiting), out)?;
                rows = 0;
            }
            rows += partials.hashes.len();
            waiting.push(partials);
        }
        self.emit(waiting, out)
    }

    fn emit(&self, partials: Vec<Partials>, out: &mut Output) -> Result<()> {
        let rows = compute::concat_batches(&self.schema, partials.iter().map(|part| &part.rows))?;
        let hashes = partials.iter().flat_map(|part| &part.hashes).copied();
        let whole = ChangelogBatch {
            hashes: Some(KeyHashes::known(&self.output_keys, hashes.collect())),
            ..ChangelogBatch::insert_only(rows)
        };
        for offset in (0..whole.num_rows()).step_by(OUTPUT_ROWS) {
            let length = OUTPUT_ROWS.min(whole.num_rows() - offset);
            out.emit(whole.slice(offset, length));
        }
        Ok(())
    }

    fn partials_of(&self, key: SliceKey, slice: LocalSlice) -> Result<Partials> {
        let groups = slice.groups;
        let all = Groups::Range(0..groups.len());
        let mut columns = groups.keys(&all)?;
        columns.extend(groups.partials(&all)?);
        columns.push(Arc::new(Int64Array::from(slice.row_counts)));
        let slices = vec![key; groups.len()];
        columns.extend(self.slice_columns(&slices));
        Ok(Partials {
            rows: RecordBatch::try_new(self.schema.clone(), columns)?,
            hashes: groups.hashes().to_vec(),
        })
    }

    fn slice_columns(&self, slices: &[SliceKey]) -> Vec<ArrayRef> {
        let mut columns: Vec<ArrayRef> = Vec::new();
        if self.attached {
            let starts = slices.iter().map(|slice| slice.start);
            columns.push(Arc::new(Int64Array::from_iter_values(starts)));
        }
        let ends = slices.iter().map(|slice| slice.end);
        columns.push(Arc::new(Int64Array::from_iter_values(ends)));
        columns
    }

    /// Emits rows one by one as partials, with their watermark steps; `passing` are rows of `batch` with their slices, in order.
    fn pass(
        &self,
        batch: &ChangelogBatch,
        passing: &[(u32, SliceKey)],
        out: &mut Output,
    ) -> Result<()> {
        let indices = UInt32Array::from_iter_values(passing.iter().map(|(row, _)| *row));
        // Steps behind the last row need no place: the watermark follows the batch.
        let (rows, _) = batch.take(&indices)?;
        let ids: Vec<u32> = (0..passing.len() as u32).collect();
        let mut states = self.grouping.aggregates.create()?;
        states.grow(ids.len());
        states.accumulate(
            &self.grouping.aggregates,
            &ids,
            &pick(&rows.rows, &self.input.columns),
            weights(&rows).as_deref(),
        )?;
        let mut columns = pick(&rows.rows, &self.input.keys);
        let hashes = KeyHashes::of(&rows.rows, &self.input.keys)?;
        columns.extend(states.partials(&Groups::Range(0..ids.len()))?);
        columns.push(Arc::new(Int64Array::from(vec![1; ids.len()])));
        let slices: Vec<SliceKey> = passing.iter().map(|(_, slice)| *slice).collect();
        columns.extend(self.slice_columns(&slices));
        out.emit(ChangelogBatch {
            steps: rows.steps,
            hashes: Some(KeyHashes::known(
                &self.output_keys,
                hashes.values().to_vec().into(),
            )),
            ..ChangelogBatch::insert_only(RecordBatch::try_new(self.schema.clone(), columns)?)
        });
        Ok(())
    }

    fn waiting_groups(&self) -> usize {
        self.slices.values().map(|slice| slice.groups.len()).sum()
    }
}

impl Operator for LocalWindowAggregateOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        let batch = self.input.without_null_times(ctx, batch)?;
        if batch.num_rows() == 0 {
            return Ok(Flow::Done);
        }
        let rows = self.input.deal(ctx, batch.clone())?;
        let mut passing: Vec<(u32, SliceKey)> = Vec::new();
        for run in &rows.runs {
            if self
                .assigner
                .is_some_and(|assigner| !assigner.is_in_window(run.slice.end))
            {
                continue;
            }
            let kept = rows.rows_before(run, ctx.watermark(), self.fire_time(run.slice));
            if kept > 0 {
                self.fold(&rows, run.slice, run.offset, kept)?;
            }
            let behind = run.offset + kept..run.offset + run.length;
            passing.extend(behind.map(|position| (rows.row(position) as u32, run.slice)));
        }
        if let Some(last) = passing.iter().map(|(row, _)| *row).max() {
            passing.sort_unstable();
            let steps = rows.steps().iter();
            let watermark = steps
                .take_while(|step| step.row <= last as usize)
                .last()
                .map_or(ctx.watermark(), |step| step.watermark.max(ctx.watermark()));
            self.flush_due(watermark, out)?;
            self.pass(&batch, &passing, out)?;
        }
        if self.waiting_groups() > MAX_GROUPS {
            self.flush_all(out)?;
        }
        Ok(Flow::Done)
    }

    fn process_watermark(
        &mut self,
        _: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        self.flush_due(watermark, out)?;
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn flush_bundle(&mut self, _: &mut Context, out: &mut Output) -> Result<Flow> {
        self.flush_all(out)?;
        Ok(Flow::Done)
    }
}
