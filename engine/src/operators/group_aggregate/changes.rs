//! Writes the changes of groups: which rows of results come and go, as one batch.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{self, SortOptions};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};

use crate::error::Result;
use crate::stream::{ChangelogBatch, KeyHashes};
use crate::types::{RowKind, RowKinds};

/// A list of changes in the making; each names the row of its key and of its results.
#[derive(Default)]
pub(super) struct Changes {
    kinds: Vec<u8>,
    key_rows: Vec<u32>,
    result_rows: Vec<u32>,
}

/// Makes batches of changes.
pub(super) struct ChangeWriter {
    schema: SchemaRef,
    keys: Vec<usize>,
    /// Whether somebody needs the rows before updates.
    pub(super) update_before: bool,
    /// Whether updates that change nothing are told: with a time to live they keep the state behind alive. Also set where there
    /// are none.
    pub(super) tells_equal: bool,
}

/// Keys and results that [`Changes`] point into.
pub(super) struct ChangeRows<'a> {
    pub(super) keys: &'a [ArrayRef],
    pub(super) hashes: &'a [u64],
    pub(super) results: &'a [ArrayRef],
}

impl Changes {
    pub(super) fn with_capacity(rows: usize) -> Self {
        Changes {
            kinds: Vec::with_capacity(rows),
            key_rows: Vec::with_capacity(rows),
            result_rows: Vec::with_capacity(rows),
        }
    }

    pub(super) fn push(&mut self, kind: RowKind, key_row: u32, result_row: u32) {
        self.kinds.push(kind as u8);
        self.key_rows.push(key_row);
        self.result_rows.push(result_row);
    }

    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }
}

impl ChangeWriter {
    pub(super) fn new(
        schema: SchemaRef,
        keys: usize,
        update_before: bool,
        tells_equal: bool,
    ) -> Self {
        ChangeWriter {
            schema,
            keys: (0..keys).collect(),
            update_before,
            tells_equal,
        }
    }

    /// Whether results have columns at all.
    pub(super) fn has_results(&self) -> bool {
        self.results() > 0
    }

    /// How many columns results have.
    pub(super) fn results(&self) -> usize {
        self.schema.fields().len() - self.keys.len()
    }

    /// An update of a group from one row of results to another.
    pub(super) fn update(&self, changes: &mut Changes, key_row: u32, before: u32, after: u32) {
        if self.update_before {
            changes.push(RowKind::UpdateBefore, key_row, before);
        }
        changes.push(RowKind::UpdateAfter, key_row, after);
    }

    /// The batch of changes.
    pub(super) fn write(&self, changes: Changes, rows: &ChangeRows) -> Result<ChangelogBatch> {
        let count = changes.len();
        let key_rows = Selection::new(changes.key_rows, rows.hashes.len());
        let result_rows = rows.results.first().map_or(0, |column| column.len());
        let result_rows = Selection::new(changes.result_rows, result_rows);
        let mut columns = key_rows.of(rows.keys)?;
        columns.extend(result_rows.of(rows.results)?);
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let hashes = key_rows.gather(rows.hashes);
        let insert_only = changes
            .kinds
            .iter()
            .all(|kind| *kind == RowKind::Insert as u8);
        let kinds = if insert_only {
            RowKinds::INSERT_ONLY
        } else {
            RowKinds::from_bytes(changes.kinds.into())
        };
        Ok(ChangelogBatch {
            hashes: Some(KeyHashes::known(&self.keys, hashes.into())),
            ..ChangelogBatch::new(batch, kinds)
        })
    }
}

/// Rows of columns; all of them are taken without a copy.
enum Selection {
    All,
    Rows(UInt32Array),
}

impl Selection {
    fn new(rows: Vec<u32>, of: usize) -> Self {
        let is_all =
            rows.len() == of && rows.iter().enumerate().all(|(at, row)| at == *row as usize);
        if is_all {
            Selection::All
        } else {
            Selection::Rows(rows.into())
        }
    }

    fn of(&self, columns: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        match self {
            Selection::All => Ok(columns.to_vec()),
            Selection::Rows(rows) => columns
                .iter()
                .map(|column| Ok(compute::take(column, rows, None)?))
                .collect(),
        }
    }

    fn gather(&self, hashes: &[u64]) -> Vec<u64> {
        match self {
            Selection::All => hashes.to_vec(),
            Selection::Rows(rows) => {
                let rows = rows.values().iter();
                rows.map(|row| hashes[*row as usize]).collect()
            }
        }
    }
}

/// Of pairs of rows of results, before and after, those that are equal, as a mark a pair; `None` is not compared, and unequal.
pub(super) fn equal_rows(results: &[ArrayRef], pairs: &[Option<(u32, u32)>]) -> Result<Vec<bool>> {
    let mut equal: Vec<bool> = pairs.iter().map(Option::is_some).collect();
    let mut left: Vec<usize> = (0..pairs.len()).filter(|pair| equal[*pair]).collect();
    // Numbers first: they differ most often and are compared fastest.
    let numbers = |column: &&ArrayRef| *column.data_type() == DataType::Int64;
    let ordered = results
        .iter()
        .filter(numbers)
        .chain(results.iter().filter(|column| !numbers(column)));
    for column in ordered {
        if left.is_empty() {
            break;
        }
        let same = same_values(column)?;
        left.retain(|pair| {
            let same = pairs[*pair].is_some_and(|(a, b)| same(a as usize, b as usize));
            equal[*pair] = same;
            same
        });
    }
    Ok(equal)
}

/// Whether two rows of a column are equal, NULLs too.
fn same_values(column: &ArrayRef) -> Result<Box<dyn Fn(usize, usize) -> bool + '_>> {
    if *column.data_type() == DataType::Int64 {
        let column = column.as_primitive::<Int64Type>();
        let values = column.values();
        if column.null_count() == 0 {
            return Ok(Box::new(|a, b| values[a] == values[b]));
        }
        return Ok(Box::new(|a, b| {
            column.is_valid(a) == column.is_valid(b)
                && (column.is_null(a) || values[a] == values[b])
        }));
    }
    Ok(
        match arrow::array::make_comparator(column, column, SortOptions::default()) {
            Ok(compare) => Box::new(move |a, b| compare(a, b).is_eq()),
            // No order is defined for it: compared as values.
            Err(_) => Box::new(|a, b| column.slice(a, 1) == column.slice(b, 1)),
        },
    )
}
