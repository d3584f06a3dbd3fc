//! Asking a table for the rows of a key, at the moment: what lookup joins do.
//!
//! A connector that can be asked gives a [`LookupSource`]; each subtask asks its own [`LookupFunction`], a batch of keys at a
//! time. Caches stand in front and are shared by all subtasks.

mod asynchronous;
mod key_index;
mod options;
mod partial_cache;
mod threads;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};

use crate::error::Result;
use crate::types::ProcessingTime;

pub use asynchronous::{AsyncLookupFunction, AsyncSupport, LookupHandle, answered};
pub use key_index::KeyIndex;
pub use options::{LOOKUP_OPTIONS, LookupCache, LookupOptions, PartialCacheOptions};
pub use partial_cache::with_partial_cache;
pub use threads::on_threads;

/// A table that can be asked: immutable, shared by all who ask.
pub trait LookupSource: Send + Sync {
    /// What one subtask asks.
    fn function(&self) -> Result<Box<dyn LookupFunction>>;

    /// Whether it can also be asked without waiting for the answer.
    fn async_support(&self) -> AsyncSupport {
        AsyncSupport::None
    }

    /// What one subtask asks without waiting. `source` is this source, shared. Default: [`on_threads`], for functions that block.
    fn async_function(
        &self,
        source: &Arc<dyn LookupSource>,
    ) -> Result<Box<dyn AsyncLookupFunction>> {
        Ok(on_threads(source.clone()))
    }

    /// Whether all of the table is remembered, so that a key that is not there is not worth asking for again.
    fn is_remembered_whole(&self) -> bool {
        false
    }
}

/// Answers one subtask. Called from its compute thread; may block on local files only.
pub trait LookupFunction: Send {
    /// The rows of the table that have each of the keys now.
    fn lookup(&mut self, request: &LookupRequest) -> Result<LookupRows>;
}

/// A batch of keys.
#[derive(Debug, Clone, Copy)]
pub struct LookupRequest<'a> {
    /// The key columns in the order agreed on when the source was made; no NULL. A key may come several times.
    pub keys: &'a [ArrayRef],
    /// The clock.
    pub now: ProcessingTime,
}

/// What a table has for a batch of keys.
#[derive(Debug, Clone)]
pub struct LookupRows {
    /// The projected columns of the rows found, those of one key next to each other.
    pub rows: RecordBatch,
    /// For each row the index of its key in the request; never falling.
    pub of: Vec<u32>,
}

#[cfg(test)]
mod tests;
