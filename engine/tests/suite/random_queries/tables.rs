//! Random tables and what happens to them: streams of changes that are true to their changelog mode.

use std::collections::BTreeMap;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use volley::testing::cell::Value;
use volley::types::RowKind;

use super::column::{Column, Kind};
use super::twin::{Ordered, Row, Tables};

/// A table that is fed.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    /// An ARRAY<INT> behind the columns.
    pub(super) array: Option<String>,
    pub(super) mode: Mode,
    /// Whether the first column is the primary key.
    pub(super) has_key: bool,
    pub(super) partitions: usize,
    pub(super) time: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    InsertOnly,
    Retract,
    Upsert,
}

/// The event time of a table. No row is ever late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Time {
    /// The times rise.
    Rising { delay_ms: i64 },
    /// Disorder below an hour, and a delay of an hour.
    Disorder,
}

/// A change of a table.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) table: usize,
    pub(super) partition: usize,
    pub(super) kind: RowKind,
    pub(super) row: Row,
}

impl Table {
    fn random(random: &mut SmallRng, number: usize) -> Self {
        let mode = *[
            Mode::InsertOnly,
            Mode::InsertOnly,
            Mode::Retract,
            Mode::Retract,
            Mode::Upsert,
        ]
        .choose(random)
        .unwrap_or(&Mode::InsertOnly);
        let has_key = mode == Mode::Upsert || random.random_bool(0.4);
        let mut columns = Vec::new();
        let mut add = |name: &str, kind: Kind, nullable: bool| {
            let name = format!("{name}{number}");
            columns.push(Column {
                name,
                kind,
                nullable,
                is_rowtime: false,
            });
        };
        if has_key {
            add(
                "id",
                *[Kind::Int, Kind::Int, Kind::BigInt, Kind::Text]
                    .choose(random)
                    .unwrap_or(&Kind::Int),
                false,
            );
        }
        add("k", Kind::Int, true);
        let others = [
            ("g", Kind::Text),
            ("v", Kind::BigInt),
            ("d", Kind::Decimal),
            ("x", Kind::Double),
            ("f", Kind::Boolean),
            ("small", Kind::SmallInt),
            ("day", Kind::Date),
        ];
        for (name, kind) in others {
            if random.random_bool(0.35) {
                add(name, kind, mode == Mode::Upsert || random.random_bool(0.8));
            }
        }
        let is_timed = random.random_bool(match mode {
            Mode::InsertOnly => 0.6,
            Mode::Retract | Mode::Upsert => 0.15,
        });
        if is_timed || random.random_bool(0.2) {
            add("ts", Kind::Time, !is_timed);
            let last = columns.len() - 1;
            columns[last].is_rowtime = is_timed;
        }
        let is_keyed_or_inserts = has_key || mode == Mode::InsertOnly;
        Table {
            name: format!("t{number}"),
            columns,
            array: random.random_bool(0.2).then(|| format!("xs{number}")),
            mode,
            has_key,
            partitions: if is_keyed_or_inserts && random.random_bool(0.25) {
                2
            } else {
                1
            },
            time: is_timed.then(
                || match mode == Mode::InsertOnly && random.random_bool(0.5) {
                    true => Time::Rising {
                        delay_ms: *[0, 1, 2_000].choose(random).unwrap_or(&0),
                    },
                    false => Time::Disorder,
                },
            ),
        }
    }

    pub(super) fn ddl(&self) -> String {
        let mut parts: Vec<String> = self
            .columns
            .iter()
            .map(|column| {
                let not_null = if column.nullable { "" } else { " NOT NULL" };
                format!("{} {}{not_null}", column.name, column.kind)
            })
            .collect();
        parts.extend(self.array.iter().map(|name| format!("{name} ARRAY<INT>")));
        if self.has_key {
            parts.push(format!(
                "PRIMARY KEY ({}) NOT ENFORCED",
                self.columns[0].name
            ));
        }
        if let (Some(time), Some(column)) = (self.time, self.rowtime()) {
            let name = &self.columns[column].name;
            let delay = match time {
                Time::Rising { delay_ms: 0 } => String::new(),
                Time::Rising { delay_ms } => format!(
                    " - INTERVAL '{}.{:03}' SECOND",
                    delay_ms / 1000,
                    delay_ms % 1000
                ),
                Time::Disorder => " - INTERVAL '1' HOUR".to_string(),
            };
            parts.push(format!("WATERMARK FOR {name} AS {name}{delay}"));
        }
        let mode = match self.mode {
            Mode::InsertOnly => "insert-only",
            Mode::Retract => "retract",
            Mode::Upsert => "upsert",
        };
        format!(
            "CREATE TABLE {} ({}) WITH ('connector' = 'test', 'changelog-mode' = '{mode}', 'partitions' = '{}')",
            self.name,
            parts.join(", "),
            self.partitions
        )
    }

    pub(super) fn rowtime(&self) -> Option<usize> {
        self.columns.iter().position(|column| column.is_rowtime)
    }

    /// Columns whose values together are unique.
    pub(super) fn keys(&self) -> Vec<Vec<usize>> {
        let mut keys = Vec::new();
        if self.has_key {
            keys.push(vec![0]);
        }
        if self.mode == Mode::InsertOnly {
            keys.extend(self.rowtime().map(|column| vec![column]));
        }
        keys
    }

    fn row(&self, random: &mut SmallRng, key: Option<Value>, tick: i64) -> Row {
        let mut row: Row = self
            .columns
            .iter()
            .map(|column| match column.is_rowtime {
                true => self.time_at(random, tick),
                false if column.nullable && random.random_bool(0.15) => Value::Null,
                false => column.kind.value(random),
            })
            .collect();
        if let Some(key) = key {
            row[0] = key;
        }
        if self.array.is_some() {
            row.push(array(random));
        }
        row
    }

    /// A time of its own for each tick.
    fn time_at(&self, random: &mut SmallRng, tick: i64) -> Value {
        let back = match self.time {
            Some(Time::Disorder) => random.random_range(0..=20),
            _ => 0,
        };
        // The milliseconds are the tick's own.
        Value::timestamp_millis(1_704_067_200_000 + (tick - back) * 1_000 + tick)
    }

    fn key(&self, random: &mut SmallRng) -> Value {
        let number = random.random_range(0..6);
        match self.columns[0].kind {
            Kind::Text => Value::Text(format!("k{number}")),
            _ => Value::Integer(number),
        }
    }
}

fn array(random: &mut SmallRng) -> Value {
    match random.random_range(0..4) {
        0 => Value::Null,
        length => Value::List(
            (1..length)
                .map(|_| match random.random_bool(0.2) {
                    true => Value::Null,
                    false => Kind::Int.value(random),
                })
                .collect(),
        ),
    }
}

/// Two to four tables.
pub(super) fn random_tables(random: &mut SmallRng) -> Vec<Table> {
    (0..random.random_range(2..=4))
        .map(|number| Table::random(random, number))
        .collect()
}

/// What happens to the tables, in order.
pub(super) fn random_history(random: &mut SmallRng, tables: &[Table]) -> Vec<Change> {
    let mut makers: Vec<Maker> = tables
        .iter()
        .map(|table| Maker {
            table,
            rows: Vec::new(),
        })
        .collect();
    let mut history = Vec::new();
    let (most_runs, longest) = *[(4, 3), (12, 4), (20, 5)]
        .choose(random)
        .unwrap_or(&(12, 4));
    let mut tick = 0;
    for _ in 0..random.random_range(most_runs / 3..=most_runs) {
        let number = random.random_range(0..tables.len());
        for _ in 0..random.random_range(1..=longest) {
            tick += 1;
            for (kind, row) in makers[number].change(random, tick) {
                let partition = partition(&tables[number], &row, tick);
                history.push(Change {
                    table: number,
                    partition,
                    kind,
                    row,
                });
            }
        }
    }
    history
}

/// The same for all changes of a key; any for rows that are never taken back.
fn partition(table: &Table, row: &Row, tick: i64) -> usize {
    if table.partitions == 1 {
        return 0;
    }
    match (&row[0], table.has_key) {
        (Value::Integer(key), true) => *key as usize % table.partitions,
        (Value::Text(key), true) => key.bytes().map(usize::from).sum::<usize>() % table.partitions,
        _ => tick as usize % table.partitions,
    }
}

/// Makes the changes of one table.
struct Maker<'t> {
    table: &'t Table,
    /// The rows that are there.
    rows: Vec<Row>,
}

impl Maker<'_> {
    fn change(&mut self, random: &mut SmallRng, tick: i64) -> Vec<(RowKind, Row)> {
        match (self.table.mode, self.table.has_key) {
            (Mode::InsertOnly, false) => vec![self.insert(random, None, tick)],
            (Mode::InsertOnly, true) => {
                let key = self.table.key(random);
                match self.at(&key) {
                    Some(_) => vec![],
                    None => vec![self.insert(random, Some(key), tick)],
                }
            }
            (Mode::Retract, false) => self.retract(random, tick),
            (Mode::Retract, true) => {
                let key = self.table.key(random);
                match self.at(&key) {
                    None => vec![self.insert(random, Some(key), tick)],
                    Some(at) => self.replace(random, at, Some(key), tick),
                }
            }
            (Mode::Upsert, _) => self.upsert(random, tick),
        }
    }

    fn at(&self, key: &Value) -> Option<usize> {
        self.rows.iter().position(|row| row[0] == *key)
    }

    fn insert(&mut self, random: &mut SmallRng, key: Option<Value>, tick: i64) -> (RowKind, Row) {
        let row = self.table.row(random, key, tick);
        self.rows.push(row.clone());
        (RowKind::Insert, row)
    }

    fn retract(&mut self, random: &mut SmallRng, tick: i64) -> Vec<(RowKind, Row)> {
        if self.rows.is_empty() || random.random_bool(0.55) {
            // Sometimes a row that is there already.
            if let Some(row) = self.rows.choose(random).filter(|_| random.random_bool(0.2)) {
                let row = row.clone();
                self.rows.push(row.clone());
                return vec![(RowKind::Insert, row)];
            }
            return vec![self.insert(random, None, tick)];
        }
        let at = random.random_range(0..self.rows.len());
        self.replace(random, at, None, tick)
    }

    /// Takes a row away, or puts another in its place.
    fn replace(
        &mut self,
        random: &mut SmallRng,
        at: usize,
        key: Option<Value>,
        tick: i64,
    ) -> Vec<(RowKind, Row)> {
        let old = self.rows.swap_remove(at);
        if random.random_bool(0.4) {
            return vec![(RowKind::Delete, old)];
        }
        let mut new = self.table.row(random, key, tick);
        if random.random_bool(0.5) {
            // One column changes, perhaps to what it was.
            let column = random.random_range(0..new.len());
            let changed = new[column].clone();
            new = old.clone();
            if !(self.table.has_key && column == 0) {
                new[column] = changed;
            }
        }
        self.rows.push(new.clone());
        vec![(RowKind::UpdateBefore, old), (RowKind::UpdateAfter, new)]
    }

    fn upsert(&mut self, random: &mut SmallRng, tick: i64) -> Vec<(RowKind, Row)> {
        let key = self.table.key(random);
        let old = self.at(&key).map(|at| self.rows.swap_remove(at));
        if random.random_bool(0.25) {
            // A delete of a key that is there or not, as a row or by its key alone.
            let mut row = old.unwrap_or_else(|| self.table.row(random, Some(key), tick));
            if random.random_bool(0.5) {
                let nullable = self
                    .table
                    .columns
                    .iter()
                    .map(|column| column.nullable)
                    .chain([true]);
                for (cell, _) in row
                    .iter_mut()
                    .zip(nullable)
                    .filter(|(_, nullable)| *nullable)
                {
                    *cell = Value::Null;
                }
            }
            return vec![(RowKind::Delete, row)];
        }
        let repeated = old.clone().filter(|_| random.random_bool(0.2));
        let row = repeated.unwrap_or_else(|| self.table.row(random, Some(key), tick));
        self.rows.push(row.clone());
        let kind = match old.is_none() && random.random_bool(0.7) {
            true => RowKind::Insert,
            false => RowKind::UpdateAfter,
        };
        vec![(kind, row)]
    }
}

/// The tables after a history. `None` where the history is not true to a changelog mode.
pub(super) fn fold(tables: &[Table], history: &[Change]) -> Option<Tables> {
    let mut result = Tables::new();
    for (number, table) in tables.iter().enumerate() {
        let changes = history.iter().filter(|change| change.table == number);
        let rows = match table.mode {
            Mode::Upsert => fold_by_key(changes),
            _ => fold_bag(table, changes)?,
        };
        result.insert(table.name.clone(), rows);
    }
    Some(result)
}

fn fold_by_key<'c>(changes: impl Iterator<Item = &'c Change>) -> Vec<Row> {
    let mut rows: BTreeMap<Ordered, Row> = BTreeMap::new();
    for change in changes {
        let key = Ordered(vec![change.row[0].clone()]);
        match change.kind.is_accumulate() {
            true => rows.insert(key, change.row.clone()),
            false => rows.remove(&key),
        };
    }
    rows.into_values().collect()
}

fn fold_bag<'c>(table: &Table, changes: impl Iterator<Item = &'c Change>) -> Option<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    let mut is_open_update = false;
    for change in changes {
        if is_open_update != (change.kind == RowKind::UpdateAfter) {
            return None;
        }
        is_open_update = change.kind == RowKind::UpdateBefore;
        match change.kind.is_accumulate() {
            true if table.has_key && rows.iter().any(|row| row[0] == change.row[0]) => return None,
            true => rows.push(change.row.clone()),
            false => {
                let at = rows.iter().position(|row| *row == change.row)?;
                rows.swap_remove(at);
            }
        }
    }
    (!is_open_update).then_some(rows)
}

/// A permutation of `0..count`.
pub(super) fn shuffled(random: &mut SmallRng, count: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    numbers.shuffle(random);
    numbers
}
