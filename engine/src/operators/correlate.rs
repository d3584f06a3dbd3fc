//! UNNEST: joins each row with the elements of a collection of its own.
//!
//! The collections of a batch lie one after the other in one Arrow array, so a batch becomes two index vectors, one into
//! the rows and one into the elements, and every column is gathered once.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, UInt32Array};
use arrow::compute;
use arrow::datatypes::{DataType, Int32Type, SchemaRef};

use super::calc::batch_of;
use super::{Context, Flow, InputIndex, Operator, Output};
use crate::error::{Error, Result};
use crate::expr::{CompiledExpression, RowContext};
use crate::stream::ChangelogBatch;
use crate::types::{Schema, TypeRoot};

/// About how many rows a batch of the output has.
const OUTPUT_ROWS: usize = 8192;

/// What a correlate does.
pub struct CorrelateSpec {
    /// ARRAY, MAP or MULTISET, over the input.
    pub collection: CompiledExpression,
    /// Its type.
    pub collection_type: TypeRoot,
    /// Whether a row whose collection is empty or NULL stays, with NULLs.
    pub outer: bool,
    /// Whether the last column counts the elements of a row from 1.
    pub with_ordinality: bool,
    /// The input columns, those of the element (fields of a ROW; key and value of a MAP), the ordinality.
    pub output: Schema,
}

/// Takes any kinds of rows; each pair has the kind of its row. No state.
pub struct CorrelateOperator {
    spec: CorrelateSpec,
    schema: SchemaRef,
    pending: Option<Unnesting>,
}

/// A batch on its way out.
struct Unnesting {
    batch: ChangelogBatch,
    collections: Collections,
    next: usize,
}

/// The collections of a batch.
struct Collections {
    /// Where the elements of each row lie: `elements[row]` in the columns.
    elements: Vec<Range<u32>>,
    /// The columns of the elements.
    columns: Vec<ArrayRef>,
    /// Elements that are a NULL ROW: their fields are NULL whatever lies in the columns.
    null_rows: Option<arrow::buffer::NullBuffer>,
    /// MULTISET: how often each element counts.
    counts: Option<Int32Array>,
}

impl CorrelateOperator {
    /// A correlate as `spec` says.
    pub fn new(spec: CorrelateSpec) -> Self {
        CorrelateOperator {
            schema: spec.output.to_arrow(),
            spec,
            pending: None,
        }
    }

    fn emit(&mut self, out: &mut Output) -> Result<Flow> {
        while let Some(mut unnesting) = self.pending.take() {
            if unnesting.next == unnesting.batch.num_rows() {
                break;
            }
            let rows = unnesting.next_rows();
            unnesting.next = rows.end;
            let batch = self.unnest(&unnesting, rows)?;
            out.emit(batch);
            self.pending = Some(unnesting);
            if out.is_full() {
                return Ok(Flow::Blocked);
            }
        }
        Ok(Flow::Done)
    }

    fn unnest(&self, unnesting: &Unnesting, rows: Range<usize>) -> Result<ChangelogBatch> {
        let Unnesting {
            batch, collections, ..
        } = unnesting;
        let pairs = collections.pairs(rows.clone(), self.spec.outer);
        let slice = batch.slice(rows.start, rows.len());
        let (taken, _) = slice.take(&pairs.rows)?;
        let mut columns = taken.rows.columns().to_vec();
        for column in &collections.columns {
            columns.push(compute::take(column, &pairs.elements, None)?);
        }
        if self.spec.with_ordinality {
            columns.push(Arc::new(pairs.ordinality));
        }
        let rows = batch_of(&self.schema, columns, taken.num_rows())?;
        Ok(taken.with_rows(rows))
    }
}

impl Unnesting {
    /// The next rows whose elements make about one batch; at least one row.
    fn next_rows(&self) -> Range<usize> {
        let mut elements = 0;
        let rest = &self.collections.elements[self.next..];
        let fitting = rest
            .iter()
            .take_while(|range| {
                elements += range.len().max(1);
                elements <= OUTPUT_ROWS
            })
            .count();
        self.next..self.next + fitting.max(1)
    }
}

/// Which row goes with which element.
struct Pairs {
    /// The rows, from the first of the range.
    rows: UInt32Array,
    /// The elements; NULL where an outer row stays alone, and at a NULL ROW.
    elements: UInt32Array,
    /// The number of the element in its collection, from 1.
    ordinality: Int32Array,
}

impl Collections {
    fn of(collection: &ArrayRef) -> Result<Self> {
        match collection.data_type() {
            DataType::List(_) => {
                let list = collection.as_list::<i32>();
                let (columns, null_rows) = element_columns(list.values());
                Ok(Collections {
                    elements: ranges(list.value_offsets(), collection),
                    columns,
                    null_rows,
                    counts: None,
                })
            }
            DataType::Map(_, _) => {
                let map = collection.as_map();
                Ok(Collections {
                    elements: ranges(map.value_offsets(), collection),
                    columns: vec![map.keys().clone(), map.values().clone()],
                    null_rows: None,
                    counts: None,
                })
            }
            other => Err(Error::internal(format!(
                "UNNEST takes a collection, not the Arrow type {other}"
            ))),
        }
    }

    /// A MULTISET is held as a map from element to how often it is there.
    fn into_multiset(self) -> Self {
        let counts = self.columns[1].as_primitive::<Int32Type>().clone();
        let (columns, null_rows) = element_columns(&self.columns[0]);
        Collections {
            columns,
            null_rows,
            counts: Some(counts),
            ..self
        }
    }

    fn pairs(&self, rows: Range<usize>, outer: bool) -> Pairs {
        let (mut row_indices, mut elements, mut ordinality) = (Vec::new(), Vec::new(), Vec::new());
        for (place, range) in self.elements[rows].iter().enumerate() {
            let mut number = 0;
            for element in range.clone() {
                let times = self
                    .counts
                    .as_ref()
                    .map_or(1, |counts| counts.value(element as usize).max(0));
                let is_row = self
                    .null_rows
                    .as_ref()
                    .is_none_or(|nulls| nulls.is_valid(element as usize));
                for _ in 0..times {
                    number += 1;
                    row_indices.push(place as u32);
                    elements.push(is_row.then_some(element));
                    ordinality.push(Some(number));
                }
            }
            if number == 0 && outer {
                row_indices.push(place as u32);
                elements.push(None);
                ordinality.push(None);
            }
        }
        Pairs {
            rows: row_indices.into(),
            elements: elements.into(),
            ordinality: ordinality.into(),
        }
    }
}

/// The elements of each row; none where the collection is NULL.
fn ranges(offsets: &[i32], collection: &ArrayRef) -> Vec<Range<u32>> {
    offsets
        .windows(2)
        .enumerate()
        .map(|(row, ends)| {
            let end = if collection.is_null(row) {
                ends[0]
            } else {
                ends[1]
            };
            ends[0] as u32..end as u32
        })
        .collect()
}

/// The columns of elements, and which of them are NULL ROWs.
fn element_columns(elements: &ArrayRef) -> (Vec<ArrayRef>, Option<arrow::buffer::NullBuffer>) {
    match elements.as_struct_opt() {
        Some(rows) => (rows.columns().to_vec(), rows.nulls().cloned()),
        None => (vec![elements.clone()], None),
    }
}

impl Operator for CorrelateOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        let context = RowContext {
            processing_time: ctx.processing_time(),
            watermark: ctx.watermark(),
            steps: &batch.steps,
        };
        let collection = self.spec.collection.evaluate(&batch.rows, &context)?;
        let mut collections = Collections::of(&collection)?;
        if matches!(self.spec.collection_type, TypeRoot::Multiset(_)) {
            collections = collections.into_multiset();
        }
        self.pending = Some(Unnesting {
            batch,
            collections,
            next: 0,
        });
        self.emit(out)
    }

    fn resume(&mut self, _ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.emit(out)
    }
}

#[cfg(test)]
mod tests;
