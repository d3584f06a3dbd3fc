//! Aggregates by session: the states lie in columns by session slot, and merging sessions merges their states.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute;
use arrow::datatypes::{DataType, Field as ArrowField, Schema as ArrowSchema, SchemaRef};

use super::sessions::{LATE, Sessions};
use super::{SessionInput, Work};
use crate::error::{Error, Result};
use crate::functions::aggregate::{AggregateSet, AggregateSetSpec};
use crate::operators::window_aggregate::{
    OUTPUT_ROWS, Window, WindowOutput, output_schema, pick, weights,
};
use crate::operators::{
    Context, DueTime, Flow, InputIndex, KeySet, KeyedState, Operator, Output, RESTORE_PIECES,
};
use crate::state::{Groups, KEY_HASH_COLUMN, StateSnapshot};
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{EventTime, ProcessingTime, Schema};
use crate::window::{WindowAggregateSpec, WindowClock, WindowInput, WindowKind};

/// The name of the keyed table in snapshots.
const TABLE: &str = "sessions";

/// Aggregates rows by key and session and emits a session when it is over. One phase only.
pub struct SessionWindowAggregateOperator {
    input: SessionInput,
    spec: AggregateSetSpec,
    sessions: Sessions,
    states: AggregateSet,
    output: WindowOutput,
    schema: SchemaRef,
    key_fields: Vec<ArrowField>,
    work: VecDeque<Work>,
    closed: VecDeque<u32>,
}

impl SessionWindowAggregateOperator {
    /// Sessions of `spec` over rows of `input_schema`; the keys are those of the sessions. `insert_only`: no row is ever taken back.
    /// Fails where the window is no session or windows come attached.
    pub fn new(
        spec: WindowAggregateSpec,
        input_schema: &Schema,
        insert_only: bool,
    ) -> Result<Self> {
        let (WindowKind::Session { gap_ms }, WindowInput::TimeColumn(column)) =
            (spec.window.kind, spec.input)
        else {
            return Err(Error::internal("a session is made from a time column"));
        };
        let clock = WindowClock::new(&spec.window.time)?;
        let aggregates = AggregateSetSpec::new(&spec.aggregates, insert_only)?;
        let keys = input_schema.project(&spec.keys);
        let arrow_keys = keys.to_arrow();
        let key_fields: Vec<ArrowField> = arrow_keys
            .fields()
            .iter()
            .map(|field| field.as_ref().clone())
            .collect();
        let key_types = key_fields.iter().map(|key| key.data_type().clone());
        let schema = output_schema(&spec, &keys.fields);
        Ok(SessionWindowAggregateOperator {
            sessions: Sessions::new(gap_ms, clock, key_types.collect())?,
            states: aggregates.create()?,
            key_fields,
            output: WindowOutput::new(&schema, spec.window_columns.clone(), clock),
            schema: schema.to_arrow(),
            input: SessionInput {
                time_column: spec.window.time.is_event_time().then_some(column),
                clock,
                keys: spec.keys,
                gap_ms,
            },
            spec: aggregates,
            work: VecDeque::new(),
            closed: VecDeque::new(),
        })
    }

    /// Names the columns of snapshots by what the columns of the rows hold, so that another query finds them again.
    pub fn with_column_texts(mut self, texts: &[String]) -> Self {
        for (field, key) in self.key_fields.iter_mut().zip(&self.input.keys) {
            *field = field.clone().with_name(&texts[*key]);
        }
        self.spec = self.spec.with_column_texts(texts);
        self
    }

    fn is_event_time(&self) -> bool {
        self.input.time_column.is_some()
    }

    fn drive(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        loop {
            while !self.closed.is_empty() {
                if out.is_full() {
                    return Ok(Flow::Blocked);
                }
                self.emit(out)?;
            }
            self.compact()?;
            match self.work.pop_front() {
                None => return Ok(Flow::Done),
                Some(Work::Fold(batch)) => self.fold(ctx, batch, out)?,
                Some(Work::Fire(time)) => {
                    let closed = self.sessions.close(time);
                    ctx.keys_changed(&self.sessions.hashes_of(&closed));
                    self.closed = closed.into();
                }
                Some(Work::Watermark(watermark)) => {
                    if watermark > ctx.watermark() {
                        ctx.advance_watermark(watermark);
                    }
                    out.watermark(watermark);
                }
            }
        }
    }

    fn fold(&mut self, ctx: &Context, batch: ChangelogBatch, out: &mut Output) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let times = self.input.times(ctx, &batch)?.into_owned();
        let hashes = self.input.hashes(&batch)?;
        let keys = pick(&batch.rows, &self.input.keys);
        let watermark = self.is_event_time().then_some(ctx.watermark());
        let assigned = self.sessions.assign(&keys, &hashes, &times, watermark)?;
        self.states.grow(self.sessions.slots());
        if !assigned.merged.is_empty() {
            let (sources, targets): (Vec<u32>, Vec<u32>) = assigned.merged.into_iter().unzip();
            let partials = self.states.partials(&Groups::Ids(&sources))?;
            self.states.merge(&self.spec, &targets, &partials)?;
        }
        let columns = pick(&batch.rows, self.spec.columns());
        let weights = weights(&batch);
        if !assigned.slots.contains(&LATE) {
            return self.states.accumulate(
                &self.spec,
                &assigned.slots,
                &columns,
                weights.as_deref(),
            );
        }
        self.input
            .report_late(ctx, &batch.rows, &times, &assigned.slots, out)?;
        let kept: Vec<u32> = (0..assigned.slots.len() as u32)
            .filter(|row| assigned.slots[*row as usize] != LATE)
            .collect();
        let slots = Groups::Ids(&kept).gather(&assigned.slots);
        let weights = weights.map(|weights| Groups::Ids(&kept).gather(&weights));
        let kept = UInt32Array::from(kept);
        let columns = columns
            .iter()
            .map(|column| Ok(compute::take(column, &kept, None)?))
            .collect::<Result<Vec<ArrayRef>>>()?;
        self.states
            .accumulate(&self.spec, &slots, &columns, weights.as_deref())
    }

    /// Emits the next closed sessions, up to a batch of them.
    fn emit(&mut self, out: &mut Output) -> Result<()> {
        let count = self.closed.len().min(OUTPUT_ROWS);
        let slots: Vec<u32> = self.closed.drain(..count).collect();
        let groups = Groups::Ids(&slots);
        let mut columns = self.sessions.keys_of(&slots)?;
        columns.extend(self.states.evaluate(&self.spec, &groups)?);
        let window = |row: usize| {
            let session = self.sessions.session(slots[row]);
            Window {
                start: session.start,
                end: session.end,
            }
        };
        columns.extend(self.output.window_columns(window, slots.len()));
        let rows = RecordBatch::try_new(self.schema.clone(), columns)?;
        let batch = ChangelogBatch::insert_only(rows);
        out.emit(match self.states.present(&self.spec, &groups) {
            None => batch,
            Some(present) => batch.filter(&present)?.0,
        });
        Ok(())
    }

    /// Forgets closed sessions once they are most of what is held.
    fn compact(&mut self) -> Result<()> {
        if let Some(old) = self.sessions.compact()? {
            self.states.keep(&old)?;
        }
        Ok(())
    }

    fn snapshot_slots(&self, slots: &[u32]) -> Result<StateSnapshot> {
        let mut columns = self.sessions.columns_of(slots);
        columns.extend(self.sessions.keys_of(slots)?);
        let partials = self.states.partials(&Groups::Ids(slots))?;
        columns.extend(self.spec.state_columns(partials)?);
        let mut snapshot = StateSnapshot::default();
        let batch = RecordBatch::try_new(Arc::new(self.snapshot_schema()), columns)?;
        snapshot.insert_keyed(TABLE, vec![batch]);
        Ok(snapshot)
    }

    fn snapshot_schema(&self) -> ArrowSchema {
        let mut fields = vec![
            ArrowField::new(KEY_HASH_COLUMN, DataType::UInt64, false),
            ArrowField::new("session_start", DataType::Int64, false),
            ArrowField::new("session_end", DataType::Int64, false),
        ];
        fields.extend(self.key_fields.iter().cloned());
        fields.extend(self.spec.state_fields());
        ArrowSchema::new(fields)
    }
}

impl Operator for SessionWindowAggregateOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        let batch = self.input.without_null_times(ctx, batch)?;
        self.input
            .queue(ctx, &self.sessions, batch, &mut self.work)?;
        self.drive(ctx, out)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        if self.is_event_time() {
            self.work.push_back(Work::Fire(watermark));
        }
        self.work.push_back(Work::Watermark(watermark));
        self.drive(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.drive(ctx, out)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        let time = self.sessions.next_fire_time()?;
        (!self.is_event_time()).then_some(ProcessingTime(time.millis()))
    }

    fn on_processing_time(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        if !self.is_event_time() {
            let now = EventTime(ctx.processing_time().millis());
            self.work.push_back(Work::Fire(now));
        }
        self.drive(ctx, out)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        self.snapshot_keyed(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        vec![(TABLE.to_string(), Arc::new(self.snapshot_schema()))]
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

impl KeyedState for SessionWindowAggregateOperator {
    fn key_columns(&self, _: InputIndex) -> &[usize] {
        &self.input.keys
    }

    fn snapshot_keyed(&mut self, _: &Context) -> Result<StateSnapshot> {
        self.snapshot_slots(&self.sessions.open_slots())
    }

    fn export_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        self.snapshot_slots(&self.sessions.slots_of(keys))
    }

    fn evict_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let slots = self.sessions.slots_of(keys);
        let gone = self.snapshot_slots(&slots)?;
        if !slots.is_empty() {
            let kept = self.sessions.remove(&slots)?;
            self.states.keep(&kept)?;
        }
        Ok(gone)
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
        for batch in snapshot.batches(TABLE) {
            let keys = 3 + self.key_fields.len();
            let slots = self.sessions.load(&batch.columns()[3..keys], batch)?;
            self.states.grow(self.sessions.slots());
            self.states
                .merge(&self.spec, &slots, &batch.columns()[keys..])?;
        }
        Ok(())
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.states = self.spec.create()?;
        self.sessions.clear()
    }

    fn size_bytes(&self) -> usize {
        self.sessions.size_bytes() + self.states.size_bytes()
    }

    fn due_time(&self) -> DueTime {
        self.input.due_time()
    }

    fn due(&self, _: &str, rows: &RecordBatch) -> Vec<i64> {
        self.sessions.due(rows)
    }
}
