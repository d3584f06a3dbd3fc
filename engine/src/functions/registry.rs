//! The table of scalar functions: every name once, with how it is bound and compiled.
//!
//! Operators are functions whose names are their signs. Special syntax arrives under names with spaces:
//! `IS NULL`(x), `IS NOT TRUE`(x), `IS DISTINCT FROM`(a, b), `LIKE`(s, pattern[, escape]), `SIMILAR TO`(…),
//! `BETWEEN`(x, low, high), `BETWEEN SYMMETRIC`(…), `IN`(x, v1, …), `CASE`(c1, r1, …[, else]), `ITEM`(collection, index),
//! `NEGATE`(x), `FLOOR`/`CEIL`(x[, unit]), `EXTRACT`(unit, x), `TIMESTAMPADD`/`TIMESTAMPDIFF`(unit, a, b),
//! `TRIM`(mode, characters, s), `POSITION`(part, s), `ROW`, `ARRAY`, `MAP`. Units and modes are string literals.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::binding::Binding;
use super::scalar;
use crate::config::edit_distance;
use crate::error::{Error, Result};
use crate::expr::{Call, Expression, Kernel};
use crate::types::LogicalType;

/// A scalar function.
pub(crate) struct ScalarFunction {
    /// Its upper-case name.
    pub(crate) name: &'static str,
    /// Checks and casts the arguments, and tells the type of the result.
    pub(crate) bind: fn(&mut Binding) -> Result<LogicalType>,
    /// Makes the kernel of a call.
    pub(crate) kernel: fn(&Call) -> Result<Kernel>,
    /// Whether a call with these arguments may raise a data error.
    pub(crate) can_fail: fn(&[Expression]) -> bool,
    /// Whether the result is NULL where an argument is: then the kernel never sees a constant NULL.
    pub(crate) is_strict: bool,
    /// Whether equal arguments give equal results.
    pub(crate) is_deterministic: bool,
}

impl ScalarFunction {
    /// A function that is strict, deterministic and cannot fail.
    pub(crate) const fn new(
        name: &'static str,
        bind: fn(&mut Binding) -> Result<LogicalType>,
        kernel: fn(&Call) -> Result<Kernel>,
    ) -> Self {
        ScalarFunction {
            name,
            bind,
            kernel,
            can_fail: |_| false,
            is_strict: true,
            is_deterministic: true,
        }
    }

    /// The same function, which may fail for some arguments.
    pub(crate) const fn failing(mut self, can_fail: fn(&[Expression]) -> bool) -> Self {
        self.can_fail = can_fail;
        self
    }

    /// The same function, which handles NULL arguments itself.
    pub(crate) const fn lenient(mut self) -> Self {
        self.is_strict = false;
        self
    }

    /// The same function, whose result is not fixed by its arguments.
    pub(crate) const fn volatile(mut self) -> Self {
        self.is_deterministic = false;
        self
    }
}

/// A name that stands for an expression of other functions.
pub(crate) struct Rewrite {
    /// The upper-case name.
    pub(crate) name: &'static str,
    /// Binds what it stands for.
    pub(crate) rewrite: fn(Binding) -> Result<Expression>,
}

/// What a name is.
#[derive(Clone, Copy)]
pub(super) enum Entry {
    Function(&'static ScalarFunction),
    Rewrite(&'static Rewrite),
}

/// Other names of functions.
const ALIASES: &[(&str, &str)] = &[
    ("!=", "<>"),
    ("SUBSTR", "SUBSTRING"),
    ("CHARACTER_LENGTH", "CHAR_LENGTH"),
    ("CEILING", "CEIL"),
    ("MOD", "%"),
];

/// Functions of Flink that are not here yet.
const MISSING: &[&str] = &[
    "ARRAY_AGG",
    "ARRAY_APPEND",
    "ARRAY_CONCAT",
    "ARRAY_DISTINCT",
    "ARRAY_EXCEPT",
    "ARRAY_INTERSECT",
    "ARRAY_JOIN",
    "ARRAY_MAX",
    "ARRAY_MIN",
    "ARRAY_POSITION",
    "ARRAY_PREPEND",
    "ARRAY_REMOVE",
    "ARRAY_REVERSE",
    "ARRAY_SLICE",
    "ARRAY_SORT",
    "ARRAY_UNION",
    "ARRAY_CONTAINS",
    "BIN",
    "CONV",
    "CONVERT_TZ",
    "CURRENT_CATALOG",
    "CURRENT_DATABASE",
    "DECODE",
    "ENCODE",
    "ELT",
    "HEX",
    "UNHEX",
    "JSON",
    "JSON_ARRAY",
    "JSON_EXISTS",
    "JSON_LENGTH",
    "JSON_OBJECT",
    "JSON_QUERY",
    "JSON_QUOTE",
    "JSON_STRING",
    "JSON_UNQUOTE",
    "IS JSON",
    "MAP_ENTRIES",
    "MAP_FROM_ARRAYS",
    "MAP_KEYS",
    "MAP_UNION",
    "MAP_VALUES",
    "MD5",
    "OVERLAPS",
    "PARSE_JSON",
    "TRY_PARSE_JSON",
    "PARSE_URL",
    "PRINTF",
    "SHA1",
    "SHA2",
    "SHA224",
    "SHA256",
    "SHA384",
    "SHA512",
    "SPLIT",
    "STR_TO_MAP",
    "TRANSLATE",
    "URL_DECODE",
    "URL_ENCODE",
    "REGEXP_COUNT",
    "REGEXP_EXTRACT_ALL",
    "REGEXP_INSTR",
    "REGEXP_SUBSTR",
    "OBJECT_OF",
    "OBJECT_UPDATE",
    "SOURCE_WATERMARK",
];

static ENTRIES: LazyLock<BTreeMap<&'static str, Entry>> = LazyLock::new(|| {
    let functions = scalar::FUNCTIONS
        .iter()
        .flat_map(|family| family.iter())
        .map(|function| (function.name, Entry::Function(function)));
    let rewrites = scalar::REWRITES
        .iter()
        .flat_map(|family| family.iter())
        .map(|rewrite| (rewrite.name, Entry::Rewrite(rewrite)));
    functions.chain(rewrites).collect()
});

fn canonical(name: &str) -> String {
    let upper = name.to_ascii_uppercase();
    match ALIASES.iter().find(|(alias, _)| *alias == upper) {
        Some((_, name)) => name.to_string(),
        None => upper,
    }
}

/// What a name is, in any case.
pub(super) fn find(name: &str) -> Result<Entry> {
    let canonical = canonical(name);
    if let Some(entry) = ENTRIES.get(canonical.as_str()) {
        return Ok(*entry);
    }
    if MISSING.contains(&canonical.as_str()) {
        return Err(Error::unsupported(format!("the function {canonical}")));
    }
    let mut close: Vec<&str> = ENTRIES
        .keys()
        .copied()
        .filter(|known| edit_distance(known, &canonical) <= 1 + canonical.len() / 4)
        .collect();
    close.sort_by_key(|known| edit_distance(known, &canonical));
    close.truncate(3);
    let error = Error::user(format!("there is no function {canonical}"));
    Err(match close.is_empty() {
        true => error,
        false => error.hint(format!("did you mean {}?", close.join(", "))),
    })
}

/// The function of a bound call.
pub(crate) fn scalar_function(name: &str) -> Result<&'static ScalarFunction> {
    match ENTRIES.get(name) {
        Some(Entry::Function(function)) => Ok(function),
        _ => Err(Error::internal(format!(
            "{name} is no bound scalar function"
        ))),
    }
}

/// Whether a name, in any case, is a scalar function or operator.
pub fn is_scalar(name: &str) -> bool {
    ENTRIES.contains_key(canonical(name).as_str())
}

/// The names of all scalar functions and operators, sorted.
pub fn scalar_function_names() -> impl Iterator<Item = &'static str> {
    ENTRIES.keys().copied()
}

/// What a function reads beside its arguments; it comes as one more argument of its kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HiddenInput {
    /// The clock, TIMESTAMP_LTZ(3).
    ProcessingTime,
    /// The watermark before the row in milliseconds, BIGINT; `i64::MIN` before the first.
    Watermark,
}

/// Whether a function gives another value each time, whatever its arguments.
pub(crate) fn is_random(name: &str) -> bool {
    matches!(name, "RAND" | "RAND_INTEGER" | "UUID")
}

/// What a call of a function with `arguments` arguments reads beside them.
pub(crate) fn hidden_input(name: &str, arguments: usize) -> Option<HiddenInput> {
    match name {
        "CURRENT_WATERMARK" => Some(HiddenInput::Watermark),
        "PROCTIME"
        | "CURRENT_TIMESTAMP"
        | "NOW"
        | "CURRENT_ROW_TIMESTAMP"
        | "LOCALTIMESTAMP"
        | "CURRENT_DATE"
        | "CURRENT_TIME"
        | "LOCALTIME" => Some(HiddenInput::ProcessingTime),
        "UNIX_TIMESTAMP" if arguments == 0 => Some(HiddenInput::ProcessingTime),
        _ => None,
    }
}
