//! Volley: Flink SQL on Apache Arrow.
//!
//! The rooms in the order of a row's journey: text becomes a plan (`sql`, `plan`); a source yields bytes (`connectors`), a
//! format decodes them to batches (`formats`), a watermark tells the time (`watermark`), operators transform (`operators`,
//! with `expr`, `functions` and `window`), state remembers (`state`), a checkpoint makes it durable (`checkpoint`), and the
//! runtime turns the crank (`runtime`).

pub mod error;

pub mod config;

pub mod types;

pub mod stream;

pub mod sql;

pub mod plan;

pub mod expr;
pub mod functions;

pub mod blobs;
pub mod connectors;
pub mod formats;

pub mod watermark;

pub mod operators;
pub mod window;

pub mod state;

pub mod checkpoint;

pub mod runtime;

pub mod environment;

pub mod planted;
pub mod testing;

pub use config::SessionConfig;
pub use error::{Error, ErrorKind, Result};
