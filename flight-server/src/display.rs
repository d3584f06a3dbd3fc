//! Shows rows to a person: a table with a border, as Flink's SQL client does.

use std::io::{BufWriter, Stdout, Write};
use std::sync::{Mutex, PoisonError};

use volley::Result;
use volley::expr::ValueFormatter;
use volley::stream::ChangelogBatch;
use volley::types::{RowKinds, Schema, TimeZone};

/// Prints rows that are there already.
pub(crate) fn print_rows(
    schema: &Schema,
    rows: &arrow::array::RecordBatch,
    time_zone: &str,
) -> Result<()> {
    let mut table = Table::new(schema, time_zone, false)?;
    table.print(rows, &RowKinds::INSERT_ONLY)?;
    table.finish(rows.num_rows() as u64)
}

/// Prints the changes of a SELECT as they come.
pub(crate) struct ResultPrinter {
    state: Mutex<(Table, u64)>,
}

impl ResultPrinter {
    /// A printer for rows of this schema; timestamps with a zone are shown in `time_zone`.
    pub(crate) fn new(schema: &Schema, time_zone: &str) -> Result<Self> {
        Ok(ResultPrinter {
            state: Mutex::new((Table::new(schema, time_zone, true)?, 0)),
        })
    }

    /// Prints a batch.
    pub(crate) fn print(&self, batch: &ChangelogBatch) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 += batch.num_rows() as u64;
        state.0.print(&batch.rows, &batch.kinds)?;
        state.0.flush()
    }

    /// Closes the table and tells how many rows there were.
    pub(crate) fn finish(&self) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = state.1;
        state.0.finish(rows)
    }
}

/// A bordered table whose column widths are fixed by its first batch.
struct Table {
    names: Vec<String>,
    formatters: Vec<ValueFormatter>,
    with_kind: bool,
    widths: Option<Vec<usize>>,
    out: BufWriter<Stdout>,
}

impl Table {
    fn new(schema: &Schema, time_zone: &str, with_kind: bool) -> Result<Self> {
        let zone = TimeZone::parse(time_zone)?;
        let formatters = schema
            .fields
            .iter()
            .map(|field| ValueFormatter::new(&field.logical_type, &zone))
            .collect();
        Ok(Table {
            names: schema.names().map(str::to_string).collect(),
            formatters,
            with_kind,
            widths: None,
            out: BufWriter::new(std::io::stdout()),
        })
    }

    fn print(&mut self, rows: &arrow::array::RecordBatch, kinds: &RowKinds) -> Result<()> {
        let cells: Vec<Vec<String>> = (0..rows.num_rows())
            .map(|row| self.cells(rows, kinds, row))
            .collect();
        if self.widths.is_none() {
            self.start(&cells)?;
        }
        for line in &cells {
            self.line(line)?;
        }
        Ok(())
    }

    fn cells(&self, rows: &arrow::array::RecordBatch, kinds: &RowKinds, row: usize) -> Vec<String> {
        let kind = self.with_kind.then(|| kinds.get(row).to_string());
        let values = self
            .formatters
            .iter()
            .zip(rows.columns())
            .map(|(formatter, column)| {
                let mut text = String::new();
                if formatter.write(&mut text, column, row) {
                    text
                } else {
                    "<NULL>".to_string()
                }
            });
        kind.into_iter().chain(values).collect()
    }

    fn header(&self) -> Vec<String> {
        self.with_kind
            .then(|| "op".to_string())
            .into_iter()
            .chain(self.names.iter().cloned())
            .collect()
    }

    fn start(&mut self, cells: &[Vec<String>]) -> Result<()> {
        let header = self.header();
        let width = |column: usize| {
            cells
                .iter()
                .map(|line| &line[column])
                .chain([&header[column]])
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(1)
        };
        self.widths = Some((0..header.len()).map(width).collect());
        self.border()?;
        self.line(&header)?;
        self.border()
    }

    fn line(&mut self, cells: &[String]) -> Result<()> {
        let widths = self.widths.as_deref().unwrap_or_default();
        for (cell, width) in cells.iter().zip(widths) {
            let padding = width.saturating_sub(cell.chars().count());
            write!(self.out, "| {:padding$}{cell} ", "")?;
        }
        writeln!(self.out, "|")?;
        Ok(())
    }

    fn border(&mut self) -> Result<()> {
        for width in self.widths.as_deref().unwrap_or_default() {
            write!(self.out, "+{}", "-".repeat(width + 2))?;
        }
        writeln!(self.out, "+")?;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.out.flush()?;
        Ok(())
    }

    fn finish(&mut self, rows: u64) -> Result<()> {
        if self.widths.is_none() {
            self.start(&[])?;
        }
        self.border()?;
        writeln!(
            self.out,
            "{rows} {} in set",
            if rows == 1 { "row" } else { "rows" }
        )?;
        self.flush()
    }
}
