//! Rows of a keyed state in a snapshot: the hash of each row's key, what else is known of it, then its columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::error::Result;
use crate::state::KEY_HASH_COLUMN;

/// About how many rows a batch of a snapshot has.
pub(super) const SNAPSHOT_ROWS: usize = 8192;

/// A batch for a keyed table of a snapshot; `hashes` are those of the keys.
pub(super) fn keyed_batch(
    hashes: Vec<u64>,
    notes: &[(&str, ArrayRef)],
    rows: &RecordBatch,
) -> Result<RecordBatch> {
    let mut fields = vec![Arc::new(Field::new(
        KEY_HASH_COLUMN,
        DataType::UInt64,
        false,
    ))];
    let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from(hashes))];
    for (name, note) in notes {
        fields.push(Arc::new(Field::new(*name, note.data_type().clone(), true)));
        columns.push(note.clone());
    }
    fields.extend(rows.schema_ref().fields().iter().cloned());
    columns.extend_from_slice(rows.columns());
    Ok(RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns,
    )?)
}

/// The columns of [`keyed_batch`].
pub(super) fn keyed_schema(notes: &[(&str, DataType)], rows: &SchemaRef) -> SchemaRef {
    let mut fields = vec![Arc::new(Field::new(
        KEY_HASH_COLUMN,
        DataType::UInt64,
        false,
    ))];
    let notes = notes.iter();
    fields.extend(notes.map(|(name, note)| Arc::new(Field::new(*name, note.clone(), true))));
    fields.extend(rows.fields().iter().cloned());
    Arc::new(Schema::new(fields))
}

/// The notes and the rows of a batch that [`keyed_batch`] made.
pub(super) fn unkeyed_batch(
    batch: &RecordBatch,
    notes: usize,
    schema: &SchemaRef,
) -> Result<(Vec<ArrayRef>, RecordBatch)> {
    let (notes, columns) = batch.columns()[1..].split_at(notes);
    let rows = RecordBatch::try_new(schema.clone(), columns.to_vec())?;
    Ok((notes.to_vec(), rows))
}
