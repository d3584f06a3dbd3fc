//! Dates, times and timestamps as text, by the rules of the `java.time` formatters that Flink's formats use.
//!
//! SQL style is `2020-01-02 03:04:05.678`, ISO-8601 has a `T` and optional seconds. Zoned ones end in a literal `Z`.

use arrow::datatypes::TimeUnit;

/// How formats write and read timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimestampStyle {
    Sql,
    Iso,
}

const MILLIS_OF_DAY: i64 = 86_400_000;

/// Days since 1970-01-01 of a proleptic Gregorian date.
pub(super) fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    // Years begin in March, so that the leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month as i64 + 9) % 12) + 2) / 5 + day as i64 - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of days since 1970-01-01.
pub(super) fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month + 2) / 5 + 1) as u32;
    let month = if month < 10 { month + 3 } else { month - 9 } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

fn days_of_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

fn digit(text: &[u8], at: usize) -> Option<u32> {
    let digit = text.get(at)?.wrapping_sub(b'0');
    (digit <= 9).then_some(digit as u32)
}

fn two_digits(text: &[u8], at: usize) -> Option<u32> {
    Some(digit(text, at)? * 10 + digit(text, at + 1)?)
}

/// A date in ISO form at the front of `text`, and what follows it. Years of more than four digits need a sign.
fn split_date(text: &[u8]) -> Option<(i64, u32, u32, &[u8])> {
    let (year, rest) = match text.first()? {
        b'+' | b'-' => signed_year(text)?,
        _ => (
            (two_digits(text, 0)? * 100 + two_digits(text, 2)?) as i64,
            &text[4..],
        ),
    };
    if rest.first() != Some(&b'-') || rest.get(3) != Some(&b'-') {
        return None;
    }
    let (month, day) = (two_digits(rest, 1)?, two_digits(rest, 4)?);
    ((1..=12).contains(&month) && (1..=31).contains(&day)).then_some((year, month, day, &rest[6..]))
}

fn signed_year(text: &[u8]) -> Option<(i64, &[u8])> {
    let length = text[1..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let negative = text[0] == b'-';
    let shortest = if negative { 4 } else { 5 };
    if !(shortest..=9).contains(&length) {
        return None;
    }
    let year = text[1..=length]
        .iter()
        .fold(0_i64, |year, byte| year * 10 + (byte - b'0') as i64);
    Some((if negative { -year } else { year }, &text[length + 1..]))
}

/// Hours, minutes, seconds and nanoseconds at the front of `text`, and what follows. ISO allows seconds to be absent.
fn split_time(text: &[u8], style: TimestampStyle) -> Option<(u32, u32, u32, u32, &[u8])> {
    let (hour, minute) = (two_digits(text, 0)?, two_digits(text, 3)?);
    if text[2] != b':' || minute > 59 || hour > 24 {
        return None;
    }
    if style == TimestampStyle::Iso && text.get(5) != Some(&b':') {
        return Some((hour, minute, 0, 0, &text[5..]));
    }
    let second = two_digits(text, 6)?;
    if text[5] != b':' || second > 59 {
        return None;
    }
    let (nanos, rest) = split_fraction(&text[8..]);
    Some((hour, minute, second, nanos, rest))
}

fn split_fraction(text: &[u8]) -> (u32, &[u8]) {
    if text.first() != Some(&b'.') {
        return (0, text);
    }
    let (mut nanos, mut length) = (0, 0);
    while let Some(digit) = digit(text, 1 + length).filter(|_| length < 9) {
        nanos = nanos * 10 + digit;
        length += 1;
    }
    (nanos * 10_u32.pow(9 - length as u32), &text[1 + length..])
}

/// A DATE: a strict ISO local date, as days since 1970-01-01.
pub(super) fn parse_date(text: &[u8]) -> Option<i32> {
    let (year, month, day, rest) = split_date(text)?;
    (rest.is_empty() && day <= days_of_month(year, month))
        .then(|| i32::try_from(days_from_civil(year, month, day)).ok())?
}

/// A DATE as `java.sql.Date.valueOf` reads it: month and day of one or two digits, a day past the month's end rolls over.
pub(super) fn parse_lenient_date(text: &[u8]) -> Option<i32> {
    let text = std::str::from_utf8(text).ok()?;
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let number = |part: &str, longest: usize| -> Option<u32> {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        (digits && part.len() <= longest).then(|| part.parse().ok())?
    };
    let (month, day) = (number(month, 2)?, number(day, 2)?);
    if parts.next().is_some() || year.len() != 4 || month == 0 || month > 12 || day == 0 || day > 31
    {
        return None;
    }
    Some((days_from_civil(number(year, 4)? as i64, month, 1) + day as i64 - 1) as i32)
}

/// A TIME, as milliseconds of the day; further digits are cut.
pub(super) fn parse_time(text: &[u8], style: TimestampStyle) -> Option<i32> {
    let (hour, minute, second, nanos, rest) = split_time(text, style)?;
    let nothing_behind = minute == 0 && second == 0 && nanos == 0;
    if !rest.is_empty() || (hour == 24 && !(nothing_behind && style == TimestampStyle::Sql)) {
        return None;
    }
    let hour = hour % 24;
    Some((((hour * 60 + minute) * 60 + second) * 1000 + nanos / 1_000_000) as i32)
}

/// A timestamp in the given unit since 1970-01-01 00:00:00; finer digits are cut (downwards). `zoned` ones end in `Z`.
pub(super) fn parse_timestamp(
    text: &[u8],
    style: TimestampStyle,
    zoned: bool,
    unit: TimeUnit,
) -> Option<i64> {
    let text = if zoned {
        text.strip_suffix(b"Z")?
    } else {
        text
    };
    let (year, month, day, rest) = split_date(text)?;
    let (separator, clock) = rest.split_first()?;
    let (hour, minute, second, nanos, rest) = split_time(clock, style)?;
    // Flink's ISO formatter without a zone resolves strictly, the other three cut a day past the month's end and know 24:00.
    let strict = style == TimestampStyle::Iso && !zoned;
    let separated = match style {
        TimestampStyle::Sql => *separator == b' ',
        TimestampStyle::Iso => *separator == b'T' || (strict && *separator == b't'),
    };
    let last = days_of_month(year, month);
    let midnight = minute == 0 && second == 0 && nanos == 0;
    if !separated || !rest.is_empty() || (strict && day > last) {
        return None;
    }
    if hour == 24 && (strict || !midnight) {
        return None;
    }
    let days = days_from_civil(year, month, day.min(last));
    let seconds = days * 86_400 + (hour * 3600 + minute * 60 + second) as i64;
    in_unit(seconds, nanos, unit)
}

fn in_unit(seconds: i64, nanos: u32, unit: TimeUnit) -> Option<i64> {
    match unit {
        TimeUnit::Second => Some(seconds),
        TimeUnit::Millisecond => seconds
            .checked_mul(1000)?
            .checked_add(nanos as i64 / 1_000_000),
        TimeUnit::Microsecond => seconds
            .checked_mul(1_000_000)?
            .checked_add(nanos as i64 / 1000),
        TimeUnit::Nanosecond => i64::try_from(seconds as i128 * 1_000_000_000 + nanos as i128).ok(),
    }
}

fn write_two(value: u32, out: &mut Vec<u8>) {
    out.push(b'0' + (value / 10) as u8);
    out.push(b'0' + (value % 10) as u8);
}

/// Appends a DATE in ISO form.
pub(super) fn write_date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil_from_days(days);
    match year {
        0..=9999 => {
            write_two(year as u32 / 100, out);
            write_two(year as u32 % 100, out);
        }
        10_000.. => out.extend_from_slice(format!("+{year}").as_bytes()),
        _ => out.extend_from_slice(format!("-{:04}", -year).as_bytes()),
    }
    out.push(b'-');
    write_two(month, out);
    out.push(b'-');
    write_two(day, out);
}

/// Appends a TIME of nanoseconds of the day, with a fraction only where there is one.
pub(super) fn write_time(nanos_of_day: i64, out: &mut Vec<u8>) {
    let (seconds, mut nanos) = (
        (nanos_of_day / 1_000_000_000) as u32,
        (nanos_of_day % 1_000_000_000) as u32,
    );
    write_two(seconds / 3600, out);
    out.push(b':');
    write_two(seconds / 60 % 60, out);
    out.push(b':');
    write_two(seconds % 60, out);
    if nanos == 0 {
        return;
    }
    out.push(b'.');
    let mut place = 100_000_000;
    while nanos > 0 {
        out.push(b'0' + (nanos / place) as u8);
        nanos %= place;
        place /= 10;
    }
}

/// Appends a timestamp of the given unit.
pub(super) fn write_timestamp(
    value: i64,
    unit: TimeUnit,
    style: TimestampStyle,
    zoned: bool,
    out: &mut Vec<u8>,
) {
    let a_second = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let a_day = MILLIS_OF_DAY / 1000 * a_second;
    write_date(value.div_euclid(a_day), out);
    out.push(match style {
        TimestampStyle::Sql => b' ',
        TimestampStyle::Iso => b'T',
    });
    write_time(value.rem_euclid(a_day) * (1_000_000_000 / a_second), out);
    if zoned {
        out.push(b'Z');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TimestampStyle::{Iso, Sql};

    fn millis(text: &str, style: TimestampStyle, zoned: bool) -> Option<i64> {
        parse_timestamp(text.as_bytes(), style, zoned, TimeUnit::Millisecond)
    }

    #[test]
    fn civil_days_come_back() {
        for days in (-1_000_000..1_000_000).step_by(97) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
            assert!(day <= days_of_month(year, month));
        }
        assert_eq!(civil_from_days(0), (1970, 1, 1));
    }

    #[test]
    fn sql_timestamps_need_a_blank_and_seconds() {
        assert_eq!(millis("1970-01-01 00:00:01.5", Sql, false), Some(1500));
        assert_eq!(millis("1969-12-31 23:59:59.9999", Sql, false), Some(-1));
        assert_eq!(millis("1970-01-01 24:00:00", Sql, false), Some(86_400_000));
        assert_eq!(
            millis("1970-02-31 00:00:00", Sql, false),
            Some(58 * 86_400_000)
        );
        for wrong in [
            "",
            "1970-01-01",
            "1970-01-01 00:00",
            "1970-01-01T00:00:00",
            "1970-01-01 00:00:00Z",
            "1970-01-01 00:00:00 ",
            "1970-01-01 24:00:01",
            "1970-1-01 00:00:00",
            "1970-13-01 00:00:00",
            "70-01-01 00:00:00",
        ] {
            assert_eq!(millis(wrong, Sql, false), None, "{wrong}");
        }
    }

    #[test]
    fn iso_timestamps_may_lack_seconds() {
        assert_eq!(millis("1970-01-01T00:01", Iso, false), Some(60_000));
        assert_eq!(
            millis("1970-01-01T00:00:00.123456789", Iso, false),
            Some(123)
        );
        assert_eq!(millis("1970-01-01T00:00:00Z", Iso, true), Some(0));
        assert_eq!(millis("1970-01-01T00:00:00", Iso, true), None);
        assert_eq!(millis("1970-01-01 00:00:00", Iso, false), None);
        assert_eq!(millis("1970-02-31T00:00:00", Iso, false), None);
    }

    #[test]
    fn nanoseconds_end_in_1677_and_2262() {
        let nanos = |text: &str| parse_timestamp(text.as_bytes(), Sql, false, TimeUnit::Nanosecond);
        assert_eq!(nanos("2262-04-11 23:47:16.854775807"), Some(i64::MAX));
        assert_eq!(nanos("2262-04-11 23:47:16.854775808"), None);
    }

    #[test]
    fn dates_are_strict_or_lenient() {
        assert_eq!(parse_date(b"2020-02-29"), Some(18321));
        assert_eq!(parse_date(b"2020-02-30"), None);
        assert_eq!(parse_date(b"2020-1-2"), None);
        assert_eq!(parse_lenient_date(b"2020-1-2"), parse_date(b"2020-01-02"));
        assert_eq!(parse_lenient_date(b"2020-02-31"), parse_date(b"2020-03-02"));
        assert_eq!(parse_lenient_date(b"2020-02-32"), None);
        assert_eq!(parse_lenient_date(b"2020-+2-3"), None);
    }

    #[test]
    fn what_is_written_is_read_again() {
        for value in [0, -1, 1_704_164_645_678, -62_135_596_800_000] {
            for (style, zoned) in [(Sql, false), (Sql, true), (Iso, false), (Iso, true)] {
                let mut text = Vec::new();
                write_timestamp(value, TimeUnit::Millisecond, style, zoned, &mut text);
                assert_eq!(
                    parse_timestamp(&text, style, zoned, TimeUnit::Millisecond),
                    Some(value)
                );
            }
        }
        let mut text = Vec::new();
        write_time(45_296_120_000_000, &mut text);
        assert_eq!(text, b"12:34:56.12");
        assert_eq!(parse_time(&text, Sql), Some(45_296_120));
    }
}
