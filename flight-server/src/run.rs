//! `volley run`: the statements of a script, one after the other.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use volley::environment::{ExecutionResult, PreparedJob, TableEnvironment};
use volley::runtime::{JobEvent, JobOutcome, StartingJob};
use volley::sql::{ScriptStatement, split_script};
use volley::{Error, Result};

use crate::allocator::give_freed_memory_back;
use crate::display::{ResultPrinter, print_rows};
use crate::endpoint::Endpoint;
use crate::progress::ProgressLine;

/// What `volley run` is told.
#[derive(clap::Args)]
pub(crate) struct RunArguments {
    /// The script.
    file: PathBuf,
    /// Sets an option before the script starts; the script's own SET wins.
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    options: Vec<String>,
    /// Goes on from the newest complete checkpoint in 'execution.checkpointing.dir'; where there is none, starts as without it.
    /// What a service that is started again after a crash needs.
    #[arg(long)]
    resume: bool,
    /// Starts a changed query from a checkpoint or savepoint although it takes up only a part of the state there; the rest is
    /// dropped. The same as -D execution.state-recovery.ignore-unclaimed-state=true.
    #[arg(long)]
    allow_dropped_state: bool,
    /// Writes the metrics of each job to standard error when it ends, one `name value` a line.
    #[arg(long)]
    metrics: bool,
}

/// The exit code of a run that Ctrl-C stopped.
const INTERRUPTED: u8 = 130;

/// Runs the script and gives the exit code.
pub(crate) fn run(arguments: &RunArguments) -> u8 {
    match run_script(arguments) {
        Ok(JobOutcome::Finished | JobOutcome::Stopped) => 0,
        Ok(JobOutcome::Cancelled) => INTERRUPTED,
        // Who read the output has seen enough.
        Err(error) if error.is_broken_pipe() => 0,
        Err(error) => {
            let _ = std::io::stdout().flush();
            let _ = writeln!(std::io::stderr(), "{error}");
            error.kind().exit_code() as u8
        }
    }
}

fn run_script(arguments: &RunArguments) -> Result<JobOutcome> {
    let name = arguments.file.display();
    let text = std::fs::read_to_string(&arguments.file)
        .map_err(|error| Error::external(format!("cannot read {name}: {error}")))?;
    let text = text.trim_start_matches('\u{feff}');
    let interrupted = interrupts()?;
    let mut environment = TableEnvironment::default();
    for option in &arguments.options {
        let (key, value) = option
            .split_once('=')
            .ok_or_else(|| Error::user(format!("-D {option}: write -D key=value")))?;
        environment.set(key.trim(), value.trim())?;
    }
    if arguments.allow_dropped_state {
        environment.set("execution.state-recovery.ignore-unclaimed-state", "true")?;
    }
    let runner = Runner {
        interrupted,
        resume: arguments.resume,
        resumed: RefCell::default(),
        metrics: arguments.metrics,
    };
    for statement in
        split_script(text).map_err(|error| error.with_sql(text).context(format!("in {name}")))?
    {
        let outcome = run_statement(&mut environment, &statement, &runner);
        let outcome = outcome
            .map_err(|error| error.shifted(statement.start).context(format!("in {name}")))?;
        if outcome != JobOutcome::Finished {
            return Ok(outcome);
        }
    }
    Ok(JobOutcome::Finished)
}

fn run_statement(
    environment: &mut TableEnvironment,
    statement: &ScriptStatement,
    runner: &Runner,
) -> Result<JobOutcome> {
    match environment.execute(&statement.text)? {
        ExecutionResult::Done => Ok(JobOutcome::Finished),
        ExecutionResult::Rows { schema, rows } => {
            print_rows(&schema, &rows, environment.session().config.time_zone())
                .map(|()| JobOutcome::Finished)
        }
        ExecutionResult::Explained(text) => print_text(&text).map(|()| JobOutcome::Finished),
        ExecutionResult::Job(job) => {
            run_job(&job, statement, runner).map_err(|error| error.with_sql(&statement.text))
        }
    }
}

fn print_text(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}

/// How the jobs of a script are run.
struct Runner {
    interrupted: Interrupts,
    resume: bool,
    /// Where jobs of the script have looked for their checkpoints.
    resumed: RefCell<BTreeSet<String>>,
    /// Whether metrics are written at the end of a job.
    metrics: bool,
}

impl Runner {
    /// Two jobs of a script cannot go on from one directory: the second would take the state of the first for its own.
    fn keep_apart(&self, job: &PreparedJob) -> Result<()> {
        let Some(directory) = job.config().get("execution.checkpointing.dir") else {
            return Ok(());
        };
        match self.resumed.borrow_mut().insert(directory.to_string()) {
            true => Ok(()),
            false => Err(Error::user(format!(
                "--resume cannot tell the checkpoints of this job in {directory} from those of an earlier job of the script"
            ))
            .hint("SET 'execution.checkpointing.dir' to another directory before each job, or make them one job with EXECUTE STATEMENT SET")),
        }
    }
}

fn run_job(job: &PreparedJob, statement: &ScriptStatement, runner: &Runner) -> Result<JobOutcome> {
    let printer = job
        .select_schema()
        .map(|schema| ResultPrinter::new(schema, job.time_zone()))
        .transpose()?
        .map(Arc::new);
    let collector = printer.clone().map(|printer| {
        Arc::new(move |batch: &_| printer.print(batch)) as volley::connectors::collect::Collector
    });
    if job.config().get("state.backend.type") == Some("rocksdb") {
        give_freed_memory_back(job.config().memory_bytes("state.backend.memory"));
    }
    let starting = match runner.resume {
        true => {
            runner.keep_apart(job)?;
            job.start_resumed(collector)?
        }
        false => job.start(collector)?,
    };
    let (status, cancel) = (starting.status(), starting.cancel_flag());
    runner.interrupted.stop_on(cancel.clone());
    let mode = job.config().get("volley.progress").unwrap_or("auto");
    let line = Rc::new(RefCell::new(ProgressLine::new(mode)));
    let endpoint = open_endpoint(&starting, &line);
    let running = match announced(starting, statement, &line).deploy() {
        Err(_) if cancel.load(Ordering::SeqCst) => {
            let line = line.borrow();
            line.note("stopped while the job was being restored: it has read nothing yet, and what it was to start from stays as it is");
            return Ok(JobOutcome::Cancelled);
        }
        deployed => deployed?,
    };
    let mut report = BTreeMap::new();
    let outcome = running.run(&mut |metrics, progress| {
        if runner.metrics {
            report = metrics.report();
        }
        let mut line = line.borrow_mut();
        line.show(&progress);
        for warning in metrics.new_warnings() {
            line.clear();
            line.note(&warning);
        }
    });
    let line = line.borrow();
    line.clear();
    for (name, value) in report {
        line.note(&format!("{name} {value}"));
    }
    drop(endpoint);
    let outcome = outcome?;
    if let Some(printer) = printer {
        printer.finish()?;
    }
    match (outcome, status.overview().savepoint) {
        (JobOutcome::Stopped, Some(savepoint)) => {
            line.note(&format!("stopped with the savepoint {savepoint}"))
        }
        (JobOutcome::Cancelled, _) if job.select_schema().is_none() => {
            line.note(&what_is_left(job, runner));
        }
        _ => {}
    }
    line.summary(outcome);
    Ok(outcome)
}

/// What a job leaves that was stopped before its end.
fn what_is_left(job: &PreparedJob, runner: &Runner) -> String {
    const RETENTION: &str = "execution.checkpointing.externalized-checkpoint-retention";
    let config = job.config();
    let has_checkpoints = !config
        .duration("execution.checkpointing.interval")
        .is_zero()
        && config.get("execution.checkpointing.dir").is_some();
    let stopped = "stopped before the end: what sinks wrote";
    if !has_checkpoints {
        return format!(
            "{stopped} stays invisible, for without checkpoints they commit at the end (see 'execution.checkpointing.interval')"
        );
    }
    let stays = format!("{stopped} since the last checkpoint stays invisible");
    let is_kept = config.get(RETENTION) == Some("RETAIN_ON_CANCELLATION");
    match is_kept || runner.resume {
        true => stays,
        false => format!(
            "{stays}; its checkpoints are removed (with --resume, or '{RETENTION}' = 'RETAIN_ON_CANCELLATION', they stay)"
        ),
    }
}

/// The door for other commands. A job runs without it, too.
fn open_endpoint(job: &StartingJob, line: &RefCell<ProgressLine>) -> Option<Endpoint> {
    let endpoint = Endpoint::open(job.status(), job.control());
    let because = |error| format!("volley list does not know this job: {error}");
    endpoint
        .map_err(|error| line.borrow().note(&because(error)))
        .ok()
}

/// A job that says what happens to it: always where it concerns checkpoints, else where a person looks.
fn announced(
    job: StartingJob,
    statement: &ScriptStatement,
    line: &Rc<RefCell<ProgressLine>>,
) -> StartingJob {
    let (line, statement) = (line.clone(), statement.clone());
    job.on_event(move |event| {
        let line = line.borrow();
        let matters = match event {
            JobEvent::Started(started) => started.checkpoints.is_some() || started.origin.is_some(),
            _ => true,
        };
        if matters || line.is_shown() {
            line.clear();
            line.note(&located(event, &statement).to_string());
        }
    })
}

/// The event with the place in the script.
fn located(event: &JobEvent, statement: &ScriptStatement) -> JobEvent {
    match event.clone() {
        JobEvent::Failed { error, restart_in } => JobEvent::Failed {
            error: error.with_sql(&statement.text).shifted(statement.start),
            restart_in,
        },
        other => other,
    }
}

/// Ctrl-C sets the cancel flag of the job that runs; a second one ends the process.
struct Interrupts {
    current: Arc<Mutex<Option<Arc<AtomicBool>>>>,
}

impl Interrupts {
    fn stop_on(&self, flag: Arc<AtomicBool>) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(flag);
    }
}

/// Ends the process without cleaning up: other threads still use what would be gone.
#[cfg(unix)]
fn exit_at_once(code: u8) -> ! {
    unsafe extern "C" {
        fn _exit(code: std::ffi::c_int) -> !;
    }
    // SAFETY: a function of the C library with its signature, which may be called at any time.
    unsafe { _exit(code.into()) }
}

#[cfg(not(unix))]
fn exit_at_once(code: u8) -> ! {
    std::process::exit(code.into())
}

fn interrupts() -> Result<Interrupts> {
    static TWICE: OnceLock<AtomicBool> = OnceLock::new();
    let current = Arc::new(Mutex::new(None::<Arc<AtomicBool>>));
    let seen = current.clone();
    let handler = move || {
        let twice = TWICE
            .get_or_init(|| AtomicBool::new(false))
            .swap(true, Ordering::SeqCst);
        match &*seen.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(flag) if !twice => flag.store(true, Ordering::SeqCst),
            _ => exit_at_once(INTERRUPTED),
        }
    };
    ctrlc::set_handler(handler)
        .map_err(|error| Error::external(format!("cannot listen for Ctrl-C: {error}")))?;
    Ok(Interrupts { current })
}
