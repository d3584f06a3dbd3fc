//! Binds aggregate functions: checks the arguments and tells the types, as Flink derives them.
//!
//! SUM of an integer keeps its type (and wraps), AVG of an integer is an integer (cut), SUM of a DECIMAL has 38 digits.

use crate::config::edit_distance;
use crate::error::{Error, Result};
use crate::types::{LogicalType, SqlPosition, TypeRoot};

/// An aggregate function with its types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundAggregate {
    /// The upper-case name.
    pub function: String,
    /// The types to which the arguments must be cast.
    pub argument_types: Vec<LogicalType>,
    /// The type of the result.
    pub logical_type: LogicalType,
}

/// The aggregate functions that there are.
const AGGREGATES: &[&str] = &[
    "COUNT",
    "SUM",
    "SUM0",
    "$SUM0",
    "AVG",
    "MIN",
    "MAX",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "STDDEV",
    "VAR_POP",
    "VAR_SAMP",
    "VARIANCE",
    "FIRST_VALUE",
    "LAST_VALUE",
    "LISTAGG",
    "COLLECT",
    "ARRAY_AGG",
    "SINGLE_VALUE",
];

/// Aggregate functions of Flink that are not here yet.
const MISSING: &[&str] = &[
    "APPROX_COUNT_DISTINCT",
    "PERCENTILE",
    "JSON_OBJECTAGG",
    "JSON_ARRAYAGG",
    "GROUPING",
    "GROUPING_ID",
    "GROUP_ID",
    "LAG",
    "LEAD",
    "RANK",
    "DENSE_RANK",
    "NTILE",
    "CUME_DIST",
    "PERCENT_RANK",
];

/// Whether a name, in any case, is an aggregate function.
pub fn is_aggregate(name: &str) -> bool {
    AGGREGATES.contains(&name.to_ascii_uppercase().as_str())
}

/// An aggregate call. `COUNT(*)` has no argument. Errors carry `position`.
pub fn bind_aggregate(
    name: &str,
    argument_types: &[LogicalType],
    distinct: bool,
    position: Option<SqlPosition>,
) -> Result<BoundAggregate> {
    bind(&name.to_ascii_uppercase(), argument_types, distinct).map_err(|error| error.at(position))
}

fn bind(name: &str, types: &[LogicalType], distinct: bool) -> Result<BoundAggregate> {
    let function = match name {
        "STDDEV" => "STDDEV_SAMP",
        "VARIANCE" => "VAR_SAMP",
        "SUM0" => "$SUM0",
        other => other,
    };
    let (argument_types, logical_type) = match function {
        "COUNT" => count(types, distinct)?,
        "SUM" => sum(function, types)?,
        "$SUM0" => {
            let (arguments, result) = sum(function, types)?;
            (arguments, result.with_nullable(false))
        }
        // Deviations have the type of an average, as Flink derives it.
        "AVG" | "STDDEV_POP" | "STDDEV_SAMP" | "VAR_POP" | "VAR_SAMP" => average(function, types)?,
        "MIN" | "MAX" => extreme(function, types)?,
        "FIRST_VALUE" | "LAST_VALUE" => {
            let one = exactly_one(function, types)?;
            (vec![one.clone()], one.with_nullable(true))
        }
        "LISTAGG" => listagg(types)?,
        "COLLECT" => {
            let one = exactly_one(function, types)?;
            let element = Box::new(one.with_nullable(false));
            (
                vec![one.clone()],
                LogicalType::not_null(TypeRoot::Multiset(element)),
            )
        }
        "ARRAY_AGG" => {
            let one = exactly_one(function, types)?;
            let element = Box::new(one.with_nullable(true));
            (
                vec![one.clone()],
                LogicalType::nullable(TypeRoot::Array(element)),
            )
        }
        "SINGLE_VALUE" => {
            let one = exactly_one(function, types)?;
            (vec![one.clone()], one.with_nullable(true))
        }
        _ => return Err(unknown(name)),
    };
    Ok(BoundAggregate {
        function: function.to_string(),
        argument_types,
        logical_type,
    })
}

fn unknown(name: &str) -> Error {
    if MISSING.contains(&name) {
        return Error::unsupported(format!("the aggregate function {name}"));
    }
    let error = Error::user(format!("there is no aggregate function {name}"));
    match AGGREGATES
        .iter()
        .find(|known| edit_distance(known, name) <= 2)
    {
        Some(close) => error.hint(format!("did you mean {close}?")),
        None => error,
    }
}

type Types = (Vec<LogicalType>, LogicalType);

fn exactly_one<'a>(name: &str, types: &'a [LogicalType]) -> Result<&'a LogicalType> {
    match types {
        [one] => Ok(one),
        _ => Err(Error::user(format!(
            "{name} takes 1 argument, not {}",
            types.len()
        ))),
    }
}

fn wrong(name: &str, expected: &str, actual: &LogicalType) -> Error {
    Error::user(format!("{name} takes {expected}, not {}", actual.root))
}

fn count(types: &[LogicalType], distinct: bool) -> Result<Types> {
    if types.is_empty() && distinct {
        return Err(Error::user("COUNT(DISTINCT) needs a column"));
    }
    Ok((types.to_vec(), LogicalType::not_null(TypeRoot::BigInt)))
}

fn number<'a>(name: &str, types: &'a [LogicalType]) -> Result<&'a LogicalType> {
    let one = exactly_one(name, types)?;
    if !one.root.is_numeric() {
        return Err(wrong(name, "a number", one));
    }
    Ok(one)
}

fn sum(name: &str, types: &[LogicalType]) -> Result<Types> {
    let one = number(name, types)?;
    let root = match one.root {
        TypeRoot::Decimal { scale, .. } => TypeRoot::Decimal {
            precision: 38,
            scale,
        },
        ref root => root.clone(),
    };
    Ok((vec![one.clone()], LogicalType::nullable(root)))
}

fn average(name: &str, types: &[LogicalType]) -> Result<Types> {
    let one = number(name, types)?;
    let root = match one.root {
        TypeRoot::Decimal { scale, .. } => TypeRoot::Decimal {
            precision: 38,
            scale: scale.max(6),
        },
        ref root => root.clone(),
    };
    Ok((vec![one.clone()], LogicalType::nullable(root)))
}

fn extreme(name: &str, types: &[LogicalType]) -> Result<Types> {
    let one = exactly_one(name, types)?;
    match one.root {
        TypeRoot::Array(_)
        | TypeRoot::Map(_, _)
        | TypeRoot::Multiset(_)
        | TypeRoot::Row(_)
        | TypeRoot::Binary(_)
        | TypeRoot::Varbinary(_) => Err(wrong(name, "a value with an order", one)),
        _ => Ok((vec![one.clone()], one.with_nullable(true))),
    }
}

fn listagg(types: &[LogicalType]) -> Result<Types> {
    let is_text = |one: &LogicalType| one.root.is_string();
    match types {
        [value] | [value, _] if !is_text(value) => Err(wrong("LISTAGG", "STRING", value)),
        [_, separator] if !is_text(separator) => Err(wrong("LISTAGG", "STRING", separator)),
        [_] | [_, _] => Ok((types.to_vec(), LogicalType::STRING)),
        _ => Err(Error::user(format!(
            "LISTAGG takes 1 or 2 arguments, not {}",
            types.len()
        ))),
    }
}
