//! The state of a join by key: the rows of each side, with what is known of each, in the order of their keys' lists.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt32Type};

use super::keyed_sides::KeyedSides;
use super::side::{Finder, Side};
use crate::error::Result;
use crate::operators::calc::batch_of;
use crate::operators::keyed_state::distinct;
use crate::operators::window_join::key_numbers;
use crate::operators::{Context, EXPIRY_COLUMN, InputIndex, KeySet, KeyedState};
use crate::state::{Groups, KEY_HASH_COLUMN, StateSnapshot, key_hashes_of};
use crate::stream::hash_columns;

/// The columns in front of the rows: the hash of the key, how often the row counts, its associations, and when it is forgotten.
const COLUMNS: usize = 4;

/// About how many rows a table has.
const TABLE_ROWS: usize = 65_536;

impl KeyedSides {
    /// The columns of each side's table.
    pub(in crate::operators) fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        let sides = self.names.iter().zip(&self.sides);
        sides
            .map(|(name, side)| (name.clone(), snapshot_schema(side)))
            .collect()
    }
}

impl KeyedState for KeyedSides {
    fn key_columns(&self, input: InputIndex) -> &[usize] {
        &self.sides[input.0].spec.keys
    }

    fn snapshot_keyed(&mut self, ctx: &Context) -> Result<StateSnapshot> {
        let all: Vec<u32> = (0..self.group_count() as u32).collect();
        self.snapshot_groups(ctx, &all)
    }

    fn keys(&mut self, _: &Context) -> Result<Vec<u64>> {
        let live = self.live_groups();
        if self.key_types.is_empty() {
            return hash_columns(&[], live.len());
        }
        Ok(distinct(Groups::Ids(&live).gather(self.groups.hashes())))
    }

    fn load_keyed(&mut self, ctx: &Context, snapshot: &StateSnapshot) -> Result<()> {
        for index in 0..self.sides.len() {
            for table in snapshot.batches(&self.names[index]) {
                self.load_table(index, table)?;
            }
        }
        self.sweep(ctx.processing_time())
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.clear()
    }

    fn size_bytes(&self) -> usize {
        let sides = self.sides.iter().map(Side::size_bytes);
        self.groups.size_bytes() + sides.sum::<usize>()
    }

    fn export_keyed(&mut self, ctx: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        self.snapshot_groups(ctx, &self.groups_of(keys)?)
    }

    fn evict_keyed(&mut self, ctx: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let groups = self.groups_of(keys)?;
        let gone = self.snapshot_groups(ctx, &groups)?;
        self.forget(&groups)?;
        Ok(gone)
    }
}

impl KeyedSides {
    /// The join keys with these hashes.
    fn groups_of(&self, keys: &KeySet) -> Result<Vec<u32>> {
        if self.key_types.is_empty() {
            let is_asked = keys.contains(&hash_columns(&[], 1)?[0]);
            return Ok(if is_asked { vec![0] } else { Vec::new() });
        }
        Ok(self.groups.ids_of(keys.iter().copied()))
    }

    fn snapshot_groups(&self, ctx: &Context, groups: &[u32]) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        for (name, side) in self.names.iter().zip(&self.sides) {
            snapshot.insert_keyed(name, self.tables(ctx, side, groups)?);
        }
        Ok(snapshot)
    }

    fn tables(&self, ctx: &Context, side: &Side, groups: &[u32]) -> Result<Vec<RecordBatch>> {
        let schema = snapshot_schema(side);
        let mut tables = Vec::new();
        let (mut ids, mut hashes) = (Vec::new(), Vec::new());
        let of_no_key = hash_columns(&[], 1)?;
        let known = match self.key_types.is_empty() {
            true => &of_no_key[..],
            false => self.groups.hashes(),
        };
        for group in groups {
            let before = ids.len();
            let rows = side.links.rows(*group);
            ids.extend(rows.filter(|id| side.is_alive(*id, ctx.processing_time())));
            hashes.resize(hashes.len() + ids.len() - before, known[*group as usize]);
            if ids.len() >= TABLE_ROWS {
                let part = (std::mem::take(&mut ids), std::mem::take(&mut hashes));
                tables.push(table(side, &schema, part.0, part.1)?);
            }
        }
        tables.push(table(side, &schema, ids, hashes)?);
        Ok(tables)
    }

    fn load_table(&mut self, index: usize, table: &RecordBatch) -> Result<()> {
        let side = &mut self.sides[index];
        let table = &side.with_copies_apart(table)?;
        let schema = side.slab.schema().clone();
        let rows = batch_of(
            &schema,
            table.columns()[COLUMNS..].to_vec(),
            table.num_rows(),
        )?;
        let groups = key_numbers(
            &mut self.groups,
            &rows,
            &side.spec.keys,
            &self.null_safe,
            key_hashes_of(table),
        )?;
        side.load(&rows, &groups, self.groups.len().max(1), table)
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

    fn load(
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
        Field::new(EXPIRY_COLUMN, DataType::Int64, false),
    ];
    let rows = side.slab.schema().fields().iter();
    fields.extend(rows.map(|field| field.as_ref().clone()));
    Arc::new(Schema::new(fields))
}

fn table(side: &Side, schema: &SchemaRef, ids: Vec<u32>, hashes: Vec<u64>) -> Result<RecordBatch> {
    let copies = ids.iter().map(|id| side.copies(*id));
    let associations = ids.iter().map(|id| side.association(*id));
    let expiry = |id: &u32| side.expiries.get(*id as usize).copied().unwrap_or(i64::MAX);
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(hashes)),
        Arc::new(UInt32Array::from_iter_values(copies)),
        Arc::new(UInt32Array::from_iter_values(associations)),
        Arc::new(Int64Array::from_iter_values(ids.iter().map(expiry))),
    ];
    columns.extend(side.slab.gather(&ids)?.columns().iter().cloned());
    batch_of(schema, columns, ids.len())
}
