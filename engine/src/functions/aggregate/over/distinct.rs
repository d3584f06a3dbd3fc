//! DISTINCT: how often each value is in the frame; the function behind is told only when a value comes or is gone.
//!
//! A value that is gone takes no memory: over a sliding range the table is as large as the frame is varied.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, StructArray};
use arrow::buffer::{BooleanBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields, Int64Type};
use arrow::row::{RowConverter, SortField};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::{Counted, FunctionRows, OverFunction, OverScript};
use crate::error::Result;
use crate::functions::AggregateCall;
use crate::state::Groups;
use crate::stream::hash_columns;

/// See the module.
pub(super) struct DistinctFunction {
    inner: Box<dyn OverFunction>,
    converter: RowConverter,
    fields: Fields,
    values: HashTable<Value>,
}

struct Value {
    hash: u64,
    group: u32,
    count: u32,
    value: Box<[u8]>,
}

/// The hash of a value in a group; the upper bits are those of the value, which are well mixed.
#[inline]
fn in_group(hash: u64, group: u32) -> u64 {
    hash ^ (u64::from(group).wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl DistinctFunction {
    pub(super) fn new(call: &AggregateCall, inner: Box<dyn OverFunction>) -> Result<Self> {
        let types: Vec<DataType> = call
            .argument_types
            .iter()
            .map(|argument| argument.to_arrow())
            .collect();
        let sorted = types.iter().cloned().map(SortField::new).collect();
        let fields = types
            .into_iter()
            .enumerate()
            .map(|(index, data_type)| Field::new(format!("v{index}"), data_type, true));
        let count = Field::new("n", DataType::Int64, false);
        Ok(DistinctFunction {
            inner,
            converter: RowConverter::new(sorted)?,
            fields: fields.chain([count]).collect(),
            values: HashTable::new(),
        })
    }

    /// Adds 1 or takes 1; says whether the value has come or is gone with that.
    #[inline]
    fn count(&mut self, hash: u64, group: u32, value: &[u8], enters: bool) -> bool {
        let hash = in_group(hash, group);
        let same =
            |known: &Value| known.hash == hash && known.group == group && *known.value == *value;
        match self.values.entry(hash, same, |known| known.hash) {
            Entry::Vacant(entry) => {
                entry.insert(Value {
                    hash,
                    group,
                    count: 1,
                    value: value.into(),
                });
                true
            }
            Entry::Occupied(mut entry) if enters => {
                entry.get_mut().count += 1;
                false
            }
            Entry::Occupied(mut entry) => {
                entry.get_mut().count -= 1;
                let gone = entry.get().count == 0;
                if gone {
                    entry.remove();
                }
                gone
            }
        }
    }
}

impl OverFunction for DistinctFunction {
    fn grow(&mut self, groups: usize) {
        self.inner.grow(groups);
    }

    fn run(&mut self, script: &OverScript, rows: &FunctionRows) -> Result<ArrayRef> {
        let count = rows.arguments[0].len();
        let hashes = hash_columns(rows.arguments, count)?;
        let encoded = self.converter.convert_columns(rows.arguments)?;
        let mut changes = vec![false; script.steps()];
        script.for_each_change(|step, group, row, enters| {
            let counts = match rows.counted {
                Counted::All => true,
                Counted::Rows(rows) => rows.value(row),
                Counted::Steps(steps) => steps.value(step),
            };
            if counts {
                let value = encoded.row(row).data();
                changes[step] = self.count(hashes[row], group, value, enters);
            }
        });
        let changes = BooleanBuffer::from(changes);
        self.inner.run(
            script,
            &FunctionRows {
                arguments: rows.arguments,
                counted: Counted::Steps(&changes),
            },
        )
    }

    fn reset(&mut self, groups: &[u32]) {
        let mut sorted = groups.to_vec();
        sorted.sort_unstable();
        self.values
            .retain(|value| sorted.binary_search(&value.group).is_err());
        self.inner.reset(groups);
    }

    fn save(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let mut values: Vec<&Value> = self.values.iter().collect();
        values.sort_unstable_by(|a, b| (a.group, &a.value).cmp(&(b.group, &b.value)));
        let mut chosen: Vec<&Value> = Vec::new();
        let lengths = groups.map(|group| {
            let first = values.partition_point(|value| (value.group as usize) < group);
            let mine = values[first..]
                .iter()
                .take_while(|value| value.group as usize == group);
            let before = chosen.len();
            chosen.extend(mine);
            chosen.len() - before
        });
        let parser = self.converter.parser();
        let rows = chosen.iter().map(|value| parser.parse(&value.value));
        let mut columns = self.converter.convert_rows(rows)?;
        let counts = chosen.iter().map(|value| i64::from(value.count));
        columns.push(Arc::new(Int64Array::from_iter_values(counts)));
        let entries = StructArray::try_new(self.fields.clone(), columns, None)?;
        let field = Arc::new(Field::new("item", entries.data_type().clone(), false));
        let lists = ListArray::try_new(
            field,
            OffsetBuffer::from_lengths(lengths),
            Arc::new(entries),
            None,
        )?;
        let mut saved: Vec<ArrayRef> = vec![Arc::new(lists)];
        saved.extend(self.inner.save(groups)?);
        Ok(saved)
    }

    fn load(&mut self, ids: &[u32], saved: &[ArrayRef]) -> Result<()> {
        let lists = saved[0].as_list::<i32>();
        let offsets = lists.value_offsets();
        let entries = lists.values().as_struct();
        let arguments = &entries.columns()[..entries.num_columns() - 1];
        let counts = entries.column(arguments.len());
        let counts = counts.as_primitive::<Int64Type>().values();
        let hashes = hash_columns(arguments, entries.len())?;
        let encoded = self.converter.convert_columns(arguments)?;
        for (row, id) in ids.iter().enumerate() {
            for entry in offsets[row] as usize..offsets[row + 1] as usize {
                let hash = in_group(hashes[entry], *id);
                let value = Value {
                    hash,
                    group: *id,
                    count: counts[entry] as u32,
                    value: encoded.row(entry).data().into(),
                };
                self.values.insert_unique(hash, value, |known| known.hash);
            }
        }
        self.inner.load(ids, &saved[1..])
    }

    fn saved_columns(&self) -> usize {
        1 + self.inner.saved_columns()
    }

    fn size_bytes(&self) -> usize {
        let values: usize = self.values.iter().map(|value| value.value.len()).sum();
        self.values.allocation_size() + values + self.inner.size_bytes()
    }
}
