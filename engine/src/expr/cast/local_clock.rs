//! Wall clock of an instant and back, with the last offset remembered.
//!
//! Asking the zone database costs a search; rows of a batch are mostly near each other. Since 1980 no zone has changed its
//! offset inside a quarter of an hour, so one offset holds for all times of a quarter.

use crate::types::TimeZone;

const QUARTER_MS: i64 = 900_000;
const YEAR_1980_MS: i64 = 315_532_800_000;

/// Converts between instants and wall clocks of a zone, in milliseconds.
pub(crate) struct LocalClock {
    zone: TimeZone,
    instant_quarter: i64,
    instant_offset: i64,
    local_quarter: i64,
    local_offset: i64,
}

impl LocalClock {
    pub(crate) fn new(zone: TimeZone) -> Self {
        LocalClock {
            zone,
            instant_quarter: i64::MIN,
            instant_offset: 0,
            local_quarter: i64::MIN,
            local_offset: 0,
        }
    }

    /// The wall clock at an instant.
    #[inline]
    pub(crate) fn local_of(&mut self, instant: i64) -> i64 {
        if let TimeZone::Fixed(offset) = self.zone {
            return instant.saturating_add(offset);
        }
        let quarter = instant.div_euclid(QUARTER_MS);
        if quarter != self.instant_quarter || instant < YEAR_1980_MS {
            self.instant_quarter = quarter;
            self.instant_offset = self.zone.to_local_millis(instant) - instant;
        }
        instant + self.instant_offset
    }

    /// The instant of a wall clock; see [`TimeZone::to_instant_millis`] for gaps and overlaps.
    #[inline]
    pub(crate) fn instant_of(&mut self, local: i64) -> i64 {
        if let TimeZone::Fixed(offset) = self.zone {
            return local.saturating_sub(offset);
        }
        let quarter = local.div_euclid(QUARTER_MS);
        if quarter != self.local_quarter || local < YEAR_1980_MS {
            self.local_quarter = quarter;
            self.local_offset = local - self.zone.to_instant_millis(local);
        }
        local - self.local_offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_zone_over_a_year_and_around_the_changes() {
        for name in [
            "America/Los_Angeles",
            "Asia/Kathmandu",
            "Australia/Lord_Howe",
            "UTC",
        ] {
            let zone = TimeZone::parse(name).unwrap();
            let mut clock = LocalClock::new(zone);
            let start = 1_704_067_200_000;
            for step in 0..(366 * 96) {
                let time = start + step * QUARTER_MS + step % 7;
                assert_eq!(clock.local_of(time), zone.to_local_millis(time));
                assert_eq!(clock.instant_of(time), zone.to_instant_millis(time));
            }
        }
    }
}
