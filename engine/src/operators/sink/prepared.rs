//! What was prepared and is not known to be committed, as a table of a snapshot: one row a committable.

use std::sync::Arc;

use arrow::array::{Array, AsArray, LargeBinaryArray, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, UInt64Type};
use bytes::Bytes;

use crate::connectors::Committable;
use crate::error::{Error, Result};
use crate::stream::CheckpointId;

/// What was prepared for one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prepared {
    pub(super) checkpoint: CheckpointId,
    pub(super) committables: Vec<Committable>,
}

/// The table of what was prepared, in order; `None` where there is nothing.
pub(super) fn to_batch<'p>(
    prepared: impl Iterator<Item = &'p Prepared>,
) -> Result<Option<RecordBatch>> {
    let (mut checkpoints, mut notes, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for prepared in prepared {
        for committable in &prepared.committables {
            checkpoints.push(prepared.checkpoint.0);
            notes.push(committable.note.to_string());
            rows.push(&committable.rows[..]);
        }
    }
    if checkpoints.is_empty() {
        return Ok(None);
    }
    let columns: [(&str, Arc<dyn Array>); 3] = [
        ("checkpoint", Arc::new(UInt64Array::from(checkpoints))),
        ("note", Arc::new(StringArray::from(notes))),
        ("rows", Arc::new(LargeBinaryArray::from_vec(rows))),
    ];
    Ok(Some(RecordBatch::try_from_iter(columns)?))
}

/// The committables of all the writers that a snapshot is of: by checkpoint, each writer's in order.
pub(super) fn from_batches(batches: &[RecordBatch]) -> Result<Vec<Committable>> {
    let mut found = Vec::new();
    for batch in batches {
        check_columns(batch)?;
        let checkpoints = batch.column(0).as_primitive::<UInt64Type>();
        let (notes, rows) = (
            batch.column(1).as_string::<i32>(),
            batch.column(2).as_binary::<i64>(),
        );
        for row in 0..batch.num_rows() {
            let note = serde_json::from_str(notes.value(row)).map_err(|error| {
                Error::external(format!("what a sink had prepared cannot be read: {error}"))
            })?;
            let rows = Bytes::copy_from_slice(rows.value(row));
            found.push((checkpoints.value(row), Committable::with_rows(note, rows)));
        }
    }
    found.sort_by_key(|(checkpoint, _)| *checkpoint);
    Ok(found
        .into_iter()
        .map(|(_, committable)| committable)
        .collect())
}

fn check_columns(batch: &RecordBatch) -> Result<()> {
    let expected = [DataType::UInt64, DataType::Utf8, DataType::LargeBinary];
    let schema = batch.schema();
    let types = schema.fields().iter().map(|field| field.data_type());
    if types.eq(&expected) {
        return Ok(());
    }
    Err(Error::external(format!(
        "what a sink had prepared has the columns {schema}, which this version does not know"
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_committables_of_all_writers_come_back_by_checkpoint() {
        let of = |checkpoint: u64, names: &[&str]| Prepared {
            checkpoint: CheckpointId(checkpoint),
            committables: names
                .iter()
                .map(|name| {
                    Committable::with_rows(json!({ "name": name }), Bytes::from(name.to_string()))
                })
                .collect(),
        };
        let (one, two) = (
            [of(1, &["a", "b"]), of(3, &["c"])],
            [of(2, &["d"]), of(3, &[])],
        );
        let batches: Vec<RecordBatch> = [to_batch(one.iter()), to_batch(two.iter())]
            .into_iter()
            .filter_map(|batch| batch.unwrap())
            .collect();
        let back = from_batches(&batches).unwrap();
        let names: Vec<&[u8]> = back
            .iter()
            .map(|committable| &committable.rows[..])
            .collect();
        assert_eq!(names, [b"a", b"b", b"d", b"c"]);
        assert_eq!(back[2].note, json!({ "name": "d" }));
        assert_eq!(to_batch([of(3, &[])].iter()).unwrap(), None);
        let other = RecordBatch::try_from_iter([("x", batches[0].column(0).clone())]).unwrap();
        assert!(from_batches(&[other]).is_err());
    }
}
