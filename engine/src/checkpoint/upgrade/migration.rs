//! Brings the rows of a saved table into the form in which an operator asks for them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray, MapArray, RecordBatch,
    StructArray, make_array, new_empty_array, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute;
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, SchemaRef};
use arrow::util::display::array_value_to_string;

use super::table_change::{TableChange, same_column};
use crate::checkpoint::inspect::type_name;
use crate::error::{Error, Result};
use crate::state::EXPIRY_COLUMN;

/// The rows of `batch`, of the table of this name, with the columns of `asked`.
pub(super) fn migrated(table: &str, batch: RecordBatch, asked: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == asked {
        return Ok(batch);
    }
    let change =
        TableChange::between(table, batch.schema_ref(), asked).map_err(|incompatible| {
            Error::user(format!("the state cannot be restored: {incompatible}"))
        })?;
    let columns = asked
        .fields()
        .iter()
        .zip(&change.sources)
        .map(|(field, source)| match source {
            Some(source) => {
                let of_column = |error: Error| {
                    error.prefixed(&format!("column {} of the table '{table}': ", field.name()))
                };
                converted(batch.column(*source), field.data_type()).map_err(of_column)
            }
            None => filled(field, batch.num_rows()),
        });
    let columns = columns.collect::<Result<_>>()?;
    Ok(RecordBatch::try_new(asked.clone(), columns)?)
}

/// A column as another type; fields of rows are found by name. Errors: a value does not fit.
pub(in crate::checkpoint) fn converted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    match to {
        to if array.data_type() == to => Ok(array.clone()),
        DataType::Struct(fields) => {
            let from = array.as_struct_opt().ok_or_else(|| no_cast(array, to))?;
            let columns = fields.iter().enumerate().map(|(index, field)| {
                match same_column(fields, index, from.fields()) {
                    Some(source) => converted(&visible(from, source)?, field.data_type()),
                    None => filled(field, from.len()),
                }
            });
            let columns = columns.collect::<Result<_>>()?;
            let nulls = from.nulls().cloned();
            Ok(Arc::new(StructArray::try_new(
                fields.clone(),
                columns,
                nulls,
            )?))
        }
        DataType::List(item) => {
            let from = array
                .as_list_opt::<i32>()
                .ok_or_else(|| no_cast(array, to))?;
            let values = converted(from.values(), item.data_type())?;
            let (offsets, nulls) = (from.offsets().clone(), from.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(
                item.clone(),
                offsets,
                values,
                nulls,
            )?))
        }
        DataType::Map(entries, ordered) => {
            let from = array.as_map_opt().ok_or_else(|| no_cast(array, to))?;
            let (offsets, nulls) = (from.offsets().clone(), from.nulls().cloned());
            let values: ArrayRef = Arc::new(in_order(from.entries(), entries.data_type())?);
            let values = values.as_struct().clone();
            let map = MapArray::try_new(entries.clone(), offsets, values, nulls, *ordered)?;
            Ok(Arc::new(map))
        }
        to => cast_all(array, to),
    }
}

/// A field of rows, without what lies where there is no row.
fn visible(rows: &StructArray, field: usize) -> Result<ArrayRef> {
    let values = rows.column(field);
    let Some(there) = rows.nulls().filter(|there| there.null_count() > 0) else {
        return Ok(values.clone());
    };
    if *values.data_type() == DataType::Null {
        return Ok(values.clone());
    }
    let nulls = NullBuffer::union(values.nulls(), Some(there));
    let data = values.to_data().into_builder().nulls(nulls).build()?;
    Ok(make_array(data))
}

/// Each value as another type.
fn cast_all(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if !compute::can_cast_types(array.data_type(), to) {
        return Err(no_cast(array, to));
    }
    let cast = compute::cast(array, to)?;
    let Some(row) = first_lost(array, &cast) else {
        return Ok(cast);
    };
    let value = array_value_to_string(array, row)?;
    let to = type_name(to);
    Err(Error::user(format!("the value {value} does not fit {to}")))
}

fn no_cast(array: &ArrayRef, to: &DataType) -> Error {
    let (from, to) = (type_name(array.data_type()), type_name(to));
    Error::user(format!("{from} cannot become {to}"))
}

/// The first row of which a cast has made something else: NULL, or infinity of a number.
fn first_lost(array: &ArrayRef, cast: &ArrayRef) -> Option<usize> {
    if cast.null_count() > array.null_count() {
        return (0..array.len()).find(|row| cast.is_null(*row) && array.is_valid(*row));
    }
    let wide = array.as_primitive_opt::<Float64Type>()?.values();
    let narrow = cast.as_primitive_opt::<Float32Type>()?.values();
    let is_lost = |row: &usize| narrow[*row].is_infinite() && wide[*row].is_finite();
    (0..array.len()).find(|row| is_lost(row) && cast.is_valid(*row))
}

/// Entries of a map: key and value, whatever they are called.
fn in_order(entries: &StructArray, to: &DataType) -> Result<StructArray> {
    let DataType::Struct(fields) = to else {
        return Err(Error::internal("a map without entries"));
    };
    let columns = entries.columns().iter().zip(fields);
    let columns = columns.map(|(column, field)| converted(column, field.data_type()));
    let columns = columns.collect::<Result<_>>()?;
    Ok(StructArray::try_new(
        fields.clone(),
        columns,
        entries.nulls().cloned(),
    )?)
}

/// A column that the state lacks: NULL, or what an aggregate over no rows has.
fn filled(field: &Field, rows: usize) -> Result<ArrayRef> {
    if field.name() == EXPIRY_COLUMN {
        return Ok(Arc::new(Int64Array::from(vec![i64::MAX; rows])));
    }
    if field.is_nullable() {
        return Ok(new_null_array(field.data_type(), rows));
    }
    Ok(match field.data_type() {
        DataType::Int64 => Arc::new(Int64Array::from(vec![0; rows])),
        DataType::Float64 => Arc::new(Float64Array::from(vec![0.0; rows])),
        DataType::List(item) => {
            let values = new_empty_array(item.data_type());
            let offsets = OffsetBuffer::new_zeroed(rows);
            Arc::new(ListArray::try_new(item.clone(), offsets, values, None)?)
        }
        DataType::Map(entries, ordered) => {
            let values = new_empty_array(entries.data_type());
            let (offsets, values) = (OffsetBuffer::new_zeroed(rows), values.as_struct().clone());
            Arc::new(MapArray::try_new(
                entries.clone(),
                offsets,
                values,
                None,
                *ordered,
            )?)
        }
        other => {
            return Err(Error::internal(format!(
                "the column {} of {other} cannot begin empty",
                field.name()
            )));
        }
    })
}
