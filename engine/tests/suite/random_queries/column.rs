//! The types of the random tables and queries, with few values each, so that rows collide.

use std::fmt;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use volley::testing::cell::Value;

/// The type of a column, as far as a query has to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    SmallInt,
    Int,
    BigInt,
    Decimal,
    Double,
    Text,
    Boolean,
    Date,
    Time,
}

/// A column of a table or of a query.
#[derive(Debug, Clone)]
pub(super) struct Column {
    /// Unique in the whole query, unless the column is the same.
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) nullable: bool,
    /// Whether it is an event-time attribute.
    pub(super) is_rowtime: bool,
}

impl Kind {
    pub(super) const ALL: [Kind; 9] = [
        Kind::SmallInt,
        Kind::Int,
        Kind::BigInt,
        Kind::Decimal,
        Kind::Double,
        Kind::Text,
        Kind::Boolean,
        Kind::Date,
        Kind::Time,
    ];

    pub(super) fn is_number(self) -> bool {
        !matches!(self, Kind::Text | Kind::Boolean | Kind::Date | Kind::Time)
    }

    /// A value of a table.
    pub(super) fn value(self, random: &mut SmallRng) -> Value {
        let number: i64 = random.random_range(-1..=3);
        match self {
            Kind::SmallInt | Kind::Int | Kind::BigInt => Value::Integer(number),
            Kind::Decimal => Value::decimal(number as i128 * 125, 2),
            // Eighths are added without rounding, in whatever order.
            Kind::Double => Value::Double(number as f64 / 8.0),
            Kind::Text => {
                let texts = ["", "a", "b", "ab", "B", "ä"];
                Value::Text(
                    texts
                        .choose(random)
                        .copied()
                        .unwrap_or_default()
                        .to_string(),
                )
            }
            Kind::Boolean => Value::Boolean(number % 2 == 0),
            Kind::Date => Value::Date(19_723 + number as i32),
            Kind::Time => Value::timestamp_millis(1_704_067_200_000 + number * 1_000),
        }
    }

    /// A constant as SQL.
    pub(super) fn literal(self, random: &mut SmallRng) -> String {
        match (self, self.value(random)) {
            (Kind::Int, value) => value.to_string(),
            (Kind::Text, Value::Text(text)) => format!("'{text}'"),
            (Kind::Date, value) => format!("DATE '{value}'"),
            (Kind::Time, value) => format!("TIMESTAMP '{value}'"),
            (Kind::Boolean, value) => value.to_string().to_uppercase(),
            (kind, value) => format!("CAST({value} AS {kind})"),
        }
    }

    /// A constant as SQL that no column holds.
    pub(super) fn outside(self) -> Option<&'static str> {
        Some(match self {
            Kind::SmallInt => "CAST(-9973 AS SMALLINT)",
            Kind::Int => "-999983",
            Kind::BigInt => "CAST(-999983 AS BIGINT)",
            Kind::Text => "'none at all'",
            Kind::Date => "DATE '1901-01-01'",
            Kind::Time => "TIMESTAMP '1901-01-01 00:00:00'",
            Kind::Decimal | Kind::Double | Kind::Boolean => return None,
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::SmallInt => "SMALLINT",
            Kind::Int => "INT",
            Kind::BigInt => "BIGINT",
            Kind::Decimal => "DECIMAL(10, 2)",
            Kind::Double => "DOUBLE",
            Kind::Text => "STRING",
            Kind::Boolean => "BOOLEAN",
            Kind::Date => "DATE",
            Kind::Time => "TIMESTAMP(3)",
        })
    }
}
