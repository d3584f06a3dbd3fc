//! The arguments of a kernel and the loops that build its result.
//!
//! A constant stays one value: its array has one row, and reading row `r` of it reads row 0 (the row number is masked,
//! not branched on). NULLs are handled here for all functions of which any NULL argument makes the result NULL.

use std::sync::Arc;

use arrow::array::builder::StringBuilder;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Datum, PrimitiveArray, StringArray,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};

use crate::error::Result;
use crate::types::LogicalType;

/// One argument: an array, or one value for all rows.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    /// The values; a single one where `is_scalar`.
    pub(crate) array: ArrayRef,
    /// Whether the array stands for every row.
    pub(crate) is_scalar: bool,
}

impl Datum for Value {
    fn get(&self) -> (&dyn Array, bool) {
        (self.array.as_ref(), self.is_scalar)
    }
}

impl Value {
    fn mask(&self) -> usize {
        if self.is_scalar { 0 } else { usize::MAX }
    }

    /// Whether the value in a row is NULL.
    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row & self.mask())
    }

    /// The row of the array that holds the value of a row.
    pub(crate) fn index(&self, row: usize) -> usize {
        row & self.mask()
    }
}

/// The arguments of one kernel call.
pub(crate) struct Arguments<'a> {
    values: &'a [Value],
    rows: usize,
    logical_type: &'a LogicalType,
}

/// Read access to a primitive argument.
pub(crate) struct Primitives<'a, T: ArrowPrimitiveType> {
    values: &'a [T::Native],
    mask: usize,
}

impl<T: ArrowPrimitiveType> Primitives<'_, T> {
    /// The value of a row; anything where it is NULL.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> T::Native {
        self.values[row & self.mask]
    }
}

/// Read access to a string argument.
pub(crate) struct Strings<'a> {
    array: &'a StringArray,
    mask: usize,
}

impl<'a> Strings<'a> {
    /// The text of a row; anything where it is NULL.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> &'a str {
        self.array.value(row & self.mask)
    }

    /// The number of bytes of all values, a guess for the size of results.
    pub(crate) fn bytes(&self) -> usize {
        let offsets = self.array.value_offsets();
        (offsets[offsets.len() - 1] - offsets[0]) as usize
    }

    /// Whether every byte is ASCII, so that bytes and characters are the same.
    pub(crate) fn is_ascii(&self) -> bool {
        let offsets = self.array.value_offsets();
        let used = offsets[0] as usize..offsets[offsets.len() - 1] as usize;
        self.array.value_data()[used].is_ascii()
    }
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(values: &'a [Value], rows: usize, logical_type: &'a LogicalType) -> Self {
        Arguments {
            values,
            rows,
            logical_type,
        }
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The number of arguments.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// The type of the result.
    pub(crate) fn logical_type(&self) -> &LogicalType {
        self.logical_type
    }

    /// An argument.
    pub(crate) fn value(&self, index: usize) -> &'a Value {
        &self.values[index]
    }

    /// A primitive argument of the Arrow type `T`.
    pub(crate) fn primitives<T: ArrowPrimitiveType>(&self, index: usize) -> Primitives<'a, T> {
        let value = &self.values[index];
        Primitives {
            values: value.array.as_primitive::<T>().values(),
            mask: value.mask(),
        }
    }

    /// A string argument.
    pub(crate) fn strings(&self, index: usize) -> Strings<'a> {
        let value = &self.values[index];
        Strings {
            array: value.array.as_string::<i32>(),
            mask: value.mask(),
        }
    }

    /// A boolean argument, expanded to all rows.
    pub(crate) fn booleans(&self, index: usize) -> BooleanArray {
        let value = &self.values[index];
        let array = value.array.as_boolean();
        if !value.is_scalar {
            return array.clone();
        }
        let buffer = if array.is_valid(0) && array.value(0) {
            BooleanBuffer::new_set(self.rows)
        } else {
            BooleanBuffer::new_unset(self.rows)
        };
        let nulls = array.is_null(0).then(|| NullBuffer::new_null(self.rows));
        BooleanArray::new(buffer, nulls)
    }

    /// An argument as an array of all rows.
    pub(crate) fn expanded(&self, index: usize) -> Result<ArrayRef> {
        expand(&self.values[index], self.rows)
    }

    /// The rows in which no argument is NULL; `None` where that is all of them.
    pub(crate) fn nulls(&self) -> Option<NullBuffer> {
        let mut nulls: Option<NullBuffer> = None;
        for value in self.values {
            if value.is_scalar {
                if value.array.is_null(0) {
                    return Some(NullBuffer::new_null(self.rows));
                }
            } else {
                nulls = NullBuffer::union(nulls.as_ref(), value.array.logical_nulls().as_ref());
            }
        }
        nulls
    }

    /// A primitive result that never fails; `value` is also asked for rows with NULLs.
    #[inline]
    pub(crate) fn map<T: ArrowPrimitiveType>(
        &self,
        value: impl Fn(usize) -> T::Native,
    ) -> ArrayRef {
        let values: ScalarBuffer<T::Native> = (0..self.rows).map(value).collect();
        self.finish::<T>(values, self.nulls())
    }

    /// A primitive result; `value` is asked only for rows without NULL.
    #[inline]
    pub(crate) fn try_map<T: ArrowPrimitiveType>(
        &self,
        mut value: impl FnMut(usize) -> Result<T::Native>,
    ) -> Result<ArrayRef> {
        self.try_map_optional::<T>(|row| value(row).map(Some))
    }

    /// A primitive result that may be NULL; `value` is asked only for rows without NULL.
    #[inline]
    pub(crate) fn try_map_optional<T: ArrowPrimitiveType>(
        &self,
        mut value: impl FnMut(usize) -> Result<Option<T::Native>>,
    ) -> Result<ArrayRef> {
        let nulls = self.nulls();
        let mut values = vec![T::Native::default(); self.rows];
        let mut made_null: Option<Vec<bool>> = None;
        let mut row_value = |row: usize, values: &mut Vec<T::Native>| -> Result<()> {
            match value(row)? {
                Some(value) => values[row] = value,
                None => made_null.get_or_insert_with(|| vec![true; self.rows])[row] = false,
            }
            Ok(())
        };
        match &nulls {
            None => (0..self.rows).try_for_each(|row| row_value(row, &mut values))?,
            Some(nulls) => nulls
                .valid_indices()
                .try_for_each(|row| row_value(row, &mut values))?,
        }
        let nulls = match made_null {
            None => nulls,
            Some(valid) => NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::from(valid))),
        };
        Ok(self.finish::<T>(values.into(), nulls))
    }

    fn finish<T: ArrowPrimitiveType>(
        &self,
        values: ScalarBuffer<T::Native>,
        nulls: Option<NullBuffer>,
    ) -> ArrayRef {
        let array = PrimitiveArray::<T>::new(values, nulls);
        Arc::new(array.with_data_type(self.logical_type.to_arrow()))
    }

    /// A boolean result that never fails; `value` is also asked for rows with NULLs.
    #[inline]
    pub(crate) fn map_booleans(&self, value: impl FnMut(usize) -> bool) -> ArrayRef {
        let values = BooleanBuffer::collect_bool(self.rows, value);
        Arc::new(BooleanArray::new(values, self.nulls()))
    }

    /// A boolean result that may be NULL; `value` is asked only for rows without NULL.
    pub(crate) fn try_map_booleans(
        &self,
        mut value: impl FnMut(usize) -> Result<Option<bool>>,
    ) -> Result<ArrayRef> {
        let nulls = self.nulls();
        let array = (0..self.rows)
            .map(|row| match &nulls {
                Some(nulls) if nulls.is_null(row) => Ok(None),
                _ => value(row),
            })
            .collect::<Result<BooleanArray>>()?;
        Ok(Arc::new(array))
    }

    /// A string result: `append` writes the text of a row and says whether it is not NULL. Asked only for rows without
    /// NULL. `bytes` is a guess for the size of the result.
    #[inline]
    pub(crate) fn try_map_strings(
        &self,
        bytes: usize,
        mut append: impl FnMut(usize, &mut StringBuilder) -> Result<bool>,
    ) -> Result<ArrayRef> {
        let nulls = self.nulls();
        let mut builder = StringBuilder::with_capacity(self.rows, bytes);
        for row in 0..self.rows {
            let is_valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
                && append(row, &mut builder)?;
            if is_valid {
                builder.append_value("");
            } else {
                builder.append_null();
            }
        }
        Ok(Arc::new(builder.finish()))
    }

    /// A string result without NULLs of its own.
    #[inline]
    pub(crate) fn map_strings(
        &self,
        bytes: usize,
        mut append: impl FnMut(usize, &mut StringBuilder),
    ) -> Result<ArrayRef> {
        self.try_map_strings(bytes, |row, builder| {
            append(row, builder);
            Ok(true)
        })
    }

    /// A string result that is a piece of an input, or NULL.
    #[inline]
    pub(crate) fn map_pieces<'s>(
        &self,
        bytes: usize,
        mut piece: impl FnMut(usize) -> Option<&'s str>,
    ) -> ArrayRef {
        let nulls = self.nulls();
        let mut builder = StringBuilder::with_capacity(self.rows, bytes);
        match nulls {
            None => (0..self.rows).for_each(|row| builder.append_option(piece(row))),
            Some(nulls) => (0..self.rows).for_each(|row| {
                builder.append_option(if nulls.is_valid(row) {
                    piece(row)
                } else {
                    None
                })
            }),
        }
        Arc::new(builder.finish())
    }
}

/// A value as an array of `rows` rows.
pub(crate) fn expand(value: &Value, rows: usize) -> Result<ArrayRef> {
    if !value.is_scalar {
        return Ok(value.array.clone());
    }
    let zeros = arrow::array::UInt32Array::from_value(0, rows);
    Ok(arrow::compute::take(&value.array, &zeros, None)?)
}
