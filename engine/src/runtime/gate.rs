//! The way into a task: reads its channels in turn, aligns barriers, and tells event time as the minimum over channels.

use std::collections::VecDeque;

use super::channel::Receiver;
use crate::error::Result;
use crate::operators::InputIndex;
use crate::planted::{Bug, is_planted};
use crate::stream::{CheckpointBarrier, StreamElement, WatermarkStatus};
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
}

struct GateChannel {
    receiver: Receiver,
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
    pub(crate) fn new(channels: Vec<(Receiver, InputIndex)>) -> Self {
        assert!(!channels.is_empty(), "a task without a source has an input");
        let valve = WatermarkValve::new(channels.len());
        let channels = channels
            .into_iter()
            .map(|(receiver, input)| GateChannel {
                receiver,
                input,
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
        }
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
            let Some((channel, element)) = self.receive(batch_rows)? else {
                return Ok(None);
            };
            self.take(channel, element);
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
        let overtakes = *state == ChannelState::Blocked && is_planted(Bug::BarrierOvertaken);
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
            self.channels
                .iter_mut()
                .filter(|channel| channel.state == ChannelState::Blocked)
                .for_each(|channel| channel.state = ChannelState::Open);
            self.ready
                .push_back((InputIndex::FIRST, StreamElement::Barrier(barrier)));
        }
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

    use super::*;
    use crate::runtime::channel::{Parker, Sender, channel};
    use crate::stream::CheckpointId;

    fn gate(channels: usize) -> (Vec<Sender>, InputGate) {
        let parker = Arc::new(Parker::default());
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..channels)
            .map(|_| channel(1 << 20, parker.clone(), parker.clone()))
            .unzip();
        (
            senders,
            InputGate::new(
                receivers
                    .into_iter()
                    .map(|receiver| (receiver, InputIndex::FIRST))
                    .collect(),
            ),
        )
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
