//! Parts in an object store: uploads in pieces, which become objects when they are completed.
//!
//! Every part is an upload of its own, also one that is small: an upload can be completed once and never again, so that an object which
//! a reader has taken away does not come back when a restore commits once more. An upload that nobody completes is invisible, but is kept
//! (and paid for) until somebody aborts it: a writer that is dropped does; what a kill leaves is for a lifecycle rule of the
//! bucket.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;

use super::part_store::{PartNames, PartOutput, PartStore, PreparedPart, as_io};
use crate::blobs::{BlobStore, Upload};
use crate::error::{Error, Result};

/// The least size of the pieces of an upload.
const PIECE_BYTES: u64 = 8 << 20;
/// How many pieces an upload of the full size of a part should have at most; stores know a limit of 10000.
const MOST_PIECES: u64 = 5000;

/// See the module.
pub(super) struct ObjectParts {
    blobs: Arc<dyn BlobStore>,
    piece_bytes: usize,
}

impl ObjectParts {
    /// Parts in a store, each of about `part_bytes` at most.
    pub(super) fn new(blobs: Arc<dyn BlobStore>, part_bytes: u64) -> Self {
        let pieces = PIECE_BYTES.max(part_bytes.div_ceil(MOST_PIECES)) as usize;
        ObjectParts {
            piece_bytes: pieces.max(blobs.least_part_bytes()),
            blobs,
        }
    }

    /// The same with pieces of another size.
    #[cfg(test)]
    pub(super) fn with_pieces(blobs: Arc<dyn BlobStore>, piece_bytes: usize) -> Self {
        ObjectParts { blobs, piece_bytes }
    }

    #[cfg(test)]
    pub(super) fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    fn complete(&self, upload: &Upload) -> Result<()> {
        let Err(error) = self.blobs.complete_upload(upload) else {
            return Ok(());
        };
        // Nobody else writes an object of this name: where there is one, the upload was completed before.
        if self.blobs.get_range(&upload.path, 0, 1).is_ok() {
            return Ok(());
        }
        let hint = format!(
            "uploads must stay while a checkpoint that names them may be restored, and objects until the next checkpoint is complete; \
             to go on without the rows of this one, put an object at {}/{}",
            self.blobs.location(),
            upload.path
        );
        Err(error.hint(hint))
    }
}

impl PartStore for ObjectParts {
    fn make_ready(&self) -> Result<()> {
        Ok(())
    }

    fn create(&self, names: &mut PartNames) -> Result<Box<dyn PartOutput>> {
        Ok(Box::new(ObjectOutput {
            blobs: self.blobs.clone(),
            path: names.next().unwrap_or_default(),
            piece_bytes: self.piece_bytes,
            buffer: Vec::new(),
            upload: None,
        }))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn commit(&self, parts: &[PreparedPart]) -> Result<()> {
        for part in parts {
            let PreparedPart::Upload(upload) = part else {
                return Err(Error::user(format!(
                    "a checkpoint holds a local file, but the table's path is {}",
                    self.blobs.location()
                ))
                .hint("restore with the path that the table had"));
            };
            self.complete(upload)?;
        }
        Ok(())
    }

    /// Nobody can list the uploads of a store that no checkpoint names.
    fn discard_leftovers(&self) -> Result<()> {
        Ok(())
    }
}

/// An object that is being uploaded.
struct ObjectOutput {
    blobs: Arc<dyn BlobStore>,
    path: String,
    piece_bytes: usize,
    /// What is not uploaded yet.
    buffer: Vec<u8>,
    /// `None` before the first piece, and once prepared.
    upload: Option<Upload>,
}

impl ObjectOutput {
    /// All pieces but the last have the same size, as some stores ask.
    fn upload_full_pieces(&mut self) -> Result<()> {
        while self.buffer.len() >= self.piece_bytes {
            let rest = self.buffer.split_off(self.piece_bytes);
            let piece = std::mem::replace(&mut self.buffer, rest);
            self.put_piece(piece)?;
        }
        Ok(())
    }

    fn put_piece(&mut self, piece: Vec<u8>) -> Result<()> {
        let upload = match &mut self.upload {
            Some(upload) => upload,
            none => none.insert(self.blobs.start_upload(&self.path)?),
        };
        self.blobs.put_part(upload, Bytes::from(piece))
    }
}

impl Write for ObjectOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        self.upload_full_pieces().map_err(as_io)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PartOutput for ObjectOutput {
    fn name(&self) -> String {
        format!("{}/{}", self.blobs.location(), self.path)
    }

    fn prepare(mut self: Box<Self>) -> Result<PreparedPart> {
        let last = std::mem::take(&mut self.buffer);
        if !last.is_empty() || self.upload.is_none() {
            self.put_piece(last)?;
        }
        let upload = self.upload.take();
        let upload = upload.ok_or_else(|| Error::internal("an upload has a piece"))?;
        Ok(PreparedPart::Upload(upload))
    }
}

impl Drop for ObjectOutput {
    fn drop(&mut self) {
        // No checkpoint can name an upload that was never prepared.
        if let Some(upload) = &self.upload {
            let _ = self.blobs.abort_upload(upload);
        }
    }
}
