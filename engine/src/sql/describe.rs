//! SHOW and DESCRIBE: tables of text about the catalog.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};

use super::catalog::{CATALOG, CatalogTable, CatalogView, DATABASE};
use crate::error::Result;
use crate::types::{Field, LogicalType, Schema, TimeAttribute};

/// Rows for the caller to show.
pub(super) struct Listing {
    pub(super) schema: Schema,
    pub(super) rows: RecordBatch,
}

/// A column of a listing.
pub(super) enum Cells {
    Text(Vec<Option<String>>),
    Flags(Vec<bool>),
}

/// Columns with their names as rows.
pub(super) fn listing(columns: Vec<(&str, Cells)>) -> Result<Listing> {
    let mut fields = Vec::with_capacity(columns.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for (name, cells) in columns {
        let (logical_type, array): (LogicalType, ArrayRef) = match cells {
            Cells::Text(cells) => (LogicalType::STRING, Arc::new(StringArray::from(cells))),
            Cells::Flags(flags) => (LogicalType::BOOLEAN, Arc::new(BooleanArray::from(flags))),
        };
        fields.push(Field::new(name, logical_type));
        arrays.push(array);
    }
    let schema = Schema::new(fields);
    let rows = RecordBatch::try_new(schema.to_arrow(), arrays)?;
    Ok(Listing { schema, rows })
}

/// One column of names.
pub(super) fn names(title: &str, names: Vec<String>) -> Result<Listing> {
    listing(vec![(
        title,
        Cells::Text(names.into_iter().map(Some).collect()),
    )])
}

/// DESCRIBE: a row a column, as Flink shows it.
pub(super) fn describe(schema: &Schema, table: Option<&CatalogTable>) -> Result<Listing> {
    let text = |cell: &dyn Fn(usize, &Field) -> Option<String>| {
        let cells = schema.fields.iter().enumerate();
        Cells::Text(cells.map(|(index, field)| cell(index, field)).collect())
    };
    let key = key_text(table);
    let nullable = |field: &Field| field.logical_type.nullable;
    listing(vec![
        ("name", text(&|_, field| Some(field.name.clone()))),
        ("type", text(&|_, field| Some(type_text(field)))),
        (
            "null",
            Cells::Flags(schema.fields.iter().map(nullable).collect()),
        ),
        (
            "key",
            text(&|_, field| is_key(table, &field.name).then(|| key.clone())),
        ),
        (
            "extras",
            text(&|index, _| {
                let text = table?.computed_texts.get(&index)?;
                Some(format!("AS {text}"))
            }),
        ),
        (
            "watermark",
            text(&|index, _| {
                let table = table?;
                let watermark = table.watermark.as_ref()?;
                (watermark.column == index)
                    .then(|| table.watermark_text.clone())
                    .flatten()
            }),
        ),
    ])
}

fn type_text(field: &Field) -> String {
    let root = &field.logical_type.root;
    match field.time_attribute {
        None => root.to_string(),
        Some(TimeAttribute::Rowtime) => format!("{root} *ROWTIME*"),
        Some(TimeAttribute::Proctime) => format!("{root} *PROCTIME*"),
    }
}

fn key_names(table: &CatalogTable) -> Vec<String> {
    let physical = table.physical();
    table
        .primary_key
        .iter()
        .map(|index| physical.fields[*index].name.clone())
        .collect()
}

fn key_text(table: Option<&CatalogTable>) -> String {
    let names = table.map(key_names).unwrap_or_default();
    format!("PRI({})", names.join(", "))
}

fn is_key(table: Option<&CatalogTable>, name: &str) -> bool {
    table.is_some_and(|table| key_names(table).iter().any(|key| key == name))
}

/// SHOW CREATE TABLE.
pub(super) fn create_table(table: &CatalogTable) -> String {
    let mut elements: Vec<String> = table
        .columns
        .iter()
        .enumerate()
        .map(|(index, column)| {
            let name = quoted(&column.field.name);
            match table.computed_texts.get(&index) {
                Some(text) => format!("  {name} AS {text}"),
                None => format!("  {name} {}", column.field.logical_type),
            }
        })
        .collect();
    if let (Some(watermark), Some(text)) = (&table.watermark, &table.watermark_text) {
        let name = quoted(&table.columns[watermark.column].field.name);
        elements.push(format!("  WATERMARK FOR {name} AS {text}"));
    }
    if !table.primary_key.is_empty() {
        let names: Vec<String> = key_names(table).iter().map(|name| quoted(name)).collect();
        elements.push(format!("  PRIMARY KEY ({}) NOT ENFORCED", names.join(", ")));
    }
    let options: Vec<String> = table
        .options
        .iter()
        .map(|(key, value)| format!("  '{}' = '{}'", escaped(key), shown(key, value)))
        .collect();
    let with = if options.is_empty() {
        String::new()
    } else {
        format!(" WITH (\n{}\n)", options.join(",\n"))
    };
    format!(
        "CREATE TABLE {}.{}.{} (\n{}\n){with}",
        quoted(CATALOG),
        quoted(DATABASE),
        quoted(&table.name),
        elements.join(",\n")
    )
}

/// Secrets are not shown.
fn shown(key: &str, value: &str) -> String {
    const SECRETS: [&str; 5] = ["password", "secret", "token", "apikey", "api-key"];
    if SECRETS
        .iter()
        .any(|secret| key.to_lowercase().contains(secret))
    {
        return "******".to_string();
    }
    escaped(value)
}

/// SHOW CREATE VIEW.
pub(super) fn create_view(view: &CatalogView) -> String {
    let columns: Vec<String> = view.columns.iter().map(|name| quoted(name)).collect();
    format!(
        "CREATE VIEW {}.{}.{} (\n  {}\n)\nAS {}",
        quoted(CATALOG),
        quoted(DATABASE),
        quoted(&view.name),
        columns.join(",\n  "),
        view.text
    )
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn escaped(text: &str) -> String {
    text.replace('\'', "''")
}
