//! The clock of a window: how the instants of a time column become the wall clock in which windows are cut, and back.
//!
//! Windows over TIMESTAMP are cut in the column's own wall clock, which is also what the watermark speaks; nothing is
//! shifted. Over TIMESTAMP_LTZ and in processing time, windows are cut in the wall clock of the session time zone, while the
//! watermark (or the processing time) is an instant: a window fires when the instant of its last millisecond is reached.

use std::borrow::Cow;

use crate::error::Result;
use crate::types::{EventTime, TimeZone};

use super::WindowTime;

const HOUR_MS: i64 = 3_600_000;
/// No zone changes its offset twice within a week to come back to the same one.
const WEEK_MS: i64 = 7 * 24 * HOUR_MS;

/// See the file.
#[derive(Debug, Clone, Copy)]
pub struct WindowClock {
    /// `None`: instants are wall clock already.
    zone: Option<TimeZone>,
}

impl WindowClock {
    /// The clock of a window's time; fails on an unknown zone.
    pub fn new(time: &WindowTime) -> Result<Self> {
        let zone = time.time_zone().map(TimeZone::parse).transpose()?;
        Ok(WindowClock {
            zone: zone.filter(|zone| *zone != TimeZone::UTC),
        })
    }

    /// The wall clock of an instant, in milliseconds.
    pub fn to_local(&self, instant_ms: i64) -> i64 {
        self.zone
            .map_or(instant_ms, |zone| zone.to_local_millis(instant_ms))
    }

    /// The wall clock of instants. Where the zone's offset is the same over all of them it is one addition each.
    pub fn all_to_local<'a>(&self, instants_ms: &'a [i64]) -> Cow<'a, [i64]> {
        let (Some(zone), Some((first, last))) = (self.zone, bounds(instants_ms)) else {
            return Cow::Borrowed(instants_ms);
        };
        let offset = zone.to_local_millis(first).wrapping_sub(first);
        let same = last.saturating_sub(first) < WEEK_MS
            && zone.to_local_millis(last).wrapping_sub(last) == offset;
        let instants = instants_ms.iter();
        Cow::Owned(if same {
            instants
                .map(|instant| instant.wrapping_add(offset))
                .collect()
        } else {
            instants
                .map(|instant| zone.to_local_millis(*instant))
                .collect()
        })
    }

    /// The instant at which the window that ends at this wall clock fires. Where its last millisecond comes twice it is the
    /// second; where it is skipped, the instant of the jump.
    pub fn fire_time(&self, window_end: i64) -> EventTime {
        let last = window_end.saturating_sub(1);
        EventTime(match self.zone {
            None => last,
            Some(zone @ TimeZone::Fixed(_)) => zone.to_instant_millis(last),
            Some(zone @ TimeZone::Named(_)) => {
                let first = zone.to_instant_millis(last);
                let hour_later = zone.to_instant_millis(last.saturating_add(HOUR_MS));
                if hour_later == first {
                    first - first.rem_euclid(HOUR_MS)
                } else if hour_later - first > HOUR_MS {
                    first + HOUR_MS
                } else {
                    first
                }
            }
        })
    }

    /// `window_time`: the last millisecond of the window, as the time attribute holds it.
    pub fn window_time(&self, window_end: i64) -> i64 {
        let last = window_end.saturating_sub(1);
        self.zone.map_or(last, |zone| zone.to_instant_millis(last))
    }
}

/// The smallest and the greatest of some numbers.
pub(super) fn bounds(values: &[i64]) -> Option<(i64, i64)> {
    let first = *values.first()?;
    Some(
        values
            .iter()
            .fold((first, first), |(least, greatest), value| {
                (least.min(*value), greatest.max(*value))
            }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn los_angeles() -> WindowClock {
        WindowClock::new(&WindowTime::EventInstant {
            time_zone: "America/Los_Angeles".to_string(),
        })
        .unwrap()
    }

    #[test]
    fn a_window_ending_in_the_spring_gap_fires_at_the_jump() {
        let clock = los_angeles();
        let jump = 1_710_064_800_000; // 2024-03-10 10:00 UTC
        let two_local = jump - 8 * HOUR_MS;
        assert_eq!(clock.fire_time(two_local), EventTime(jump - 1));
        assert_eq!(clock.fire_time(two_local + HOUR_MS / 2), EventTime(jump));
        assert_eq!(clock.fire_time(two_local + HOUR_MS + 1), EventTime(jump));
    }

    #[test]
    fn a_window_over_the_autumn_hour_fires_the_second_time() {
        let clock = los_angeles();
        let first_one = 1_730_620_800_000; // 2024-11-03 08:00 UTC = 01:00 PDT
        let one_local = first_one - 7 * HOUR_MS;
        assert_eq!(clock.to_local(first_one + HOUR_MS), one_local);
        assert_eq!(
            clock.fire_time(one_local + HOUR_MS),
            EventTime(first_one + 2 * HOUR_MS - 1)
        );
        assert_eq!(clock.fire_time(one_local), EventTime(first_one - 1));
    }

    #[test]
    fn many_instants_agree_with_one_at_a_time() {
        let clock = los_angeles();
        for step in [1_000, HOUR_MS, 30 * 24 * HOUR_MS] {
            let instants: Vec<i64> = (-50..50).map(|n| 1_710_064_800_000 + n * step).collect();
            let expected: Vec<i64> = instants.iter().map(|at| clock.to_local(*at)).collect();
            assert_eq!(clock.all_to_local(&instants), expected);
        }
    }
}
