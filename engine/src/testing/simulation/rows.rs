//! The tables of the pool, and random rows for them that are true to their changelog mode.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use serde_yaml_ng::Value as Yaml;

use crate::testing::case::{Record, Step};
use crate::types::RowKind;

/// 2024-01-01 00:00:00.
const BEGINNING_MS: i64 = 1_704_067_200_000;

/// A table of the pool, by what it is for; its name in SQL is in the DDL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolTable {
    /// `e`: inserted rows with an event time.
    Events,
    /// `f`: the same, another table.
    OtherEvents,
    /// `q`: inserted rows with a processing time.
    Arrivals,
    /// `a`: inserted rows with an array.
    Arrays,
    /// `r`: rows that are taken back, without a key.
    Retracted,
    /// `rk`: rows that are taken back, by key.
    RetractedByKey,
    /// `u`: rows that are replaced by key.
    Upserted,
    /// `c`: versions of a key in event time.
    Versions,
    /// `d`: looked up by key.
    Dimension,
}

/// What may happen to event times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    /// Out of order by less than the delay, so never late.
    Disorder,
    /// Sometimes late. One partition, so that which rows are late does not depend on who is first.
    Late,
}

impl PoolTable {
    pub(super) fn name(self) -> &'static str {
        match self {
            PoolTable::Events => "e",
            PoolTable::OtherEvents => "f",
            PoolTable::Arrivals => "q",
            PoolTable::Arrays => "a",
            PoolTable::Retracted => "r",
            PoolTable::RetractedByKey => "rk",
            PoolTable::Upserted => "u",
            PoolTable::Versions => "c",
            PoolTable::Dimension => "d",
        }
    }

    /// Whether rows of one key lie in one partition or may lie in any.
    pub(super) fn may_have_partitions(self) -> bool {
        matches!(self, PoolTable::Events | PoolTable::OtherEvents)
    }

    pub(super) fn ddl(self, partitions: usize) -> String {
        let name = self.name();
        match self {
            PoolTable::Events | PoolTable::OtherEvents => format!(
                "CREATE TABLE {name} (id BIGINT, k STRING, g INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) \
                 WITH ('partitions' = '{partitions}')"
            ),
            PoolTable::Arrivals => {
                "CREATE TABLE q (id BIGINT, k STRING, v INT, pt AS PROCTIME())".to_string()
            }
            PoolTable::Arrays => "CREATE TABLE a (id BIGINT, k STRING, xs ARRAY<INT>)".to_string(),
            PoolTable::Retracted => {
                "CREATE TABLE r (id INT, k STRING, v INT) WITH ('changelog-mode' = 'retract')"
                    .to_string()
            }
            PoolTable::RetractedByKey => {
                "CREATE TABLE rk (id INT, k STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('changelog-mode' = 'retract')"
                    .to_string()
            }
            PoolTable::Upserted => {
                "CREATE TABLE u (id INT, k STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('changelog-mode' = 'upsert')"
                    .to_string()
            }
            PoolTable::Versions => {
                "CREATE TABLE c (k STRING, rate INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND, \
                 PRIMARY KEY (k) NOT ENFORCED) WITH ('changelog-mode' = 'retract')"
                    .to_string()
            }
            PoolTable::Dimension => {
                "CREATE TABLE d (k STRING, name STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('lookup' = 'true', 'changelog-mode' = 'upsert')"
                    .to_string()
            }
        }
    }
}

/// Makes the rows of one table, one change a call.
pub(super) struct RowMaker {
    pub(super) table: PoolTable,
    pub(super) partitions: usize,
    times: Times,
    /// The rows that are there, for those that are taken back.
    rows: Vec<Vec<Yaml>>,
}

impl RowMaker {
    pub(super) fn new(table: PoolTable, partitions: usize, times: Times) -> Self {
        RowMaker {
            table,
            partitions,
            times,
            rows: Vec::new(),
        }
    }

    /// The next change at `tick`, of which each has its own millisecond.
    pub(super) fn change(&mut self, random: &mut SmallRng, tick: i64) -> Vec<Step> {
        match self.table {
            PoolTable::Events | PoolTable::OtherEvents => {
                let row = vec![
                    tick.into(),
                    key(random),
                    small(random, 3),
                    small(random, 20),
                    self.time(random, tick),
                ];
                vec![self.step(random, RowKind::Insert, row)]
            }
            PoolTable::Arrivals => {
                let row = vec![tick.into(), key(random), small(random, 20)];
                vec![self.step(random, RowKind::Insert, row)]
            }
            PoolTable::Arrays => {
                let length = random.random_range(0..4);
                let list = (0..length).map(|_| small(random, 9)).collect();
                let row = vec![tick.into(), key(random), Yaml::Sequence(list)];
                vec![self.step(random, RowKind::Insert, row)]
            }
            PoolTable::Retracted => self.taken_back(random),
            PoolTable::RetractedByKey => self.replaced(random),
            PoolTable::Upserted => self.upserted(random),
            PoolTable::Versions => self.version(random, tick),
            PoolTable::Dimension => {
                let row = vec![some_key(random), format!("name {tick}").into()];
                vec![self.step(random, RowKind::UpdateAfter, row)]
            }
        }
    }

    fn step(&self, random: &mut SmallRng, kind: RowKind, cells: Vec<Yaml>) -> Step {
        Step::Record {
            table: self.table.name().to_string(),
            partition: random.random_range(0..self.partitions),
            record: Record::Row { kind, cells },
        }
    }

    fn time(&self, random: &mut SmallRng, tick: i64) -> Yaml {
        let back = match self.times {
            Times::Late if random.random_bool(0.15) => random.random_range(3..40),
            _ => random.random_range(0..=1),
        };
        timestamp(BEGINNING_MS + (tick - back) * 1_000 + tick)
    }

    fn taken_back(&mut self, random: &mut SmallRng) -> Vec<Step> {
        let is_new = self.rows.is_empty() || random.random_bool(0.55);
        if is_new {
            let row = vec![small(random, 6), key(random), small(random, 9)];
            self.rows.push(row.clone());
            return vec![self.step(random, RowKind::Insert, row)];
        }
        let at = random.random_range(0..self.rows.len());
        let old = self.rows.swap_remove(at);
        if random.random_bool(0.5) {
            return vec![self.step(random, RowKind::Delete, old)];
        }
        let new = vec![old[0].clone(), key(random), small(random, 9)];
        self.rows.push(new.clone());
        vec![
            self.step(random, RowKind::UpdateBefore, old),
            self.step(random, RowKind::UpdateAfter, new),
        ]
    }

    fn replaced(&mut self, random: &mut SmallRng) -> Vec<Step> {
        let id: Yaml = random.random_range(0..7).into();
        let new = vec![id.clone(), key(random), small(random, 9)];
        let Some(at) = self.rows.iter().position(|row| row[0] == id) else {
            self.rows.push(new.clone());
            return vec![self.step(random, RowKind::Insert, new)];
        };
        let old = self.rows.swap_remove(at);
        if random.random_bool(0.25) {
            return vec![self.step(random, RowKind::Delete, old)];
        }
        self.rows.push(new.clone());
        vec![
            self.step(random, RowKind::UpdateBefore, old),
            self.step(random, RowKind::UpdateAfter, new),
        ]
    }

    fn upserted(&mut self, random: &mut SmallRng) -> Vec<Step> {
        let id: Yaml = random.random_range(0..7).into();
        let row = vec![id, key(random), small(random, 9)];
        let kind = match random.random_range(0..5) {
            0 => RowKind::Delete,
            _ => RowKind::UpdateAfter,
        };
        vec![self.step(random, kind, row)]
    }

    fn version(&mut self, random: &mut SmallRng, tick: i64) -> Vec<Step> {
        let key = some_key(random);
        let time = self.time(random, tick);
        let new = vec![key.clone(), small(random, 99), time];
        let Some(at) = self.rows.iter().position(|row| row[0] == key) else {
            self.rows.push(new.clone());
            return vec![self.step(random, RowKind::Insert, new)];
        };
        let old = std::mem::replace(&mut self.rows[at], new.clone());
        vec![
            self.step(random, RowKind::UpdateBefore, old),
            self.step(random, RowKind::UpdateAfter, new),
        ]
    }
}

/// A key, now and then NULL.
fn key(random: &mut SmallRng) -> Yaml {
    match random.random_range(0..14) {
        0 => Yaml::Null,
        _ => some_key(random),
    }
}

fn some_key(random: &mut SmallRng) -> Yaml {
    let keys = ["a", "b", "c", "d", "e", "f"];
    (*keys.choose(random).unwrap_or(&"a")).into()
}

/// A number below `end`, now and then NULL.
fn small(random: &mut SmallRng, end: i64) -> Yaml {
    match random.random_range(0..12) {
        0 => Yaml::Null,
        _ => random.random_range(0..end).into(),
    }
}

fn timestamp(millis: i64) -> Yaml {
    let time = chrono::DateTime::from_timestamp_millis(millis).unwrap_or_default();
    time.format("%Y-%m-%d %H:%M:%S%.3f").to_string().into()
}
