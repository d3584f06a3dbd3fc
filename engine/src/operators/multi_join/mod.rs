//! Joins any number of changelogs on one key, with INNER and LEFT joins from left to right, and remembers the inputs only.
//!
//! A batch is taken into the state of its own input first. Then each of its rows becomes combinations, input by input from the left
//! (`walk`): what the inputs before it hold for its key, the row itself, what those behind it hold. A level is index vectors, one an
//! input; its condition is evaluated once over all candidates of a step, and each column is gathered once. Where a LEFT
//! join's first match comes or the last one goes, combinations without a match go or come in its place, so that the
//! result is that of the chain of binary joins, without their intermediate states.

mod combinations;
mod walk;

use std::collections::VecDeque;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use hashbrown::HashSet;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use self::combinations::Combinations;
use self::walk::Walk;
use super::calc::batch_of;
use super::join::changes::Changes;
use super::join::keyed_sides::KeyedSides;
use super::join::side::Side;
use super::join::{JoinSide, input_columns, other_columns};
use super::window_join::JoinCondition;
use super::{Context, Flow, InputIndex, KeyedState, Operator, Output, key_hashes};
use crate::error::Result;
use crate::state::StateSnapshot;
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{ProcessingTime, RowKinds, Schema};

/// What a join of many inputs does.
pub struct MultiJoinSpec {
    /// The inputs, each with the columns of the common key.
    pub inputs: Vec<JoinSide>,
    /// How each input but the first is joined to those before it.
    pub levels: Vec<MultiJoinLevel>,
    /// The columns of all inputs in order.
    pub output: Schema,
}

/// How an input is joined to those before it.
pub struct MultiJoinLevel {
    /// LEFT rather than INNER.
    pub is_left: bool,
    /// The inputs before it whose key its key must equal: one without a row matches nothing.
    pub joined_to: Vec<usize>,
    /// What else must hold, over the columns of the inputs before it, then its own.
    pub condition: Option<JoinCondition>,
}

/// Takes any kinds of rows on all inputs; updates by key only where no condition of a later level reads their input.
/// State: the rows of each input, for as long as its time to live says.
pub struct MultiJoinOperator {
    levels: Vec<MultiJoinLevel>,
    /// The first column of each input in the output.
    offsets: Vec<usize>,
    schema: SchemaRef,
    state: KeyedSides,
    work: Option<Work>,
    /// Rows of inputs that come after those at work.
    parts: VecDeque<(usize, ChangelogBatch)>,
}

/// A batch on its way.
struct Work {
    input: usize,
    changes: Changes,
    /// Combinations that are not complete, the next ones last.
    frames: Vec<Combinations>,
}

impl MultiJoinOperator {
    /// An operator as `spec` says.
    pub fn new(spec: MultiJoinSpec) -> Result<Self> {
        assert_eq!(
            spec.inputs.len(),
            spec.levels.len() + 1,
            "every input but the first has a level"
        );
        let mut offsets = vec![0];
        for input in &spec.inputs {
            offsets.push(offsets[offsets.len() - 1] + input.schema.len());
        }
        let names = (0..spec.inputs.len()).map(|input| format!("input-{input}"));
        let names = names.collect();
        let keys = spec.inputs[0].keys.len();
        let mut sides = Vec::with_capacity(spec.inputs.len());
        for (input, side) in spec.inputs.into_iter().enumerate() {
            let mut side = Side::new(side, false, false)?;
            side.notes_others = input > 0 && {
                let level: &MultiJoinLevel = &spec.levels[input - 1];
                level.is_left && level.condition.is_none()
            };
            sides.push(side);
        }
        Ok(MultiJoinOperator {
            schema: spec.output.to_arrow(),
            state: KeyedSides::new(sides, names, vec![false; keys])?,
            levels: spec.levels,
            offsets,
            work: None,
            parts: VecDeque::new(),
        })
    }

    /// Takes the next part of a batch into its input's state.
    fn start(&mut self, ctx: &Context) -> Result<bool> {
        let Some((input, batch)) = self.parts.pop_front() else {
            return Ok(false);
        };
        self.state.compact()?;
        let changes = self.state.apply(ctx, input, &batch)?;
        let all = Combinations::of_events(0..changes.events.len(), self.state.sides.len());
        self.work = Some(Work {
            input,
            changes,
            frames: vec![all],
        });
        Ok(true)
    }

    /// Makes combinations of the rows of a batch until the output is full.
    fn work_off(&mut self, ctx: &Context, out: &mut Output) -> Result<Flow> {
        while self.work.is_some() || self.start(ctx)? {
            let Some(mut work) = self.work.take() else {
                break;
            };
            let Some(frame) = work.frames.pop() else {
                continue;
            };
            if frame.level == self.state.sides.len() {
                out.emit(self.gather(work.input, &work.changes, frame)?);
            } else {
                let walk = Walk {
                    ctx,
                    levels: &self.levels,
                    offsets: &self.offsets,
                    sides: &self.state.sides,
                    input: work.input,
                    changes: &work.changes,
                };
                let (next, rest) = walk.step(frame)?;
                work.frames.extend(rest);
                work.frames.extend(next);
            }
            self.work = Some(work);
            if out.is_full() {
                return Ok(Flow::Blocked);
            }
        }
        Ok(Flow::Done)
    }

    /// The parts of a batch that are applied at once. Whether other rows of a LEFT join's right side match depends on its
    /// condition: there each part has one row of a key at most, so that the state tells.
    fn parts_of(&self, input: usize, batch: &ChangelogBatch) -> Result<Vec<ChangelogBatch>> {
        let asks_others = input > 0 && {
            let level = &self.levels[input - 1];
            level.is_left && level.condition.is_some()
        };
        if !asks_others {
            return Ok(vec![batch.clone()]);
        }
        let hashes = key_hashes(batch, &self.state.sides[input].spec.keys)?;
        let mut seen: HashSet<u64, Xxh3DefaultBuilder> = HashSet::default();
        let (mut parts, mut first) = (Vec::new(), 0);
        for (row, hash) in hashes.values().iter().enumerate() {
            if !seen.insert(*hash) {
                parts.push(batch.slice(first, row - first));
                seen.clear();
                seen.insert(*hash);
                first = row;
            }
        }
        parts.push(batch.slice(first, batch.num_rows() - first));
        Ok(parts)
    }

    fn gather(
        &self,
        input: usize,
        changes: &Changes,
        combinations: Combinations,
    ) -> Result<ChangelogBatch> {
        let count = combinations.len();
        let forwards = input == 0 || !self.levels[input - 1].is_left;
        let forwards = forwards && self.levels[input..].iter().all(|level| !level.is_left);
        let kinds = combinations.output_kinds(&changes.events, forwards);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for (of, ids) in combinations.rows.into_iter().enumerate() {
            columns.extend(match of == input {
                true => input_columns(&changes.rows, ids)?,
                false => other_columns(&self.state.sides[of], ids)?,
            });
        }
        let rows = batch_of(&self.schema, columns, count)?;
        Ok(ChangelogBatch::new(rows, RowKinds::new(&kinds)))
    }
}

impl Operator for MultiJoinOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        self.state.sweep(ctx.processing_time())?;
        let parts = self.parts_of(input.0, &batch)?;
        self.parts
            .extend(parts.into_iter().map(|part| (input.0, part)));
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
mod tests;
