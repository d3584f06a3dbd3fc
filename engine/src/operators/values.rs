//! VALUES: constant rows, evaluated once, read as a source of one split.
//!
//! The position of the split is the number of rows given, so that a restore goes on behind them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute;
use arrow::datatypes::Schema as ArrowSchema;
use serde_json::json;

use super::calc::batch_of;
use crate::connectors::source::PollRequest;
use crate::connectors::{Source, SourcePoll, SourceReader, SplitState};
use crate::error::{Error, Result};
use crate::expr::{Expression, ExpressionContext, RowContext, compile};
use crate::stream::WatermarkSteps;
use crate::types::{EventTime, ProcessingTime, RowKinds, Schema};

const SPLIT: &str = "values";

/// The rows of a VALUES clause: bounded, and read by one subtask.
#[derive(Debug, Clone)]
pub struct ValuesSource {
    rows: RecordBatch,
}

impl ValuesSource {
    /// Evaluates constant expressions, one for each column of `schema` in every row.
    pub fn new(
        rows: &[Vec<Expression>],
        schema: &Schema,
        context: &ExpressionContext,
    ) -> Result<Self> {
        let cells = |column: usize| -> Result<ArrayRef> {
            let values = rows
                .iter()
                .map(|row| constant(&row[column], context))
                .collect::<Result<Vec<_>>>()?;
            if values.is_empty() {
                return Ok(arrow::array::new_empty_array(
                    &schema.fields[column].logical_type.to_arrow(),
                ));
            }
            let values: Vec<&dyn Array> = values.iter().map(|value| value.as_ref()).collect();
            Ok(compute::concat(&values)?)
        };
        let columns = (0..schema.len()).map(cells).collect::<Result<_>>()?;
        Ok(ValuesSource {
            rows: batch_of(&schema.to_arrow(), columns, rows.len())?,
        })
    }
}

/// The value of an expression that reads no column.
fn constant(expression: &Expression, context: &ExpressionContext) -> Result<ArrayRef> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(ArrowSchema::empty()), vec![], &options)?;
    let context_of_row = RowContext {
        processing_time: ProcessingTime(0),
        watermark: EventTime::MIN,
        steps: &WatermarkSteps::NONE,
    };
    compile(expression, context)?.evaluate(&row, &context_of_row)
}

impl Source for ValuesSource {
    fn is_bounded(&self) -> bool {
        true
    }

    fn splits(&self) -> Result<Vec<SplitState>> {
        Ok(vec![SplitState {
            id: SPLIT.to_string(),
            position: json!(0),
        }])
    }

    fn reader(&self) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(ValuesReader {
            rows: self.rows.clone(),
            next: None,
        }))
    }
}

struct ValuesReader {
    rows: RecordBatch,
    /// The next row, where this reader has the split.
    next: Option<usize>,
}

impl SourceReader for ValuesReader {
    fn add_splits(&mut self, splits: Vec<SplitState>) -> Result<()> {
        for split in splits {
            let next = split
                .position
                .as_u64()
                .ok_or_else(|| Error::external("the position of constant rows is no number"))?;
            self.next = Some(next as usize);
        }
        Ok(())
    }

    fn poll(&mut self, request: &PollRequest) -> Result<SourcePoll> {
        let Some(next) = self.next else {
            return Ok(SourcePoll::End);
        };
        let left = self.rows.num_rows().saturating_sub(next);
        if left == 0 {
            self.next = None;
            return Ok(SourcePoll::SplitEnd(SPLIT.to_string()));
        }
        let length = left.min(request.max_rows.max(1));
        self.next = Some(next + length);
        Ok(SourcePoll::Rows {
            split: SPLIT.to_string(),
            rows: self.rows.slice(next, length),
            kinds: RowKinds::INSERT_ONLY,
        })
    }

    fn snapshot(&self) -> Result<Vec<SplitState>> {
        let split = self.next.map(|next| SplitState {
            id: SPLIT.to_string(),
            position: json!(next),
        });
        Ok(split.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Literal;
    use crate::operators::test_bench::rows_text;
    use crate::types::{Field, LogicalType, TimeZone};

    #[test]
    fn constant_rows_are_read_once_also_across_a_restore() {
        let schema = Schema::new(vec![
            Field::new("a", LogicalType::INT),
            Field::new("b", LogicalType::STRING),
        ]);
        let row = |a: Literal, b: &str| {
            vec![
                Expression::literal(a, LogicalType::INT),
                Expression::literal(Literal::String(b.to_string()), LogicalType::STRING),
            ]
        };
        let rows = [row(Literal::Integer(1), "x"), row(Literal::Null, "y")];
        let context = ExpressionContext {
            time_zone: TimeZone::UTC,
        };
        let source = ValuesSource::new(&rows, &schema, &context).unwrap();
        let request = PollRequest {
            max_rows: 1,
            max_bytes: 1 << 20,
            now: ProcessingTime(0),
        };
        let mut splits = source.splits().unwrap();
        let mut seen = Vec::new();
        loop {
            let mut reader = source.reader().unwrap();
            reader.add_splits(splits).unwrap();
            match reader.poll(&request).unwrap() {
                SourcePoll::Rows { rows, .. } => seen.extend(rows_text(&rows)),
                _ => break,
            }
            splits = reader.snapshot().unwrap();
        }
        assert_eq!(seen, ["1, x", "null, y"]);
    }
}
