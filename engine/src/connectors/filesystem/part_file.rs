//! One file that is being written: record by record through an encoder, or as Parquet.

use std::fs::File;
use std::io::Write;

use arrow::array::RecordBatch;
use parquet::arrow::ArrowWriter;

use super::{FileFormat, FilesystemTable};
use crate::error::{Error, Result};
use crate::formats::Encoder;
use crate::formats::parquet::writer_properties;
use crate::types::RowKinds;

/// Encoded bytes that are written at once.
const WRITE_BYTES: usize = 256 << 10;
/// Bytes of a Parquet row group that are kept in memory.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// A file that takes rows.
pub(super) struct PartFile {
    /// The file, and its lock.
    file: File,
    content: Content,
}

enum Content {
    Records {
        encoder: Box<dyn Encoder>,
        buffer: Vec<u8>,
        written: u64,
    },
    Parquet(Box<ArrowWriter<File>>),
}

impl PartFile {
    pub(super) fn new(file: File, table: &FilesystemTable) -> Result<Self> {
        let content = match &table.format {
            FileFormat::Records(format) => Content::Records {
                encoder: format.encoder(&table.context)?,
                buffer: Vec::new(),
                written: 0,
            },
            FileFormat::Parquet => Content::Parquet(Box::new(ArrowWriter::try_new(
                file.try_clone()?,
                table.context.schema().to_arrow(),
                Some(writer_properties(&table.context)?),
            )?)),
        };
        Ok(PartFile { file, content })
    }

    /// Bytes so far, about.
    pub(super) fn bytes(&self) -> u64 {
        match &self.content {
            Content::Records {
                buffer, written, ..
            } => written + buffer.len() as u64,
            Content::Parquet(writer) => (writer.bytes_written() + writer.in_progress_size()) as u64,
        }
    }

    pub(super) fn write(&mut self, rows: &RecordBatch, kinds: &RowKinds) -> Result<()> {
        match &mut self.content {
            Content::Records {
                encoder,
                buffer,
                written,
            } => {
                encoder.encode(rows, kinds, buffer)?;
                if buffer.len() >= WRITE_BYTES {
                    self.file.write_all(buffer)?;
                    *written += buffer.len() as u64;
                    buffer.clear();
                }
                Ok(())
            }
            Content::Parquet(writer) => {
                writer.write(rows)?;
                if writer.in_progress_size() >= ROW_GROUP_BYTES {
                    writer.flush()?;
                }
                Ok(())
            }
        }
    }

    /// Writes what is left and waits until it is on the disk; gives the file back with its lock.
    pub(super) fn close(mut self) -> Result<File> {
        match self.content {
            Content::Records { buffer, .. } => self.file.write_all(&buffer)?,
            Content::Parquet(writer) => {
                writer
                    .close()
                    .map_err(|error| Error::external(error.to_string()))?;
            }
        }
        self.file.sync_all()?;
        Ok(self.file)
    }
}
