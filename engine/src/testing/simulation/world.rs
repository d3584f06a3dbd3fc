//! What outlives a process: the tables' rows, what sinks made durable, the clock; and how a job is started in it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::output::{Output, folded};
use super::workload::Workload;
use crate::checkpoint::{SnapshotReader, TableFacts};
use crate::config::SessionConfig;
use crate::error::{Error, Result};
use crate::plan::{ExecPlan, build_graph, plan_statement};
use crate::runtime::{DeterministicStepper, ManualClock, StepperOptions};
use crate::state::{StateBackend, StateSnapshot};
use crate::stream::{CheckpointId, KeyGroupRange};
use crate::testing::case::Variant;
use crate::testing::cell::Value;
use crate::testing::prepare::{PreparedCase, SinkTable, prepare};
use crate::testing::test_connector::TestBench;

/// See the module.
pub(super) struct World<'w> {
    pub(super) workload: &'w Workload,
    pub(super) bench: Arc<TestBench>,
    pub(super) clock: ManualClock,
    prepared: PreparedCase,
    sinks: Vec<SinkTable>,
    /// Planning takes longer than running so few rows.
    plans: RefCell<BTreeMap<usize, (ExecPlan, SessionConfig)>>,
}

/// How one process runs the job.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) parallelism: usize,
    pub(super) stepper: StepperOptions,
    pub(super) incremental: bool,
    pub(super) backend: Arc<dyn StateBackend>,
}

impl<'w> World<'w> {
    pub(super) fn new(workload: &'w Workload) -> Result<Self> {
        if let Some(directory) = &workload.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
        let bench = Arc::new(TestBench::new(&workload.steps));
        let prepared = prepare(&workload.case(), &Variant::default(), &[], &bench)?;
        let mut sinks = prepared.sinks.clone();
        let late = prepared.session.late_rows_table()?;
        let late = late.and_then(|table| prepared.sink(&table.descriptor.name));
        sinks.extend(late);
        Ok(World {
            workload,
            bench,
            clock: ManualClock::default(),
            prepared,
            sinks,
            plans: RefCell::default(),
        })
    }

    /// Starts the job.
    pub(super) fn launch(
        &self,
        launch: &Launch,
        snapshot: Option<&dyn SnapshotReader>,
    ) -> Result<DeterministicStepper> {
        let (plan, config) = self.plan(launch.parallelism)?;
        let mut graph = build_graph(&plan, &config, &self.prepared.session.connectors, None)?;
        graph.incremental = launch.incremental;
        // Rows come while a snapshot is copied.
        graph.copied_bytes = 1;
        // So few rows hardly ever outweigh all twice: all is told anew every other time.
        graph.most_changes = 0;
        graph.backend = launch.backend.clone();
        DeterministicStepper::from_reader(
            graph,
            launch.stepper.clone(),
            self.clock.clone(),
            snapshot,
        )
    }

    /// The plan at some parallelism, and the options that it was made with.
    pub(super) fn plan(&self, parallelism: usize) -> Result<(ExecPlan, SessionConfig)> {
        if let Some(plan) = self.plans.borrow().get(&parallelism) {
            return Ok(plan.clone());
        }
        let mut config = self.prepared.session.config.clone();
        config.set("parallelism.default", &parallelism.to_string())?;
        let late_rows = self.prepared.session.late_rows_table()?;
        let connectors = &self.prepared.session.connectors;
        let plan = plan_statement(&self.prepared.statement, &config, connectors, late_rows)?;
        let planned = (plan, config);
        self.plans.borrow_mut().insert(parallelism, planned.clone());
        Ok(planned)
    }

    /// What sinks show.
    pub(super) fn committed(&self) -> Result<Output, String> {
        if self.workload.directory.is_some() {
            return Ok(self.files());
        }
        self.output(|sink| self.bench.committed(sink))
    }

    /// What sinks were given, shown or not.
    pub(super) fn written(&self) -> Result<Output, String> {
        self.output(|sink| self.bench.written(sink))
    }

    fn output(
        &self,
        rows: impl Fn(&str) -> Vec<crate::testing::WrittenRow>,
    ) -> Result<Output, String> {
        let compared = self.workload.compared;
        let of_sink = |sink: &SinkTable| -> Result<_, String> {
            let table = folded(sink, compared, rows(&sink.name))
                .map_err(|message| format!("{}: {message}", sink.name))?;
            Ok((sink.name.clone(), table))
        };
        self.sinks.iter().map(of_sink).collect()
    }

    /// The lines of the visible files.
    fn files(&self) -> Output {
        let mut lines = Vec::new();
        let directory = self.workload.directory.iter();
        let entries = directory.filter_map(|directory| std::fs::read_dir(directory).ok());
        for path in entries.flatten().flatten().map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || name.starts_with('_') || !path.is_file() {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            lines.extend(text.lines().map(|line| vec![Value::Text(line.to_string())]));
        }
        Output::from([("files".to_string(), lines)])
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        if let Some(directory) = &self.workload.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// What the error of a call says in which the process dies.
pub(super) const DEATH: &str = "the process dies here";

/// A snapshot that is read from while the process dies.
pub(super) struct DyingReader<'s> {
    pub(super) snapshot: &'s dyn SnapshotReader,
    reads: std::sync::atomic::AtomicU32,
}

impl<'s> DyingReader<'s> {
    /// Dies with the read behind so many.
    pub(super) fn new(snapshot: &'s dyn SnapshotReader, reads: u32) -> Self {
        DyingReader {
            snapshot,
            reads: reads.into(),
        }
    }
}

impl SnapshotReader for DyingReader<'_> {
    fn checkpoint(&self) -> CheckpointId {
        self.snapshot.checkpoint()
    }

    fn operators(&self) -> Vec<String> {
        self.snapshot.operators()
    }

    fn has_rows(&self, uid: &str) -> Result<bool> {
        self.snapshot.has_rows(uid)
    }

    fn read(&self, uid: &str, range: KeyGroupRange, max_parallelism: u16) -> Result<StateSnapshot> {
        use std::sync::atomic::Ordering::Relaxed;
        let left = self
            .reads
            .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        match left {
            Ok(_) => self.snapshot.read(uid, range, max_parallelism),
            Err(_) => Err(Error::external(DEATH)),
        }
    }

    fn tables(&self, uid: &str) -> Result<Vec<TableFacts>> {
        self.snapshot.tables(uid)
    }
}
