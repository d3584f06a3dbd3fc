//! `'connector' = 'changelog-files'`: tables of CSV files whose first column is the kind of the row (`+I`, `-U`, `+U`, `-D`), read and written.
//!
//! They are read by the connector `filesystem`, with its positions. A sink owes the lines themselves, in its checkpoint, and writes a file of them when
//! it commits.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use serde_json::json;
use volley::config::{OptionSpec, OptionType};
use volley::connectors::source::PollRequest;
use volley::connectors::{
    Committable, ConnectorFactory, Sink, SinkWriter, Source, SourcePoll, SourceReader, SplitState,
    TableDescriptor,
};
use volley::expr::ValueFormatter;
use volley::operators::Subtask;
use volley::stream::{ChangelogBatch, CheckpointId};
use volley::types::{ChangelogMode, Field, LogicalType, RowKind, RowKinds, Schema, TimeZone};
use volley::{Error, Result};

/// See the module.
pub(super) struct ChangelogFiles {
    /// What reads the files.
    pub(super) files: Arc<dyn ConnectorFactory>,
}

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("connector", OptionType::Text, None, "changelog-files."),
    OptionSpec::new(
        "path",
        OptionType::Text,
        None,
        "A file to read, or a directory to write to.",
    ),
    OptionSpec::new(
        "changelog",
        OptionType::Enum(&["retract", "upsert"]),
        Some("retract"),
        "Whether updates come by key alone.",
    ),
];

fn changelog_mode(descriptor: &TableDescriptor) -> ChangelogMode {
    match descriptor.option("changelog") {
        Some("upsert") => ChangelogMode::UPSERT,
        _ => ChangelogMode::RETRACT,
    }
}

impl ConnectorFactory for ChangelogFiles {
    fn identifier(&self) -> &'static str {
        "changelog-files"
    }

    fn options(&self, _: &TableDescriptor) -> Vec<OptionSpec> {
        OPTIONS.to_vec()
    }

    fn source_changelog_mode(&self, descriptor: &TableDescriptor) -> Result<ChangelogMode> {
        Ok(changelog_mode(descriptor))
    }

    fn sink_changelog_mode(&self, descriptor: &TableDescriptor) -> Result<ChangelogMode> {
        Ok(changelog_mode(descriptor))
    }

    fn projects(&self) -> bool {
        false
    }

    fn create_source(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Source>> {
        let mut fields = vec![Field::new("kind", LogicalType::STRING)];
        fields.extend(descriptor.physical.fields.iter().cloned());
        let path = descriptor.required("path")?;
        let options = [
            ("connector", "filesystem"),
            ("path", path),
            ("format", "csv"),
            ("csv.null-literal", "-"),
        ];
        let with_kinds = TableDescriptor {
            projection: (0..fields.len()).collect(),
            physical: Schema::new(fields),
            primary_key: Vec::new(),
            options: options
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .into(),
            ..descriptor.clone()
        };
        let source = self.files.create_source(&with_kinds)?;
        Ok(Arc::new(ChangelogSource(source)))
    }

    fn create_sink(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(ChangelogSink {
            directory: PathBuf::from(descriptor.required("path")?),
            types: descriptor
                .physical
                .fields
                .iter()
                .map(|field| field.logical_type.clone())
                .collect(),
        }))
    }
}

struct ChangelogSource(Arc<dyn Source>);

impl Source for ChangelogSource {
    fn is_bounded(&self) -> bool {
        self.0.is_bounded()
    }

    fn splits(&self) -> Result<Vec<SplitState>> {
        self.0.splits()
    }

    fn reader(&self) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(ChangelogReader(self.0.reader()?)))
    }
}

struct ChangelogReader(Box<dyn SourceReader>);

impl SourceReader for ChangelogReader {
    fn add_splits(&mut self, splits: Vec<SplitState>) -> Result<()> {
        self.0.add_splits(splits)
    }

    fn poll(&mut self, request: &PollRequest) -> Result<SourcePoll> {
        Ok(match self.0.poll(request)? {
            SourcePoll::Rows { split, rows, .. } => {
                let kinds = rows.column(0).as_string::<i32>();
                let kinds = kinds.iter().map(|symbol| {
                    let kind = symbol.and_then(RowKind::from_symbol);
                    kind.ok_or_else(|| Error::data("a row without a kind"))
                });
                let kinds: Vec<RowKind> = kinds.collect::<Result<_>>()?;
                let rest: Vec<usize> = (1..rows.num_columns()).collect();
                SourcePoll::Rows {
                    split,
                    rows: rows.project(&rest)?,
                    kinds: RowKinds::new(&kinds),
                }
            }
            other => other,
        })
    }

    fn snapshot(&self) -> Result<Vec<SplitState>> {
        self.0.snapshot()
    }
}

struct ChangelogSink {
    directory: PathBuf,
    types: Vec<LogicalType>,
}

impl Sink for ChangelogSink {
    fn writer(&self, subtask: Subtask) -> Result<Box<dyn SinkWriter>> {
        let zone = TimeZone::parse("UTC")?;
        let formatters = self.types.iter();
        Ok(Box::new(ChangelogWriter {
            subtask: subtask.index,
            formatters: formatters
                .map(|logical_type| ValueFormatter::new(logical_type, &zone))
                .collect(),
            lines: String::new(),
        }))
    }

    /// Writing a file once more changes nothing.
    fn commit(&self, committables: &[Committable]) -> Result<()> {
        fs::create_dir_all(&self.directory)?;
        for committable in committables {
            let name = committable.note["file"].as_str().unwrap();
            fs::write(self.directory.join(name), &committable.rows)?;
        }
        Ok(())
    }
}

struct ChangelogWriter {
    subtask: usize,
    formatters: Vec<ValueFormatter>,
    lines: String,
}

impl SinkWriter for ChangelogWriter {
    fn write(&mut self, batch: &ChangelogBatch) -> Result<()> {
        for row in 0..batch.num_rows() {
            self.lines.push_str(batch.kinds.get(row).symbol());
            self.lines.push('|');
            self.lines
                .push_str(&row_text(&self.formatters, &batch.rows, row));
            self.lines.push('\n');
        }
        Ok(())
    }

    fn prepare_commit(&mut self, checkpoint: CheckpointId) -> Result<Vec<Committable>> {
        if self.lines.is_empty() {
            return Ok(Vec::new());
        }
        let file = format!("changes-{:06}-{}.txt", checkpoint.0, self.subtask);
        let lines = std::mem::take(&mut self.lines);
        let note = json!({ "file": file });
        Ok(vec![Committable::with_rows(note, lines.into())])
    }
}

/// The cells of a row, with `|` between them.
pub(super) fn row_text(formatters: &[ValueFormatter], rows: &RecordBatch, row: usize) -> String {
    let columns = formatters.iter().enumerate();
    let cells = columns.map(|(column, formatter)| {
        let mut text = String::new();
        match formatter.write(&mut text, rows.column(column), row) {
            true => text,
            false => "NULL".to_string(),
        }
    });
    cells.collect::<Vec<_>>().join("|")
}
