//! GROUP BY: the rows of each group in a list, and each aggregate over that list.

use std::collections::BTreeSet;

use volley::functions::AggregateCall;
use volley::plan::logical::Aggregate;
use volley::testing::cell::Value;
use volley::testing::twin::{TwinAggregate, TwinFunction};
use volley::types::TypeRoot;

use super::{Ordered, Row, Unclear, columns, partitions};

/// Without rows there is no group, also without GROUP BY: a stream has no answer before its first row.
pub(super) fn aggregate(node: &Aggregate, rows: Vec<Row>) -> Result<Vec<Row>, Unclear> {
    if node.legacy_window.is_some() {
        return Err(Unclear::Unknown("a legacy group window"));
    }
    let all: Vec<usize> = (0..node.grouping.len()).collect();
    let several = node.grouping_sets.len() > 1;
    let sets = match &node.grouping_sets[..] {
        [] => std::slice::from_ref(&all),
        sets => sets,
    };
    let mut result = Vec::new();
    for set in sets {
        let by: Vec<usize> = set
            .iter()
            .map(|position| node.grouping[*position])
            .collect();
        for group in partitions(rows.clone(), &by).into_values() {
            let key = all.iter().map(|position| match set.contains(position) {
                true => group[0][node.grouping[*position]].clone(),
                false => Value::Null,
            });
            let mut row: Row = key.collect();
            for call in &node.aggregates {
                row.push(value(call, &group)?);
            }
            if several {
                row.push(grouping_id(set, node.grouping.len()));
            }
            result.push(row);
        }
    }
    Ok(result)
}

/// One bit a grouping column, the first the highest, set where the column is aggregated away.
fn grouping_id(set: &[usize], columns: usize) -> Value {
    let bits = (0..columns).fold(0, |bits, position| {
        bits << 1 | i64::from(!set.contains(&position))
    });
    Value::Integer(bits)
}

/// An aggregate over the rows of a group.
pub(super) fn value(call: &AggregateCall, group: &[Row]) -> Result<Value, Unclear> {
    let passes = |row: &&Row| match call.filter {
        None => true,
        Some(column) => row[column] == Value::Boolean(true),
    };
    let rows: Vec<&Row> = group.iter().filter(passes).collect();
    match (&call.function[..], &call.arguments[..]) {
        ("COUNT", [_, _, ..]) => Ok(count_rows(call, &rows)),
        ("FIRST_VALUE" | "LAST_VALUE", [column]) => only_value(&rows, *column),
        ("LISTAGG", _) => listagg(call, &rows),
        ("STDDEV_POP" | "STDDEV_SAMP" | "VAR_POP" | "VAR_SAMP", _) => {
            Err(Unclear::Unknown("deviations"))
        }
        (_, arguments) => {
            let function = function(call)?;
            let twin = TwinAggregate {
                function,
                column: arguments.first().copied(),
                distinct: call.distinct,
                filter: None,
            };
            let rows: Vec<&[Value]> = rows.iter().map(|row| row.as_slice()).collect();
            let value = twin.over(&rows);
            match call.function == "$SUM0" && value == Value::Null {
                true => Ok(zero(&call.logical_type.root)),
                false => Ok(value),
            }
        }
    }
}

fn function(call: &AggregateCall) -> Result<TwinFunction, Unclear> {
    Ok(match &call.function[..] {
        "COUNT" => TwinFunction::Count,
        "MIN" => TwinFunction::Min,
        "MAX" => TwinFunction::Max,
        "SUM" | "$SUM0" => TwinFunction::Sum {
            bits: match call.logical_type.root {
                TypeRoot::TinyInt => 8,
                TypeRoot::SmallInt => 16,
                TypeRoot::Int => 32,
                _ => 64,
            },
        },
        "AVG" => TwinFunction::Avg {
            scale: call
                .logical_type
                .root
                .as_decimal()
                .map_or(0, |(_, scale)| scale),
        },
        _ => return Err(Unclear::Unknown("an aggregate function")),
    })
}

fn zero(root: &TypeRoot) -> Value {
    match root {
        TypeRoot::Double | TypeRoot::Float => Value::Double(0.0),
        TypeRoot::Decimal { .. } => Value::decimal(0, 0),
        _ => Value::Integer(0),
    }
}

/// COUNT of several columns: rows without a NULL in them.
fn count_rows(call: &AggregateCall, rows: &[&Row]) -> Value {
    let full = rows
        .iter()
        .map(|row| columns(row, &call.arguments))
        .filter(|values| !values.contains(&Value::Null));
    let count = match call.distinct {
        true => full.map(Ordered).collect::<BTreeSet<_>>().len(),
        false => full.count(),
    };
    Value::Integer(count as i64)
}

/// FIRST_VALUE and LAST_VALUE, where all values are one.
fn only_value(rows: &[&Row], column: usize) -> Result<Value, Unclear> {
    let values = rows.iter().map(|row| Ordered(vec![row[column].clone()]));
    let different: BTreeSet<Ordered> = values.filter(|value| value.0[0] != Value::Null).collect();
    match different.len() {
        0 => Ok(Value::Null),
        1 => Ok(different
            .into_iter()
            .flat_map(|value| value.0)
            .next()
            .unwrap_or(Value::Null)),
        _ => Err(Unclear::Ties),
    }
}

/// LISTAGG, where all texts are one.
fn listagg(call: &AggregateCall, rows: &[&Row]) -> Result<Value, Unclear> {
    let column = call.arguments[0];
    let Value::Text(text) = only_value(rows, column)? else {
        return Ok(Value::Null);
    };
    let separator = match call.arguments.get(1).map(|column| &rows[0][*column]) {
        None => ",".to_string(),
        Some(Value::Text(separator)) => separator.clone(),
        Some(_) => return Err(Unclear::Unknown("a separator that is NULL")),
    };
    let count = match call.distinct {
        true => 1,
        false => rows.iter().filter(|row| row[column] != Value::Null).count(),
    };
    Ok(Value::Text(vec![text; count].join(&separator)))
}
