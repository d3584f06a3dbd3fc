//! Times as text and back: DATE_FORMAT, TO_TIMESTAMP, TO_TIMESTAMP_LTZ, TO_DATE, FROM_UNIXTIME, UNIX_TIMESTAMP.
//!
//! A literal pattern is read once; a pattern from a column is read where it changes. What cannot be read gives NULL (the
//! smallest BIGINT for UNIX_TIMESTAMP), as in Flink.

use arrow::array::{ArrayRef, ArrowPrimitiveType};
use arrow::datatypes::*;

use super::java_pattern::JavaPattern;
use super::text::push;
use crate::error::{Error, Result};
use crate::expr::calendar::*;
use crate::expr::cast::{LocalClock, ticks};
use crate::expr::{Arguments, Call, Expression, Kernel, Strings, decimal};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("DATE_FORMAT", bind_date_format, date_format).failing(has_open_pattern),
    ScalarFunction::new("TO_TIMESTAMP", bind_to_timestamp, to_timestamp),
    ScalarFunction::new("TO_TIMESTAMP_LTZ", bind_to_instant, to_instant),
    ScalarFunction::new("TO_DATE", bind_to_date, to_date),
    ScalarFunction::new("FROM_UNIXTIME", bind_from_unix, from_unix).failing(has_open_pattern),
    ScalarFunction::new("UNIX_TIMESTAMP", bind_to_unix, to_unix),
];

const DEFAULT_PATTERN: &str = "yyyy-MM-dd HH:mm:ss";

/// Whether the pattern is not known before the rows come: then it may turn out broken.
fn has_open_pattern(arguments: &[Expression]) -> bool {
    arguments
        .get(1)
        .is_some_and(|pattern| !matches!(pattern, Expression::Literal { .. }))
}

/// The pattern of a call: from a literal, the default where it is missing, or of each row.
enum Patterns {
    Fixed(JavaPattern),
    OfRow,
}

impl Patterns {
    fn of(call: &Call, index: usize, default: &str) -> Result<Self> {
        if call.arguments.len() <= index {
            return Ok(Patterns::Fixed(JavaPattern::parse(default)?));
        }
        match call.text(index) {
            Some(text) => Ok(Patterns::Fixed(JavaPattern::parse(text)?)),
            None => Ok(Patterns::OfRow),
        }
    }

    fn reader<'a>(&'a self, arguments: &Arguments<'a>, index: usize) -> PatternReader<'a> {
        match self {
            Patterns::Fixed(pattern) => PatternReader {
                fixed: Some(pattern),
                texts: None,
                last: None,
            },
            Patterns::OfRow => PatternReader {
                fixed: None,
                texts: Some(arguments.strings(index)),
                last: None,
            },
        }
    }
}

struct PatternReader<'a> {
    fixed: Option<&'a JavaPattern>,
    texts: Option<Strings<'a>>,
    last: Option<(&'a str, JavaPattern)>,
}

impl PatternReader<'_> {
    fn get(&mut self, row: usize) -> Result<&JavaPattern> {
        if let Some(fixed) = self.fixed {
            return Ok(fixed);
        }
        let text = match &self.texts {
            Some(texts) => texts.get(row),
            None => return Err(Error::internal("a pattern is fixed or a column")),
        };
        if !matches!(&self.last, Some((last, _)) if *last == text) {
            let pattern = JavaPattern::parse(text)
                .map_err(|error| Error::data(error.message().to_string()))?;
            self.last = Some((text, pattern));
        }
        Ok(&self.last.as_ref().expect("just set").1)
    }
}

/// `DATE_FORMAT(time, pattern)`; text is read as a TIMESTAMP.
fn bind_date_format(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=2)?;
    match binding.root(0) {
        TypeRoot::Null => binding.cast(0, &TypeRoot::Timestamp(3)),
        root if root.is_timestamp() => {}
        root if root.is_string() => {
            let text = binding.arguments[0].clone();
            binding.arguments[0] = binding.call("TO_TIMESTAMP", vec![text])?;
        }
        _ => return Err(binding.wrong_argument(0, "a TIMESTAMP or STRING")),
    }
    binding.string(1)?;
    Ok(binding.result(TypeRoot::STRING))
}

fn date_format(call: &Call) -> Result<Kernel> {
    let patterns = Patterns::of(call, 1, DEFAULT_PATTERN)?;
    let (p, zone) = match call.argument_type(0).root {
        TypeRoot::Timestamp(p) => (p, None),
        TypeRoot::TimestampLtz(p) => (p, Some(call.context.time_zone)),
        ref other => return Err(Error::internal(format!("DATE_FORMAT of {other}"))),
    };
    Ok(Box::new(move |arguments| {
        let value = arguments.value(0);
        let times = ticks(&value.array);
        let mut reader = patterns.reader(arguments, 1);
        let mut clock = zone.map(LocalClock::new);
        let mut text = String::new();
        // Neighbours often show the same text, such as the same day.
        let mut last: Option<i64> = None;
        arguments.try_map_strings(arguments.rows() * 20, |row, out| {
            let time = times[value.index(row)];
            if last != Some(time) || reader.fixed.is_none() {
                let mut millis = to_millis(time, p);
                if let Some(clock) = &mut clock {
                    millis = clock.local_of(millis);
                }
                text.clear();
                reader
                    .get(row)?
                    .write(&mut text, millis, nanos_of_milli(time, p));
                last = Some(time);
            }
            push(out, &text);
            Ok(true)
        })
    }))
}

/// `TO_TIMESTAMP(text[, pattern])` is a TIMESTAMP(3).
fn bind_to_timestamp(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=2)?;
    binding.strings()?;
    Ok(LogicalType::nullable(TypeRoot::Timestamp(3)))
}

/// Reads the texts of argument 0 by the pattern in argument 1, or as CAST does where there is none. The default pattern is
/// how CAST reads, too.
fn read_texts<T: ArrowPrimitiveType>(
    arguments: &Arguments,
    patterns: Option<&Patterns>,
    is_lenient: bool,
    mut make: impl FnMut(Option<(i64, i64)>) -> Option<T::Native>,
) -> Result<ArrayRef> {
    let texts = arguments.strings(0);
    let mut reader = patterns.map(|patterns| patterns.reader(arguments, 1));
    arguments.try_map_optional::<T>(|row| {
        let text = texts.get(row);
        let time = match &mut reader {
            None => parse_timestamp(text),
            // A broken pattern reads nothing.
            Some(reader) => match reader.get(row) {
                Ok(pattern) => pattern.read(text, is_lenient),
                Err(_) => None,
            },
        };
        Ok(make(time))
    })
}

fn optional_patterns(call: &Call) -> Result<Option<Patterns>> {
    (call.arguments.len() > 1)
        .then(|| Patterns::of(call, 1, DEFAULT_PATTERN))
        .transpose()
}

fn to_timestamp(call: &Call) -> Result<Kernel> {
    let patterns = optional_patterns(call)?;
    Ok(Box::new(move |arguments| {
        read_texts::<TimestampMillisecondType>(arguments, patterns.as_ref(), false, |time| {
            time.map(|(millis, _)| millis)
        })
    }))
}

/// The years 1 to 9999, in milliseconds.
const INSTANTS: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;

/// `TO_TIMESTAMP_LTZ(number[, precision])`: the number counts units of 10^-precision seconds; 3 where it is missing.
/// `TO_TIMESTAMP_LTZ(text[, pattern])` reads a wall clock of UTC.
fn bind_to_instant(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=2)?;
    if binding.root(0).is_string() {
        binding.strings()?;
        return Ok(LogicalType::nullable(TypeRoot::TimestampLtz(3)));
    }
    match binding.root(0) {
        TypeRoot::Null => binding.cast(0, &TypeRoot::BigInt),
        root if root.is_integer() => binding.cast(0, &TypeRoot::BigInt),
        root if root.is_numeric() => {}
        _ => return Err(binding.wrong_argument(0, "a number or STRING")),
    }
    let precision = match binding.literal_integer(1) {
        None if binding.arguments.len() == 1 => 3,
        Some(precision @ 0..=9) => precision as u8,
        _ => return Err(binding.wrong_argument(1, "a literal from 0 to 9")),
    };
    if binding.arguments.len() == 2 {
        binding.cast(1, &TypeRoot::Int);
    }
    Ok(LogicalType::nullable(TypeRoot::TimestampLtz(
        precision.max(3),
    )))
}

fn to_instant(call: &Call) -> Result<Kernel> {
    let root = call.argument_type(0).root.clone();
    if root.is_string() {
        let patterns = optional_patterns(call)?;
        return Ok(Box::new(move |arguments| {
            read_texts::<TimestampMillisecondType>(arguments, patterns.as_ref(), false, |time| {
                time.map(|(millis, _)| millis)
            })
        }));
    }
    let unit = match call.arguments.get(1) {
        Some(Expression::Literal {
            value: crate::expr::Literal::Integer(precision),
            ..
        }) => *precision as u8,
        _ => 3,
    };
    let TypeRoot::TimestampLtz(p) = call.logical_type.root else {
        return Err(Error::internal("TO_TIMESTAMP_LTZ is an LTZ"));
    };
    Ok(Box::new(move |arguments| match units_per_milli(p) {
        1 => instants::<TimestampMillisecondType>(arguments, &root, unit, p),
        1_000 => instants::<TimestampMicrosecondType>(arguments, &root, unit, p),
        _ => instants::<TimestampNanosecondType>(arguments, &root, unit, p),
    }))
}

/// NULL outside the years 1 to 9999, and outside what 64 bits hold.
fn instants<T: ArrowPrimitiveType<Native = i64>>(
    arguments: &Arguments,
    root: &TypeRoot,
    unit: u8,
    p: u8,
) -> Result<ArrayRef> {
    let make = |units: i64| {
        let per_second = 10_i64.pow(unit as u32);
        let seconds = units.div_euclid(per_second);
        let nanos = units.rem_euclid(per_second) * 10_i64.pow(9 - unit as u32);
        let millis = seconds.checked_mul(1000)?.checked_add(nanos / 1_000_000)?;
        if !INSTANTS.contains(&millis) {
            return None;
        }
        from_millis(millis, nanos % 1_000_000, p)
    };
    match root {
        TypeRoot::Double => {
            let values = arguments.primitives::<Float64Type>(0);
            arguments.try_map_optional::<T>(|row| Ok(make(values.get(row) as i64)))
        }
        TypeRoot::Float => {
            let values = arguments.primitives::<Float32Type>(0);
            arguments.try_map_optional::<T>(|row| Ok(make(values.get(row) as i64)))
        }
        TypeRoot::Decimal { scale, .. } => {
            let values = arguments.primitives::<Decimal128Type>(0);
            let one = decimal::power_of_ten(*scale);
            arguments.try_map_optional::<T>(|row| {
                Ok(i64::try_from(values.get(row) / one).ok().and_then(make))
            })
        }
        _ => {
            let values = arguments.primitives::<Int64Type>(0);
            arguments.try_map_optional::<T>(|row| Ok(make(values.get(row))))
        }
    }
}

/// `TO_DATE(text[, pattern])`.
fn bind_to_date(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=2)?;
    binding.strings()?;
    Ok(LogicalType::nullable(TypeRoot::Date))
}

fn to_date(call: &Call) -> Result<Kernel> {
    let patterns = optional_patterns(call)?;
    Ok(Box::new(move |arguments| {
        if patterns.is_some() {
            return read_texts::<Date32Type>(arguments, patterns.as_ref(), false, |time| {
                time.map(|(millis, _)| millis.div_euclid(MILLIS_PER_DAY) as i32)
            });
        }
        let texts = arguments.strings(0);
        arguments.try_map_optional::<Date32Type>(|row| {
            Ok(parse_date(texts.get(row)).map(|days| days as i32))
        })
    }))
}

/// `FROM_UNIXTIME(seconds[, pattern])`: the wall clock of the session zone.
fn bind_from_unix(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=2)?;
    binding.integer(0)?;
    if binding.arguments.len() == 2 {
        binding.string(1)?;
    }
    Ok(binding.result(TypeRoot::STRING))
}

fn from_unix(call: &Call) -> Result<Kernel> {
    let patterns = Patterns::of(call, 1, DEFAULT_PATTERN)?;
    let zone = call.context.time_zone;
    Ok(Box::new(move |arguments| {
        let seconds = arguments.primitives::<Int64Type>(0);
        let mut reader = patterns.reader(arguments, 1);
        let mut clock = LocalClock::new(zone);
        let mut text = String::new();
        arguments.try_map_strings(arguments.rows() * 20, |row, out| {
            let Some(millis) = seconds.get(row).checked_mul(1000) else {
                return Ok(false);
            };
            text.clear();
            reader.get(row)?.write(&mut text, clock.local_of(millis), 0);
            push(out, &text);
            Ok(true)
        })
    }))
}

/// `UNIX_TIMESTAMP()`: the clock. `UNIX_TIMESTAMP(text[, pattern])` reads a wall clock of the session zone.
fn bind_to_unix(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(0..=2)?;
    binding.strings()?;
    Ok(binding.result(TypeRoot::BigInt))
}

fn to_unix(call: &Call) -> Result<Kernel> {
    if matches!(call.argument_type(0).root, TypeRoot::TimestampLtz(_)) {
        return Ok(Box::new(|arguments| {
            let now = arguments.primitives::<TimestampMillisecondType>(0);
            Ok(arguments.map::<Int64Type>(|row| now.get(row).div_euclid(1000)))
        }));
    }
    let patterns = Patterns::of(call, 1, DEFAULT_PATTERN)?;
    let zone = call.context.time_zone;
    Ok(Box::new(move |arguments| {
        let mut clock = LocalClock::new(zone);
        read_texts::<Int64Type>(arguments, Some(&patterns), true, |time| {
            Some(match time {
                Some((millis, _)) => clock.instant_of(millis) / 1000,
                None => i64::MIN,
            })
        })
    }))
}
