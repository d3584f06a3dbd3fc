//! MATCH_RECOGNIZE: finds sequences of rows by a pattern, in the order of time, for each key.
//!
//! Rows wait until the watermark reaches them and are then shown to their key one by one; see [`matcher`] for how matches are
//! found. Conditions that ask only for the row itself are evaluated for all rows at once; the others see the values that
//! they name of the rows of the match so far. Rows are kept as long as a match may still need them. Measures are computed
//! for all matches of a release at once.

mod keyed;
mod matcher;
#[cfg(test)]
mod tests;
mod values;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{self, SortColumn, SortOptions};
use arrow::datatypes::{DataType, Field as ArrowField, Schema as ArrowSchema, SchemaRef};

use self::matcher::{Candidate, KeyMatcher, Match};
use self::values::MatchValues;
use super::null_times::without_null_times;

use super::over_aggregate::{Waiting, WaitingRow, late_rows};
use super::window_buffer::OUTPUT_ROWS;
use super::{Context, Flow, InputIndex, KeyedState, Operator, Output, key_hashes};
use crate::error::Result;
use crate::expr::{CompiledExpression, Expression, ExpressionContext, RowContext, compile};
use crate::functions::{MatchPattern, Navigation};
use crate::state::{GroupTable, RowSlab, StateSnapshot};
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{EventTime, ProcessingTime, Schema, SortKey};
use crate::watermark::event_time_millis;

/// Tables with fewer groups are never cleaned up.
const CLEAN_UP_GROUPS: usize = if cfg!(test) { 8 } else { 65_536 };

/// What a MATCH_RECOGNIZE does.
#[derive(Debug, Clone)]
pub struct MatchSpec {
    /// The columns of the input.
    pub input: Schema,
    /// PARTITION BY columns, then measures.
    pub output: Schema,
    /// PARTITION BY.
    pub partition_by: Vec<usize>,
    /// The event-time column of ORDER BY; `None`: processing time.
    pub time_column: Option<usize>,
    /// What else rows of one time are ordered by.
    pub then_by: Vec<SortKey>,
    /// The pattern.
    pub pattern: MatchPattern,
    /// The values that conditions and measures read as columns, with their types.
    pub navigations: Vec<(Navigation, DataType)>,
    /// The condition of each step of the pattern; `None`: any row.
    pub conditions: Vec<Option<Expression>>,
    /// The measures.
    pub measures: Vec<Expression>,
    /// The time zone.
    pub context: ExpressionContext,
}

/// See the file. Input and output are insert-only.
pub struct MatchOperator {
    spec: MatchSpec,
    output: SchemaRef,
    values: MatchValues,
    conditions: Vec<Option<Condition>>,
    measures: Vec<CompiledExpression>,
    keys: GroupTable,
    matchers: Vec<KeyMatcher>,
    /// Groups in which a match has begun, by the time at which the first of theirs is too long.
    timeouts: BTreeSet<(i64, u32)>,
    /// How many groups are of no key any more.
    taken_out: usize,
    /// At how many groups those without rows are looked for.
    clean_up_at: usize,
    waiting: Waiting,
    /// Rows that matches may need.
    rows: RowSlab,
    work: VecDeque<Work>,
}

struct Condition {
    expression: CompiledExpression,
    /// Reads nothing but the row in question.
    by_row: bool,
}

enum Work {
    Fire(EventTime),
    Watermark(EventTime),
}

impl MatchOperator {
    /// An operator as `spec` says. Fails where an expression cannot be compiled.
    pub fn new(spec: MatchSpec) -> Result<Self> {
        let values = MatchValues::new(&spec.navigations)?;
        let conditions = spec.conditions.iter().enumerate().map(|(step, condition)| {
            let Some(condition) = condition else {
                return Ok(None);
            };
            let by_row = condition
                .columns()
                .iter()
                .all(|column| values.is_of_row(*column, step));
            let expression = compile(condition, &spec.context)?;
            Ok(Some(Condition { expression, by_row }))
        });
        let conditions = conditions.collect::<Result<Vec<_>>>()?;
        let measures = spec.measures.iter();
        let measures = measures
            .map(|measure| compile(measure, &spec.context))
            .collect::<Result<Vec<_>>>()?;
        let key_types: Vec<DataType> = spec
            .partition_by
            .iter()
            .map(|column| spec.input.fields[*column].logical_type.to_arrow())
            .collect();
        Ok(MatchOperator {
            output: spec.output.to_arrow(),
            values,
            conditions,
            measures,
            keys: GroupTable::new(&key_types)?,
            matchers: Vec::new(),
            timeouts: BTreeSet::new(),
            taken_out: 0,
            clean_up_at: CLEAN_UP_GROUPS,
            waiting: Waiting::new(spec.input.to_arrow()),
            rows: RowSlab::new(spec.input.to_arrow()),
            work: VecDeque::new(),
            spec,
        })
    }

    fn groups(&mut self, batch: &ChangelogBatch) -> Result<Vec<u32>> {
        let hashes = key_hashes(batch, &self.spec.partition_by)?;
        let keys: Vec<ArrayRef> = self
            .spec
            .partition_by
            .iter()
            .map(|column| batch.rows.column(*column).clone())
            .collect();
        let mut groups = Vec::new();
        self.keys.resolve(&keys, hashes.values(), &mut groups)?;
        self.matchers
            .resize_with(self.keys.len(), KeyMatcher::default);
        Ok(groups)
    }

    fn drive(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Watermark(watermark) => out.watermark(watermark),
                Work::Fire(watermark) if out.is_full() => {
                    self.work.push_front(Work::Fire(watermark));
                    return Ok(Flow::Blocked);
                }
                Work::Fire(watermark) => {
                    let due = self.waiting.due(watermark, OUTPUT_ROWS);
                    if due.is_empty() {
                        let matches = self.prune(ctx, watermark.millis())?;
                        self.emit(ctx, matches, out)?;
                        continue;
                    }
                    let rows = self.waiting.take(&due)?;
                    let (rows, due) = self.in_order(rows, due)?;
                    self.show(ctx, &rows, &due, out)?;
                    self.work.push_front(Work::Fire(watermark));
                }
            }
        }
        Ok(Flow::Done)
    }

    /// Rows of one time in the order of the other keys.
    fn in_order(
        &self,
        rows: RecordBatch,
        due: Vec<WaitingRow>,
    ) -> Result<(RecordBatch, Vec<WaitingRow>)> {
        if self.spec.then_by.is_empty() {
            return Ok((rows, due));
        }
        let column = |values: ArrayRef, descending: bool, nulls_first: bool| SortColumn {
            values,
            options: Some(SortOptions {
                descending,
                nulls_first,
            }),
        };
        let times = due.iter().map(|row| row.time);
        let times: ArrayRef = Arc::new(arrow::array::Int64Array::from_iter_values(times));
        let arrival: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..due.len() as u32));
        let mut columns = vec![column(times, false, true)];
        columns.extend(self.spec.then_by.iter().map(|key| {
            column(
                rows.column(key.column).clone(),
                key.descending,
                key.nulls_first,
            )
        }));
        columns.push(column(arrival, false, true));
        let order = compute::lexsort_to_indices(&columns, None)?;
        let rows = compute::take_record_batch(&rows, &order)?;
        let due = order.values().iter().map(|row| due[*row as usize]);
        Ok((rows, due.collect()))
    }

    /// Shows rows to their keys, and emits the matches that come of it.
    fn show(
        &mut self,
        ctx: &mut Context,
        rows: &RecordBatch,
        released: &[WaitingRow],
        out: &mut Output,
    ) -> Result<()> {
        self.tell_changed(ctx, released.iter().map(|row| row.group));
        let now = row_context(ctx);
        let mut ids = Vec::with_capacity(released.len());
        self.rows.insert(rows, &mut ids)?;
        let decided = self.decided(rows, &now)?;
        let mut matches = Vec::new();
        let mut freed = Vec::new();
        for (row, released) in released.iter().enumerate() {
            let (values, slab, conditions) = (&self.values, &self.rows, &self.conditions);
            let mut holds = |candidate: &Candidate| -> Result<bool> {
                let Some(condition) = &conditions[candidate.step] else {
                    return Ok(true);
                };
                if let Some(decided) = &decided[candidate.step] {
                    return Ok(decided.value(row));
                }
                let read = condition.expression.expression().columns();
                let values = values.row(&read, candidate, slab)?;
                Ok(condition.expression.evaluate_mask(&values, &now)?.value(0))
            };
            let matcher = &mut self.matchers[released.group as usize];
            let before = timeout(matcher, &self.spec.pattern);
            let found = matcher.show(
                &self.spec.pattern,
                released.time,
                ids[row],
                &mut holds,
                &mut freed,
            )?;
            matches.extend(found.into_iter().map(|found| (released.group, found)));
            self.note_timeout(released.group, before);
        }
        self.emit(ctx, matches, out)?;
        self.rows.remove(&freed)
    }

    /// For each condition that reads the row alone, whether it holds for each row.
    fn decided(&self, rows: &RecordBatch, now: &RowContext) -> Result<Vec<Option<BooleanArray>>> {
        let decide = |condition: &Option<Condition>| match condition {
            Some(condition) if condition.by_row => {
                let read = condition.expression.expression().columns();
                let values = self.values.of_rows(&read, rows)?;
                condition.expression.evaluate_mask(&values, now).map(Some)
            }
            _ => Ok(None),
        };
        self.conditions.iter().map(decide).collect()
    }

    /// Notes when the first match of a group is too long, which was `before`.
    fn note_timeout(&mut self, group: u32, before: Option<i64>) {
        let now = timeout(&self.matchers[group as usize], &self.spec.pattern);
        if now == before {
            return;
        }
        if let Some(time) = before {
            self.timeouts.remove(&(time, group));
        }
        if let Some(time) = now {
            self.timeouts.insert((time, group));
        }
    }

    /// Gives up matches that would be too long by now; those that waited for them come out.
    fn prune(&mut self, ctx: &mut Context, time: i64) -> Result<Vec<(u32, Match)>> {
        let due = self.timeouts.iter().take_while(|(due, _)| *due <= time);
        let mut groups: Vec<u32> = due.map(|(_, group)| *group).collect();
        groups.sort_unstable();
        self.tell_changed(ctx, groups.iter().copied());
        let mut matches = Vec::new();
        let mut freed = Vec::new();
        for group in groups {
            let matcher = &mut self.matchers[group as usize];
            let before = timeout(matcher, &self.spec.pattern);
            let found = matcher.prune(&self.spec.pattern, time, &mut freed)?;
            matches.extend(found.into_iter().map(|found| (group, found)));
            self.note_timeout(group, before);
        }
        // What matches refer to stays until they are out.
        self.values.free_later(freed);
        Ok(matches)
    }

    fn tell_changed(&self, ctx: &mut Context, groups: impl Iterator<Item = u32>) {
        if ctx.tracks_changed_keys() {
            let hashes = self.keys.hashes();
            let hashes: Vec<u64> = groups.map(|group| hashes[group as usize]).collect();
            ctx.keys_changed(&hashes);
        }
    }

    fn emit(&mut self, ctx: &Context, matches: Vec<(u32, Match)>, out: &mut Output) -> Result<()> {
        if !matches.is_empty() {
            let groups: Vec<u32> = matches.iter().map(|(group, _)| *group).collect();
            let mut columns = self.keys.keys(&crate::state::Groups::Ids(&groups))?;
            let found: Vec<Match> = matches.into_iter().map(|(_, found)| found).collect();
            let values = self.values.of_matches(&found, &self.rows)?;
            let now = row_context(ctx);
            for measure in &self.measures {
                columns.push(measure.evaluate(&values, &now)?);
            }
            let rows = RecordBatch::try_new(self.output.clone(), columns)?;
            out.emit(ChangelogBatch::insert_only(rows));
        }
        let freed = self.values.take_freed();
        self.rows.remove(&freed)
    }

    fn take_in(
        &mut self,
        ctx: &mut Context,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<()> {
        self.clean_up(ctx)?;
        let Some(column) = self.spec.time_column else {
            let groups = self.groups(&batch)?;
            let time = ctx.processing_time().millis();
            let matches = self.prune(ctx, time)?;
            self.emit(ctx, matches, out)?;
            let released: Vec<WaitingRow> = (0..)
                .zip(groups)
                .map(|(id, group)| WaitingRow { time, group, id })
                .collect();
            return self.show(ctx, &batch.rows, &released, out);
        };
        let times = event_time_millis(batch.rows.column(column))?;
        let groups = self.groups(&batch)?;
        let watermarks = batch.steps.expand(ctx.watermark(), batch.num_rows());
        let late: Vec<bool> = (0..groups.len())
            .map(|row| times[row] <= watermarks[row].millis())
            .collect();
        if late.contains(&true) {
            out.late(ctx, late_rows(&batch.rows, &late, &watermarks, out)?);
        }
        let kept: Vec<u32> = (0..groups.len())
            .filter(|row| !late[*row])
            .map(|row| row as u32)
            .collect();
        let rows: Vec<(i64, u32)> = kept
            .iter()
            .map(|row| (times[*row as usize], groups[*row as usize]))
            .collect();
        self.waiting.add(&batch.rows, &kept, &rows)
    }

    fn without_null_times(&self, ctx: &Context, batch: ChangelogBatch) -> Result<ChangelogBatch> {
        let Some(column) = self.spec.time_column else {
            return Ok(batch);
        };
        without_null_times(ctx, batch, column)
    }
}

/// When the first match in the making is too long.
fn timeout(matcher: &KeyMatcher, pattern: &MatchPattern) -> Option<i64> {
    let first = matcher.rows.front().filter(|_| !matcher.is_idle())?;
    Some(first.time.saturating_add(pattern.within_ms?))
}

fn row_context(ctx: &Context) -> RowContext<'static> {
    RowContext {
        processing_time: ctx.processing_time(),
        watermark: ctx.watermark(),
        ..RowContext::START
    }
}

/// Columns of values, of which some are not computed: those are NULL.
fn batch_of(
    types: &[DataType],
    columns: Vec<Option<ArrayRef>>,
    rows: usize,
) -> Result<RecordBatch> {
    let fields: Vec<ArrowField> = types
        .iter()
        .enumerate()
        .map(|(index, data_type)| ArrowField::new(format!("n{index}"), data_type.clone(), true))
        .collect();
    let columns = columns
        .into_iter()
        .zip(types)
        .map(|(column, data_type)| {
            column.unwrap_or_else(|| arrow::array::new_null_array(data_type, rows))
        })
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        Arc::new(ArrowSchema::new(fields)),
        columns,
        &options,
    )?)
}

impl Operator for MatchOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        debug_assert!(
            batch.kinds.is_insert_only(),
            "MATCH_RECOGNIZE takes inserts"
        );
        let batch = self.without_null_times(ctx, batch)?;
        if batch.num_rows() > 0 {
            self.take_in(ctx, batch, out)?;
        }
        Ok(Flow::Done)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        if self.spec.time_column.is_some() {
            self.work.push_back(Work::Fire(watermark));
        }
        self.work.push_back(Work::Watermark(watermark));
        self.drive(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.drive(ctx, out)
    }

    /// In processing time matches are too long when their time has come.
    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        match self.spec.time_column {
            Some(_) => None,
            None => self.timeouts.first().map(|(time, _)| ProcessingTime(*time)),
        }
    }

    fn on_processing_time(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        let now = ctx.processing_time().millis();
        let matches = self.prune(ctx, now)?;
        self.emit(ctx, matches, out)?;
        Ok(Flow::Done)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        self.snapshot_keyed(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        self.row_tables()
    }

    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        self.load_keyed(ctx, &snapshot)
    }

    fn keyed_state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }
}
