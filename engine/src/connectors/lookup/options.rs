//! The options of tables that are looked up, under Flink's keys.

use std::time::Duration;

use crate::config::{OptionSpec, OptionType, parse_duration};
use crate::connectors::TableDescriptor;
use crate::error::{Error, Result};

/// What tables of every connector that can be looked up accept.
pub const LOOKUP_OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "lookup.cache",
        OptionType::Enum(&["NONE", "PARTIAL", "FULL"]),
        Some("NONE"),
        "What a lookup join remembers of the table: nothing, the keys asked for, or all of it.",
    ),
    OptionSpec::new(
        "lookup.max-retries",
        OptionType::Integer,
        Some("3"),
        "How often a lookup that failed is tried again.",
    ),
    OptionSpec::new(
        "lookup.partial-cache.max-rows",
        OptionType::Integer,
        None,
        "How many rows the partial cache holds; the ones longest not asked for go first.",
    ),
    OptionSpec::new(
        "lookup.partial-cache.expire-after-write",
        OptionType::Duration,
        None,
        "How long the partial cache believes what it was told.",
    ),
    OptionSpec::new(
        "lookup.partial-cache.expire-after-access",
        OptionType::Duration,
        None,
        "How long the partial cache keeps a key that nobody asks for.",
    ),
    OptionSpec::new(
        "lookup.partial-cache.cache-missing-key",
        OptionType::Boolean,
        Some("true"),
        "Whether the partial cache remembers that a key has no rows.",
    ),
    OptionSpec::new(
        "lookup.full-cache.reload-strategy",
        OptionType::Enum(&["PERIODIC", "TIMED"]),
        Some("PERIODIC"),
        "When the full cache is loaded again; only PERIODIC is supported.",
    ),
    OptionSpec::new(
        "lookup.full-cache.periodic-reload.interval",
        OptionType::Duration,
        None,
        "How long the full cache is used before the table is loaded again; not set: for the life of the job.",
    ),
    OptionSpec::new(
        "lookup.full-cache.periodic-reload.schedule-mode",
        OptionType::Enum(&["FIXED_DELAY", "FIXED_RATE"]),
        Some("FIXED_DELAY"),
        "Whether the interval begins at the end or at the start of a load; both are the same here.",
    ),
    OptionSpec::new(
        "lookup.full-cache.timed-reload.*",
        OptionType::Text,
        None,
        "Loading at a time of day; not supported.",
    ),
];

/// The options of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupOptions {
    /// What is remembered.
    pub cache: LookupCache,
    /// How often a lookup that failed is tried again.
    pub max_retries: usize,
}

/// What a lookup join remembers of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupCache {
    /// Nothing: the table is asked every time.
    None,
    /// The keys asked for.
    Partial(PartialCacheOptions),
    /// All of it.
    Full {
        /// After this long it is loaded again; `None`: never.
        reload_interval: Option<Duration>,
    },
}

/// What a partial cache keeps, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialCacheOptions {
    /// At most so many rows; `None`: no bound.
    pub max_rows: Option<usize>,
    /// For so long after the table was asked.
    pub expire_after_write: Option<Duration>,
    /// For so long after somebody asked.
    pub expire_after_access: Option<Duration>,
    /// Whether also that a key has no rows.
    pub cache_missing_key: bool,
}

impl LookupOptions {
    /// The options of a table.
    pub fn of(table: &TableDescriptor) -> Result<Self> {
        let refuse_timed = || {
            Error::unsupported(format!(
                "table \"{}\": loading a lookup table at a time of day (TIMED)",
                table.name
            ))
            .hint("use 'lookup.full-cache.periodic-reload.interval'")
        };
        let is_timed = table
            .options
            .keys()
            .any(|key| key.starts_with("lookup.full-cache.timed-reload."));
        let strategy = table.option("lookup.full-cache.reload-strategy");
        if is_timed || strategy.is_some_and(|strategy| strategy.eq_ignore_ascii_case("TIMED")) {
            return Err(refuse_timed());
        }
        let duration = |key: &str| table.option(key).and_then(parse_duration);
        let cache = match table
            .option("lookup.cache")
            .map(str::to_uppercase)
            .as_deref()
        {
            Some("PARTIAL") => LookupCache::Partial(PartialCacheOptions {
                max_rows: at_least(table, "lookup.partial-cache.max-rows", 1)?,
                expire_after_write: duration("lookup.partial-cache.expire-after-write"),
                expire_after_access: duration("lookup.partial-cache.expire-after-access"),
                cache_missing_key: table
                    .option("lookup.partial-cache.cache-missing-key")
                    .is_none_or(|value| !value.eq_ignore_ascii_case("false")),
            }),
            Some("FULL") => LookupCache::Full {
                reload_interval: duration("lookup.full-cache.periodic-reload.interval"),
            },
            _ => LookupCache::None,
        };
        Ok(LookupOptions {
            cache,
            max_retries: at_least(table, "lookup.max-retries", 0)?.unwrap_or(3),
        })
    }
}

/// A whole number with a least value, where it is set.
fn at_least(table: &TableDescriptor, key: &str, least: usize) -> Result<Option<usize>> {
    let Some(text) = table.option(key) else {
        return Ok(None);
    };
    let number = text.trim().parse().ok().filter(|number| *number >= least);
    number.map(Some).ok_or_else(|| {
        Error::user(format!(
            "table \"{}\": '{text}' is no value for the option '{key}': it must be at least {least}",
            table.name
        ))
    })
}
