//! One scenario: a table or two, rows as they arrive, a windowed query, and what must come out.

use std::fmt;

use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use serde_yaml_ng::Value as Yaml;
use volley::testing::case::{Expect, Expectation, Mode, Record, Step, TestCase};
use volley::testing::cell::{Value, row_text};
use volley::testing::twin::TwinRow;
use volley::types::{LogicalType, RowKind, TypeRoot};
use volley::window::{WindowKind, WindowSpec, WindowTime};

use super::query::Query;

/// A physical column of the random tables. The twin's rows have the same columns in the same order.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) logical_type: LogicalType,
    pub(super) role: Role,
}

/// What a column is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Few values: grouping, joining, partitioning.
    Key,
    /// Many values: aggregating.
    Number,
    /// TRUE, FALSE or NULL.
    Flag,
    /// Unique, not NULL: ordering.
    Unique,
    /// The event time, or the epoch milliseconds of it.
    Time,
}

/// What the window, the clock and the tables are.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) columns: Vec<Column>,
    pub(super) tables: usize,
    pub(super) partitions: usize,
    pub(super) spec: WindowSpec,
    pub(super) delay_ms: i64,
    /// Whether the event time is a TIMESTAMP_LTZ computed from epoch milliseconds.
    pub(super) is_instant: bool,
    pub(super) zone: &'static str,
    /// `table.optimizer.agg-phase-strategy`.
    pub(super) phases: &'static str,
    /// Whether the window is over both tables, of which the slower one tells the time.
    pub(super) is_union: bool,
    /// Whether rows are taken back; then none is late.
    pub(super) retracts: bool,
}

pub(super) struct Scenario {
    pub(super) case: TestCase,
    pub(super) setting: Setting,
    pub(super) query: Query,
    pub(super) rows: Vec<TwinRow>,
    pub(super) expected: Vec<Vec<Value>>,
    /// How many late rows must be counted, where that is simple.
    pub(super) late: Option<u64>,
}

impl Setting {
    /// The columns of a role.
    pub(super) fn of_role(&self, role: Role) -> Vec<usize> {
        (0..self.columns.len())
            .filter(|index| self.columns[*index].role == role)
            .collect()
    }

    pub(super) fn unique(&self) -> usize {
        self.of_role(Role::Unique)[0]
    }

    pub(super) fn partitions_of_tables(&self) -> Vec<usize> {
        vec![self.partitions; self.tables]
    }

    fn ddl(&self, table: usize) -> String {
        let mut columns: Vec<String> = self
            .columns
            .iter()
            .map(|column| format!("`{}` {}", column.name, column.logical_type))
            .collect();
        if self.is_instant {
            columns.push("`ts` AS TO_TIMESTAMP_LTZ(`epoch`, 3)".to_string());
        }
        let delay = match self.delay_ms {
            0 => String::new(),
            delay => format!(" - {}", interval(delay)),
        };
        columns.push(format!("WATERMARK FOR `ts` AS `ts`{delay}"));
        let mode = if self.retracts {
            "retract"
        } else {
            "insert-only"
        };
        format!(
            "CREATE TABLE t{table} ({}) WITH ('partitions' = '{}', 'changelog-mode' = '{mode}')",
            columns.join(", "),
            self.partitions
        )
    }
}

/// An interval literal of at most two leading digits where it can be.
pub(super) fn interval(ms: i64) -> String {
    let sign = if ms < 0 { "-" } else { "" };
    let size = ms.abs();
    let units = [
        (86_400_000, "DAY"),
        (3_600_000, "HOUR"),
        (60_000, "MINUTE"),
        (1_000, "SECOND"),
    ];
    match units.into_iter().find(|(unit, _)| size % unit == 0) {
        Some((unit, name)) => format!("INTERVAL '{sign}{}' {name}", size / unit),
        None => format!("INTERVAL '{sign}{}.{:03}' SECOND", size / 1000, size % 1000),
    }
}

impl Scenario {
    pub(super) fn from_seed(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let unit_ms = *[1_000, 60_000, 3_600_000].choose(&mut random).unwrap();
        let is_session = random.random_bool(0.25);
        let mut setting = setting(&mut random, unit_ms, is_session);
        let query = Query::random(&mut random, &mut setting);
        let rows = rows(&mut random, &setting, &query, unit_ms);
        let (expected, late) = query.expected(&setting, &rows);
        let mut steps: Vec<Step> = rows.iter().map(|row| step(&setting, row)).collect();
        if random.random_bool(0.3) {
            add_restores(&mut random, &mut steps);
        }
        Scenario {
            case: case(seed, &setting, &query, steps),
            setting,
            query,
            rows,
            expected,
            late,
        }
    }
}

fn setting(random: &mut SmallRng, unit_ms: i64, is_session: bool) -> Setting {
    let is_instant = random.random_bool(0.3);
    let zones = [
        "UTC",
        "America/Los_Angeles",
        "Europe/Berlin",
        "Asia/Kolkata",
        "GMT-03:00",
    ];
    let zone = *zones.choose(random).unwrap();
    let retracts = random.random_bool(0.15);
    let kind = match is_session {
        true => WindowKind::Session {
            gap_ms: unit_ms * random.random_range(1..=5),
        },
        false => aligned_window(random, unit_ms),
    };
    let offset_ms = match is_session || random.random_bool(0.6) {
        true => 0,
        false => unit_ms * random.random_range(-7..=7) / 2,
    };
    Setting {
        columns: columns(random, is_instant),
        tables: 1,
        partitions: if random.random_bool(0.25) { 2 } else { 1 },
        spec: WindowSpec {
            kind,
            offset_ms,
            time: match is_instant {
                false => WindowTime::EventTimestamp,
                true => WindowTime::EventInstant {
                    time_zone: zone.to_string(),
                },
            },
        },
        delay_ms: match retracts {
            true => 120 * unit_ms,
            false => *[0, 0, 1, unit_ms / 4, unit_ms, 3 * unit_ms, 20 * unit_ms]
                .choose(random)
                .unwrap(),
        },
        is_union: false,
        phases: ["AUTO", "ONE_PHASE", "TWO_PHASE"].choose(random).unwrap(),
        retracts,
        is_instant,
        zone,
    }
}

fn aligned_window(random: &mut SmallRng, unit_ms: i64) -> WindowKind {
    match random.random_range(0..3) {
        0 => WindowKind::Tumble {
            size_ms: unit_ms * random.random_range(1..=10),
        },
        1 => {
            let slide_ms = unit_ms * random.random_range(1..=4);
            let size_ms = slide_ms * random.random_range(1..=12);
            WindowKind::Hop { slide_ms, size_ms }
        }
        _ => {
            let step_ms = unit_ms * random.random_range(1..=4);
            let max_size_ms = step_ms * random.random_range(1..=6);
            WindowKind::Cumulate {
                step_ms,
                max_size_ms,
            }
        }
    }
}

fn columns(random: &mut SmallRng, is_instant: bool) -> Vec<Column> {
    let keys = [
        TypeRoot::STRING,
        TypeRoot::Int,
        TypeRoot::BigInt,
        TypeRoot::Boolean,
        TypeRoot::Date,
        TypeRoot::Double,
        TypeRoot::Decimal {
            precision: 6,
            scale: 2,
        },
    ];
    let numbers = [
        TypeRoot::Int,
        TypeRoot::BigInt,
        TypeRoot::Double,
        TypeRoot::Decimal {
            precision: 10,
            scale: 2,
        },
        TypeRoot::STRING,
        TypeRoot::Timestamp(6),
        TypeRoot::SmallInt,
    ];
    let mut columns = Vec::new();
    let mut add = |prefix: &str, role: Role, root: TypeRoot| {
        let name = format!("{prefix}{}", columns.len());
        columns.push(Column {
            name,
            logical_type: LogicalType::nullable(root),
            role,
        });
    };
    (0..random.random_range(1..=3))
        .for_each(|_| add("k", Role::Key, keys.choose(random).unwrap().clone()));
    (0..random.random_range(1..=4))
        .for_each(|_| add("v", Role::Number, numbers.choose(random).unwrap().clone()));
    add("f", Role::Flag, TypeRoot::Boolean);
    columns.push(Column {
        name: "u".to_string(),
        logical_type: LogicalType::not_null(TypeRoot::BigInt),
        role: Role::Unique,
    });
    columns.push(Column {
        name: if is_instant { "epoch" } else { "ts" }.to_string(),
        logical_type: match is_instant {
            true => LogicalType::BIGINT,
            false => LogicalType::nullable(TypeRoot::Timestamp(3)),
        },
        role: Role::Time,
    });
    columns.shuffle(random);
    columns
}

/// Where time begins: today, before the epoch, before and at changes of daylight saving time, long ago.
const BEGINNINGS: [i64; 6] = [
    1_704_067_200_000,
    -30_000,
    1_710_064_800_000 - 7_200_000,
    1_730_624_400_000 - 7_200_000,
    1_711_846_800_000 - 3_600_000,
    -11_676_096_000_000,
];

fn rows(random: &mut SmallRng, setting: &Setting, query: &Query, unit_ms: i64) -> Vec<TwinRow> {
    let count = random.random_range(0..=40);
    let beginning = *BEGINNINGS.choose(random).unwrap();
    let span = unit_ms * random.random_range(3..=40);
    let disorder = *[0, unit_ms / 2, 3 * unit_ms, 10 * unit_ms]
        .choose(random)
        .unwrap();
    let grain = *[1, unit_ms / 4, unit_ms].choose(random).unwrap();
    let mut uniques: Vec<i64> = (0..count as i64).map(|number| number * 7 - 50).collect();
    uniques.shuffle(random);
    let mut rows: Vec<TwinRow> = Vec::new();
    for (number, unique) in uniques.into_iter().enumerate() {
        let ideal = beginning + span * number as i64 / count as i64;
        let back = match random.random_bool(0.08) {
            true => random.random_range(0..=span),
            false => random.random_range(0..=disorder),
        };
        let time_ms = (ideal - back).div_euclid(grain) * grain;
        rows.push(inserted(random, setting, query, unique, time_ms));
        if setting.retracts && random.random_bool(0.4) {
            rows.extend(taken_back(random, &rows));
        }
    }
    rows
}

fn inserted(
    random: &mut SmallRng,
    setting: &Setting,
    query: &Query,
    unique: i64,
    time_ms: i64,
) -> TwinRow {
    let cells: Vec<Value> = setting
        .columns
        .iter()
        .map(|column| match column.role {
            Role::Unique => Value::Integer(unique),
            Role::Time if setting.is_instant => Value::Integer(time_ms),
            Role::Time => Value::timestamp_millis(time_ms),
            role => cell(random, &column.logical_type.root, role),
        })
        .collect();
    TwinRow {
        table: random.random_range(0..setting.tables),
        partition: random.random_range(0..setting.partitions),
        passes: query.passes(&cells, setting.unique()),
        takes_back: None,
        time_ms,
        cells,
    }
}

/// A row that takes back some row which is still there.
fn taken_back(random: &mut SmallRng, rows: &[TwinRow]) -> Option<TwinRow> {
    let gone: Vec<usize> = rows.iter().filter_map(|row| row.takes_back).collect();
    let open: Vec<usize> = (0..rows.len())
        .filter(|index| rows[*index].takes_back.is_none() && !gone.contains(index))
        .collect();
    let index = *open.choose(random)?;
    Some(TwinRow {
        takes_back: Some(index),
        ..rows[index].clone()
    })
}

fn cell(random: &mut SmallRng, root: &TypeRoot, role: Role) -> Value {
    if random.random_bool(0.15) {
        return Value::Null;
    }
    let few = role == Role::Key;
    let number = if few {
        random.random_range(-1..=1)
    } else {
        random.random_range(-1_000..=1_000)
    };
    match root {
        TypeRoot::Boolean => Value::Boolean(random.random_bool(0.5)),
        TypeRoot::Varchar(_) => {
            let texts = [
                "",
                "a",
                "b",
                "ab",
                "ä",
                "a somewhat longer text than the others",
            ];
            Value::Text(texts[random.random_range(0..if few { 4 } else { 6 })].to_string())
        }
        TypeRoot::Date => Value::Date(number as i32),
        TypeRoot::Double => Value::Double(number as f64 / 8.0 + 0.0),
        TypeRoot::Decimal { .. } => Value::decimal(number as i128, 2),
        TypeRoot::Timestamp(_) => Value::Timestamp(number as i128 * 1_000),
        TypeRoot::Int if !few && random.random_bool(0.2) => {
            Value::Integer(if number < 0 { i32::MIN } else { i32::MAX } as i64)
        }
        _ => Value::Integer(number),
    }
}

fn step(setting: &Setting, row: &TwinRow) -> Step {
    let cell = |value: &Value| match value {
        Value::Null => Yaml::Null,
        Value::Text(text) => Yaml::String(text.clone()),
        other => Yaml::String(other.to_string()),
    };
    debug_assert_eq!(row.cells.len(), setting.columns.len());
    Step::Record {
        table: format!("t{}", row.table),
        partition: row.partition,
        record: Record::Row {
            kind: match row.takes_back {
                None => RowKind::Insert,
                Some(_) => RowKind::Delete,
            },
            cells: row.cells.iter().map(cell).collect(),
        },
    }
}

/// A few checkpoints, kills behind some of them, and restores at other parallelisms.
fn add_restores(random: &mut SmallRng, steps: &mut Vec<Step>) {
    for _ in 0..random.random_range(1..=3) {
        let at = random.random_range(0..=steps.len());
        steps.insert(
            at,
            Step::Checkpoint {
                crash_after_commit: false,
            },
        );
        let behind = random.random_range(at + 1..=steps.len());
        steps.insert(
            behind,
            match random.random_range(1..=4) {
                4 => Step::KillAndRestore,
                parallelism => Step::RestoreWithParallelism(parallelism),
            },
        );
    }
}

fn case(seed: u64, setting: &Setting, query: &Query, steps: Vec<Step>) -> TestCase {
    TestCase {
        file: "random".into(),
        line: 1,
        name: format!("seed {seed}"),
        why: None,
        certainty: None,
        set: [
            ("table.local-time-zone", setting.zone),
            ("table.optimizer.agg-phase-strategy", setting.phases),
        ]
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .to_vec(),
        vary: vec![],
        tables: (0..setting.tables)
            .map(|table| setting.ddl(table))
            .collect(),
        sql: setting.is_union.then(|| {
            "CREATE VIEW both_tables AS SELECT * FROM t0 UNION ALL SELECT * FROM t1".to_string()
        }),
        sql_file: None,
        steps,
        end_of_input: true,
        query: Some(query.sql(setting)),
        expect: Expect::Single(Expectation {
            mode: Mode::Append,
            columns: None,
            rows: vec![],
            metrics: vec![],
        }),
    }
}

/// All that a person needs to see what went wrong.
impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.case.set)?;
        for table in &self.case.tables {
            writeln!(f, "{table}")?;
        }
        if let Some(view) = &self.case.sql {
            writeln!(f, "{view}")?;
        }
        writeln!(f, "{}", self.case.query.as_deref().unwrap_or_default())?;
        let mut rows = self.rows.iter();
        for step in &self.case.steps {
            match step {
                Step::Record {
                    table, partition, ..
                } => {
                    let row = rows.next().expect("a record a row");
                    let kind = if row.takes_back.is_some() { "-D" } else { "+I" };
                    writeln!(
                        f,
                        "  {table} partition {partition}: {kind} {} at {} ms",
                        row_text(&row.cells),
                        row.time_ms
                    )?;
                }
                other => writeln!(f, "  {other:?}")?,
            }
        }
        Ok(())
    }
}
