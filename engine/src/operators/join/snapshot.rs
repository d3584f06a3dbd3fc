//! The state of a join in a checkpoint: the rows of each side, with what is known of each, in the order of their keys' lists.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt32Type};

use super::keyed_sides::KeyedSides;
use super::side::{Finder, Side};
use crate::error::Result;
use crate::operators::Context;
use crate::operators::calc::batch_of;
use crate::operators::window_join::key_numbers;
use crate::state::{KEY_HASH_COLUMN, StateSnapshot};
use crate::stream::hash_columns;

/// The columns in front of the rows: the key group, how often the row counts, its associations, and when it is forgotten.
const COLUMNS: usize = 4;

/// About how many rows a table has.
const TABLE_ROWS: usize = 65_536;

impl KeyedSides {
    /// The state of each side under its name.
    pub(in crate::operators) fn snapshot(
        &self,
        ctx: &Context,
        names: &[impl AsRef<str>],
    ) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        for (name, side) in names.iter().zip(&self.sides) {
            snapshot.insert_keyed(name.as_ref(), self.tables(ctx, side)?);
        }
        Ok(snapshot)
    }

    /// The columns of each side's table.
    pub(in crate::operators) fn state_schema(
        &self,
        names: &[impl AsRef<str>],
    ) -> Vec<(String, SchemaRef)> {
        let sides = names.iter().zip(&self.sides);
        sides
            .map(|(name, side)| (name.as_ref().to_string(), snapshot_schema(side)))
            .collect()
    }

    fn tables(&self, ctx: &Context, side: &Side) -> Result<Vec<RecordBatch>> {
        let schema = snapshot_schema(side);
        let mut tables = Vec::new();
        let (mut ids, mut key_groups) = (Vec::new(), Vec::new());
        let of_no_key = hash_columns(&[], 1)?;
        let hashes = match self.key_types.is_empty() {
            true => &of_no_key[..],
            false => self.groups.hashes(),
        };
        for (group, hash) in hashes.iter().enumerate() {
            let key_group = *hash;
            for id in side.links.rows(group as u32) {
                if side.is_alive(id, ctx.processing_time()) {
                    ids.push(id);
                    key_groups.push(key_group);
                }
            }
            if ids.len() >= TABLE_ROWS {
                let part = (std::mem::take(&mut ids), std::mem::take(&mut key_groups));
                tables.push(table(side, &schema, part.0, part.1)?);
            }
        }
        tables.push(table(side, &schema, ids, key_groups)?);
        Ok(tables)
    }

    /// Takes up what [`Self::snapshot`] gave.
    pub(in crate::operators) fn restore(
        &mut self,
        ctx: &Context,
        snapshot: StateSnapshot,
        names: &[impl AsRef<str>],
    ) -> Result<()> {
        for (index, name) in names.iter().enumerate() {
            for table in snapshot.batches(name.as_ref()) {
                self.restore_table(index, table)?;
            }
        }
        self.sweep(ctx.processing_time())
    }

    fn restore_table(&mut self, index: usize, table: &RecordBatch) -> Result<()> {
        let side = &mut self.sides[index];
        let table = &side.with_copies_apart(table)?;
        let schema = side.slab.schema().clone();
        let rows = batch_of(
            &schema,
            table.columns()[COLUMNS..].to_vec(),
            table.num_rows(),
        )?;
        let keys: Vec<ArrayRef> = side
            .spec
            .keys
            .iter()
            .map(|key| rows.column(*key).clone())
            .collect();
        let hashes = hash_columns(&keys, rows.num_rows())?;
        let groups = key_numbers(
            &mut self.groups,
            &rows,
            &side.spec.keys,
            &self.null_safe,
            &hashes,
        )?;
        side.restore(&rows, &groups, self.groups.len().max(1), table)
    }
}

impl Side {
    /// The table with a row for each copy where this side no longer counts them (another plan wrote it).
    fn with_copies_apart(&self, table: &RecordBatch) -> Result<RecordBatch> {
        let copies = table.column(1).as_primitive::<UInt32Type>().values();
        if self.has_copies() || copies.iter().all(|copies| *copies == 1) {
            return Ok(table.clone());
        }
        let rows = copies.iter().enumerate();
        let rows = rows.flat_map(|(row, copies)| std::iter::repeat_n(row as u32, *copies as usize));
        let rows = UInt32Array::from_iter_values(rows);
        Ok(arrow::compute::take_record_batch(table, &rows)?)
    }

    fn restore(
        &mut self,
        rows: &RecordBatch,
        groups: &[u32],
        known: usize,
        table: &RecordBatch,
    ) -> Result<()> {
        let mut ids = Vec::new();
        self.slab.insert(rows, &mut ids)?;
        let numbers = self.unique_keys(rows)?;
        self.reserve(known);
        let copies = table.column(1).as_primitive::<UInt32Type>().values();
        let associations = table.column(2).as_primitive::<UInt32Type>().values();
        let expiries = table.column(3).as_primitive::<Int64Type>().values();
        let hashes = match self.finder {
            Finder::WholeRow { .. } => hash_columns(rows.columns(), rows.num_rows())?,
            _ => Vec::new(),
        };
        for (row, id) in ids.into_iter().enumerate() {
            self.links.link(id, groups[row]);
            self.set_association(id, associations[row]);
            if let Some(expiry) = self.expiries.get_mut(id as usize) {
                *expiry = expiries[row];
            }
            match &mut self.finder {
                Finder::None { .. } | Finder::JoinKey => {}
                Finder::UniqueKey(keys) => keys.current[numbers[row] as usize] = id,
                Finder::WholeRow { index, copies: own } => {
                    own[id as usize] = copies[row];
                    index.note(id, hashes[row]);
                }
            }
        }
        Ok(())
    }
}

fn snapshot_schema(side: &Side) -> SchemaRef {
    let mut fields = vec![
        Field::new(KEY_HASH_COLUMN, DataType::UInt64, false),
        Field::new("copies", DataType::UInt32, false),
        Field::new("associations", DataType::UInt32, false),
        Field::new("expiry", DataType::Int64, false),
    ];
    let rows = side.slab.schema().fields().iter();
    fields.extend(rows.map(|field| field.as_ref().clone()));
    Arc::new(Schema::new(fields))
}

fn table(
    side: &Side,
    schema: &SchemaRef,
    ids: Vec<u32>,
    key_groups: Vec<u64>,
) -> Result<RecordBatch> {
    let copies = ids.iter().map(|id| side.copies(*id));
    let associations = ids.iter().map(|id| side.association(*id));
    let expiry = |id: &u32| side.expiries.get(*id as usize).copied().unwrap_or(i64::MAX);
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(key_groups)),
        Arc::new(UInt32Array::from_iter_values(copies)),
        Arc::new(UInt32Array::from_iter_values(associations)),
        Arc::new(Int64Array::from_iter_values(ids.iter().map(expiry))),
    ];
    columns.extend(side.slab.gather(&ids)?.columns().iter().cloned());
    batch_of(schema, columns, ids.len())
}
