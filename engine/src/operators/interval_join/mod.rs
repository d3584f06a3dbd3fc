//! Joins rows whose times lie within bounds of each other.
//!
//! A row meets what the other side has sent before it, at once, and then waits for what comes. It goes when the watermark says
//! that nothing can come any more which it could meet; then, on a side that is kept, it is padded if it met nothing. Such a row
//! comes out later than its time, so the watermark goes out held back by the width of the bounds.

mod cache;
mod keyed;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow::compute;
use arrow::datatypes::SchemaRef;

use super::calc::batch_of;
use super::timed_side::{KEYS_KEPT, KeyNumbers, TimedSide, key_numbers, row_times};
use super::watermark_queue::{TimedWork, WatermarkQueue};
use super::window_buffer::OUTPUT_ROWS;
use super::{Context, Flow, InputIndex, KeyedState, Operator, Output, key_hashes};
use crate::error::Result;
use crate::expr::{CompiledExpression, RowContext};
use crate::state::{GroupTable, StateBackend, StateSnapshot};
use crate::stream::{ChangelogBatch, CheckpointId, WatermarkStep, WatermarkSteps};
use crate::types::{EventTime, JoinKind, ProcessingTime, Schema};

use cache::{CachedRows, ExpiredRow, RowCache};

const STATES: [&str; 2] = ["left", "right"];

/// What an interval join does.
pub struct IntervalJoinSpec {
    /// INNER, LEFT, RIGHT or FULL.
    pub kind: JoinKind,
    /// The left input.
    pub left: TimedSide,
    /// The right input.
    pub right: TimedSide,
    /// For each key whether NULL equals NULL.
    pub null_safe: Vec<bool>,
    /// How far the times of a pair may be apart.
    pub bounds: IntervalBounds,
    /// What else a pair must satisfy, over the left columns, then the right ones.
    pub condition: Option<CompiledExpression>,
    /// Left columns, then right ones.
    pub output: Schema,
}

/// `lower_ms <= left time - right time <= upper_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntervalBounds {
    /// Whether the times are the rows' event times; else the clock's when they come.
    pub is_event_time: bool,
    /// The least difference.
    pub lower_ms: i64,
    /// The greatest difference.
    pub upper_ms: i64,
    /// How much longer than they must rows stay.
    pub min_cleanup_ms: i64,
}

impl IntervalBounds {
    /// How much later than a row of this side the other one's may be.
    fn reach_ms(&self, side: usize) -> i64 {
        if side == 0 {
            self.lower_ms.saturating_neg()
        } else {
            self.upper_ms
        }
    }

    /// The least and the greatest time that a row of the other side may have.
    fn window(&self, side: usize, time: i64) -> (i64, i64) {
        let least = time.saturating_sub(self.reach_ms(1 - side));
        (least, time.saturating_add(self.reach_ms(side)))
    }

    /// The last time of this side's rows that nothing can meet any more at `now`.
    fn expired_by(&self, side: usize, now: i64) -> i64 {
        match now {
            i64::MAX => i64::MAX,
            now => now.saturating_sub(self.stay_ms(side)),
        }
    }

    /// How long behind its own time a row of this side stays.
    fn stay_ms(&self, side: usize) -> i64 {
        let reach = self.reach_ms(side).saturating_add(1);
        reach.saturating_add(self.min_cleanup_ms)
    }

    fn is_empty(&self) -> bool {
        self.lower_ms > self.upper_ms
    }

    /// The watermark of the output at `watermark` of the inputs.
    fn held_back(&self, watermark: EventTime) -> EventTime {
        if watermark == EventTime::MAX || !self.is_event_time || self.is_empty() {
            return watermark;
        }
        let by = self.reach_ms(0).max(self.reach_ms(1));
        EventTime(watermark.millis().saturating_sub(by))
    }
}

/// Takes inserts, gives inserts. State: of each side the rows that the other side may still meet.
pub struct IntervalJoinOperator {
    spec: IntervalJoinSpec,
    schema: SchemaRef,
    backend: Arc<dyn StateBackend>,
    keys: GroupTable,
    caches: [RowCache; 2],
    watermarks: WatermarkQueue,
    /// The watermark up to which rows have expired.
    fired: EventTime,
    work: VecDeque<TimedWork>,
    probing: Option<Probing>,
    expiring: Option<Expiring>,
}

/// Rows that are meeting the other side.
struct Probing {
    side: usize,
    rows: RecordBatch,
    keys: KeyNumbers,
    times: Vec<i64>,
    paired: Vec<bool>,
    /// Where the walk is: a row, and how many candidates of its are done.
    next: (usize, usize),
}

/// Rows that go, those without a pair padded on their way out.
struct Expiring {
    watermarks: Vec<EventTime>,
    rows: [Vec<ExpiredRow>; 2],
    /// How many of each side have been emitted.
    next: [usize; 2],
}

/// Candidates: rows of the batch beside rows of the cache.
struct Candidates {
    rows: Vec<u32>,
    cached: Vec<u32>,
}

impl IntervalJoinOperator {
    /// An operator as `spec` says.
    pub fn new(spec: IntervalJoinSpec, backend: Arc<dyn StateBackend>) -> Result<Self> {
        let cache = |side: &TimedSide| RowCache::new(side.schema.to_arrow());
        Ok(IntervalJoinOperator {
            schema: spec.output.to_arrow(),
            keys: backend.group_table(&spec.left.key_types(), 0)?,
            backend,
            caches: [cache(&spec.left), cache(&spec.right)],
            watermarks: WatermarkQueue::new(),
            fired: EventTime::MIN,
            work: VecDeque::new(),
            probing: None,
            expiring: None,
            spec,
        })
    }

    fn side(&self, side: usize) -> &TimedSide {
        match side {
            0 => &self.spec.left,
            _ => &self.spec.right,
        }
    }

    /// Whether rows of a side without a pair are emitted.
    fn keeps(&self, side: usize) -> bool {
        match side {
            0 => self.spec.kind.keeps_left(),
            _ => self.spec.kind.keeps_right(),
        }
    }

    fn work_off(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        loop {
            if self.probe(ctx, out)? == Flow::Blocked || self.expire(out)? == Flow::Blocked {
                return Ok(Flow::Blocked);
            }
            match self.work.pop_front() {
                None => return Ok(Flow::Done),
                Some(TimedWork::Rows(input, batch)) => self.start_probing(ctx, input.0, batch)?,
                Some(TimedWork::Fire(watermarks)) => self.start_expiring(ctx, watermarks),
            }
        }
    }

    fn start_probing(&mut self, ctx: &Context, side: usize, batch: ChangelogBatch) -> Result<()> {
        debug_assert!(
            batch.kinds.is_insert_only(),
            "an interval join takes inserts"
        );
        let times = match self.spec.bounds.is_event_time {
            true => row_times(&batch.rows, self.side(side).time)?.to_vec(),
            false => vec![ctx.processing_time().millis(); batch.num_rows()],
        };
        let columns = &self.side(side).keys;
        let hashes = key_hashes(&batch, columns)?;
        let columns = columns.clone();
        let keys = self.key_numbers(&batch.rows, &columns, hashes.values())?;
        self.probing = Some(Probing {
            side,
            keys,
            times,
            paired: vec![false; batch.num_rows()],
            rows: batch.rows,
            next: (0, 0),
        });
        Ok(())
    }

    fn key_numbers(
        &mut self,
        rows: &RecordBatch,
        columns: &[usize],
        hashes: &[u64],
    ) -> Result<KeyNumbers> {
        key_numbers(&mut self.keys, rows, columns, &self.spec.null_safe, hashes)
    }

    /// Emits the pairs of new rows with what the other side has sent, as the output takes them; then the rows wait.
    fn probe(&mut self, ctx: &Context, out: &mut Output) -> Result<Flow> {
        let Some(mut probing) = self.probing.take() else {
            return Ok(Flow::Done);
        };
        loop {
            if out.is_full() {
                self.probing = Some(probing);
                return Ok(Flow::Blocked);
            }
            let Some(candidates) = self.next_candidates(&mut probing) else {
                break;
            };
            out.emit(self.pairs(ctx, &mut probing, candidates)?);
        }
        self.keep(probing, out)?;
        Ok(Flow::Done)
    }

    /// At most [`OUTPUT_ROWS`] of them; `None` at the end.
    fn next_candidates(&self, probing: &mut Probing) -> Option<Candidates> {
        let cache = &self.caches[1 - probing.side];
        let (mut rows, mut cached) = (Vec::new(), Vec::new());
        let (mut row, mut done) = probing.next;
        while row < probing.times.len() && rows.len() < OUTPUT_ROWS {
            if let Some(key) = probing.keys.joining(row) {
                let window = self.spec.bounds.window(probing.side, probing.times[row]);
                let wanted = OUTPUT_ROWS - rows.len();
                cached.extend(cache.within(key, window, done).take(wanted));
                let taken = cached.len() - rows.len();
                rows.resize(cached.len(), row as u32);
                if taken == wanted {
                    done += taken;
                    continue;
                }
            }
            (row, done) = (row + 1, 0);
        }
        probing.next = (row, done);
        (!rows.is_empty()).then_some(Candidates { rows, cached })
    }

    /// The candidates that satisfy the condition, noted as paired.
    fn pairs(
        &mut self,
        ctx: &Context,
        probing: &mut Probing,
        candidates: Candidates,
    ) -> Result<ChangelogBatch> {
        let Candidates { rows, cached } = candidates;
        let other = 1 - probing.side;
        let indices = UInt32Array::from(rows.clone());
        let own = compute::take_record_batch(&probing.rows, &indices)?;
        let others = self.caches[other].rows().gather(&cached)?;
        let (left, right) = match probing.side {
            0 => (own, others),
            _ => (others, own),
        };
        let columns = [left.columns(), right.columns()].concat();
        let mut joined = batch_of(&self.schema, columns, rows.len())?;
        let mut satisfied: Vec<usize> = (0..rows.len()).collect();
        if let Some(condition) = &self.spec.condition {
            let context = RowContext {
                processing_time: ctx.processing_time(),
                watermark: ctx.watermark(),
                steps: &WatermarkSteps::NONE,
            };
            let mask = condition.evaluate_mask(&joined, &context)?;
            joined = compute::filter_record_batch(&joined, &mask)?;
            satisfied.retain(|pair| mask.value(*pair));
        }
        for pair in satisfied {
            probing.paired[rows[pair] as usize] = true;
            self.caches[other].mark_paired(cached[pair]);
        }
        Ok(ChangelogBatch::insert_only(joined))
    }

    /// Keeps the rows that may still meet something; of the others those without a pair are padded.
    fn keep(&mut self, probing: Probing, out: &mut Output) -> Result<()> {
        let side = probing.side;
        let is_event_time = self.spec.bounds.is_event_time;
        let keeps = self.keeps(side);
        let (mut waiting, mut alone) = (Vec::new(), Vec::new());
        for row in 0..probing.times.len() {
            let (_, last) = self.spec.bounds.window(side, probing.times[row]);
            let now = if is_event_time {
                self.fired.millis()
            } else {
                probing.times[row]
            };
            if probing.keys.joining(row).is_none() && !keeps {
                continue;
            }
            if now < last {
                waiting.push(row as u32);
            } else if keeps && !probing.paired[row] {
                alone.push(row as u32);
            }
        }
        let known = CachedRows {
            keys: &probing.keys.numbers,
            times: &probing.times,
            paired: &probing.paired,
        };
        self.caches[side].add(&probing.rows, &waiting, &known)?;
        let alone = UInt32Array::from(alone);
        let rows = compute::take_record_batch(&probing.rows, &alone)?;
        out.emit(ChangelogBatch::insert_only(self.padded(side, &rows)?));
        Ok(())
    }

    /// Rows of a side beside NULLs.
    fn padded(&self, side: usize, rows: &RecordBatch) -> Result<RecordBatch> {
        let nulls: Vec<ArrayRef> = self
            .side(1 - side)
            .schema
            .to_arrow()
            .fields()
            .iter()
            .map(|field| new_null_array(field.data_type(), rows.num_rows()))
            .collect();
        let (left, right) = match side {
            0 => (rows.columns(), &nulls[..]),
            _ => (&nulls[..], rows.columns()),
        };
        batch_of(&self.schema, [left, right].concat(), rows.num_rows())
    }

    fn start_expiring(&mut self, ctx: &mut Context, watermarks: Vec<EventTime>) {
        let last = watermarks.last().map_or(self.fired, |last| *last);
        self.fired = self.fired.max(last);
        if last > ctx.watermark() {
            ctx.advance_watermark(last);
        }
        let rows = self.expired_at(ctx, last.millis());
        self.expiring = Some(Expiring {
            watermarks,
            rows,
            next: [0, 0],
        });
    }

    /// Takes the rows out that go, and tells whose they are.
    fn expired_at(&mut self, ctx: &mut Context, now: i64) -> [Vec<ExpiredRow>; 2] {
        [0, 1].map(|side| {
            let last = self.spec.bounds.expired_by(side, now);
            let rows = self.caches[side].expire(last);
            if ctx.tracks_changed_keys() {
                let key = |row: &ExpiredRow| self.caches[side].key(row.row) as usize;
                let hash = |row: &ExpiredRow| self.keys.hashes()[key(row)];
                let hashes: Vec<u64> = rows.iter().map(hash).collect();
                ctx.keys_changed(&hashes);
            }
            rows
        })
    }

    /// Emits what expires without a pair, as the output takes it; then the watermark goes out.
    fn expire(&mut self, out: &mut Output) -> Result<Flow> {
        let Some(mut expiring) = self.expiring.take() else {
            return Ok(Flow::Done);
        };
        while let Some((side, range)) = self.next_expired(&expiring) {
            if out.is_full() {
                self.expiring = Some(expiring);
                return Ok(Flow::Blocked);
            }
            let rows = &expiring.rows[side][range.clone()];
            let alone: Vec<ExpiredRow> = rows.iter().filter(|row| !row.paired).copied().collect();
            if self.keeps(side) && !alone.is_empty() {
                out.emit(self.expired(side, &alone, &expiring.watermarks)?);
            }
            let gone: Vec<u32> = rows.iter().map(|row| row.row).collect();
            self.caches[side].remove(&gone)?;
            expiring.next[side] = range.end;
        }
        if let Some(last) = expiring.watermarks.last() {
            out.watermark(self.spec.bounds.held_back(*last));
        }
        self.forget_keys();
        Ok(Flow::Done)
    }

    /// Forgets the keys without rows once they are most of all keys.
    fn forget_keys(&mut self) {
        let rows: usize = self.caches.iter().map(|cache| cache.rows().len()).sum();
        if self.keys.len() < KEYS_KEPT.max(4 * rows) {
            return;
        }
        let live = self.live_keys();
        self.keys.keep(&live);
        for cache in &mut self.caches {
            cache.keep_keys(&live);
        }
    }

    /// The keys with rows.
    fn live_keys(&self) -> Vec<u32> {
        let has_rows = |key: &u32| self.caches.iter().any(|cache| cache.has_rows(*key));
        (0..self.keys.len() as u32).filter(has_rows).collect()
    }

    /// The next rows to go, all of one side and of one watermark: by watermark, the left side first.
    fn next_expired(&self, expiring: &Expiring) -> Option<(usize, std::ops::Range<usize>)> {
        let fire = |side: usize| {
            let row = expiring.rows[side].get(expiring.next[side])?;
            Some(self.fire_of(side, row.time, &expiring.watermarks))
        };
        let (side, fire) = match (fire(0), fire(1)) {
            (Some(left), Some(right)) if right < left => (1, right),
            (Some(left), _) => (0, left),
            (None, Some(right)) => (1, right),
            (None, None) => return None,
        };
        let other = expiring.rows[1 - side].get(expiring.next[1 - side]);
        let until = match other {
            None => usize::MAX,
            Some(other) => self
                .fire_of(1 - side, other.time, &expiring.watermarks)
                .max(fire),
        };
        let rows = &expiring.rows[side][expiring.next[side]..];
        let count = rows.partition_point(|row| {
            let of_row = self.fire_of(side, row.time, &expiring.watermarks);
            of_row < until || of_row == fire
        });
        let first = expiring.next[side];
        Some((side, first..first + count.min(OUTPUT_ROWS)))
    }

    /// Which of the watermarks makes a row go.
    fn fire_of(&self, side: usize, time: i64, watermarks: &[EventTime]) -> usize {
        let bounds = &self.spec.bounds;
        watermarks.partition_point(|watermark| bounds.expired_by(side, watermark.millis()) < time)
    }

    /// Padded rows, with the watermarks between them that they can feel.
    fn expired(
        &self,
        side: usize,
        rows: &[ExpiredRow],
        watermarks: &[EventTime],
    ) -> Result<ChangelogBatch> {
        let mut steps = WatermarkSteps::NONE;
        for (row, expired) in rows.iter().enumerate() {
            let fire = self.fire_of(side, expired.time, watermarks);
            let before = fire.checked_sub(1).and_then(|fire| watermarks.get(fire));
            let before = before.map(|watermark| self.spec.bounds.held_back(*watermark));
            if let Some(watermark) = before
                && expired.time <= watermark.millis().saturating_add(1)
            {
                steps.push(WatermarkStep { row, watermark });
            }
        }
        let ids: Vec<u32> = rows.iter().map(|row| row.row).collect();
        let rows = self.caches[side].rows().gather(&ids)?;
        Ok(ChangelogBatch {
            steps,
            ..ChangelogBatch::insert_only(self.padded(side, &rows)?)
        })
    }

    /// Bounds that no pair can keep: rows of a side that is kept are padded at once, others are dropped.
    fn without_pairs(&self, side: usize, batch: ChangelogBatch) -> Result<ChangelogBatch> {
        let rows = self.padded(side, &batch.rows)?;
        Ok(batch.with_rows(rows))
    }
}

impl Operator for IntervalJoinOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        let bounds = self.spec.bounds;
        if bounds.is_empty() {
            if self.keeps(input.0) {
                out.emit(self.without_pairs(input.0, batch)?);
            }
            return Ok(Flow::Done);
        }
        if !bounds.is_event_time {
            self.work.push_back(TimedWork::Rows(input, batch));
            return self.work_off(ctx, out);
        }
        self.fired = self.fired.max(ctx.watermark());
        // A row can tell watermarks apart where it comes behind them, or where all it could meet does.
        let times = row_times(&batch.rows, self.side(input.0).time)?;
        let reach = bounds.reach_ms(input.0).min(0);
        let felt: Vec<i64> = times
            .iter()
            .map(|time| time.saturating_add(reach))
            .collect();
        self.watermarks
            .rows(ctx.watermark(), input, &batch, &felt, &mut self.work);
        self.work_off(ctx, out)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        if self.spec.bounds.is_empty() || !self.spec.bounds.is_event_time {
            out.watermark(watermark);
            return Ok(Flow::Done);
        }
        self.watermarks.watermark(watermark, &mut self.work);
        self.work_off(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.work_off(ctx, out)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        if self.spec.bounds.is_event_time {
            return None;
        }
        let due = |side: usize| {
            let first = self.caches[side].first_time()?;
            Some(first.saturating_add(self.spec.bounds.stay_ms(side)))
        };
        let due = [due(0), due(1)].into_iter().flatten().min();
        due.map(ProcessingTime)
    }

    fn on_processing_time(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        let now = ctx.processing_time().millis();
        let rows = self.expired_at(ctx, now);
        self.expiring = Some(Expiring {
            watermarks: Vec::new(),
            rows,
            next: [0, 0],
        });
        self.work_off(ctx, out)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        debug_assert!(
            self.watermarks.is_empty(),
            "a watermark follows every batch with steps, before a barrier does"
        );
        self.snapshot_keyed(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        let tables = STATES.into_iter().zip(&self.caches);
        tables
            .map(|(name, cache)| (name.to_string(), cache.snapshot_schema()))
            .collect()
    }

    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        self.watermarks.restore(ctx.watermark());
        self.fired = ctx.watermark();
        self.load_keyed(ctx, &snapshot)
    }

    fn keyed_state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }
}

#[cfg(test)]
mod tests;
