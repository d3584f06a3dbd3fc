//! Reads Parquet files: only the columns that are asked for, cast to their declared types.

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use serde::{Deserialize, Serialize};

use super::input::InputFile;
use super::location::{Location, TableFile};
use super::source::{Next, SplitReader};
use crate::connectors::SplitState;
use crate::connectors::source::PollRequest;
use crate::error::{Error, Result};
use crate::formats::FormatContext;
use crate::formats::parquet::adapt;
use crate::types::{RowKinds, Schema};

/// Where a file was read up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ParquetPosition {
    /// Rows before the next one.
    #[serde(default)]
    row: u64,
    /// The length of the file, where finding it has told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

/// Reads Parquet files.
pub(super) struct ParquetReader {
    context: FormatContext,
    schema: Schema,
    file: Option<OpenFile>,
}

struct OpenFile {
    id: String,
    /// Taken at the first poll.
    input: Option<InputFile>,
    position: ParquetPosition,
    /// `None` until the first poll, which knows how large batches should be.
    rows: Option<Rows>,
    /// Rows that were decoded and not handed over.
    left: Option<RecordBatch>,
}

struct Rows {
    reader: ParquetRecordBatchReader,
    /// For each column that is given, its place in the reader's batches; `None`: the file lacks it.
    places: Vec<Option<usize>>,
}

impl ParquetReader {
    pub(super) fn new(context: FormatContext) -> Self {
        ParquetReader {
            schema: context.schema(),
            context,
            file: None,
        }
    }
}

impl OpenFile {
    /// Opens the file at its position.
    fn start(
        &mut self,
        context: &FormatContext,
        schema: &Schema,
        batch_rows: usize,
    ) -> Result<Rows> {
        let input = self.input.take();
        let file = input.ok_or_else(|| Error::internal("a file is started once"))?;
        // Types come from Parquet itself, not from the Arrow schema that some writers add.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
            .map_err(|error| self.broken(error))?;
        let in_file = builder.schema().clone();
        let knows = |name: &str| in_file.index_of(name).is_ok();
        if !context.physical.is_empty() && !context.physical.names().any(knows) {
            let names: Vec<_> = in_file
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect();
            return Err(Error::data(format!(
                "file {} has none of the table's columns; it has {}",
                self.id,
                names.join(", ")
            )));
        }
        let roots: Vec<Option<usize>> = schema
            .names()
            .map(|name| in_file.index_of(name).ok())
            .collect();
        let mut read: Vec<usize> = roots.iter().flatten().copied().collect();
        read.sort_unstable();
        read.dedup();
        let places = roots
            .iter()
            .map(|root| root.map(|root| read.partition_point(|other| *other < root)))
            .collect();
        let (groups, offset) = self.remaining(&builder)?;
        let mask = ProjectionMask::roots(builder.parquet_schema(), read);
        let reader = builder
            .with_projection(mask)
            .with_batch_size(batch_rows)
            .with_row_groups(groups)
            .with_offset(offset)
            .build()
            .map_err(|error| self.broken(error))?;
        Ok(Rows { reader, places })
    }

    /// The row groups from the position on, and how many rows of the first one are done.
    fn remaining(
        &self,
        builder: &ParquetRecordBatchReaderBuilder<InputFile>,
    ) -> Result<(Vec<usize>, usize)> {
        let groups = builder.metadata().row_groups();
        let mut before = 0;
        for (index, group) in groups.iter().enumerate() {
            let rows = group.num_rows() as u64;
            if self.position.row < before + rows {
                let offset = (self.position.row - before) as usize;
                return Ok(((index..groups.len()).collect(), offset));
            }
            before += rows;
        }
        if self.position.row > before {
            return Err(Error::external(format!(
                "file {} has {before} rows, but was read up to row {}: it was replaced",
                self.id, self.position.row
            )));
        }
        Ok((Vec::new(), 0))
    }

    fn broken(&self, error: impl std::fmt::Display) -> Error {
        Error::external(format!(
            "file {} cannot be read as Parquet: {error}",
            self.id
        ))
    }

    fn next_batch(
        &mut self,
        context: &FormatContext,
        schema: &Schema,
        batch_rows: usize,
    ) -> Result<Option<RecordBatch>> {
        if let Some(left) = self.left.take() {
            return Ok(Some(left));
        }
        if self.rows.is_none() {
            self.rows = Some(self.start(context, schema, batch_rows)?);
        }
        let rows = self.rows.as_mut().expect("set above");
        match rows.reader.next() {
            None => Ok(None),
            Some(Err(error)) => Err(self.broken(error)),
            Some(Ok(batch)) => {
                let places = &rows.places;
                declared(&batch, places, schema)
                    .map(Some)
                    .map_err(|error| error.prefixed(&format!("file {}, ", self.id)))
            }
        }
    }
}

/// The columns of a batch in the order and the types that were declared.
fn declared(batch: &RecordBatch, places: &[Option<usize>], schema: &Schema) -> Result<RecordBatch> {
    let columns = schema
        .fields
        .iter()
        .zip(places)
        .map(|(field, place)| match place {
            Some(place) => adapt(batch.column(*place), &field.logical_type)
                .map_err(|error| error.prefixed(&format!("column \"{}\": ", field.name))),
            None => Ok(new_null_array(
                &field.logical_type.to_arrow(),
                batch.num_rows(),
            )),
        })
        .collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        schema.to_arrow(),
        columns,
        &options,
    )?)
}

impl SplitReader for ParquetReader {
    fn open(&mut self, split: &SplitState, location: &Location) -> Result<()> {
        let position: ParquetPosition = match &split.position {
            serde_json::Value::Null => ParquetPosition::default(),
            position => serde_json::from_value(position.clone()).map_err(|error| {
                Error::internal(format!(
                    "the position of file {} is wrong: {error}",
                    split.id
                ))
            })?,
        };
        let input = location.open(&TableFile {
            id: split.id.clone(),
            bytes: position.bytes,
        })?;
        self.file = Some(OpenFile {
            id: split.id.clone(),
            input: Some(input),
            position,
            rows: None,
            left: None,
        });
        Ok(())
    }

    fn next(&mut self, request: &PollRequest) -> Result<Next> {
        let open = self.file.as_mut().expect("poll opens a file first");
        let most = request.max_rows.max(1);
        let next = open
            .next_batch(&self.context, &self.schema, most)
            .map_err(|error| error.prefixed(&format!("table \"{}\": ", self.context.table)))?;
        let Some(batch) = next else {
            return Ok(Next::End);
        };
        let rows = rows_of_bytes(&batch, request.max_bytes).min(most);
        let (given, left) = if rows < batch.num_rows() {
            let left = batch.slice(rows, batch.num_rows() - rows);
            (batch.slice(0, rows), Some(left))
        } else {
            (batch, None)
        };
        open.left = left;
        open.position.row += given.num_rows() as u64;
        Ok(Next::Rows(given, RowKinds::INSERT_ONLY))
    }

    fn position(&self) -> SplitState {
        let open = self
            .file
            .as_ref()
            .expect("only an open split has a position");
        SplitState {
            id: open.id.clone(),
            position: serde_json::to_value(open.position).expect("a number is JSON"),
        }
    }
}

/// How many rows of a batch take about `bytes`; at least one.
fn rows_of_bytes(batch: &RecordBatch, bytes: usize) -> usize {
    let size: usize = batch
        .columns()
        .iter()
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0))
        .sum();
    if size <= bytes.saturating_mul(2) {
        return batch.num_rows();
    }
    ((batch.num_rows() as u128 * bytes as u128 / size as u128) as usize).max(1)
}
