//! `volley state`: what savepoints and checkpoints hold, without a job.

use std::io::{BufWriter, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use volley::Result;
use volley::checkpoint::inspect::{
    as_sql, counted_tables, create_table, difference, find_operator, find_table, piece_count,
    read_piece, watermark_of,
};
use volley::checkpoint::{SnapshotReader, TableFacts, open_snapshot};
use volley::expr::ValueFormatter;
use volley::types::TimeZone;

use crate::display::print_rows;

/// The zone in which instants are shown.
const TIME_ZONE: &str = "UTC";
/// How many keys of each kind a difference shows.
const SHOWN_KEYS: usize = 5;

/// What `volley state` is told.
#[derive(clap::Args)]
pub(crate) struct StateArguments {
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(clap::Subcommand)]
enum StateCommand {
    /// Lists the operators with state: their tables, rows, bytes of files and watermarks.
    Ls {
        /// A savepoint, a checkpoint, or a directory of checkpoints; a path or URL.
        path: String,
    },
    /// Shows the rows of a table.
    Show(ShowArguments),
    /// Compares two of them, key by key.
    Diff {
        /// The first.
        first: String,
        /// The second.
        second: String,
    },
}

#[derive(clap::Args)]
struct ShowArguments {
    /// A savepoint, a checkpoint, or a directory of checkpoints; a path or URL.
    path: String,
    /// OPERATOR or OPERATOR.TABLE: an id, the beginning of one, or a name. Without it every table of every operator is shown.
    table: Option<String>,
    /// The most rows of each table.
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// How rows are written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Prints a CREATE TABLE that reads the table with SQL instead.
    #[arg(long)]
    ddl: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Table,
    Json,
    Csv,
}

/// Runs the command and gives the exit code.
pub(crate) fn state(arguments: &StateArguments) -> u8 {
    let result = match &arguments.command {
        StateCommand::Ls { path } => list(path),
        StateCommand::Show(arguments) => show(arguments),
        StateCommand::Diff { first, second } => diff(first, second),
    };
    match result {
        Ok(()) => 0,
        Err(error) if error.is_broken_pipe() => 0,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            error.kind().exit_code() as u8
        }
    }
}

/// What people call an operator, with its id.
fn title(reader: &dyn SnapshotReader, uid: &str) -> String {
    let facts = reader.plan_facts().unwrap_or_default();
    match facts.operator(uid) {
        Some(operator) if operator.description != uid => {
            format!("{} [{uid}]", operator.description)
        }
        _ => uid.to_string(),
    }
}

fn list(path: &str) -> Result<()> {
    let reader = open_snapshot(path)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let facts = reader.plan_facts().unwrap_or_default();
    write!(out, "checkpoint {}", reader.checkpoint())?;
    if !facts.job.is_empty() {
        write!(out, " of the job '{}'", facts.job)?;
    }
    if let Some(max_parallelism) = reader.max_parallelism() {
        write!(out, ", pipeline.max-parallelism {max_parallelism}")?;
    }
    writeln!(out)?;
    if !facts.sql.is_empty() {
        writeln!(out, "{}", facts.sql)?;
    }
    for uid in reader.operators() {
        writeln!(out, "\n{}", title(&*reader, &uid))?;
        if let Some(watermark) = watermark_of(&*reader, &uid)? {
            writeln!(out, "  watermark {watermark}")?;
        }
        let tables = counted_tables(&*reader, &uid)?;
        for table in tables.iter().filter(|table| !table.is_note()) {
            let (rows, bytes) = (table.rows.rows, table.bytes);
            writeln!(
                out,
                "  {:<20} {rows:>12} rows {bytes:>14} bytes of files",
                table.name
            )?;
        }
    }
    Ok(out.flush()?)
}

fn show(arguments: &ShowArguments) -> Result<()> {
    let reader = open_snapshot(&arguments.path)?;
    for (uid, table) in chosen(&*reader, arguments.table.as_deref())? {
        if arguments.ddl {
            let ddl = create_table(&arguments.path, &uid, &table)?;
            writeln!(std::io::stdout(), "{ddl};")?;
            continue;
        }
        if arguments.format == Format::Table {
            writeln!(
                std::io::stdout(),
                "{}: {}",
                title(&*reader, &uid),
                table.name
            )?;
        }
        show_table(&*reader, &uid, &table, arguments)?;
    }
    Ok(())
}

/// The tables that `OPERATOR[.TABLE]` names. Names of operators may have dots in them.
fn chosen(reader: &dyn SnapshotReader, name: Option<&str>) -> Result<Vec<(String, TableFacts)>> {
    let Some(name) = name else {
        let mut all = Vec::new();
        for uid in reader.operators() {
            let tables = reader.tables(&uid)?.into_iter();
            let with_rows = tables.filter(|table| !table.is_note() && !table.rows.is_none());
            all.extend(with_rows.map(|table| (uid.clone(), table)));
        }
        return Ok(all);
    };
    let whole = match (find_operator(reader, name), name.rsplit_once('.')) {
        (Ok(uid), _) => Ok(uid),
        (Err(_), Some((operator, table))) => {
            let uid = find_operator(reader, operator)?;
            let table = find_table(reader, &uid, Some(table))?;
            return Ok(vec![(uid, table)]);
        }
        (Err(error), None) => Err(error),
    };
    let uid = whole?;
    let tables = reader.tables(&uid)?.into_iter();
    Ok(tables
        .filter(|table| !table.is_note())
        .map(|table| (uid.clone(), table))
        .collect())
}

fn show_table(
    reader: &dyn SnapshotReader,
    uid: &str,
    table: &TableFacts,
    arguments: &ShowArguments,
) -> Result<()> {
    let mut batches: Vec<RecordBatch> = Vec::new();
    let mut left = arguments.limit;
    for piece in 0..piece_count(reader, table.scope) {
        for batch in read_piece(reader, uid, &table.name, piece)? {
            let taken = left.min(batch.num_rows());
            if taken > 0 {
                batches.push(batch.slice(0, taken));
                left -= taken;
            }
        }
        if left == 0 {
            break;
        }
    }
    let Some(first) = batches.first() else {
        return match arguments.format {
            Format::Table => Ok(writeln!(std::io::stdout(), "no rows")?),
            _ => Ok(()),
        };
    };
    let rows = arrow::compute::concat_batches(&first.schema(), &batches)?;
    let (schema, rows) = as_sql(&rows)?;
    match arguments.format {
        Format::Table if left == 0 => {
            print_rows(&schema, &rows, TIME_ZONE)?;
            let limit = arguments.limit;
            Ok(writeln!(
                std::io::stdout(),
                "these are the first {limit}: --limit shows more"
            )?)
        }
        Format::Table => print_rows(&schema, &rows, TIME_ZONE),
        Format::Json => print_lines(&schema, &rows, true),
        Format::Csv => print_lines(&schema, &rows, false),
    }
}

/// One line a row: JSON objects, or CSV behind a line of names.
fn print_lines(schema: &volley::types::Schema, rows: &RecordBatch, json: bool) -> Result<()> {
    let zone = TimeZone::parse(TIME_ZONE)?;
    let formatters = schema
        .fields
        .iter()
        .map(|field| ValueFormatter::new(&field.logical_type, &zone));
    let formatters: Vec<ValueFormatter> = formatters.collect();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let names: Vec<&str> = schema.names().collect();
    if !json {
        let names: Vec<String> = names.iter().map(|name| csv_cell(name)).collect();
        writeln!(out, "{}", names.join(","))?;
    }
    for row in 0..rows.num_rows() {
        let mut cells = Vec::with_capacity(names.len());
        for (index, formatter) in formatters.iter().enumerate() {
            let column = rows.column(index);
            let mut text = String::new();
            let text = formatter.write(&mut text, column, row).then_some(text);
            cells.push(match (json, text) {
                (true, text) => format!(
                    "{}: {}",
                    quoted(names[index]),
                    json_cell(column.data_type(), text)
                ),
                (false, text) => text.map_or_else(String::new, |text| csv_cell(&text)),
            });
        }
        if json {
            writeln!(out, "{{{}}}", cells.join(", "))?;
        } else {
            writeln!(out, "{}", cells.join(","))?;
        }
    }
    Ok(out.flush()?)
}

fn json_cell(data_type: &DataType, text: Option<String>) -> String {
    match text {
        None => "null".to_string(),
        Some(text) if data_type.is_integer() || *data_type == DataType::Boolean => {
            text.to_lowercase()
        }
        Some(text) => quoted(&text),
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn csv_cell(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) || text.is_empty() {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_string()
}

fn diff(first: &str, second: &str) -> Result<()> {
    let (one, two) = (open_snapshot(first)?, open_snapshot(second)?);
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (here, there) = (one.operators(), two.operators());
    let mut differs = false;
    for uid in here.iter().filter(|uid| !there.contains(uid)) {
        differs = true;
        writeln!(out, "{}: only in {first}", title(&*one, uid))?;
    }
    for uid in there.iter().filter(|uid| !here.contains(uid)) {
        differs = true;
        writeln!(out, "{}: only in {second}", title(&*two, uid))?;
    }
    for uid in here.iter().filter(|uid| there.contains(uid)) {
        let (mut tables, others) = (one.tables(uid)?, two.tables(uid)?);
        let known: Vec<String> = tables.iter().map(|table| table.name.clone()).collect();
        tables.extend(
            others
                .into_iter()
                .filter(|table| !known.contains(&table.name)),
        );
        for table in tables.iter().filter(|table| !table.is_note()) {
            let found = difference(&*one, &*two, uid, table)?;
            if found.is_none() {
                continue;
            }
            differs = true;
            let counts = [
                ("only in the first", &found.only_first),
                ("only in the second", &found.only_second),
                ("changed", &found.changed),
            ];
            writeln!(
                out,
                "{}: {}: {} keys are the same",
                title(&*one, uid),
                table.name,
                found.same
            )?;
            for (what, keys) in counts.into_iter().filter(|(_, keys)| !keys.is_empty()) {
                let shown = keys.iter().take(SHOWN_KEYS).map(|key| format!("{key}"));
                let shown = shown.collect::<Vec<_>>().join(", ");
                let more = if keys.len() > SHOWN_KEYS { ", …" } else { "" };
                writeln!(out, "  {} {what} (key_hash {shown}{more})", keys.len())?;
            }
        }
    }
    if !differs {
        writeln!(out, "no difference")?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(csv_cell("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(csv_cell("a b"), "a b");
        assert_eq!(quoted("a\"\\\n\u{1}"), "\"a\\\"\\\\\\n\\u0001\"");
        assert_eq!(json_cell(&DataType::Int64, Some("5".to_string())), "5");
        assert_eq!(json_cell(&DataType::Utf8, Some("5".to_string())), "\"5\"");
        assert_eq!(json_cell(&DataType::Utf8, None), "null");
    }
}
