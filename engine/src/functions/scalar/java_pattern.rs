//! Date patterns of Java (`yyyy-MM-dd HH:mm:ss`), read once, to write times and to read them.

use crate::error::{Error, Result};
use crate::expr::calendar::*;

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JavaPattern(Vec<Item>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Text(String),
    /// A field and how many letters it has.
    Field(char, usize),
    /// `[…]`: may be missing when a text is read.
    Optional(Vec<Item>),
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

impl JavaPattern {
    /// Reads a pattern. The error says which letter is not understood.
    pub(super) fn parse(pattern: &str) -> Result<JavaPattern> {
        let mut characters = pattern.chars().peekable();
        let items = parse_items(pattern, &mut characters, false)?;
        Ok(JavaPattern(items))
    }

    /// Writes a wall clock: milliseconds since 1970 and nanoseconds inside the millisecond.
    pub(super) fn write(&self, out: &mut String, millis: i64, nanos_of_milli: i64) {
        let time = WallClock::of(millis, nanos_of_milli);
        write_items(&self.0, out, &time);
    }

    /// Reads a text: milliseconds of the wall clock and nanoseconds inside the millisecond. Missing fields are those of
    /// 1970-01-01 00:00:00. `is_lenient`: numbers may have more or fewer digits than the pattern, and values may be out of
    /// range and carry over (as Java's `SimpleDateFormat`).
    pub(super) fn read(&self, text: &str, is_lenient: bool) -> Option<(i64, i64)> {
        let mut fields = Fields::default();
        let rest = read_items(&self.0, text, &mut fields, is_lenient)?;
        if !rest.is_empty() && !is_lenient {
            return None;
        }
        fields.resolve(is_lenient)
    }
}

type Characters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn parse_items(pattern: &str, characters: &mut Characters, in_optional: bool) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    while let Some(character) = characters.next() {
        match character {
            '\'' => push_text(&mut items, &quoted(characters)),
            '[' => items.push(Item::Optional(parse_items(pattern, characters, true)?)),
            ']' if in_optional => return Ok(items),
            letter if letter.is_ascii_alphabetic() => {
                let mut count = 1;
                while characters.next_if_eq(&letter).is_some() {
                    count += 1;
                }
                check_field(pattern, letter, count)?;
                items.push(Item::Field(letter, count));
            }
            other => push_text(&mut items, other.encode_utf8(&mut [0; 4])),
        }
    }
    Ok(items)
}

fn push_text(items: &mut Vec<Item>, text: &str) {
    match items.last_mut() {
        Some(Item::Text(before)) => before.push_str(text),
        _ => items.push(Item::Text(text.to_string())),
    }
}

/// The text up to the closing quote; two quotes are one.
fn quoted(characters: &mut Characters) -> String {
    let mut text = String::new();
    while let Some(character) = characters.next() {
        if character == '\'' {
            if characters.next_if_eq(&'\'').is_none() {
                break;
            }
            text.push('\'');
        } else {
            text.push(character);
        }
    }
    if text.is_empty() {
        "'".to_string()
    } else {
        text
    }
}

fn check_field(pattern: &str, letter: char, count: usize) -> Result<()> {
    let most = match letter {
        'y' | 'u' | 'Y' => 9,
        'M' | 'L' | 'E' | 'Q' | 'q' => 4,
        'd' | 'H' | 'h' | 'K' | 'k' | 'm' | 's' | 'w' => 2,
        'D' => 3,
        'S' | 'n' | 'A' => 9,
        'a' | 'e' => 1,
        _ => 0,
    };
    if count <= most {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "'{}' in the date pattern '{pattern}'",
        letter.to_string().repeat(count)
    ))
    .hint("letters: y M d D E a H h m s S n Q w; text stands in single quotes"))
}

/// The parts of a wall clock.
struct WallClock {
    days: i64,
    year: i64,
    month: i64,
    day: i64,
    milli_of_day: i64,
    nano_of_second: i64,
}

impl WallClock {
    fn of(millis: i64, nanos_of_milli: i64) -> Self {
        let days = millis.div_euclid(MILLIS_PER_DAY);
        let milli_of_day = millis.rem_euclid(MILLIS_PER_DAY);
        let (year, month, day) = date_from_days(days);
        WallClock {
            days,
            year,
            month,
            day,
            milli_of_day,
            nano_of_second: milli_of_day % 1000 * 1_000_000 + nanos_of_milli,
        }
    }

    fn hour(&self) -> i64 {
        self.milli_of_day / MILLIS_PER_HOUR
    }
}

fn write_items(items: &[Item], out: &mut String, time: &WallClock) {
    for item in items {
        match item {
            Item::Text(text) => out.push_str(text),
            Item::Field(letter, count) => write_field(*letter, *count, out, time),
            Item::Optional(items) => write_items(items, out, time),
        }
    }
}

fn write_field(letter: char, count: usize, out: &mut String, time: &WallClock) {
    let hour = time.hour();
    match letter {
        'y' | 'u' if count == 2 => number(out, time.year.rem_euclid(100), 2),
        'y' if time.year <= 0 => number(out, 1 - time.year, count),
        'y' | 'u' => number(out, time.year, count),
        'Y' => number(out, iso_week(time.days).0, count),
        'M' | 'L' if count <= 2 => number(out, time.month, count),
        'M' | 'L' => out.push_str(shortened(MONTHS[time.month as usize - 1], count)),
        'd' => number(out, time.day, count),
        'D' => number(out, day_of_year(time.days), count),
        'E' => {
            let name = DAYS[iso_day_of_week(time.days) as usize - 1];
            out.push_str(shortened(name, count.max(3)));
        }
        'e' => number(out, iso_day_of_week(time.days) % 7 + 1, 1),
        'Q' | 'q' => write_quarter(out, (time.month + 2) / 3, count),
        'w' => number(out, iso_week(time.days).1, count),
        'a' => out.push_str(if hour < 12 { "AM" } else { "PM" }),
        'H' => number(out, hour, count),
        'h' => number(out, (hour + 11) % 12 + 1, count),
        'K' => number(out, hour % 12, count),
        'k' => number(out, (hour + 23) % 24 + 1, count),
        'm' => number(out, time.milli_of_day / MILLIS_PER_MINUTE % 60, count),
        's' => number(out, time.milli_of_day / MILLIS_PER_SECOND % 60, count),
        'S' => number(
            out,
            time.nano_of_second / 10_i64.pow(9 - count as u32),
            count,
        ),
        'n' => number(out, time.nano_of_second, count),
        'A' => number(out, time.milli_of_day, count),
        other => unreachable!("{other} was refused when the pattern was read"),
    }
}

fn shortened(name: &str, count: usize) -> &str {
    if count >= 4 { name } else { &name[..3] }
}

fn write_quarter(out: &mut String, quarter: i64, count: usize) {
    match count {
        1 | 2 => number(out, quarter, count),
        3 => {
            out.push('Q');
            number(out, quarter, 1);
        }
        _ => {
            out.push_str(["1st", "2nd", "3rd", "4th"][quarter as usize - 1]);
            out.push_str(" quarter");
        }
    }
}

fn number(out: &mut String, value: i64, width: usize) {
    let mut text = TextBuffer::new();
    text.push_number(value, width.max(1));
    out.push_str(text.as_str());
}

/// What was read so far.
#[derive(Default, Clone)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: Option<i64>,
    hour_of_half: Option<i64>,
    is_afternoon: Option<bool>,
    minute: i64,
    second: i64,
    nanos: i64,
}

fn read_items<'a>(
    items: &[Item],
    text: &'a str,
    fields: &mut Fields,
    is_lenient: bool,
) -> Option<&'a str> {
    let mut rest = text;
    for (index, item) in items.iter().enumerate() {
        rest = match item {
            Item::Text(expected) => rest.strip_prefix(expected.as_str())?,
            Item::Optional(inner) => {
                let mut tried = fields.clone();
                match read_items(inner, rest, &mut tried, is_lenient) {
                    Some(after) => {
                        *fields = tried;
                        after
                    }
                    None => rest,
                }
            }
            Item::Field(letter, count) => {
                // Numbers that follow each other directly are told apart by their widths.
                let is_followed = matches!(items.get(index + 1), Some(Item::Field(_, _)));
                read_field(*letter, *count, rest, fields, is_lenient && !is_followed)?
            }
        };
    }
    Some(rest)
}

fn read_field<'a>(
    letter: char,
    count: usize,
    text: &'a str,
    fields: &mut Fields,
    any_width: bool,
) -> Option<&'a str> {
    match letter {
        'M' | 'L' if count > 2 => {
            let (month, rest) = name(text, &MONTHS, count)?;
            fields.month = Some(month);
            return Some(rest);
        }
        'E' => return Some(name(text, &DAYS, count.max(3))?.1),
        'a' => {
            let half = text.get(..2)?;
            fields.is_afternoon = Some(half.eq_ignore_ascii_case("PM"));
            let is_half = half.eq_ignore_ascii_case("AM") || half.eq_ignore_ascii_case("PM");
            return is_half.then_some(&text[2..]);
        }
        _ => {}
    }
    let (least, most) = match (letter, count) {
        _ if any_width => (1, 18),
        ('S', count) => (count, count),
        ('y' | 'u', 2) => (2, 2),
        ('y' | 'u' | 'Y', count) => (count, 4.max(count)),
        (_, 1) => (1, 2),
        (_, count) => (count, count),
    };
    let (value, digits, rest) = digits(text, least, most)?;
    match letter {
        'y' | 'u' if count == 2 && digits <= 2 => fields.year = Some(2000 + value),
        'y' | 'u' | 'Y' => fields.year = Some(value),
        'M' | 'L' => fields.month = Some(value),
        'd' => fields.day = Some(value),
        'D' => fields.day_of_year = Some(value),
        'H' => fields.hour = Some(value),
        'k' => fields.hour = Some(value % 24),
        'h' => fields.hour_of_half = Some(value % 12),
        'K' => fields.hour_of_half = Some(value),
        'm' => fields.minute = value,
        's' => fields.second = value,
        'S' if any_width => fields.nanos = value.checked_mul(1_000_000)?,
        'S' => fields.nanos = value * 10_i64.pow(9 - count.min(9) as u32),
        'n' => fields.nanos = value,
        _ => {}
    }
    Some(rest)
}

fn digits(text: &str, least: usize, most: usize) -> Option<(i64, usize, &str)> {
    let count = text
        .bytes()
        .take(most)
        .take_while(u8::is_ascii_digit)
        .count();
    if count < least {
        return None;
    }
    Some((text[..count].parse().ok()?, count, &text[count..]))
}

/// A name, full or of three letters, as its number from 1.
fn name<'a>(text: &'a str, names: &[&str], count: usize) -> Option<(i64, &'a str)> {
    for (index, name) in names.iter().enumerate() {
        let name = shortened(name, count);
        if let Some(start) = text.get(..name.len())
            && start.eq_ignore_ascii_case(name)
        {
            return Some((index as i64 + 1, &text[name.len()..]));
        }
    }
    None
}

impl Fields {
    fn resolve(&self, is_lenient: bool) -> Option<(i64, i64)> {
        let (year, month) = (self.year.unwrap_or(1970), self.month.unwrap_or(1));
        let mut day = self.day.unwrap_or(1);
        let hour = match (self.hour, self.hour_of_half) {
            (Some(hour), _) => hour,
            (None, Some(hour)) => {
                hour + if self.is_afternoon == Some(true) {
                    12
                } else {
                    0
                }
            }
            (None, None) => 0,
        };
        if !is_lenient {
            let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
            let is_time = hour < 24 && self.minute < 60 && self.second < 60;
            if !is_date || !is_time {
                return None;
            }
            day = day.min(days_in_month(year, month));
        }
        let days = match self.day_of_year {
            Some(day_of_year) => days_from_date(year, 1, day_of_year),
            None => days_from_date(year, month, day),
        };
        let seconds = hour
            .checked_mul(3600)?
            .checked_add(self.minute.checked_mul(60)?)?
            .checked_add(self.second)?;
        let millis = days
            .checked_mul(MILLIS_PER_DAY)?
            .checked_add(seconds.checked_mul(1000)?)?
            .checked_add(self.nanos / 1_000_000)?;
        Some((millis, self.nanos % 1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(pattern: &str, millis: i64, nanos: i64) -> String {
        let mut out = String::new();
        JavaPattern::parse(pattern)
            .unwrap()
            .write(&mut out, millis, nanos);
        out
    }

    #[test]
    fn times_are_written() {
        let afternoon = 1_705_324_205_678;
        assert_eq!(
            write("yyyy-MM-dd HH:mm:ss.SSS", afternoon, 0),
            "2024-01-15 13:10:05.678"
        );
        assert_eq!(write("yy/M/d h:mm a", afternoon, 0), "24/1/15 1:10 PM");
        assert_eq!(write("EEE, dd MMM yyyy", afternoon, 0), "Mon, 15 Jan 2024");
        assert_eq!(
            write("EEEE MMMM D 'o''clock' Q QQQ", 0, 0),
            "Thursday January 1 o'clock 1 Q1"
        );
        assert_eq!(write("HH:mm:ss.SSSSSS", -1, 5_000), "23:59:59.999005");
        assert_eq!(write("yyyyMMdd", -1, 0), "19691231");
    }

    #[test]
    fn times_are_read() {
        let read =
            |pattern: &str, text: &str| JavaPattern::parse(pattern).unwrap().read(text, false);
        assert_eq!(read("yyyyMMddHHmmss", "19700101000001"), Some((1000, 0)));
        assert_eq!(
            read("yyyy-MM-dd HH:mm:ss.SSS", "1970-01-01 00:00:00.005"),
            Some((5, 0))
        );
        assert_eq!(
            read("dd MMM yyyy", "02 Jan 1970"),
            Some((MILLIS_PER_DAY, 0))
        );
        assert_eq!(read("h:mm a", "1:00 PM"), Some((13 * MILLIS_PER_HOUR, 0)));
        assert_eq!(read("yyyy-MM-dd[ HH:mm]", "1970-01-01"), Some((0, 0)));
        assert_eq!(read("yyyy-MM-dd", "1970-01-01 x"), None);
        assert_eq!(read("yyyy-MM-dd", "1970-1-01"), None);
        assert_eq!(read("yyyy-MM-dd", "1970-13-01"), None);
        assert_eq!(
            JavaPattern::parse("yyyy-MM-dd")
                .unwrap()
                .read("1970-13-1", true),
            Some((365 * MILLIS_PER_DAY, 0)),
            "lenient: the thirteenth month is January"
        );
    }

    #[test]
    fn unknown_letters_are_refused() {
        assert!(JavaPattern::parse("yyyy-MM-ddTHH").is_err());
        assert!(JavaPattern::parse("yyyy-MM-dd'T'HH").is_ok());
    }
}
