//! The deterministic stepper as the job that an execution drives, planned anew at every start.

use std::collections::BTreeMap;

use super::execution::{JobPlan, Launcher, SteppedJob};
use super::prepare::{PreparedCase, bind_query};
use super::ways::{Cuts, WaySettings};
use crate::checkpoint::JobSnapshot;
use crate::error::Result;
use crate::plan::{build_graph, plan_statement};
use crate::runtime::{DeterministicStepper, ManualClock, StepperOptions};

/// Starts the job of a prepared case.
pub(super) struct StepperLauncher<'a> {
    prepared: &'a PreparedCase,
    options: StepperOptions,
    clock: ManualClock,
}

impl<'a> StepperLauncher<'a> {
    /// `seed` decides the order of tasks where the way asks for a random one.
    pub(super) fn new(prepared: &'a PreparedCase, settings: WaySettings, seed: u64) -> Self {
        let mut options = StepperOptions::default();
        if settings.cuts == Cuts::Rows {
            options.batch_rows = 1;
        }
        if settings.cuts == Cuts::Random {
            options.order_seed = Some(seed);
            // Sometimes every output and every channel is full behind the first batch.
            if seed & 1 == 0 {
                options.output_bytes = 0;
            }
            if seed & 6 == 0 {
                options.queue_bytes = 1;
            }
        }
        StepperLauncher {
            prepared,
            options,
            clock: ManualClock::default(),
        }
    }
}

impl Launcher for StepperLauncher<'_> {
    type Job = DeterministicStepper;

    fn launch(
        &self,
        plan: &JobPlan,
        snapshot: Option<&JobSnapshot>,
    ) -> Result<DeterministicStepper> {
        let mut session = self.prepared.session.clone();
        if let Some(parallelism) = plan.parallelism {
            session
                .config
                .set("parallelism.default", &parallelism.to_string())?;
        }
        let statement = match &plan.query {
            Some(query) => bind_query(&mut session, query)?,
            None => self.prepared.statement.clone(),
        };
        let late_rows = session.late_rows_table()?;
        let (config, connectors) = (&session.config, &session.connectors);
        let planned = plan_statement(&statement, config, connectors, late_rows)
            .map_err(|error| error.with_sql(&self.prepared.sql))?;
        let graph = build_graph(&planned, config, connectors, None)?;
        DeterministicStepper::new(graph, self.options.clone(), self.clock.clone(), snapshot)
    }
}

impl SteppedJob for DeterministicStepper {
    type Snapshot = JobSnapshot;

    fn run_until_idle(&mut self) -> Result<()> {
        DeterministicStepper::run_until_idle(self)
    }

    fn advance_processing_time(&mut self, ms: i64) -> Result<()> {
        DeterministicStepper::advance_processing_time(self, ms)
    }

    fn checkpoint(&mut self) -> Result<Option<JobSnapshot>> {
        DeterministicStepper::checkpoint(self)
    }

    fn is_finished(&self) -> bool {
        DeterministicStepper::is_finished(self)
    }

    fn commit_end(&mut self) -> Result<()> {
        DeterministicStepper::commit_end(self)
    }

    fn metrics(&self) -> BTreeMap<String, u64> {
        DeterministicStepper::metrics(self)
    }
}
