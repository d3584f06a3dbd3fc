//! Joins the rows of two inputs that fell into the same window, when the window ends.
//!
//! Both sides wait in their window. When it fires, the keys of both become numbers by one group table, the right rows are
//! laid out by number, and a walk over the left rows yields candidate pairs, a bounded number at a time: what the condition
//! leaves of them becomes two index vectors and each column is gathered once. Rows without a pair follow at the end.

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute;
use arrow::datatypes::SchemaRef;

use super::calc::batch_of;
use super::window_buffer::{Due, FireQueue, OUTPUT_ROWS, WindowBuffer};
use super::{
    Context, DueTime, Flow, InputIndex, KeySet, KeyedState, Operator, Output, RESTORE_PIECES,
};
use crate::error::Result;
use crate::expr::{CompiledExpression, Expression, ExpressionContext, RowContext, compile};
use crate::state::{GroupTable, StateBackend, StateSnapshot};
use crate::stream::{ChangelogBatch, CheckpointId, WatermarkSteps};
use crate::types::{EventTime, JoinKind, ProcessingTime, Schema};
use crate::window::WindowTime;

const STATES: [&str; 2] = ["left", "right"];

/// What a window join does.
pub struct WindowJoinSpec {
    /// INNER, LEFT, ….
    pub kind: JoinKind,
    /// The left input.
    pub left: WindowJoinSide,
    /// The right input.
    pub right: WindowJoinSide,
    /// For each key whether NULL equals NULL (IS NOT DISTINCT FROM).
    pub null_safe: Vec<bool>,
    /// What else a pair must satisfy.
    pub condition: Option<JoinCondition>,
    /// The clock of the windows.
    pub window_time: WindowTime,
    /// Left columns, then right ones; only the left ones for SEMI and ANTI.
    pub output: Schema,
}

/// One input of a window join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowJoinSide {
    /// Its columns.
    pub schema: Schema,
    /// The column of the window's end.
    pub window_end: usize,
    /// With sessions, the column of the window's start, which must be equal too; `None` for other windows, whose end decides.
    pub session_start: Option<usize>,
    /// The columns that equal those of the other side, in the same order: the key by which rows were dealt.
    pub keys: Vec<usize>,
}

impl WindowJoinSide {
    /// The keys, then the start of a session.
    fn all_keys(&self) -> Vec<usize> {
        self.keys
            .iter()
            .chain(&self.session_start)
            .copied()
            .collect()
    }
}

/// A condition on pairs, compiled over the columns that it reads.
pub struct JoinCondition {
    expression: CompiledExpression,
    /// The columns it reads, of left columns, then right ones.
    read: Vec<usize>,
    left_columns: usize,
    schema: SchemaRef,
}

impl JoinCondition {
    /// Compiles a BOOLEAN over the left columns, then the right ones.
    pub fn new(
        expression: &Expression,
        left: &Schema,
        right: &Schema,
        context: &ExpressionContext,
    ) -> Result<Self> {
        let read = expression.columns();
        let over_read = expression.clone().transform(&mut |part| match part {
            Expression::Column {
                index,
                name,
                logical_type,
            } => Expression::Column {
                index: read
                    .binary_search(&index)
                    .expect("a column that is read is among those read"),
                name,
                logical_type,
            },
            other => other,
        });
        Ok(JoinCondition {
            expression: compile(&over_read, context)?,
            left_columns: left.len(),
            schema: left.join(right).project(&read).to_arrow(),
            read,
        })
    }

    /// The columns that it reads of the left side and of the right side.
    pub(super) fn read_columns(&self) -> [Vec<usize>; 2] {
        let (left, right): (Vec<usize>, Vec<usize>) = self
            .read
            .iter()
            .partition(|column| **column < self.left_columns);
        let right = right.iter().map(|column| column - self.left_columns);
        [left, right.collect()]
    }

    /// Which pairs satisfy it, without NULLs. `columns` are those of [`JoinCondition::read_columns`], the left ones first.
    pub(super) fn mask(
        &self,
        ctx: &Context,
        columns: Vec<ArrayRef>,
        pairs: usize,
    ) -> Result<BooleanArray> {
        let context = RowContext {
            processing_time: ctx.processing_time(),
            watermark: ctx.watermark(),
            steps: &WatermarkSteps::NONE,
        };
        let rows = batch_of(&self.schema, columns, pairs)?;
        self.expression.evaluate_mask(&rows, &context)
    }

    /// The pairs that satisfy it.
    fn keep(&self, ctx: &Context, window: &FiringWindow, pairs: Pairs) -> Result<Pairs> {
        let mut columns = Vec::new();
        let sides = window.rows.iter().zip([&pairs.left, &pairs.right]);
        for ((rows, indices), read) in sides.zip(self.read_columns()) {
            for column in read {
                columns.push(compute::take(rows.column(column), indices, None)?);
            }
        }
        let mask = self.mask(ctx, columns, pairs.left.len())?;
        if mask.true_count() == mask.len() {
            return Ok(pairs);
        }
        let keep = |indices: UInt32Array| -> Result<UInt32Array> {
            let kept = compute::filter(&indices, &mask)?;
            Ok(arrow::array::AsArray::as_primitive(&kept).clone())
        };
        Ok(Pairs {
            left: keep(pairs.left)?,
            right: keep(pairs.right)?,
        })
    }
}

/// Takes inserts with their windows attached on both sides, gives inserts; late rows of either side go to the late rows.
/// State: the rows of open windows.
pub struct WindowJoinOperator {
    spec: WindowJoinSpec,
    schema: SchemaRef,
    buffers: [WindowBuffer; 2],
    fires: FireQueue,
    firing: Option<FiringWindow>,
}

/// A window whose pairs are on their way out.
struct FiringWindow {
    rows: [RecordBatch; 2],
    /// The number of each left row's key; `NO_KEY` where a NULL keeps it from having a pair.
    left_keys: Vec<u32>,
    /// Right rows by the number of their key: those of number `k` are `right_rows[right_starts[k]..right_starts[k + 1]]`.
    right_starts: Vec<u32>,
    right_rows: Vec<u32>,
    /// Which rows have found a pair.
    paired: [Vec<bool>; 2],
    /// Where the walk over candidates is: a left row, and how many of its candidates are done.
    next: (usize, usize),
    /// Where the walk over rows without a pair is: a side, and a row.
    next_alone: (usize, usize),
}

/// The number of a key that equals none, because of a NULL.
pub(super) const NO_KEY: u32 = u32::MAX;

/// Rows that go together.
struct Pairs {
    left: UInt32Array,
    right: UInt32Array,
}

impl FiringWindow {
    fn new(sides: [(RecordBatch, Vec<u64>); 2], spec: &WindowJoinSpec) -> Result<Self> {
        let [(left, left_hashes), (right, right_hashes)] = sides;
        let null_safe = &spec.null_safe;
        let keys = [spec.left.all_keys(), spec.right.all_keys()];
        let types: Vec<_> = keys[0]
            .iter()
            .map(|key| left.column(*key).data_type().clone())
            .collect();
        let mut table = GroupTable::with_capacity(&types, right.num_rows())?;
        let right_keys = key_numbers(&mut table, &right, &keys[1], null_safe, &right_hashes)?;
        let numbers = right_keys.iter().filter(|key| **key != NO_KEY).max();
        let numbers = numbers.map_or(0, |last| *last as usize + 1);
        let left_keys = key_numbers(&mut table, &left, &keys[0], null_safe, &left_hashes)?;
        let (right_starts, right_rows) = rows_by_key(&right_keys, numbers);
        let paired = [vec![false; left.num_rows()], vec![false; right.num_rows()]];
        Ok(FiringWindow {
            rows: [left, right],
            left_keys,
            right_starts,
            right_rows,
            paired,
            next: (0, 0),
            next_alone: (0, 0),
        })
    }

    /// The right rows with the key of a left row.
    fn candidates(&self, left_row: usize) -> &[u32] {
        let key = self.left_keys[left_row] as usize;
        match (self.right_starts.get(key), self.right_starts.get(key + 1)) {
            (Some(start), Some(end)) => &self.right_rows[*start as usize..*end as usize],
            _ => &[],
        }
    }

    /// The next candidate pairs, at most `OUTPUT_ROWS`; `None` at the end. With `first_only`, one for each left row.
    fn next_pairs(&mut self, first_only: bool) -> Option<Pairs> {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let (mut row, mut done) = self.next;
        while row < self.left_keys.len() && left.len() < OUTPUT_ROWS {
            let candidates = &self.candidates(row)[done..];
            let wanted = if first_only {
                1
            } else {
                OUTPUT_ROWS - left.len()
            };
            let taken = &candidates[..candidates.len().min(wanted)];
            left.resize(left.len() + taken.len(), row as u32);
            right.extend_from_slice(taken);
            if first_only || taken.len() == candidates.len() {
                (row, done) = (row + 1, 0);
            } else {
                done += taken.len();
            }
        }
        self.next = (row, done);
        (!left.is_empty()).then(|| Pairs {
            left: left.into(),
            right: right.into(),
        })
    }

    fn mark(&mut self, pairs: &Pairs) {
        for (side, rows) in [&pairs.left, &pairs.right].into_iter().enumerate() {
            rows.values()
                .iter()
                .for_each(|row| self.paired[side][*row as usize] = true);
        }
    }

    /// The next rows of a side that have found a pair, or have not, at most `OUTPUT_ROWS`.
    fn next_of_side(&mut self, side: usize, paired: bool) -> Option<UInt32Array> {
        if self.next_alone.0 != side {
            self.next_alone = (side, 0);
        }
        let from = self.next_alone.1;
        let rows: Vec<u32> = (from..self.paired[side].len())
            .filter(|row| self.paired[side][*row] == paired)
            .take(OUTPUT_ROWS)
            .map(|row| row as u32)
            .collect();
        self.next_alone.1 = rows.last().map_or(usize::MAX, |last| *last as usize + 1);
        (!rows.is_empty()).then(|| rows.into())
    }
}

/// The number of each row's key; equal keys of both sides get equal numbers from the same table.
pub(super) fn key_numbers(
    table: &mut GroupTable,
    rows: &RecordBatch,
    keys: &[usize],
    null_safe: &[bool],
    hashes: &[u64],
) -> Result<Vec<u32>> {
    if keys.is_empty() {
        return Ok(vec![0; rows.num_rows()]);
    }
    let columns: Vec<ArrayRef> = keys.iter().map(|key| rows.column(*key).clone()).collect();
    let mut numbers = Vec::with_capacity(rows.num_rows());
    table.resolve(&columns, hashes, &mut numbers)?;
    for (column, null_safe) in columns.iter().zip(null_safe) {
        if let (false, Some(nulls)) = (*null_safe, column.logical_nulls()) {
            let nulls = nulls.into_inner();
            let with_null = (0..numbers.len()).filter(|row| !nulls.value(*row));
            with_null.for_each(|row| numbers[row] = NO_KEY);
        }
    }
    Ok(numbers)
}

/// Rows laid out by the number of their key, in their order: a counting sort.
fn rows_by_key(keys: &[u32], numbers: usize) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0u32; numbers + 1];
    let with_key = || keys.iter().enumerate().filter(|(_, key)| **key != NO_KEY);
    with_key().for_each(|(_, key)| starts[*key as usize + 1] += 1);
    (0..numbers).for_each(|key| starts[key + 1] += starts[key]);
    let mut next = starts.clone();
    let mut rows = vec![0u32; starts[numbers] as usize];
    for (row, key) in with_key() {
        let place = &mut next[*key as usize];
        rows[*place as usize] = row as u32;
        *place += 1;
    }
    (starts, rows)
}

impl WindowJoinOperator {
    /// An operator as `spec` says.
    pub fn new(spec: WindowJoinSpec, backend: &dyn StateBackend) -> Result<Self> {
        assert_eq!(
            (spec.left.keys.len(), spec.right.keys.len()),
            (spec.null_safe.len(), spec.null_safe.len()),
            "every key has two columns and a flag"
        );
        let buffer = |side: &WindowJoinSide| {
            WindowBuffer::new(
                side.schema.to_arrow(),
                side.window_end,
                side.keys.clone(),
                &spec.window_time,
                backend,
            )
        };
        Ok(WindowJoinOperator {
            schema: spec.output.to_arrow(),
            buffers: [buffer(&spec.left)?, buffer(&spec.right)?],
            fires: FireQueue::new(&spec.window_time)?,
            firing: None,
            spec,
        })
    }

    fn first_window(&self) -> Option<i64> {
        let ends = self.buffers.iter().filter_map(WindowBuffer::first_window);
        ends.min()
    }

    fn fire(&mut self, ctx: &mut Context, window_end: i64) -> Result<FiringWindow> {
        let [left, right] = &mut self.buffers;
        let sides = [left.take(window_end)?, right.take(window_end)?];
        sides
            .iter()
            .for_each(|(_, hashes)| ctx.keys_changed(hashes));
        FiringWindow::new(sides, &self.spec)
    }

    fn work_off(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        loop {
            if let Some(mut window) = self.firing.take()
                && self.emit(ctx, &mut window, out)? == Flow::Blocked
            {
                self.firing = Some(window);
                return Ok(Flow::Blocked);
            }
            match self.fires.next(self.first_window()) {
                Some(Due::Window(end)) => self.firing = Some(self.fire(ctx, end)?),
                Some(Due::Watermark(watermark)) => out.watermark(watermark),
                None => return Ok(Flow::Done),
            }
        }
    }

    /// The pairs of a window, then the rows without one, as the output takes them.
    fn emit(&self, ctx: &Context, window: &mut FiringWindow, out: &mut Output) -> Result<Flow> {
        let kind = self.spec.kind;
        // Without a condition the first candidate decides for a row of SEMI and ANTI.
        let first_only = kind.is_left_only() && self.spec.condition.is_none();
        loop {
            if out.is_full() {
                return Ok(Flow::Blocked);
            }
            let Some(candidates) = window.next_pairs(first_only) else {
                break;
            };
            let pairs = match &self.spec.condition {
                None => candidates,
                Some(condition) => condition.keep(ctx, window, candidates)?,
            };
            window.mark(&pairs);
            if !kind.is_left_only() {
                out.emit(self.joined(window, &pairs.left, &pairs.right)?);
            }
        }
        self.emit_sides(window, out)
    }

    fn emit_sides(&self, window: &mut FiringWindow, out: &mut Output) -> Result<Flow> {
        for (side, paired) in sides_emitted(self.spec.kind) {
            if window.next_alone.0 > side {
                continue;
            }
            loop {
                if out.is_full() {
                    return Ok(Flow::Blocked);
                }
                let Some(rows) = window.next_of_side(side, paired) else {
                    break;
                };
                let nulls = UInt32Array::new_null(rows.len());
                out.emit(if side == 0 {
                    self.joined(window, &rows, &nulls)?
                } else {
                    self.joined(window, &nulls, &rows)?
                });
            }
        }
        Ok(Flow::Done)
    }

    /// Left rows beside right ones; a NULL index gives NULLs.
    fn joined(
        &self,
        window: &FiringWindow,
        left: &UInt32Array,
        right: &UInt32Array,
    ) -> Result<ChangelogBatch> {
        let sides = if self.spec.kind.is_left_only() { 1 } else { 2 };
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for (rows, indices) in window.rows.iter().zip([left, right]).take(sides) {
            for column in rows.columns() {
                columns.push(compute::take(column, indices, None)?);
            }
        }
        let rows = batch_of(&self.schema, columns, left.len())?;
        Ok(ChangelogBatch::insert_only(rows))
    }
}

/// Which rows are emitted after the pairs: of which side, and whether those with a pair or those without.
fn sides_emitted(kind: JoinKind) -> impl Iterator<Item = (usize, bool)> {
    let left = (kind.keeps_left() || kind.is_left_only()).then_some((0, kind == JoinKind::Semi));
    let right = kind.keeps_right().then_some((1, false));
    left.into_iter().chain(right)
}

impl Operator for WindowJoinOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        self.fires.on_steps(&batch.steps);
        self.buffers[input.0].add(ctx, batch, out)?;
        Ok(Flow::Done)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        self.fires.on_watermark(watermark);
        self.work_off(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.work_off(ctx, out)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        self.fires.timer(self.first_window())
    }

    fn on_processing_time(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.fires.on_processing_time(ctx.processing_time());
        self.work_off(ctx, out)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        self.snapshot_keyed(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        let tables = STATES.into_iter().zip(&self.buffers);
        tables
            .map(|(name, buffer)| (name.to_string(), buffer.snapshot_schema()))
            .collect()
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

impl KeyedState for WindowJoinOperator {
    fn key_columns(&self, input: InputIndex) -> &[usize] {
        self.buffers[input.0].keys()
    }

    fn snapshot_keyed(&mut self, _: &Context) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        for (name, buffer) in STATES.into_iter().zip(&self.buffers) {
            snapshot.insert_keyed(name, buffer.snapshot()?);
        }
        Ok(snapshot)
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
        for (name, buffer) in STATES.into_iter().zip(&mut self.buffers) {
            buffer.load(snapshot.batches(name))?;
        }
        Ok(())
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.buffers.iter_mut().for_each(WindowBuffer::clear);
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.buffers.iter().map(WindowBuffer::size_bytes).sum()
    }

    fn export_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        for (name, buffer) in STATES.into_iter().zip(&self.buffers) {
            snapshot.insert_keyed(name, buffer.export(keys)?);
        }
        Ok(snapshot)
    }

    fn evict_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        for (name, buffer) in STATES.into_iter().zip(&mut self.buffers) {
            snapshot.insert_keyed(name, buffer.evict(keys)?);
        }
        Ok(snapshot)
    }

    fn due_time(&self) -> DueTime {
        self.buffers[0].due_time()
    }

    fn due(&self, _: &str, rows: &RecordBatch) -> Vec<i64> {
        self.buffers[0].due(rows)
    }
}

#[cfg(test)]
mod tests;
