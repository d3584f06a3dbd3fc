//! Window aggregation: rows are folded once, into their slice; windows are made of slices when they fire, and emitted once.
//!
//! In one phase the operator folds rows; as the global phase behind an exchange it merges the partials of local phases
//! ([`super::LocalWindowAggregateOperator`]). A window `[start, end)` fires when event time reaches its last millisecond, in
//! order of ends over all keys, and is gone with its state. A row is late when the last window that holds its slice has
//! fired; until then it counts in those that are still open. TUMBLE never cuts a batch: within a slice the late rows are the
//! last ones. HOP and CUMULATE cut it at watermark steps only where a row still belongs to an open window while an earlier
//! one of its windows must fire without it.

mod grouped;
mod merge_tree;
mod rows;
mod slices;
#[cfg(test)]
pub(crate) mod test_stream;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::SchemaRef;

use self::slices::{Owner, SliceStore};
use crate::error::{Error, Result};
use crate::functions::aggregate::AggregateSetSpec;
use crate::operators::{
    Context, DueTime, Flow, InputIndex, KeySet, KeyedState, Operator, Output, RESTORE_PIECES,
};
use crate::planted::{Bug, is_planted};
use crate::state::{Groups, StateBackend, StateSnapshot};
use crate::stream::{ChangelogBatch, CheckpointId, KeyHashes};
use crate::types::{
    EventTime, Field, LogicalType, ProcessingTime, Schema, TimeAttribute, TypeRoot,
};
use crate::window::{
    SliceAssigner, WindowAggregateSpec, WindowClock, WindowColumn, WindowInput, WindowSpec,
};

pub(crate) use self::grouped::{GroupedAggregates, Grouping};
pub(crate) use self::rows::{
    SliceInput, SliceKey, SliceSource, SlicedRows, millis, only_counted, pick, weights,
};
pub(crate) use self::slices::Window;

/// The most rows of an output batch.
pub(crate) const OUTPUT_ROWS: usize = 8192;
/// The name of the keyed table in snapshots.
const TABLE: &str = "slices";

/// What a window aggregation is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregatePhase {
    /// Rows.
    Single,
    /// Partials of [`super::LocalWindowAggregateOperator`]: keys first.
    Global,
}

/// See the file.
pub struct WindowAggregateOperator {
    input: SliceInput,
    store: SliceStore,
    event_time: bool,
    output: WindowOutput,
    /// The key columns of the rows that the aggregates speak of.
    grouping: Vec<usize>,
    key_names: Vec<String>,
    work: VecDeque<Work>,
    emission: Option<Emission>,
}

/// What is to be done, in order.
enum Work {
    /// Fold these rows; no window they belong to fires between them.
    Fold(ChangelogBatch),
    /// Fire what is due at this time.
    Fire(EventTime),
    /// Pass the watermark on.
    Watermark(EventTime),
}

/// A fired window on its way out.
struct Emission {
    owner: Owner,
    window: Window,
    groups: GroupedAggregates,
    next: usize,
}

impl WindowAggregateOperator {
    /// `spec` speaks about the rows of a single phase; for the global phase about those that the local one was given, while
    /// `input_schema` is what [`local_output_schema`] says. `insert_only`: no row is ever taken back.
    /// Fails for SESSION (see [`super::SessionWindowAggregateOperator`]) unless windows come attached.
    pub fn new(
        spec: WindowAggregateSpec,
        input_schema: &Schema,
        phase: AggregatePhase,
        insert_only: bool,
        backend: Arc<dyn StateBackend>,
    ) -> Result<Self> {
        let aggregates = AggregateSetSpec::new(&spec.aggregates, insert_only)?;
        let clock = WindowClock::new(&spec.window.time)?;
        let attached = matches!(spec.input, WindowInput::Attached { .. });
        let assigner = (!attached)
            .then(|| SliceAssigner::new(&spec.window))
            .transpose()?;
        let (source, keys, columns) = match phase {
            AggregatePhase::Single => (
                row_source(&spec, assigner)?,
                spec.keys.clone(),
                aggregates.columns().to_vec(),
            ),
            AggregatePhase::Global => {
                let layout = PartialLayout::of(&spec, &aggregates);
                (layout.source(), layout.keys(), layout.partials())
            }
        };
        let key_fields = input_schema.project(&keys).fields;
        let grouping = Grouping {
            key_types: key_fields
                .iter()
                .map(|field| field.logical_type.to_arrow())
                .collect(),
            aggregates,
            backend,
        };
        let output = output_schema(&spec, &key_fields);
        Ok(WindowAggregateOperator {
            input: SliceInput {
                source,
                clock,
                keys,
                columns,
            },
            store: SliceStore::new(grouping, assigner, clock),
            event_time: spec.window.time.is_event_time(),
            output: WindowOutput::new(&output, spec.window_columns, clock),
            grouping: spec.keys,
            key_names: key_fields.into_iter().map(|field| field.name).collect(),
            work: VecDeque::new(),
            emission: None,
        })
    }

    /// Names the columns of snapshots by what the columns of the rows hold, so that another query finds them again.
    pub fn with_column_texts(mut self, texts: &[String]) -> Self {
        self.key_names = self
            .grouping
            .iter()
            .map(|key| texts[*key].clone())
            .collect();
        self.store.name_states(texts);
        self
    }

    /// Bytes of state.
    pub fn state_bytes(&self) -> usize {
        self.store.size_bytes()
    }

    /// Does what is to be done until the output is full.
    fn drive(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        loop {
            if let Some(emission) = self.emission.take()
                && let Flow::Blocked = self.emit(emission, out)?
            {
                return Ok(Flow::Blocked);
            }
            match self.work.pop_front() {
                None => return Ok(Flow::Done),
                Some(Work::Fold(batch)) => self.fold(ctx, batch, out)?,
                Some(Work::Fire(time)) => self.fire(ctx, time)?,
                Some(Work::Watermark(watermark)) => {
                    if watermark > ctx.watermark() {
                        ctx.advance_watermark(watermark);
                    }
                    out.watermark(watermark);
                }
            }
        }
    }

    /// Takes the next window that is due, if there is one, and comes back for the others.
    fn fire(&mut self, ctx: &mut Context, time: EventTime) -> Result<()> {
        match self.store.next_window()? {
            Some((owner, window)) if self.input.clock.fire_time(window.end) <= time => {
                let groups = self.store.take(owner, window)?;
                ctx.keys_changed(groups.hashes());
                self.emission = Some(Emission {
                    owner,
                    window,
                    groups,
                    next: 0,
                });
                self.work.push_front(Work::Fire(time));
            }
            _ => self.store.set_fired(time),
        }
        Ok(())
    }

    fn emit(&mut self, mut emission: Emission, out: &mut Output) -> Result<Flow> {
        while emission.next < emission.groups.len() {
            if out.is_full() {
                self.emission = Some(emission);
                return Ok(Flow::Blocked);
            }
            let last = (emission.next + OUTPUT_ROWS).min(emission.groups.len());
            let groups = Groups::Range(emission.next..last);
            let grouping = self.store.grouping();
            let batch = self
                .output
                .batch(grouping, &emission.groups, &groups, emission.window)?;
            out.emit(batch);
            emission.next = last;
        }
        self.store
            .done(emission.owner, emission.window, emission.groups);
        Ok(Flow::Done)
    }

    /// Folds rows; those behind the watermark step that fires the last window of their slice are late.
    fn fold(&mut self, ctx: &Context, batch: ChangelogBatch, out: &mut Output) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let rows = self.input.deal(ctx, batch)?;
        for run in &rows.runs {
            if !self.store.is_in_window(run.slice) {
                continue;
            }
            let window_end = self.store.last_window_end(run.slice);
            let kept = if self.event_time {
                let fires = self.input.clock.fire_time(window_end);
                rows.rows_before(run, ctx.watermark(), fires)
            } else {
                run.length
            };
            if kept < run.length {
                rows.report_late(ctx, &self.input.source, run, kept, window_end, out)?;
            }
            if kept > 0 {
                let partial = matches!(self.input.source, SliceSource::Partial { .. });
                let (grouping, slice) = self.store.slice(run.slice, kept)?;
                if partial {
                    slice.merge(grouping, &rows.columns, run.offset, kept)?;
                } else {
                    slice.fold(grouping, &rows.columns, run.offset, kept)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a row of the batch belongs to an open window while an earlier one of its windows fires before it, at a step.
    fn must_cut(&self, ctx: &Context, batch: &ChangelogBatch) -> Result<bool> {
        if batch.steps.is_empty() {
            return Ok(false);
        }
        // Slices alone are wanted, so the other columns are not touched.
        let bare = SliceInput {
            keys: Vec::new(),
            columns: Vec::new(),
            ..self.input.clone()
        };
        let rows = bare.deal(ctx, batch.clone())?;
        let clock = &self.input.clock;
        Ok(rows.runs.iter().any(|run| {
            let first = clock.fire_time(self.store.first_window_end(run.slice));
            let last = clock.fire_time(self.store.last_window_end(run.slice));
            // Windows that fired before this batch are gone already.
            let first = first.max(EventTime(ctx.watermark().millis().saturating_add(1)));
            first < last
                && rows.rows_before(run, ctx.watermark(), first)
                    < rows.rows_before(run, ctx.watermark(), last)
        }))
    }

    fn has_one_window_a_slice(&self) -> bool {
        match &self.input.source {
            SliceSource::Time(_, assigner) => assigner.is_tumbling(),
            SliceSource::Attached(..) | SliceSource::Processing(_) => true,
            SliceSource::Partial { .. } => self.store.is_tumbling(),
        }
    }
}

/// How rows of a single phase (or the input of a local one) come to slices.
pub(crate) fn row_source(
    spec: &WindowAggregateSpec,
    assigner: Option<SliceAssigner>,
) -> Result<SliceSource> {
    Ok(match (spec.input, assigner) {
        (
            WindowInput::Attached {
                window_start,
                window_end,
            },
            _,
        ) => SliceSource::Attached(window_start, window_end),
        (WindowInput::TimeColumn(_), Some(assigner)) if !spec.window.time.is_event_time() => {
            SliceSource::Processing(assigner)
        }
        (WindowInput::TimeColumn(column), Some(assigner)) => SliceSource::Time(column, assigner),
        (WindowInput::TimeColumn(_), None) => {
            return Err(Error::internal("a time column needs an assigner"));
        }
    })
}

impl Operator for WindowAggregateOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        let batch = self.input.without_null_times(ctx, batch)?;
        if self.has_one_window_a_slice() || !self.must_cut(ctx, &batch)? {
            self.work.push_back(Work::Fold(batch));
            return self.drive(ctx, out);
        }
        for slice in batch.by_steps(ctx.watermark()) {
            if slice.watermark > ctx.watermark() {
                self.work.push_back(Work::Fire(slice.watermark));
                self.work.push_back(Work::Watermark(slice.watermark));
            }
            let mut rows = batch.slice(slice.offset, slice.length);
            rows.steps = crate::stream::WatermarkSteps::NONE;
            self.work.push_back(Work::Fold(rows));
        }
        self.drive(ctx, out)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        if self.event_time {
            self.work.push_back(Work::Fire(watermark));
        }
        self.work.push_back(Work::Watermark(watermark));
        self.drive(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.drive(ctx, out)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        if self.event_time {
            return None;
        }
        self.store
            .peek_fire_time()
            .map(|time| ProcessingTime(time.millis()))
    }

    fn on_processing_time(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        if !self.event_time {
            let now = EventTime(ctx.processing_time().millis());
            self.work.push_back(Work::Fire(now));
        }
        self.drive(ctx, out)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        let mut snapshot = self.snapshot_keyed(ctx)?;
        if !self.event_time {
            snapshot.insert_json("fired", &self.store.fired())?;
        }
        Ok(snapshot)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        let schema = self.store.snapshot_schema(&self.key_names);
        vec![(TABLE.to_string(), Arc::new(schema))]
    }

    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        // Time is state: the watermark is back before the slices. The clock of processing time is that of the writers; of
        // several the latest: keys of the others are behind, and their states say how far.
        let fired = if self.event_time {
            ctx.watermark()
        } else {
            let fired: Vec<EventTime> = snapshot.json("fired")?;
            fired.into_iter().max().unwrap_or(EventTime::MIN)
        };
        self.store.set_fired(fired);
        if is_planted(Bug::TimersForgotten) {
            return Ok(());
        }
        self.load_keyed(ctx, &snapshot)
    }

    fn restore_pieces(&self) -> usize {
        RESTORE_PIECES
    }

    fn keyed_state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }
}

impl KeyedState for WindowAggregateOperator {
    fn key_columns(&self, _: InputIndex) -> &[usize] {
        &self.input.keys
    }

    fn snapshot_keyed(&mut self, _: &Context) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(TABLE, self.store.snapshot(&self.key_names)?);
        Ok(snapshot)
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
        self.store.load(snapshot.batches(TABLE))
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.store.clear();
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.store.size_bytes()
    }

    fn export_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(TABLE, self.store.export(&self.key_names, keys)?);
        Ok(snapshot)
    }

    fn evict_keyed(&mut self, ctx: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let gone = self.export_keyed(ctx, keys)?;
        self.store.remove(keys)?;
        Ok(gone)
    }

    fn due_time(&self) -> DueTime {
        if self.event_time {
            DueTime::Event
        } else {
            DueTime::Processing
        }
    }

    fn due(&self, _: &str, rows: &RecordBatch) -> Vec<i64> {
        self.store.due(rows)
    }
}

/// Makes output batches of fired windows: keys, aggregates, window columns.
pub(crate) struct WindowOutput {
    schema: SchemaRef,
    columns: Vec<WindowColumn>,
    clock: WindowClock,
}

impl WindowOutput {
    pub(crate) fn new(schema: &Schema, columns: Vec<WindowColumn>, clock: WindowClock) -> Self {
        WindowOutput {
            schema: schema.to_arrow(),
            columns,
            clock,
        }
    }

    fn batch(
        &self,
        grouping: &Grouping,
        states: &GroupedAggregates,
        groups: &Groups,
        window: Window,
    ) -> Result<ChangelogBatch> {
        let mut columns = states.keys(groups)?;
        let keys: Vec<usize> = (0..columns.len()).collect();
        columns.extend(states.evaluate(grouping, groups)?);
        let length = groups.len();
        columns.extend(self.window_columns(|_| window, length));
        let rows = RecordBatch::try_new(self.schema.clone(), columns)?;
        let hashes = groups.gather(states.hashes());
        let batch = ChangelogBatch {
            hashes: Some(KeyHashes::known(&keys, hashes.into())),
            ..ChangelogBatch::insert_only(rows)
        };
        match states.present(grouping, groups) {
            None => Ok(batch),
            Some(present) => Ok(batch.filter(&present)?.0),
        }
    }

    /// The window columns of rows whose windows are known.
    pub(crate) fn window_columns(
        &self,
        window: impl Fn(usize) -> Window,
        length: usize,
    ) -> Vec<ArrayRef> {
        let times = |time: &dyn Fn(Window) -> i64, zoned: bool| -> ArrayRef {
            let values = (0..length).map(|row| time(window(row)));
            let array = TimestampMillisecondArray::from_iter_values(values);
            if zoned {
                Arc::new(array.with_timezone("UTC"))
            } else {
                Arc::new(array)
            }
        };
        let first = self.schema.fields().len() - self.columns.len();
        self.columns
            .iter()
            .enumerate()
            .map(|(index, column)| match column {
                WindowColumn::Start => times(&|window| window.start, false),
                WindowColumn::End => times(&|window| window.end, false),
                WindowColumn::Time => {
                    let data_type = self.schema.field(first + index).data_type();
                    let zoned =
                        matches!(data_type, arrow::datatypes::DataType::Timestamp(_, Some(_)));
                    times(&|window| self.clock.window_time(window.end), zoned)
                }
            })
            .collect()
    }
}

/// The columns of a complete aggregation: keys, aggregates, window columns.
pub(crate) fn output_schema(spec: &WindowAggregateSpec, keys: &[Field]) -> Schema {
    let mut fields = keys.to_vec();
    fields.extend(
        spec.aggregates
            .iter()
            .map(|call| Field::new(&call.name, call.logical_type.clone())),
    );
    let columns = spec.window_columns.iter();
    fields.extend(columns.map(|column| window_field(&spec.window, *column)));
    Schema::new(fields)
}

/// A window column as a field of a schema.
pub(crate) fn window_field(window: &WindowSpec, column: WindowColumn) -> Field {
    let timestamp = LogicalType::not_null(TypeRoot::Timestamp(3));
    match column {
        WindowColumn::Start => Field::new("window_start", timestamp),
        WindowColumn::End => Field::new("window_end", timestamp),
        WindowColumn::Time => {
            let (root, attribute) = match window.time.time_zone() {
                None => (TypeRoot::Timestamp(3), TimeAttribute::Rowtime),
                Some(_) if window.time.is_event_time() => {
                    (TypeRoot::TimestampLtz(3), TimeAttribute::Rowtime)
                }
                Some(_) => (TypeRoot::TimestampLtz(3), TimeAttribute::Proctime),
            };
            Field::new("window_time", LogicalType::not_null(root))
                .with_time_attribute(Some(attribute))
        }
    }
}

/// The columns between the local and the global phase: keys, partials, the number of rows folded, the slice.
pub fn local_output_schema(
    spec: &WindowAggregateSpec,
    input_schema: &Schema,
    insert_only: bool,
) -> Result<Schema> {
    let aggregates = AggregateSetSpec::new(&spec.aggregates, insert_only)?;
    let bigint = || LogicalType::not_null(TypeRoot::BigInt);
    let mut fields = input_schema.project(&spec.keys).fields;
    fields.extend(aggregates.partial_fields());
    fields.push(Field::new("$row_count", bigint()));
    if matches!(spec.input, WindowInput::Attached { .. }) {
        fields.push(Field::new("$slice_start", bigint()));
    }
    fields.push(Field::new("$slice_end", bigint()));
    Ok(Schema::new(fields))
}

/// Where things stand in a batch of partials.
pub(crate) struct PartialLayout {
    keys: usize,
    partials: usize,
    attached: bool,
}

impl PartialLayout {
    pub(crate) fn of(spec: &WindowAggregateSpec, aggregates: &AggregateSetSpec) -> Self {
        PartialLayout {
            keys: spec.keys.len(),
            partials: aggregates.partial_fields().len(),
            attached: matches!(spec.input, WindowInput::Attached { .. }),
        }
    }

    pub(crate) fn keys(&self) -> Vec<usize> {
        (0..self.keys).collect()
    }

    fn partials(&self) -> Vec<usize> {
        (self.keys..self.keys + self.partials).collect()
    }

    fn source(&self) -> SliceSource {
        let row_count = self.keys + self.partials;
        SliceSource::Partial {
            row_count,
            start: self.attached.then_some(row_count + 1),
            end: row_count + 1 + self.attached as usize,
        }
    }
}
