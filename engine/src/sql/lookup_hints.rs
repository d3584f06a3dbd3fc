//! LOOKUP of a SELECT: how a table of its FROM is looked up.
//!
//! The hint names its table as STATE_TTL does: by the alias where there is one. Of two hints for one table the first counts.

use std::collections::BTreeMap;

use sqlparser::tokenizer::Location;

use super::binder::Binder;
use super::scope::Scope;
use super::suggestion;
use crate::config::parse_duration;
use crate::error::{Error, Result};
use crate::expr::Position;
use crate::plan::logical::{LogicalPlan, LookupHint, LookupOutputMode, LookupRetry};
use crate::types::SqlPosition;

/// The options of the hint.
const KEYS: [&str; 9] = [
    "table",
    "async",
    "output-mode",
    "capacity",
    "timeout",
    "retry-predicate",
    "retry-strategy",
    "fixed-delay",
    "max-attempts",
];

/// Those that say how a lookup is tried again: all of them or none.
const RETRY_KEYS: [&str; 4] = [
    "retry-predicate",
    "retry-strategy",
    "fixed-delay",
    "max-attempts",
];

impl Binder<'_> {
    /// Gives the joins of a FROM clause what the hints behind SELECT say about their right tables.
    pub(super) fn apply_lookup_hints(
        &self,
        plan: &mut LogicalPlan,
        scope: &Scope,
        select: Location,
    ) -> Result<()> {
        let mut named: Vec<&str> = Vec::new();
        for (options, position) in self.hints.lookups_after(select, &self.used_hints) {
            let place = position.filter(|_| self.view_depth == 0);
            let (table, hint) = Options { options, place }.hint()?;
            if named.contains(&table) {
                continue;
            }
            named.push(table);
            if !give(plan, scope, 0, table, &hint) {
                return Err(not_looked_up(table, scope).at(place));
            }
        }
        Ok(())
    }
}

/// Gives the hint to the join whose right side is the table and is asked as of a time. `first`: which column of the scope the
/// plan's first one is.
fn give(
    plan: &mut LogicalPlan,
    scope: &Scope,
    first: usize,
    table: &str,
    hint: &LookupHint,
) -> bool {
    let LogicalPlan::Join(join) = plan else {
        return false;
    };
    let middle = first + join.left.schema().len();
    let last = middle + join.right.schema().len();
    let Some(columns) = scope.columns.get(middle..last) else {
        return false;
    };
    let is_table = |name: &Option<String>| name.as_deref() == Some(table);
    if join.as_of.is_some() && columns.iter().all(|column| is_table(&column.qualifier)) {
        join.lookup_hint = Some(Box::new(hint.clone()));
        return true;
    }
    give(&mut join.left, scope, first, table, hint)
        || give(&mut join.right, scope, middle, table, hint)
}

fn not_looked_up(table: &str, scope: &Scope) -> Error {
    let tables = scope.tables();
    if tables.contains(&table) {
        return Error::user(format!(
            "the hint LOOKUP names \"{table}\", which is not looked up in this FROM"
        ))
        .hint("look it up: JOIN t FOR SYSTEM_TIME AS OF l.proctime");
    }
    Error::user(format!(
        "the hint LOOKUP names \"{table}\", which is no table of this FROM"
    ))
    .hint(suggestion::hint(table, "tables", tables))
}

/// The options of one hint.
struct Options<'a> {
    options: &'a BTreeMap<String, String>,
    place: Option<SqlPosition>,
}

impl<'a> Options<'a> {
    /// The table and what is said about it.
    fn hint(&self) -> Result<(&'a str, LookupHint)> {
        let unknown = self
            .options
            .keys()
            .find(|key| !KEYS.contains(&key.as_str()));
        if let Some(key) = unknown {
            let error = Error::user(format!("the hint LOOKUP has no option '{key}'"));
            return Err(error
                .at(self.place)
                .hint(suggestion::hint(key, "options", KEYS)));
        }
        let table = self.text("table").ok_or_else(|| {
            Error::user("the hint LOOKUP does not say which table")
                .at(self.place)
                .hint("write LOOKUP('table' = 'd', …)")
        })?;
        let hint = LookupHint {
            is_async: self.one_of("async", &[("true", true), ("false", false)])?,
            output_mode: self.one_of(
                "output-mode",
                &[
                    ("ordered", LookupOutputMode::Ordered),
                    ("allow_unordered", LookupOutputMode::AllowUnordered),
                ],
            )?,
            capacity: self.count("capacity")?,
            timeout_ms: self.millis("timeout")?,
            retry: self.retry()?,
            position: Position(self.place),
        };
        Ok((table, hint))
    }

    fn retry(&self) -> Result<Option<LookupRetry>> {
        let missing = RETRY_KEYS.iter().find(|key| self.text(key).is_none());
        if RETRY_KEYS.iter().all(|key| self.text(key).is_none()) {
            return Ok(None);
        }
        if let Some(missing) = missing {
            return Err(Error::user(format!(
                "the hint LOOKUP says how to try again, but not '{missing}'"
            ))
            .at(self.place)
            .hint(format!("it takes all of {}", RETRY_KEYS.join(", "))));
        }
        self.one_of("retry-predicate", &[("lookup_miss", ())])?;
        self.one_of("retry-strategy", &[("fixed_delay", ())])?;
        let retry = LookupRetry {
            fixed_delay_ms: self.millis("fixed-delay")?.unwrap_or_default(),
            max_attempts: self.count("max-attempts")?.unwrap_or_default() as u32,
        };
        Ok(Some(retry))
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.options.get(key).map(String::as_str)
    }

    fn one_of<T: Copy>(&self, key: &str, values: &[(&str, T)]) -> Result<Option<T>> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        let known = values
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text));
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        match known {
            Some((_, value)) => Ok(Some(*value)),
            None => Err(self.wrong(key, text, &names.join(" or "))),
        }
    }

    fn count(&self, key: &str) -> Result<Option<usize>> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        let number: Option<u32> = text.trim().parse().ok().filter(|number| *number > 0);
        match number {
            Some(number) => Ok(Some(number as usize)),
            None => Err(self.wrong(key, text, "a whole number above 0")),
        }
    }

    fn millis(&self, key: &str) -> Result<Option<u64>> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        match parse_duration(text).filter(|duration| duration.as_millis() > 0) {
            Some(duration) => Ok(Some(
                u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            )),
            None => Err(self.wrong(key, text, "a duration such as '10 s'")),
        }
    }

    fn wrong(&self, key: &str, text: &str, wanted: &str) -> Error {
        Error::user(format!(
            "'{text}' is no value for '{key}' of the hint LOOKUP"
        ))
        .at(self.place)
        .hint(format!("it takes {wanted}"))
    }
}
