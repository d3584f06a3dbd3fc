//! The `print` connector: a sink that writes each row as a line such as `+I[a, 1]` to the terminal.
//!
//! All rows pass through one writer. The lines of a batch are put together first and written in one go, so that lines of
//! several tables never mix within a line.

use std::io::Write;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::options::TableOptions;
use super::{Committable, ConnectorFactory, Sink, SinkWriter, TableDescriptor};
use crate::config::{OptionSpec, OptionType};
use crate::error::{Error, Result};
use crate::operators::Subtask;
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{ChangelogMode, RowKinds};

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
        Ok(Arc::new(PrintSink {
            prefix,
            to_error: options.boolean("standard-error"),
        }))
    }
}

struct PrintSink {
    prefix: String,
    to_error: bool,
}

impl Sink for PrintSink {
    fn writer(&self, _subtask: Subtask) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(PrintWriter {
            prefix: self.prefix.clone(),
            to_error: self.to_error,
            lines: Vec::new(),
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
    /// The lines of one batch.
    lines: Vec<u8>,
}

impl SinkWriter for PrintWriter {
    fn write(&mut self, batch: &ChangelogBatch) -> Result<()> {
        self.lines.clear();
        write_lines(&self.prefix, &batch.rows, &batch.kinds, &mut self.lines)?;
        let written = if self.to_error {
            std::io::stderr().lock().write_all(&self.lines)
        } else {
            let mut out = std::io::stdout().lock();
            out.write_all(&self.lines).and_then(|()| out.flush())
        };
        written
            .map_err(|error| Error::external(format!("the terminal does not take rows: {error}")))
    }

    fn prepare_commit(&mut self, _checkpoint: CheckpointId) -> Result<Vec<Committable>> {
        Ok(Vec::new())
    }
}

fn write_lines(
    prefix: &str,
    rows: &RecordBatch,
    kinds: &RowKinds,
    lines: &mut Vec<u8>,
) -> Result<()> {
    let options = FormatOptions::default()
        .with_null("NULL")
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.3f"))
        .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.3f"));
    let columns = rows
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options))
        .collect::<Result<Vec<_>, _>>()?;
    for row in 0..rows.num_rows() {
        lines.extend_from_slice(prefix.as_bytes());
        lines.extend_from_slice(kinds.get(row).symbol().as_bytes());
        lines.push(b'[');
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                lines.extend_from_slice(b", ");
            }
            write!(lines, "{}", column.value(row))?;
        }
        lines.extend_from_slice(b"]\n");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::RowKind;
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
        let mut lines = Vec::new();
        write_lines("out> ", &rows, &kinds, &mut lines).unwrap();
        assert_eq!(
            String::from_utf8(lines).unwrap(),
            "out> +I[x, y, 1, 1970-01-01 00:00:00.000]\nout> -D[NULL, 2, 1970-01-01 00:00:01.500]\n"
        );
    }
}
