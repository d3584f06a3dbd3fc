//! The session time zone: IANA names and fixed offsets, with Java's rules for local times that do not exist or come twice.

use chrono::{FixedOffset, MappedLocalTime, NaiveDateTime, Offset, TimeZone as _};

use crate::error::{Error, Result};

/// A time zone that maps instants to wall clock and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeZone {
    /// A fixed distance from UTC, in milliseconds.
    Fixed(i64),
    /// A zone of the IANA database.
    Named(chrono_tz::Tz),
}

impl TimeZone {
    /// UTC.
    pub const UTC: TimeZone = TimeZone::Fixed(0);

    /// Reads `UTC`, `Z`, `GMT+08:00`, `UTC-5`, `+08:00` or an IANA name such as `America/Los_Angeles`.
    pub fn parse(text: &str) -> Result<TimeZone> {
        let trimmed = text.trim();
        if matches!(trimmed, "UTC" | "GMT" | "Z") {
            return Ok(TimeZone::UTC);
        }
        let offset = trimmed
            .strip_prefix("GMT")
            .or_else(|| trimmed.strip_prefix("UTC"))
            .unwrap_or(trimmed);
        if let Some(offset) = parse_offset(offset) {
            return Ok(TimeZone::Fixed(offset));
        }
        trimmed.parse().map(TimeZone::Named).map_err(|_| {
            Error::user(format!("there is no time zone '{text}'")).hint(
                "use an IANA name such as 'Europe/Berlin', 'UTC', or an offset such as '+08:00'",
            )
        })
    }

    /// The wall clock, as milliseconds since 1970-01-01 00:00:00 local, at an instant in milliseconds since the epoch (UTC).
    pub fn to_local_millis(&self, instant_ms: i64) -> i64 {
        match self {
            TimeZone::Fixed(offset) => instant_ms.saturating_add(*offset),
            TimeZone::Named(zone) => match naive(instant_ms) {
                Some(utc) => instant_ms + offset_millis(zone.offset_from_utc_datetime(&utc).fix()),
                None => instant_ms,
            },
        }
    }

    /// The instant of a wall clock. A time skipped in spring maps to the instant after the jump, as far behind it as it lies
    /// behind the gap's start; of a time that comes twice in autumn the first is taken. So does Java's `ZonedDateTime.of`.
    pub fn to_instant_millis(&self, local_ms: i64) -> i64 {
        match self {
            TimeZone::Fixed(offset) => local_ms.saturating_sub(*offset),
            TimeZone::Named(zone) => {
                let Some(local) = naive(local_ms) else {
                    return local_ms;
                };
                let offset = match zone.offset_from_local_datetime(&local) {
                    MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(offset, _) => {
                        offset.fix()
                    }
                    MappedLocalTime::None => self.offset_before_gap(zone, local_ms),
                };
                local_ms - offset_millis(offset)
            }
        }
    }

    fn offset_before_gap(&self, zone: &chrono_tz::Tz, local_ms: i64) -> FixedOffset {
        let day_before = naive(local_ms - 86_400_000).expect("a day before a valid time is valid");
        zone.offset_from_utc_datetime(&day_before).fix()
    }
}

fn naive(millis: i64) -> Option<NaiveDateTime> {
    chrono::DateTime::from_timestamp_millis(millis).map(|time| time.naive_utc())
}

fn offset_millis(offset: FixedOffset) -> i64 {
    offset.local_minus_utc() as i64 * 1000
}

fn parse_offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let mut parts = rest.split(':');
    let hours: i64 = parts
        .next()?
        .parse()
        .ok()
        .filter(|hours| (0..=18).contains(hours))?;
    let minutes: i64 = parts
        .next()
        .map_or(Some(0), |part| part.parse().ok())
        .filter(|minutes| (0..60).contains(minutes))?;
    parts
        .next()
        .is_none()
        .then_some(sign * (hours * 60 + minutes) * 60_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_names_are_read() {
        assert_eq!(
            TimeZone::parse("GMT+08:00").unwrap(),
            TimeZone::Fixed(8 * 3_600_000)
        );
        assert_eq!(
            TimeZone::parse("-05:30").unwrap(),
            TimeZone::Fixed(-(5 * 60 + 30) * 60_000)
        );
        assert!(TimeZone::parse("Mars/Olympus").is_err());
    }

    #[test]
    fn spring_gap_maps_behind_the_jump() {
        let zone = TimeZone::parse("America/Los_Angeles").unwrap();
        // 2024-03-10 10:00 UTC is 03:00 local, right after the jump from 02:00.
        let after_jump = 1_710_064_800_000;
        assert_eq!(zone.to_local_millis(after_jump), after_jump - 7 * 3_600_000);
        let skipped_half_past_two = after_jump - 8 * 3_600_000 + 1_800_000;
        assert_eq!(
            zone.to_instant_millis(skipped_half_past_two),
            after_jump + 1_800_000
        );
    }
}
