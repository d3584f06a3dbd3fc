//! What a manifest without a checksum says, compared with itself and with the files that it names: so that no row is passed over
//! because a byte of it was altered.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::UInt64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;

use super::blob_file::BlobFile;
use super::manifest::{SavepointManifest, SavepointTable};
use super::writer::is_file_of;
use crate::error::Result;
use crate::state::{KEY_HASH_COLUMN, TableScope};
use crate::stream::{KeyGroup, KeyGroupRange};

/// What it says that no manifest can say.
pub(super) fn contradiction(manifest: &SavepointManifest) -> Option<String> {
    let operators = manifest.operators.iter();
    let mut tables = operators.flat_map(|operator| {
        let tables = operator.tables.iter();
        tables.map(|table| (operator.uid.as_str(), table))
    });
    tables.find_map(|(uid, table)| {
        let what = of_file(uid, table).or_else(|| of_key_groups(table, manifest.max_parallelism));
        what.map(|what| format!("says of the table '{}' of {uid} {what}", table.name))
    })
}

fn of_file(uid: &str, table: &SavepointTable) -> Option<String> {
    let rows = table.rows;
    match &table.file {
        None if rows > 0 => Some(format!("that it has {rows} rows and no file")),
        Some(file) if !is_file_of(file, uid, &table.name) => {
            Some(format!("that its file is {file}"))
        }
        None | Some(_) => None,
    }
}

/// Row groups go on where the one before ends: in the same range of key groups, or in a later one. Between them there may be groups
/// without rows.
fn of_key_groups(table: &SavepointTable, max_parallelism: u16) -> Option<String> {
    let is_range = |part: &KeyGroupRange| part.first <= part.last && part.last.0 < max_parallelism;
    if let Some(part) = table.key_groups.iter().find(|part| !is_range(part)) {
        let (first, last) = (part.first.0, part.last.0);
        return Some(format!(
            "that it has the key groups {first} to {last} of {max_parallelism}"
        ));
    }
    let in_order =
        |pair: &[KeyGroupRange]| pair[0].first <= pair[1].first && pair[0].last <= pair[1].last;
    let sorted = table.key_groups.windows(2).all(in_order);
    (!sorted).then(|| "key groups that are not in order".to_string())
}

/// What it says of a table that is not so in the table's file.
pub(super) fn disagreement(
    table: &SavepointTable,
    file: BlobFile,
    max_parallelism: u16,
) -> Result<Option<String>> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
    let metadata = builder.metadata();
    let rows = metadata.file_metadata().num_rows() as u64;
    if rows != table.rows {
        return Ok(Some(format!("{} rows, and there are {rows}", table.rows)));
    }
    if table.scope != TableScope::Keyed {
        return Ok(None);
    }
    let (said, there) = (table.key_groups.len(), metadata.num_row_groups());
    if said != there {
        return Ok(Some(format!("{said} row groups, and there are {there}")));
    }
    let there = key_groups(builder.schema(), metadata, max_parallelism)?;
    let mut pairs = table.key_groups.iter().zip(there);
    let outside = pairs.find_map(|(said, there)| {
        let there = there.filter(|there| !said.contains(there.first) || !said.contains(there.last));
        there.map(|there| (*said, there))
    });
    Ok(outside.map(|(said, there)| {
        let text = |range: KeyGroupRange| format!("{} to {}", range.first.0, range.last.0);
        format!(
            "a row group of the key groups {}, and it has rows of {}",
            text(said),
            text(there)
        )
    }))
}

/// The key groups of which each row group has rows, where the file tells.
fn key_groups(
    schema: &Arc<arrow::datatypes::Schema>,
    metadata: &ParquetMetaData,
    max_parallelism: u16,
) -> Result<Vec<Option<KeyGroupRange>>> {
    let columns = metadata.file_metadata().schema_descr();
    let hashes = StatisticsConverter::try_new(KEY_HASH_COLUMN, schema, columns)?;
    let least = hashes.row_group_mins(metadata.row_groups())?;
    let greatest = hashes.row_group_maxes(metadata.row_groups())?;
    let (least, greatest) = (
        least.as_primitive::<UInt64Type>(),
        greatest.as_primitive::<UInt64Type>(),
    );
    let group = |hash: u64| KeyGroup::of_hash(hash, max_parallelism);
    let of_row_group = |index: usize| {
        let is_told = least.is_valid(index) && greatest.is_valid(index);
        is_told.then(|| KeyGroupRange {
            first: group(least.value(index)),
            last: group(greatest.value(index)),
        })
    };
    Ok((0..metadata.num_row_groups()).map(of_row_group).collect())
}
