//! The slices that a window aggregation holds: which window fires next, and what it is made of.
//!
//! Keys may be loaded whose next window the others have fired already: time had come, and they were not there. They have slices of their
//! own, which fire what is left and then join the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};

use super::grouped::{GroupedAggregates, Grouping, Hashes, KeyedColumns};
use super::merge_tree::MergeTree;
use super::rows::{Dealing, Run, SliceKey, deal_by_slice, taken};
use crate::error::Result;
use crate::operators::KeySet;
use crate::state::{Groups, KEY_HASH_COLUMN, all_but, key_hashes_of};
use crate::types::EventTime;
use crate::window::{SliceAssigner, WindowClock};

/// Windows of more slices than this are merged through a [`MergeTree`].
const PLAIN_MERGE_SLICES: usize = 8;
/// The column of a snapshot with the end of the next window that each state is part of.
const NEXT_WINDOW_END: &str = "next_window_end";

/// Aggregates by slice. What a window needs is found by its end; what no window needs any more is dropped with its slice.
/// What a cumulative window has fired stays, merged, in the window's first slice.
pub(crate) struct SliceStore {
    grouping: Grouping,
    /// `None` where rows bring their windows: then each slice is a window.
    assigner: Option<SliceAssigner>,
    clock: WindowClock,
    slices: BTreeMap<SliceKey, GroupedAggregates>,
    tree: MergeTree,
    /// Every window that fires by this time has fired.
    fired: EventTime,
    /// The end of the last window that fired.
    last_window_end: i64,
    /// Groups of the slice that was dropped last, and of the window that fired last: guesses for the next ones.
    expected_slice: usize,
    expected_window: usize,
    /// The slices of keys that are behind, by the end of their next window.
    behind: BTreeMap<i64, SliceStore>,
}

/// Whose window it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The keys that have fired as far as time has come.
    Main,
    /// Those that were behind, by the end of the window they came for.
    Behind(i64),
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
            tree: MergeTree::default(),
            fired: EventTime::MIN,
            last_window_end: i64::MIN,
            expected_slice: 0,
            expected_window: 0,
            behind: BTreeMap::new(),
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
        let behind = self.behind.values().filter_map(SliceStore::peek_end);
        let end = behind.chain(self.peek_end()).min()?;
        Some(self.clock.fire_time(end))
    }

    /// The end of the next window of the keys that are not behind.
    fn peek_end(&self) -> Option<i64> {
        let mut slices = self.slices.keys();
        slices.find_map(|slice| self.next_end_of_slice(*slice))
    }

    /// How far windows have fired.
    pub(crate) fn fired(&self) -> EventTime {
        self.fired
    }

    /// Whether each slice is one window.
    pub(crate) fn is_tumbling(&self) -> bool {
        self.assigner.is_none_or(|assigner| assigner.is_tumbling())
    }

    /// The window that fires next, of those with data. Keys that are behind come first, and then join the others.
    pub(crate) fn next_window(&mut self) -> Result<Option<(Owner, Window)>> {
        let behind = self.behind.iter_mut().filter_map(|(level, behind)| {
            let window = behind.next_own_window()?;
            Some((Owner::Behind(*level), window))
        });
        if let Some((owner, window)) = behind.min_by_key(|(_, window)| window.end)
            && self.has_fired(window.end)
        {
            return Ok(Some((owner, window)));
        }
        for (_, behind) in std::mem::take(&mut self.behind) {
            for (key, groups) in behind.slices {
                let (grouping, slice) = self.slice(key, groups.len())?;
                slice.merge_from(grouping, &groups)?;
            }
        }
        Ok(self.next_own_window().map(|window| (Owner::Main, window)))
    }

    fn next_own_window(&mut self) -> Option<Window> {
        // A slice whose windows have all fired is needed no more.
        while let Some(slice) = self.slices.keys().next().copied() {
            if self.next_end_of_slice(slice).is_some() {
                break;
            }
            self.slices.remove(&slice);
        }
        // The first slice decides: the windows of later slices end later.
        let slice = self.slices.keys().next().copied()?;
        let end = self.next_end_of_slice(slice)?;
        Some(Window {
            start: self
                .assigner
                .map_or(slice.start, |assigner| assigner.window_start(end)),
            end,
        })
    }

    /// The end of the first window of a slice that has not fired.
    fn next_end_of_slice(&self, slice: SliceKey) -> Option<i64> {
        let Some(assigner) = self.assigner.filter(|assigner| !assigner.is_tumbling()) else {
            // It goes when it fires.
            return Some(slice.end);
        };
        let mut end = Some(assigner.first_window_end(slice.end));
        while let Some(window_end) = end.filter(|end| self.has_fired(*end)) {
            end = assigner.next_window_end(slice.end, window_end);
        }
        end
    }

    fn has_fired(&self, window_end: i64) -> bool {
        window_end <= self.last_window_end || self.clock.fire_time(window_end) <= self.fired
    }

    /// Takes the aggregates of the next window out; [`SliceStore::done`] must follow.
    pub(crate) fn take(&mut self, owner: Owner, window: Window) -> Result<GroupedAggregates> {
        match self.owned(owner) {
            Some(store) => store.take_own(window),
            None => self.grouping.create(0),
        }
    }

    fn owned(&mut self, owner: Owner) -> Option<&mut SliceStore> {
        match owner {
            Owner::Main => Some(self),
            Owner::Behind(level) => self.behind.get_mut(&level),
        }
    }

    fn take_own(&mut self, window: Window) -> Result<GroupedAggregates> {
        let Some(assigner) = self.assigner else {
            return self.take_slice(window.start, window.end);
        };
        if assigner.is_cumulative() {
            return self.take_merged(window);
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

    /// The slices of a window, merged into the first of them, which are then gone.
    fn take_merged(&mut self, window: Window) -> Result<GroupedAggregates> {
        let slices = self.slices.range(within(window));
        let keys: Vec<SliceKey> = slices.map(|(key, _)| *key).collect();
        let mut merged: Option<GroupedAggregates> = None;
        for key in keys {
            let slice = self.slices.remove(&key).expect("it was just listed");
            match &mut merged {
                Some(merged) => merged.merge_from(&self.grouping, &slice)?,
                None => merged = Some(slice),
            }
        }
        match merged {
            Some(merged) => Ok(merged),
            None => self.grouping.create(0),
        }
    }

    /// The window has been emitted: drops what no later window needs.
    pub(crate) fn done(&mut self, owner: Owner, window: Window, groups: GroupedAggregates) {
        if let Some(store) = self.owned(owner) {
            store.own_done(window, groups);
        }
    }

    fn own_done(&mut self, window: Window, groups: GroupedAggregates) {
        self.last_window_end = self.last_window_end.max(window.end);
        self.expected_window = groups.len();
        let Some(assigner) = self.assigner else {
            self.expected_slice = groups.len();
            return;
        };
        if assigner.is_tumbling() {
            self.expected_slice = groups.len();
            return;
        }
        if assigner.is_cumulative() {
            let last = assigner.last_window_end(window.end);
            if window.end < last && groups.len() > 0 {
                self.slices.insert(first_slice(window, assigner), groups);
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

    /// Forgets everything but how far windows have fired.
    pub(crate) fn clear(&mut self) {
        self.slices.clear();
        self.behind.clear();
        self.tree = MergeTree::default();
    }

    /// Bytes held.
    pub(crate) fn size_bytes(&self) -> usize {
        let slices = self.slices.values().map(GroupedAggregates::size_bytes);
        let behind = self.behind.values().map(SliceStore::size_bytes);
        slices.chain(behind).sum::<usize>() + self.tree.size_bytes()
    }

    /// When the state of each row of a snapshot fires next.
    pub(crate) fn due(&self, rows: &RecordBatch) -> Vec<i64> {
        let Some(ends) = rows.column_by_name(NEXT_WINDOW_END) else {
            return vec![i64::MAX; rows.num_rows()];
        };
        let mut last = None;
        let ends = ends.as_primitive::<Int64Type>().values().iter();
        ends.map(|end| match last {
            Some((known, time)) if known == *end => time,
            _ => {
                let time = self.clock.fire_time(*end).millis();
                last = Some((*end, time));
                time
            }
        })
        .collect()
    }

    /// Every state with its slice, for a snapshot. What a cumulative window has fired stands under its first slice.
    pub(crate) fn snapshot(&self, key_names: &[String]) -> Result<Vec<RecordBatch>> {
        self.snapshot_some(key_names, &|groups| (0..groups.len() as u32).collect())
    }

    /// The same of some keys.
    pub(crate) fn export(&self, key_names: &[String], keys: &KeySet) -> Result<Vec<RecordBatch>> {
        self.snapshot_some(key_names, &|groups| groups.ids_of(keys))
    }

    /// Forgets the states of some keys.
    pub(crate) fn remove(&mut self, keys: &KeySet) -> Result<()> {
        for groups in self.slices.values_mut() {
            let gone = groups.ids_of(keys);
            if !gone.is_empty() {
                groups.keep(&all_but(&gone, groups.len()))?;
            }
        }
        self.slices.retain(|_, groups| groups.len() > 0);
        self.tree = MergeTree::default();
        let mut behind = self.behind.values_mut();
        behind.try_for_each(|behind| behind.remove(keys))
    }

    fn snapshot_some(
        &self,
        key_names: &[String],
        ids: &dyn Fn(&GroupedAggregates) -> Vec<u32>,
    ) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        for (key, groups) in &self.slices {
            let Some(next) = self.next_end_of_slice(*key) else {
                continue;
            };
            let ids = ids(groups);
            if !ids.is_empty() {
                batches.push(self.snapshot_of((*key, next), groups, &ids, key_names)?);
            }
        }
        for behind in self.behind.values() {
            batches.extend(behind.snapshot_some(key_names, ids)?);
        }
        Ok(batches)
    }

    fn snapshot_of(
        &self,
        (slice, next_window_end): (SliceKey, i64),
        groups: &GroupedAggregates,
        ids: &[u32],
        key_names: &[String],
    ) -> Result<RecordBatch> {
        let some = Groups::Ids(ids);
        let number = |number: i64| Arc::new(Int64Array::from(vec![number; ids.len()])) as ArrayRef;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(some.gather(groups.hashes()))),
            number(slice.end),
            number(slice.start),
            number(next_window_end),
        ];
        columns.extend(groups.keys(&some)?);
        let partials = groups.partials(&some)?;
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
            Field::new("slice_end", DataType::Int64, false),
            Field::new("slice_start", DataType::Int64, false),
            Field::new(NEXT_WINDOW_END, DataType::Int64, false),
        ];
        let keys = key_names.iter().zip(&self.grouping.key_types);
        fields.extend(keys.map(|(name, key)| Field::new(name, key.clone(), true)));
        fields.extend(self.grouping.aggregates.state_fields());
        Schema::new(fields)
    }

    /// Takes up states of keys that are not here. Keys whose next window the others have fired fire it by themselves.
    pub(crate) fn load(&mut self, batches: &[RecordBatch]) -> Result<()> {
        let levels = self.levels_behind(batches);
        for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
            let rows = self.loaded_rows(batch);
            if levels.is_empty() {
                self.load_rows(rows)?;
                continue;
            }
            let hashes = key_hashes_of(batch).iter();
            let dealt: Vec<Option<i64>> = hashes.map(|hash| levels.get(hash).copied()).collect();
            let mut all: Vec<Option<i64>> = dealt.clone();
            all.sort_unstable();
            all.dedup();
            for level in all {
                let own = (0..dealt.len()).filter(|row| dealt[*row] == level);
                let order = UInt32Array::from_iter_values(own.map(|row| row as u32));
                let rows = rows.taken(&order)?;
                match level {
                    None => self.load_rows(rows)?,
                    Some(level) => self.behind(level).load_rows(rows)?,
                }
            }
        }
        Ok(())
    }

    /// The end of the next window of each key that is behind.
    fn levels_behind(&self, batches: &[RecordBatch]) -> BTreeMap<u64, i64> {
        let mut levels: BTreeMap<u64, i64> = BTreeMap::new();
        if self.is_tumbling() {
            return levels;
        }
        for batch in batches {
            let ends = batch.column(3).as_primitive::<Int64Type>().values();
            for (hash, end) in key_hashes_of(batch).iter().zip(ends) {
                if self.has_fired(*end) {
                    let level = levels.entry(*hash).or_insert(*end);
                    *level = (*level).min(*end);
                }
            }
        }
        levels
    }

    fn behind(&mut self, level: i64) -> &mut SliceStore {
        let (grouping, assigner, clock) = (&self.grouping, self.assigner, self.clock);
        self.behind.entry(level).or_insert_with(|| {
            let mut store = SliceStore::new(grouping.clone(), assigner, clock);
            // Its keys have no window that ends before.
            store.last_window_end = level - 1;
            store
        })
    }

    fn loaded_rows(&self, batch: &RecordBatch) -> LoadedRows {
        let ends = batch.column(1).as_primitive::<Int64Type>().values();
        let starts = batch.column(2).as_primitive::<Int64Type>().values();
        let slices = ends.iter().zip(starts);
        let keys = 4 + self.grouping.key_types.len();
        LoadedRows {
            slices: slices
                .map(|(end, start)| SliceKey {
                    end: *end,
                    start: *start,
                })
                .collect(),
            columns: KeyedColumns {
                keys: batch.columns()[4..keys].to_vec(),
                hashes: Hashes::from(key_hashes_of(batch).to_vec()),
                columns: batch.columns()[keys..].to_vec(),
                weights: None,
            },
        }
    }

    fn load_rows(&mut self, rows: LoadedRows) -> Result<()> {
        let Dealing { order, runs } = deal_by_slice(&rows.slices);
        let columns = match order {
            None => rows.columns,
            Some(order) => taken(&rows.columns, &order)?,
        };
        for Run {
            slice,
            offset,
            length,
        } in runs
        {
            let (grouping, groups) = self.slice(slice, length)?;
            groups.merge(grouping, &columns, offset, length)?;
        }
        Ok(())
    }
}

/// States from a snapshot, with their slices.
struct LoadedRows {
    slices: Vec<SliceKey>,
    columns: KeyedColumns,
}

impl LoadedRows {
    fn taken(&self, order: &UInt32Array) -> Result<LoadedRows> {
        Ok(LoadedRows {
            slices: Groups::Ids(order.values()).gather(&self.slices),
            columns: taken(&self.columns, order)?,
        })
    }
}

/// The first slice of a window.
fn first_slice(window: Window, assigner: SliceAssigner) -> SliceKey {
    SliceKey {
        end: window.start + assigner.slice_ms(),
        start: 0,
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
