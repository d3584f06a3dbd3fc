//! The slices that a window aggregation holds: which window fires next, and what it is made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, UInt64Type};

use super::grouped::{GroupedAggregates, Grouping, KeyedColumns};
use super::merge_tree::MergeTree;
use super::rows::{Dealing, Run, SliceKey, deal_by_slice, taken};
use crate::error::Result;
use crate::state::{Groups, KEY_HASH_COLUMN};
use crate::types::EventTime;
use crate::window::{SliceAssigner, WindowClock};

/// Windows of more slices than this are merged through a [`MergeTree`].
const PLAIN_MERGE_SLICES: usize = 8;

/// Aggregates by slice. What a window needs is found by its end; what no window needs any more is dropped with its slice.
pub(crate) struct SliceStore {
    grouping: Grouping,
    /// `None` where rows bring their windows: then each slice is a window.
    assigner: Option<SliceAssigner>,
    clock: WindowClock,
    slices: BTreeMap<SliceKey, GroupedAggregates>,
    /// CUMULATE: the windows that have begun, by start; each holds the slices up to its last fired end.
    prefixes: BTreeMap<i64, Prefix>,
    tree: MergeTree,
    /// Every window that fires by this time has fired.
    fired: EventTime,
    /// The end of the last window that fired.
    last_window_end: i64,
    /// Groups of the slice that was dropped last, and of the window that fired last: guesses for the next ones.
    expected_slice: usize,
    expected_window: usize,
}

/// The running aggregates of one cumulative window.
struct Prefix {
    fired_end: i64,
    groups: GroupedAggregates,
}

/// A window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: i64,
    pub(crate) end: i64,
}

impl SliceStore {
    pub(crate) fn new(
        grouping: Grouping,
        assigner: Option<SliceAssigner>,
        clock: WindowClock,
    ) -> Self {
        SliceStore {
            grouping,
            assigner,
            clock,
            slices: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            tree: MergeTree::default(),
            fired: EventTime::MIN,
            last_window_end: i64::MIN,
            expected_slice: 0,
            expected_window: 0,
        }
    }

    pub(crate) fn grouping(&self) -> &Grouping {
        &self.grouping
    }

    /// Whether any window holds the slice; where not, its rows are nobody's.
    pub(crate) fn is_in_window(&self, slice: SliceKey) -> bool {
        self.assigner
            .is_none_or(|assigner| assigner.is_in_window(slice.end))
    }

    /// The end of the last window of a slice.
    pub(crate) fn last_window_end(&self, slice: SliceKey) -> i64 {
        self.assigner
            .map_or(slice.end, |assigner| assigner.last_window_end(slice.end))
    }

    /// The end of the first window of a slice.
    pub(crate) fn first_window_end(&self, slice: SliceKey) -> i64 {
        self.assigner
            .map_or(slice.end, |assigner| assigner.first_window_end(slice.end))
    }

    /// The aggregates of a slice, into which so many rows will be folded. A new one gets room by what the last ones held, but
    /// never for much more than comes, so that many thin slices stay small.
    pub(crate) fn slice(
        &mut self,
        slice: SliceKey,
        rows: usize,
    ) -> Result<(&Grouping, &mut GroupedAggregates)> {
        if self.uses_tree() {
            self.tree.forget(slice.end);
        }
        let groups = match self.slices.entry(slice) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(self.grouping.create(self.expected_slice.min(4 * rows))?)
            }
        };
        Ok((&self.grouping, groups))
    }

    fn uses_tree(&self) -> bool {
        self.assigner.is_some_and(|assigner| {
            !assigner.is_cumulative() && assigner.slices_per_window() > PLAIN_MERGE_SLICES
        })
    }

    /// When the next window fires.
    pub(crate) fn peek_fire_time(&self) -> Option<EventTime> {
        let of_slices = self
            .slices
            .keys()
            .find_map(|slice| self.next_end_of_slice(*slice));
        let end = match (of_slices, self.next_end_of_prefixes()) {
            (Some(slice), Some(prefix)) => slice.min(prefix),
            (slice, prefix) => slice.or(prefix)?,
        };
        Some(self.clock.fire_time(end))
    }

    /// How far windows have fired.
    pub(crate) fn fired(&self) -> EventTime {
        self.fired
    }

    /// Whether each slice is one window.
    pub(crate) fn is_tumbling(&self) -> bool {
        self.assigner.is_none_or(|assigner| assigner.is_tumbling())
    }

    /// The window that fires next, of those with data.
    pub(crate) fn next_window(&mut self) -> Option<Window> {
        // A slice whose windows have all fired is needed no more.
        while let Some(slice) = self.slices.keys().next().copied() {
            if self.next_end_of_slice(slice).is_some() {
                break;
            }
            self.slices.remove(&slice);
        }
        let first = self.slices.keys().next().copied();
        let Some(assigner) = self.assigner else {
            return first.map(|slice| Window {
                start: slice.start,
                end: slice.end,
            });
        };
        // The first slice decides: the windows of later slices end later.
        let of_slices = first.and_then(|slice| self.next_end_of_slice(slice));
        let end = match (of_slices, self.next_end_of_prefixes()) {
            (Some(slice), Some(prefix)) => slice.min(prefix),
            (slice, prefix) => slice.or(prefix)?,
        };
        Some(Window {
            start: assigner.window_start(end),
            end,
        })
    }

    /// The end of the first window of a slice that has not fired.
    fn next_end_of_slice(&self, slice: SliceKey) -> Option<i64> {
        let Some(assigner) = self.assigner else {
            return Some(slice.end);
        };
        let mut end = Some(assigner.first_window_end(slice.end));
        while let Some(window_end) = end.filter(|end| self.has_fired(*end)) {
            end = assigner.next_window_end(slice.end, window_end);
        }
        end
    }

    fn next_end_of_prefixes(&self) -> Option<i64> {
        let slice_ms = self.assigner?.slice_ms();
        let prefixes = self.prefixes.values();
        prefixes.map(|prefix| prefix.fired_end + slice_ms).min()
    }

    fn has_fired(&self, window_end: i64) -> bool {
        window_end <= self.last_window_end || self.clock.fire_time(window_end) <= self.fired
    }

    /// Takes the aggregates of the next window out; [`SliceStore::done`] must follow.
    pub(crate) fn take(&mut self, window: Window) -> Result<GroupedAggregates> {
        let Some(assigner) = self.assigner else {
            return self.take_slice(window.start, window.end);
        };
        if assigner.is_cumulative() {
            return self.take_prefix(window);
        }
        if assigner.is_tumbling() {
            return self.take_slice(0, window.end);
        }
        if self.uses_tree() {
            let first = window.start + assigner.slice_ms();
            return self.tree.window(
                &self.grouping,
                &self.slices,
                first,
                window.end,
                assigner.slice_ms(),
            );
        }
        let mut merged = self.grouping.create(self.expected_window)?;
        for (_, slice) in self.slices.range(within(window)) {
            merged.merge_from(&self.grouping, slice)?;
        }
        Ok(merged)
    }

    fn take_slice(&mut self, start: i64, end: i64) -> Result<GroupedAggregates> {
        match self.slices.remove(&SliceKey { end, start }) {
            Some(groups) => Ok(groups),
            None => self.grouping.create(0),
        }
    }

    fn take_prefix(&mut self, window: Window) -> Result<GroupedAggregates> {
        let prefix = self.prefixes.remove(&window.start);
        let mut groups = prefix.map(|prefix| prefix.groups);
        let ends: Vec<SliceKey> = self
            .slices
            .range(within(window))
            .map(|(key, _)| *key)
            .collect();
        for key in ends {
            let slice = self.slices.remove(&key).expect("it was just listed");
            match &mut groups {
                Some(groups) => groups.merge_from(&self.grouping, &slice)?,
                None => groups = Some(slice),
            }
        }
        match groups {
            Some(groups) => Ok(groups),
            None => self.grouping.create(0),
        }
    }

    /// The window has been emitted: drops what no later window needs.
    pub(crate) fn done(&mut self, window: Window, groups: GroupedAggregates) {
        self.last_window_end = self.last_window_end.max(window.end);
        self.expected_window = groups.len();
        let Some(assigner) = self.assigner else {
            self.expected_slice = groups.len();
            return;
        };
        if assigner.is_tumbling() {
            self.expected_slice = groups.len();
        }
        if assigner.is_cumulative() {
            let last = assigner.last_window_end(window.end);
            if window.end < last && groups.len() > 0 {
                let prefix = Prefix {
                    fired_end: window.end,
                    groups,
                };
                self.prefixes.insert(window.start, prefix);
            }
            return;
        }
        while let Some((slice, _)) = self.slices.first_key_value() {
            if assigner.last_window_end(slice.end) > self.last_window_end {
                break;
            }
            let dropped = self.slices.pop_first();
            self.expected_slice = dropped.map_or(0, |(_, groups)| groups.len());
        }
        if self.uses_tree() {
            self.tree.forget_before(window.start + assigner.stride_ms());
        }
    }

    /// All windows up to this time have fired.
    pub(crate) fn set_fired(&mut self, fired: EventTime) {
        self.fired = self.fired.max(fired);
    }

    /// Bytes held.
    pub(crate) fn size_bytes(&self) -> usize {
        let slices = self.slices.values();
        let prefixes = self.prefixes.values().map(|prefix| &prefix.groups);
        slices
            .chain(prefixes)
            .map(GroupedAggregates::size_bytes)
            .sum()
    }

    /// Every state with its slice, for a snapshot. What a cumulative window holds stands under its first slice: at a restore it
    /// is merged into the window again.
    pub(crate) fn snapshot(
        &self,
        key_names: &[String],
        max_parallelism: u16,
    ) -> Result<Vec<RecordBatch>> {
        let prefixes = self.prefixes.iter().map(|(start, prefix)| {
            let slice_ms = self.assigner.map_or(0, |assigner| assigner.slice_ms());
            let key = SliceKey {
                end: start + slice_ms,
                start: 0,
            };
            (key, &prefix.groups)
        });
        self.slices
            .iter()
            .map(|(key, groups)| (*key, groups))
            .chain(prefixes)
            .filter(|(_, groups)| groups.len() > 0)
            .map(|(key, groups)| self.snapshot_of(key, groups, key_names, max_parallelism))
            .collect()
    }

    fn snapshot_of(
        &self,
        slice: SliceKey,
        groups: &GroupedAggregates,
        key_names: &[String],
        max_parallelism: u16,
    ) -> Result<RecordBatch> {
        let hashes = groups.hashes();
        let key_groups = hashes.iter().map(|hash| *hash);
        let all = Groups::Range(0..groups.len());
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_iter_values(key_groups)),
            Arc::new(UInt64Array::from(hashes.to_vec())),
            Arc::new(Int64Array::from(vec![slice.end; hashes.len()])),
            Arc::new(Int64Array::from(vec![slice.start; hashes.len()])),
        ];
        columns.extend(groups.keys(&all)?);
        let partials = groups.partials(&all)?;
        columns.extend(self.grouping.aggregates.state_columns(partials)?);
        Ok(RecordBatch::try_new(
            Arc::new(self.snapshot_schema(key_names)),
            columns,
        )?)
    }

    /// Names the states of aggregates in snapshots.
    pub(crate) fn name_states(&mut self, texts: &[String]) {
        let aggregates = self.grouping.aggregates.clone();
        self.grouping.aggregates = aggregates.with_column_texts(texts);
    }

    /// The columns of [`SliceStore::snapshot`].
    pub(crate) fn snapshot_schema(&self, key_names: &[String]) -> Schema {
        let mut fields = vec![
            Field::new(KEY_HASH_COLUMN, DataType::UInt64, false),
            Field::new("hash", DataType::UInt64, false),
            Field::new("slice_end", DataType::Int64, false),
            Field::new("slice_start", DataType::Int64, false),
        ];
        let keys = key_names.iter().zip(&self.grouping.key_types);
        fields.extend(keys.map(|(name, key)| Field::new(name, key.clone(), true)));
        fields.extend(self.grouping.aggregates.state_fields());
        Schema::new(fields)
    }

    /// Takes snapshots up, of whichever instances; `fired` is how far time had come.
    pub(crate) fn restore(&mut self, batches: &[RecordBatch], fired: EventTime) -> Result<()> {
        self.set_fired(fired);
        for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
            let ends = batch.column(2).as_primitive::<Int64Type>().values();
            let starts = batch.column(3).as_primitive::<Int64Type>().values();
            let slices: Vec<SliceKey> = ends
                .iter()
                .zip(starts)
                .map(|(end, start)| SliceKey {
                    end: *end,
                    start: *start,
                })
                .collect();
            let keys = 4 + self.grouping.key_types.len();
            let rows = KeyedColumns {
                keys: batch.columns()[4..keys].to_vec(),
                hashes: batch
                    .column(1)
                    .as_primitive::<UInt64Type>()
                    .values()
                    .clone(),
                columns: batch.columns()[keys..].to_vec(),
                weights: None,
            };
            let Dealing { order, runs } = deal_by_slice(&slices);
            let rows = match order {
                None => rows,
                Some(order) => taken(&rows, &order)?,
            };
            for Run {
                slice,
                offset,
                length,
            } in runs
            {
                let (grouping, groups) = self.slice(slice, length)?;
                groups.merge(grouping, &rows, offset, length)?;
            }
        }
        Ok(())
    }
}

/// The slices of a window.
fn within(window: Window) -> std::ops::RangeInclusive<SliceKey> {
    let first = SliceKey {
        end: window.start + 1,
        start: i64::MIN,
    };
    let last = SliceKey {
        end: window.end,
        start: i64::MAX,
    };
    first..=last
}
