//! One part that is being written: record by record through an encoder, or as Parquet.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use parquet::arrow::ArrowWriter;

use super::part_store::{PartOutput, PreparedPart, own_error, own_parquet_error};
use super::{FileFormat, FilesystemTable};
use crate::error::{Error, Result};
use crate::formats::Encoder;
use crate::formats::parquet::{row_group_bytes, writer_properties};
use crate::types::RowKinds;

/// Encoded bytes that are written at once.
const WRITE_BYTES: usize = 256 << 10;

/// A part that takes rows. Dropped without [`PartFile::prepare`], it is given up.
pub(super) struct PartFile {
    /// What messages call it.
    name: String,
    content: Content,
}

enum Content {
    Records {
        output: Box<dyn PartOutput>,
        encoder: Box<dyn Encoder>,
        buffer: Vec<u8>,
        written: u64,
    },
    Parquet {
        writer: Box<ArrowWriter<SharedOutput>>,
        output: SharedOutput,
        row_group_bytes: usize,
    },
}

impl PartFile {
    pub(super) fn new(output: Box<dyn PartOutput>, table: &FilesystemTable) -> Result<Self> {
        let name = output.name();
        let content = match &table.format {
            FileFormat::Records(format) => Content::Records {
                output,
                encoder: format.encoder(&table.context)?,
                buffer: Vec::new(),
                written: 0,
            },
            FileFormat::Parquet => {
                let schema = table.context.schema().to_arrow();
                let properties = writer_properties(&table.context)?;
                let output = SharedOutput(Arc::new(Mutex::new(Some(output))));
                let writer = ArrowWriter::try_new(output.clone(), schema, Some(properties))
                    .map_err(own_parquet_error)?;
                Content::Parquet {
                    writer: Box::new(writer),
                    output,
                    row_group_bytes: row_group_bytes(&table.context)?,
                }
            }
        };
        Ok(PartFile { name, content })
    }

    /// Bytes so far, about.
    pub(super) fn bytes(&self) -> u64 {
        match &self.content {
            Content::Records {
                buffer, written, ..
            } => written + buffer.len() as u64,
            Content::Parquet { writer, .. } => {
                (writer.bytes_written() + writer.in_progress_size()) as u64
            }
        }
    }

    /// Adds rows.
    pub(super) fn write(&mut self, rows: &RecordBatch, kinds: &RowKinds) -> Result<()> {
        let written = self.content.write(rows, kinds);
        written.map_err(|error| self.while_writing(error))
    }

    /// Writes what is left, waits until all of it is durable, and says how to commit it.
    pub(super) fn prepare(self) -> Result<PreparedPart> {
        let name = self.name;
        let prepared = self.content.end().and_then(|output| output.prepare());
        prepared.map_err(|error| while_writing(error, &name))
    }

    fn while_writing(&self, error: Error) -> Error {
        while_writing(error, &self.name)
    }
}

fn while_writing(error: Error, name: &str) -> Error {
    error.context(format!("while writing {name}"))
}

impl Content {
    fn write(&mut self, rows: &RecordBatch, kinds: &RowKinds) -> Result<()> {
        match self {
            Content::Records {
                output,
                encoder,
                buffer,
                written,
            } => {
                encoder.encode(rows, kinds, buffer)?;
                if buffer.len() >= WRITE_BYTES {
                    output.write_all(buffer).map_err(own_error)?;
                    *written += buffer.len() as u64;
                    buffer.clear();
                }
                Ok(())
            }
            Content::Parquet {
                writer,
                row_group_bytes,
                ..
            } => {
                writer.write(rows).map_err(own_parquet_error)?;
                if writer.in_progress_size() >= *row_group_bytes {
                    writer.flush().map_err(own_parquet_error)?;
                }
                Ok(())
            }
        }
    }

    /// Hands the last bytes, the footer among them, to the output.
    fn end(self) -> Result<Box<dyn PartOutput>> {
        match self {
            Content::Records {
                mut output, buffer, ..
            } => {
                output.write_all(&buffer).map_err(own_error)?;
                Ok(output)
            }
            Content::Parquet {
                mut writer, output, ..
            } => {
                writer.finish().map_err(own_parquet_error)?;
                output
                    .take()
                    .ok_or_else(|| Error::internal("a part is ended once"))
            }
        }
    }
}

/// The output of a Parquet writer, which would give it back only at the price of its errors.
#[derive(Clone)]
struct SharedOutput(Arc<Mutex<Option<Box<dyn PartOutput>>>>);

impl SharedOutput {
    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn PartOutput>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Box<dyn PartOutput>> {
        self.lock().take()
    }
}

impl Write for SharedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.lock().as_mut() {
            Some(output) => output.write(bytes),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
