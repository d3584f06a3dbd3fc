//! The hash of a key: xxh3 with a fixed seed over a defined encoding.
//!
//! Key groups on disk depend on these values, so they are golden-tested for every type and never change. A column's value
//! hashes as the xxh3-64 of its bytes: integers, booleans, dates, times, timestamps and intervals as `i64`, little endian;
//! FLOAT and DOUBLE as the bits of the `f64`, with one NaN and no negative zero; DECIMAL as `i128`; text and binary as
//! they are; NULL as a constant; arrays, maps and rows as their elements' hashes combined. Several columns are combined in
//! order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::*;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{Error, Result};

const SEED: u64 = 0x564f_4c4c_4559_0001;
const NULL_HASH: u64 = 0x9e37_79b9_7f4a_7c15;
const COMBINE: u64 = 0xff51_afd7_ed55_8ccd;

/// The hashes of one key of every row of a batch, with the columns that make up the key.
#[derive(Debug, Clone)]
pub struct KeyHashes {
    columns: Arc<[usize]>,
    values: ScalarBuffer<u64>,
}

impl KeyHashes {
    /// The hashes of the key `columns` of `rows`.
    pub fn of(rows: &arrow::array::RecordBatch, columns: &[usize]) -> Result<Self> {
        let keys: Vec<ArrayRef> = columns
            .iter()
            .map(|index| rows.column(*index).clone())
            .collect();
        Ok(KeyHashes {
            columns: columns.into(),
            values: hash_columns(&keys, rows.num_rows())?.into(),
        })
    }

    /// Hashes that are known already: `values` must be what [`KeyHashes::of`] gives for `columns`.
    pub fn known(columns: &[usize], values: ScalarBuffer<u64>) -> Self {
        KeyHashes {
            columns: columns.into(),
            values,
        }
    }

    /// The hashes where they are those of `columns`.
    pub fn for_columns(&self, columns: &[usize]) -> Option<&[u64]> {
        (*self.columns == *columns).then_some(&*self.values)
    }

    /// The columns of the key.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// One hash a row.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    pub(super) fn slice(&self, offset: usize, length: usize) -> Self {
        KeyHashes {
            columns: self.columns.clone(),
            values: self.values.slice(offset, length),
        }
    }

    pub(super) fn filter(&self, keep: &BooleanArray) -> Self {
        let bits = keep.values();
        KeyHashes {
            columns: self.columns.clone(),
            values: bits.set_indices().map(|row| self.values[row]).collect(),
        }
    }

    /// The hashes of the rows at `indices`, in that order.
    pub fn take(&self, indices: &UInt32Array) -> Self {
        KeyHashes {
            columns: self.columns.clone(),
            values: indices
                .values()
                .iter()
                .map(|row| self.values[*row as usize])
                .collect(),
        }
    }

    pub(super) fn concat<'a>(
        parts: impl Iterator<Item = Option<&'a KeyHashes>> + Clone,
    ) -> Option<Self> {
        let columns = parts.clone().next()??.columns.clone();
        let mut values = Vec::new();
        for part in parts {
            values.extend_from_slice(part?.for_columns(&columns)?);
        }
        Some(KeyHashes {
            columns,
            values: values.into(),
        })
    }
}

/// The hash of each row's key. `rows` is needed where the key has no column: then every row has the same hash.
pub fn hash_columns(columns: &[ArrayRef], rows: usize) -> Result<Vec<u64>> {
    let Some((first, rest)) = columns.split_first() else {
        return Ok(vec![NULL_HASH; rows]);
    };
    let mut hashes = hash_column(first)?;
    for column in rest {
        let other = hash_column(column)?;
        assert_eq!(hashes.len(), other.len(), "key columns have equal lengths");
        hashes
            .iter_mut()
            .enumerate()
            .for_each(|(row, hash)| *hash = combine(*hash, other[row]));
    }
    Ok(hashes)
}

#[inline]
fn combine(hash: u64, next: u64) -> u64 {
    let mixed = (hash.rotate_left(23) ^ next).wrapping_mul(COMBINE);
    mixed ^ (mixed >> 32)
}

#[inline]
fn hash_i64(value: i64) -> u64 {
    xxh3_64_with_seed(&value.to_le_bytes(), SEED)
}

#[inline]
fn hash_f64(value: f64) -> u64 {
    let canonical = if value.is_nan() {
        f64::NAN
    } else {
        value + 0.0
    };
    xxh3_64_with_seed(&canonical.to_bits().to_le_bytes(), SEED)
}

fn hash_primitive<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    hash: impl Fn(T::Native) -> u64,
) -> Vec<u64> {
    let array = array.as_primitive::<T>();
    let mut hashes: Vec<u64> = array.values().iter().map(|value| hash(*value)).collect();
    overwrite_nulls(&mut hashes, array);
    hashes
}

fn overwrite_nulls(hashes: &mut [u64], array: &dyn Array) {
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        hashes
            .iter_mut()
            .enumerate()
            .filter(|(row, _)| nulls.is_null(*row))
            .for_each(|(_, hash)| *hash = NULL_HASH);
    }
}

fn hash_bytes<'a>(array: &'a dyn Array, value: impl Fn(usize) -> &'a [u8]) -> Vec<u64> {
    let mut hashes: Vec<u64> = (0..array.len())
        .map(|row| xxh3_64_with_seed(value(row), SEED))
        .collect();
    overwrite_nulls(&mut hashes, array);
    hashes
}

fn hash_column(array: &ArrayRef) -> Result<Vec<u64>> {
    Ok(match array.data_type() {
        DataType::Null => vec![NULL_HASH; array.len()],
        DataType::Boolean => {
            let values = array.as_boolean();
            let mut hashes = (0..values.len())
                .map(|row| hash_i64(values.value(row) as i64))
                .collect::<Vec<_>>();
            overwrite_nulls(&mut hashes, values);
            hashes
        }
        DataType::Int8 => hash_primitive::<Int8Type>(array, |v| hash_i64(v as i64)),
        DataType::Int16 => hash_primitive::<Int16Type>(array, |v| hash_i64(v as i64)),
        DataType::Int32 => hash_primitive::<Int32Type>(array, |v| hash_i64(v as i64)),
        DataType::Int64 => hash_primitive::<Int64Type>(array, hash_i64),
        DataType::Float32 => hash_primitive::<Float32Type>(array, |v| hash_f64(v as f64)),
        DataType::Float64 => hash_primitive::<Float64Type>(array, hash_f64),
        DataType::Decimal128(_, _) => {
            hash_primitive::<Decimal128Type>(array, |v| xxh3_64_with_seed(&v.to_le_bytes(), SEED))
        }
        DataType::Date32 => hash_primitive::<Date32Type>(array, |v| hash_i64(v as i64)),
        DataType::Time32(TimeUnit::Millisecond) => {
            hash_primitive::<Time32MillisecondType>(array, |v| hash_i64(v as i64))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            hash_primitive::<TimestampMillisecondType>(array, hash_i64)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            hash_primitive::<TimestampMicrosecondType>(array, hash_i64)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            hash_primitive::<TimestampNanosecondType>(array, hash_i64)
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            hash_primitive::<DurationMillisecondType>(array, hash_i64)
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            hash_primitive::<IntervalYearMonthType>(array, |v| hash_i64(v as i64))
        }
        DataType::Utf8 => {
            let values = array.as_string::<i32>();
            hash_bytes(values, |row| values.value(row).as_bytes())
        }
        DataType::Binary => {
            let values = array.as_binary::<i32>();
            hash_bytes(values, |row| values.value(row))
        }
        DataType::List(_) => hash_lists(
            array.as_list::<i32>().values(),
            array.as_list::<i32>().value_offsets(),
            array,
        )?,
        DataType::Map(_, _) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            hash_lists(&entries, map.value_offsets(), array)?
        }
        DataType::Struct(_) => {
            let fields = array.as_struct();
            let mut hashes = hash_columns(fields.columns(), fields.len())?;
            overwrite_nulls(&mut hashes, fields);
            hashes
        }
        other => {
            return Err(Error::internal(format!(
                "no key hash is defined for the Arrow type {other}"
            )));
        }
    })
}

fn hash_lists(values: &ArrayRef, offsets: &[i32], array: &ArrayRef) -> Result<Vec<u64>> {
    let elements = hash_column(values)?;
    let mut hashes: Vec<u64> = offsets
        .windows(2)
        .map(|ends| {
            elements[ends[0] as usize..ends[1] as usize]
                .iter()
                .fold(hash_i64((ends[1] - ends[0]) as i64), |hash, next| {
                    combine(hash, *next)
                })
        })
        .collect();
    overwrite_nulls(&mut hashes, array);
    Ok(hashes)
}
