//! The way into a task: reads its channels in turn, aligns barriers, and tells event time as the minimum over channels.
//!
//! A barrier holds back the channels that it has come on until it has come on all. Where a row may count twice
//! (`AT_LEAST_ONCE`) barriers are only counted; and one that may overtake does not wait (see [`super::channel_state`]).

use std::collections::VecDeque;

use super::channel::Receiver;
use super::channel_state::{ChannelOrigin, ChannelReplay, OvertakenChannel};
use crate::error::Result;
use crate::operators::InputIndex;
use crate::planted::{Bug, is_planted};
use crate::stream::{BarrierKind, CheckpointBarrier, CheckpointId, StreamElement, WatermarkStatus};
use crate::types::EventTime;
use crate::watermark::WatermarkValve;

/// The channels of one subtask over all its inputs.
pub(crate) struct InputGate {
    channels: Vec<GateChannel>,
    valve: WatermarkValve,
    aligning: Option<CheckpointBarrier>,
    ready: VecDeque<(InputIndex, StreamElement)>,
    cursor: usize,
    ended: bool,
    counts_barriers: bool,
    /// The last checkpoint whose barrier has gone into the chain.
    passed: CheckpointId,
    /// What the last barrier has overtaken, until the task takes it; one a channel.
    overtaken: Option<Vec<OvertakenChannel>>,
}

struct GateChannel {
    receiver: Receiver,
    origin: ChannelOrigin,
    input: InputIndex,
    state: ChannelState,
}

#[derive(PartialEq, Eq)]
enum ChannelState {
    Open,
    /// Its barrier has come; the other channels' have not.
    Blocked,
    Ended,
}

impl InputGate {
    /// A gate over `channels`; at least one.
    pub(crate) fn new(channels: Vec<(Receiver, ChannelOrigin)>) -> Self {
        assert!(!channels.is_empty(), "a task without a source has an input");
        let valve = WatermarkValve::new(channels.len());
        let channels = channels
            .into_iter()
            .map(|(receiver, origin)| GateChannel {
                receiver,
                input: InputIndex(origin.input),
                origin,
                state: ChannelState::Open,
            })
            .collect();
        InputGate {
            channels,
            valve,
            aligning: None,
            ready: VecDeque::new(),
            cursor: 0,
            ended: false,
            counts_barriers: false,
            passed: CheckpointId(0),
            overtaken: None,
        }
    }

    /// From now on no channel waits for another at a barrier.
    pub(crate) fn count_barriers(&mut self) {
        self.counts_barriers = true;
    }

    /// The watermark never goes below what it was at the restored checkpoint; the channels say anew how far they are.
    pub(crate) fn restore(&mut self, watermark: EventTime) {
        self.valve.restore(watermark);
    }

    /// The next element of some channel; `None` where nothing waits. Watermarks are those of the whole gate, and `Barrier` and
    /// `End` come once, when they have come on every channel.
    pub(crate) fn next(
        &mut self,
        batch_rows: usize,
    ) -> Result<Option<(InputIndex, StreamElement)>> {
        loop {
            if let Some(element) = self.ready.pop_front() {
                return Ok(Some(element));
            }
            self.record_arrived();
            let Some((channel, element)) = self.receive(batch_rows)? else {
                return Ok(None);
            };
            if !self.record(channel, &element) {
                self.take(channel, element);
            }
        }
    }

    /// Whether the barrier of a checkpoint has come on some channel and may overtake on those where it has not been read.
    pub(crate) fn can_overtake(&self, checkpoint: CheckpointId) -> bool {
        if checkpoint <= self.passed {
            return false;
        }
        let waits = |channel: &GateChannel| {
            channel.state == ChannelState::Open && !channel.origin.is_overtakable
        };
        let may = |barrier: CheckpointBarrier| {
            barrier.checkpoint == checkpoint && barrier.kind == BarrierKind::Checkpoint
        };
        let mut channels = self.channels.iter();
        !self.channels.iter().any(waits)
            && (self.aligning.is_some_and(may)
                || channels.any(|channel| channel.receiver.has_barrier(checkpoint)))
    }

    /// Has the barrier of a checkpoint overtake what waits: it is the next that comes. What it has overtaken is recorded.
    pub(crate) fn overtake(&mut self, checkpoint: CheckpointId) {
        let overtaken = (0..self.channels.len()).map(|index| {
            let channel = &self.channels[index];
            let is_open = channel.state == ChannelState::Open;
            OvertakenChannel {
                origin: channel.origin.clone(),
                time: self.valve.channel_time(index),
                elements: Vec::new(),
                is_open,
            }
        });
        self.overtaken = Some(overtaken.collect());
        self.aligning = None;
        self.passed = checkpoint;
        self.open_blocked();
        self.record_arrived();
        let barrier = CheckpointBarrier::new(checkpoint);
        self.ready
            .push_back((InputIndex::FIRST, StreamElement::Barrier(barrier)));
    }

    /// What the last barrier has overtaken, when it has come on every channel.
    pub(crate) fn take_overtaken(&mut self) -> Option<Vec<OvertakenChannel>> {
        self.record_arrived();
        let overtaken = self.overtaken.as_ref()?;
        if overtaken.iter().any(|channel| channel.is_open) {
            return None;
        }
        self.overtaken.take()
    }

    /// Whether a record of what was overtaken has been begun and not taken.
    pub(crate) fn has_overtaken(&self) -> bool {
        self.overtaken.is_some()
    }

    /// Ends the record of the channels whose barrier, or end, has come meanwhile.
    fn record_arrived(&mut self) {
        let checkpoint = self.passed;
        let channels = self.channels.iter();
        for (record, channel) in self.overtaken.iter_mut().flatten().zip(channels) {
            if !record.is_open {
                continue;
            }
            if let Some(before) = channel.receiver.overtake(checkpoint) {
                record.elements.extend(before);
                record.is_open = false;
            }
        }
    }

    /// Records what was read of a channel whose barrier is still to come. True where it is that barrier, which has gone ahead.
    fn record(&mut self, index: usize, element: &StreamElement) -> bool {
        let record = self.overtaken.as_mut().map(|records| &mut records[index]);
        let Some(record) = record.filter(|record| record.is_open) else {
            return false;
        };
        match element {
            StreamElement::Barrier(_) | StreamElement::End => record.is_open = false,
            other => record.elements.push(other.clone()),
        }
        matches!(element, StreamElement::Barrier(_))
    }

    /// Which channels these are.
    pub(crate) fn origins(&self) -> Vec<&ChannelOrigin> {
        self.channels
            .iter()
            .map(|channel| &channel.origin)
            .collect()
    }

    /// Goes on with what was overtaken before a restore.
    pub(crate) fn replay(&mut self, replays: Vec<ChannelReplay>) {
        for replay in replays {
            let is_it = |channel: &GateChannel| {
                channel.origin.edge == replay.edge && channel.origin.sender == replay.sender
            };
            let Some(index) = self.channels.iter().position(is_it) else {
                continue;
            };
            if let Some(time) = replay.time {
                self.valve.restore_channel(index, time);
            }
            self.channels[index].receiver.replay(replay.elements);
        }
    }

    /// Whether something else than a row is the next that comes.
    pub(crate) fn has_control(&self) -> bool {
        let mut open = (0..self.channels.len()).filter(|index| self.is_open(*index));
        let is_next = |index: usize| self.channels[index].receiver.is_control_next();
        match self.ready.front() {
            Some((_, element)) => !matches!(element, StreamElement::Batch(_)),
            None => open.any(is_next),
        }
    }

    /// The front of some open channel. Control elements come first: how far the channels are is known before rows are judged
    /// by it. Among rows the channels take turns.
    fn receive(&mut self, batch_rows: usize) -> Result<Option<(usize, StreamElement)>> {
        let count = self.channels.len();
        let control = (0..count)
            .find(|index| self.is_open(*index) && self.channels[*index].receiver.is_control_next());
        let turns = (0..count)
            .map(|step| (self.cursor + step) % count)
            .filter(|index| self.is_open(*index));
        for index in control.into_iter().chain(turns) {
            if let Some(element) = self.channels[index].receiver.receive(batch_rows)? {
                if control.is_none() {
                    self.cursor = (index + 1) % count;
                }
                return Ok(Some((index, element)));
            }
        }
        Ok(None)
    }

    /// How far each input of two has come; an ended channel holds nothing back. `None` for one input.
    pub(crate) fn input_watermarks(&self) -> Option<[EventTime; 2]> {
        let of_input = |input: InputIndex| {
            let channels = (0..self.channels.len()).filter(|at| self.channels[*at].input == input);
            let watermark = |at: usize| match self.channels[at].state {
                ChannelState::Ended => EventTime::MAX,
                _ => self.valve.channel_watermark(at),
            };
            channels.map(watermark).min()
        };
        Some([of_input(InputIndex::FIRST)?, of_input(InputIndex::SECOND)?])
    }

    fn is_open(&self, index: usize) -> bool {
        let state = &self.channels[index].state;
        let overtakes = *state == ChannelState::Blocked
            && (self.counts_barriers || is_planted(Bug::BarrierOvertaken));
        *state == ChannelState::Open || overtakes
    }

    fn take(&mut self, index: usize, element: StreamElement) {
        let input = self.channels[index].input;
        match element {
            StreamElement::Batch(mut batch) => {
                batch.steps = self.valve.combine_steps(index, &batch.steps);
                self.ready.push_back((input, StreamElement::Batch(batch)));
            }
            StreamElement::Watermark(watermark) => {
                let change = self.valve.on_watermark(index, watermark);
                self.announce(change.status, change.watermark);
            }
            StreamElement::Status(status) => {
                let change = self.valve.on_status(index, status);
                self.announce(change.status, change.watermark);
            }
            StreamElement::Barrier(barrier) => {
                self.channels[index].state = ChannelState::Blocked;
                assert!(
                    self.aligning.is_none_or(|other| other == barrier),
                    "the channels of a task bring the barriers of one checkpoint after the other"
                );
                self.aligning = Some(barrier);
                self.align();
            }
            StreamElement::End => {
                self.channels[index].state = ChannelState::Ended;
                let change = self.valve.on_end(index);
                self.announce(change.status, change.watermark);
                self.align();
                self.end();
            }
        }
    }

    fn announce(&mut self, status: Option<WatermarkStatus>, watermark: Option<EventTime>) {
        if status == Some(WatermarkStatus::Active) {
            self.ready.push_back((
                InputIndex::FIRST,
                StreamElement::Status(WatermarkStatus::Active),
            ));
        }
        if let Some(watermark) = watermark {
            self.ready
                .push_back((InputIndex::FIRST, StreamElement::Watermark(watermark)));
        }
        if status == Some(WatermarkStatus::Idle) {
            self.ready.push_back((
                InputIndex::FIRST,
                StreamElement::Status(WatermarkStatus::Idle),
            ));
        }
    }

    /// Lets the barrier through when no open channel lacks it.
    fn align(&mut self) {
        if self
            .channels
            .iter()
            .any(|channel| channel.state == ChannelState::Open)
        {
            return;
        }
        if let Some(barrier) = self.aligning.take() {
            self.open_blocked();
            self.passed = barrier.checkpoint;
            self.ready
                .push_back((InputIndex::FIRST, StreamElement::Barrier(barrier)));
        }
    }

    fn open_blocked(&mut self) {
        self.channels
            .iter_mut()
            .filter(|channel| channel.state == ChannelState::Blocked)
            .for_each(|channel| channel.state = ChannelState::Open);
    }

    fn end(&mut self) {
        if !self.ended
            && self
                .channels
                .iter()
                .all(|channel| channel.state == ChannelState::Ended)
        {
            self.ended = true;
            self.ready
                .push_back((InputIndex::FIRST, StreamElement::End));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};

    use super::*;
    use crate::operators::Subtask;
    use crate::runtime::channel::{Parker, Sender, channel};
    use crate::runtime::channel_state::{self, ChannelState as Restored, Reader};
    use crate::stream::ChangelogBatch;

    fn gate(channels: usize) -> (Vec<Sender>, InputGate) {
        let parker = Arc::new(Parker::default());
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..channels)
            .map(|_| channel(1 << 20, parker.clone(), parker.clone()))
            .unzip();
        (
            senders,
            InputGate::new(
                (0..)
                    .map(origin)
                    .zip(receivers)
                    .map(|(o, r)| (r, o))
                    .collect(),
            ),
        )
    }

    fn origin(sender: usize) -> ChannelOrigin {
        ChannelOrigin {
            edge: 0,
            edges: 1,
            sender,
            senders: 2,
            input: 0,
            hashed: Some(vec![0]),
            is_overtakable: true,
        }
    }

    fn rows(count: i64) -> StreamElement {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count));
        let rows = RecordBatch::try_from_iter([("n", column)]).unwrap();
        StreamElement::Batch(ChangelogBatch::insert_only(rows))
    }

    fn recorded(gate: &mut InputGate) -> Option<Vec<usize>> {
        let channels = gate.take_overtaken()?;
        Some(channels.iter().map(|one| one.elements.len()).collect())
    }

    fn barrier(checkpoint: u64) -> StreamElement {
        StreamElement::Barrier(CheckpointBarrier::new(CheckpointId(checkpoint)))
    }

    fn drain(gate: &mut InputGate) -> Vec<String> {
        let mut seen = Vec::new();
        while let Some((_, element)) = gate.next(100).unwrap() {
            seen.push(match element {
                StreamElement::Batch(batch) => format!("{} rows", batch.num_rows()),
                StreamElement::Watermark(watermark) => format!("watermark {}", watermark.millis()),
                StreamElement::Status(status) => format!("{status:?}"),
                StreamElement::Barrier(barrier) => format!("barrier {}", barrier.checkpoint),
                StreamElement::End => "end".to_string(),
            });
        }
        seen
    }

    #[test]
    fn a_barrier_waits_for_all_channels_and_holds_back_what_follows_it() {
        let (senders, mut gate) = gate(2);
        senders[0].send(barrier(1));
        senders[0].send(StreamElement::Watermark(EventTime(7)));
        senders[1].send(StreamElement::Watermark(EventTime(5)));
        assert!(
            drain(&mut gate).is_empty(),
            "the minimum over the channels is still unknown"
        );
        senders[1].send(barrier(1));
        assert_eq!(drain(&mut gate), ["barrier 1", "watermark 5"]);
    }

    #[test]
    fn barriers_that_are_only_counted_hold_nothing_back() {
        let (senders, mut gate) = gate(2);
        gate.count_barriers();
        senders[0].send(barrier(1));
        senders[0].send(rows(3));
        assert_eq!(drain(&mut gate), ["3 rows"]);
        senders[1].send(rows(2));
        senders[1].send(barrier(1));
        assert_eq!(drain(&mut gate), ["2 rows", "barrier 1"]);
    }

    #[test]
    fn an_unaligned_barrier_overtakes_and_what_it_overtook_is_recorded_and_still_comes() {
        let (senders, mut gate) = gate(2);
        senders[0].send(rows(1));
        senders[0].send(StreamElement::Watermark(EventTime(5)));
        assert!(!gate.can_overtake(CheckpointId(1)), "it has not come");
        senders[0].send(barrier(1));
        senders[0].send(rows(2));
        senders[1].send(rows(3));
        assert!(gate.can_overtake(CheckpointId(1)));
        gate.overtake(CheckpointId(1));
        assert!(!gate.can_overtake(CheckpointId(1)), "it has gone");
        assert_eq!(recorded(&mut gate), None, "the other is still to come");
        let seen = drain(&mut gate);
        assert_eq!(seen, ["barrier 1", "1 rows", "3 rows", "2 rows"]);
        senders[1].send(StreamElement::Watermark(EventTime(4)));
        senders[1].send(barrier(1));
        senders[1].send(rows(6));
        assert_eq!(recorded(&mut gate), Some(vec![2, 2]));
        assert_eq!(drain(&mut gate), ["watermark 4", "6 rows"]);
        for sender in &senders {
            sender.send(barrier(2));
        }
        assert_eq!(drain(&mut gate), ["barrier 2"], "aligned again");
    }

    #[test]
    fn a_barrier_overtakes_in_the_middle_of_an_alignment_and_does_not_wait_for_one_that_ended() {
        let (senders, mut gate) = gate(3);
        senders[0].send(barrier(1));
        senders[0].send(rows(1));
        senders[1].send(rows(2));
        senders[2].send(rows(3));
        senders[2].send(StreamElement::End);
        assert_eq!(drain(&mut gate), ["2 rows", "3 rows"]);
        senders[1].send(rows(4));
        gate.overtake(CheckpointId(1));
        assert_eq!(drain(&mut gate), ["barrier 1", "1 rows", "4 rows"]);
        assert_eq!(recorded(&mut gate), None);
        senders[1].send(rows(5));
        senders[1].send(StreamElement::End);
        assert_eq!(recorded(&mut gate), Some(vec![0, 2, 0]));
    }

    #[test]
    fn a_barrier_does_not_overtake_on_a_forward_channel() {
        let (senders, mut gate) = gate(2);
        gate.channels[0].origin.is_overtakable = false;
        senders[0].send(rows(1));
        senders[0].send(barrier(1));
        senders[1].send(rows(2));
        assert!(!gate.can_overtake(CheckpointId(1)));
        assert_eq!(drain(&mut gate), ["1 rows", "2 rows"]);
        senders[1].send(rows(3));
        assert!(gate.can_overtake(CheckpointId(1)), "it has come there");
        gate.overtake(CheckpointId(1));
        assert_eq!(drain(&mut gate), ["barrier 1", "3 rows"]);
    }

    #[test]
    fn a_restored_gate_goes_on_with_what_was_overtaken() {
        let (senders, mut old) = gate(2);
        senders[0].send(StreamElement::Watermark(EventTime(10)));
        senders[1].send(StreamElement::Watermark(EventTime(5)));
        assert_eq!(drain(&mut old), ["watermark 5"]);
        senders[0].send(barrier(1));
        senders[1].send(rows(3));
        senders[1].send(StreamElement::Watermark(EventTime(8)));
        senders[1].send(StreamElement::Status(WatermarkStatus::Idle));
        senders[1].send(barrier(1));
        old.overtake(CheckpointId(1));
        let subtask = Subtask {
            index: 0,
            parallelism: 1,
            max_parallelism: 128,
        };
        let overtaken = old.take_overtaken().unwrap();
        let reader = |operator: &str, reads: &str| Reader {
            operator: operator.to_string(),
            inputs: vec![reads.to_string()],
        };
        let join = reader("Join", "orders");
        let table = channel_state::to_table(&join, subtask, overtaken);
        let table = table.unwrap().unwrap();
        let read_by = |reader: &Reader| Restored::read(reader, std::slice::from_ref(&table));
        let read = || read_by(&join).unwrap();

        let (senders, mut new) = gate(2);
        new.restore(EventTime(5));
        senders[1].send(StreamElement::Watermark(EventTime(9)));
        assert!(new.has_control());
        assert!(read().fits(subtask, &new.origins()));
        new.replay(read().of_instance(subtask).unwrap());
        assert!(!new.has_control(), "rows come first");
        let seen = drain(&mut new);
        assert_eq!(seen, ["3 rows", "watermark 8", "watermark 10"]);
        let rescaled = Subtask {
            parallelism: 2,
            ..subtask
        };
        assert!(!read().fits(rescaled, &new.origins()));
        let dealt = |index| read().dealt(Subtask { index, ..rescaled }).unwrap();
        let count = |index| {
            let elements = dealt(index);
            let rows = elements.iter().map(|(_, element)| match element {
                StreamElement::Batch(batch) => batch.num_rows(),
                other => panic!("{other:?}"),
            });
            rows.sum::<usize>()
        };
        assert_eq!(count(0) + count(1), 3);
        let error = |reader| read_by(&reader).unwrap_err().to_string();
        let other = error(reader("Rank", "orders"));
        assert!(other.contains("into Join, which is Rank"), "{other}");
        let other = error(reader("Join", "orders with a column more"));
        assert!(other.contains("input 1 has other rows"), "{other}");
    }

    #[test]
    fn an_ended_channel_neither_holds_a_barrier_nor_the_watermark() {
        let (senders, mut gate) = gate(2);
        senders[0].send(StreamElement::Watermark(EventTime(3)));
        senders[0].send(barrier(1));
        senders[1].send(StreamElement::Watermark(EventTime::MAX));
        senders[1].send(StreamElement::End);
        assert_eq!(drain(&mut gate), ["watermark 3", "barrier 1"]);
        senders[0].send(StreamElement::Watermark(EventTime::MAX));
        senders[0].send(StreamElement::End);
        assert_eq!(
            drain(&mut gate),
            [format!("watermark {}", i64::MAX), "end".to_string()]
        );
    }
}
