//! The proleptic Gregorian calendar on integers: days, months, parts of a time, and their text.
//!
//! A timestamp column holds ms, µs or ns by its precision; [`units_per_milli`] is the bridge. Text is written into a small
//! buffer on the stack, without `format!`, because printing a timestamp is a hot path of sinks.

use std::fmt::Write;

pub(crate) const MILLIS_PER_SECOND: i64 = 1_000;
pub(crate) const MILLIS_PER_MINUTE: i64 = 60_000;
pub(crate) const MILLIS_PER_HOUR: i64 = 3_600_000;
pub(crate) const MILLIS_PER_DAY: i64 = 86_400_000;

/// How many units of a timestamp of precision `p` make a millisecond: 1, 1,000 or 1,000,000.
pub(crate) fn units_per_milli(p: u8) -> i64 {
    match p {
        0..=3 => 1,
        4..=6 => 1_000,
        _ => 1_000_000,
    }
}

/// The millisecond of a timestamp of precision `p`, rounded down.
#[inline]
pub(crate) fn to_millis(value: i64, p: u8) -> i64 {
    match p {
        0..=3 => value,
        4..=6 => value.div_euclid(1_000),
        _ => value.div_euclid(1_000_000),
    }
}

/// The nanoseconds inside the millisecond.
#[inline]
pub(crate) fn nanos_of_milli(value: i64, p: u8) -> i64 {
    match p {
        0..=3 => 0,
        4..=6 => value.rem_euclid(1_000) * 1_000,
        _ => value.rem_euclid(1_000_000),
    }
}

/// The timestamp of precision `p` at a millisecond and the nanoseconds inside it, cut to the precision; `None` where 64 bits
/// do not hold it.
#[inline]
pub(crate) fn from_millis(millis: i64, nanos_of_milli: i64, p: u8) -> Option<i64> {
    match p {
        3 => Some(millis),
        0..=2 => {
            let unit = 10_i64.pow(3 - p as u32);
            Some(millis.div_euclid(unit) * unit)
        }
        4..=6 => {
            let unit = 10_i64.pow(9 - p as u32);
            let micros = nanos_of_milli / unit * unit / 1_000;
            millis.checked_mul(1_000)?.checked_add(micros)
        }
        _ => {
            let unit = 10_i64.pow(9 - p.min(9) as u32);
            let nanos = nanos_of_milli / unit * unit;
            millis.checked_mul(1_000_000)?.checked_add(nanos)
        }
    }
}

/// Days since 1970-01-01 of a date. The month may be outside 1 to 12, and the day outside the month: both carry over.
pub(crate) fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    let months = year * 12 + (month - 1);
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month (1 to 12) and day of month of a day since 1970-01-01.
#[inline]
pub(crate) fn date_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Whether a year has a 29th of February.
pub(crate) fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The number of days of a month.
pub(crate) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap_year(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The same day some months on; the last of the month where that has no such day.
pub(crate) fn add_months_to_days(days: i64, months: i64) -> i64 {
    let (year, month, day) = date_from_days(days);
    let total = year * 12 + month - 1 + months;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
    days_from_date(year, month, day.min(days_in_month(year, month)))
}

/// The same wall clock some months on; `None` where 64 bits do not hold it.
pub(crate) fn add_months_to_millis(millis: i64, months: i64) -> Option<i64> {
    let days = add_months_to_days(millis.div_euclid(MILLIS_PER_DAY), months);
    days.checked_mul(MILLIS_PER_DAY)?
        .checked_add(millis.rem_euclid(MILLIS_PER_DAY))
}

/// The number of whole months from `from` to `to`, both wall clocks in milliseconds, as Flink counts: days decide; where they
/// are whole months apart, an earlier time of day takes one month off, whatever the direction.
pub(crate) fn subtract_months(to: i64, from: i64) -> i64 {
    let (to_day, from_day) = (
        to.div_euclid(MILLIS_PER_DAY),
        from.div_euclid(MILLIS_PER_DAY),
    );
    let months = subtract_months_of_days(to_day, from_day);
    let is_earlier_in_day = to.rem_euclid(MILLIS_PER_DAY) < from.rem_euclid(MILLIS_PER_DAY);
    let is_whole = add_months_to_days(from_day, months) == to_day;
    months - i64::from(is_whole && is_earlier_in_day)
}

fn subtract_months_of_days(to: i64, from: i64) -> i64 {
    if to < from {
        return -subtract_months_of_days(from, to);
    }
    let (from_year, from_month, _) = date_from_days(from);
    let (to_year, to_month, _) = date_from_days(to);
    let months = (to_year - from_year) * 12 + to_month - from_month;
    months - i64::from(add_months_to_days(from, months) > to)
}

/// Monday is 1, Sunday 7.
pub(crate) fn iso_day_of_week(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// The day of the year, from 1.
pub(crate) fn day_of_year(days: i64) -> i64 {
    let (year, _, _) = date_from_days(days);
    days - days_from_date(year, 1, 1) + 1
}

/// The ISO year and the ISO week in it: week 1 is the one with the year's first Thursday.
pub(crate) fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days - iso_day_of_week(days) + 4;
    let (year, _, _) = date_from_days(thursday);
    (year, (thursday - days_from_date(year, 1, 1)) / 7 + 1)
}

/// Text of at most 64 bytes on the stack.
pub(crate) struct TextBuffer {
    bytes: [u8; 64],
    length: usize,
}

impl TextBuffer {
    pub(crate) fn new() -> Self {
        TextBuffer {
            bytes: [0; 64],
            length: 0,
        }
    }

    pub(crate) fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    /// A number with leading zeros to at least `width` digits.
    pub(crate) fn push_number(&mut self, number: i64, width: usize) {
        if number < 0 {
            self.push(b'-');
        }
        let mut rest = number.unsigned_abs();
        let mut digits = [b'0'; 20];
        let mut start = digits.len();
        while rest > 0 {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        let start = start.min(digits.len() - width.min(digits.len()));
        for digit in &digits[start..] {
            self.push(*digit);
        }
    }

    pub(crate) fn push_two(&mut self, number: i64) {
        self.push(b'0' + (number / 10) as u8);
        self.push(b'0' + (number % 10) as u8);
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).expect("only ASCII is pushed")
    }

    pub(crate) fn push_date(&mut self, days: i64) {
        let (year, month, day) = date_from_days(days);
        self.push_number(year, 4);
        self.push(b'-');
        self.push_two(month);
        self.push(b'-');
        self.push_two(day);
    }

    /// `HH:mm:ss` and, where `digits` is not 0, a point and so many digits of `nanos` (of the second).
    pub(crate) fn push_time(&mut self, second_of_day: i64, nanos: i64, digits: u8) {
        self.push_two(second_of_day / 3600);
        self.push(b':');
        self.push_two(second_of_day / 60 % 60);
        self.push(b':');
        self.push_two(second_of_day % 60);
        if digits > 0 {
            self.push(b'.');
            let shown = nanos / 10_i64.pow(9 - digits.min(9) as u32);
            self.push_number(shown, digits as usize);
        }
    }
}

/// `yyyy-MM-dd`.
pub(crate) fn write_date(out: &mut impl Write, days: i64) {
    let mut text = TextBuffer::new();
    text.push_date(days);
    let _ = out.write_str(text.as_str());
}

/// `HH:mm:ss[.fff]` of a millisecond of the day, with `p` digits of which only three can be other than 0.
pub(crate) fn write_time(out: &mut impl Write, millis: i64, p: u8) {
    let mut text = TextBuffer::new();
    let millis = millis.rem_euclid(MILLIS_PER_DAY);
    text.push_time(millis / 1000, millis % 1000 * 1_000_000, p);
    let _ = out.write_str(text.as_str());
}

/// `yyyy-MM-dd HH:mm:ss[.fff]`, with `p` digits, of a timestamp of precision `p`.
pub(crate) fn write_timestamp(out: &mut impl Write, value: i64, p: u8) {
    let millis = to_millis(value, p);
    let of_day = millis.rem_euclid(MILLIS_PER_DAY);
    let nanos = of_day % 1000 * 1_000_000 + nanos_of_milli(value, p);
    let mut text = TextBuffer::new();
    text.push_date(millis.div_euclid(MILLIS_PER_DAY));
    text.push(b' ');
    text.push_time(of_day / 1000, nanos, p);
    let _ = out.write_str(text.as_str());
}

/// Reads digits off the front of a text.
struct Digits<'a> {
    rest: &'a [u8],
}

impl Digits<'_> {
    /// A number of `least` to `most` digits.
    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let count = self
            .rest
            .iter()
            .take(most)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if count < least {
            return None;
        }
        let number = self.rest[..count]
            .iter()
            .fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        self.rest = &self.rest[count..];
        Some(number)
    }

    fn skip(&mut self, byte: u8) -> Option<()> {
        self.rest = self.rest.strip_prefix(&[byte])?;
        Some(())
    }

    /// A point and up to nine digits, as nanoseconds; 0 where there is no point.
    fn fraction(&mut self) -> Option<i64> {
        if self.rest.first() != Some(&b'.') {
            return Some(0);
        }
        self.rest = &self.rest[1..];
        let before = self.rest.len();
        let number = self.number(0, 9)?;
        let digits = before - self.rest.len();
        Some(number * 10_i64.pow(9 - digits as u32))
    }

    /// `HH:mm:ss[.f]` with one or two digits a part, as milliseconds of the day and nanoseconds inside the millisecond.
    fn time(&mut self) -> Option<(i64, i64)> {
        let hour = self.number(1, 2)?;
        self.skip(b':')?;
        let minute = self.number(1, 2)?;
        self.skip(b':')?;
        let second = self.number(1, 2)?;
        let nanos = self.fraction()?;
        let is_time = hour < 24 && minute < 60 && second < 60;
        let millis = (hour * 3600 + minute * 60 + second) * 1000 + nanos / 1_000_000;
        is_time.then_some((millis, nanos % 1_000_000))
    }
}

/// Reads `yyyy-MM-dd[ HH:mm:ss[.f{0,9}]]`, with one or two digits for the parts after the year, as Flink's CAST does: a day
/// up to the 31st that the month does not have is the month's last. The result is milliseconds of the wall clock and
/// nanoseconds inside the millisecond.
pub(crate) fn parse_timestamp(text: &str) -> Option<(i64, i64)> {
    let mut digits = Digits {
        rest: text.as_bytes(),
    };
    let year = digits.number(4, 4)?;
    digits.skip(b'-')?;
    let month = digits.number(1, 2)?;
    digits.skip(b'-')?;
    let day = digits.number(1, 2)?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = days_from_date(year, month, day.min(days_in_month(year, month)));
    let (mut millis, mut nanos) = (0, 0);
    if !digits.rest.is_empty() {
        digits.skip(b' ')?;
        (millis, nanos) = digits.time()?;
    }
    digits
        .rest
        .is_empty()
        .then_some((days * MILLIS_PER_DAY + millis, nanos))
}

/// Reads `yyyy`, `yyyy-MM` or `yyyy-MM-dd`, whatever follows after a space, as Flink's CAST to DATE does.
pub(crate) fn parse_date(text: &str) -> Option<i64> {
    let text = text.trim();
    let text = text.split(' ').next()?;
    let mut parts = text.splitn(3, '-');
    let mut number = |missing: i64| -> Option<i64> {
        match parts.next() {
            None => Some(missing),
            Some(part) if (1..=4).contains(&part.len()) => Digits {
                rest: part.as_bytes(),
            }
            .number(part.len(), part.len()),
            Some(_) => None,
        }
    };
    let (year, month, day) = (number(0)?, number(1)?, number(1)?);
    let is_date = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    is_date.then(|| days_from_date(year, month, day))
}

/// Reads `HH`, `HH:mm`, `HH:mm:ss` or `HH:mm:ss.fff` as milliseconds of the day; further digits are cut.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let mut digits = Digits {
        rest: text.trim().as_bytes(),
    };
    let hour = digits.number(1, 2)?;
    let (mut minute, mut second, mut nanos) = (0, 0, 0);
    if !digits.rest.is_empty() {
        digits.skip(b':')?;
        minute = digits.number(1, 2)?;
    }
    if !digits.rest.is_empty() {
        digits.skip(b':')?;
        second = digits.number(1, 2)?;
        nanos = digits.fraction()?;
    }
    let is_time = hour < 24 && minute < 60 && second < 60 && digits.rest.is_empty();
    is_time.then_some((hour * 3600 + minute * 60 + second) * 1000 + nanos / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_round_trip_over_four_centuries_around_1970() {
        for days in (-150_000..150_000).step_by(37) {
            let (year, month, day) = date_from_days(days);
            assert_eq!(days_from_date(year, month, day), days);
        }
        assert_eq!(date_from_days(-1), (1969, 12, 31));
        assert_eq!(date_from_days(11_016), (2000, 2, 29));
    }

    #[test]
    fn months_end_at_the_end_of_the_month() {
        let march = days_from_date(2024, 3, 31);
        assert_eq!(add_months_to_days(march, -1), days_from_date(2024, 2, 29));
        assert_eq!(add_months_to_days(march, 11), days_from_date(2025, 2, 28));
        assert_eq!(add_months_to_days(march, -27), days_from_date(2021, 12, 31));
    }

    #[test]
    fn only_whole_months_count() {
        let at = |y, m, d| days_from_date(y, m, d) * MILLIS_PER_DAY;
        assert_eq!(subtract_months(at(2021, 2, 1), at(2021, 1, 2)), 0);
        assert_eq!(subtract_months(at(2021, 2, 1), at(2021, 1, 1)), 1);
        assert_eq!(subtract_months(at(2021, 2, 1), at(2021, 1, 1) + 1), 0);
        assert_eq!(subtract_months(at(2021, 1, 1), at(2021, 1, 2)), 0);
        assert_eq!(subtract_months(at(2021, 1, 1), at(2022, 1, 2)), -12);
    }

    #[test]
    fn timestamps_are_written_with_the_digits_of_their_precision() {
        let text = |value, p| {
            let mut out = String::new();
            write_timestamp(&mut out, value, p);
            out
        };
        assert_eq!(text(-1, 3), "1969-12-31 23:59:59.999");
        assert_eq!(text(0, 0), "1970-01-01 00:00:00");
        assert_eq!(text(-1, 9), "1969-12-31 23:59:59.999999999");
        assert_eq!(text(1_234_567, 6), "1970-01-01 00:00:01.234567");
    }

    #[test]
    fn texts_are_read_as_flink_reads_them() {
        assert_eq!(parse_timestamp("1970-1-1 0:0:1.5"), Some((1_500, 0)));
        assert_eq!(parse_timestamp("1970-01-02"), Some((MILLIS_PER_DAY, 0)));
        assert_eq!(
            parse_timestamp("1970-01-01 00:00:00.123456789"),
            Some((123, 456_789))
        );
        assert_eq!(
            parse_timestamp("2021-02-31"),
            parse_timestamp("2021-02-28"),
            "Java's smart resolver"
        );
        for bad in [
            "oops",
            "1970-01-01T00:00:00",
            "1970-13-01",
            "1970-01-01 24:00:00",
            "",
        ] {
            assert_eq!(parse_timestamp(bad), None, "{bad}");
        }
        assert_eq!(parse_date("1970-02-01 13:00"), Some(31));
        assert_eq!(parse_date("1971"), Some(365));
        assert_eq!(parse_date("1970-02-30"), None);
        assert_eq!(parse_time("01:02"), Some(3_720_000));
        assert_eq!(parse_time("25:00"), None);
    }

    #[test]
    fn iso_weeks() {
        assert_eq!(iso_week(days_from_date(2021, 1, 3)), (2020, 53));
        assert_eq!(iso_week(days_from_date(2021, 1, 4)), (2021, 1));
        assert_eq!(iso_day_of_week(0), 4, "1970-01-01 was a Thursday");
    }
}
