//! Whose a directory of checkpoints is: the run's that began last. A run that finds another one named there completes no further checkpoint, so
//! that of two, one of which was thought to be dead, only the later goes on.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::blobs::BlobStore;
use crate::error::{Error, Result};

/// The name of the file in the directory.
const OWNER: &str = "owner.json";

/// A run of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The job's name.
    pub job: String,
    /// Which run of it.
    pub run: String,
}

impl Owner {
    /// Makes the directory this run's, whosoever it was.
    pub fn take(&self, blobs: &dyn BlobStore) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(|error| {
            Error::internal(format!("the name of a run does not serialise: {error}"))
        })?;
        blobs.put(OWNER, Bytes::from(text))
    }

    /// The other run that has taken the directory since.
    pub fn successor(&self, blobs: &dyn BlobStore) -> Result<Option<Owner>> {
        let text = blobs.get(OWNER)?;
        let owner = text.and_then(|text| serde_json::from_slice(&text).ok());
        Ok(owner.filter(|owner: &Owner| owner.run != self.run))
    }

    /// Leaves the directory, if it is still this run's.
    pub fn leave(&self, blobs: &dyn BlobStore) -> Result<()> {
        match self.successor(blobs)? {
            None => blobs.delete(OWNER),
            Some(_) => Ok(()),
        }
    }

    /// Why a run whose directory this one has taken cannot go on.
    pub fn supersedes(&self, directory: &str) -> Error {
        Error::external(format!(
            "another run, of the job '{}', has begun to write checkpoints to {directory}: this one cannot go on",
            self.job
        ))
        .hint("give each job an 'execution.checkpointing.dir' of its own, and start it once")
    }
}
