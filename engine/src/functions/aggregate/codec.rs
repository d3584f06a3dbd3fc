//! Values of a column as keys of maps and back: fixed-width ones as 64-bit numbers, all others by their `arrow-row` bytes.

use arrow::array::{ArrayRef, UInt32Array, new_null_array};
use arrow::compute;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};

use crate::error::{Error, Result};
use crate::state::{fixed_array, with_fixed_values};

/// Values as keys that are ordered as the values are.
pub(super) trait Codec: Send {
    /// What stands for a value.
    type Key: Ord + Clone + Send;

    /// The type of the values.
    fn data_type(&self) -> &DataType;

    /// A key for each row.
    fn encode(&self, values: &ArrayRef) -> Result<Vec<Self::Key>>;

    /// The values of keys.
    fn decode(&self, keys: &[&Self::Key]) -> Result<ArrayRef>;

    /// The values of keys, NULL where there is none.
    fn decode_options(&self, keys: &[Option<&Self::Key>]) -> Result<ArrayRef> {
        let present: Vec<&Self::Key> = keys.iter().flatten().copied().collect();
        if present.is_empty() {
            return Ok(new_null_array(self.data_type(), keys.len()));
        }
        let values = self.decode(&present)?;
        if present.len() == keys.len() {
            return Ok(values);
        }
        let mut next = 0..;
        let indices: UInt32Array = keys
            .iter()
            .map(|key| key.and_then(|_| next.next()))
            .collect();
        Ok(compute::take(&values, &indices, None)?)
    }
}

/// See [`crate::state::is_fixed`]; there are no NULLs.
pub(super) struct FixedCodec(pub(super) DataType);

impl Codec for FixedCodec {
    type Key = i64;

    fn data_type(&self) -> &DataType {
        &self.0
    }

    fn encode(&self, values: &ArrayRef) -> Result<Vec<i64>> {
        let mut keys = Vec::new();
        with_fixed_values(values, |values| keys.extend_from_slice(values));
        Ok(keys)
    }

    fn decode(&self, keys: &[&i64]) -> Result<ArrayRef> {
        let keys = keys.iter().map(|key| **key).collect();
        Ok(fixed_array(&self.0, keys, None))
    }
}

/// Any type that rows can hold; FLOAT and DOUBLE are in their total order.
pub(super) struct RowCodec {
    data_type: DataType,
    converter: RowConverter,
}

impl RowCodec {
    pub(super) fn new(data_type: &DataType) -> Result<Self> {
        Ok(RowCodec {
            data_type: data_type.clone(),
            converter: RowConverter::new(vec![SortField::new(data_type.clone())])?,
        })
    }
}

impl Codec for RowCodec {
    type Key = Box<[u8]>;

    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn encode(&self, values: &ArrayRef) -> Result<Vec<Box<[u8]>>> {
        let rows = self
            .converter
            .convert_columns(std::slice::from_ref(values))?;
        Ok(rows.iter().map(|row| row.data().into()).collect())
    }

    fn decode(&self, keys: &[&Box<[u8]>]) -> Result<ArrayRef> {
        let parser = self.converter.parser();
        let mut columns = self
            .converter
            .convert_rows(keys.iter().map(|key| parser.parse(key)))?;
        columns
            .pop()
            .ok_or_else(|| Error::internal("one column in, one column out"))
    }
}
