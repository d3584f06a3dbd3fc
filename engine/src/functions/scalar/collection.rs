//! Arrays, maps and rows: the constructors ROW, ARRAY and MAP, `collection[index]`, CARDINALITY, ELEMENT.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, MapArray, StructArray, UInt32Array,
    make_comparator,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, interleave, take};
use arrow::datatypes::*;

use crate::error::{Error, Result};
use crate::expr::{Arguments, Expression, Literal, plain};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::functions::type_inference::common_type;
use crate::types::{LogicalType, RowField, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("ROW", bind_row, |_| Ok(plain(row))).lenient(),
    ScalarFunction::new("ARRAY", bind_array, |_| Ok(plain(array))).lenient(),
    ScalarFunction::new("MAP", bind_map, |_| Ok(plain(map)))
        .lenient()
        .failing(|arguments| {
            arguments
                .iter()
                .step_by(2)
                .any(|key| key.logical_type().nullable)
        }),
    ScalarFunction::new("CARDINALITY", bind_cardinality, |_| Ok(plain(cardinality))),
    ScalarFunction::new("ELEMENT", bind_element, |_| Ok(plain(element))).failing(|_| true),
    ScalarFunction::new("ITEM", bind_item, |_| Ok(plain(item))),
    // Unnested, it gives a row so many times; there is no name for it in SQL.
    ScalarFunction::new("$REPLICATE", bind_replicate, |_| Ok(plain(replicate))),
];

fn bind_row(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=usize::MAX)?;
    let fields = binding
        .arguments
        .iter()
        .enumerate()
        .map(|(index, argument)| RowField {
            name: format!("EXPR${index}"),
            logical_type: argument.logical_type().clone(),
        });
    Ok(LogicalType::not_null(TypeRoot::Row(fields.collect())))
}

fn row(arguments: &Arguments) -> Result<ArrayRef> {
    let columns = (0..arguments.len())
        .map(|index| arguments.expanded(index))
        .collect::<Result<Vec<_>>>()?;
    let DataType::Struct(fields) = arguments.logical_type().to_arrow() else {
        return Err(Error::internal("a ROW is a struct"));
    };
    Ok(Arc::new(StructArray::try_new_with_length(
        fields,
        columns,
        None,
        arguments.rows(),
    )?))
}

/// Casts every `step`-th argument from `first` on to their common type.
fn unify(binding: &mut Binding, first: usize, step: usize) -> Result<LogicalType> {
    let indices: Vec<usize> = (first..binding.arguments.len()).step_by(step).collect();
    let types: Vec<LogicalType> = indices
        .iter()
        .map(|index| binding.arguments[*index].logical_type().clone())
        .collect();
    let common = common_type(&types).ok_or_else(|| {
        let names: Vec<String> = types.iter().map(|one| one.root.to_string()).collect();
        Error::user(format!(
            "the values of {} have no common type: {}",
            binding.name,
            names.join(", ")
        ))
    })?;
    for index in indices {
        binding.cast(index, &common.root);
    }
    Ok(common)
}

fn bind_array(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=usize::MAX)?;
    let element = unify(binding, 0, 1)?;
    Ok(LogicalType::not_null(TypeRoot::Array(Box::new(element))))
}

fn bind_map(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=usize::MAX)?;
    if !binding.arguments.len().is_multiple_of(2) {
        return Err(Error::user("MAP takes pairs of a key and a value"));
    }
    let key = unify(binding, 0, 2)?;
    let value = unify(binding, 1, 2)?;
    let root = TypeRoot::Map(Box::new(key), Box::new(value));
    Ok(LogicalType::not_null(root))
}

/// The values of every `step`-th argument, row by row.
fn interleaved(arguments: &Arguments, first: usize, step: usize) -> Result<ArrayRef> {
    let values: Vec<_> = (first..arguments.len())
        .step_by(step)
        .map(|index| arguments.value(index))
        .collect();
    let indices: Vec<(usize, usize)> = (0..arguments.rows())
        .flat_map(|row| {
            values
                .iter()
                .enumerate()
                .map(move |(part, value)| (part, value.index(row)))
        })
        .collect();
    let parts: Vec<&dyn Array> = values.iter().map(|value| value.array.as_ref()).collect();
    Ok(interleave(&parts, &indices)?)
}

fn offsets(rows: usize, length: usize) -> OffsetBuffer<i32> {
    OffsetBuffer::from_lengths(std::iter::repeat_n(length, rows))
}

fn array(arguments: &Arguments) -> Result<ArrayRef> {
    let DataType::List(field) = arguments.logical_type().to_arrow() else {
        return Err(Error::internal("an ARRAY is a list"));
    };
    Ok(Arc::new(ListArray::try_new(
        field,
        offsets(arguments.rows(), arguments.len()),
        interleaved(arguments, 0, 1)?,
        None,
    )?))
}

fn map(arguments: &Arguments) -> Result<ArrayRef> {
    let keys = interleaved(arguments, 0, 2)?;
    if keys.null_count() > 0 {
        return Err(Error::data("a key of a MAP is NULL"));
    }
    let values = interleaved(arguments, 1, 2)?;
    let DataType::Map(entries, is_sorted) = arguments.logical_type().to_arrow() else {
        return Err(Error::internal("a MAP is a map"));
    };
    let DataType::Struct(fields) = entries.data_type().clone() else {
        return Err(Error::internal("the entries of a map are a struct"));
    };
    Ok(Arc::new(MapArray::try_new(
        entries,
        offsets(arguments.rows(), arguments.len() / 2),
        StructArray::try_new(fields, vec![keys, values], None)?,
        None,
        is_sorted,
    )?))
}

fn bind_replicate(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=1)?;
    binding.cast(0, &TypeRoot::BigInt);
    let element = LogicalType::not_null(TypeRoot::Boolean);
    Ok(binding.result(TypeRoot::Array(Box::new(element))))
}

/// An array of so many elements; none where the number is negative.
fn replicate(arguments: &Arguments) -> Result<ArrayRef> {
    let DataType::List(element) = arguments.logical_type().to_arrow() else {
        return Err(Error::internal("an ARRAY is a list"));
    };
    let value = arguments.expanded(0)?;
    let counts = value.as_primitive::<Int64Type>();
    let count = |row: usize| match counts.is_valid(row) {
        true => usize::try_from(counts.value(row)).unwrap_or(0),
        false => 0,
    };
    let offsets = OffsetBuffer::from_lengths((0..counts.len()).map(count));
    let total = offsets.last().map_or(0, |total| *total as usize);
    let elements = Arc::new(BooleanArray::from(vec![true; total]));
    Ok(Arc::new(ListArray::try_new(
        element,
        offsets,
        elements,
        counts.nulls().cloned(),
    )?))
}

fn bind_cardinality(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=1)?;
    match binding.root(0) {
        TypeRoot::Array(_) | TypeRoot::Map(_, _) | TypeRoot::Multiset(_) => {
            Ok(binding.result(TypeRoot::Int))
        }
        _ => Err(binding.wrong_argument(0, "an ARRAY or MAP")),
    }
}

/// The values of a list or map, and the offsets of its rows.
fn parts(array: &ArrayRef) -> (&OffsetBuffer<i32>, &ArrayRef) {
    match array.data_type() {
        DataType::Map(_, _) => {
            let map = array.as_map();
            (map.offsets(), map.values())
        }
        _ => {
            let list = array.as_list::<i32>();
            (list.offsets(), list.values())
        }
    }
}

fn cardinality(arguments: &Arguments) -> Result<ArrayRef> {
    let value = arguments.value(0);
    let (offsets, _) = parts(&value.array);
    Ok(arguments.map::<Int32Type>(|row| {
        let row = value.index(row);
        offsets[row + 1] - offsets[row]
    }))
}

fn bind_element(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=1)?;
    match binding.root(0) {
        TypeRoot::Array(element) => Ok(element.with_nullable(true)),
        _ => Err(binding.wrong_argument(0, "an ARRAY")),
    }
}

/// The only element; NULL of an empty array.
fn element(arguments: &Arguments) -> Result<ArrayRef> {
    let value = arguments.value(0);
    let (offsets, values) = parts(&value.array);
    let indices = (0..arguments.rows())
        .map(|row| {
            let row = value.index(row);
            match offsets[row + 1] - offsets[row] {
                _ if value.array.is_null(row) => Ok(None),
                0 => Ok(None),
                1 => Ok(Some(offsets[row] as u32)),
                count => Err(Error::data(format!(
                    "ELEMENT of an array of {count} elements"
                ))),
            }
        })
        .collect::<Result<UInt32Array>>()?;
    take_or_null(values, &indices, arguments)
}

fn take_or_null(
    values: &ArrayRef,
    indices: &UInt32Array,
    arguments: &Arguments,
) -> Result<ArrayRef> {
    let taken = match values.is_empty() {
        true => arrow::array::new_null_array(values.data_type(), indices.len()),
        false => take(values, indices, None)?,
    };
    debug_assert_eq!(taken.data_type(), &arguments.logical_type().to_arrow());
    Ok(taken)
}

/// `array[index]` (from 1), `map[key]`: NULL where there is none.
fn bind_item(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=2)?;
    match binding.root(0).clone() {
        TypeRoot::Array(element) => {
            if let Expression::Literal {
                value: Literal::Integer(index @ ..=0),
                ..
            } = &binding.arguments[1]
            {
                return Err(Error::user(format!(
                    "an array begins with index 1, not {index}"
                )));
            }
            binding.integer(1)?;
            Ok(element.with_nullable(true))
        }
        TypeRoot::Map(key, value) => {
            binding.coerce(1, &key.root)?;
            Ok(value.with_nullable(true))
        }
        _ => Err(binding.wrong_argument(0, "an ARRAY or MAP")),
    }
}

fn item(arguments: &Arguments) -> Result<ArrayRef> {
    let value = arguments.value(0);
    let nulls = arguments.nulls();
    let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let (offsets, values) = parts(&value.array);
    let indices: UInt32Array = if let DataType::Map(_, _) = value.array.data_type() {
        let keys = value.array.as_map().keys().clone();
        let key = arguments.value(1);
        let comparator = make_comparator(&keys, &key.array, SortOptions::default())?;
        (0..arguments.rows())
            .map(|row| {
                let of = value.index(row);
                let entries = offsets[of] as usize..offsets[of + 1] as usize;
                let found = entries
                    .rev()
                    .find(|entry| comparator(*entry, key.index(row)).is_eq());
                found.filter(|_| is_valid(row)).map(|entry| entry as u32)
            })
            .collect()
    } else {
        let wanted = arguments.primitives::<Int64Type>(1);
        (0..arguments.rows())
            .map(|row| {
                let of = value.index(row);
                let length = (offsets[of + 1] - offsets[of]) as i64;
                let index = wanted.get(row);
                let exists = is_valid(row) && (1..=length).contains(&index);
                exists.then(|| offsets[of] as u32 + index as u32 - 1)
            })
            .collect()
    };
    take_or_null(values, &indices, arguments)
}
