//! Casts between arrays, maps, multisets and rows: their elements are cast.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray};
use arrow::datatypes::{DataType, Fields};

use super::{Cast, cast_array, rules};
use crate::error::Result;
use crate::types::{LogicalType, TypeRoot};

/// Casts a nested column to a type of the same kind.
pub(super) fn cast(cast: &Cast) -> Result<ArrayRef> {
    match (&cast.from.root, &cast.to.root) {
        (TypeRoot::Array(from), TypeRoot::Array(to)) => array(cast, from, to),
        (TypeRoot::Multiset(from), TypeRoot::Multiset(to)) => map(cast, (from, to), None),
        (TypeRoot::Map(from_key, from_value), TypeRoot::Map(to_key, to_value)) => {
            map(cast, (from_key, to_key), Some((from_value, to_value)))
        }
        (TypeRoot::Row(from), TypeRoot::Row(to)) if from.len() == to.len() => row(cast),
        _ => Err(rules::no_cast(cast.from, cast.to)),
    }
}

fn inner(cast: &Cast, values: &ArrayRef, from: &LogicalType, to: &LogicalType) -> Result<ArrayRef> {
    cast_array(values, from, to, cast.mode, cast.context)
}

fn array(cast: &Cast, from: &LogicalType, to: &LogicalType) -> Result<ArrayRef> {
    let list = cast.array.as_list::<i32>();
    let values = inner(cast, list.values(), from, to)?;
    let DataType::List(field) = cast.to.to_arrow() else {
        unreachable!("an ARRAY is a list")
    };
    Ok(Arc::new(ListArray::try_new(
        field,
        list.offsets().clone(),
        values,
        list.nulls().cloned(),
    )?))
}

fn map(
    cast: &Cast,
    key: (&LogicalType, &LogicalType),
    value: Option<(&LogicalType, &LogicalType)>,
) -> Result<ArrayRef> {
    let map = cast.array.as_map();
    let keys = inner(cast, map.keys(), key.0, key.1)?;
    let values = match value {
        Some((from, to)) => inner(cast, map.values(), from, to)?,
        None => map.values().clone(),
    };
    let DataType::Map(entries, is_sorted) = cast.to.to_arrow() else {
        unreachable!("a MAP is a map")
    };
    let DataType::Struct(fields) = entries.data_type().clone() else {
        unreachable!("the entries of a map are a struct")
    };
    Ok(Arc::new(MapArray::try_new(
        entries,
        map.offsets().clone(),
        StructArray::try_new(fields, vec![keys, values], None)?,
        map.nulls().cloned(),
        is_sorted,
    )?))
}

fn row(cast: &Cast) -> Result<ArrayRef> {
    let (TypeRoot::Row(from), TypeRoot::Row(to)) = (&cast.from.root, &cast.to.root) else {
        unreachable!("both are rows")
    };
    let values = cast.array.as_struct();
    let mut columns = Vec::with_capacity(from.len());
    for (index, (from, to)) in from.iter().zip(to).enumerate() {
        columns.push(inner(
            cast,
            values.column(index),
            &from.logical_type,
            &to.logical_type,
        )?);
    }
    let DataType::Struct(fields) = cast.to.to_arrow() else {
        unreachable!("a ROW is a struct")
    };
    let fields: Fields = fields;
    let nulls = values.nulls().cloned();
    let length = values.len();
    Ok(Arc::new(StructArray::try_new_with_length(
        fields, columns, nulls, length,
    )?))
}
