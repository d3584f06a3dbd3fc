//! Joins each left row with the version of the right row that was valid at the left row's event time.
//!
//! Both sides wait until the watermark of both has passed a left row's time: then no version can come any more that
//! begins before it. Watermarks inside a batch fire nothing by themselves: a row that is not late cannot tell them apart,
//! so they are gathered, and one walk finds for each due row which of them it was due at. Only before a late row are
//! they worked off, because versions are forgotten at every watermark and a late row finds what is left.

mod keyed;
mod probes;
mod versions;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute;
use arrow::datatypes::SchemaRef;

use super::calc::batch_of;
use super::timed_side::{KEYS_KEPT, TimedSide, key_numbers, row_times};
use super::watermark_queue::{TimedWork, WatermarkQueue};
use super::window_buffer::OUTPUT_ROWS;
use super::{Context, Flow, InputIndex, KeyedState, Operator, Output, key_hashes};
use crate::error::Result;
use crate::expr::{CompiledExpression, RowContext};
use crate::state::{GroupTable, StateBackend, StateSnapshot};
use crate::stream::{ChangelogBatch, CheckpointId, WatermarkStep, WatermarkSteps};
use crate::types::{EventTime, JoinKind, RowKind, RowKinds, Schema};

use probes::{DueProbe, Probes};
use versions::Versions;

const LEFT: &str = "left";
const RIGHT: &str = "right";

/// What a temporal join does.
pub struct TemporalJoinSpec {
    /// INNER or LEFT.
    pub kind: JoinKind,
    /// The rows.
    pub left: TimedSide,
    /// The versions; its keys name one row at a time.
    pub right: TimedSide,
    /// For each key whether NULL equals NULL.
    pub null_safe: Vec<bool>,
    /// What else a row and its version must satisfy, over the left columns, then the right ones.
    pub condition: Option<CompiledExpression>,
    /// Left columns, then right ones.
    pub output: Schema,
    /// The tables behind the inputs, for warnings.
    pub input_names: [String; 2],
}

/// Takes changes on both sides, gives the left side's kinds. A left row that comes behind the watermark waits for the next one
/// and meets the versions that are left then. State: the left rows that wait; of each key the versions that begin behind
/// the watermark, and the last one before it.
pub struct TemporalJoinOperator {
    spec: TemporalJoinSpec,
    schema: SchemaRef,
    backend: Arc<dyn StateBackend>,
    keys: GroupTable,
    probes: Probes,
    versions: Versions,
    watermarks: WatermarkQueue,
    work: VecDeque<TimedWork>,
    firing: Option<Firing>,
    /// How many waiting rows the metrics know of.
    told_waiting: usize,
}

/// Watermarks whose rows are on their way out.
struct Firing {
    watermarks: Vec<EventTime>,
    due: Vec<DueProbe>,
    next: usize,
}

impl TemporalJoinOperator {
    /// An operator as `spec` says.
    pub fn new(spec: TemporalJoinSpec, backend: Arc<dyn StateBackend>) -> Result<Self> {
        let left = &spec.left;
        Ok(TemporalJoinOperator {
            schema: spec.output.to_arrow(),
            keys: backend.group_table(&left.key_types(), 0)?,
            backend,
            probes: Probes::new(left.schema.to_arrow(), left.time),
            versions: Versions::new(spec.right.schema.to_arrow(), spec.right.time),
            watermarks: WatermarkQueue::new(),
            work: VecDeque::new(),
            firing: None,
            told_waiting: 0,
            spec,
        })
    }

    fn side(&self, input: InputIndex) -> &TimedSide {
        match input {
            InputIndex::FIRST => &self.spec.left,
            _ => &self.spec.right,
        }
    }

    fn work_off(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        loop {
            if self.fire(ctx, out)? == Flow::Blocked {
                return Ok(Flow::Blocked);
            }
            match self.work.pop_front() {
                None => {
                    self.tell_waiting(ctx);
                    return Ok(Flow::Done);
                }
                Some(TimedWork::Rows(input, batch)) => self.add(input, &batch)?,
                Some(TimedWork::Fire(watermarks)) => {
                    if let Some(last) = watermarks.last()
                        && *last > ctx.watermark()
                    {
                        ctx.advance_watermark(*last);
                    }
                    self.firing = Some(Firing {
                        due: self.probes.take_due(&watermarks),
                        watermarks,
                        next: 0,
                    });
                }
            }
        }
    }

    fn tell_waiting(&mut self, ctx: &Context) {
        let waiting = &ctx.metrics().waiting;
        waiting.name_inputs(&self.spec.input_names);
        let rows = self.probes.rows().len();
        waiting.add(rows as i64 - self.told_waiting as i64);
        self.told_waiting = rows;
    }

    fn add(&mut self, input: InputIndex, batch: &ChangelogBatch) -> Result<()> {
        let hashes = key_hashes(batch, &self.side(input).keys)?;
        self.add_rows(input, &batch.rows, &batch.kinds, hashes.values())
    }

    fn add_rows(
        &mut self,
        input: InputIndex,
        rows: &RecordBatch,
        kinds: &RowKinds,
        hashes: &[u64],
    ) -> Result<()> {
        let side = match input {
            InputIndex::FIRST => &self.spec.left,
            _ => &self.spec.right,
        };
        let null_safe = &self.spec.null_safe;
        let keys = key_numbers(&mut self.keys, rows, &side.keys, null_safe, hashes)?;
        match input {
            InputIndex::FIRST => self.probes.add(rows, kinds, &keys),
            _ => self.versions.add(rows, kinds, &keys),
        }
    }

    /// Emits the rows that are due, as the output takes them; then their watermark goes out and old versions go.
    fn fire(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        let Some(mut firing) = self.firing.take() else {
            return Ok(Flow::Done);
        };
        while firing.next < firing.due.len() {
            if out.is_full() {
                self.firing = Some(firing);
                return Ok(Flow::Blocked);
            }
            let end = firing.due.len().min(firing.next + OUTPUT_ROWS);
            let due = &firing.due[firing.next..end];
            out.emit(self.joined(ctx, due, &firing.watermarks)?);
            let done: Vec<u32> = due.iter().map(|probe| probe.row).collect();
            self.tell_changed(ctx, done.iter().map(|row| self.probes.key(*row)));
            self.probes.remove(&done)?;
            firing.next = end;
        }
        if let Some(last) = firing.watermarks.last() {
            let pruned = self.versions.prune(*last)?;
            self.tell_changed(ctx, pruned.into_iter());
            out.watermark(*last);
        }
        self.forget_keys();
        Ok(Flow::Done)
    }

    fn tell_changed(&self, ctx: &mut Context, keys: impl Iterator<Item = u32>) {
        if ctx.tracks_changed_keys() {
            let hashes: Vec<u64> = keys.map(|key| self.keys.hashes()[key as usize]).collect();
            ctx.keys_changed(&hashes);
        }
    }

    /// Forgets the keys without rows and versions once they are most of all keys.
    fn forget_keys(&mut self) {
        let rows = self.probes.rows().len() + self.versions.rows().len();
        if self.keys.len() < KEYS_KEPT.max(4 * rows) {
            return;
        }
        let live = self.live_keys();
        self.keys.keep(&live);
        self.versions.keep_keys(&live);
        self.probes
            .renumber(|key| live.partition_point(|live| *live < key) as u32);
    }

    /// The keys with rows or versions.
    fn live_keys(&self) -> Vec<u32> {
        let mut lives = vec![false; self.keys.len()];
        for row in self.probes.rows().ids() {
            lives[self.probes.key(row) as usize] = true;
        }
        let known = (0..self.keys.len() as u32).zip(lives);
        known
            .filter(|(key, has_rows)| *has_rows || self.versions.has_versions(*key))
            .map(|(key, _)| key)
            .collect()
    }

    /// Left rows beside their versions.
    fn joined(
        &self,
        ctx: &Context,
        due: &[DueProbe],
        watermarks: &[EventTime],
    ) -> Result<ChangelogBatch> {
        let version = |probe: &DueProbe| {
            let key = self.probes.joining(probe.row)?;
            self.versions.valid_at(key, probe.time)
        };
        let mut versions: Vec<Option<u32>> = due.iter().map(version).collect();
        self.check_condition(ctx, due, &mut versions)?;
        let kept: Vec<usize> = match self.spec.kind {
            JoinKind::Inner => (0..due.len())
                .filter(|row| versions[*row].is_some())
                .collect(),
            _ => (0..due.len()).collect(),
        };
        let probes: Vec<DueProbe> = kept.iter().map(|row| due[*row]).collect();
        let versions: Vec<Option<u32>> = kept.iter().map(|row| versions[*row]).collect();
        let rows: Vec<u32> = probes.iter().map(|probe| probe.row).collect();
        let kinds: Vec<RowKind> = rows.iter().map(|row| self.probes.kind(*row)).collect();
        let mut columns = self.probes.rows().gather(&rows)?.columns().to_vec();
        columns.extend(self.version_columns(&versions)?);
        Ok(ChangelogBatch {
            steps: felt_steps(&probes, watermarks),
            ..ChangelogBatch::new(
                batch_of(&self.schema, columns, rows.len())?,
                RowKinds::new(&kinds),
            )
        })
    }

    /// The columns of versions; NULL where there is none.
    fn version_columns(&self, versions: &[Option<u32>]) -> Result<Vec<ArrayRef>> {
        let found: Vec<u32> = versions.iter().flatten().copied().collect();
        let rows = self.versions.rows().gather(&found)?;
        if found.len() == versions.len() {
            return Ok(rows.columns().to_vec());
        }
        let mut next = 0..found.len() as u32;
        let places: UInt32Array = versions
            .iter()
            .map(|version| version.and_then(|_| next.next()))
            .collect();
        let columns = rows.columns().iter();
        Ok(columns
            .map(|column| compute::take(column, &places, None))
            .collect::<Result<_, _>>()?)
    }

    /// Takes the versions away that do not satisfy the condition.
    fn check_condition(
        &self,
        ctx: &Context,
        due: &[DueProbe],
        versions: &mut [Option<u32>],
    ) -> Result<()> {
        let Some(condition) = &self.spec.condition else {
            return Ok(());
        };
        let pairs: Vec<usize> = (0..due.len())
            .filter(|row| versions[*row].is_some())
            .collect();
        let left: Vec<u32> = pairs.iter().map(|row| due[*row].row).collect();
        let right: Vec<u32> = versions.iter().flatten().copied().collect();
        let mut columns = self.probes.rows().gather(&left)?.columns().to_vec();
        columns.extend_from_slice(self.versions.rows().gather(&right)?.columns());
        let context = RowContext {
            processing_time: ctx.processing_time(),
            watermark: ctx.watermark(),
            steps: &WatermarkSteps::NONE,
        };
        let rows = batch_of(&self.schema, columns, pairs.len())?;
        let mask = condition.evaluate_mask(&rows, &context)?;
        for (row, satisfied) in pairs.into_iter().zip(mask.values()) {
            if !satisfied {
                versions[row] = None;
            }
        }
        Ok(())
    }
}

/// The watermarks between the rows of a fire that a row can feel: it lies no more than a millisecond behind.
fn felt_steps(probes: &[DueProbe], watermarks: &[EventTime]) -> WatermarkSteps {
    let mut steps = WatermarkSteps::NONE;
    for (row, probe) in probes.iter().enumerate() {
        let before = probe.fire.checked_sub(1).map(|fire| watermarks[fire]);
        if let Some(watermark) = before
            && probe.time <= watermark.millis().saturating_add(1)
        {
            steps.push(WatermarkStep { row, watermark });
        }
    }
    steps
}

impl Operator for TemporalJoinOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        // A row can tell a watermark from a lower one where it comes behind it: then it meets other versions.
        let times = row_times(&batch.rows, self.side(input).time)?;
        let before = ctx.watermark();
        self.watermarks
            .rows(before, input, &batch, &times, &mut self.work);
        self.work_off(ctx, out)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        self.watermarks.watermark(watermark, &mut self.work);
        self.work_off(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.work_off(ctx, out)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        debug_assert!(
            self.watermarks.is_empty(),
            "a watermark follows every batch with steps, before a barrier does"
        );
        self.snapshot_keyed(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        vec![
            (LEFT.to_string(), self.probes.snapshot_schema()),
            (RIGHT.to_string(), self.versions.snapshot_schema()),
        ]
    }

    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        self.watermarks.restore(ctx.watermark());
        let told = self.told_waiting;
        self.load_keyed(ctx, &snapshot)?;
        self.told_waiting = told;
        Ok(())
    }

    fn keyed_state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }
}

#[cfg(test)]
mod tests;
