//! Parts in an object store: uploads in pieces, which become objects when they are completed.
//!
//! Every part is an upload of its own, also one that is small: an upload can be completed once and never again, so that an object which
//! a reader has taken away does not come back when a restore commits once more. An upload that nobody completes is invisible, but is kept
//! (and paid for) until somebody aborts it: a writer that is dropped does; what a kill leaves is for a lifecycle rule of the
//! bucket.
//!
//! A full piece is uploaded by a thread of its own while the next one is filled, so that a writer waits for the store only when it is the
//! slower of the two, and at a barrier.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;

use super::part_store::{PartName, PartNames, PartOutput, PartStore, PreparedPart, as_io};
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
            in_flight: None,
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

    /// Removes the objects: a store cannot hide one.
    fn take_back(&self, parts: &[PreparedPart]) -> Result<usize> {
        let mut taken = 0;
        for part in parts {
            let PreparedPart::Upload(upload) = part else {
                continue;
            };
            self.blobs.abort_upload(upload)?;
            self.blobs.delete(&upload.path)?;
            taken += 1;
        }
        Ok(taken)
    }

    /// A writer numbers its parts without a gap, so that the next one is asked for by its name: a store may hold too many objects to list them.
    fn visible_after(&self, parts: &[PreparedPart]) -> Result<Vec<String>> {
        let mut later = Vec::new();
        for mut part in PartName::last_of_each(parts).into_values() {
            part.number += 1;
            while self.blobs.get_range(&part.to_string(), 0, 1).is_ok() {
                later.push(format!("{}/{part}", self.blobs.location()));
                part.number += 1;
            }
        }
        Ok(later)
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
    /// `None` before the first piece, while one is in flight, and once prepared.
    upload: Option<Upload>,
    /// The upload of a full piece; it gives the upload back, also where it fails.
    in_flight: Option<JoinHandle<(Upload, Result<()>)>>,
}

impl ObjectOutput {
    /// All pieces but the last have the same size, as some stores ask.
    fn upload_full_pieces(&mut self) -> Result<()> {
        while self.buffer.len() >= self.piece_bytes {
            let rest = self.buffer.split_off(self.piece_bytes);
            let piece = std::mem::replace(&mut self.buffer, rest);
            self.send_piece(Bytes::from(piece))?;
        }
        Ok(())
    }

    fn send_piece(&mut self, piece: Bytes) -> Result<()> {
        let mut upload = self.take_upload()?;
        if (piece.len() as u64) < PIECE_BYTES {
            // Only tests have such.
            return self.put_piece(upload, piece);
        }
        let blobs = self.blobs.clone();
        let thread = std::thread::Builder::new().name("volley-upload".to_string());
        let sent = thread.spawn(move || {
            let result = blobs.put_part(&mut upload, piece);
            (upload, result)
        });
        self.in_flight =
            Some(sent.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?);
        Ok(())
    }

    fn put_piece(&mut self, mut upload: Upload, piece: Bytes) -> Result<()> {
        let result = self.blobs.put_part(&mut upload, piece);
        self.upload = Some(upload);
        result
    }

    /// Waits for the piece that is in flight.
    fn land(&mut self) -> Result<()> {
        let Some(thread) = self.in_flight.take() else {
            return Ok(());
        };
        let landed = thread.join();
        let (upload, result) =
            landed.map_err(|_| Error::internal("the upload of a piece panicked"))?;
        self.upload = Some(upload);
        result
    }

    /// The upload as it stands, begun where it is not.
    fn take_upload(&mut self) -> Result<Upload> {
        self.land()?;
        match self.upload.take() {
            Some(upload) => Ok(upload),
            None => self.blobs.start_upload(&self.path),
        }
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
        let is_first = self.upload.is_none() && self.in_flight.is_none();
        let mut upload = self.take_upload()?;
        if !last.is_empty() || is_first {
            self.put_piece(upload, Bytes::from(last))?;
            upload = self.take_upload()?;
        }
        Ok(PreparedPart::Upload(upload))
    }
}

impl Drop for ObjectOutput {
    fn drop(&mut self) {
        // No checkpoint can name an upload that was never prepared.
        let _ = self.land();
        if let Some(upload) = &self.upload {
            let _ = self.blobs.abort_upload(upload);
        }
    }
}
