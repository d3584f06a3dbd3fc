//! The door for everybody outside: statements go in, results and jobs come out.

use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::checkpoint::open_snapshot;
use crate::checkpoint::upgrade::UpgradeReport;
use crate::config::SessionConfig;
use crate::connectors::collect::{CollectSink, Collector, Delivery};
use crate::connectors::{ConnectorRegistry, Sink, standard_registry};
use crate::error::{Error, Result};
use crate::plan::logical::{Statement, TableSpec};
use crate::plan::{ExecPlan, build_graph, explain, plan_statement};
use crate::runtime::{
    CheckpointRetention, Clock, DEFAULT_NAME, JobGraph, JobId, JobOptions, RestartStrategy,
    StartingJob, Supervisor, SystemClock, explain_upgrade,
};
use crate::sql::{Session, StatementResult};
use crate::types::Schema;

/// A session: its catalog, its options, its connectors. Flink's `TableEnvironment`.
pub struct TableEnvironment {
    session: Session,
}

/// What a statement came to.
pub enum ExecutionResult {
    /// It changed the catalog or an option.
    Done,
    /// Rows that are there already (SHOW, DESCRIBE, SET).
    Rows {
        /// Their columns.
        schema: Schema,
        /// The rows.
        rows: RecordBatch,
    },
    /// The text of an EXPLAIN.
    Explained(String),
    /// A job that waits to be run.
    Job(PreparedJob),
}

/// A planned INSERT, statement set or SELECT.
#[derive(Clone)]
pub struct PreparedJob {
    plan: ExecPlan,
    config: SessionConfig,
    connectors: ConnectorRegistry,
    select: Option<Schema>,
    sql: String,
}

/// The option that names what a job restores.
const RECOVERY_PATH: &str = "execution.state-recovery.path";

impl Default for TableEnvironment {
    fn default() -> Self {
        Self::new(standard_registry())
    }
}

impl TableEnvironment {
    /// A session that knows these connectors.
    pub fn new(connectors: ConnectorRegistry) -> Self {
        TableEnvironment {
            session: Session::new(connectors),
        }
    }

    /// The session, for its catalog and options.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Sets an option: `SET 'key' = 'value'`.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        self.session.config.set(key, value)
    }

    /// Parses, binds and plans one statement. Errors carry the place in it.
    pub fn execute(&mut self, statement: &str) -> Result<ExecutionResult> {
        match self.session.execute(statement)? {
            StatementResult::Done => Ok(ExecutionResult::Done),
            StatementResult::Rows { schema, rows } => Ok(ExecutionResult::Rows { schema, rows }),
            StatementResult::Explain {
                statement: explained,
                details,
            } => {
                let job = self
                    .prepare(&explained)
                    .map_err(|error| error.with_sql(statement))?;
                Ok(ExecutionResult::Explained(explain(
                    &job.plan,
                    &self.session.config,
                    details,
                )))
            }
            StatementResult::ExplainUpgrade {
                statement: explained,
                path,
            } => {
                let job = self
                    .prepare(&explained)
                    .map_err(|error| error.with_sql(statement))?;
                let path = path.as_deref();
                let report = job.explain_upgrade(path.or(job.config.get(RECOVERY_PATH)))?;
                Ok(ExecutionResult::Explained(report.to_string()))
            }
            StatementResult::Job(job) => {
                let mut job = self
                    .prepare(&job)
                    .map_err(|error| error.with_sql(statement))?;
                job.sql = statement.trim().to_string();
                Ok(ExecutionResult::Job(job))
            }
        }
    }

    fn prepare(&self, statement: &Statement) -> Result<PreparedJob> {
        let session = &self.session;
        check_parallelism(&session.config)?;
        let late_rows: Option<Arc<TableSpec>> = session.late_rows_table()?;
        let plan = plan_statement(statement, &session.config, &session.connectors, late_rows)?;
        let select = match statement {
            Statement::Select(query) => Some(query.schema()),
            Statement::Inserts(_) => None,
        };
        Ok(PreparedJob {
            plan,
            config: session.config.clone(),
            connectors: session.connectors.clone(),
            select,
            sql: String::new(),
        })
    }
}

/// A key group belongs to one subtask, so there cannot be more subtasks than key groups.
fn check_parallelism(config: &SessionConfig) -> Result<()> {
    let (parallelism, most) = (config.parallelism(), config.max_parallelism() as usize);
    if parallelism <= most {
        return Ok(());
    }
    Err(Error::user(format!(
        "parallelism.default is {parallelism}, above pipeline.max-parallelism, which is {most}"
    ))
    .hint("set 'pipeline.max-parallelism' too; it cannot change once a job has checkpoints"))
}

/// An id that no other job has.
fn new_job_id() -> JobId {
    use std::hash::{BuildHasher, RandomState};
    let random = || u128::from(RandomState::new().hash_one(std::process::id()));
    JobId(random() << 64 | random())
}

impl PreparedJob {
    /// The columns of a SELECT; `None` for INSERTs.
    pub fn select_schema(&self) -> Option<&Schema> {
        self.select.as_ref()
    }

    /// The session time zone, in which results are shown.
    pub fn time_zone(&self) -> &str {
        self.config.time_zone()
    }

    /// The options of the session that planned it.
    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// The plan.
    pub fn plan(&self) -> &ExecPlan {
        &self.plan
    }

    /// The job graph; a SELECT's rows go to `select_sink`.
    pub fn graph(&self, select_sink: Option<Arc<dyn Sink>>) -> Result<JobGraph> {
        let mut graph = build_graph(&self.plan, &self.config, &self.connectors, select_sink)?;
        graph.facts.sql = self.sql.clone();
        Ok(graph)
    }

    /// What restoring a savepoint or checkpoint would do with its state.
    /// Errors: no path, nothing there, or damage.
    pub fn explain_upgrade(&self, path: Option<&str>) -> Result<UpgradeReport> {
        let path = path.ok_or_else(|| {
            Error::user("EXPLAIN UPGRADE needs to know what would be restored").hint(format!(
                "EXPLAIN UPGRADE FROM '/path/to/savepoint' …, or SET '{RECOVERY_PATH}' = '…'"
            ))
        })?;
        let nobody: Collector = Arc::new(|_| Ok(()));
        let nobody = self
            .select
            .as_ref()
            .map(|_| Arc::new(CollectSink::new(nobody, Delivery::AtOnce)) as Arc<dyn Sink>);
        let graph = self.graph(nobody)?;
        let snapshot = open_snapshot(path)?;
        explain_upgrade(&graph, &*snapshot)
    }

    /// Deploys the job on this machine, as its options say; a SELECT's rows go to `collector`.
    pub fn deploy(&self, collector: Option<Collector>) -> Result<Supervisor> {
        self.start(collector)?.deploy()
    }

    /// As [`PreparedJob::start_resumed`], deployed.
    pub fn resume(&self, collector: Option<Collector>) -> Result<Supervisor> {
        self.start_resumed(collector)?.deploy()
    }

    /// The job with an id, before its state is restored.
    pub fn start(&self, collector: Option<Collector>) -> Result<StartingJob> {
        self.start_with(collector, JobOptions::from_config(&self.config)?)
    }

    /// As [`PreparedJob::start`], going on from the newest complete checkpoint in `execution.checkpointing.dir` where there is one.
    /// Who starts jobs so will do it again: checkpoints stay however the job ends, unless an option says otherwise.
    pub fn start_resumed(&self, collector: Option<Collector>) -> Result<StartingJob> {
        const RETENTION: &str = "execution.checkpointing.externalized-checkpoint-retention";
        let mut options = JobOptions::from_config(&self.config)?;
        options.restore.resume = true;
        if self.config.explicit().all(|(key, _)| key != RETENTION) {
            options.checkpoints.retention = CheckpointRetention::RetainOnCancellation;
        }
        self.start_with(collector, options)
    }

    fn start_with(
        &self,
        collector: Option<Collector>,
        mut options: JobOptions,
    ) -> Result<StartingJob> {
        let delivery = match options.checkpoints.is_on() {
            true => Delivery::WithCheckpoints,
            false => Delivery::AtOnce,
        };
        if collector.is_some() && delivery == Delivery::AtOnce {
            // Rows that were given cannot be taken back.
            options.restart_strategy = RestartStrategy::None;
        }
        let sink = collector.map(|collector| CollectSink::new(collector, delivery));
        let job = self.clone();
        let graph = move || {
            let sink = sink.clone().map(|sink| Arc::new(sink) as Arc<dyn Sink>);
            job.graph(sink)
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let name = self.config.get("pipeline.name").unwrap_or(DEFAULT_NAME);
        let graph = Box::new(graph);
        Ok(StartingJob::new(graph, options, clock, name, new_job_id()))
    }
}
