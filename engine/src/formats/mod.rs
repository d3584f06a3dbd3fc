//! Bytes to batches and back.
//!
//! Doors: `formats` use `types`, `stream`, `config` and `expr` (casts). Deliberately absent: files and brokers.

mod columns;
pub mod format;
mod number_text;
mod text_value;
mod time_text;

pub mod csv;
pub mod json;
pub(crate) mod parquet;
pub mod raw;

use std::sync::Arc;

pub use format::{Decoded, Decoder, Encoder, Format, FormatContext};

/// The formats of records.
pub fn all() -> Vec<Arc<dyn Format>> {
    vec![
        Arc::new(json::JsonFormat),
        Arc::new(csv::CsvFormat),
        Arc::new(raw::RawFormat),
    ]
}

/// The format that `'format' = '…'` names.
pub fn format(identifier: &str) -> Option<Arc<dyn Format>> {
    all()
        .into_iter()
        .find(|format| format.identifier() == identifier)
}
