//! One scenario: tables and what happens to them, a query, how it is run, and what must come out.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use volley::connectors::standard_registry;
use volley::error::{Error, Result};
use volley::plan::logical::{LogicalPlan, Statement};
use volley::sql::{Session, StatementResult};
use volley::testing::case::Step;
use volley::testing::{TestBench, TestConnector, Way};
use volley::types::{LogicalType, Schema, TypeRoot};

use super::column::Kind;
use super::draft;
use super::query::{Relation, Writer};
use super::tables::{Change, Table, fold, random_history, random_tables};
use super::twin::{Row, Unclear, evaluate};

/// Options by key, as by SET.
type Options = Vec<(String, String)>;

/// Steps, each before the change of a number.
type Events = Vec<(usize, Step)>;

/// Everything that a seed decides.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) tables: Vec<Table>,
    pub(super) history: Vec<Change>,
    /// The query, with parts that can be left out.
    pub(super) draft: String,
    pub(super) sink: Sink,
    pub(super) set: Options,
    /// What happens beside the rows, before the change of that number.
    pub(super) events: Events,
    pub(super) way: Way,
}

/// Where the rows go.
#[derive(Debug, Clone)]
pub(super) enum Sink {
    /// They are selected.
    Select,
    /// A table with these columns as its primary key.
    Table { key: Vec<String>, is_upsert: bool },
}

/// A scenario as statements.
pub(super) struct Bound {
    /// The DDL of the sources and the sink.
    pub(super) tables: Vec<String>,
    /// The SELECT or INSERT.
    pub(super) query: String,
    /// The sink's key, as positions.
    pub(super) key: Vec<usize>,
    plan: LogicalPlan,
}

impl Scenario {
    pub(super) fn from_seed(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let tables = random_tables(&mut random);
        let history = random_history(&mut random, &tables);
        let levels = *[1, 1, 2, 2, 3, 3, 4].choose(&mut random).unwrap_or(&1);
        let relation = Writer::new(&mut random, &tables).query(levels);
        let sink = random_sink(&mut random, &relation);
        let scenario = Scenario {
            seed,
            draft: relation.sql,
            sink,
            set: vec![],
            events: vec![],
            way: Way::Base,
            tables,
            history,
        };
        scenario.run_as(random.random())
    }

    /// The same tables, changes and query, run in another way.
    pub(super) fn run_as(mut self, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let ways = [
            Way::Random,
            Way::Random,
            Way::Random,
            Way::Base,
            Way::Size1,
            Way::Mixed,
        ];
        self.way = *ways.choose(&mut random).unwrap_or(&Way::Base);
        (self.set, self.events) = random_run(&mut random, self.history.len());
        self
    }

    /// The statements, and the plan of the query. Fails where the engine refuses the query.
    pub(super) fn bind(&self) -> Result<Bound> {
        let mut session = self.session()?;
        let mut tables: Vec<String> = self.tables.iter().map(Table::ddl).collect();
        let select = draft::plain(&self.draft);
        let plan = select_plan(&mut session, &select)?;
        let Sink::Table { key, is_upsert } = &self.sink else {
            return Ok(Bound {
                tables,
                query: select,
                key: vec![],
                plan,
            });
        };
        let schema = plan.schema();
        let key: Vec<usize> = key
            .iter()
            .filter_map(|name| schema.index_of(name))
            .collect();
        let ddl = sink_ddl(&schema, &key, *is_upsert);
        session.execute(&ddl)?;
        tables.push(ddl);
        let query = format!("INSERT INTO sink {}", keyed(&select, &schema, &key));
        let plan = match session.execute(&query)? {
            StatementResult::Job(Statement::Inserts(mut inserts)) => inserts.remove(0).query,
            _ => return Err(Error::internal("an INSERT is a job")),
        };
        Ok(Bound {
            tables,
            query,
            key: if *is_upsert { key } else { vec![] },
            plan,
        })
    }

    fn session(&self) -> Result<Session> {
        let mut connectors = standard_registry();
        let bench = std::sync::Arc::new(TestBench::new(&[]));
        connectors.register(std::sync::Arc::new(TestConnector::new(bench, true)));
        let mut session = Session::new(connectors);
        for (key, value) in &self.set {
            session.config.set(key, value)?;
        }
        for table in &self.tables {
            session.execute(&table.ddl())?;
        }
        Ok(session)
    }

    /// What must come out.
    pub(super) fn expected(&self, bound: &Bound) -> std::result::Result<Vec<Row>, Unclear> {
        let tables = fold(&self.tables, &self.history).expect("the history is true to its modes");
        evaluate(&bound.plan, &tables)
    }
}

fn select_plan(session: &mut Session, select: &str) -> Result<LogicalPlan> {
    match session.execute(select)? {
        StatementResult::Job(Statement::Select(plan)) => Ok(plan),
        _ => Err(Error::internal("a SELECT is a query")),
    }
}

fn sink_ddl(schema: &Schema, key: &[usize], is_upsert: bool) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (at, field) in schema.fields.iter().enumerate() {
        let is_nullable = field.logical_type.nullable && !key.contains(&at);
        let logical_type = match field.logical_type.root.is_string() {
            true => LogicalType::STRING,
            false => field.logical_type.clone(),
        };
        let logical_type = logical_type.with_nullable(is_nullable);
        parts.push(format!("`{}` {logical_type}", field.name));
    }
    let names: Vec<String> = key
        .iter()
        .map(|at| format!("`{}`", schema.fields[*at].name))
        .collect();
    parts.push(format!("PRIMARY KEY ({}) NOT ENFORCED", names.join(", ")));
    let mode = if is_upsert { "upsert" } else { "retract" };
    format!(
        "CREATE TABLE sink ({}) WITH ('connector' = 'test', 'changelog-mode' = '{mode}')",
        parts.join(", ")
    )
}

/// The query with values in place of NULLs in its key.
fn keyed(select: &str, schema: &Schema, key: &[usize]) -> String {
    let is_open = |at: &usize| schema.fields[*at].logical_type.nullable;
    if !key.iter().any(is_open) {
        return select.to_string();
    }
    let items = schema.fields.iter().enumerate().map(|(at, field)| {
        let outside = kind_of(&field.logical_type).and_then(Kind::outside);
        match outside {
            Some(outside) if key.contains(&at) && is_open(&at) => {
                format!("COALESCE({}, {outside}) AS {}", field.name, field.name)
            }
            _ => field.name.clone(),
        }
    });
    format!(
        "SELECT {} FROM ({select}) AS keyed",
        items.collect::<Vec<_>>().join(", ")
    )
}

fn kind_of(logical_type: &LogicalType) -> Option<Kind> {
    match &logical_type.root {
        TypeRoot::Timestamp(_) => Some(Kind::Time),
        root if root.is_string() => Some(Kind::Text),
        root => Kind::ALL
            .into_iter()
            .find(|kind| kind.to_string() == root.to_string()),
    }
}

fn random_sink(random: &mut SmallRng, relation: &Relation) -> Sink {
    let can_be_key = |key: &&Vec<usize>| {
        !key.is_empty()
            && key.iter().all(|at| {
                let column = &relation.columns[*at];
                !column.nullable || column.kind.outside().is_some()
            })
    };
    let keys: Vec<&Vec<usize>> = relation.keys.iter().filter(can_be_key).collect();
    match keys.choose(random) {
        Some(key) if random.random_bool(0.6) => Sink::Table {
            key: key
                .iter()
                .map(|at| relation.columns[*at].name.clone())
                .collect(),
            is_upsert: random.random_bool(0.8),
        },
        _ => Sink::Select,
    }
}

/// Options, and what happens beside the rows.
fn random_run(random: &mut SmallRng, changes: usize) -> (Options, Events) {
    let mut set: Vec<(&str, String)> = Vec::new();
    if random.random_bool(0.6) {
        set.push((
            "parallelism.default",
            random.random_range(1..=4).to_string(),
        ));
    }
    if random.random_bool(0.35) {
        set.push(("table.exec.mini-batch.enabled", "true".to_string()));
        set.push(("table.exec.mini-batch.allow-latency", "1 s".to_string()));
        let size: u32 = *[1, 2, 3, 5, 100].choose(random).unwrap_or(&1);
        set.push(("table.exec.mini-batch.size", size.to_string()));
    }
    if random.random_bool(0.3) {
        set.push(("table.optimizer.multi-join.enabled", "true".to_string()));
    }
    let phases = ["AUTO", "ONE_PHASE", "TWO_PHASE"]
        .choose(random)
        .unwrap_or(&"AUTO");
    set.push(("table.optimizer.agg-phase-strategy", phases.to_string()));
    let mut events = Vec::new();
    if random.random_bool(0.4) {
        let mut at = 0;
        for _ in 0..random.random_range(1..=3) {
            at = random.random_range(at..=changes);
            events.push((
                at,
                Step::Checkpoint {
                    crash_after_commit: false,
                },
            ));
            at = random.random_range(at..=changes);
            events.push((
                at,
                match random.random_range(1..=6) {
                    parallelism @ 1..=4 => Step::RestoreWithParallelism(parallelism),
                    _ => Step::KillAndRestore,
                },
            ));
        }
    }
    if random.random_bool(0.2) {
        let at = random.random_range(0..=changes);
        events.push((at, Step::AdvanceProcessingTime { ms: 1_000 }));
        events.sort_by_key(|(at, _)| *at);
    }
    (
        set.into_iter()
            .map(|(key, value)| (key.to_string(), value))
            .collect(),
        events,
    )
}
