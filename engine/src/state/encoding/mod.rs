//! The value of a unit of keyed state: what all tables keep for one hash, packed by columns.
//!
//! A unit mostly has one row of a table; then its value is a packed tuple. Where it has many (a side of a join), they lie column by column, as
//! a small Arrow batch would. Types are looked at once a column and batch, not once a row: encoding first measures all units column by
//! column, then writes them, each at its place of one buffer; decoding goes through all units column by column, too.
//!
//! A value begins with when the unit acts next: a byte 0 for never, or a byte 1 and the time (eight bytes). Then it has, for each table of
//! which the unit has rows, by ascending number of the table:
//!
//! ```text
//! table      varint, the number of the table in the codec
//! rows       varint
//! nulls      one bit a column, padded to bytes: whether a row of it is NULL
//! column …   one after the other, without the hash of the key
//! ```
//!
//! and a column of *n* rows is
//!
//! ```text
//! validity   only where some rows are NULL, and not all of one: n bits, padded
//! values     of fixed width: those that are not NULL; BOOLEAN: n bits, padded
//!            STRING, BYTES: the lengths (varint) of those that are not NULL, then their bytes
//!            ARRAY, MAP: n lengths (varint), then the column of all elements; ROW: its columns
//! ```
//!
//! where a column inside another begins with a byte that says whether some of it is NULL, and is left out where it has no rows. A table that
//! has no column with any bytes has n bits of padding, so that damaged bytes cannot ask for more memory than they are long.
//! Schemas are not in the value: both sides know them ([`UnitCodec`]). Values belong to one process; nothing durable has this form.

mod columns;
mod decode;
mod encode;
#[cfg(test)]
mod tests;
mod varint;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::{StateSnapshot, TableScope, UnitWrite};
use crate::error::{Error, Result};

/// Encodes and decodes the units of one operator, whose tables it learns from the snapshots that it sees.
#[derive(Debug, Clone, Default)]
pub struct UnitCodec {
    tables: Vec<CodecTable>,
}

#[derive(Debug, Clone)]
struct CodecTable {
    name: String,
    schema: SchemaRef,
}

/// The unit never acts by itself.
const NEVER: u8 = 0;
/// The time follows.
const AT: u8 = 1;

/// When the rows of a table act and are forgotten; what an operator knows of its own tables.
pub trait UnitTimes {
    /// For each row when its key acts next; `None`: no row ever does.
    fn due(&self, table: &str, rows: &RecordBatch) -> Option<Vec<i64>>;

    /// For each row when it may be forgotten, in processing time; `None`: never.
    fn expiries(&self, table: &str, rows: &RecordBatch) -> Option<Vec<i64>>;
}

/// Rows that neither act nor are forgotten.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTimes;

impl UnitTimes for NoTimes {
    fn due(&self, _table: &str, _rows: &RecordBatch) -> Option<Vec<i64>> {
        None
    }

    fn expiries(&self, _table: &str, _rows: &RecordBatch) -> Option<Vec<i64>> {
        None
    }
}

/// The values of many units, by ascending hash, in one buffer that is used again.
#[derive(Debug, Clone, Default)]
pub struct EncodedUnits {
    hashes: Vec<u64>,
    /// Where each value ends.
    ends: Vec<usize>,
    bytes: Vec<u8>,
    expiries: Vec<i64>,
    dues: Vec<i64>,
}

impl EncodedUnits {
    /// How many.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Their hashes, ascending and each once.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// The value of one.
    pub fn value(&self, unit: usize) -> &[u8] {
        let start = unit.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[unit]]
    }

    /// When one acts next: the earliest of its rows; `i64::MAX`: never.
    pub fn due(&self, unit: usize) -> i64 {
        self.dues[unit]
    }

    /// When one may be forgotten: the latest of its rows; `i64::MAX`: never.
    pub fn expiry(&self, unit: usize) -> i64 {
        self.expiries[unit]
    }

    /// All of them as a store takes them.
    pub fn writes(&self) -> Vec<UnitWrite<'_>> {
        let write = |unit| UnitWrite {
            hash: self.hashes[unit],
            value: Some(self.value(unit)),
            expiry: self.expiries[unit],
            due: self.dues[unit],
        };
        (0..self.len()).map(write).collect()
    }

    /// Bytes of all values together.
    pub fn value_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl UnitCodec {
    /// Adds the keyed tables of a snapshot that are not known yet. A column of which NULLs were not expected may turn out to have some.
    ///
    /// Fails where a table that is known has columns of other types, and on types that cannot be encoded.
    pub fn learn(&mut self, snapshot: &StateSnapshot) -> Result<()> {
        for (name, table) in &snapshot.tables {
            if table.scope != TableScope::Keyed {
                continue;
            }
            for batch in &table.batches {
                self.learn_table(name, batch.schema_ref())?;
            }
        }
        Ok(())
    }

    fn learn_table(&mut self, name: &str, schema: &SchemaRef) -> Result<()> {
        let Some(known) = self.tables.iter_mut().find(|table| table.name == name) else {
            check_types(name, schema)?;
            self.tables.push(CodecTable {
                name: name.to_string(),
                schema: schema.clone(),
            });
            return Ok(());
        };
        if !Arc::ptr_eq(&known.schema, schema) && known.schema != *schema {
            known.schema = Arc::new(wider(name, &known.schema, schema)?);
        }
        Ok(())
    }

    /// The values of all units of a snapshot, into `units`, in place of what was there. Tables of the operator are left out.
    ///
    /// Fails as [`UnitCodec::learn`] does.
    pub fn encode(
        &mut self,
        snapshot: &StateSnapshot,
        times: &dyn UnitTimes,
        units: &mut EncodedUnits,
    ) -> Result<()> {
        self.learn(snapshot)?;
        encode::encode(&self.tables, snapshot, times, units)
    }

    /// When a unit acts next, by its value; `i64::MAX`: never.
    ///
    /// Fails as [`UnitCodec::decode`] does.
    pub fn due_of(&self, value: &[u8]) -> Result<i64> {
        Ok(decode::due_and_rows(value)?.0)
    }

    /// The state of units, given by hash and value: one batch a table, rows in the order of the units. Tables without rows are left out.
    ///
    /// Fails with an error of the kind `external` on values that this codec cannot have made.
    pub fn decode<'a>(
        &self,
        units: impl IntoIterator<Item = (u64, &'a [u8])>,
    ) -> Result<StateSnapshot> {
        let (hashes, values) = units.into_iter().unzip();
        decode::decode(&self.tables, hashes, values)
    }
}

/// The schema of rows of both; the columns must have the same types.
fn wider(table: &str, known: &Schema, other: &Schema) -> Result<Schema> {
    let same = known.fields().len() == other.fields().len()
        && std::iter::zip(known.fields(), other.fields())
            .all(|(a, b)| a.data_type() == b.data_type());
    if !same {
        return Err(Error::internal(format!(
            "the state table {table} changed its columns from {known} to {other}"
        )));
    }
    let fields: Vec<Field> = std::iter::zip(known.fields(), other.fields())
        .map(|(a, b)| {
            a.as_ref()
                .clone()
                .with_nullable(a.is_nullable() || b.is_nullable())
        })
        .collect();
    Ok(Schema::new_with_metadata(fields, known.metadata().clone()))
}

fn check_types(table: &str, schema: &Schema) -> Result<()> {
    let Some((hash, columns)) = schema.fields().split_first() else {
        return Err(Error::internal(format!(
            "the state table {table} has no column"
        )));
    };
    if hash.data_type() != &DataType::UInt64 {
        return Err(Error::internal(format!(
            "the state table {table} does not begin with the hashes of its keys"
        )));
    }
    match columns
        .iter()
        .find(|column| !columns::is_supported(column.data_type()))
    {
        None => Ok(()),
        Some(column) => Err(Error::internal(format!(
            "column {} of the state table {table}: state of the type {} on disk is not supported yet",
            column.name(),
            column.data_type()
        ))),
    }
}
