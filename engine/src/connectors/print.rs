//! The `print` connector: a sink that writes each row as a line such as `+I[a, 1]` to the terminal.
//!
//! All rows pass through one writer. The lines of a batch are put together first and written in one go, so that lines of
//! several tables never mix within a line.

use std::io::Write;
use std::sync::Arc;

use arrow::array::RecordBatch;

use super::options::TableOptions;
use super::{Committable, ConnectorFactory, Sink, SinkWriter, TableDescriptor};
use crate::config::{OptionSpec, OptionType};
use crate::error::{Error, Result};
use crate::expr::ValueFormatter;
use crate::operators::Subtask;
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{ChangelogMode, RowKinds, TimeZone};

/// `'connector' = 'print'`.
pub struct PrintFactory;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("connector", OptionType::Text, None, "`print`."),
    OptionSpec::new(
        "print-identifier",
        OptionType::Text,
        None,
        "What every line begins with, before `> `.",
    ),
    OptionSpec::new(
        "standard-error",
        OptionType::Boolean,
        Some("false"),
        "Whether lines go to standard error.",
    ),
];

impl ConnectorFactory for PrintFactory {
    fn identifier(&self) -> &'static str {
        "print"
    }

    fn options(&self, _descriptor: &TableDescriptor) -> Vec<OptionSpec> {
        OPTIONS.to_vec()
    }

    fn sink_changelog_mode(&self, _descriptor: &TableDescriptor) -> Result<ChangelogMode> {
        Ok(ChangelogMode::RETRACT)
    }

    fn create_sink(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Sink>> {
        let options = TableOptions::new(descriptor, OPTIONS);
        let prefix = match descriptor.option("print-identifier") {
            None | Some("") => String::new(),
            Some(identifier) => format!("{identifier}> "),
        };
        let zone = TimeZone::parse(&descriptor.time_zone)?;
        let fields = &descriptor.physical.fields;
        Ok(Arc::new(PrintSink {
            prefix,
            formatters: fields
                .iter()
                .map(|field| ValueFormatter::new(&field.logical_type, &zone))
                .collect(),
            to_error: options.boolean("standard-error"),
        }))
    }
}

struct PrintSink {
    prefix: String,
    to_error: bool,
    formatters: Arc<[ValueFormatter]>,
}

impl Sink for PrintSink {
    fn writer(&self, _subtask: Subtask) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(PrintWriter {
            prefix: self.prefix.clone(),
            to_error: self.to_error,
            formatters: self.formatters.clone(),
            lines: String::new(),
        }))
    }

    fn commit(&self, _committables: &[Committable]) -> Result<()> {
        Ok(())
    }

    fn is_single(&self) -> bool {
        true
    }
}

struct PrintWriter {
    prefix: String,
    to_error: bool,
    /// One a column.
    formatters: Arc<[ValueFormatter]>,
    /// The lines of one batch.
    lines: String,
}

impl SinkWriter for PrintWriter {
    fn write(&mut self, batch: &ChangelogBatch) -> Result<()> {
        self.lines.clear();
        let formatters = &self.formatters;
        assert_eq!(
            formatters.len(),
            batch.rows.num_columns(),
            "a sink gets its own columns"
        );
        write_lines(
            &self.prefix,
            formatters,
            &batch.rows,
            &batch.kinds,
            &mut self.lines,
        );
        let lines = self.lines.as_bytes();
        let written = if self.to_error {
            std::io::stderr().lock().write_all(lines)
        } else {
            let mut out = std::io::stdout().lock();
            out.write_all(lines).and_then(|()| out.flush())
        };
        written.map_err(|error| Error::from(error).context("while printing rows"))
    }

    fn prepare_commit(&mut self, _checkpoint: CheckpointId) -> Result<Vec<Committable>> {
        Ok(Vec::new())
    }
}

/// Appends a line a row.
fn write_lines(
    prefix: &str,
    formatters: &[ValueFormatter],
    rows: &RecordBatch,
    kinds: &RowKinds,
    lines: &mut String,
) {
    for row in 0..rows.num_rows() {
        lines.push_str(prefix);
        lines.push_str(kinds.get(row).symbol());
        lines.push('[');
        for (index, (formatter, column)) in formatters.iter().zip(rows.columns()).enumerate() {
            if index > 0 {
                lines.push_str(", ");
            }
            if !formatter.write(lines, column, row) {
                lines.push_str("null");
            }
        }
        lines.push_str("]\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{LogicalType, RowKind, TypeRoot};
    use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMillisecondArray};

    #[test]
    fn a_line_shows_kind_and_values() {
        let rows = RecordBatch::try_from_iter([
            (
                "a",
                Arc::new(StringArray::from(vec![Some("x, y"), None])) as ArrayRef,
            ),
            ("b", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
            (
                "t",
                Arc::new(TimestampMillisecondArray::from(vec![0, 1_500])) as ArrayRef,
            ),
        ])
        .unwrap();
        let kinds = RowKinds::new(&[RowKind::Insert, RowKind::Delete]);
        let types = [
            LogicalType::STRING,
            LogicalType::BIGINT,
            LogicalType::nullable(TypeRoot::Timestamp(3)),
        ];
        let formatters =
            types.map(|logical_type| ValueFormatter::new(&logical_type, &TimeZone::UTC));
        let mut lines = String::new();
        write_lines("out> ", &formatters, &rows, &kinds, &mut lines);
        assert_eq!(
            lines,
            "out> +I[x, y, 1, 1970-01-01 00:00:00.000]\nout> -D[null, 2, 1970-01-01 00:00:01.500]\n"
        );
    }
}
