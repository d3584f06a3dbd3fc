//! A file that is read: local, or an object of a store, of which ranges are fetched.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::files::about;
use crate::blobs::BlobStore;
use crate::error::{Error, Result};

/// Bytes of an object that are fetched at once.
const FETCH_BYTES: u64 = 8 << 20;

/// See the module.
pub(super) enum InputFile {
    Local { file: File, bytes: u64 },
    Object(ObjectFile),
}

/// An object with a place in it.
#[derive(Clone)]
pub(super) struct ObjectFile {
    blobs: Arc<dyn BlobStore>,
    path: String,
    bytes: u64,
    position: u64,
    /// What was fetched and not read, up to `position`.
    fetched: Bytes,
}

impl InputFile {
    /// Opens a local file.
    pub(super) fn local(path: &Path) -> Result<Self> {
        let open = || -> io::Result<InputFile> {
            let file = File::open(path)?;
            let bytes = file.metadata()?.len();
            Ok(InputFile::Local { file, bytes })
        };
        open().map_err(|error| about(path, &error))
    }

    /// An object of so many bytes.
    pub(super) fn object(blobs: Arc<dyn BlobStore>, path: &str, bytes: u64) -> Self {
        InputFile::Object(ObjectFile {
            blobs,
            path: path.to_string(),
            bytes,
            position: 0,
            fetched: Bytes::new(),
        })
    }

    /// Its length.
    pub(super) fn length(&self) -> u64 {
        match self {
            InputFile::Local { bytes, .. } => *bytes,
            InputFile::Object(object) => object.bytes,
        }
    }

    /// The next read begins there.
    pub(super) fn seek_to(&mut self, offset: u64) -> io::Result<()> {
        match self {
            InputFile::Local { file, .. } => file.seek(SeekFrom::Start(offset)).map(drop),
            InputFile::Object(object) => {
                object.seek_to(offset);
                Ok(())
            }
        }
    }
}

impl Read for InputFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            InputFile::Local { file, .. } => file.read(buffer),
            InputFile::Object(object) => object.read(buffer),
        }
    }
}

impl ObjectFile {
    fn seek_to(&mut self, offset: u64) {
        self.position = offset;
        self.fetched.clear();
    }

    fn fetch(&self, offset: u64, length: u64) -> io::Result<Bytes> {
        let length = length.min(self.bytes.saturating_sub(offset));
        if length == 0 {
            return Ok(Bytes::new());
        }
        let fetched = self.blobs.get_range(&self.path, offset, length);
        let fetched = fetched.map_err(io::Error::other)?;
        if (fetched.len() as u64) < length {
            return Err(io::Error::other(Error::external(format!(
                "object {}/{} had {} bytes when it was listed and is shorter now: it was replaced",
                self.blobs.location(),
                self.path,
                self.bytes
            ))));
        }
        Ok(fetched)
    }
}

impl Read for ObjectFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.fetched.is_empty() {
            self.fetched = self.fetch(self.position, FETCH_BYTES)?;
            self.position += self.fetched.len() as u64;
        }
        let taken = self.fetched.split_to(buffer.len().min(self.fetched.len()));
        buffer[..taken.len()].copy_from_slice(&taken);
        Ok(taken.len())
    }
}

impl Length for InputFile {
    fn len(&self) -> u64 {
        self.length()
    }
}

impl ChunkReader for InputFile {
    type T = Box<dyn Read + Send>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        match self {
            InputFile::Local { file, .. } => {
                let mut file = file.try_clone()?;
                file.seek(SeekFrom::Start(start))?;
                Ok(Box::new(BufReader::new(file)))
            }
            InputFile::Object(object) => {
                let mut object = object.clone();
                object.seek_to(start);
                Ok(Box::new(object))
            }
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        match self {
            InputFile::Local { file, .. } => file.get_bytes(start, length),
            InputFile::Object(object) => Ok(object.fetch(start, length as u64)?),
        }
    }
}
