//! Looking into saved state from outside of a job: finding operators and tables, types that SQL knows, and differences.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};

use super::reader::PIECES;
use super::{RowCount, SnapshotReader, TableFacts};
use crate::error::{Error, Result};
use crate::state::{StateTable, TableScope, key_hashes_of};
use crate::stream::{KeyGroupRange, hash_columns};
use crate::types::{EventTime, Field, LogicalType, RowField, Schema, TypeRoot};

/// The number of key groups by which state is read whose own is not known.
const KEY_GROUPS: u16 = 128;
/// About how many bytes of files are read at once to count their rows.
const COUNTED_BYTES: u64 = 32 << 20;

/// The id of the operator that `text` names: an id, the beginning of one, or the name of the only operator that has it.
/// Errors list what there is.
pub fn find_operator(reader: &dyn SnapshotReader, text: &str) -> Result<String> {
    let all = reader.operators();
    if all.iter().any(|uid| uid == text) {
        return Ok(text.to_string());
    }
    let facts = reader.plan_facts().unwrap_or_default();
    let is_named = |uid: &&String| {
        let operator = facts.operator(uid);
        let names = operator.map(|operator| [&operator.name, &operator.description]);
        uid.starts_with(text)
            || names
                .into_iter()
                .flatten()
                .any(|name| name.eq_ignore_ascii_case(text))
    };
    let found: Vec<&String> = all.iter().filter(is_named).collect();
    match &found[..] {
        [uid] => Ok((*uid).clone()),
        [] => Err(Error::user(format!("no operator '{text}' has state there"))
            .hint(format!("operators: {}", listed(all.iter())))),
        several => Err(
            Error::user(format!("several operators are called '{text}'")).hint(format!(
                "give the id of one: {}",
                listed(several.iter().copied())
            )),
        ),
    }
}

fn listed<'a>(uids: impl Iterator<Item = &'a String>) -> String {
    uids.cloned().collect::<Vec<_>>().join(", ")
}

/// A table of an operator; without a name the only one that the operator itself wrote. Errors list what there is.
pub fn find_table(
    reader: &dyn SnapshotReader,
    uid: &str,
    name: Option<&str>,
) -> Result<TableFacts> {
    let mut tables = reader.tables(uid)?;
    let names: Vec<String> = tables.iter().map(|table| table.name.clone()).collect();
    match name {
        Some(name) => tables.retain(|table| table.name == name),
        None => tables.retain(|table| !table.is_note()),
    }
    let tables_there = format!("tables: {}", names.join(", "));
    match (tables.len(), name) {
        (1, _) => Ok(tables.remove(0)),
        (0, Some(name)) => {
            Err(Error::user(format!("the operator {uid} has no table '{name}'")).hint(tables_there))
        }
        (0, None) => Err(
            Error::user(format!("the operator {uid} has no table of its own")).hint(tables_there),
        ),
        (_, _) => Err(
            Error::user(format!("the operator {uid} has several tables: name one"))
                .hint(tables_there),
        ),
    }
}

/// Where time stood for an operator: the lowest watermark of its instances.
pub fn watermark_of(reader: &dyn SnapshotReader, uid: &str) -> Result<Option<EventTime>> {
    let state = reader.read(uid, pieces(reader)[0], key_groups(reader))?;
    let times: Vec<serde_json::Value> = state.json("$time")?;
    let watermarks = times
        .iter()
        .filter_map(|time| time.get("watermark")?.as_i64());
    let lowest = watermarks.min().map(EventTime);
    Ok(lowest.filter(|watermark| *watermark > EventTime::MIN))
}

/// The tables of an operator with the exact number of their rows: where it is not known they are read, a part of the keys at a time.
pub fn counted_tables(reader: &dyn SnapshotReader, uid: &str) -> Result<Vec<TableFacts>> {
    let mut tables = reader.tables(uid)?;
    let mut unknown: Vec<&mut TableFacts> = tables
        .iter_mut()
        .filter(|table| table.rows.at_most)
        .collect();
    if unknown.is_empty() {
        return Ok(tables);
    }
    let bytes: u64 = unknown.iter().map(|table| table.bytes).sum();
    let parts = bytes.div_ceil(COUNTED_BYTES).max(1) as usize;
    for table in &mut unknown {
        table.rows = RowCount::default();
    }
    for range in KeyGroupRange::all(key_groups(reader)).pieces(parts) {
        let state = reader.read(uid, range, key_groups(reader))?;
        for table in &mut unknown {
            let rows = state.batches(&table.name).iter().map(RecordBatch::num_rows);
            table.rows += RowCount::exactly(rows.sum::<usize>() as u64);
        }
    }
    Ok(tables)
}

fn key_groups(reader: &dyn SnapshotReader) -> u16 {
    reader.max_parallelism().unwrap_or(KEY_GROUPS)
}

fn pieces(reader: &dyn SnapshotReader) -> Vec<KeyGroupRange> {
    KeyGroupRange::all(key_groups(reader)).pieces(PIECES)
}

/// In how many pieces [`read_piece`] gives a table.
pub fn piece_count(reader: &dyn SnapshotReader, scope: TableScope) -> usize {
    match scope {
        TableScope::Operator => 1,
        TableScope::Keyed => pieces(reader).len(),
    }
}

/// The rows of a table in one of [`piece_count`] ranges of key groups.
pub fn read_piece(
    reader: &dyn SnapshotReader,
    uid: &str,
    table: &str,
    piece: usize,
) -> Result<Vec<RecordBatch>> {
    let Some(range) = pieces(reader).get(piece).copied() else {
        return Ok(Vec::new());
    };
    let mut state = reader.read(uid, range, key_groups(reader))?;
    let table = state.tables.remove(table);
    Ok(table.map_or_else(Vec::new, |StateTable { batches, .. }| batches))
}

/// The SQL type in which values of an Arrow type are shown and read: unsigned integers become wider signed ones, or DECIMAL(20, 0).
pub fn sql_type(data_type: &DataType) -> Result<LogicalType> {
    let precision = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    let root = match data_type {
        DataType::Null | DataType::Utf8 => TypeRoot::STRING,
        DataType::Boolean => TypeRoot::Boolean,
        DataType::Int8 => TypeRoot::TinyInt,
        DataType::Int16 | DataType::UInt8 => TypeRoot::SmallInt,
        DataType::Int32 | DataType::UInt16 => TypeRoot::Int,
        DataType::Int64 | DataType::UInt32 => TypeRoot::BigInt,
        DataType::UInt64 => TypeRoot::Decimal {
            precision: 20,
            scale: 0,
        },
        DataType::Float32 => TypeRoot::Float,
        DataType::Float64 => TypeRoot::Double,
        DataType::Decimal128(precision, scale) => TypeRoot::Decimal {
            precision: *precision,
            scale: (*scale).max(0) as u8,
        },
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => TypeRoot::BYTES,
        DataType::Date32 => TypeRoot::Date,
        DataType::Time32(_) => TypeRoot::Time(3),
        DataType::Timestamp(unit, None) => TypeRoot::Timestamp(precision(unit)),
        DataType::Timestamp(unit, Some(_)) => TypeRoot::TimestampLtz(precision(unit)),
        DataType::Duration(_) => TypeRoot::IntervalDayTime,
        DataType::Interval(IntervalUnit::YearMonth) => TypeRoot::IntervalYearMonth,
        DataType::List(item) => TypeRoot::Array(Box::new(sql_type(item.data_type())?)),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => TypeRoot::Map(
                Box::new(sql_type(fields[0].data_type())?),
                Box::new(sql_type(fields[1].data_type())?),
            ),
            other => return Err(no_sql_type(other)),
        },
        DataType::Struct(fields) => TypeRoot::Row(
            fields
                .iter()
                .map(|field| {
                    Ok(RowField {
                        name: field.name().clone(),
                        logical_type: sql_type(field.data_type())?,
                    })
                })
                .collect::<Result<_>>()?,
        ),
        other => return Err(no_sql_type(other)),
    };
    Ok(LogicalType::nullable(root))
}

/// What people call an Arrow type: the SQL type, where there is one.
pub fn type_name(data_type: &DataType) -> String {
    match sql_type(data_type) {
        Ok(sql) => sql.to_string(),
        Err(_) => data_type.to_string(),
    }
}

fn no_sql_type(data_type: &DataType) -> Error {
    Error::unsupported(format!("state of the type {data_type} in SQL"))
}

/// Rows of state with columns of types that SQL knows.
pub fn as_sql(batch: &RecordBatch) -> Result<(Schema, RecordBatch)> {
    let fields = batch.schema_ref().fields().iter();
    let fields = fields.map(|field| Ok(Field::new(field.name(), sql_type(field.data_type())?)));
    let schema = Schema::new(fields.collect::<Result<_>>()?);
    let arrow = schema.to_arrow();
    let columns = batch.columns().iter().zip(arrow.fields());
    let columns = columns.map(|(column, field)| value_as(column, field.data_type()));
    let columns = columns.collect::<Result<_>>()?;
    Ok((schema, RecordBatch::try_new(arrow, columns)?))
}

/// A column as another type. Errors: a value does not fit.
pub fn value_as(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if column.data_type() == data_type {
        return Ok(column.clone());
    }
    if *column.data_type() == DataType::Null {
        return Ok(arrow::array::new_null_array(data_type, column.len()));
    }
    super::upgrade::converted(column, data_type)
}

/// How a table differs between two snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableDifference {
    /// The hashes of keys that only the first one has.
    pub only_first: Vec<u64>,
    /// The hashes of keys that only the second one has.
    pub only_second: Vec<u64>,
    /// The hashes of keys of which they hold other rows.
    pub changed: Vec<u64>,
    /// How many keys are the same.
    pub same: u64,
}

impl TableDifference {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.only_first.is_empty() && self.only_second.is_empty() && self.changed.is_empty()
    }
}

/// Compares a table of an operator in two snapshots, key by key; a table that is not keyed counts as one key. Columns that only one
/// of them has make every key differ.
pub fn difference(
    first: &dyn SnapshotReader,
    second: &dyn SnapshotReader,
    uid: &str,
    table: &TableFacts,
) -> Result<TableDifference> {
    let mut difference = TableDifference::default();
    let key_groups = key_groups(first);
    let ranges = KeyGroupRange::all(key_groups).pieces(piece_count(first, table.scope));
    for range in ranges {
        let of = |reader: &dyn SnapshotReader| -> Result<BTreeMap<u64, (u64, u64)>> {
            let state = reader.read(uid, range, key_groups)?;
            digests(state.batches(&table.name), table.scope)
        };
        let (mine, mut others) = (of(first)?, of(second)?);
        for (key, digest) in mine {
            match others.remove(&key) {
                None => difference.only_first.push(key),
                Some(other) if other == digest => difference.same += 1,
                Some(_) => difference.changed.push(key),
            }
        }
        difference.only_second.extend(others.into_keys());
    }
    Ok(difference)
}

/// For each key how many rows it has, and a digest of them in any order.
fn digests(batches: &[RecordBatch], scope: TableScope) -> Result<BTreeMap<u64, (u64, u64)>> {
    let mut digests: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for batch in batches {
        let (schema, rows) = as_sql(batch)?;
        let names: Vec<&str> = schema.names().collect();
        let salt = xxhash_rust::xxh3::xxh3_64(names.join("\u{1f}").as_bytes());
        let keys = match scope {
            TableScope::Keyed => Some(key_hashes_of(batch)),
            TableScope::Operator => None,
        };
        for (row, hash) in hash_columns(rows.columns(), rows.num_rows())?
            .into_iter()
            .enumerate()
        {
            let digest = digests.entry(keys.map_or(0, |keys| keys[row])).or_default();
            digest.0 += 1;
            digest.1 = digest
                .1
                .wrapping_add((hash ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
    }
    Ok(digests)
}

/// CREATE TABLE for reading a table of state with the connector `savepoint`.
pub fn create_table(path: &str, uid: &str, table: &TableFacts) -> Result<String> {
    let schema = table.schema.as_ref().ok_or_else(|| {
        Error::user(format!(
            "the table '{}' of {uid} is empty: its columns are not known",
            table.name
        ))
    })?;
    let columns = schema.fields().iter().map(|field| {
        let name = field.name().replace('`', "``");
        Ok(format!("  `{name}` {}", sql_type(field.data_type())?))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?.join(",\n");
    let quoted = |text: &str| text.replace('\'', "''");
    Ok(format!(
        "CREATE TABLE `{}` (\n{columns}\n) WITH (\n  'connector' = 'savepoint',\n  'path' = '{}',\n  'operator' = '{}',\n  'table' = '{}'\n)",
        table.name.replace('`', "``"),
        quoted(path),
        quoted(uid),
        quoted(&table.name)
    ))
}
