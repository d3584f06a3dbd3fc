//! State by key, as tables and back: rows that wait, rows that matches may need, and the matches in the making.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema as ArrowSchema, SchemaRef};

use super::matcher::{KeyMatcher, Partial, Row};
use super::{CLEAN_UP_GROUPS, MatchOperator, timeout};
use crate::error::{Error, Result};
use crate::operators::keyed_rows::{keyed_batch, keyed_schema, unkeyed_batch};
use crate::operators::keyed_state::distinct;
use crate::operators::{Context, DueTime, InputIndex, KeySet, KeyedState};
use crate::state::{GroupTable, Groups, KEY_HASH_COLUMN, RowSlab, StateSnapshot, key_hashes_of};
use crate::watermark::event_time_millis;

const WAITING: &str = "waiting";
const ROWS: &str = "rows";
const MATCHES: &str = "matches";
/// The column of a table of rows before those of the rows.
const TIME: &str = "time";

impl KeyedState for MatchOperator {
    fn key_columns(&self, _: InputIndex) -> &[usize] {
        &self.spec.partition_by
    }

    fn snapshot_keyed(&mut self, _: &Context) -> Result<StateSnapshot> {
        let groups: Vec<u32> = (0..self.keys.len() as u32).collect();
        self.tables(&groups)
    }

    fn keys(&mut self, _: &Context) -> Result<Vec<u64>> {
        let mut groups = self.waiting.groups();
        let busy = |group: &u32| !self.matchers[*group as usize].is_idle();
        groups.extend((0..self.keys.len() as u32).filter(busy));
        Ok(distinct(Groups::Ids(&groups).gather(self.keys.hashes())))
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
        for batch in snapshot.batches(WAITING) {
            self.load_waiting(batch)?;
        }
        for batch in snapshot.batches(ROWS) {
            self.load_rows(batch)?;
        }
        for batch in snapshot.batches(MATCHES) {
            self.load_matches(batch)?;
        }
        Ok(())
    }

    fn clear_keyed(&mut self) -> Result<()> {
        let key = self.spec.partition_by.iter();
        let types: Vec<DataType> = key
            .map(|column| self.spec.input.fields[*column].logical_type.to_arrow())
            .collect();
        self.keys = GroupTable::new(&types)?;
        self.matchers = Vec::new();
        self.timeouts.clear();
        self.waiting.clear();
        self.rows = RowSlab::new(self.rows.schema().clone());
        self.taken_out = 0;
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        let matchers = self.matchers.capacity() * size_of::<KeyMatcher>();
        // A row of a match stands in a list, and in the steps of about two matches in the making.
        let rows = self.rows.len() * (size_of::<Row>() + 2 * size_of::<Partial>());
        let timeouts = self.timeouts.len() * 2 * size_of::<(i64, u32)>();
        let slabs = self.rows.size_bytes() + self.waiting.size_bytes();
        self.keys.size_bytes() + matchers + rows + timeouts + slabs
    }

    fn due_time(&self) -> DueTime {
        match (self.spec.time_column, self.spec.pattern.within_ms) {
            (Some(_), _) => DueTime::Event,
            (None, Some(_)) => DueTime::Processing,
            (None, None) => DueTime::Never,
        }
    }

    fn due(&self, table: &str, rows: &RecordBatch) -> Vec<i64> {
        let never = || vec![i64::MAX; rows.num_rows()];
        let times = || rows.column(1).as_primitive::<Int64Type>().values();
        match (table, self.spec.pattern.within_ms) {
            (WAITING, _) => times().to_vec(),
            // The first row of a key is that of its oldest match in the making.
            (ROWS, Some(within_ms)) => {
                let due = |time: &i64| time.saturating_add(within_ms).min(i64::MAX - 1);
                times().iter().map(due).collect()
            }
            _ => never(),
        }
    }

    fn export_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let groups = self.keys.ids_of(keys.iter().copied());
        self.tables(&groups)
    }

    fn evict_keyed(&mut self, ctx: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let groups = self.keys.ids_of(keys.iter().copied());
        let gone = self.tables(&groups)?;
        self.waiting.remove_groups(&groups)?;
        let mut rows = Vec::new();
        for group in &groups {
            let matcher = std::mem::take(&mut self.matchers[*group as usize]);
            if let Some(time) = timeout(&matcher, &self.spec.pattern) {
                self.timeouts.remove(&(time, *group));
            }
            rows.extend(matcher.rows.iter().map(|row| row.id));
        }
        self.rows.remove(&rows)?;
        self.taken_out += groups.len();
        if self.taken_out * 2 > self.keys.len() {
            self.give_up_groups(ctx)?;
        }
        Ok(gone)
    }
}

impl MatchOperator {
    /// Gives up the numbers of keys without rows, now and then. Call it between batches.
    pub(super) fn clean_up(&mut self, ctx: &Context) -> Result<()> {
        if self.keys.len() >= self.clean_up_at {
            self.give_up_groups(ctx)?;
            self.clean_up_at = CLEAN_UP_GROUPS.max(2 * self.keys.len());
        }
        Ok(())
    }

    fn give_up_groups(&mut self, ctx: &Context) -> Result<()> {
        let rest = self.snapshot_keyed(ctx)?;
        self.clear_keyed()?;
        self.load_keyed(ctx, &rest)
    }

    /// All that is kept for groups, ascending.
    fn tables(&mut self, groups: &[u32]) -> Result<StateSnapshot> {
        let (rows, waiting) = self.waiting.of_groups(Some(groups))?;
        let waiting: Vec<(u32, i64)> = waiting.iter().map(|row| (row.group, row.time)).collect();
        let waiting = self.table(&waiting, &rows)?;
        let (mut of, mut ids) = (Vec::new(), Vec::new());
        for group in groups {
            for row in &self.matchers[*group as usize].rows {
                of.push((*group, row.time));
                ids.push(row.id);
            }
        }
        let rows = self.table(&of, &self.rows.gather(&ids)?)?;
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(WAITING, vec![waiting]);
        snapshot.insert_keyed(ROWS, vec![rows]);
        snapshot.insert_keyed(MATCHES, vec![self.match_table(groups)?]);
        Ok(snapshot)
    }

    fn hash(&self, group: u32) -> u64 {
        self.keys.hashes()[group as usize]
    }

    /// The tables that hold rows.
    pub(super) fn row_tables(&self) -> Vec<(String, SchemaRef)> {
        let schema = keyed_schema(&[(TIME, DataType::Int64)], self.rows.schema());
        let names = [WAITING, ROWS].into_iter();
        names
            .map(|name| (name.to_string(), schema.clone()))
            .collect()
    }

    /// Rows of groups with their times: the hash of the key, the time, then the input's columns, which hold the key.
    fn table(&self, of: &[(u32, i64)], rows: &RecordBatch) -> Result<RecordBatch> {
        let hashes = of.iter().map(|(group, _)| self.hash(*group)).collect();
        let times = Int64Array::from_iter_values(of.iter().map(|(_, time)| *time));
        keyed_batch(hashes, &[(TIME, Arc::new(times))], rows)
    }

    /// The hash of the key, the key, then how far its matches are, as text.
    fn match_table(&self, groups: &[u32]) -> Result<RecordBatch> {
        let busy = |group: &u32| !self.matchers[*group as usize].is_idle();
        let groups: Vec<u32> = groups.iter().copied().filter(busy).collect();
        let keys = self.keys.keys(&Groups::Ids(&groups))?;
        let texts = groups
            .iter()
            .map(|group| encode(&self.matchers[*group as usize]));
        let texts: ArrayRef = Arc::new(StringArray::from(texts.collect::<Result<Vec<_>>>()?));
        let hashes = groups.iter().map(|group| self.hash(*group));
        let mut fields = vec![Field::new(KEY_HASH_COLUMN, DataType::UInt64, false)];
        let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from_iter_values(hashes))];
        for (index, column) in keys.into_iter().chain([texts]).enumerate() {
            let data_type = column.data_type().clone();
            fields.push(Field::new(format!("key{index}"), data_type, true));
            columns.push(column);
        }
        Ok(RecordBatch::try_new(
            Arc::new(ArrowSchema::new(fields)),
            columns,
        )?)
    }

    fn load_waiting(&mut self, batch: &RecordBatch) -> Result<()> {
        let (rows, groups) = self.loaded_rows(batch)?;
        let Some(column) = self.spec.time_column else {
            return Ok(());
        };
        let times = event_time_millis(rows.column(column))?;
        let kept: Vec<u32> = (0..rows.num_rows() as u32).collect();
        let waiting: Vec<(i64, u32)> = times.iter().copied().zip(groups).collect();
        self.waiting.add(&rows, &kept, &waiting)
    }

    fn load_rows(&mut self, batch: &RecordBatch) -> Result<()> {
        let times = batch.column(1).as_primitive::<Int64Type>().values();
        let (rows, groups) = self.loaded_rows(batch)?;
        let mut ids = Vec::new();
        self.rows.insert(&rows, &mut ids)?;
        for (row, group) in groups.into_iter().enumerate() {
            let rows = &mut self.matchers[group as usize].rows;
            rows.push_back(Row {
                time: times[row],
                id: ids[row],
            });
        }
        Ok(())
    }

    /// Matches come after their rows.
    fn load_matches(&mut self, batch: &RecordBatch) -> Result<()> {
        let last = batch.num_columns() - 1;
        let groups = self.resolved(&batch.columns()[1..last], key_hashes_of(batch))?;
        let texts = batch.column(last).as_string::<i32>();
        for (row, group) in groups.into_iter().enumerate() {
            decode(texts.value(row), &mut self.matchers[group as usize])?;
            self.note_timeout(group, None);
        }
        Ok(())
    }

    fn loaded_rows(&mut self, batch: &RecordBatch) -> Result<(RecordBatch, Vec<u32>)> {
        let (_, rows) = unkeyed_batch(batch, 1, self.rows.schema())?;
        let key = self.spec.partition_by.iter();
        let key: Vec<ArrayRef> = key.map(|column| rows.column(*column).clone()).collect();
        let groups = self.resolved(&key, key_hashes_of(batch))?;
        Ok((rows, groups))
    }

    fn resolved(&mut self, keys: &[ArrayRef], hashes: &[u64]) -> Result<Vec<u32>> {
        let mut groups = Vec::new();
        self.keys.resolve(keys, hashes, &mut groups)?;
        self.matchers
            .resize_with(self.keys.len(), KeyMatcher::default);
        Ok(groups)
    }
}

/// Starts are written from the first kept row on.
type Saved = (u64, u32, Vec<u16>);

fn encode(matcher: &KeyMatcher) -> Result<String> {
    let of = |partials: &[Partial]| -> Vec<Saved> {
        let saved = partials.iter();
        saved
            .map(|partial| {
                let start = partial.start - matcher.first;
                (start, partial.count, partial.steps.clone())
            })
            .collect()
    };
    serde_json::to_string(&(of(&matcher.partial), of(&matcher.complete)))
        .map_err(|error| Error::internal(format!("a match does not serialise: {error}")))
}

fn decode(text: &str, matcher: &mut KeyMatcher) -> Result<()> {
    let (partial, complete): (Vec<Saved>, Vec<Saved>) = serde_json::from_str(text)
        .map_err(|error| Error::external(format!("a saved match cannot be read: {error}")))?;
    let of = |saved: Vec<Saved>| {
        let partials = saved.into_iter();
        partials
            .map(|(start, count, steps)| Partial {
                start,
                steps,
                count,
            })
            .collect()
    };
    matcher.first = 0;
    matcher.partial = of(partial);
    matcher.complete = of(complete);
    Ok(())
}
