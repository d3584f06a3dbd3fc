//! A lookup join whose rows wait: for answers, side by side, or for a key that was not found to be asked for again.
//!
//! Rows stand in a queue until they are joined and have their turn, and so do the watermarks between them. At a barrier nothing
//! waits: what is in the queue is the state, and open questions are asked anew after a restore. Nobody sleeps here; the
//! processing-time timer says when an answer or a retry is worth another look.

use std::collections::VecDeque;

use super::joiner::{Joiner, Question};
use super::queue::{Asked, Entry, Group, Queue, Stage};
use super::{LookupJoinSpec, queue_state};
use crate::connectors::{AsyncLookupFunction, LookupFunction, LookupRows};
use crate::error::{Error, Result};
use crate::operators::window_buffer::OUTPUT_ROWS;
use crate::operators::{Context, Flow, InputIndex, Operator, Output};
use crate::state::StateSnapshot;
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{EventTime, ProcessingTime};

/// How many milliseconds pass between two looks at open questions.
const POLL_MS: i64 = 1;

/// More rows than these are not held; the input waits.
const HELD_ROWS: usize = 1 << 16;

/// How the table is asked.
pub enum LookupAsking {
    /// One row after the other, waiting for each answer.
    InTurn(Box<dyn LookupFunction>),
    /// Many rows at the same time.
    SideBySide(Box<dyn AsyncLookupFunction>, AsyncLookupSpec),
}

/// How rows wait for their answers side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncLookupSpec {
    /// Whether rows may overtake others between two watermarks. All rows must be inserts then.
    pub unordered: bool,
    /// How many rows may wait for an answer.
    pub capacity: usize,
    /// How long a row may wait, with all its retries, milliseconds.
    pub timeout_ms: u64,
}

/// How a key that was not found is asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupRetrySpec {
    /// How long after the last answer, milliseconds; at least 1.
    pub fixed_delay_ms: u64,
    /// How often after the first time.
    pub max_attempts: u32,
}

/// Takes changes, gives changes of the same kinds. State: the rows that wait, in their order and not by key, so that it stays in
/// memory as a whole.
///
/// Asked in turn, a row that is asked for again holds up all behind it. Side by side it holds up those behind it only where
/// the order is kept. At the end of input all rows that wait for a retry are asked for once more, at once.
pub struct QueuedLookupJoinOperator {
    joiner: Joiner,
    /// The table's name.
    table: String,
    asking: LookupAsking,
    retry: Option<LookupRetrySpec>,
    queue: Queue,
    /// How many rows wait for an answer.
    asked_rows: usize,
    /// Whether the input has ended, so that what is not found now is not asked for again.
    ends: bool,
    wake: Option<ProcessingTime>,
}

impl QueuedLookupJoinOperator {
    /// An operator as `spec` says, asking `table`.
    pub fn new(
        spec: LookupJoinSpec,
        table: String,
        asking: LookupAsking,
        retry: Option<LookupRetrySpec>,
    ) -> Self {
        let queue = match &asking {
            LookupAsking::InTurn(_) => Queue::new(false, OUTPUT_ROWS),
            LookupAsking::SideBySide(_, spec) => Queue::new(spec.unordered, spec.capacity),
        };
        QueuedLookupJoinOperator {
            joiner: Joiner::new(spec),
            table,
            asking,
            retry,
            queue,
            asked_rows: 0,
            ends: false,
            wake: None,
        }
    }

    /// Does what can be done now.
    fn work(&mut self, ctx: &Context, out: &mut Output) -> Result<Flow> {
        let flow = match &self.asking {
            LookupAsking::InTurn(_) => self.work_in_turn(ctx, out)?,
            LookupAsking::SideBySide(..) => {
                self.look_at_all(ctx)?;
                self.queue.emit(out)
            }
        };
        self.wake = self.next_look(ctx);
        if flow == Flow::Done && self.holds_input() {
            return Ok(Flow::Waiting);
        }
        Ok(flow)
    }

    /// Whether so much waits that the input has to.
    fn holds_input(&self) -> bool {
        let is_new = |group: &Group| matches!(group.stage, Stage::New);
        match &self.asking {
            _ if self.ends => !self.queue.is_empty(),
            LookupAsking::InTurn(_) => self.queue.rows() > HELD_ROWS,
            LookupAsking::SideBySide(..) => {
                self.queue.groups().any(is_new) || self.queue.rows() > HELD_ROWS
            }
        }
    }

    fn next_look(&self, ctx: &Context) -> Option<ProcessingTime> {
        let now = ctx.processing_time();
        let poll = (self.asked_rows > 0).then(|| after(now, POLL_MS as u64));
        let dues = self.queue.groups().filter_map(|group| match group.stage {
            Stage::Delayed { due, since } => Some(due.min(self.times_out(since.unwrap_or(now)))),
            _ => None,
        });
        dues.chain(poll).min()
    }

    fn times_out(&self, since: ProcessingTime) -> ProcessingTime {
        match &self.asking {
            LookupAsking::InTurn(_) => ProcessingTime(i64::MAX),
            LookupAsking::SideBySide(_, spec) => after(since, spec.timeout_ms),
        }
    }

    fn check_timeout(&self, ctx: &Context, since: ProcessingTime) -> Result<()> {
        let LookupAsking::SideBySide(_, spec) = &self.asking else {
            return Ok(());
        };
        if ctx.processing_time() < self.times_out(since) {
            return Ok(());
        }
        let (table, timeout_ms) = (&self.table, spec.timeout_ms);
        Err(Error::external(format!(
            "table \"{table}\": an asynchronous lookup has not come to an end in {timeout_ms} ms"
        ))
        .hint("raise 'timeout' of the hint LOOKUP or 'table.exec.async-lookup.timeout'; it includes all retries"))
    }

    /// Whether rows that were not found are asked for again after so many answers.
    fn tries_again(&self, attempts: u32) -> Option<LookupRetrySpec> {
        self.retry
            .filter(|retry| !self.ends && attempts <= retry.max_attempts)
    }

    fn work_in_turn(&mut self, ctx: &Context, out: &mut Output) -> Result<Flow> {
        loop {
            if self.queue.emit(out) == Flow::Blocked {
                return Ok(Flow::Blocked);
            }
            let group = match self.queue.entries.pop_front() {
                Some(Entry::Rows(group)) => group,
                _ => return Ok(Flow::Done),
            };
            if let Stage::Delayed { due, .. } = group.stage
                && due > ctx.processing_time()
                && !self.ends
            {
                self.queue.entries.push_front(Entry::Rows(group));
                return Ok(Flow::Done);
            }
            let parts = self.ask_in_turn(ctx, group)?;
            for part in parts.into_iter().rev() {
                self.queue.entries.push_front(Entry::Rows(part));
            }
        }
    }

    /// Asks for rows up to the first that is to be asked for again: those before it, it, and those behind it.
    fn ask_in_turn(&mut self, ctx: &Context, group: Group) -> Result<Vec<Group>> {
        let LookupAsking::InTurn(function) = &mut self.asking else {
            return Err(Error::internal("a row that is asked for in turn"));
        };
        let Group {
            batch, attempts, ..
        } = group;
        let question = self.joiner.question(ctx, &batch)?;
        let found = question.by_row(function.lookup(&question.request(ctx))?);
        let rows = batch.num_rows();
        let retry = self.tries_again(attempts + 1);
        let miss = retry.and_then(|retry| {
            let missed = question.missed(rows, &found);
            Some((missed.iter().position(|missed| *missed)?, retry))
        });
        let Some((row, retry)) = miss else {
            return Ok(vec![self.joined(ctx, &batch, &found)?]);
        };
        let now = ctx.processing_time();
        let mut parts = Vec::new();
        if row > 0 {
            let found = of_rows(&found, 0, row);
            parts.push(self.joined(ctx, &batch.slice(0, row), &found)?);
        }
        parts.push(Group {
            batch: batch.slice(row, 1),
            attempts: attempts + 1,
            stage: Stage::Delayed {
                due: after(now, retry.fixed_delay_ms),
                since: Some(now),
            },
        });
        if row + 1 < rows {
            parts.push(Group {
                batch: batch.slice(row + 1, rows - row - 1),
                attempts: 0,
                stage: Stage::New,
            });
        }
        Ok(parts)
    }

    fn joined(&self, ctx: &Context, batch: &ChangelogBatch, found: &LookupRows) -> Result<Group> {
        Ok(Group {
            batch: self.joiner.joined(ctx, batch, found)?,
            attempts: 0,
            stage: Stage::Joined,
        })
    }

    /// Takes the answers that have come, and asks what is due as far as there is room.
    fn look_at_all(&mut self, ctx: &Context) -> Result<()> {
        let entries = std::mem::take(&mut self.queue.entries);
        let mut looked_at = VecDeque::with_capacity(entries.len());
        for entry in entries {
            match entry {
                Entry::Rows(group) => self.look_at(ctx, group, &mut looked_at)?,
                watermark => looked_at.push_back(watermark),
            }
        }
        self.queue.entries = looked_at;
        Ok(())
    }

    fn look_at(&mut self, ctx: &Context, group: Group, after: &mut VecDeque<Entry>) -> Result<()> {
        let now = ctx.processing_time();
        let Group {
            batch,
            attempts,
            stage,
        } = group;
        let has_room = self.has_room(batch.num_rows());
        let stage = match stage {
            Stage::New if has_room => return self.ask(ctx, batch, attempts, now, after),
            Stage::Delayed { due, since } if (due <= now || self.ends) && has_room => {
                return self.ask(ctx, batch, attempts, since.unwrap_or(now), after);
            }
            Stage::Asked(mut asked) => match asked.handle.poll() {
                Some(found) => {
                    self.asked_rows -= batch.num_rows();
                    let since = asked.since;
                    let answer = (asked.question, found?);
                    return self.answered(ctx, batch, attempts, since, answer, after);
                }
                None => {
                    self.check_timeout(ctx, asked.since)?;
                    Stage::Asked(asked)
                }
            },
            Stage::Delayed { due, since } => {
                let since = since.unwrap_or(now);
                self.check_timeout(ctx, since)?;
                Stage::Delayed {
                    due,
                    since: Some(since),
                }
            }
            stage => stage,
        };
        after.push_back(Entry::Rows(Group {
            batch,
            attempts,
            stage,
        }));
        Ok(())
    }

    fn has_room(&self, rows: usize) -> bool {
        let LookupAsking::SideBySide(_, spec) = &self.asking else {
            return false;
        };
        self.asked_rows == 0 || self.asked_rows + rows <= spec.capacity
    }

    fn ask(
        &mut self,
        ctx: &Context,
        batch: ChangelogBatch,
        attempts: u32,
        since: ProcessingTime,
        after: &mut VecDeque<Entry>,
    ) -> Result<()> {
        let LookupAsking::SideBySide(function, _) = &mut self.asking else {
            return Err(Error::internal("a row that is asked for side by side"));
        };
        let question = self.joiner.question(ctx, &batch)?;
        let mut handle = function.start(&question.request(ctx))?;
        let found = match handle.poll() {
            Some(found) => found?,
            None if ctx.awaits_answers() => handle.wait()?,
            None => {
                self.asked_rows += batch.num_rows();
                let stage = Stage::Asked(Asked {
                    question,
                    handle,
                    since,
                });
                after.push_back(Entry::Rows(Group {
                    batch,
                    attempts,
                    stage,
                }));
                return Ok(());
            }
        };
        self.answered(ctx, batch, attempts, since, (question, found), after)
    }

    /// Joins the rows of a batch that were answered; runs of those that are to be asked for again stay beside them.
    fn answered(
        &mut self,
        ctx: &Context,
        batch: ChangelogBatch,
        attempts: u32,
        since: ProcessingTime,
        (question, found): (Question, LookupRows),
        after_it: &mut VecDeque<Entry>,
    ) -> Result<()> {
        let found = question.by_row(found);
        let Some(retry) = self.tries_again(attempts + 1) else {
            let joined = self.joined(ctx, &batch, &found)?;
            after_it.push_back(Entry::Rows(joined));
            return Ok(());
        };
        let missed = question.missed(batch.num_rows(), &found);
        let mut first = 0;
        for run in missed.chunk_by(|one, next| one == next) {
            let rows = batch.slice(first, run.len());
            let group = match run[0] {
                true => Group {
                    batch: rows,
                    attempts: attempts + 1,
                    stage: Stage::Delayed {
                        due: after(ctx.processing_time(), retry.fixed_delay_ms),
                        since: Some(since),
                    },
                },
                false => self.joined(ctx, &rows, &of_rows(&found, first, run.len()))?,
            };
            after_it.push_back(Entry::Rows(group));
            first += run.len();
        }
        Ok(())
    }
}

fn after(time: ProcessingTime, ms: u64) -> ProcessingTime {
    ProcessingTime(time.millis().saturating_add_unsigned(ms))
}

/// What was found for rows `first .. first + rows`, counted from the first of them.
fn of_rows(found: &LookupRows, first: usize, rows: usize) -> LookupRows {
    let place = |row: usize| found.of.partition_point(|known| (*known as usize) < row);
    let (begin, end) = (place(first), place(first + rows));
    let of = found.of[begin..end].iter();
    LookupRows {
        rows: found.rows.slice(begin, end - begin),
        of: of.map(|row| row - first as u32).collect(),
    }
}

impl Operator for QueuedLookupJoinOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        self.queue.push(&batch, ctx.watermark());
        self.work(ctx, out)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        self.queue.push_watermark(watermark);
        self.work(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.work(ctx, out)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        self.wake
    }

    fn on_processing_time(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.work(ctx, out)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        queue_state::snapshot(&self.queue, ctx)
    }

    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        queue_state::restore(&mut self.queue, ctx, &snapshot)?;
        self.wake = (!self.queue.is_empty()).then_some(ProcessingTime(i64::MIN));
        Ok(())
    }

    fn finish(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.ends = true;
        self.work(ctx, out)
    }
}

#[cfg(test)]
mod tests;
