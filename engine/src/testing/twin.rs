//! A slow twin of the window operators: one row at a time, plain vectors, no slices, no batches.
//!
//! It follows the definitions and nothing else: before each row stands a watermark; a row counts in every window that holds
//! its time and has not fired; a window's result is computed from the list of its rows. Random tests compare the engine
//! with it.

use std::collections::BTreeMap;

use super::cell::{Value, order_rows};
use crate::types::TimeZone;
use crate::window::{WindowKind, WindowSpec};

/// A row as it arrives.
#[derive(Debug, Clone)]
pub struct TwinRow {
    /// Which table; 0 where there is one.
    pub table: usize,
    /// Which partition of the table.
    pub partition: usize,
    /// Its event time: wall clock of a TIMESTAMP, instant of a TIMESTAMP_LTZ, in milliseconds.
    pub time_ms: i64,
    /// Its columns.
    pub cells: Vec<Value>,
    /// Whether a filter lets it through to the window; it tells the time either way.
    pub passes: bool,
    /// The earlier row that this one takes back.
    pub takes_back: Option<usize>,
}

/// `[start, end)` in the window's own clock, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TwinWindow {
    /// The first millisecond in it.
    pub start: i64,
    /// The first millisecond behind it.
    pub end: i64,
}

/// A window with the rows that counted in it, in the order in which they came.
#[derive(Debug, Clone)]
pub struct TwinFrame {
    /// The window.
    pub window: TwinWindow,
    /// The session key; empty for other windows.
    pub key: Vec<Value>,
    /// Indices of rows.
    pub rows: Vec<usize>,
}

/// What assigning rows to windows comes to.
#[derive(Debug, Clone, Default)]
pub struct TwinFrames {
    /// Windows with at least one row.
    pub frames: Vec<TwinFrame>,
    /// Rows that counted in no window because all of theirs had fired.
    pub late: Vec<usize>,
}

impl TwinFrame {
    /// Leaves out the rows that were taken back and those that took them back.
    pub fn cancel(&mut self, rows: &[TwinRow]) {
        let pairs = self
            .rows
            .iter()
            .filter_map(|row| rows[*row].takes_back.map(|back| [*row, back]));
        let gone: Vec<usize> = pairs.flatten().collect();
        self.rows.retain(|row| !gone.contains(row));
    }
}

/// The watermark of an operator over all partitions of its tables: the minimum of each partition's largest time less the
/// delay, and never back.
#[derive(Debug, Clone)]
pub struct TwinClock {
    partitions: Vec<Vec<Option<i64>>>,
    delay_ms: i64,
    current: i64,
}

impl TwinClock {
    /// Before any row. `partitions[t]` is how many partitions table `t` has.
    pub fn new(partitions: &[usize], delay_ms: i64) -> Self {
        TwinClock {
            partitions: partitions.iter().map(|count| vec![None; *count]).collect(),
            delay_ms,
            current: i64::MIN,
        }
    }

    /// The watermark now; `i64::MIN` before the first.
    pub fn watermark(&self) -> i64 {
        self.current
    }

    /// A row has been read.
    pub fn read(&mut self, row: &TwinRow) {
        let largest = &mut self.partitions[row.table][row.partition];
        *largest = Some(largest.unwrap_or(i64::MIN).max(row.time_ms));
        let slowest = self.partitions.iter().flatten().copied().min().flatten();
        if let Some(slowest) = slowest {
            self.current = self.current.max(slowest - self.delay_ms);
        }
    }
}

/// The zone of a window's bounds; `None` where its time is wall clock already.
fn zone(spec: &WindowSpec) -> Option<TimeZone> {
    let name = spec.time.time_zone()?;
    Some(TimeZone::parse(name).expect("the spec was made with a zone that exists"))
}

/// All windows of a TUMBLE, HOP or CUMULATE that hold a time, by start and end.
pub fn windows_of(spec: &WindowSpec, time_ms: i64) -> Vec<TwinWindow> {
    let time = zone(spec).map_or(time_ms, |zone| zone.to_local_millis(time_ms));
    let aligned = |step: i64| time - (time - spec.offset_ms).rem_euclid(step);
    match spec.kind {
        WindowKind::Tumble { size_ms } => {
            let start = aligned(size_ms);
            vec![TwinWindow {
                start,
                end: start + size_ms,
            }]
        }
        WindowKind::Hop { slide_ms, size_ms } => {
            let mut windows = Vec::new();
            let mut start = aligned(slide_ms);
            while start + size_ms > time {
                windows.push(TwinWindow {
                    start,
                    end: start + size_ms,
                });
                start -= slide_ms;
            }
            windows.reverse();
            windows
        }
        WindowKind::Cumulate {
            step_ms,
            max_size_ms,
        } => {
            let start = aligned(max_size_ms);
            (1..=max_size_ms / step_ms)
                .map(|steps| TwinWindow {
                    start,
                    end: start + steps * step_ms,
                })
                .filter(|window| time < window.end)
                .collect()
        }
        WindowKind::Session { .. } => panic!("sessions depend on other rows"),
    }
}

/// Whether a watermark fires a window: it has come to the last millisecond in it.
pub fn has_fired(spec: &WindowSpec, window_end: i64, watermark: i64) -> bool {
    let last = window_end - 1;
    let instant = match zone(spec) {
        None => last,
        Some(zone) => last_instant(&zone, last),
    };
    watermark >= instant
}

/// The instant at which a wall clock shows a time for the last time: the second one where it comes twice; the end of the
/// gap where it does not come.
fn last_instant(zone: &TimeZone, local_ms: i64) -> i64 {
    const HOUR: i64 = 3_600_000;
    let first = zone.to_instant_millis(local_ms);
    let shown = |instant: i64| zone.to_local_millis(instant) == local_ms;
    if shown(first + HOUR) {
        return first + HOUR;
    }
    if shown(first) {
        return first;
    }
    first - first.rem_euclid(HOUR)
}

/// The windows of TUMBLE, HOP and CUMULATE with the rows that count in them. `partitions[t]` is how many partitions table
/// `t` has.
pub fn assign(
    spec: &WindowSpec,
    rows: &[TwinRow],
    partitions: &[usize],
    delay_ms: i64,
) -> TwinFrames {
    let mut clock = TwinClock::new(partitions, delay_ms);
    let mut windows: BTreeMap<TwinWindow, Vec<usize>> = BTreeMap::new();
    let mut late = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let mut counted = !row.passes;
        let candidates = if row.passes {
            windows_of(spec, row.time_ms)
        } else {
            Vec::new()
        };
        for window in candidates {
            if !has_fired(spec, window.end, clock.watermark()) {
                windows.entry(window).or_default().push(index);
                counted = true;
            }
        }
        if !counted {
            late.push(index);
        }
        clock.read(row);
    }
    let frame = |(window, rows)| TwinFrame {
        window,
        key: Vec::new(),
        rows,
    };
    TwinFrames {
        frames: windows.into_iter().map(frame).collect(),
        late,
    }
}

/// The sessions of each key with the rows that count in them.
pub fn assign_sessions(
    spec: &WindowSpec,
    rows: &[TwinRow],
    key: &[usize],
    partitions: &[usize],
    delay_ms: i64,
) -> TwinFrames {
    let WindowKind::Session { gap_ms } = spec.kind else {
        panic!("a session window")
    };
    let mut clock = TwinClock::new(partitions, delay_ms);
    let mut open: Vec<TwinFrame> = Vec::new();
    let mut result = TwinFrames::default();
    for (index, row) in rows.iter().enumerate() {
        let fired = |frame: &mut TwinFrame| has_fired(spec, frame.window.end, clock.watermark());
        result.frames.extend(open.extract_if(.., fired));
        if !row.passes {
            clock.read(row);
            continue;
        }
        let time = zone(spec).map_or(row.time_ms, |zone| zone.to_local_millis(row.time_ms));
        let mut session = TwinFrame {
            window: TwinWindow {
                start: time,
                end: time + gap_ms,
            },
            key: key
                .iter()
                .map(|column| row.cells[*column].clone())
                .collect(),
            rows: vec![index],
        };
        let touched: Vec<TwinFrame> = open
            .extract_if(.., |other| {
                order_rows(&other.key, &session.key).is_eq()
                    && other.window.start <= session.window.end
                    && session.window.start <= other.window.end
            })
            .collect();
        for other in touched {
            session.window.start = session.window.start.min(other.window.start);
            session.window.end = session.window.end.max(other.window.end);
            session.rows.extend(other.rows);
        }
        session.rows.sort_unstable();
        if has_fired(spec, session.window.end, clock.watermark()) {
            result.late.extend(session.rows);
        } else {
            open.push(session);
        }
        clock.read(row);
    }
    result.frames.extend(open);
    result
}

/// An aggregate over the rows of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TwinAggregate {
    /// Which.
    pub function: TwinFunction,
    /// The column; `None` for `COUNT(*)`.
    pub column: Option<usize>,
    /// Whether each value counts once.
    pub distinct: bool,
    /// A BOOLEAN column that must be TRUE.
    pub filter: Option<usize>,
}

/// The functions that the twin knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TwinFunction {
    /// COUNT.
    Count,
    /// SUM: of INT wraps at 32 bits, of BIGINT at 64.
    Sum {
        /// The width of the integers; without meaning for others.
        bits: u32,
    },
    /// AVG: integers truncate toward zero, DECIMAL rounds half up to this many digits.
    Avg {
        /// Digits behind the point of a DECIMAL result.
        scale: u8,
    },
    /// MIN.
    Min,
    /// MAX.
    Max,
}

impl TwinAggregate {
    /// Its value over some rows.
    pub fn over(&self, rows: &[&[Value]]) -> Value {
        let passes = |row: &&&[Value]| match self.filter {
            None => true,
            Some(column) => row[column] == Value::Boolean(true),
        };
        let rows: Vec<&[Value]> = rows.iter().filter(passes).copied().collect();
        let Some(column) = self.column else {
            return Value::Integer(rows.len() as i64);
        };
        let mut values: Vec<Value> = rows
            .iter()
            .map(|row| row[column].clone())
            .filter(|value| *value != Value::Null)
            .collect();
        if self.distinct {
            values.sort_by(Value::order);
            values.dedup_by(|a, b| a.order(b).is_eq());
        }
        match self.function {
            TwinFunction::Count => Value::Integer(values.len() as i64),
            TwinFunction::Min => values
                .into_iter()
                .min_by(Value::order)
                .unwrap_or(Value::Null),
            TwinFunction::Max => values
                .into_iter()
                .max_by(Value::order)
                .unwrap_or(Value::Null),
            TwinFunction::Sum { bits } => sum(&values, bits),
            TwinFunction::Avg { scale } => average(&values, scale),
        }
    }
}

fn sum(values: &[Value], bits: u32) -> Value {
    match values.first() {
        None => Value::Null,
        Some(Value::Integer(_)) => {
            let exact: i128 = values.iter().map(|value| integer(value) as i128).sum();
            let unused = 128 - bits;
            Value::Integer((exact << unused >> unused) as i64)
        }
        Some(Value::Double(_)) => Value::Double(values.iter().map(double).sum()),
        Some(_) => {
            let scale = values
                .iter()
                .map(|value| decimal(value).1)
                .max()
                .unwrap_or(0);
            Value::decimal(values.iter().map(|value| digits(value, scale)).sum(), scale)
        }
    }
}

fn average(values: &[Value], scale: u8) -> Value {
    let count = values.len() as i128;
    match values.first() {
        None => Value::Null,
        Some(Value::Integer(_)) => {
            let exact: i128 = values.iter().map(|value| integer(value) as i128).sum();
            Value::Integer((exact / count) as i64)
        }
        Some(Value::Double(_)) => {
            Value::Double(values.iter().map(double).sum::<f64>() / count as f64)
        }
        Some(_) => {
            let exact: i128 = values.iter().map(|value| digits(value, scale)).sum();
            let (quotient, rest) = (exact / count, exact % count);
            let away = if 2 * rest.abs() >= count {
                exact.signum()
            } else {
                0
            };
            Value::decimal(quotient + away, scale)
        }
    }
}

fn integer(value: &Value) -> i64 {
    match value {
        Value::Integer(value) => *value,
        other => panic!("{other} is no integer"),
    }
}

fn double(value: &Value) -> f64 {
    match value {
        Value::Double(value) => *value,
        other => panic!("{other} is no double"),
    }
}

fn decimal(value: &Value) -> (i128, u8) {
    match value {
        Value::Decimal { digits, scale } => (*digits, *scale),
        other => panic!("{other} is no decimal"),
    }
}

fn digits(value: &Value, scale: u8) -> i128 {
    let (digits, own) = decimal(value);
    digits * 10i128.pow((scale - own) as u32)
}

/// Groups rows by some columns; one group of all rows where there is no column. NULLs are one value.
pub fn group_by<'r>(
    rows: &[&'r [Value]],
    columns: &[usize],
) -> Vec<(Vec<Value>, Vec<&'r [Value]>)> {
    let mut groups: Vec<(Vec<Value>, Vec<&'r [Value]>)> = Vec::new();
    for row in rows {
        let key: Vec<Value> = columns.iter().map(|column| row[*column].clone()).collect();
        match groups
            .iter_mut()
            .find(|(other, _)| order_rows(other, &key).is_eq())
        {
            Some((_, rows)) => rows.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::WindowTime;

    fn spec(kind: WindowKind, offset_ms: i64) -> WindowSpec {
        WindowSpec {
            kind,
            offset_ms,
            time: WindowTime::EventTimestamp,
        }
    }

    fn row(time_ms: i64) -> TwinRow {
        TwinRow {
            table: 0,
            partition: 0,
            time_ms,
            cells: vec![Value::Integer(1)],
            passes: true,
            takes_back: None,
        }
    }

    fn frames(result: &TwinFrames) -> Vec<(i64, i64, usize)> {
        let mut frames: Vec<_> = result
            .frames
            .iter()
            .map(|frame| (frame.window.start, frame.window.end, frame.rows.len()))
            .collect();
        frames.sort_unstable();
        frames
    }

    #[test]
    fn windows_floor_before_the_epoch_and_shift_by_the_offset() {
        let tumble = WindowKind::Tumble { size_ms: 10 };
        assert_eq!(
            windows_of(&spec(tumble, 0), -1),
            [TwinWindow { start: -10, end: 0 }]
        );
        assert_eq!(
            windows_of(&spec(tumble, -3), 7),
            [TwinWindow { start: 7, end: 17 }]
        );
        let hop = WindowKind::Hop {
            slide_ms: 5,
            size_ms: 10,
        };
        assert_eq!(windows_of(&spec(hop, 0), 7).len(), 2);
        let cumulate = WindowKind::Cumulate {
            step_ms: 2,
            max_size_ms: 6,
        };
        assert_eq!(
            windows_of(&spec(cumulate, 0), 3),
            [
                TwinWindow { start: 0, end: 4 },
                TwinWindow { start: 0, end: 6 }
            ]
        );
    }

    #[test]
    fn a_row_may_be_half_late() {
        let hop = spec(
            WindowKind::Hop {
                slide_ms: 5,
                size_ms: 10,
            },
            0,
        );
        let rows: Vec<TwinRow> = [12, 7, 2].map(row).to_vec();
        let result = assign(&hop, &rows, &[1], 0);
        assert_eq!(frames(&result), [(5, 15, 2), (10, 20, 1)]);
        assert_eq!(result.late, [2]);
    }

    #[test]
    fn sessions_touch_and_late_rows_may_join_an_open_one() {
        let session = spec(WindowKind::Session { gap_ms: 10 }, 0);
        let merged = assign_sessions(&session, &[0, 10, 20].map(row), &[0], &[1], 100);
        assert_eq!(frames(&merged), [(0, 30, 3)]);
        let joined = assign_sessions(&session, &[0, 9, 18, 2].map(row), &[0], &[1], 5);
        assert_eq!(frames(&joined), [(0, 28, 4)]);
        let late = assign_sessions(&session, &[0, 30, 2].map(row), &[0], &[1], 0);
        assert_eq!(
            (frames(&late), late.late.clone()),
            (vec![(0, 10, 1), (30, 40, 1)], vec![2])
        );
    }

    #[test]
    fn the_slowest_partition_holds_the_watermark() {
        let mut clock = TwinClock::new(&[2], 1);
        let mut second = row(50);
        second.partition = 1;
        clock.read(&row(100));
        assert_eq!(clock.watermark(), i64::MIN);
        clock.read(&second);
        assert_eq!(clock.watermark(), 49);
    }

    #[test]
    fn a_repeated_hour_fires_at_its_second_end() {
        let zone = TimeZone::parse("America/Los_Angeles").unwrap();
        let hour = 3_600_000;
        // 2021-11-07 01:00 local comes at 08:00 UTC and again at 09:00 UTC.
        let first = 1_636_272_000_000;
        let local = zone.to_local_millis(first);
        assert_eq!(last_instant(&zone, local), first + hour);
        // 2021-03-14 02:30 local does not come; the clock jumps at 10:00 UTC.
        let jump = 1_615_716_000_000;
        assert_eq!(last_instant(&zone, jump - 8 * hour + hour / 2), jump);
    }

    #[test]
    fn aggregates_follow_flinks_types() {
        let rows: Vec<Vec<Value>> = [
            Value::Integer(i32::MAX as i64),
            Value::Integer(1),
            Value::Null,
        ]
        .map(|value| vec![value])
        .to_vec();
        let rows: Vec<&[Value]> = rows.iter().map(Vec::as_slice).collect();
        let over = |function| {
            TwinAggregate {
                function,
                column: Some(0),
                distinct: false,
                filter: None,
            }
            .over(&rows)
        };
        assert_eq!(
            over(TwinFunction::Sum { bits: 32 }),
            Value::Integer(i32::MIN as i64)
        );
        assert_eq!(
            over(TwinFunction::Sum { bits: 64 }),
            Value::Integer(1 << 31)
        );
        assert_eq!(over(TwinFunction::Count), Value::Integer(2));
        assert_eq!(
            over(TwinFunction::Avg { scale: 0 }),
            Value::Integer(1 << 30)
        );
        let thirds = [
            Value::decimal(100, 2),
            Value::decimal(100, 2),
            Value::decimal(0, 0),
        ];
        assert_eq!(average(&thirds, 6), Value::decimal(666_667, 6));
        assert_eq!(sum(&[], 64), Value::Null);
    }
}
