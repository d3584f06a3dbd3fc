//! The data files of a checkpoint: pieces one behind the other, written in parts as they come and checked as they are read.
//!
//! Few files, because that is what object stores like: a new one is begun behind some 64 MB, and none is held in memory
//! unless the store takes no uploads in parts.

use std::collections::BTreeMap;
use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::manifest::Piece;
use crate::blobs::{BlobStore, Upload};
use crate::error::{Error, Result};

/// As much at once goes to the store without a copy, if it takes parts of any size.
const LARGE_BYTES: usize = 128 << 10;

/// How large files and their parts become.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileSizes {
    /// A file ends with the piece that reaches this.
    pub(super) file_bytes: usize,
    /// A part is handed to the store at this size.
    pub(super) part_bytes: usize,
    /// What of a segment becomes one bucket.
    pub(super) bucket_bytes: usize,
}

impl Default for FileSizes {
    fn default() -> Self {
        FileSizes {
            file_bytes: 64 << 20,
            part_bytes: 8 << 20,
            bucket_bytes: 8 << 20,
        }
    }
}

/// Writes pieces to files `<prefix>-0`, `<prefix>-1`, ….
pub(super) struct DataWriter<'a> {
    blobs: &'a dyn BlobStore,
    prefix: String,
    pub(super) sizes: FileSizes,
    /// The files that are complete, with their lengths.
    files: BTreeMap<String, u64>,
    buffer: Vec<u8>,
    upload: Option<Upload>,
    /// Bytes of the file before the buffer.
    flushed: u64,
}

impl<'a> DataWriter<'a> {
    pub(super) fn new(blobs: &'a dyn BlobStore, prefix: String, sizes: FileSizes) -> Self {
        DataWriter {
            blobs,
            prefix,
            sizes,
            files: BTreeMap::new(),
            buffer: Vec::new(),
            upload: None,
            flushed: 0,
        }
    }

    fn path(&self) -> String {
        format!("{}-{}", self.prefix, self.files.len())
    }

    fn offset(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// The batches of a table as an Arrow IPC stream; at least one batch.
    pub(super) fn table(&mut self, batches: &[RecordBatch]) -> Result<Piece> {
        let Some(first) = batches.first() else {
            return Err(Error::internal("a table without a batch is not written"));
        };
        let schema = first.schema();
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        self.piece(rows, |out| {
            let mut stream = StreamWriter::try_new(out, &schema)?;
            for batch in batches {
                if batch.schema_ref().fields() != schema.fields() {
                    return Err(Error::internal(format!(
                        "the batches of a table of state differ in their columns: {} and {schema}",
                        batch.schema_ref()
                    )));
                }
                stream.write(batch)?;
            }
            Ok(stream.finish()?)
        })
    }

    /// Hashes of keys.
    pub(super) fn keys(&mut self, keys: &[u64]) -> Result<Piece> {
        self.piece(keys.len() as u64, |out| {
            for chunk in keys.chunks(4096) {
                let bytes: Vec<u8> = chunk.iter().flat_map(|key| key.to_le_bytes()).collect();
                out.write_all(&bytes)?;
            }
            Ok(())
        })
    }

    fn piece(
        &mut self,
        rows: u64,
        write: impl FnOnce(&mut PieceWriter<'_, 'a>) -> Result<()>,
    ) -> Result<Piece> {
        if self.offset() >= self.sizes.file_bytes as u64 {
            self.end_file()?;
        }
        let (file, offset) = (self.path(), self.offset());
        let mut out = PieceWriter {
            checksum: Xxh3::new(),
            failed: None,
            files: self,
        };
        let written = write(&mut out);
        let (checksum, failed) = (out.checksum.digest(), out.failed.take());
        if let Some(error) = failed {
            return Err(error);
        }
        written?;
        Ok(Piece {
            bytes: self.offset() - offset,
            file,
            offset,
            checksum: format!("{checksum:016x}"),
            rows,
        })
    }

    fn part_bytes(&self) -> usize {
        self.sizes.part_bytes.max(self.blobs.least_part_bytes())
    }

    /// Adds bytes to the file.
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let takes_any = self.blobs.has_uploads() && self.blobs.least_part_bytes() == 0;
        if bytes.len() >= LARGE_BYTES && takes_any {
            return self.put_large(bytes);
        }
        self.keep(bytes);
        self.flush_part()
    }

    /// Hands what is in the buffer and these bytes to the store.
    fn put_large(&mut self, bytes: &[u8]) -> Result<()> {
        let mut upload = self.take_upload()?;
        let mut put = || {
            if !self.buffer.is_empty() {
                self.blobs.put_part_of(&mut upload, &self.buffer)?;
            }
            self.blobs.put_part_of(&mut upload, bytes)
        };
        let put = put();
        self.flushed += (self.buffer.len() + bytes.len()) as u64;
        self.buffer.clear();
        self.upload = Some(upload);
        put
    }

    /// The upload of the file under way.
    fn take_upload(&mut self) -> Result<Upload> {
        match self.upload.take() {
            Some(upload) => Ok(upload),
            None => self.blobs.start_upload(&self.path()),
        }
    }

    /// Adds bytes to the buffer. A buffer that has outgrown small files gets the room of a part at once.
    fn keep(&mut self, bytes: &[u8]) {
        let length = self.buffer.len() + bytes.len();
        if length > self.buffer.capacity() && length > self.part_bytes() / 16 {
            let room = length.max(self.part_bytes() + self.part_bytes() / 8);
            self.buffer.reserve_exact(room - self.buffer.len());
        }
        self.buffer.extend_from_slice(bytes);
    }

    fn flush_part(&mut self) -> Result<()> {
        let part_bytes = self.part_bytes();
        if self.buffer.len() < part_bytes || !self.blobs.has_uploads() {
            return Ok(());
        }
        let mut upload = self.take_upload()?;
        let part = Bytes::from(std::mem::take(&mut self.buffer));
        self.flushed += part.len() as u64;
        let put = self.blobs.put_part(&mut upload, part);
        self.upload = Some(upload);
        put
    }

    fn end_file(&mut self) -> Result<()> {
        let (path, bytes) = (self.path(), self.offset());
        if bytes == 0 {
            return Ok(());
        }
        let rest = Bytes::from(std::mem::take(&mut self.buffer));
        match &mut self.upload {
            Some(upload) => {
                if !rest.is_empty() {
                    self.blobs.put_part(upload, rest)?;
                }
                self.blobs.complete_upload(upload)?;
            }
            None => self.blobs.put(&path, rest)?,
        }
        self.upload = None;
        self.flushed = 0;
        self.files.insert(path, bytes);
        Ok(())
    }

    /// Completes the last file. Gives the lengths of all of them.
    pub(super) fn finish(mut self) -> Result<BTreeMap<String, u64>> {
        self.end_file()?;
        Ok(std::mem::take(&mut self.files))
    }
}

impl Drop for DataWriter<'_> {
    fn drop(&mut self) {
        if let Some(upload) = &self.upload {
            // What stays behind is no blob; the store forgets it, or the next start clears it.
            let _ = self.blobs.abort_upload(upload);
        }
    }
}

/// One piece under way.
struct PieceWriter<'w, 'a> {
    files: &'w mut DataWriter<'a>,
    checksum: Xxh3,
    /// The store's own words, which an I/O error would lose.
    failed: Option<Error>,
}

impl Write for PieceWriter<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.checksum.update(bytes);
        if let Err(error) = self.files.write(bytes) {
            self.failed = Some(error);
            return Err(io::Error::other("the store failed"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a piece at `path`, and compares it with what the manifest says of it.
pub(super) fn read_piece(blobs: &dyn BlobStore, path: &str, piece: &Piece) -> Result<Bytes> {
    piece_bytes(blobs, path, piece)?.ok_or_else(|| {
        Error::external(format!(
            "{}/{path} is damaged: its bytes {} to {} are not those that were written",
            blobs.location(),
            piece.offset,
            piece.end()
        ))
        .hint("restore an older checkpoint")
    })
}

/// The bytes of a piece; `None` where they are not those that were written.
pub(super) fn piece_bytes(
    blobs: &dyn BlobStore,
    path: &str,
    piece: &Piece,
) -> Result<Option<Bytes>> {
    let bytes = blobs.get_range(path, piece.offset, piece.bytes)?;
    let is_whole =
        bytes.len() as u64 == piece.bytes && format!("{:016x}", xxh3_64(&bytes)) == piece.checksum;
    Ok(is_whole.then_some(bytes))
}

/// The batches of a table. They share the memory of `bytes`.
pub(super) fn decode_table(bytes: Bytes) -> Result<Vec<RecordBatch>> {
    let mut buffer = Buffer::from(bytes);
    let mut decoder = StreamDecoder::new();
    let mut batches = Vec::new();
    while !buffer.is_empty() {
        batches.extend(decoder.decode(&mut buffer)?);
    }
    decoder.finish()?;
    Ok(batches)
}

/// The hashes of [`DataWriter::keys`].
pub(super) fn decode_keys(bytes: &[u8]) -> Vec<u64> {
    let (hashes, _) = bytes.as_chunks::<8>();
    hashes
        .iter()
        .map(|hash| u64::from_le_bytes(*hash))
        .collect()
}
