//! A snapshot that is read until the job is cancelled: a restore of much state ends with the piece at which it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::checkpoint::{SnapshotReader, reads_like};
use crate::error::{Error, Result};
use crate::state::StateSnapshot;
use crate::stream::KeyGroupRange;

/// See the module.
pub(super) struct UntilCancelled {
    reader: Arc<dyn SnapshotReader>,
    cancel: Arc<AtomicBool>,
}

impl UntilCancelled {
    pub(super) fn new(reader: Arc<dyn SnapshotReader>, cancel: Arc<AtomicBool>) -> Self {
        UntilCancelled { reader, cancel }
    }
}

impl SnapshotReader for UntilCancelled {
    reads_like!(self => self.reader);

    fn read(&self, uid: &str, range: KeyGroupRange, max_parallelism: u16) -> Result<StateSnapshot> {
        match self.cancel.load(Ordering::SeqCst) {
            true => Err(Error::external(
                "the job was cancelled while it was being restored",
            )),
            false => self.reader.read(uid, range, max_parallelism),
        }
    }
}
