//! FIRST_VALUE, LAST_VALUE and LAG: values of rows before, of any type.
//!
//! A group refers to values; those of the rows at hand stand in the argument column, older ones in a pool. Results are
//! gathered from both in one call. FIRST_VALUE and LAST_VALUE pass over NULLs, LAG does not.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, ListArray, RecordBatch, UInt32Array, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute;
use arrow::datatypes::{DataType, Field, Int32Type, Schema};

use super::{FrameKind, FunctionRows, OverFunction, OverScript};
use crate::error::Result;
use crate::state::{Groups, RowSlab};

/// Which value of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    First,
    Last,
    /// The value so many rows before; the offset is the second argument (1 without it), what stands for a row that is not there
    /// the third (NULL without it).
    Lag,
}

/// See the module.
pub(super) struct ValueFunction {
    kind: ValueKind,
    bounded: bool,
    /// How many rows LAG goes back.
    offset: usize,
    pool: RowSlab,
    states: Vec<State>,
}

#[derive(Clone, Default)]
struct State {
    /// The values that may be asked for, oldest first.
    values: VecDeque<Place>,
    /// Rows of the frame that count, for LAST_VALUE.
    rows: u64,
}

/// Where a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Pool(u32),
    Row(u32),
    /// The row's own third argument.
    Default(u32),
    Nowhere,
}

impl ValueFunction {
    pub(super) fn new(kind: ValueKind, data_type: &DataType, frame: FrameKind) -> Self {
        let field = Field::new("value", data_type.clone(), true);
        ValueFunction {
            kind,
            bounded: frame == FrameKind::Bounded,
            offset: 1,
            pool: RowSlab::new(Arc::new(Schema::new(vec![field]))),
            states: Vec::new(),
        }
    }

    fn play(
        &mut self,
        script: &OverScript,
        rows: &FunctionRows,
        freed: &mut Vec<u32>,
    ) -> Vec<Place> {
        let (kind, bounded, offset) = (self.kind, self.bounded, self.offset);
        let mut results = Vec::with_capacity(script.results());
        let freed = std::cell::RefCell::new(freed);
        let free = |place: Option<Place>| {
            if let Some(Place::Pool(id)) = place {
                freed.borrow_mut().push(id);
            }
        };
        let has_default = rows.arguments.len() > 2;
        let last_row = std::cell::Cell::new(0u32);
        script.play(
            &mut self.states,
            rows.counted,
            |State { values, rows }, row| {
                let place = Place::Row(row as u32);
                last_row.set(row as u32);
                *rows += 1;
                match kind {
                    ValueKind::First if bounded || values.is_empty() => values.push_back(place),
                    ValueKind::First => {}
                    ValueKind::Last => {
                        free(values.pop_back());
                        values.push_back(place);
                    }
                    ValueKind::Lag => {
                        if values.len() > offset {
                            free(values.pop_front());
                        }
                        values.push_back(place);
                    }
                }
            },
            |State { values, rows }, _| {
                *rows -= 1;
                if kind == ValueKind::First || *rows == 0 {
                    free(values.pop_front());
                }
            },
            |State { values, .. }| {
                let place = match kind {
                    ValueKind::First => values.front(),
                    ValueKind::Last => values.back(),
                    ValueKind::Lag => match values.len().checked_sub(offset + 1) {
                        Some(at) => values.get(at),
                        None if has_default => Some(&Place::Default(last_row.get())),
                        None => None,
                    },
                };
                results.push(place.copied().unwrap_or(Place::Nowhere));
            },
        );
        results
    }

    fn gather(&self, places: &[Place], arguments: &[ArrayRef]) -> Result<ArrayRef> {
        let mut pooled = Vec::new();
        let positions: Vec<(usize, usize)> = places
            .iter()
            .map(|place| match place {
                Place::Row(row) => (0, *row as usize),
                Place::Nowhere => (1, 0),
                Place::Pool(id) => {
                    pooled.push(*id);
                    (2, pooled.len() - 1)
                }
                Place::Default(row) => (3, *row as usize),
            })
            .collect();
        let values = &arguments[0];
        if pooled.is_empty() && positions.iter().all(|(source, _)| *source == 0) {
            let rows = UInt32Array::from_iter_values(positions.iter().map(|(_, row)| *row as u32));
            return Ok(compute::take(values, &rows, None)?);
        }
        let nothing = new_null_array(values.data_type(), 1);
        let pooled = self.pool.gather_columns(&[0], &pooled)?;
        let default = arguments.get(2).unwrap_or(values);
        let sources: [&dyn Array; 4] = [values, &nothing, &pooled[0], default];
        Ok(compute::interleave(&sources, &positions)?)
    }

    /// Moves the values of rows that are still referred to into the pool.
    fn settle(&mut self, groups: impl Iterator<Item = u32>, values: &ArrayRef) -> Result<()> {
        let groups: Vec<u32> = groups.collect();
        let mut rows = Vec::new();
        for group in &groups {
            // What has come now is last.
            let places = self.states[*group as usize].values.iter().rev();
            rows.extend(places.map_while(|place| match place {
                Place::Row(row) => Some(*row),
                _ => None,
            }));
        }
        let mut ids = Vec::with_capacity(rows.len());
        let batch = RecordBatch::try_new(self.pool.schema().clone(), vec![values.clone()])?;
        self.pool.insert_some(&batch, &rows, &mut ids)?;
        let mut ids = ids.into_iter();
        for group in groups {
            let places = self.states[group as usize].values.iter_mut().rev();
            for place in places.take_while(|place| matches!(place, Place::Row(_))) {
                *place = Place::Pool(ids.next().expect("an id for every value"));
            }
        }
        Ok(())
    }

    fn pooled(&self, group: usize) -> Vec<u32> {
        let places = self.states[group].values.iter();
        let ids = places.filter_map(|place| match place {
            Place::Pool(id) => Some(*id),
            _ => None,
        });
        ids.collect()
    }
}

impl OverFunction for ValueFunction {
    fn grow(&mut self, groups: usize) {
        self.states.resize(groups, State::default());
    }

    fn run(&mut self, script: &OverScript, rows: &FunctionRows) -> Result<ArrayRef> {
        if let Some(offsets) = rows.arguments.get(1).filter(|offsets| !offsets.is_empty()) {
            // A constant of the query.
            self.offset = offsets.as_primitive::<Int32Type>().value(0).max(0) as usize;
        }
        let mut freed = Vec::new();
        let places = self.play(script, rows, &mut freed);
        let results = self.gather(&places, rows.arguments)?;
        self.settle(script.groups(), &rows.arguments[0])?;
        self.pool.remove(&freed)?;
        Ok(results)
    }

    fn reset(&mut self, groups: &[u32]) {
        for group in groups {
            let ids = self.pooled(*group as usize);
            self.states[*group as usize] = State::default();
            // Only a rewrite of a block could fail, which does not matter here.
            let _ = self.pool.remove(&ids);
        }
    }

    fn save(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let ids = groups.map(|group| self.pooled(group));
        let offsets = OffsetBuffer::from_lengths(ids.iter().map(Vec::len));
        let values = self.pool.gather_columns(&[0], &ids.concat())?.remove(0);
        let field = Arc::new(Field::new("item", values.data_type().clone(), true));
        let lists = ListArray::try_new(field, offsets, values, None)?;
        let offset = Int32Array::from(vec![self.offset as i32; groups.len()]);
        Ok(vec![Arc::new(lists), Arc::new(offset)])
    }

    fn load(&mut self, ids: &[u32], saved: &[ArrayRef]) -> Result<()> {
        let lists = saved[0].as_list::<i32>();
        let offsets = lists.value_offsets();
        if let Some(offset) = saved[1].as_primitive::<Int32Type>().values().first() {
            self.offset = *offset as usize;
        }
        for (row, id) in ids.iter().enumerate() {
            let state = &mut self.states[*id as usize];
            state.rows = (offsets[row + 1] - offsets[row]) as u64;
            let rows = offsets[row]..offsets[row + 1];
            state.values = rows.map(|row| Place::Row(row as u32)).collect();
        }
        self.settle(ids.iter().copied(), lists.values())
    }

    fn saved_columns(&self) -> usize {
        2
    }

    fn size_bytes(&self) -> usize {
        let places: usize = self
            .states
            .iter()
            .map(|state| state.values.capacity() * size_of::<Place>())
            .sum();
        self.pool.size_bytes() + places + self.states.capacity() * size_of::<State>()
    }
}
