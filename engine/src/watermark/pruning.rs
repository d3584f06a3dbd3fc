//! Which watermark steps a batch must carry: those that a later row of the batch can feel.
//!
//! `W` before row `r` is the highest watermark that the rows before it asked for, capped by the other splits. A step is
//! felt by a row with a time at or before `W + 1 ms`: only such a row can be late to a window that `W` fires, or touch a
//! session that ends there. On data in order there is none, and two reductions over a run of rows prove it without a look
//! at each row.

use crate::stream::{WatermarkStep, WatermarkSteps};
use crate::types::EventTime;

/// Rows that are judged together: either none of them feels a step, or they are looked at one by one.
const RUN: usize = 256;

/// What is known of the time before a batch of one split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatermarkAdvance {
    /// The combined watermark that has been emitted.
    pub emitted: EventTime,
    /// The watermark of the batch's own split.
    pub split: EventTime,
    /// The minimum over the other active splits; `EventTime::MAX` where there is none.
    pub others: EventTime,
}

impl WatermarkAdvance {
    /// The combined watermark once the split has come to `split`; never below what has been emitted.
    fn combined(&self, split: i64) -> i64 {
        split.min(self.others.millis()).max(self.emitted.millis())
    }
}

/// The steps of a batch whose rows have these `times` and ask for these `watermarks` (milliseconds; `EventTime::MIN` for
/// none), and the split's watermark behind the batch. `keep_all`: keep also the steps that no row feels.
pub fn watermark_steps(
    before: WatermarkAdvance,
    times: &[i64],
    watermarks: &[i64],
    keep_all: bool,
) -> (WatermarkSteps, EventTime) {
    assert_eq!(times.len(), watermarks.len(), "a watermark for each row");
    let mut scan = StepScan {
        before,
        keep_all,
        split: before.split.millis(),
        known: before.emitted.millis(),
        reached: before.emitted.millis(),
        reached_at: 0,
        steps: WatermarkSteps::NONE,
    };
    for offset in (0..times.len()).step_by(RUN) {
        let end = (offset + RUN).min(times.len());
        scan.run(offset, &times[offset..end], &watermarks[offset..end]);
    }
    (scan.steps, EventTime(scan.split))
}

struct StepScan {
    before: WatermarkAdvance,
    keep_all: bool,
    /// The split's watermark so far.
    split: i64,
    /// The combined watermark that rows know of: emitted before, or a kept step.
    known: i64,
    /// The combined watermark so far, and the first row behind it.
    reached: i64,
    reached_at: usize,
    steps: WatermarkSteps,
}

impl StepScan {
    fn run(&mut self, offset: usize, times: &[i64], watermarks: &[i64]) {
        let highest = watermarks.iter().fold(self.split, |max, w| max.max(*w));
        let reach = self.before.combined(highest);
        let feels = |earliest: i64| earliest <= reach.saturating_add(1);
        if reach > self.known
            && (self.keep_all || feels(times.iter().fold(i64::MAX, |min, t| min.min(*t))))
        {
            self.rows(offset, times, watermarks);
        }
        self.split = highest;
    }

    fn rows(&mut self, offset: usize, times: &[i64], watermarks: &[i64]) {
        let mut split = self.split;
        for (row, time) in times.iter().enumerate() {
            let combined = self.before.combined(split);
            // A split that wakes up ahead of the others counts only behind its first row.
            if combined > self.reached && offset + row > 0 {
                self.reached = combined;
                self.reached_at = offset + row;
            }
            let felt = self.keep_all || *time <= self.reached.saturating_add(1);
            if felt && self.reached > self.known {
                self.known = self.reached;
                self.steps.push(WatermarkStep {
                    row: self.reached_at,
                    watermark: EventTime(self.reached),
                });
            }
            split = split.max(watermarks[row]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    const START: WatermarkAdvance = WatermarkAdvance {
        emitted: EventTime::MIN,
        split: EventTime::MIN,
        others: EventTime::MAX,
    };

    fn steps(times: &[i64], delay: i64) -> Vec<(usize, i64)> {
        let watermarks: Vec<i64> = times.iter().map(|time| time - delay).collect();
        let (steps, _) = watermark_steps(START, times, &watermarks, false);
        steps
            .iter()
            .map(|step| (step.row, step.watermark.millis()))
            .collect()
    }

    #[test]
    fn rows_in_order_carry_no_step() {
        assert_eq!(steps(&[10, 20, 30, 40], 0), []);
    }

    #[test]
    fn a_row_behind_the_watermark_feels_the_step_before_it() {
        assert_eq!(steps(&[10, 90, 20, 95], 5), [(2, 85)]);
    }

    #[test]
    fn a_row_one_millisecond_ahead_feels_it_and_two_does_not() {
        assert_eq!(steps(&[10, 11], 0), [(1, 10)]);
        assert_eq!(steps(&[10, 12], 0), []);
    }

    #[test]
    fn other_splits_cap_the_watermark() {
        let before = WatermarkAdvance {
            others: EventTime(50),
            ..START
        };
        let (steps, split) = watermark_steps(before, &[100, 40, 60], &[100, 40, 60], false);
        assert_eq!(
            steps.iter().collect::<Vec<_>>(),
            [WatermarkStep {
                row: 1,
                watermark: EventTime(50)
            }]
        );
        assert_eq!(split, EventTime(100));
    }

    /// Row by row: the watermark before each row, and whether the row feels it.
    fn twin(before: WatermarkAdvance, times: &[i64], watermarks: &[i64]) -> Vec<(EventTime, bool)> {
        let mut split = before.split;
        let mut rows = Vec::new();
        for (row, (time, asked)) in times.iter().zip(watermarks).enumerate() {
            let w = if row == 0 {
                before.emitted
            } else {
                split.min(before.others).max(before.emitted)
            };
            rows.push((w, *time <= w.millis().saturating_add(1)));
            split = split.max(EventTime(*asked));
        }
        rows
    }

    #[test]
    fn random_batches_agree_with_the_row_by_row_twin() {
        let mut random = SmallRng::seed_from_u64(7);
        for _ in 0..300 {
            let length = random.random_range(0..700);
            let disorder = random.random_range(1..60);
            let times: Vec<i64> = (0..length)
                .map(|row| row / 3 + random.random_range(0..disorder))
                .collect();
            let watermarks: Vec<i64> = times
                .iter()
                .map(|time| {
                    if random.random_bool(0.1) {
                        i64::MIN
                    } else {
                        time - random.random_range(0..30)
                    }
                })
                .collect();
            let mut some = |none: EventTime| {
                if random.random_bool(0.5) {
                    EventTime(random.random_range(0..100))
                } else {
                    none
                }
            };
            let before = WatermarkAdvance {
                emitted: some(EventTime::MIN),
                split: some(EventTime::MIN),
                others: some(EventTime::MAX),
            };
            let expected = twin(before, &times, &watermarks);
            let (all, behind) = watermark_steps(before, &times, &watermarks, true);
            let (some, same) = watermark_steps(before, &times, &watermarks, false);
            assert_eq!(behind, same);
            let all = all.expand(before.emitted, times.len());
            let some = some.expand(before.emitted, times.len());
            for (row, (watermark, felt)) in expected.into_iter().enumerate() {
                assert_eq!(all[row], watermark, "row {row}");
                assert!(some[row] <= watermark, "row {row} is ahead of its time");
                assert!(!felt || some[row] == watermark, "row {row} misses a step");
            }
        }
    }
}
