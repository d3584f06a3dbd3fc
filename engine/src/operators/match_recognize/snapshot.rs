//! State as tables and back: rows that wait, rows that matches may need, and the matches in the making.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema as ArrowSchema};

use super::MatchOperator;
use super::matcher::{KeyMatcher, Partial, Row};
use crate::error::{Error, Result};
use crate::state::{Groups, KEY_HASH_COLUMN, StateSnapshot};
use crate::stream::hash_columns;
use crate::watermark::event_time_millis;

const WAITING: &str = "waiting";
const ROWS: &str = "rows";
const MATCHES: &str = "matches";

impl MatchOperator {
    pub(super) fn snapshot(&mut self, max_parallelism: u16) -> Result<StateSnapshot> {
        let (rows, groups) = self.waiting.all()?;
        let times = Int64Array::from(vec![0; groups.len()]);
        let waiting = self.table(&groups, times, &rows, max_parallelism)?;
        let (mut groups, mut times, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for (group, matcher) in self.matchers.iter().enumerate() {
            for row in &matcher.rows {
                groups.push(group as u32);
                times.push(row.time);
                ids.push(row.id);
            }
        }
        let rows = self.rows.gather(&ids)?;
        let rows = self.table(&groups, Int64Array::from(times), &rows, max_parallelism)?;
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(WAITING, vec![waiting]);
        snapshot.insert_keyed(ROWS, vec![rows]);
        snapshot.insert_keyed(MATCHES, vec![self.match_table(max_parallelism)?]);
        Ok(snapshot)
    }

    fn key_groups(&self, groups: &[u32], max_parallelism: u16) -> ArrayRef {
        let hashes = self.keys.hashes();
        let of = |group: &u32| hashes[*group as usize];
        Arc::new(UInt64Array::from_iter_values(groups.iter().map(of)))
    }

    /// Rows of groups: key group, time, then the input's columns, which hold the keys.
    fn table(
        &self,
        groups: &[u32],
        times: Int64Array,
        rows: &RecordBatch,
        max_parallelism: u16,
    ) -> Result<RecordBatch> {
        let mut fields = vec![
            Field::new(KEY_HASH_COLUMN, DataType::UInt64, false),
            Field::new("time", DataType::Int64, false),
        ];
        let own = rows.schema_ref().fields().iter();
        fields.extend(own.map(|field| field.as_ref().clone()));
        let mut columns = vec![self.key_groups(groups, max_parallelism), Arc::new(times)];
        columns.extend_from_slice(rows.columns());
        Ok(RecordBatch::try_new(
            Arc::new(ArrowSchema::new(fields)),
            columns,
        )?)
    }

    /// Key group, keys, then how far each key's matches are, as text.
    fn match_table(&self, max_parallelism: u16) -> Result<RecordBatch> {
        let busy = |group: &u32| !self.matchers[*group as usize].is_idle();
        let groups: Vec<u32> = (0..self.matchers.len() as u32).filter(busy).collect();
        let keys = self.keys.keys(&Groups::Ids(&groups))?;
        let texts = groups
            .iter()
            .map(|group| encode(&self.matchers[*group as usize]));
        let texts: ArrayRef = Arc::new(StringArray::from(texts.collect::<Result<Vec<_>>>()?));
        let mut fields = vec![Field::new(KEY_HASH_COLUMN, DataType::UInt64, false)];
        let mut columns = vec![self.key_groups(&groups, max_parallelism)];
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

    pub(super) fn restore(&mut self, snapshot: &StateSnapshot) -> Result<()> {
        for batch in snapshot.batches(WAITING) {
            let (rows, groups) = self.restored_rows(batch)?;
            if let Some(column) = self.spec.time_column {
                let times = event_time_millis(rows.column(column))?;
                let kept: Vec<u32> = (0..rows.num_rows() as u32).collect();
                let waiting: Vec<(i64, u32)> = times.iter().copied().zip(groups).collect();
                self.waiting.add(&rows, &kept, &waiting)?;
            }
        }
        for batch in snapshot.batches(ROWS) {
            let times = batch.column(1).as_primitive::<Int64Type>().values().clone();
            let (rows, groups) = self.restored_rows(batch)?;
            let mut ids = Vec::new();
            self.rows.insert(&rows, &mut ids)?;
            for (row, group) in groups.into_iter().enumerate() {
                let rows = &mut self.matchers[group as usize].rows;
                rows.push_back(Row {
                    time: times[row],
                    id: ids[row],
                });
            }
        }
        for batch in snapshot.batches(MATCHES) {
            let last = batch.num_columns() - 1;
            let groups = self.resolved(&batch.columns()[1..last], batch.num_rows())?;
            let texts = batch.column(last).as_string::<i32>();
            for (row, group) in groups.into_iter().enumerate() {
                decode(texts.value(row), &mut self.matchers[group as usize])?;
                self.note_active(group);
            }
        }
        Ok(())
    }

    fn restored_rows(&mut self, batch: &RecordBatch) -> Result<(RecordBatch, Vec<u32>)> {
        let columns = batch.columns()[2..].to_vec();
        let rows = RecordBatch::try_new(self.spec.input.to_arrow(), columns)?;
        let keys: Vec<ArrayRef> = self
            .spec
            .partition_by
            .iter()
            .map(|column| rows.column(*column).clone())
            .collect();
        let groups = self.resolved(&keys, rows.num_rows())?;
        Ok((rows, groups))
    }

    fn resolved(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Vec<u32>> {
        let hashes = hash_columns(keys, rows)?;
        let mut groups = Vec::new();
        self.keys.resolve(keys, &hashes, &mut groups)?;
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
