//! Reads pieces of a table of state, one after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use serde::{Deserialize, Serialize};

use super::StateSource;
use crate::checkpoint::inspect::{read_piece, type_name, value_as};
use crate::connectors::source::{PollRequest, SourcePoll};
use crate::connectors::{SourceReader, SplitState};
use crate::error::{Error, Result};
use crate::types::{Field, RowKinds};

/// Which piece, and how many of its rows were given.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Position {
    piece: usize,
    rows: usize,
}

/// A piece that is not finished.
struct Piece {
    id: String,
    position: Position,
    /// Its rows; `None` until it is read.
    rows: Option<VecDeque<RecordBatch>>,
}

pub(super) struct StateReader {
    source: Arc<StateSource>,
    pieces: VecDeque<Piece>,
}

impl StateReader {
    pub(super) fn new(source: Arc<StateSource>) -> Self {
        StateReader {
            source,
            pieces: VecDeque::new(),
        }
    }

    /// The rows of a piece behind those that were given, with the columns of the table.
    fn read(&self, position: Position) -> Result<VecDeque<RecordBatch>> {
        let StateSource {
            snapshot,
            uid,
            table,
            descriptor,
        } = &*self.source;
        let schema = descriptor.projected();
        let arrow = schema.to_arrow();
        let mut skipped = position.rows;
        let mut rows = VecDeque::new();
        for batch in read_piece(&**snapshot, uid, &table.name, position.piece)? {
            let given = skipped.min(batch.num_rows());
            skipped -= given;
            let batch = batch.slice(given, batch.num_rows() - given);
            if batch.num_rows() == 0 {
                continue;
            }
            let columns = schema.fields.iter().map(|declared| {
                let column = batch.column_by_name(&declared.name).ok_or_else(|| {
                    Error::user(format!("the state has no column \"{}\"", declared.name))
                })?;
                as_declared(&descriptor.name, column, declared)
            });
            let columns = columns.collect::<Result<_>>()?;
            rows.push_back(RecordBatch::try_new(arrow.clone(), columns)?);
        }
        Ok(rows)
    }
}

/// A column of the state in the type that `table` declares.
fn as_declared(table: &str, column: &ArrayRef, declared: &Field) -> Result<ArrayRef> {
    let Field {
        name, logical_type, ..
    } = declared;
    let is = type_name(column.data_type());
    let cast = match logical_type.nullable || column.logical_null_count() == 0 {
        true => value_as(column, &logical_type.to_arrow()),
        false => Err(Error::user("a row has NULL")),
    };
    cast.map_err(|error| {
        let place = format!(
            "column \"{name}\" of table \"{table}\", {is} in the state, is declared as {logical_type}: "
        );
        let mend = format!("declare it as it is in the state, or with a wider type: `{name}` {is}");
        error.prefixed(&place).hint(mend)
    })
}

impl SourceReader for StateReader {
    fn add_splits(&mut self, splits: Vec<SplitState>) -> Result<()> {
        for split in splits {
            let position = serde_json::from_value(split.position).map_err(|error| {
                Error::external(format!(
                    "the position of {} cannot be read: {error}",
                    split.id
                ))
            })?;
            self.pieces.push_back(Piece {
                id: split.id,
                position,
                rows: None,
            });
        }
        Ok(())
    }

    fn poll(&mut self, request: &PollRequest) -> Result<SourcePoll> {
        let Some(first) = self.pieces.front() else {
            return Ok(SourcePoll::End);
        };
        let read = match first.rows {
            None => Some(self.read(first.position)?),
            Some(_) => None,
        };
        let Some(piece) = self.pieces.front_mut() else {
            return Ok(SourcePoll::End);
        };
        let rows = piece.rows.get_or_insert_default();
        rows.extend(read.into_iter().flatten());
        let Some(batch) = rows.pop_front() else {
            let id = std::mem::take(&mut piece.id);
            self.pieces.pop_front();
            return Ok(SourcePoll::SplitEnd(id));
        };
        let length = batch.num_rows().min(request.max_rows.max(1));
        if length < batch.num_rows() {
            rows.push_front(batch.slice(length, batch.num_rows() - length));
        }
        piece.position.rows += length;
        Ok(SourcePoll::Rows {
            split: piece.id.clone(),
            rows: batch.slice(0, length),
            kinds: RowKinds::INSERT_ONLY,
        })
    }

    fn snapshot(&self) -> Result<Vec<SplitState>> {
        let split = |piece: &Piece| SplitState {
            id: piece.id.clone(),
            position: serde_json::json!({"piece": piece.position.piece, "rows": piece.position.rows}),
        };
        Ok(self.pieces.iter().map(split).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;

    use super::*;
    use crate::types::{LogicalType, TypeRoot};

    #[test]
    fn null_is_not_read_as_a_column_without_null() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let declared = |nullable| {
            let root = TypeRoot::BigInt;
            Field::new("n", LogicalType { root, nullable })
        };
        assert_eq!(
            &as_declared("t", &column, &declared(true)).unwrap(),
            &column
        );
        let error = as_declared("t", &column, &declared(false)).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("is declared as BIGINT NOT NULL: a row has NULL"),
            "{error}"
        );
        as_declared("t", &column.slice(0, 1), &declared(false)).unwrap();
    }
}
