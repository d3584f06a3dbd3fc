//! The watermark of an input: the minimum over its channels, those left out that are idle or not yet caught up.
//!
//! A channel is *aligned* when it is active and has come at least as far as what the valve has put out. One that wakes up
//! behind is not: it holds nothing back until it has caught up, for what was put out cannot be taken back.

use serde::{Deserialize, Serialize};

use crate::stream::{WatermarkStatus, WatermarkStep, WatermarkSteps};
use crate::types::EventTime;

/// Combines the watermarks of the channels of one input, or of several inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatermarkValve {
    channels: Vec<ChannelTime>,
    watermark: EventTime,
    status: WatermarkStatus,
}

/// How far a channel has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelTime {
    /// Of an ended channel the last one before the largest.
    pub watermark: EventTime,
    /// Whether it is neither idle nor ended.
    pub active: bool,
    /// See the module.
    pub aligned: bool,
    /// Whether nothing follows.
    pub ended: bool,
}

/// What a valve puts out after a channel's news. An active status goes out before the watermark, an idle one behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ValveOutput {
    /// The minimum has advanced to this.
    pub watermark: Option<EventTime>,
    /// The input has become active, or idle.
    pub status: Option<WatermarkStatus>,
}

impl WatermarkValve {
    /// A valve of `channels` active channels, none of which has a watermark.
    pub fn new(channels: usize) -> Self {
        let channel = ChannelTime {
            watermark: EventTime::MIN,
            active: true,
            aligned: true,
            ended: false,
        };
        WatermarkValve {
            channels: vec![channel; channels],
            watermark: EventTime::MIN,
            status: WatermarkStatus::Active,
        }
    }

    /// The watermark put out last.
    pub fn watermark(&self) -> EventTime {
        self.watermark
    }

    /// The last watermark of a channel.
    pub fn channel_watermark(&self, channel: usize) -> EventTime {
        self.channels[channel].watermark
    }

    /// How far a channel has come.
    pub fn channel_time(&self, channel: usize) -> ChannelTime {
        self.channels[channel]
    }

    /// A channel goes on from where it was. One that had ended says so again.
    pub fn restore_channel(&mut self, channel: usize, time: ChannelTime) {
        self.channels[channel] = ChannelTime {
            ended: false,
            ..time
        };
    }

    /// The status put out last.
    pub fn status(&self) -> WatermarkStatus {
        self.status
    }

    /// A watermark came on a channel. Ignored on an idle one, and where it does not advance. The largest watermark says that
    /// the channel has ended.
    pub fn on_watermark(&mut self, channel: usize, watermark: EventTime) -> ValveOutput {
        if watermark == EventTime::MAX {
            return self.on_end(channel);
        }
        let put_out = self.watermark;
        let state = &mut self.channels[channel];
        if !state.active || watermark <= state.watermark {
            return ValveOutput::default();
        }
        state.watermark = watermark;
        state.aligned |= watermark >= put_out;
        self.output(self.minimum())
    }

    /// A status came on a channel.
    pub fn on_status(&mut self, channel: usize, status: WatermarkStatus) -> ValveOutput {
        match status {
            WatermarkStatus::Idle => self.on_idle(channel),
            WatermarkStatus::Active => self.on_active(channel),
        }
    }

    /// A channel has ended: it holds nothing back any more. When all have, the largest watermark goes out, not before.
    pub fn on_end(&mut self, channel: usize) -> ValveOutput {
        let state = &mut self.channels[channel];
        if state.ended {
            return ValveOutput::default();
        }
        (state.active, state.aligned, state.ended) = (false, false, true);
        if self.channels.iter().all(|channel| channel.ended) {
            let woken = (self.status == WatermarkStatus::Idle).then_some(WatermarkStatus::Active);
            self.status = WatermarkStatus::Active;
            let ValveOutput { watermark, .. } = self.output(Some(EventTime::MAX));
            return ValveOutput {
                watermark,
                status: woken,
            };
        }
        self.on_left()
    }

    fn on_idle(&mut self, channel: usize) -> ValveOutput {
        let state = &mut self.channels[channel];
        if !state.active {
            return ValveOutput::default();
        }
        (state.active, state.aligned) = (false, false);
        self.on_left()
    }

    /// A channel no longer counts. When it was the last active one, nothing will move the minimum again, so the furthest
    /// channel's watermark goes out first. Channels that have ended count there, and it does not matter (as it does in Flink)
    /// whether the last one had caught up: another instance of this task may see the same in another order and come as far,
    /// and an idle instance must not hold results back which the tasks behind it would then find late.
    fn on_left(&mut self) -> ValveOutput {
        if self.channels.iter().any(|channel| channel.active) {
            return self.output(self.minimum());
        }
        if self.status == WatermarkStatus::Idle {
            return ValveOutput::default();
        }
        let furthest = self.channels.iter().map(|channel| channel.watermark).max();
        let mut output = self.output(furthest);
        self.status = WatermarkStatus::Idle;
        output.status = Some(WatermarkStatus::Idle);
        output
    }

    fn on_active(&mut self, channel: usize) -> ValveOutput {
        let state = &mut self.channels[channel];
        if state.active || state.ended {
            return ValveOutput::default();
        }
        state.active = true;
        state.aligned = state.watermark >= self.watermark;
        let status = (self.status == WatermarkStatus::Idle).then_some(WatermarkStatus::Active);
        self.status = WatermarkStatus::Active;
        ValveOutput {
            watermark: None,
            status,
        }
    }

    fn minimum(&self) -> Option<EventTime> {
        self.channels
            .iter()
            .filter(|channel| channel.aligned)
            .map(|channel| channel.watermark)
            .min()
    }

    fn output(&mut self, watermark: Option<EventTime>) -> ValveOutput {
        let advanced = watermark.filter(|watermark| *watermark > self.watermark);
        self.watermark = advanced.unwrap_or(self.watermark);
        ValveOutput {
            watermark: advanced,
            status: None,
        }
    }

    /// The steps of a channel's batch with each of the channel's watermarks replaced by the minimum over the channels. The
    /// valve itself stays: the watermark element that follows the batch moves it.
    pub fn combine_steps(&self, channel: usize, steps: &WatermarkSteps) -> WatermarkSteps {
        if steps.is_empty() || self.channels.len() == 1 {
            return steps.clone();
        }
        let others = self
            .channels
            .iter()
            .enumerate()
            .filter(|(other, state)| *other != channel && state.aligned)
            .map(|(_, state)| state.watermark)
            .min()
            .unwrap_or(EventTime::MAX);
        let active = self.channels[channel].active;
        let combined = steps
            .iter()
            .filter(|step| active && step.watermark > self.watermark)
            .map(|step| WatermarkStep {
                watermark: step.watermark.min(others),
                ..step
            });
        WatermarkSteps::new(combined.filter(|step| step.watermark > self.watermark))
    }

    /// Starts from the watermark that had been put out when the job was stopped. The channels say anew how far they are, and
    /// none of them pulls it back.
    pub fn restore(&mut self, watermark: EventTime) {
        self.watermark = self.watermark.max(watermark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use WatermarkStatus::{Active, Idle};

    fn watermark(millis: i64) -> ValveOutput {
        ValveOutput {
            watermark: Some(EventTime(millis)),
            status: None,
        }
    }

    const NOTHING: ValveOutput = ValveOutput {
        watermark: None,
        status: None,
    };

    #[test]
    fn the_slowest_channel_decides() {
        let mut valve = WatermarkValve::new(2);
        assert_eq!(valve.on_watermark(0, EventTime(10)), NOTHING);
        assert_eq!(valve.on_watermark(1, EventTime(5)), watermark(5));
        assert_eq!(valve.on_watermark(1, EventTime(4)), NOTHING);
        assert_eq!(valve.on_watermark(1, EventTime(30)), watermark(10));
    }

    #[test]
    fn an_idle_channel_is_left_out_and_holds_nothing_back_until_it_has_caught_up() {
        let mut valve = WatermarkValve::new(2);
        valve.on_watermark(0, EventTime(10));
        assert_eq!(valve.on_status(1, Idle), watermark(10));
        assert_eq!(valve.on_watermark(1, EventTime(99)), NOTHING, "ignored");
        assert_eq!(valve.on_status(1, Active), NOTHING);
        assert_eq!(valve.on_watermark(1, EventTime(5)), NOTHING);
        assert_eq!(valve.on_watermark(0, EventTime(20)), watermark(20));
        assert_eq!(valve.on_watermark(1, EventTime(20)), NOTHING);
        assert_eq!(valve.on_watermark(0, EventTime(30)), NOTHING, "1 counts");
    }

    #[test]
    fn when_all_are_idle_the_furthest_watermark_goes_out_first() {
        let mut valve = WatermarkValve::new(2);
        valve.on_watermark(0, EventTime(10));
        valve.on_watermark(1, EventTime(5));
        assert_eq!(valve.on_status(0, Idle), NOTHING);
        let output = valve.on_status(1, Idle);
        assert_eq!(output.watermark, Some(EventTime(10)));
        assert_eq!(output.status, Some(Idle));
        assert_eq!(valve.on_status(0, Active).status, Some(Active));
    }

    #[test]
    fn an_ended_channel_leaves_the_minimum_to_the_others() {
        let mut valve = WatermarkValve::new(2);
        valve.on_watermark(0, EventTime(10));
        assert_eq!(valve.on_end(1), watermark(10));
        assert_eq!(valve.on_watermark(0, EventTime(20)), watermark(20));
        assert_eq!(valve.on_watermark(0, EventTime::MAX), watermark(i64::MAX));
    }

    #[test]
    fn the_end_of_one_channel_is_not_the_end_of_an_idle_one() {
        let mut valve = WatermarkValve::new(2);
        valve.on_watermark(0, EventTime(10));
        valve.on_watermark(1, EventTime(20));
        valve.on_status(0, Idle);
        let output = valve.on_end(1);
        assert_eq!((output.watermark, output.status), (None, Some(Idle)));
        assert_eq!(valve.on_status(0, Active).status, Some(Active));
        valve.on_status(0, Idle);
        let output = valve.on_end(0);
        assert_eq!(output.watermark, Some(EventTime::MAX));
        assert_eq!(output.status, Some(Active));
    }

    /// Whichever of the two channels ends first, what goes out before the idle status is the furthest that the other order
    /// would have put out.
    #[test]
    fn a_valve_that_goes_idle_has_come_as_far_as_any_other_can() {
        for [first, second] in [[0, 1], [1, 0]] {
            let mut valve = WatermarkValve::new(3);
            valve.on_status(2, Idle);
            valve.on_watermark(0, EventTime(30));
            valve.on_end(first);
            let output = valve.on_end(second);
            assert_eq!(valve.watermark(), EventTime(30));
            assert_eq!(output.status, Some(Idle));
        }
        // A channel that wakes up only to end, or to go idle again, is behind all others.
        for ends in [true, false] {
            let mut valve = WatermarkValve::new(4);
            valve.on_status(2, Idle);
            valve.on_status(3, Idle);
            valve.on_watermark(0, EventTime(30));
            valve.on_watermark(1, EventTime(10));
            valve.on_end(0);
            valve.on_status(2, Active);
            valve.on_end(1);
            let output = match ends {
                true => valve.on_end(2),
                false => valve.on_status(2, Idle),
            };
            assert_eq!(valve.watermark(), EventTime(30));
            assert_eq!(output.status, Some(Idle));
        }
    }

    #[test]
    fn steps_are_capped_by_the_other_channels() {
        let mut valve = WatermarkValve::new(2);
        valve.on_watermark(0, EventTime(10));
        valve.on_watermark(1, EventTime(25));
        let step = |row, millis| WatermarkStep {
            row,
            watermark: EventTime(millis),
        };
        let steps = WatermarkSteps::new([step(1, 8), step(2, 20), step(4, 30), step(6, 40)]);
        let combined = valve.combine_steps(0, &steps);
        assert_eq!(
            combined.iter().collect::<Vec<_>>(),
            [step(2, 20), step(4, 25)]
        );
        assert_eq!(valve.watermark(), EventTime(10), "the valve has not moved");
    }

    #[test]
    fn a_restored_valve_keeps_what_it_put_out() {
        let mut valve = WatermarkValve::new(2);
        valve.restore(EventTime(50));
        valve.on_watermark(0, EventTime(10));
        assert_eq!(valve.on_watermark(1, EventTime(20)), NOTHING);
        assert_eq!(valve.watermark(), EventTime(50));
        valve.on_watermark(0, EventTime(60));
        assert_eq!(valve.on_watermark(1, EventTime(70)), watermark(60));
    }
}
