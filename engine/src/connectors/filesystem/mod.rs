//! The `filesystem` connector: files as tables, read once or looked up, and written in two phases.

mod files;
mod input;
mod local_parts;
mod location;
mod lookup;
mod object_parts;
mod parquet_reader;
mod part_file;
mod part_store;
mod sink;
#[cfg(test)]
mod sink_tests;
mod source;
#[cfg(test)]
mod tests;
mod text_reader;

use std::sync::Arc;

use super::lookup::LOOKUP_OPTIONS;
use super::{ConnectorFactory, LookupSource, Sink, Source, TableDescriptor};
use crate::config::{OptionSpec, OptionType, parse_memory_bytes};
use crate::error::{Error, Result};
use crate::formats::{self, Format, FormatContext};

use local_parts::LocalParts;
use location::Location;
use object_parts::ObjectParts;
use part_store::PartStore;

/// `'connector' = 'filesystem'`.
#[derive(Debug, Clone, Copy, Default)]
pub struct FilesystemFactory;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("connector", OptionType::Text, None, "`filesystem`."),
    OptionSpec::new(
        "path",
        OptionType::Text,
        None,
        "A file, a directory (with all below it but names beginning with `.` or `_`) or a pattern such as `data/*.json`, local or the URL of an object store (`s3://bucket/data`); a sink takes a directory.",
    ),
    OptionSpec::new(
        "format",
        OptionType::Text,
        None,
        "`json`, `csv`, `raw` or `parquet`.",
    ),
    OptionSpec::new(
        SIZE_OPTION,
        OptionType::MemorySize,
        Some("128 mb"),
        "The size at which a sink goes on in a new file.",
    ),
    OptionSpec::new(
        PARALLELISM_OPTION,
        OptionType::Integer,
        None,
        "How many subtasks write; by default as many as give rows.",
    ),
    OptionSpec::new(
        "sink.rolling-policy.rollover-interval",
        OptionType::Duration,
        Some("30 min"),
        "Accepted for Flink's sake: files are closed at every checkpoint.",
    ),
    OptionSpec::new(
        "sink.rolling-policy.inactivity-interval",
        OptionType::Duration,
        Some("30 min"),
        "Accepted for Flink's sake: files are closed at every checkpoint.",
    ),
    OptionSpec::new(
        "sink.rolling-policy.check-interval",
        OptionType::Duration,
        Some("1 min"),
        "Accepted for Flink's sake: files are closed at every checkpoint.",
    ),
    OptionSpec::new(
        "auto-compaction",
        OptionType::Boolean,
        Some("false"),
        "Whether small files are merged; not supported.",
    ),
    OptionSpec::new(
        "source.monitor-interval",
        OptionType::Duration,
        None,
        "How often to look for new files; not supported, the files there at the start are read once.",
    ),
    OptionSpec::new(
        "source.path.regex-pattern",
        OptionType::Text,
        None,
        "Not supported: use a pattern as `path`.",
    ),
    OptionSpec::new(
        "partition.*",
        OptionType::Text,
        None,
        "Options of partitioned directories; not supported.",
    ),
    OptionSpec::new(
        "sink.partition-commit.*",
        OptionType::Text,
        None,
        "Options of partitioned directories; not supported.",
    ),
];

const SIZE_OPTION: &str = "sink.rolling-policy.file-size";
const PARALLELISM_OPTION: &str = "sink.parallelism";

/// Options of Flink that would change what a table means, with what to do instead.
const REFUSED: &[(&str, &str)] = &[
    (
        "source.monitor-interval",
        "the files there at the start are read once",
    ),
    (
        "source.path.regex-pattern",
        "use a pattern such as 'data/*.json' as 'path'",
    ),
    (
        "partition.",
        "partitioned directories are read and written as plain ones",
    ),
    (
        "sink.partition-commit.",
        "partitioned directories are read and written as plain ones",
    ),
];

fn refuse_unsupported(descriptor: &TableDescriptor) -> Result<()> {
    for key in descriptor.options.keys() {
        if let Some((_, instead)) = REFUSED.iter().find(|(refused, _)| key.starts_with(refused)) {
            return Err(Error::unsupported(format!("the option '{key}'")).hint(*instead));
        }
    }
    let is_true = |value: &str| value.eq_ignore_ascii_case("true");
    if descriptor.option("auto-compaction").is_some_and(is_true) {
        return Err(Error::unsupported("'auto-compaction' = 'true'").hint(
            "leave it out; checkpoints further apart and fewer subtasks ('sink.parallelism') make larger files",
        ));
    }
    Ok(())
}

/// How the bytes of files become rows.
pub(super) enum FileFormat {
    /// Record by record.
    Records(Arc<dyn Format>),
    /// Column by column.
    Parquet,
}

impl FileFormat {
    /// The value of `format`, which is also the ending of files.
    fn identifier(&self) -> &'static str {
        match self {
            FileFormat::Records(format) => format.identifier(),
            FileFormat::Parquet => "parquet",
        }
    }
}

/// A table of files as it was declared.
pub(super) struct FilesystemTable {
    location: Location,
    format: FileFormat,
    context: FormatContext,
    /// The size at which a sink goes on in a new file.
    rolling_bytes: u64,
    sink_parallelism: Option<usize>,
}

impl FilesystemTable {
    fn new(descriptor: &TableDescriptor) -> Result<Self> {
        let of_table = |error: Error| error.prefixed(&format!("table \"{}\": ", descriptor.name));
        refuse_unsupported(descriptor).map_err(of_table)?;
        let rolling = descriptor.option(SIZE_OPTION).unwrap_or("128 mb");
        let context = FormatContext {
            table: descriptor.name.clone(),
            physical: descriptor.physical.clone(),
            projection: descriptor.projection.clone(),
            options: descriptor.options.clone(),
            time_zone: descriptor.time_zone.clone(),
        };
        Ok(FilesystemTable {
            location: Location::parse(descriptor.required("path")?).map_err(of_table)?,
            format: file_format(descriptor)?,
            context,
            rolling_bytes: parse_memory_bytes(rolling)
                .ok_or_else(|| Error::user(format!("'{rolling}' is no size for '{SIZE_OPTION}'")))
                .map_err(of_table)?
                .max(1) as u64,
            sink_parallelism: sink_parallelism(descriptor).map_err(of_table)?,
        })
    }

    /// Where the parts of the sink go.
    fn part_store(&self) -> Result<Arc<dyn PartStore>> {
        match &self.location {
            Location::Local(path) if path.is_file() => Err(Error::user(format!(
                "a sink writes a directory, but {} is a file",
                path.display()
            ))),
            Location::Local(path) => Ok(Arc::new(LocalParts::new(path, &self.context.table))),
            Location::Objects(objects) => {
                let blobs = objects.sink()?;
                Ok(Arc::new(ObjectParts::new(blobs, self.rolling_bytes)))
            }
        }
    }

    fn about(&self, error: Error) -> Error {
        error.prefixed(&format!("table \"{}\": ", self.context.table))
    }
}

fn sink_parallelism(descriptor: &TableDescriptor) -> Result<Option<usize>> {
    let Some(text) = descriptor.option(PARALLELISM_OPTION) else {
        return Ok(None);
    };
    match text.trim().parse() {
        Ok(parallelism) if parallelism > 0 => Ok(Some(parallelism)),
        _ => Err(Error::user(format!(
            "'{text}' is no value for '{PARALLELISM_OPTION}': it must be at least 1"
        ))),
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
        options.extend_from_slice(LOOKUP_OPTIONS);
        match descriptor.option("format") {
            Some("parquet") => options.extend_from_slice(formats::parquet::OPTIONS),
            Some(name) => {
                options.extend(
                    formats::format(name)
                        .iter()
                        .flat_map(|format| format.options()),
                );
            }
            None => {}
        }
        options
    }

    /// JSON has names for the fields of a ROW; in CSV they go by position.
    fn projects_fields(&self, descriptor: &TableDescriptor) -> bool {
        descriptor.option("format") == Some("json")
    }

    fn create_source(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Source>> {
        let table = FilesystemTable::new(descriptor)?;
        // Mistakes in the options of the format show now.
        match &table.format {
            FileFormat::Records(format) => drop(format.decoder(&table.context)?),
            FileFormat::Parquet => formats::parquet::check_types(&table.context)?,
        }
        Ok(Arc::new(source::FilesystemSource::new(Arc::new(table))))
    }

    fn create_lookup(
        &self,
        descriptor: &TableDescriptor,
        keys: &[usize],
    ) -> Result<Arc<dyn LookupSource>> {
        lookup::lookup_source(descriptor, keys)
    }

    fn create_sink(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Sink>> {
        let table = FilesystemTable::new(descriptor)?;
        let store = table.part_store().map_err(|error| table.about(error))?;
        match &table.format {
            FileFormat::Records(format) => drop(format.encoder(&table.context)?),
            FileFormat::Parquet => {
                formats::parquet::check_types(&table.context)?;
                formats::parquet::writer_properties(&table.context)?;
                formats::parquet::row_group_bytes(&table.context)?;
            }
        }
        Ok(Arc::new(sink::FilesystemSink::new(Arc::new(table), store)))
    }
}
