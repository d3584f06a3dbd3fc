//! What `volley state ls` and `volley state show` say of a snapshot, shortened to what can be compared.

use std::fmt::Write as _;

use volley::checkpoint::inspect::{as_sql, create_table, piece_count, read_piece, watermark_of};
use volley::checkpoint::{SnapshotReader, TableFacts};
use volley::expr::ValueFormatter;
use volley::types::TimeZone;
use xxhash_rust::xxh3::xxh3_64;

use super::changelog_files::row_text;

/// Operators with their watermarks; tables with their columns, how many rows they have, and a checksum of what is shown of them in any order.
pub(super) fn listed(reader: &dyn SnapshotReader) -> String {
    let mut text = format!("checkpoint {}\n", reader.checkpoint());
    for uid in reader.operators() {
        writeln!(text, "{uid}").unwrap();
        if let Some(watermark) = watermark_of(reader, &uid).unwrap() {
            writeln!(text, "  watermark {watermark}").unwrap();
        }
        let tables = reader.tables(&uid).unwrap().into_iter();
        for table in tables.filter(|table| !table.is_note()) {
            text.push_str(&listed_table(reader, &uid, &table));
        }
    }
    text
}

/// Nothing where it has no rows.
fn listed_table(reader: &dyn SnapshotReader, uid: &str, table: &TableFacts) -> String {
    let zone = TimeZone::parse("UTC").unwrap();
    let (mut rows, mut columns) = (Vec::new(), String::new());
    for piece in 0..piece_count(reader, table.scope) {
        for batch in read_piece(reader, uid, &table.name, piece).unwrap() {
            let (schema, batch) = as_sql(&batch).unwrap();
            let fields = schema.fields.iter();
            let named = fields.map(|field| format!("{} {}", field.name, field.logical_type));
            columns = named.collect::<Vec<_>>().join(", ");
            let fields = schema.fields.iter();
            let formatters: Vec<ValueFormatter> = fields
                .map(|field| ValueFormatter::new(&field.logical_type, &zone))
                .collect();
            rows.extend((0..batch.num_rows()).map(|row| row_text(&formatters, &batch, row)));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let ddl = create_table("path", uid, table).unwrap();
    assert!(ddl.starts_with("CREATE TABLE"), "{ddl}");
    rows.sort_unstable();
    let digest = xxh3_64(rows.join("\n").as_bytes());
    let (name, count) = (&table.name, rows.len());
    format!("  {name}: {count} rows {digest:016x}: {columns}\n")
}
