//! The options of one table as values, with the defaults of the connector's list.

use std::fmt;

use crate::config::{OptionSpec, parse_memory_bytes};
use crate::connectors::TableDescriptor;
use crate::error::{Error, Result};

/// Reads a table's options. Their keys and forms were checked against `specs` when the table was looked up.
pub(super) struct TableOptions<'a> {
    table: &'a TableDescriptor,
    specs: &'a [OptionSpec],
}

impl<'a> TableOptions<'a> {
    pub(super) fn new(table: &'a TableDescriptor, specs: &'a [OptionSpec]) -> Self {
        TableOptions { table, specs }
    }

    /// Whether the table sets it.
    pub(super) fn is_set(&self, key: &str) -> bool {
        self.table.option(key).is_some()
    }

    /// As set, or its default.
    pub(super) fn text(&self, key: &str) -> &'a str {
        self.table
            .option(key)
            .or_else(|| {
                let spec = self.specs.iter().find(|spec| spec.key == key);
                spec.and_then(|spec| spec.default)
            })
            .expect("asked only for options that are set or have a default")
    }

    /// A BOOLEAN option.
    pub(super) fn boolean(&self, key: &str) -> bool {
        self.text(key).eq_ignore_ascii_case("true")
    }

    /// A whole number.
    pub(super) fn integer(&self, key: &str) -> i64 {
        self.text(key)
            .trim()
            .parse()
            .expect("the form was checked; defaults are numbers")
    }

    /// A whole number with a least value.
    pub(super) fn at_least(&self, key: &str, least: i64) -> Result<u64> {
        let value = self.integer(key);
        if value < least {
            return Err(self.wrong(key, format!("it must be at least {least}")));
        }
        Ok(value as u64)
    }

    /// A size in bytes.
    pub(super) fn memory_bytes(&self, key: &str) -> u64 {
        parse_memory_bytes(self.text(key)).expect("the form was checked; defaults are sizes") as u64
    }

    /// A point in time, UTC: `yyyy-MM-dd HH:mm:ss[.SSS]`, or milliseconds since 1970.
    pub(super) fn time_millis(&self, key: &str) -> Result<i64> {
        let text = self.text(key).trim();
        if let Ok(millis) = text.parse() {
            return Ok(millis);
        }
        chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f")
            .map(|time| time.and_utc().timestamp_millis())
            .map_err(|_| {
                self.wrong(
                    key,
                    "it must be a time such as '2015-07-15 00:00:00', or milliseconds since 1970",
                )
            })
    }

    /// The value of an option is refused.
    pub(super) fn wrong(&self, key: &str, why: impl fmt::Display) -> Error {
        Error::user(format!(
            "'{}' is no value for the option '{key}' of table \"{}\": {why}",
            self.text(key),
            self.table.name
        ))
    }

    /// Something the connector cannot do.
    pub(super) fn error(&self, what: impl fmt::Display) -> Error {
        Error::unsupported(format!("table \"{}\": {what}", self.table.name))
    }
}
