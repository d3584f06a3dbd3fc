//! One input of a join on time: its columns, its time, its key.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, TimestampMillisecondType};

use crate::error::{Error, Result};
use crate::state::GroupTable;
use crate::types::Schema;

/// So many keys are kept whether they have rows or not.
pub(super) const KEYS_KEPT: usize = if cfg!(test) { 8 } else { 65_536 };

/// One input of a temporal or an interval join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedSide {
    /// Its columns.
    pub schema: Schema,
    /// The column of its time.
    pub time: usize,
    /// The columns that equal those of the other side, in the same order; rows are dealt by them.
    pub keys: Vec<usize>,
}

impl TimedSide {
    /// The Arrow types of the keys.
    pub(super) fn key_types(&self) -> Vec<DataType> {
        let fields = self.keys.iter().map(|key| &self.schema.fields[*key]);
        fields.map(|field| field.logical_type.to_arrow()).collect()
    }
}

/// The times of rows, in milliseconds. NULL is refused: such a row has no place in time.
pub(super) fn row_times(rows: &RecordBatch, column: usize) -> Result<ScalarBuffer<i64>> {
    let times = rows
        .column(column)
        .as_primitive::<TimestampMillisecondType>();
    if times.null_count() > 0 {
        let name = rows.schema().field(column).name().clone();
        return Err(Error::data(format!(
            "a row of a join on time has NULL as its time: column \"{name}\""
        ))
        .hint(format!("leave such rows out: WHERE {name} IS NOT NULL")));
    }
    Ok(times.values().clone())
}

/// The number of each row's key.
pub(super) struct KeyNumbers {
    /// A number for each row, so that whatever is kept belongs to a key.
    pub(super) numbers: Vec<u32>,
    /// Where a NULL keeps the key from being equal to anything.
    nulls: Option<NullBuffer>,
}

impl KeyNumbers {
    /// The key of a row that may be equal to another one's.
    pub(super) fn joining(&self, row: usize) -> Option<u32> {
        let joins = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        joins.then(|| self.numbers[row])
    }
}

/// Numbers the keys of rows.
pub(super) fn key_numbers(
    table: &mut GroupTable,
    rows: &RecordBatch,
    keys: &[usize],
    null_safe: &[bool],
    hashes: &[u64],
) -> Result<KeyNumbers> {
    let columns: Vec<ArrayRef> = keys.iter().map(|key| rows.column(*key).clone()).collect();
    let mut numbers = Vec::with_capacity(rows.num_rows());
    table.resolve(&columns, hashes, &mut numbers)?;
    let nulls = columns
        .iter()
        .zip(null_safe)
        .filter(|(_, null_safe)| !**null_safe)
        .fold(None, |all, (column, _)| {
            NullBuffer::union(all.as_ref(), column.logical_nulls().as_ref())
        });
    Ok(KeyNumbers { numbers, nulls })
}
