//! Merges of aligned groups of slices, so that a window of many slices is made of a few tables.
//!
//! Slices are numbered along time. A node of level `l` stands for `2^l` of them, aligned, and is merged from the two below
//! when a window first wants it; the windows after share it. A window of n slices needs at most 2 log2 n nodes, and a row that
//! comes late into a slice makes the nodes above it be merged anew. Works for every aggregate, as nothing is subtracted.

use std::collections::BTreeMap;

use super::grouped::{GroupedAggregates, Grouping};
use super::rows::SliceKey;
use crate::error::Result;

/// The merged nodes of levels above 0, by level and number.
#[derive(Default)]
pub(crate) struct MergeTree {
    nodes: BTreeMap<(u32, i64), GroupedAggregates>,
    slice_ms: i64,
}

impl MergeTree {
    /// The aggregates of the slices that end from `first` to `last`.
    pub(crate) fn window(
        &mut self,
        grouping: &Grouping,
        slices: &BTreeMap<SliceKey, GroupedAggregates>,
        first: i64,
        last: i64,
        slice_ms: i64,
    ) -> Result<GroupedAggregates> {
        self.slice_ms = slice_ms;
        let rest = first.rem_euclid(slice_ms);
        let leaves = Leaves {
            grouping,
            slices,
            slice_ms,
            rest,
        };
        let mut merged: Option<GroupedAggregates> = None;
        let mut next = (first - rest) / slice_ms;
        let end = (last - rest) / slice_ms + 1;
        while next < end {
            let aligned = if next == 0 { 63 } else { next.trailing_zeros() };
            let fitting = (end - next).ilog2();
            let level = aligned.min(fitting);
            if self.build(&leaves, level, next >> level)? {
                let node = self.node(&leaves, level, next >> level);
                let node = node.expect("build said that there is one");
                let merged = match &mut merged {
                    Some(merged) => merged,
                    None => merged.insert(grouping.create(node.len())?),
                };
                merged.merge_from(grouping, node)?;
            }
            next += 1 << level;
        }
        match merged {
            Some(merged) => Ok(merged),
            None => grouping.create(0),
        }
    }

    /// Makes sure that a node is merged; `false` where none of its slices has data.
    fn build(&mut self, leaves: &Leaves, level: u32, number: i64) -> Result<bool> {
        if self.node(leaves, level, number).is_some() {
            return Ok(true);
        }
        if level == 0 || !leaves.any_within(level, number) {
            return Ok(false);
        }
        let (left, right) = (2 * number, 2 * number + 1);
        let both = [
            (left, self.build(leaves, level - 1, left)?),
            (right, self.build(leaves, level - 1, right)?),
        ];
        let mut merged = leaves.grouping.create(0)?;
        for (child, _) in both.into_iter().filter(|(_, exists)| *exists) {
            let child = self.node(leaves, level - 1, child);
            merged.merge_from(
                leaves.grouping,
                child.expect("build said that there is one"),
            )?;
        }
        self.nodes.insert((level, number), merged);
        Ok(true)
    }

    fn node<'a>(
        &'a self,
        leaves: &Leaves<'a>,
        level: u32,
        number: i64,
    ) -> Option<&'a GroupedAggregates> {
        match level {
            0 => leaves.slices.get(&leaves.key(number)),
            _ => self.nodes.get(&(level, number)),
        }
    }

    /// The slice changes: forgets the nodes above it.
    pub(crate) fn forget(&mut self, slice_end: i64) {
        if self.nodes.is_empty() {
            return;
        }
        let number = slice_end.div_euclid(self.slice_ms);
        for level in 1..=self.highest() {
            self.nodes.remove(&(level, number >> level));
        }
    }

    /// Forgets the nodes with slices that end at or before a time; no window wants them again.
    pub(crate) fn forget_before(&mut self, time: i64) {
        if self.nodes.is_empty() {
            return;
        }
        let first = time.div_euclid(self.slice_ms);
        self.nodes
            .retain(|(level, number), _| *number << level > first);
    }

    /// Bytes held.
    pub(crate) fn size_bytes(&self) -> usize {
        self.nodes.values().map(GroupedAggregates::size_bytes).sum()
    }

    fn highest(&self) -> u32 {
        self.nodes
            .last_key_value()
            .map_or(0, |((level, _), _)| *level)
    }
}

/// The slices below the tree.
struct Leaves<'a> {
    grouping: &'a Grouping,
    slices: &'a BTreeMap<SliceKey, GroupedAggregates>,
    slice_ms: i64,
    /// What slice ends leave when divided by the slice length.
    rest: i64,
}

impl Leaves<'_> {
    fn key(&self, number: i64) -> SliceKey {
        SliceKey {
            end: number * self.slice_ms + self.rest,
            start: 0,
        }
    }

    fn any_within(&self, level: u32, number: i64) -> bool {
        let first = number << level;
        let last = first + (1 << level) - 1;
        self.slices
            .range(self.key(first)..=self.key(last))
            .next()
            .is_some()
    }
}
