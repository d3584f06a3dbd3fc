//! The running unit: a chain of operators behind a source or an input gate, moved by [`Task::step`].
//!
//! One step reads one element from the head and carries what comes of it down the chain and into the channels. Nothing
//! waits inside: where a channel is full or an operator is blocked, the elements stay in the queue of their operator and the
//! next step goes on with them. Threads and the deterministic stepper move the same tasks.
//!
//! One thing does not wait for room: a barrier that may overtake (see [`super::channel_state`]). The chain is emptied into the
//! channels for it, and it passes before anything else is read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::channel_state::{self, CHANNELS, ChannelState, OvertakenChannel, Reader};
use super::exchange::Router;
use super::gate::InputGate;
use super::metrics::SourceMetrics;
use super::read_ahead::{read_ahead, readers};
use crate::checkpoint::SnapshotReader;
use crate::connectors::source::PollRequest;
use crate::error::{Error, Result};
use crate::operators::{
    Context, Flow, InputIndex, Operator, Output, SourceOperator, SourceStatus, late_rows_batch,
};
use crate::planted::{Bug, is_planted};
use crate::state::StateSnapshot;
use crate::stream::{
    BarrierKind, CheckpointBarrier, CheckpointId, KeyGroup, KeyGroupRange, StreamElement,
    WatermarkStatus,
};
use crate::types::{EventTime, ProcessingTime};
use crate::watermark::SourceWatermarksState;

/// The surroundings of one step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepEnvironment {
    pub(crate) now: ProcessingTime,
    pub(crate) batch_rows: usize,
    pub(crate) batch_bytes: usize,
    /// The latest checkpoint asked for; sources that have not sent its barrier do so.
    pub(crate) checkpoint: CheckpointId,
    /// From when on its barrier overtakes what waits before it; `None`: never.
    pub(crate) overtakes_from: Option<ProcessingTime>,
    /// Whether and how the job is to stop.
    pub(crate) stop: StopMode,
}

/// How a job stops with a savepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopMode {
    /// It goes on.
    None,
    /// Nothing moves behind the barrier of this checkpoint.
    Suspend(CheckpointId),
    /// Sources end as if their input had ended.
    Drain,
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something moved: step again.
    Progress,
    /// Nothing can move before an element comes, room is made, or the time is reached.
    Idle { until: Option<ProcessingTime> },
    /// The task has ended.
    Finished,
}

/// What a task tells the checkpoint coordinator.
#[derive(Debug)]
pub(crate) struct TaskReport {
    pub(crate) task: usize,
    /// `None`: the task has ended and this is its last state.
    pub(crate) checkpoint: Option<CheckpointId>,
    pub(crate) snapshots: Vec<(String, StateSnapshot)>,
}

impl TaskReport {
    fn snapshot_of(&mut self, uid: &str) -> Option<&mut StateSnapshot> {
        let mut own = self.snapshots.iter_mut().filter(|(of, _)| of == uid);
        own.next().map(|(_, snapshot)| snapshot)
    }
}

/// See the module.
pub(crate) struct Task {
    pub(crate) index: usize,
    head: Head,
    slots: Vec<Slot>,
    router: Router,
    late: Router,
    emitted: EventTime,
    collected: Vec<(String, StateSnapshot)>,
    finished: bool,
    /// The checkpoint behind whose barrier it rests.
    suspended: Option<CheckpointId>,
    /// Whether a barrier is on its way through that waits for no room.
    hurries: bool,
    /// When a barrier that is waited for may overtake.
    overtakes_at: Option<ProcessingTime>,
    /// The report of a barrier that has gone through, but has not come on every channel or whose state is still being copied.
    unfinished: Option<TaskReport>,
    pub(crate) reports: VecDeque<TaskReport>,
}

pub(crate) enum Head {
    Source(Box<SourceHead>),
    Gate(InputGate),
}

/// A source operator with what the task keeps for it.
pub(crate) struct SourceHead {
    uid: String,
    operator: SourceOperator,
    ctx: Context,
    out: Output,
    metrics: Arc<SourceMetrics>,
    last_checkpoint: CheckpointId,
    pending_until: Option<ProcessingTime>,
    ended: bool,
}

/// An operator with its context, its queues, and the call that it has not completed.
pub(crate) struct Slot {
    uid: String,
    reader: Reader,
    operator: Box<dyn Operator>,
    ctx: Context,
    queue: VecDeque<(InputIndex, StreamElement)>,
    out: Output,
    pending: Option<Pending>,
    /// Whether the call goes on only when the operator's timer is due.
    waits: bool,
    /// The snapshot of which there is more to be copied, for all we know.
    copying: Option<CheckpointId>,
    /// What was copied of it.
    pieces: Vec<StateSnapshot>,
}

#[derive(Debug, Clone, Copy)]
enum Pending {
    Call,
    FlushBeforeBarrier(CheckpointBarrier),
    /// Behind an idle input time goes on without it, so nothing may be held back.
    FlushBeforeIdle,
    FlushBeforeEnd,
    Finish,
}

/// Where time stood for an operator instance; part of every snapshot.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct TimeState {
    subtask: usize,
    parallelism: usize,
    watermark: EventTime,
    emitted: EventTime,
}

const TIME: &str = "$time";

impl SourceHead {
    pub(crate) fn new(
        uid: String,
        operator: SourceOperator,
        ctx: Context,
        metrics: Arc<SourceMetrics>,
    ) -> Self {
        SourceHead {
            uid,
            operator,
            ctx,
            out: Output::new(false),
            metrics,
            last_checkpoint: CheckpointId(0),
            pending_until: None,
            ended: false,
        }
    }

    fn pop(&mut self) -> Option<StreamElement> {
        let element = self.out.pop()?;
        match &element {
            StreamElement::Batch(batch) => drop(
                self.metrics
                    .records
                    .fetch_add(batch.num_rows() as u64, Ordering::Relaxed),
            ),
            StreamElement::Watermark(watermark) => self
                .metrics
                .watermark
                .store(watermark.millis(), Ordering::Relaxed),
            _ => {}
        }
        Some(element)
    }

    fn poll(&mut self, env: &StepEnvironment) -> Result<bool> {
        self.ctx.set_processing_time(env.now);
        let request = PollRequest {
            max_rows: env.batch_rows,
            max_bytes: env.batch_bytes,
            now: env.now,
        };
        let status = match env.stop {
            StopMode::Drain => self.operator.drain(&mut self.ctx, &mut self.out),
            _ => self.operator.poll(&mut self.ctx, &request, &mut self.out)?,
        };
        self.pending_until = None;
        match status {
            SourceStatus::Emitted => return Ok(true),
            SourceStatus::Pending(until) => self.pending_until = until,
            SourceStatus::Ended => {
                self.ended = true;
                self.out.element(StreamElement::End);
            }
        }
        Ok(!self.out.is_empty())
    }

    /// Takes up its share of a snapshot, whose barrier has passed already; says how far its task had told the time.
    fn restore(&mut self, snapshot: &dyn SnapshotReader) -> Result<EventTime> {
        self.last_checkpoint = snapshot.checkpoint();
        let subtask = self.ctx.subtask();
        let state = snapshot.read(&self.uid, subtask.key_groups(), subtask.max_parallelism)?;
        if state.tables.is_empty() {
            return Ok(EventTime::MIN);
        }
        let time = restored_time(&state, &self.ctx)?;
        self.ctx.advance_watermark(time.watermark);
        self.operator.restore_state(&mut self.ctx, &state)?;
        Ok(time.emitted)
    }

    fn snapshot(&self, emitted: EventTime) -> Result<StateSnapshot> {
        let mut snapshot = self.operator.snapshot_state(self.ctx.subtask())?;
        snapshot.insert_json(TIME, &time_state(&self.ctx, emitted))?;
        Ok(snapshot)
    }
}

impl Slot {
    pub(crate) fn new(
        uid: String,
        reader: Reader,
        operator: Box<dyn Operator>,
        ctx: Context,
        keeps_late_rows: bool,
    ) -> Self {
        Slot {
            uid,
            reader,
            operator,
            ctx,
            queue: VecDeque::new(),
            out: Output::new(keeps_late_rows),
            pending: None,
            waits: false,
            copying: None,
            pieces: Vec::new(),
        }
    }

    /// Does one thing if there is one to do: goes on with a blocked call, or takes the next element.
    fn advance(
        &mut self,
        now: ProcessingTime,
        emitted: EventTime,
        collected: &mut Vec<(String, StateSnapshot)>,
    ) -> Result<bool> {
        self.ctx.set_processing_time(now);
        if let Some(pending) = self.pending {
            if !self.out.is_empty() || self.waits && !self.is_timer_due(now) {
                return Ok(false);
            }
            let flow = self.operator.resume(&mut self.ctx, &mut self.out)?;
            self.pending = None;
            self.after_call(flow, pending, emitted, collected)?;
            return Ok(true);
        }
        if self.out.is_full() {
            return Ok(false);
        }
        let Some((input, element)) = self.queue.pop_front() else {
            return Ok(false);
        };
        self.process(input, element, emitted, collected)?;
        Ok(true)
    }

    fn process(
        &mut self,
        input: InputIndex,
        element: StreamElement,
        emitted: EventTime,
        collected: &mut Vec<(String, StateSnapshot)>,
    ) -> Result<()> {
        let (flow, pending) = match element {
            StreamElement::Batch(batch) => {
                self.ctx
                    .metrics()
                    .records_in
                    .fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                (
                    self.operator
                        .process_batch(&mut self.ctx, input, batch, &mut self.out)?,
                    Pending::Call,
                )
            }
            StreamElement::Watermark(watermark) if watermark > self.ctx.watermark() => {
                self.ctx.advance_watermark(watermark);
                (
                    self.operator
                        .process_watermark(&mut self.ctx, watermark, &mut self.out)?,
                    Pending::Call,
                )
            }
            StreamElement::Watermark(_) => return Ok(()),
            StreamElement::Status(WatermarkStatus::Active) => {
                self.out
                    .element(StreamElement::Status(WatermarkStatus::Active));
                return Ok(());
            }
            StreamElement::Status(WatermarkStatus::Idle) => (
                self.operator.flush_bundle(&mut self.ctx, &mut self.out)?,
                Pending::FlushBeforeIdle,
            ),
            StreamElement::Barrier(barrier) => (
                match is_planted(Bug::BundleNotFlushed) {
                    true => Flow::Done,
                    false => self.operator.flush_bundle(&mut self.ctx, &mut self.out)?,
                },
                Pending::FlushBeforeBarrier(barrier),
            ),
            StreamElement::End => (
                self.operator.flush_bundle(&mut self.ctx, &mut self.out)?,
                Pending::FlushBeforeEnd,
            ),
        };
        self.after_call(flow, pending, emitted, collected)
    }

    fn after_call(
        &mut self,
        flow: Flow,
        pending: Pending,
        emitted: EventTime,
        collected: &mut Vec<(String, StateSnapshot)>,
    ) -> Result<()> {
        self.waits = flow == Flow::Waiting;
        match flow {
            Flow::Done => self.complete(pending, emitted, collected),
            Flow::Blocked | Flow::Waiting => {
                self.pending = Some(pending);
                Ok(())
            }
        }
    }

    /// What follows a completed call.
    fn complete(
        &mut self,
        pending: Pending,
        emitted: EventTime,
        collected: &mut Vec<(String, StateSnapshot)>,
    ) -> Result<()> {
        match pending {
            Pending::Call => Ok(()),
            Pending::FlushBeforeIdle => {
                self.out
                    .element(StreamElement::Status(WatermarkStatus::Idle));
                Ok(())
            }
            Pending::FlushBeforeBarrier(barrier) => {
                let snapshot = match barrier.kind {
                    BarrierKind::Checkpoint => self.snapshot(barrier.checkpoint, emitted)?,
                    // Nothing goes on behind it.
                    BarrierKind::Suspend => self.whole_snapshot(barrier.checkpoint, emitted)?,
                };
                collected.push(snapshot);
                self.out.element(StreamElement::Barrier(barrier));
                Ok(())
            }
            Pending::FlushBeforeEnd => {
                let flow = self.operator.finish(&mut self.ctx, &mut self.out)?;
                self.after_call(flow, Pending::Finish, emitted, collected)
            }
            Pending::Finish => {
                collected.push(self.whole_snapshot(CheckpointId(u64::MAX), emitted)?);
                self.out.element(StreamElement::End);
                Ok(())
            }
        }
    }

    fn snapshot(
        &mut self,
        checkpoint: CheckpointId,
        emitted: EventTime,
    ) -> Result<(String, StateSnapshot)> {
        while self.copy_on()? {}
        let begun = Instant::now();
        let mut snapshot = self.operator.snapshot_state(&mut self.ctx, checkpoint)?;
        let taken = self.note_pause(begun);
        self.ctx.metrics().snapshot_times.record(taken);
        snapshot.insert_json(TIME, &time_state(&self.ctx, emitted))?;
        self.copying = Some(checkpoint);
        Ok((self.uid.clone(), snapshot))
    }

    /// The same with all that the operator would copy later.
    fn whole_snapshot(
        &mut self,
        checkpoint: CheckpointId,
        emitted: EventTime,
    ) -> Result<(String, StateSnapshot)> {
        let (uid, mut snapshot) = self.snapshot(checkpoint, emitted)?;
        // What is there already belongs to the snapshot before, which is not yet reported.
        let before = std::mem::take(&mut self.pieces);
        while self.copy_on()? {}
        let pieces = std::mem::replace(&mut self.pieces, before);
        pieces
            .into_iter()
            .for_each(|piece| snapshot.add_piece(piece));
        Ok((uid, snapshot))
    }

    /// Copies some more of the last snapshot, as long as there is any.
    fn copy_on(&mut self) -> Result<bool> {
        if self.copying.is_none() {
            return Ok(false);
        }
        let begun = Instant::now();
        match self.operator.continue_snapshot(&mut self.ctx)? {
            Some(piece) => self.pieces.push(piece),
            None => self.copying = None,
        }
        self.note_pause(begun);
        Ok(self.copying.is_some())
    }

    /// Nanoseconds since `begun`, for which rows have waited.
    fn note_pause(&self, begun: Instant) -> u64 {
        let taken = begun.elapsed().as_nanos() as u64;
        let longest = &self.ctx.metrics().longest_snapshot_ns;
        longest.fetch_max(taken, Ordering::Relaxed);
        taken
    }

    fn is_timer_due(&self, now: ProcessingTime) -> bool {
        let timer = self.operator.next_processing_timer();
        timer.is_some_and(|due| due <= now)
    }

    fn fire_timer(
        &mut self,
        now: ProcessingTime,
        emitted: EventTime,
        collected: &mut Vec<(String, StateSnapshot)>,
    ) -> Result<bool> {
        if self.pending.is_some() || !self.is_timer_due(now) {
            return Ok(false);
        }
        self.ctx.set_processing_time(now);
        let flow = self
            .operator
            .on_processing_time(&mut self.ctx, &mut self.out)?;
        self.after_call(flow, Pending::Call, emitted, collected)?;
        Ok(true)
    }

    /// Takes up its share of a snapshot. Says how far it had told the time, and what was on its way into all its instances.
    fn restore(&mut self, snapshot: &dyn SnapshotReader) -> Result<(EventTime, ChannelState)> {
        let subtask = self.ctx.subtask();
        let mut channels = ChannelState::default();
        let mut emitted = EventTime::MIN;
        let pieces = subtask.key_groups().pieces(self.operator.restore_pieces());
        let pieces: Vec<_> = pieces
            .into_iter()
            .map(|groups| with_planted_fault(groups, subtask.max_parallelism))
            .collect();
        let count = pieces.len();
        let uid = self.uid.clone();
        let read = |groups| snapshot.read(&uid, groups, subtask.max_parallelism);
        read_ahead(
            pieces,
            readers(snapshot.bytes()),
            read,
            |number, mut state| {
                if number == 0 {
                    state.first_of = count;
                    let time = restored_time(&state, &self.ctx)?;
                    if !is_planted(Bug::WatermarkForgotten) {
                        self.ctx.advance_watermark(time.watermark);
                    }
                    emitted = time.emitted;
                    channels = ChannelState::read(&self.reader, state.batches(CHANNELS))?;
                } else {
                    state.retain_keyed();
                }
                self.operator
                    .restore_state(&mut self.ctx, state)
                    .map_err(|error| {
                        error.context(format!("while restoring {}", self.reader.operator))
                    })
            },
        )?;
        Ok((emitted, channels))
    }
}

fn time_state(ctx: &Context, emitted: EventTime) -> TimeState {
    let subtask = ctx.subtask();
    TimeState {
        subtask: subtask.index,
        parallelism: subtask.parallelism,
        watermark: ctx.watermark(),
        emitted,
    }
}

/// One group less, or some of the neighbour's more, where such a fault is planted.
fn with_planted_fault(groups: KeyGroupRange, max_parallelism: u16) -> KeyGroupRange {
    let (mut first, mut last) = (groups.first.0, groups.last.0);
    if is_planted(Bug::KeyGroupLost) && first > 0 {
        first = last.min(first + 1);
    }
    if is_planted(Bug::KeyGroupDoubled) {
        last = (last + max_parallelism / 8).min(max_parallelism - 1);
    }
    KeyGroupRange {
        first: KeyGroup(first),
        last: KeyGroup(last),
    }
}

/// The time at which this instance goes on: its own where the parallelism is the same, else the lowest of all.
fn restored_time(state: &StateSnapshot, ctx: &Context) -> Result<TimeState> {
    let times: Vec<TimeState> = state.json(TIME)?;
    let subtask = ctx.subtask();
    let own = times
        .iter()
        .find(|time| time.subtask == subtask.index && time.parallelism == subtask.parallelism);
    let lowest =
        |time: fn(&TimeState) -> EventTime| times.iter().map(time).min().unwrap_or(EventTime::MIN);
    Ok(own.copied().unwrap_or_else(|| TimeState {
        watermark: lowest(|time| time.watermark),
        emitted: lowest(|time| time.emitted),
        ..time_state(ctx, EventTime::MIN)
    }))
}

impl Task {
    /// Sets how much may wait in the output of each operator.
    pub(crate) fn limit_outputs(&mut self, bytes: usize) {
        let slots = self.slots.iter_mut();
        slots.for_each(|slot| slot.out.set_limit(bytes));
    }

    /// A task; `late` is where its operators' late rows go.
    pub(crate) fn new(
        index: usize,
        head: Head,
        slots: Vec<Slot>,
        router: Router,
        late: Router,
    ) -> Self {
        Task {
            index,
            head,
            slots,
            router,
            late,
            emitted: EventTime::MIN,
            collected: Vec::new(),
            finished: false,
            suspended: None,
            hurries: false,
            overtakes_at: None,
            unfinished: None,
            reports: VecDeque::new(),
        }
    }

    /// Takes up the state of a checkpoint, before the first step. Tells those behind where time stands.
    pub(crate) fn restore(&mut self, snapshot: &dyn SnapshotReader) -> Result<()> {
        if let Head::Source(source) = &mut self.head {
            self.emitted = source.restore(snapshot)?;
        }
        let mut on_their_way = Vec::new();
        for slot in &mut self.slots {
            let (emitted, channels) = slot.restore(snapshot)?;
            self.emitted = self.emitted.max(emitted);
            on_their_way.push(channels);
        }
        if let (Head::Gate(gate), Some(first)) = (&mut self.head, self.slots.first()) {
            gate.restore(first.ctx.watermark());
        }
        for (index, channels) in on_their_way.into_iter().enumerate() {
            self.replay(index, channels)?;
        }
        if self.emitted > EventTime::MIN {
            self.router.send(StreamElement::Watermark(self.emitted))?;
        }
        Ok(())
    }

    /// All tasks have been restored.
    pub(crate) fn on_restored(&mut self) -> Result<()> {
        let mut slots = self.slots.iter_mut();
        slots.try_for_each(|slot| slot.operator.on_restored())
    }

    /// Goes on with what was on its way into an operator: channel by channel where they are as they were.
    fn replay(&mut self, index: usize, channels: ChannelState) -> Result<()> {
        if channels.is_empty() {
            return Ok(());
        }
        let subtask = self.slots[index].ctx.subtask();
        match &mut self.head {
            Head::Gate(gate) if index == 0 && channels.fits(subtask, &gate.origins()) => {
                gate.replay(channels.of_instance(subtask)?);
            }
            _ => self.slots[index].queue.extend(channels.dealt(subtask)?),
        }
        Ok(())
    }

    /// Has no channel of the task wait for another at a barrier.
    pub(crate) fn count_barriers(&mut self) {
        if let Head::Gate(gate) = &mut self.head {
            gate.count_barriers();
        }
    }

    /// Moves the task as far as one element of its input takes it.
    pub(crate) fn step(&mut self, env: &StepEnvironment) -> Result<Step> {
        if self.finished {
            return Ok(Step::Finished);
        }
        if self.is_suspended(env) {
            return Ok(Step::Idle { until: None });
        }
        let copied = self.finish_report()?;
        self.see_overtaking(env);
        let mut progressed = self.run_chain(env.now)? || copied;
        if self.suspended.is_none() && self.is_clear() && self.read(env)? {
            progressed = true;
            self.run_chain(env.now)?;
        }
        Ok(match (self.finished, progressed) {
            (true, _) => Step::Finished,
            (false, true) => Step::Progress,
            (false, false) => Step::Idle {
                until: self.next_time(),
            },
        })
    }

    /// Whether there is a barrier to hurry for, now or later.
    fn see_overtaking(&mut self, env: &StepEnvironment) {
        self.overtakes_at = None;
        let Some(from) = env.overtakes_from.filter(|_| !self.hurries) else {
            return;
        };
        let is_waited_for = match &self.head {
            Head::Source(source) => source.last_checkpoint < env.checkpoint && !source.ended,
            Head::Gate(gate) => gate.can_overtake(env.checkpoint),
        };
        match is_waited_for && from <= env.now {
            true => self.hurries = true,
            false => self.overtakes_at = is_waited_for.then_some(from),
        }
    }

    /// Takes the next thing from the head: timers that are due go first, but for a barrier that overtakes.
    fn read(&mut self, env: &StepEnvironment) -> Result<bool> {
        match &mut self.head {
            Head::Gate(gate) if self.hurries && gate.can_overtake(env.checkpoint) => {
                gate.overtake(env.checkpoint);
                self.read_head(env)
            }
            _ if self.hurries => self.read_head(env),
            _ => Ok(self.fire_timers(env.now)? || self.read_head(env)?),
        }
    }

    fn has_room(&self) -> bool {
        self.hurries || self.router.has_room()
    }

    /// Whether it rests behind the barrier of a stop. It goes on when the stop has been given up.
    fn is_suspended(&mut self, env: &StepEnvironment) -> bool {
        self.suspended = self
            .suspended
            .filter(|checkpoint| env.stop == StopMode::Suspend(*checkpoint));
        self.suspended.is_some()
    }

    /// Has the operators wait for every answer from outside, so that a run can be run again.
    pub(crate) fn await_answers(&mut self) {
        self.slots
            .iter_mut()
            .for_each(|slot| slot.ctx.await_answers());
    }

    /// Commits what belongs to a completed checkpoint. Also called on a task that has ended.
    pub(crate) fn notify_checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<()> {
        for slot in &mut self.slots {
            slot.operator
                .notify_checkpoint_complete(&mut slot.ctx, checkpoint)?;
        }
        match &mut self.head {
            Head::Source(source) => source.operator.notify_checkpoint_complete(),
            Head::Gate(_) => Ok(()),
        }
    }

    /// The event time of the task's operators, by their stable ids.
    pub(crate) fn watermarks(&self) -> Vec<(String, EventTime)> {
        let slots = self.slots.iter();
        slots
            .map(|slot| (slot.uid.clone(), slot.ctx.watermark()))
            .collect()
    }

    /// The times of its source's splits, by the source's stable id.
    pub(crate) fn split_watermarks(&self) -> Option<(String, SourceWatermarksState)> {
        match &self.head {
            Head::Source(source) => Some((source.uid.clone(), source.operator.watermarks())),
            Head::Gate(_) => None,
        }
    }

    /// Whether the task has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Before any row is read: a source subtask without splits says that it is idle or has ended, and the tasks behind it pass
    /// that on. So who holds the watermark back does not depend on which thread is first. Rows that were on their way at a restored
    /// checkpoint stay where they are; what follows them is not passed on before them.
    pub(crate) fn prime(&mut self, env: &StepEnvironment) -> Result<()> {
        match &self.head {
            Head::Source(source) if source.operator.has_splits() => Ok(()),
            Head::Source(_) => self.step(env).map(drop),
            Head::Gate(_) => {
                while self.has_control_next() && self.step(env)? == Step::Progress {}
                Ok(())
            }
        }
    }

    /// Whether what comes next into the chain is no row.
    fn has_control_next(&self) -> bool {
        let is_next = match &self.head {
            Head::Source(_) => false,
            Head::Gate(gate) => gate.has_control(),
        };
        is_next && self.slots.iter().all(|slot| slot.queue.is_empty())
    }

    /// Whether nothing waits inside, so that the head may be read.
    fn is_clear(&self) -> bool {
        let head_clear = match &self.head {
            Head::Source(source) => source.out.is_empty(),
            Head::Gate(_) => true,
        };
        head_clear
            && self.has_room()
            && self
                .slots
                .iter()
                .all(|slot| slot.queue.is_empty() && slot.out.is_empty() && slot.pending.is_none())
    }

    /// When a timer of the task is due or its source wants to be polled again.
    pub(crate) fn next_time(&self) -> Option<ProcessingTime> {
        if self.suspended.is_some() {
            return None;
        }
        let polled = match &self.head {
            Head::Source(source) => source.pending_until,
            Head::Gate(_) => None,
        };
        self.slots
            .iter()
            .filter_map(|slot| slot.operator.next_processing_timer())
            .chain(polled)
            .chain(self.overtakes_at)
            .min()
    }

    /// Carries elements down the chain until nothing moves.
    fn run_chain(&mut self, now: ProcessingTime) -> Result<bool> {
        let mut progressed = false;
        while self.move_once(now)? {
            progressed = true;
        }
        Ok(progressed)
    }

    /// One move, the furthest down the chain that is possible.
    fn move_once(&mut self, now: ProcessingTime) -> Result<bool> {
        for index in (0..self.slots.len()).rev() {
            if self.drain(index)?
                || self.slots[index].advance(now, self.emitted, &mut self.collected)?
            {
                return Ok(true);
            }
        }
        self.drain_head()
    }

    /// Hands the output of an operator to the next one, or to the channels while they have room.
    fn drain(&mut self, index: usize) -> Result<bool> {
        self.drain_late(index)?;
        let mut moved = false;
        if index + 1 == self.slots.len() {
            while self.has_room() {
                let Some(element) = self.slots[index].out.pop() else {
                    break;
                };
                count_out(&self.slots[index].ctx, &element);
                self.send(element)?;
                moved = true;
            }
            return Ok(moved);
        }
        let (before, after) = self.slots.split_at_mut(index + 1);
        let (slot, next) = (&mut before[index], &mut after[0]);
        if next.queue.is_empty() && next.pending.is_none() {
            while let Some(element) = slot.out.pop() {
                count_out(&slot.ctx, &element);
                next.queue.push_back((InputIndex::FIRST, element));
                moved = true;
            }
        }
        Ok(moved)
    }

    fn drain_head(&mut self) -> Result<bool> {
        let Head::Source(source) = &mut self.head else {
            return Ok(false);
        };
        let mut moved = false;
        if let Some(first) = self.slots.first_mut() {
            if first.queue.is_empty() && first.pending.is_none() {
                while let Some(element) = source.pop() {
                    first.queue.push_back((InputIndex::FIRST, element));
                    moved = true;
                }
            }
            return Ok(moved);
        }
        while self.has_room() {
            let Head::Source(source) = &mut self.head else {
                break;
            };
            let Some(element) = source.pop() else { break };
            self.send(element)?;
            moved = true;
        }
        Ok(moved)
    }

    fn drain_late(&mut self, index: usize) -> Result<()> {
        let slot = &mut self.slots[index];
        while let Some(late) = slot.out.pop_late() {
            if !self.late.is_empty() {
                self.late.send(StreamElement::Batch(late_rows_batch(
                    &slot.reader.operator,
                    &late,
                )?))?;
            }
        }
        Ok(())
    }

    /// Sends an element out of the task; control elements also tell those who wait for late rows.
    fn send(&mut self, element: StreamElement) -> Result<()> {
        match &element {
            StreamElement::Watermark(watermark) => self.emitted = self.emitted.max(*watermark),
            StreamElement::Barrier(barrier) => {
                self.hurries = false;
                self.report(Some(barrier.checkpoint))?;
                if barrier.kind == BarrierKind::Suspend {
                    self.suspended = Some(barrier.checkpoint);
                }
            }
            StreamElement::End => {
                self.finished = true;
                self.hurries = false;
                self.report(None)?;
            }
            StreamElement::Batch(_) | StreamElement::Status(_) => {}
        }
        if !matches!(element, StreamElement::Batch(_)) && !self.late.is_empty() {
            self.late.send(element.clone())?;
        }
        self.router.send(element)
    }

    fn report(&mut self, checkpoint: Option<CheckpointId>) -> Result<()> {
        while self.finish_report()? {}
        let snapshots = std::mem::take(&mut self.collected);
        let report = TaskReport {
            task: self.index,
            checkpoint,
            snapshots,
        };
        if checkpoint.is_none() {
            self.reports.push_back(report);
            return Ok(());
        }
        self.unfinished = Some(report);
        self.finish_report().map(drop)
    }

    /// Reports for a barrier once the state is copied and, where it overtook, it has come on every channel. Whether some was copied.
    fn finish_report(&mut self) -> Result<bool> {
        if self.unfinished.is_none() {
            return Ok(false);
        }
        for slot in &mut self.slots {
            if slot.copy_on()? {
                return Ok(true);
            }
        }
        let overtaken = match &mut self.head {
            Head::Gate(gate) if gate.has_overtaken() => gate.take_overtaken(),
            _ => Some(Vec::new()),
        };
        let Some(overtaken) = overtaken else {
            return Ok(false);
        };
        let Some(mut report) = self.unfinished.take() else {
            return Ok(false);
        };
        self.add_overtaken(&mut report, overtaken)?;
        self.add_pieces(&mut report);
        self.reports.push_back(report);
        Ok(false)
    }

    /// Adds what the barrier has overtaken on its way into the first operator.
    fn add_overtaken(
        &self,
        report: &mut TaskReport,
        overtaken: Vec<OvertakenChannel>,
    ) -> Result<()> {
        let Some(first) = self.slots.first().filter(|_| !overtaken.is_empty()) else {
            return Ok(());
        };
        let table = channel_state::to_table(&first.reader, first.ctx.subtask(), overtaken)?;
        let own = report.snapshot_of(&first.uid);
        if let (Some(snapshot), Some(table)) = (own, table) {
            snapshot.insert_operator(CHANNELS, vec![table]);
        }
        Ok(())
    }

    /// Adds what was copied behind the barrier.
    fn add_pieces(&mut self, report: &mut TaskReport) {
        for slot in &mut self.slots {
            let pieces = std::mem::take(&mut slot.pieces).into_iter();
            if let Some(snapshot) = report.snapshot_of(&slot.uid) {
                pieces.for_each(|piece| snapshot.add_piece(piece));
            }
        }
    }

    fn fire_timers(&mut self, now: ProcessingTime) -> Result<bool> {
        for slot in &mut self.slots {
            if slot.fire_timer(now, self.emitted, &mut self.collected)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn read_head(&mut self, env: &StepEnvironment) -> Result<bool> {
        match &mut self.head {
            Head::Source(source) => {
                if source.ended {
                    return Ok(false);
                }
                if source.last_checkpoint < env.checkpoint {
                    source.last_checkpoint = env.checkpoint;
                    let barrier = barrier_of(env);
                    self.collected
                        .push((source.uid.clone(), source.snapshot(self.emitted)?));
                    source.out.element(StreamElement::Barrier(barrier));
                    return Ok(true);
                }
                let emitted = source.poll(env)?;
                if source.ended {
                    self.collected
                        .push((source.uid.clone(), source.snapshot(self.emitted)?));
                }
                Ok(emitted)
            }
            Head::Gate(gate) => {
                let next = gate.next(env.batch_rows)?;
                let first = self
                    .slots
                    .first_mut()
                    .ok_or_else(|| Error::internal("a task without a source has an operator"))?;
                if let Some(watermarks) = gate.input_watermarks() {
                    first.ctx.metrics().waiting.set_watermarks(watermarks);
                }
                let is_next = next.is_some();
                first.queue.extend(next);
                Ok(is_next)
            }
        }
    }
}

/// The barrier of the checkpoint that was asked for.
fn barrier_of(env: &StepEnvironment) -> CheckpointBarrier {
    let kind = match env.stop {
        StopMode::Suspend(checkpoint) if checkpoint == env.checkpoint => BarrierKind::Suspend,
        _ => BarrierKind::Checkpoint,
    };
    CheckpointBarrier {
        checkpoint: env.checkpoint,
        kind,
    }
}

fn count_out(ctx: &Context, element: &StreamElement) {
    if let StreamElement::Batch(batch) = element {
        ctx.metrics()
            .records_out
            .fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
    }
}
