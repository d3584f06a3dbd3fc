//! UNNEST: a row for each element.

use volley::plan::logical::Unnest;
use volley::testing::cell::Value;

use super::Row;
use super::expression::Evaluator;

pub(super) fn unnest(node: &Unnest, rows: Vec<Row>) -> Vec<Row> {
    let collection = Evaluator::new(&node.collection, &node.input.schema());
    let width = node.schema.len() - node.input.schema().len();
    let mut result = Vec::new();
    for row in rows {
        let elements = elements(collection.value(&row), width, node.with_ordinality);
        if elements.is_empty() && node.outer {
            result.push([&row[..], &vec![Value::Null; width]].concat());
        }
        result.extend(elements.iter().map(|element| [&row[..], element].concat()));
    }
    result
}

fn elements(collection: Value, width: usize, with_ordinality: bool) -> Vec<Row> {
    let own = width - usize::from(with_ordinality);
    let elements: Vec<Row> = match collection {
        Value::List(values) => values.into_iter().map(|value| fields(value, own)).collect(),
        Value::Map(entries) => entries
            .into_iter()
            .map(|(key, value)| vec![key, value])
            .collect(),
        _ => Vec::new(),
    };
    let numbered = elements.into_iter().enumerate().map(|(at, mut element)| {
        if with_ordinality {
            element.push(Value::Integer(at as i64 + 1));
        }
        element
    });
    numbered.collect()
}

fn fields(value: Value, width: usize) -> Row {
    match value {
        Value::Row(fields) => fields,
        Value::Null if width > 1 => vec![Value::Null; width],
        other => vec![other],
    }
}
