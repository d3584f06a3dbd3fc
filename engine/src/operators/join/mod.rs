//! Joins two changelogs: INNER, LEFT, RIGHT, FULL, SEMI and ANTI, with both sides in state.
//!
//! A batch is taken into the state of its own side first (`changes`), then probed against the other side, which it does not
//! change (`probe`): the candidates are two index vectors, the condition is evaluated once over all of them, and a walk in the
//! order of the rows (`emit`) turns what is left into the rows of the output, gathered a column at a time. An inner
//! join needs no walk. Associations, the number of partners of a row, make padding a test of an integer.

pub(super) mod changes;
mod emit;
mod fold;
pub(super) mod keyed_sides;
pub(super) mod links;
mod mini_batch;
mod probe;
mod row_index;
pub(super) mod side;
mod snapshot;
mod withheld;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute;
use arrow::datatypes::SchemaRef;

use self::changes::Changes;
use self::emit::{Emission, Progress, Walk};
use self::keyed_sides::KeyedSides;
use self::links::NONE;
use self::mini_batch::{MiniBatch, Step};
use self::probe::{Candidates, Cursor, Masks};
use self::side::Side;
pub use self::side::{JoinSide, RowIdentity};
use super::calc::batch_of;
use super::window_join::JoinCondition;
use super::{Context, Flow, InputIndex, KeyedState, Operator, Output};
use crate::error::Result;
use crate::state::StateSnapshot;
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{EventTime, JoinKind, ProcessingTime, RowKinds, Schema};

/// What a regular join does.
pub struct JoinSpec {
    /// INNER, LEFT, ….
    pub kind: JoinKind,
    /// The left input.
    pub left: JoinSide,
    /// The right input.
    pub right: JoinSide,
    /// For each key whether NULL equals NULL (IS NOT DISTINCT FROM).
    pub null_safe: Vec<bool>,
    /// What else a pair must satisfy.
    pub condition: Option<JoinCondition>,
    /// Left columns, then right ones; only the left ones for SEMI and ANTI.
    pub output: Schema,
    /// Mini-batch: how many rows of both inputs make a bundle.
    pub mini_batch_rows: Option<usize>,
}

/// Takes any kinds of rows on both sides. With mini-batch, the net change of a bundle is joined when it ends.
/// State: the rows of both sides, each for as long as its time to live says; a bundle is flushed before a snapshot.
pub struct JoinOperator {
    kind: JoinKind,
    condition: Option<JoinCondition>,
    schema: SchemaRef,
    state: KeyedSides,
    work: Option<Work>,
    mini_batch: Option<MiniBatch>,
}

/// A batch on its way through the probe.
struct Work {
    input: usize,
    changes: Changes,
    cursor: Cursor,
    progress: Progress,
    /// Mini-batch: whether rows without a partner wait.
    withholds: bool,
}

/// What the states of both sides are called in a snapshot.
const STATES: [&str; 2] = ["left", "right"];

impl JoinOperator {
    /// An operator as `spec` says.
    pub fn new(spec: JoinSpec) -> Result<Self> {
        // Where nothing of the right side ever goes, one partner decides about a left row for ever.
        let first_only = spec.kind.is_left_only() && spec.condition.is_none();
        let counts_left = spec.kind.keeps_left() || spec.kind.is_left_only();
        let mini_batch = spec
            .mini_batch_rows
            .map(|rows| MiniBatch::new(spec.kind, rows, spec.null_safe.clone()));
        let mut sides = vec![
            Side::new(spec.left, counts_left, false)?,
            Side::new(spec.right, spec.kind.keeps_right(), first_only)?,
        ];
        for side in &mut sides {
            side.folded = mini_batch.is_some();
        }
        Ok(JoinOperator {
            mini_batch,
            schema: spec.output.to_arrow(),
            state: KeyedSides::new(sides, STATES.map(str::to_string).to_vec(), spec.null_safe)?,
            kind: spec.kind,
            condition: spec.condition,
            work: None,
        })
    }

    fn start(
        &mut self,
        ctx: &Context,
        input: usize,
        rows: &ChangelogBatch,
        withholds: bool,
    ) -> Result<()> {
        self.state.compact()?;
        self.work = Some(Work {
            input,
            changes: self.state.apply(ctx, input, rows)?,
            cursor: Cursor::START,
            progress: Progress::default(),
            withholds,
        });
        Ok(())
    }

    fn work_off(&mut self, ctx: &Context, out: &mut Output) -> Result<Flow> {
        while self.has_work(ctx, out)? {
            if let Some(mut work) = self.work.take() {
                if work.cursor.is_done(&work.changes) {
                    continue;
                }
                let batch = self.probe(ctx, &mut work)?;
                out.emit(batch);
                self.work = Some(work);
            }
            if out.is_full() {
                return Ok(Flow::Blocked);
            }
        }
        Ok(Flow::Done)
    }

    /// Whether there is anything to do; takes the next step of a mini-batch bundle where there is one.
    fn has_work(&mut self, ctx: &Context, out: &mut Output) -> Result<bool> {
        if self.work.is_some() {
            return Ok(true);
        }
        let steps = self.mini_batch.as_mut().map(|batch| &mut batch.steps);
        match steps.and_then(|steps| steps.pop_front()) {
            None => return Ok(false),
            Some(Step::Rows {
                input,
                rows,
                withholds,
            }) => self.start(ctx, input, &rows, withholds)?,
            Some(Step::Settle(side)) => out.emit(self.settle(side)?),
            Some(Step::Watermark(watermark)) => out.watermark(watermark),
        }
        Ok(true)
    }

    /// What the rows of a side owe at the end of a bundle.
    fn settle(&mut self, side: usize) -> Result<ChangelogBatch> {
        let mini_batch = self.mini_batch.as_mut();
        let due = mini_batch.map_or(Vec::new(), |batch| batch.withheld[side].take());
        let mut emission = Emission::default();
        for (id, copies, kind) in due {
            for _ in 0..copies {
                emission.kinds.push(kind);
                emission.input.push(NONE);
                emission.other.push(id);
            }
        }
        let none = RecordBatch::new_empty(self.state.sides[1 - side].slab.schema().clone());
        self.gather(1 - side, &none, emission)
    }

    /// Ends the open bundle of mini-batch.
    fn end_bundle(&mut self) -> Result<()> {
        let sides = [&self.state.sides[0].spec, &self.state.sides[1].spec];
        match &mut self.mini_batch {
            Some(mini_batch) => mini_batch.end(sides),
            None => Ok(()),
        }
    }

    /// The output of the next candidates.
    fn probe(&mut self, ctx: &Context, work: &mut Work) -> Result<ChangelogBatch> {
        let now = ctx.processing_time();
        let other = &self.state.sides[1 - work.input];
        let candidates = Candidates::next(&mut work.cursor, &work.changes, other, now);
        let masks = match &self.condition {
            Some(condition) if !candidates.others.is_empty() => {
                candidates.masks(ctx, condition, work.input, &work.changes, other)?
            }
            _ => Masks::ALL,
        };
        let emission = if self.kind == JoinKind::Inner && !work.changes.replaces {
            pairs(&work.changes, &candidates, &masks, other)
        } else {
            self.walk(work, &candidates, &masks, now)
        };
        self.gather(work.input, &work.changes.rows, emission)
    }

    fn walk(
        &mut self,
        work: &mut Work,
        candidates: &Candidates,
        masks: &Masks,
        now: ProcessingTime,
    ) -> Emission {
        let (left, right) = self.state.sides.split_at_mut(1);
        let (left, right) = (&mut left[0], &mut right[0]);
        let (input, other) = match work.input {
            0 => (left, right),
            _ => (right, left),
        };
        let mut walk = Walk {
            kind: self.kind,
            input_index: work.input,
            input,
            other,
            now,
            withheld: self.mini_batch.as_mut().map(|batch| &mut batch.withheld),
            withholds_input: work.withholds,
            emission: Emission::default(),
        };
        walk.run(&work.changes, candidates, masks, &mut work.progress);
        walk.emission
    }

    fn gather(
        &self,
        input: usize,
        rows: &RecordBatch,
        emission: Emission,
    ) -> Result<ChangelogBatch> {
        let Emission {
            kinds,
            input: of_input,
            other: of_other,
        } = emission;
        let count = kinds.len();
        let columns = if self.kind.is_left_only() {
            match input {
                0 => input_columns(rows, of_input)?,
                _ => other_columns(&self.state.sides[0], of_other)?,
            }
        } else {
            let own = input_columns(rows, of_input)?;
            let other = other_columns(&self.state.sides[1 - input], of_other)?;
            match input {
                0 => [own, other].concat(),
                _ => [other, own].concat(),
            }
        };
        let rows = batch_of(&self.schema, columns, count)?;
        Ok(ChangelogBatch::new(rows, RowKinds::new(&kinds)))
    }
}

/// The pairs of an inner join as they are, each with the kind of the row that came.
fn pairs(changes: &Changes, candidates: &Candidates, masks: &Masks, other: &Side) -> Emission {
    let mut emission = Emission::default();
    let found = candidates.events.iter().zip(&candidates.others);
    let matching = found.enumerate().filter(|(pair, _)| masks.is_new(*pair));
    for (_, (event, id)) in matching {
        let event = &changes.events[*event as usize];
        let copies = match other.has_copies() {
            true => other.copies(*id),
            false => 1,
        };
        for _ in 0..copies {
            emission.kinds.push(event.kind);
            emission.input.push(event.row);
            emission.other.push(*id);
        }
    }
    emission
}

/// All columns of the rows that came.
pub(super) fn input_columns(rows: &RecordBatch, indices: Vec<u32>) -> Result<Vec<ArrayRef>> {
    let columns: Vec<usize> = (0..rows.num_columns()).collect();
    columns_of_rows(rows, &columns, indices)
}

/// Columns of the rows that came; `NONE` is a row of NULLs.
pub(super) fn columns_of_rows(
    rows: &RecordBatch,
    columns: &[usize],
    indices: Vec<u32>,
) -> Result<Vec<ArrayRef>> {
    let (indices, nulls) = with_nulls(indices);
    if rows.num_rows() == 0 {
        let nulls =
            |column: &usize| new_null_array(rows.column(*column).data_type(), indices.len());
        return Ok(columns.iter().map(nulls).collect());
    }
    let indices = UInt32Array::new(indices.into(), nulls);
    let columns = columns.iter();
    let taken = columns.map(|column| Ok(compute::take(rows.column(*column), &indices, None)?));
    taken.collect()
}

/// All columns of stored rows.
pub(super) fn other_columns(side: &Side, ids: Vec<u32>) -> Result<Vec<ArrayRef>> {
    let columns: Vec<usize> = (0..side.spec.schema.len()).collect();
    columns_of_side(side, &columns, ids)
}

/// Columns of stored rows; `NONE` is a row of NULLs.
pub(super) fn columns_of_side(
    side: &Side,
    columns: &[usize],
    ids: Vec<u32>,
) -> Result<Vec<ArrayRef>> {
    if !ids.contains(&NONE) {
        return side.slab.gather_columns(columns, &ids);
    }
    let mut known = Vec::new();
    let place = |id: u32| {
        (id != NONE).then(|| {
            known.push(id);
            known.len() as u32 - 1
        })
    };
    let places: UInt32Array = ids.into_iter().map(place).collect();
    let gathered = side.slab.gather_columns(columns, &known)?;
    let padded = gathered.iter();
    let padded = padded.map(|column| Ok(compute::take(column, &places, None)?));
    padded.collect()
}

/// Indices with `NONE` as NULL.
fn with_nulls(mut indices: Vec<u32>) -> (Vec<u32>, Option<NullBuffer>) {
    if !indices.contains(&NONE) {
        return (indices, None);
    }
    let nulls: NullBuffer = indices.iter().map(|index| *index != NONE).collect();
    for index in &mut indices {
        if *index == NONE {
            *index = 0;
        }
    }
    (indices, Some(nulls))
}

impl Operator for JoinOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        self.state.sweep(ctx.processing_time())?;
        let sides = [&self.state.sides[0].spec, &self.state.sides[1].spec];
        match &mut self.mini_batch {
            Some(mini_batch) => {
                let come = mini_batch.add(sides, input.0, batch, ctx.watermark())?;
                ctx.advance_watermark(come);
            }
            None => self.start(ctx, input.0, &batch, false)?,
        }
        self.work_off(ctx, out)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        self.end_bundle()?;
        match &mut self.mini_batch {
            Some(mini_batch) => mini_batch.steps.push_back(Step::Watermark(watermark)),
            None => out.watermark(watermark),
        }
        self.work_off(ctx, out)
    }

    fn flush_bundle(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.end_bundle()?;
        self.work_off(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.work_off(ctx, out)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        self.state.next_sweep()
    }

    fn on_processing_time(&mut self, ctx: &mut Context, _: &mut Output) -> Result<Flow> {
        self.state.sweep(ctx.processing_time())?;
        Ok(Flow::Done)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        self.state.snapshot_keyed(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        self.state.state_schema()
    }

    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        self.state.load_keyed(ctx, &snapshot)
    }

    fn keyed_state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(&mut self.state)
    }
}

#[cfg(test)]
pub(super) mod tests;
