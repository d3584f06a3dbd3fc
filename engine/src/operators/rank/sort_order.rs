//! The keys of an order as bytes that compare as the rows do; up to 16 bytes of fixed width become one number.

use std::cmp::Ordering;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, Rows, SortField};

use crate::error::Result;
use crate::types::{Schema, SortKey};

/// A key that is kept with a row.
pub trait RankKey: Ord + Clone + Send {
    /// About how many bytes it holds besides itself.
    const BYTES_APART: usize;
    /// The key of these bytes.
    fn of(bytes: &[u8]) -> Self;
    /// How the key of these bytes compares with this one.
    fn compare(bytes: &[u8], key: &Self) -> Ordering;
}

impl RankKey for u128 {
    const BYTES_APART: usize = 0;

    #[inline]
    fn of(bytes: &[u8]) -> Self {
        let mut padded = [0; 16];
        padded[..bytes.len()].copy_from_slice(bytes);
        u128::from_be_bytes(padded)
    }

    #[inline]
    fn compare(bytes: &[u8], key: &Self) -> Ordering {
        Self::of(bytes).cmp(key)
    }
}

impl RankKey for Box<[u8]> {
    const BYTES_APART: usize = 32;

    fn of(bytes: &[u8]) -> Self {
        bytes.into()
    }

    fn compare(bytes: &[u8], key: &Self) -> Ordering {
        bytes.cmp(key)
    }
}

/// Whether the keys of the order fit into a `u128`.
pub(super) fn is_short(schema: &Schema, order_by: &[SortKey]) -> bool {
    let width = |key: &SortKey| {
        let data_type = schema.fields[key.column].logical_type.to_arrow();
        let width = match data_type {
            DataType::Boolean => Some(1),
            other => other.primitive_width(),
        };
        width.map(|width| width + 1)
    };
    let widths: Option<Vec<usize>> = order_by.iter().map(width).collect();
    widths.is_some_and(|widths| widths.into_iter().sum::<usize>() <= 16)
}

/// Makes the keys of rows.
pub(in crate::operators) struct SortOrder {
    converter: Option<RowConverter>,
    columns: Vec<usize>,
}

/// The keys of a batch's rows.
pub(in crate::operators) struct SortKeys(Option<Rows>);

impl SortOrder {
    pub(in crate::operators) fn new(schema: &Schema, order_by: &[SortKey]) -> Result<Self> {
        let fields: Vec<SortField> = order_by
            .iter()
            .map(|key| {
                let options = SortOptions {
                    descending: key.descending,
                    nulls_first: key.nulls_first,
                };
                let data_type = schema.fields[key.column].logical_type.to_arrow();
                SortField::new_with_options(data_type, options)
            })
            .collect();
        let converter = (!fields.is_empty()).then(|| RowConverter::new(fields));
        Ok(SortOrder {
            converter: converter.transpose()?,
            columns: order_by.iter().map(|key| key.column).collect(),
        })
    }

    pub(in crate::operators) fn keys(&self, rows: &RecordBatch) -> Result<SortKeys> {
        let columns = self.columns.iter();
        let columns: Vec<ArrayRef> = columns.map(|key| rows.column(*key).clone()).collect();
        let keys = self.converter.as_ref();
        let keys = keys.map(|converter| converter.convert_columns(&columns));
        Ok(SortKeys(keys.transpose()?))
    }
}

impl SortKeys {
    /// The key of a row; empty where nothing is ordered.
    #[inline]
    pub(in crate::operators) fn bytes(&self, row: usize) -> &[u8] {
        match &self.0 {
            Some(rows) => rows.row(row).data(),
            None => &[],
        }
    }
}
