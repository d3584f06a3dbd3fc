//! The description of a window from what TVFs and legacy group windows say: sizes, the clock, and what is refused.

use super::binder::Binder;
use crate::error::{Error, Result};
use crate::expr::{Expression, Literal};
use crate::types::{Field, SqlPosition, TimeAttribute, TypeRoot};
use crate::window::{WindowKind, WindowTime};

/// A length of time in a window function, with what it is called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Length {
    pub(super) name: &'static str,
    pub(super) ms: i64,
    pub(super) place: Option<SqlPosition>,
}

impl Length {
    /// An interval constant of days to seconds.
    pub(super) fn of(
        name: &'static str,
        function: &str,
        expression: &Expression,
        place: Option<SqlPosition>,
    ) -> Result<Length> {
        match expression {
            Expression::Literal {
                value: Literal::Integer(ms),
                logical_type,
            } if logical_type.root == TypeRoot::IntervalDayTime => Ok(Length {
                name,
                ms: *ms,
                place,
            }),
            other => Err(Error::user(format!(
                "the {name} of {function} must be an interval constant of days to seconds, not {}",
                other.logical_type()
            ))
            .at(place)
            .hint("as in INTERVAL '10' MINUTE; months and years have no fixed length")),
        }
    }

    /// The same, which must be more than zero.
    pub(super) fn positive(self, function: &str) -> Result<i64> {
        if self.ms > 0 {
            return Ok(self.ms);
        }
        Err(Error::user(format!(
            "the {} of {function} must be positive, but is {} ms",
            self.name, self.ms
        ))
        .at(self.place))
    }
}

/// HOP of a TVF: the size must be a multiple of the slide.
pub(super) fn hop(slide: Length, size: Length) -> Result<WindowKind> {
    let (slide_ms, size_ms) = (slide.positive("HOP")?, size.positive("HOP")?);
    if size_ms % slide_ms != 0 {
        return Err(not_a_multiple("HOP", size, slide));
    }
    Ok(WindowKind::Hop { slide_ms, size_ms })
}

/// CUMULATE: the maximum size must be a multiple of the step.
pub(super) fn cumulate(step: Length, size: Length) -> Result<WindowKind> {
    let (step_ms, max_size_ms) = (step.positive("CUMULATE")?, size.positive("CUMULATE")?);
    if max_size_ms % step_ms != 0 {
        return Err(not_a_multiple("CUMULATE", size, step));
    }
    Ok(WindowKind::Cumulate {
        step_ms,
        max_size_ms,
    })
}

fn not_a_multiple(function: &str, size: Length, part: Length) -> Error {
    Error::user(format!(
        "{function} over windows requires {size_name} to be an integral multiple of {part_name}; {size_name} {}, {part_name} {}",
        length(size.ms),
        length(part.ms),
        size_name = size.name,
        part_name = part.name,
    ))
    .at(part.place)
    .hint(format!(
        "{function} takes the {} first, then the {}",
        part.name, size.name
    ))
}

/// `20 min`, `1500 ms`.
fn length(ms: i64) -> String {
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1_000, "s"),
    ];
    match units.into_iter().find(|(unit, _)| ms % unit == 0) {
        Some((unit, name)) => format!("{} {name}", ms / unit),
        None => format!("{ms} ms"),
    }
}

impl Binder<'_> {
    /// The clock of a window over a time attribute; `None` where the column is none.
    pub(super) fn window_time(&self, field: &Field) -> Option<WindowTime> {
        let time_zone = || self.config.time_zone().to_string();
        match (field.time_attribute?, &field.logical_type.root) {
            (TimeAttribute::Proctime, _) => Some(WindowTime::Processing {
                time_zone: time_zone(),
            }),
            (TimeAttribute::Rowtime, TypeRoot::TimestampLtz(_)) => Some(WindowTime::EventInstant {
                time_zone: time_zone(),
            }),
            (TimeAttribute::Rowtime, _) => Some(WindowTime::EventTimestamp),
        }
    }

    /// The refusal of a time column that is no time attribute, with the columns that are.
    pub(super) fn not_a_time_attribute<'f>(
        &self,
        function: &str,
        field: &Field,
        fields: impl Iterator<Item = &'f Field> + Clone,
        place: Option<SqlPosition>,
    ) -> Error {
        let attributes: Vec<String> = fields
            .clone()
            .filter(|other| other.time_attribute.is_some())
            .map(|other| format!("\"{}\"", other.name))
            .collect();
        let after_window = fields.clone().any(|other| other.name == "window_start");
        let hint = match attributes.join(", ") {
            names if after_window => {
                let time = if names.is_empty() {
                    "window_time".to_string()
                } else {
                    names
                };
                format!(
                    "behind a window the time attribute is {time}: keep it in SELECT and GROUP BY and use it here"
                )
            }
            names if names.is_empty() => format!(
                "the table has none: declare one with WATERMARK FOR {name} AS {name} - INTERVAL '5' SECOND, or a column AS PROCTIME(); \
                 casts, arithmetic, joins and aggregates turn a time attribute into a plain timestamp",
                name = field.name
            ),
            names => format!("time attributes here: {names}"),
        };
        Error::user(format!(
            "{function} needs a time attribute, but column \"{}\" is a plain {}",
            field.name, field.logical_type
        ))
        .at(place)
        .hint(hint)
    }
}
