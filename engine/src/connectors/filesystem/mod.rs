//! The `filesystem` connector: files as tables, read once and written in two phases.

mod files;
mod parquet_reader;
mod source;
mod text_reader;

use std::path::PathBuf;
use std::sync::Arc;

use super::{ConnectorFactory, Sink, Source, TableDescriptor};
use crate::config::{OptionSpec, OptionType};
use crate::error::{Error, Result};
use crate::formats::{self, Format, FormatContext};

/// `'connector' = 'filesystem'`.
#[derive(Debug, Clone, Copy, Default)]
pub struct FilesystemFactory;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("connector", OptionType::Text, None, "`filesystem`."),
    OptionSpec::new(
        "path",
        OptionType::Text,
        None,
        "A file, a directory (with all below it but names beginning with `.` or `_`) or a pattern such as `data/*.json`; a sink takes a directory.",
    ),
    OptionSpec::new(
        "format",
        OptionType::Text,
        None,
        "`json`, `csv` or `parquet`.",
    ),
];

/// How the bytes of files become rows.
pub(super) enum FileFormat {
    /// Record by record.
    Records(Arc<dyn Format>),
    /// Column by column.
    Parquet,
}

/// A table of files as it was declared.
pub(super) struct FilesystemTable {
    path: PathBuf,
    format: FileFormat,
    context: FormatContext,
}

impl FilesystemTable {
    fn new(descriptor: &TableDescriptor) -> Result<Self> {
        let context = FormatContext {
            table: descriptor.name.clone(),
            physical: descriptor.physical.clone(),
            projection: descriptor.projection.clone(),
            options: descriptor.options.clone(),
            time_zone: descriptor.time_zone.clone(),
        };
        Ok(FilesystemTable {
            path: files::local_path(descriptor.required("path")?)
                .map_err(|error| error.prefixed(&format!("table \"{}\": ", descriptor.name)))?,
            format: file_format(descriptor)?,
            context,
        })
    }

    fn about(&self, error: Error) -> Error {
        error.prefixed(&format!("table \"{}\": ", self.context.table))
    }
}

fn file_format(descriptor: &TableDescriptor) -> Result<FileFormat> {
    let name = descriptor.required("format")?;
    if name == "parquet" {
        return Ok(FileFormat::Parquet);
    }
    formats::format(name)
        .map(FileFormat::Records)
        .ok_or_else(|| {
            let known: Vec<_> = formats::all()
                .iter()
                .map(|format| format.identifier())
                .collect();
            Error::user(format!(
                "table \"{}\": there is no format '{name}'",
                descriptor.name
            ))
            .hint(format!("known formats: {}, parquet", known.join(", ")))
        })
}

impl ConnectorFactory for FilesystemFactory {
    fn identifier(&self) -> &'static str {
        "filesystem"
    }

    fn options(&self, descriptor: &TableDescriptor) -> Vec<OptionSpec> {
        let mut options = OPTIONS.to_vec();
        if let Some(format) = descriptor.option("format").and_then(formats::format) {
            options.extend(format.options());
        }
        options
    }

    fn create_source(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Source>> {
        let table = FilesystemTable::new(descriptor)?;
        if let FileFormat::Records(format) = &table.format {
            // Mistakes in the options show now.
            format.decoder(&table.context)?;
        }
        Ok(Arc::new(source::FilesystemSource::new(Arc::new(table))))
    }
}
