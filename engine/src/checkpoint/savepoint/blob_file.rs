//! A blob as a file that Parquet writes from front to back and reads in pieces.

use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use xxhash_rust::xxh3::Xxh3;

use crate::blobs::{BlobStore, Upload};
use crate::error::Result;

/// How many bytes go to the store, or are read ahead, at once.
const PIECE_BYTES: usize = 4 << 20;

/// Writes a blob piece by piece; it is there once [`BlobWriter::complete`] has returned.
pub(super) struct BlobWriter {
    blobs: Arc<dyn BlobStore>,
    upload: Upload,
    waiting: Vec<u8>,
    hash: Xxh3,
    bytes: u64,
}

/// A blob that was written.
pub(super) struct Written {
    pub(super) bytes: u64,
    /// xxh3-64, in hexadecimal.
    pub(super) checksum: String,
}

impl BlobWriter {
    pub(super) fn new(blobs: Arc<dyn BlobStore>, path: &str) -> Result<Self> {
        Ok(BlobWriter {
            upload: blobs.start_upload(path)?,
            blobs,
            waiting: Vec::new(),
            hash: Xxh3::new(),
            bytes: 0,
        })
    }

    fn send(&mut self) -> Result<()> {
        let piece = Bytes::from(std::mem::take(&mut self.waiting));
        self.blobs.put_part(&mut self.upload, piece)
    }

    /// Makes what was written the blob.
    pub(super) fn complete(mut self) -> Result<Written> {
        if !self.waiting.is_empty() {
            self.send()?;
        }
        self.blobs.complete_upload(&self.upload)?;
        Ok(Written {
            bytes: self.bytes,
            checksum: checksum(&self.hash),
        })
    }
}

impl Write for BlobWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        if self.waiting.len() >= PIECE_BYTES.max(self.blobs.least_part_bytes()) {
            self.send().map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn checksum(hash: &Xxh3) -> String {
    format!("{:016x}", hash.digest())
}

/// Reads a blob of known length.
#[derive(Clone)]
pub(super) struct BlobFile {
    pub(super) blobs: Arc<dyn BlobStore>,
    pub(super) path: String,
    pub(super) bytes: u64,
}

impl BlobFile {
    /// The checksum of the blob, if it is as long as it should be.
    pub(super) fn checksum(&self) -> Result<Option<String>> {
        let mut hash = Xxh3::new();
        let mut offset = 0;
        while offset < self.bytes {
            // The last piece asks for one byte more: a blob that is longer is not ours. Behind the end alone stores refuse to read.
            let left = self.bytes - offset;
            let length = match left <= PIECE_BYTES as u64 {
                true => left + 1,
                false => PIECE_BYTES as u64,
            };
            let piece = self.blobs.get_range(&self.path, offset, length)?;
            if piece.is_empty() {
                break;
            }
            hash.update(&piece);
            offset += piece.len() as u64;
        }
        Ok((offset == self.bytes).then(|| checksum(&hash)))
    }

    fn range(&self, offset: u64, length: u64) -> Result<Bytes> {
        self.blobs.get_range(&self.path, offset, length)
    }
}

impl Length for BlobFile {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for BlobFile {
    type T = BlobRead;

    fn get_read(&self, start: u64) -> parquet::errors::Result<BlobRead> {
        Ok(BlobRead {
            file: self.clone(),
            next: start,
            ahead: Bytes::new(),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let bytes = self
            .range(start, length as u64)
            .map_err(|error| ParquetError::External(Box::new(error)))?;
        if bytes.len() < length {
            return Err(ParquetError::EOF(format!("{} is too short", self.path)));
        }
        Ok(bytes)
    }
}

/// The bytes of a blob from a place on.
pub(super) struct BlobRead {
    file: BlobFile,
    next: u64,
    ahead: Bytes,
}

/// How many bytes of a page's beginning are read at once.
const AHEAD_BYTES: u64 = 64 << 10;

impl Read for BlobRead {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if self.ahead.is_empty() {
            let ahead = self.file.range(self.next, AHEAD_BYTES);
            self.ahead = ahead.map_err(io::Error::other)?;
            self.next += self.ahead.len() as u64;
        }
        let length = target.len().min(self.ahead.len());
        target[..length].copy_from_slice(&self.ahead.split_to(length));
        Ok(length)
    }
}
