//! Bytes to batches and back.
//!
//! Doors: `formats` use `types`, `stream`, `config` and `expr` (casts). Deliberately absent: files and brokers.

pub mod format;

pub use format::{Decoder, Encoder, Format, FormatContext};
