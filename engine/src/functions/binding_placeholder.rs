//! Stands in for the binding of functions until the functions room is merged; drop this file then.

use crate::error::{Error, Result};
use crate::expr::{CastMode, Expression, Position};
use crate::types::{LogicalType, SqlPosition, TypeRoot};

/// Placeholder.
pub struct BoundAggregate {
    /// Name.
    pub function: String,
    /// Types.
    pub argument_types: Vec<LogicalType>,
    /// Result.
    pub logical_type: LogicalType,
}

/// Placeholder.
pub fn is_aggregate(name: &str) -> bool {
    ["COUNT", "SUM", "AVG", "MIN", "MAX"].contains(&name)
}

/// Placeholder.
pub fn bind_aggregate(name: &str, types: &[LogicalType], _: bool, _: Option<SqlPosition>) -> Result<BoundAggregate> {
    let logical_type = match name {
        "COUNT" => LogicalType::not_null(TypeRoot::BigInt),
        _ => types[0].with_nullable(true),
    };
    Ok(BoundAggregate { function: name.to_string(), argument_types: types.to_vec(), logical_type })
}

/// Placeholder.
pub fn bind_scalar(name: &str, arguments: Vec<Expression>, position: Option<SqlPosition>) -> Result<Expression> {
    let nullable = arguments.iter().any(|a| a.logical_type().nullable);
    let boolean = ["=", "<>", "<", "<=", ">", ">=", "AND", "OR", "NOT", "IS NULL", "IS NOT NULL", "IN", "BETWEEN", "LIKE", "IS TRUE", "IS NOT TRUE", "IS FALSE", "IS DISTINCT FROM"];
    let logical_type = match name {
        n if n.starts_with("IS ") => LogicalType::not_null(TypeRoot::Boolean),
        n if boolean.contains(&n) => LogicalType { root: TypeRoot::Boolean, nullable },
        "CASE" => arguments[1].logical_type().with_nullable(true),
        "PROCTIME" => LogicalType::not_null(TypeRoot::TimestampLtz(3)),
        "TO_TIMESTAMP_LTZ" => LogicalType::nullable(TypeRoot::TimestampLtz(3)),
        "ITEM" => match &arguments[0].logical_type().root {
            TypeRoot::Array(e) | TypeRoot::Map(_, e) => e.with_nullable(true),
            other => return Err(Error::user(format!("ITEM of {other}")).at(position)),
        },
        "CONCAT" | "||" => LogicalType { root: TypeRoot::STRING, nullable },
        "UPPER" | "TRIM" | "SUBSTRING" | "ROW" | "ARRAY" | "MAP" | "EXTRACT" | "FLOOR" | "CEIL" | "+" | "-" | "*" | "/" | "%" | "COALESCE" | "TIMESTAMPADD" | "TO_TIMESTAMP" => arguments[0].logical_type().clone(),
        _ => return Err(Error::user(format!("there is no function {name}")).at(position)),
    };
    Ok(Expression::Call { function: name.to_string(), arguments, logical_type, position: Position(position) })
}

/// Placeholder.
pub fn bind_cast(input: Expression, to: LogicalType, mode: CastMode, position: Option<SqlPosition>) -> Result<Expression> {
    let to = to.with_nullable(input.logical_type().nullable);
    Ok(Expression::Cast { input: Box::new(input), logical_type: to, mode, position: Position(position) })
}

/// Placeholder.
pub fn implicit_cast(input: Expression, to: &LogicalType) -> Result<Expression> {
    if input.logical_type().root == to.root {
        return Ok(input);
    }
    let numeric = input.logical_type().root.is_numeric() && to.root.is_numeric();
    let text = input.logical_type().root.is_string() && to.root.is_string();
    let time = input.logical_type().root.is_timestamp() && to.root.is_timestamp();
    if numeric || text || time || input.logical_type().root == TypeRoot::Null {
        return Ok(Expression::cast(input, to.clone()));
    }
    Err(Error::user(format!("a {} stands where {} is needed", input.logical_type().root, to.root)))
}

/// Placeholder.
pub fn common_type(types: &[LogicalType]) -> Option<LogicalType> {
    let first = types.iter().find(|t| t.root != TypeRoot::Null)?;
    if types.iter().all(|t| t.root == first.root || t.root == TypeRoot::Null) {
        return Some(first.clone());
    }
    if types.iter().all(|t| t.root.is_string()) {
        return Some(LogicalType::STRING);
    }
    types.iter().all(|t| t.root.is_integer()).then_some(LogicalType::BIGINT)
}
