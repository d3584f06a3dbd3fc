//! The watermark of a source reader: a generator for each split, and the minimum over those that are active.
//!
//! A split holds the others back until it has a watermark of its own, goes idle or ends. The combined watermark never goes
//! back; where all splits are idle it stays where it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::pruning::{WatermarkAdvance, watermark_steps};
use super::{IdlenessTimer, WatermarkStrategy};
use crate::stream::{WatermarkStatus, WatermarkSteps};
use crate::types::{EventTime, ProcessingTime};

/// The watermark generators of a reader's splits.
#[derive(Debug)]
pub struct SourceWatermarks {
    strategy: WatermarkStrategy,
    splits: BTreeMap<String, Split>,
    combined: EventTime,
    /// The last split has ended; the end of the reader follows.
    ended: bool,
}

#[derive(Debug)]
struct Split {
    watermark: SplitWatermark,
    idleness: IdlenessTimer,
}

/// The watermark generator of one split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitWatermark {
    /// The watermark emitted for the split.
    pub emitted: EventTime,
    /// What the last row asked for; differs from `emitted` only between the events of a gap.
    pub current: EventTime,
    /// Rows since the watermark was last emitted.
    pub events: u64,
    /// Rows of the split so far.
    pub rows: u64,
    /// Whether the split is idle.
    pub idle: bool,
}

/// What is kept of them in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceWatermarksState {
    /// The combined watermark that was emitted.
    pub combined: EventTime,
    /// The generators by split.
    pub splits: BTreeMap<String, SplitWatermark>,
}

impl SplitWatermark {
    fn new() -> Self {
        SplitWatermark {
            emitted: EventTime::MIN,
            current: EventTime::MIN,
            events: 0,
            rows: 0,
            idle: false,
        }
    }

    /// What each row makes the split emit: what it asks for, or, with a gap, what the last row that asked asked for, at every
    /// `gap`-th row.
    fn emissions(&mut self, watermarks: &[i64], gap: u64) -> Option<Vec<i64>> {
        if gap == 1 {
            return None;
        }
        let emit = |asked: &i64| {
            if *asked != EventTime::MIN.millis() {
                self.current = EventTime(*asked);
            }
            self.events += 1;
            if self.events < gap {
                return EventTime::MIN.millis();
            }
            self.events = 0;
            self.current.millis()
        };
        Some(watermarks.iter().map(emit).collect())
    }
}

impl SourceWatermarks {
    /// Without splits.
    pub fn new(strategy: WatermarkStrategy) -> Self {
        SourceWatermarks {
            strategy,
            splits: BTreeMap::new(),
            combined: EventTime::MIN,
            ended: false,
        }
    }

    /// A new split, which holds the watermark back from now on. One that is there already stays as it is.
    pub fn add_split(&mut self, id: &str) {
        if !self.splits.contains_key(id) {
            self.insert(id, SplitWatermark::new());
        }
    }

    /// Takes up the generator of a restored split.
    pub fn restore_split(&mut self, id: &str, watermark: SplitWatermark) {
        self.insert(id, watermark);
    }

    /// Starts from a restored combined watermark, which had been emitted.
    pub fn restore_combined(&mut self, combined: EventTime) {
        self.combined = self.combined.max(combined);
    }

    /// All splits are restored: the minimum over them may be ahead of what the slowest reader had emitted.
    pub fn restored(&mut self) {
        self.combine();
    }

    fn insert(&mut self, id: &str, watermark: SplitWatermark) {
        let idleness = IdlenessTimer::new(self.strategy.idle_timeout);
        let split = Split {
            watermark,
            idleness,
        };
        self.splits.insert(id.to_string(), split);
        self.ended = false;
    }

    /// Rows of a split came, which makes it active.
    pub fn on_rows(&mut self, id: &str, rows: usize, now: ProcessingTime) {
        self.add_split(id);
        let split = self.split(id);
        split.idleness.on_row(now);
        split.watermark.idle = false;
        split.watermark.rows += rows as u64;
    }

    /// Those rows, told before by [`SourceWatermarks::on_rows`], have these times and ask for these watermarks (milliseconds,
    /// `EventTime::MIN` for none): how the combined watermark advances between them. Afterwards
    /// [`SourceWatermarks::combined`] is the one behind the last row.
    pub fn advance(
        &mut self,
        id: &str,
        times: &[i64],
        watermarks: &[i64],
        keep_all_steps: bool,
    ) -> WatermarkSteps {
        let others = self
            .splits
            .iter()
            .filter(|(other, split)| *other != id && !split.watermark.idle)
            .map(|(_, split)| split.watermark.emitted)
            .min();
        let (emitted, gap) = (self.combined, self.strategy.event_gap);
        let split = &mut self.split(id).watermark;
        let before = WatermarkAdvance {
            emitted,
            split: split.emitted,
            others: others.unwrap_or(EventTime::MAX),
        };
        let emissions = split.emissions(watermarks, gap);
        let watermarks = emissions.as_deref().unwrap_or(watermarks);
        let (steps, behind) = watermark_steps(before, times, watermarks, keep_all_steps);
        split.emitted = behind;
        self.combine();
        steps
    }

    /// The split has ended and no longer holds the others back.
    pub fn split_ended(&mut self, id: &str) {
        self.splits.remove(id);
        self.ended = self.splits.is_empty();
        self.combine();
    }

    /// The split is silent until its next row.
    pub fn split_idle(&mut self, id: &str) {
        if let Some(split) = self.splits.get_mut(id) {
            split.watermark.idle = true;
            self.combine();
        }
    }

    /// Marks the splits idle whose timeout has passed.
    pub fn check_idleness(&mut self, now: ProcessingTime) {
        if self.strategy.idle_timeout.is_none() {
            return;
        }
        for split in self.splits.values_mut() {
            split.watermark.idle |= split.idleness.is_idle(now);
        }
        self.combine();
    }

    /// When the next timeout passes.
    pub fn next_idleness_check(&self) -> Option<ProcessingTime> {
        self.splits
            .values()
            .filter(|split| !split.watermark.idle)
            .filter_map(|split| split.idleness.deadline())
            .min()
    }

    /// The watermark of the reader.
    pub fn combined(&self) -> EventTime {
        self.combined
    }

    /// Idle where no split is active; also without a split from the start. Not between the end of the last split and that of
    /// the reader: an idle reader would let the others' watermark pass what is still on its way to the next operator.
    pub fn status(&self) -> WatermarkStatus {
        if !self.ended && self.splits.values().all(|split| split.watermark.idle) {
            WatermarkStatus::Idle
        } else {
            WatermarkStatus::Active
        }
    }

    /// Whether there is a split that has not ended.
    pub fn has_splits(&self) -> bool {
        !self.splits.is_empty()
    }

    /// Of several splits, the one whose watermark is the least: the first by name of those without a watermark.
    pub fn slowest_split(&self) -> Option<&str> {
        if self.splits.len() < 2 {
            return None;
        }
        let slowest = self
            .splits
            .iter()
            .min_by_key(|(_, split)| split.watermark.emitted);
        slowest.map(|(id, _)| id.as_str())
    }

    /// How many rows of a split have come so far.
    pub fn rows_of(&self, id: &str) -> u64 {
        self.splits.get(id).map_or(0, |split| split.watermark.rows)
    }

    /// What a snapshot keeps.
    pub fn state(&self) -> SourceWatermarksState {
        SourceWatermarksState {
            combined: self.combined,
            splits: self
                .splits
                .iter()
                .map(|(id, split)| (id.clone(), split.watermark.clone()))
                .collect(),
        }
    }

    fn split(&mut self, id: &str) -> &mut Split {
        self.splits
            .get_mut(id)
            .expect("rows come from splits that were added")
    }

    fn combine(&mut self) {
        let active = self.splits.values().filter(|split| !split.watermark.idle);
        if let Some(minimum) = active.map(|split| split.watermark.emitted).min() {
            self.combined = self.combined.max(minimum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn of_splits(strategy: WatermarkStrategy, ids: &[&str]) -> SourceWatermarks {
        let mut watermarks = SourceWatermarks::new(strategy);
        ids.iter().for_each(|id| watermarks.add_split(id));
        watermarks
    }

    /// Rows of a split whose watermark is their time; the steps as (row, W).
    fn rows(
        watermarks: &mut SourceWatermarks,
        id: &str,
        now: i64,
        times: &[i64],
    ) -> Vec<(usize, i64)> {
        watermarks.on_rows(id, times.len(), ProcessingTime(now));
        let steps = watermarks.advance(id, times, times, true);
        steps
            .iter()
            .map(|step| (step.row, step.watermark.millis()))
            .collect()
    }

    #[test]
    fn a_split_without_rows_holds_the_others_back_until_it_ends() {
        let mut watermarks = of_splits(WatermarkStrategy::default(), &["a", "b"]);
        assert_eq!(rows(&mut watermarks, "a", 0, &[10, 20]), []);
        assert_eq!(watermarks.combined(), EventTime::MIN);
        watermarks.split_ended("b");
        assert_eq!(watermarks.combined(), EventTime(20));
        watermarks.split_ended("a");
        assert_eq!(watermarks.status(), WatermarkStatus::Active);
        let without = SourceWatermarks::new(WatermarkStrategy::default());
        assert_eq!(without.status(), WatermarkStatus::Idle);
    }

    #[test]
    fn an_idle_split_is_left_out_until_its_next_row_and_nothing_goes_back() {
        let mut watermarks = of_splits(WatermarkStrategy::default(), &["a", "b"]);
        rows(&mut watermarks, "a", 0, &[10]);
        watermarks.split_idle("b");
        assert_eq!(rows(&mut watermarks, "a", 0, &[65, 66]), [(1, 65)]);
        assert_eq!(rows(&mut watermarks, "b", 0, &[50]), []);
        assert_eq!(watermarks.combined(), EventTime(66));
        assert_eq!(rows(&mut watermarks, "a", 0, &[70, 71]), []);
        assert_eq!(rows(&mut watermarks, "b", 0, &[68, 90]), [(1, 68)]);
    }

    #[test]
    fn the_idle_timeout_counts_processing_time() {
        let strategy = WatermarkStrategy {
            idle_timeout: Some(Duration::from_millis(100)),
            ..WatermarkStrategy::default()
        };
        let mut watermarks = of_splits(strategy, &["a", "b"]);
        watermarks.check_idleness(ProcessingTime(0));
        rows(&mut watermarks, "a", 50, &[10]);
        assert_eq!(watermarks.next_idleness_check(), Some(ProcessingTime(100)));
        watermarks.check_idleness(ProcessingTime(100));
        assert_eq!(watermarks.combined(), EventTime(10));
        assert_eq!(watermarks.status(), WatermarkStatus::Active);
        watermarks.check_idleness(ProcessingTime(150));
        assert_eq!(watermarks.status(), WatermarkStatus::Idle);
    }

    #[test]
    fn a_gap_emits_what_the_nth_row_asks_for_across_batches() {
        let strategy = WatermarkStrategy {
            event_gap: 3,
            ..WatermarkStrategy::default()
        };
        for cuts in [vec![7], vec![1; 7], vec![2, 5], vec![4, 3]] {
            let mut watermarks = of_splits(strategy, &["a"]);
            let times = [10, 30, 20, 40, 15, 50, 60];
            let (mut offset, mut seen) = (0, Vec::new());
            for length in cuts {
                let before = watermarks.combined();
                watermarks.on_rows("a", length, ProcessingTime(0));
                let slice = &times[offset..offset + length];
                let steps = watermarks.advance("a", slice, slice, true);
                seen.extend(steps.expand(before, length));
                offset += length;
            }
            let none = EventTime::MIN;
            let (w20, w50) = (EventTime(20), EventTime(50));
            assert_eq!(seen, [none, none, none, w20, w20, w20, w50]);
        }
    }

    /// Row by row, as if each were a batch of its own.
    #[derive(Default)]
    struct Twin {
        splits: BTreeMap<&'static str, (EventTime, bool)>,
        combined: Option<EventTime>,
    }

    impl Twin {
        fn combine(&mut self) {
            let active = self.splits.values().filter(|(_, idle)| !idle);
            if let Some(least) = active.map(|(watermark, _)| *watermark).min() {
                self.combined = self.combined.max(Some(least));
            }
        }

        fn row(&mut self, id: &'static str, time: i64) -> EventTime {
            let before = self.combined.unwrap_or(EventTime::MIN);
            let split = self.splits.get_mut(id).unwrap();
            *split = (split.0.max(EventTime(time)), false);
            self.combine();
            before
        }
    }

    #[test]
    fn splits_that_go_idle_and_end_agree_with_a_row_by_row_twin() {
        use rand::rngs::SmallRng;
        use rand::{Rng, SeedableRng};
        const IDS: [&str; 4] = ["a", "b", "c", "d"];
        let mut random = SmallRng::seed_from_u64(5);
        for _ in 0..100 {
            let mut watermarks = of_splits(WatermarkStrategy::default(), &IDS);
            let mut twin = Twin::default();
            for id in IDS {
                twin.splits.insert(id, (EventTime::MIN, false));
            }
            for turn in 0..30 {
                let id = IDS[random.random_range(0..4)];
                if !twin.splits.contains_key(id) {
                    continue;
                }
                match random.random_range(0..8) {
                    0 => {
                        watermarks.split_idle(id);
                        twin.splits.get_mut(id).unwrap().1 = true;
                        twin.combine();
                    }
                    1 if twin.splits.len() > 1 => {
                        watermarks.split_ended(id);
                        twin.splits.remove(id);
                        twin.combine();
                    }
                    _ => {
                        let length = random.random_range(1..6);
                        let times: Vec<i64> = (0..length)
                            .map(|_| 5 * turn + random.random_range(0..20))
                            .collect();
                        let before = watermarks.combined();
                        watermarks.on_rows(id, times.len(), ProcessingTime(0));
                        let steps = watermarks.advance(id, &times, &times, true);
                        let expected: Vec<_> = times.iter().map(|t| twin.row(id, *t)).collect();
                        assert_eq!(steps.expand(before, times.len()), expected);
                    }
                }
                assert_eq!(
                    watermarks.combined(),
                    twin.combined.unwrap_or(EventTime::MIN)
                );
            }
        }
    }
}
