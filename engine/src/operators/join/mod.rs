//! Joins two changelogs: INNER, LEFT, RIGHT, FULL, SEMI and ANTI, with both sides in state.
//!
//! A batch is taken into the state of its own side first (`changes`), then probed against the other side, which it does not
//! change (`probe`): the candidates are two index vectors, the condition is evaluated once over all of them, and a walk in the
//! order of the rows (`emit`) turns what is left into the rows of the output, gathered a column at a time. An inner
//! join needs no walk. Associations, the number of partners of a row, make padding a test of an integer.

mod changes;
mod emit;
mod links;
mod probe;
mod row_index;
mod side;
mod snapshot;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute;
use arrow::datatypes::{DataType, SchemaRef};

use self::changes::Changes;
use self::emit::{Emission, Progress, Walk};
use self::links::NONE;
use self::probe::{Candidates, Cursor, Masks};
pub use self::side::{JoinSide, RowIdentity};
use self::side::{Side, rebuilt};
use super::calc::batch_of;
use super::window_join::{JoinCondition, key_numbers};
use super::{Context, Flow, InputIndex, Operator, Output, key_hashes};
use crate::error::Result;
use crate::state::{GroupTable, StateSnapshot};
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{JoinKind, ProcessingTime, RowKinds, Schema};

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
}

/// Takes any kinds of rows on both sides. State: the rows of both sides, each for as long as its time to live says.
pub struct JoinOperator {
    kind: JoinKind,
    null_safe: Vec<bool>,
    condition: Option<JoinCondition>,
    schema: SchemaRef,
    sides: [Side; 2],
    /// The join keys of both sides.
    groups: GroupTable,
    key_types: Vec<DataType>,
    rebuild_at: usize,
    next_sweep: Option<ProcessingTime>,
    work: Option<Work>,
}

/// A batch on its way through the probe.
struct Work {
    input: usize,
    changes: Changes,
    cursor: Cursor,
    progress: Progress,
}

/// Tables of fewer keys are not rebuilt to lose those without rows.
const REBUILD_GROUPS: usize = 4096;

/// State that is never forgotten is not swept; other state is, after this part of its time to live.
const SWEEPS_A_LIFE: i64 = 2;

impl JoinOperator {
    /// An operator as `spec` says.
    pub fn new(spec: JoinSpec) -> Result<Self> {
        assert_eq!(
            (spec.left.keys.len(), spec.right.keys.len()),
            (spec.null_safe.len(), spec.null_safe.len()),
            "every key has two columns and a flag"
        );
        let of_key = |column: &usize| spec.left.schema.fields[*column].logical_type.to_arrow();
        let key_types: Vec<DataType> = spec.left.keys.iter().map(of_key).collect();
        // Where nothing of the right side ever goes, one partner decides about a left row for ever.
        let first_only = spec.kind.is_left_only() && spec.condition.is_none();
        let counts_left = spec.kind.keeps_left() || spec.kind.is_left_only();
        Ok(JoinOperator {
            schema: spec.output.to_arrow(),
            sides: [
                Side::new(spec.left, counts_left, false)?,
                Side::new(spec.right, spec.kind.keeps_right(), first_only)?,
            ],
            groups: GroupTable::new(&key_types)?,
            kind: spec.kind,
            null_safe: spec.null_safe,
            condition: spec.condition,
            key_types,
            rebuild_at: REBUILD_GROUPS,
            next_sweep: None,
            work: None,
        })
    }

    /// Loses the join keys without rows where they are the most.
    fn compact(&mut self) -> Result<()> {
        if self.groups.len() < self.rebuild_at {
            return Ok(());
        }
        let is_live = |group: &u32| self.sides.iter().any(|side| !side.links.is_empty(*group));
        let live: Vec<u32> = (0..self.groups.len() as u32).filter(is_live).collect();
        if let Some(groups) = rebuilt(&self.groups, &self.key_types, &live)? {
            self.groups = groups;
            for side in &mut self.sides {
                side.links.renumber(&live);
            }
        }
        self.rebuild_at = REBUILD_GROUPS.max(self.groups.len() * 2);
        Ok(())
    }

    /// Forgets what is too old, a few times in the life of a row.
    fn sweep(&mut self, now: ProcessingTime) -> Result<()> {
        let lives = self.sides.iter().map(|side| side.spec.time_to_live);
        let Some(shortest) = lives
            .filter(|life| life.is_enabled())
            .map(|life| life.expiry(ProcessingTime(0)))
            .min()
        else {
            return Ok(());
        };
        match self.next_sweep {
            Some(due) if due > now => return Ok(()),
            Some(_) => self.sides.iter_mut().try_for_each(|side| side.sweep(now))?,
            None => {}
        }
        let pause = (shortest / SWEEPS_A_LIFE).max(1);
        self.next_sweep = Some(ProcessingTime(now.millis().saturating_add(pause)));
        Ok(())
    }

    /// Takes a batch into its side's state.
    fn apply(&mut self, ctx: &Context, input: usize, batch: &ChangelogBatch) -> Result<Changes> {
        let side = &mut self.sides[input];
        let hashes = key_hashes(batch, &side.spec.keys)?;
        let groups = key_numbers(
            &mut self.groups,
            &batch.rows,
            &side.spec.keys,
            &self.null_safe,
            hashes.values(),
        )?;
        let known = match self.key_types.is_empty() {
            true => 1,
            false => self.groups.len(),
        };
        side.apply(batch, &groups, known, ctx.processing_time())
    }

    fn work_off(&mut self, ctx: &Context, out: &mut Output) -> Result<Flow> {
        while let Some(mut work) = self.work.take() {
            if work.cursor.is_done(&work.changes) {
                break;
            }
            let batch = self.probe(ctx, &mut work)?;
            out.emit(batch);
            self.work = Some(work);
            if out.is_full() {
                return Ok(Flow::Blocked);
            }
        }
        Ok(Flow::Done)
    }

    /// The output of the next candidates.
    fn probe(&mut self, ctx: &Context, work: &mut Work) -> Result<ChangelogBatch> {
        let now = ctx.processing_time();
        let other = &self.sides[1 - work.input];
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
        let [left, right] = &mut self.sides;
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
                _ => other_columns(&self.sides[0], of_other)?,
            }
        } else {
            let own = input_columns(rows, of_input)?;
            let other = other_columns(&self.sides[1 - input], of_other)?;
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

/// Columns of the rows that came.
fn input_columns(rows: &RecordBatch, indices: Vec<u32>) -> Result<Vec<ArrayRef>> {
    let (indices, nulls) = with_nulls(indices);
    let indices = UInt32Array::new(indices.into(), nulls);
    let columns = rows.columns().iter();
    let taken = columns.map(|column| Ok(compute::take(column, &indices, None)?));
    taken.collect()
}

/// Columns of stored rows.
fn other_columns(side: &Side, ids: Vec<u32>) -> Result<Vec<ArrayRef>> {
    let columns: Vec<usize> = (0..side.spec.schema.len()).collect();
    if !ids.contains(&NONE) {
        return side.slab.gather_columns(&columns, &ids);
    }
    let mut known = Vec::new();
    let place = |id: u32| {
        (id != NONE).then(|| {
            known.push(id);
            known.len() as u32 - 1
        })
    };
    let places: UInt32Array = ids.into_iter().map(place).collect();
    let gathered = side.slab.gather_columns(&columns, &known)?;
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
        self.sweep(ctx.processing_time())?;
        self.compact()?;
        let changes = self.apply(ctx, input.0, &batch)?;
        self.work = Some(Work {
            input: input.0,
            changes,
            cursor: Cursor::START,
            progress: Progress::default(),
        });
        self.work_off(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.work_off(ctx, out)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        let holds_rows = self.sides.iter().any(|side| !side.slab.is_empty());
        self.next_sweep.filter(|_| holds_rows)
    }

    fn on_processing_time(&mut self, ctx: &mut Context, _: &mut Output) -> Result<Flow> {
        self.sweep(ctx.processing_time())?;
        Ok(Flow::Done)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        self.snapshot(ctx)
    }

    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        self.restore(ctx, snapshot)
    }
}

#[cfg(test)]
mod tests;
