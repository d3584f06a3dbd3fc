//! Every option once: its Flink key, type, default, unit and meaning. Checks and `docs/config.md` derive from here.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

mod ranges;

use ranges::check_range;

/// What a value of an option looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionType {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// A number with a fraction.
    Double,
    /// Any text.
    Text,
    /// `5 s`, `200 ms`, `1 min`; a bare number is milliseconds.
    Duration,
    /// `64 mb`, `1 gb`; a bare number is bytes.
    MemorySize,
    /// One of these words.
    Enum(&'static [&'static str]),
}

/// One option of a session, a connector or a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionSpec {
    /// The key, Flink's where Flink has it, else `volley.*`. A key that ends in `*` stands for all with that beginning.
    pub key: &'static str,
    /// The form of a value.
    pub option_type: OptionType,
    /// The value where it is not set; `None`: no default.
    pub default: Option<&'static str>,
    /// Meaning, in a sentence.
    pub doc: &'static str,
}

impl OptionSpec {
    /// An option.
    pub const fn new(
        key: &'static str,
        option_type: OptionType,
        default: Option<&'static str>,
        doc: &'static str,
    ) -> Self {
        OptionSpec {
            key,
            option_type,
            default,
            doc,
        }
    }

    fn matches(&self, key: &str) -> bool {
        match self.key.strip_suffix('*') {
            Some(prefix) => key.starts_with(prefix),
            None => self.key == key,
        }
    }
}

const PHASES: OptionType = OptionType::Enum(&["AUTO", "ONE_PHASE", "TWO_PHASE"]);

const RESTART_STRATEGIES: OptionType = OptionType::Enum(&[
    "none",
    "off",
    "disable",
    "fixed-delay",
    "fixeddelay",
    "failure-rate",
    "failurerate",
    "exponential-delay",
    "exponentialdelay",
]);

/// Keys by which Flink's older versions call an option, and its key now.
const OLD_KEYS: &[(&str, &str)] = &[
    ("execution.savepoint.path", "execution.state-recovery.path"),
    (
        "execution.savepoint.ignore-unclaimed-state",
        "execution.state-recovery.ignore-unclaimed-state",
    ),
    (
        "execution.savepoint-restore-mode",
        "execution.state-recovery.claim-mode",
    ),
    ("restart-strategy", "restart-strategy.type"),
    ("state.checkpoints.dir", "execution.checkpointing.dir"),
    (
        "state.checkpoints.num-retained",
        "execution.checkpointing.num-retained",
    ),
    (
        "state.backend.incremental",
        "execution.checkpointing.incremental",
    ),
    (
        "state.savepoints.dir",
        "execution.checkpointing.savepoint-dir",
    ),
];

/// The options of a session: what `SET 'key' = 'value'` and `-D key=value` accept.
pub const SESSION_OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "execution.runtime-mode",
        OptionType::Enum(&["streaming", "STREAMING"]),
        Some("streaming"),
        "How queries run; only streaming.",
    ),
    OptionSpec::new(
        "parallelism.default",
        OptionType::Integer,
        Some("1"),
        "Parallel instances of every operator.",
    ),
    OptionSpec::new(
        "pipeline.max-parallelism",
        OptionType::Integer,
        Some("128"),
        "Number of key groups: the most a job can ever be scaled to (at most 32768).",
    ),
    OptionSpec::new(
        "pipeline.name",
        OptionType::Text,
        None,
        "The name of the job in messages and checkpoints.",
    ),
    OptionSpec::new(
        "pipeline.auto-watermark-interval",
        OptionType::Duration,
        Some("200 ms"),
        "Accepted for Flink's sake: watermarks are exact, as if emitted at every row.",
    ),
    OptionSpec::new(
        "table.local-time-zone",
        OptionType::Text,
        Some("UTC"),
        "The session time zone: an IANA name, `UTC`, `GMT+08:00` or `+08:00`.",
    ),
    OptionSpec::new(
        "table.exec.source.idle-timeout",
        OptionType::Duration,
        Some("0 ms"),
        "How long a split may be silent before it stops holding back the watermark; 0: for ever.",
    ),
    OptionSpec::new(
        "table.exec.interval-join.min-cleanup-interval",
        OptionType::Duration,
        Some("0 ms"),
        "How much longer than it must an interval join keeps rows; rows of outer joins are padded so much later.",
    ),
    OptionSpec::new(
        "table.exec.async-lookup.buffer-capacity",
        OptionType::Integer,
        Some("100"),
        "How many rows of an asynchronous lookup join may wait for an answer; at least 1.",
    ),
    OptionSpec::new(
        "table.exec.async-lookup.timeout",
        OptionType::Duration,
        Some("3 min"),
        "How long a row of an asynchronous lookup join may wait, with all its retries; then the job fails.",
    ),
    OptionSpec::new(
        "table.exec.async-lookup.output-mode",
        OptionType::Enum(&["ORDERED", "ALLOW_UNORDERED"]),
        Some("ORDERED"),
        "Whether rows of an asynchronous lookup join keep their order, or, where all are inserts, come out as they are answered.",
    ),
    OptionSpec::new(
        "table.exec.async-lookup.key-ordered-enabled",
        OptionType::Boolean,
        Some("false"),
        "Accepted for Flink's sake: where rows are not all inserts, asynchronous lookup joins keep the order of all of them.",
    ),
    OptionSpec::new(
        "table.optimizer.agg-phase-strategy",
        PHASES,
        Some("AUTO"),
        "Whether aggregations fold rows before the exchange.",
    ),
    OptionSpec::new(
        "table.optimizer.distinct-agg.split.enabled",
        OptionType::Boolean,
        Some("false"),
        "With mini-batch: whether distinct aggregates are computed by buckets of their values first, so that a hot key is shared.",
    ),
    OptionSpec::new(
        "table.optimizer.distinct-agg.split.bucket-num",
        OptionType::Integer,
        Some("1024"),
        "The number of those buckets.",
    ),
    OptionSpec::new(
        "table.optimizer.incremental-agg-enabled",
        OptionType::Boolean,
        Some("true"),
        "Accepted for Flink's sake; results are the same.",
    ),
    OptionSpec::new(
        "table.exec.state.ttl",
        OptionType::Duration,
        Some("0 ms"),
        "How long unused state of updating operators is kept; 0: for ever. Window operators clean up by themselves.",
    ),
    OptionSpec::new(
        "table.optimizer.multi-join.enabled",
        OptionType::Boolean,
        Some("false"),
        "Makes one node of a chain of INNER and LEFT joins on one key, which remembers its inputs only and no intermediate results.",
    ),
    OptionSpec::new(
        "table.exec.mini-batch.enabled",
        OptionType::Boolean,
        Some("false"),
        "Folds updates of a bundle of rows into one change a key.",
    ),
    OptionSpec::new(
        "table.exec.mini-batch.allow-latency",
        OptionType::Duration,
        Some("0 ms"),
        "How long a bundle may wait.",
    ),
    OptionSpec::new(
        "table.exec.mini-batch.size",
        OptionType::Integer,
        Some("-1"),
        "How many rows make a bundle.",
    ),
    OptionSpec::new(
        "table.exec.deduplicate.insert-update-after-sensitive-enabled",
        OptionType::Boolean,
        Some("true"),
        "Whether the first row of a key that a deduplication keeps is surely an insert (+I), also where updates come without the row before.",
    ),
    OptionSpec::new(
        "table.exec.deduplicate.mini-batch.compact-changes-enabled",
        OptionType::Boolean,
        Some("false"),
        "Whether a deduplication by event time gives only the last change of each key in a mini-batch bundle; versioned tables need all of them.",
    ),
    OptionSpec::new(
        "table.exec.sink.not-null-enforcer",
        OptionType::Enum(&["ERROR", "DROP", "error", "drop"]),
        Some("ERROR"),
        "What a NULL in a NOT NULL column of a sink does.",
    ),
    OptionSpec::new(
        "table.exec.sink.type-length-enforcer",
        OptionType::Enum(&["IGNORE", "TRIM_PAD", "ERROR", "ignore", "trim_pad", "error"]),
        Some("IGNORE"),
        "What a value longer than the CHAR, VARCHAR, BINARY or VARBINARY column of a sink does, or shorter than a CHAR or BINARY one.",
    ),
    OptionSpec::new(
        "table.exec.sink.upsert-materialize",
        OptionType::Enum(&["AUTO", "NONE", "FORCE", "auto", "none", "force"]),
        Some("AUTO"),
        "Whether the rows of each primary key are remembered before a sink that takes upserts, so that an older one comes back when a newer goes; AUTO: where the query names its rows otherwise.",
    ),
    OptionSpec::new(
        "table.exec.sink.upsert-materialize-strategy.type",
        OptionType::Enum(&[
            "LEGACY", "MAP", "VALUE", "ADAPTIVE", "legacy", "map", "value", "adaptive",
        ]),
        Some("LEGACY"),
        "Flink's layouts of that state. Accepted; Volley has one layout, which finds, adds and removes a row in constant time.",
    ),
    OptionSpec::new(
        "table.exec.sink.require-on-conflict",
        OptionType::Boolean,
        Some("false"),
        "Whether an INSERT whose query names its rows otherwise than the sink's primary key needs an ON CONFLICT clause.",
    ),
    OptionSpec::new(
        "table.exec.sink.upserts.compaction-mode",
        OptionType::Enum(&["WATERMARK", "CHECKPOINT", "watermark", "checkpoint"]),
        Some("WATERMARK"),
        "When ON CONFLICT DO NOTHING and DO ERROR decide about the rows that came.",
    ),
    OptionSpec::new(
        "sink.committer.retries",
        OptionType::Integer,
        Some("10"),
        "How many commits of a sink may fail in a row, each tried again with the next checkpoint, before the job fails.",
    ),
    OptionSpec::new(
        "table.exec.source.cdc-events-duplicate",
        OptionType::Boolean,
        Some("false"),
        "Whether sources of changes may repeat them (at-least-once delivery); then changes are compared with the last row of each primary key.",
    ),
    OptionSpec::new(
        "state.backend.type",
        OptionType::Text,
        Some("hashmap"),
        "Where keyed state lies: `hashmap`, in memory; `rocksdb`, in memory up to `state.backend.memory` and in RocksDB beyond it.",
    ),
    OptionSpec::new(
        "state.backend.memory",
        OptionType::MemorySize,
        Some("1 gb"),
        "How much memory keyed state may take in the process with the backend `rocksdb`: state at hand, RocksDB's cache and its write buffers together.",
    ),
    OptionSpec::new(
        "state.backend",
        OptionType::Text,
        None,
        "Flink's old key of `state.backend.type`, which comes before it.",
    ),
    OptionSpec::new(
        "state.backend.rocksdb.localdir",
        OptionType::Text,
        None,
        "A directory on a local disk under which RocksDB has its files while a job runs; default: the temporary directory of the system.",
    ),
    OptionSpec::new(
        "state.backend.rocksdb.memory.managed",
        OptionType::Enum(&["true"]),
        Some("true"),
        "Accepted for Flink's sake: RocksDB's memory is always part of `state.backend.memory`.",
    ),
    OptionSpec::new(
        "state.backend.rocksdb.memory.write-buffer-ratio",
        OptionType::Double,
        Some("0.5"),
        "How much of RocksDB's part of `state.backend.memory` buffers writes, at most; between 0 and 1.",
    ),
    OptionSpec::new(
        "state.backend.rocksdb.thread.num",
        OptionType::Integer,
        Some("2"),
        "Threads with which RocksDB writes and merges its files, 1 to 64; two at least are started.",
    ),
    OptionSpec::new(
        "state.backend.rocksdb.block.blocksize",
        OptionType::MemorySize,
        Some("4 kb"),
        "Size of a block of a file of RocksDB, before compression: from 1 kb to 1 mb.",
    ),
    OptionSpec::new(
        "state.backend.rocksdb.use-bloom-filter",
        OptionType::Boolean,
        Some("true"),
        "Whether files of RocksDB have filters, which tell that a key is not there without reading (Flink: false).",
    ),
    OptionSpec::new(
        "state.backend.rocksdb.bloom-filter.bits-per-key",
        OptionType::Double,
        Some("10.0"),
        "Size of these filters.",
    ),
    OptionSpec::new(
        "state.backend.rocksdb.compaction.style",
        OptionType::Enum(&["LEVEL", "UNIVERSAL", "level", "universal"]),
        Some("LEVEL"),
        "How RocksDB merges files: LEVEL takes least space and reads, UNIVERSAL writes least.",
    ),
    OptionSpec::new(
        "execution.checkpointing.incremental",
        OptionType::Boolean,
        Some("false"),
        "Whether a checkpoint stores what changed since the one before and refers to its files for the rest.",
    ),
    OptionSpec::new(
        "execution.checkpointing.interval",
        OptionType::Duration,
        Some("0 ms"),
        "Time between checkpoints; 0: none.",
    ),
    OptionSpec::new(
        "execution.checkpointing.dir",
        OptionType::Text,
        None,
        "The directory of the checkpoints, a path or the URL of one in an object store (`s3://`, `gs://`, `az://`); each job its own.",
    ),
    OptionSpec::new(
        "execution.checkpointing.mode",
        OptionType::Enum(&[
            "EXACTLY_ONCE",
            "AT_LEAST_ONCE",
            "exactly_once",
            "at_least_once",
        ]),
        Some("EXACTLY_ONCE"),
        "Whether a row counts once after a restore, or may count twice so that no channel waits for another at a barrier.",
    ),
    OptionSpec::new(
        "execution.checkpointing.unaligned.enabled",
        OptionType::Boolean,
        Some("false"),
        "Whether a barrier may overtake the rows that wait before it, which are stored with the checkpoint: checkpoints then take no longer under back-pressure. Not with `execution.checkpointing.mode` AT_LEAST_ONCE.",
    ),
    OptionSpec::new(
        "execution.checkpointing.aligned-checkpoint-timeout",
        OptionType::Duration,
        Some("0 ms"),
        "With `execution.checkpointing.unaligned.enabled`: how long after the start of a checkpoint barriers still wait their turn; 0: not at all.",
    ),
    OptionSpec::new(
        "execution.checkpointing.min-pause",
        OptionType::Duration,
        Some("0 ms"),
        "The least time between the end of a checkpoint and the start of the next.",
    ),
    OptionSpec::new(
        "execution.checkpointing.timeout",
        OptionType::Duration,
        Some("10 min"),
        "After so long a checkpoint that is not complete has failed; at least 1 ms.",
    ),
    OptionSpec::new(
        "execution.checkpointing.tolerable-failed-checkpoints",
        OptionType::Integer,
        Some("0"),
        "How many checkpoints in a row may fail before the job does.",
    ),
    OptionSpec::new(
        "execution.checkpointing.max-concurrent-checkpoints",
        OptionType::Integer,
        Some("1"),
        "How many checkpoints run at a time: only one.",
    ),
    OptionSpec::new(
        "execution.checkpointing.externalized-checkpoint-retention",
        OptionType::Enum(&[
            "NO_EXTERNALIZED_CHECKPOINTS",
            "DELETE_ON_CANCELLATION",
            "RETAIN_ON_CANCELLATION",
        ]),
        Some("NO_EXTERNALIZED_CHECKPOINTS"),
        "What becomes of the checkpoints when the job fails for good or is cancelled: they go, they stay if it fails, they stay. Of a job that finished the last one stays; those of a process that is killed stay all.",
    ),
    OptionSpec::new(
        "execution.checkpointing.checkpoints-after-tasks-finish",
        OptionType::Boolean,
        Some("true"),
        "Whether there are checkpoints once some tasks have read all their input, and one at the end of the job.",
    ),
    OptionSpec::new(
        "execution.checkpointing.num-retained",
        OptionType::Integer,
        Some("1"),
        "How many completed checkpoints are kept.",
    ),
    OptionSpec::new(
        "execution.state-recovery.path",
        OptionType::Text,
        None,
        "What to start from: the directory of a checkpoint, the one above it for the latest, or a savepoint.",
    ),
    OptionSpec::new(
        "execution.state-recovery.claim-mode",
        OptionType::Enum(&["NO_CLAIM", "CLAIM", "no_claim", "claim"]),
        Some("NO_CLAIM"),
        "Whose the checkpoint of `execution.state-recovery.path` is: NO_CLAIM, the user's: it is never deleted and the first checkpoint refers to none of its files; CLAIM, the job's: it is deleted when newer ones have taken its place.",
    ),
    OptionSpec::new(
        "execution.state-recovery.ignore-unclaimed-state",
        OptionType::Boolean,
        Some("false"),
        "Whether state of `execution.state-recovery.path` that no operator of the job takes up may be dropped; else the job does not start.",
    ),
    OptionSpec::new(
        "execution.checkpointing.savepoint-dir",
        OptionType::Text,
        None,
        "Where savepoints go for which no directory is given.",
    ),
    OptionSpec::new(
        "restart-strategy.type",
        RESTART_STRATEGIES,
        None,
        "Whether and when a failed job starts again; without it exponential-delay where there are checkpoints, else none.",
    ),
    OptionSpec::new(
        "restart-strategy.fixed-delay.attempts",
        OptionType::Integer,
        Some("1"),
        "With fixed-delay: how often the job is started again before it fails.",
    ),
    OptionSpec::new(
        "restart-strategy.fixed-delay.delay",
        OptionType::Duration,
        Some("1 s"),
        "With fixed-delay: the time before each restart.",
    ),
    OptionSpec::new(
        "restart-strategy.failure-rate.max-failures-per-interval",
        OptionType::Integer,
        Some("1"),
        "With failure-rate: the job fails when more failures than these fall into the interval.",
    ),
    OptionSpec::new(
        "restart-strategy.failure-rate.failure-rate-interval",
        OptionType::Duration,
        Some("1 min"),
        "With failure-rate: that interval.",
    ),
    OptionSpec::new(
        "restart-strategy.failure-rate.delay",
        OptionType::Duration,
        Some("1 s"),
        "With failure-rate: the time before each restart.",
    ),
    OptionSpec::new(
        "restart-strategy.exponential-delay.initial-backoff",
        OptionType::Duration,
        Some("1 s"),
        "With exponential-delay: the time before the first restart.",
    ),
    OptionSpec::new(
        "restart-strategy.exponential-delay.max-backoff",
        OptionType::Duration,
        Some("1 min"),
        "With exponential-delay: the longest time before a restart.",
    ),
    OptionSpec::new(
        "restart-strategy.exponential-delay.backoff-multiplier",
        OptionType::Double,
        Some("1.5"),
        "With exponential-delay: by what the time grows with each failure.",
    ),
    OptionSpec::new(
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        OptionType::Duration,
        Some("1 h"),
        "With exponential-delay: after so long without a failure the time is the first one again.",
    ),
    OptionSpec::new(
        "restart-strategy.exponential-delay.jitter-factor",
        OptionType::Double,
        Some("0.1"),
        "With exponential-delay: the share of the time that chance adds or takes.",
    ),
    OptionSpec::new(
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        OptionType::Text,
        Some("infinite"),
        "With exponential-delay: how often the job is started again before it fails; the count starts over with the time.",
    ),
    OptionSpec::new(
        "volley.batch.rows",
        OptionType::Integer,
        Some("8192"),
        "The most rows of a physical batch. With one split and one source results never depend on it; where several race, Flink leaves open which rows are late, and so does Volley.",
    ),
    OptionSpec::new(
        "volley.batch.bytes",
        OptionType::MemorySize,
        Some("1 mb"),
        "The most bytes of a physical batch.",
    ),
    OptionSpec::new(
        "volley.exchange.queue-bytes",
        OptionType::MemorySize,
        Some("8 mb"),
        "The most bytes that wait on one channel between two tasks.",
    ),
    OptionSpec::new(
        "volley.late-rows.sink",
        OptionType::Text,
        None,
        "A table that receives late rows: (operator STRING, window_end TIMESTAMP(3), watermark TIMESTAMP(3), row STRING).",
    ),
    OptionSpec::new(
        "volley.progress",
        OptionType::Enum(&["auto", "always", "never"]),
        Some("auto"),
        "Whether a running job shows a progress line; auto: on a terminal.",
    ),
    OptionSpec::new(
        "sql-client.execution.result-mode",
        OptionType::Text,
        None,
        "Accepted for Flink's sake; results print as a changelog.",
    ),
    OptionSpec::new(
        "table.dml-sync",
        OptionType::Boolean,
        Some("true"),
        "Accepted for Flink's sake; an INSERT is always awaited.",
    ),
];

/// The options of every table that has a WATERMARK clause, whatever its connector.
pub const SCAN_WATERMARK_OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "scan.watermark.emit.strategy",
        OptionType::Enum(&["on-periodic", "on-event"]),
        Some("on-periodic"),
        "When watermarks are emitted. Both give exact watermarks, as if emitted at every row; only on-event knows a gap.",
    ),
    OptionSpec::new(
        "scan.watermark.emit.on-event.gap",
        OptionType::Integer,
        Some("1"),
        "With on-event: a split's watermark is emitted after every n-th of its rows.",
    ),
    OptionSpec::new(
        "scan.watermark.idle-timeout",
        OptionType::Duration,
        None,
        "How long a split may be silent before it stops holding back the watermark; over `table.exec.source.idle-timeout`.",
    ),
    OptionSpec::new(
        "scan.watermark.alignment.*",
        OptionType::Text,
        None,
        "Watermark alignment of Flink: refused.",
    ),
];

/// The options of a session with their values: what was set, over the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionConfig {
    values: BTreeMap<String, String>,
}

impl SessionConfig {
    /// Sets an option after checking its key and the form of its value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let key = current_key(key);
        let options = BTreeMap::from([(key.to_string(), value.to_string())]);
        check_options(&options, SESSION_OPTIONS, "the session")?;
        if key == "table.local-time-zone" {
            crate::types::TimeZone::parse(value)?;
        }
        check_range(key, value)?;
        self.values.insert(key.to_string(), value.to_string());
        Ok(())
    }

    /// Takes an option back to its default.
    pub fn reset(&mut self, key: &str) {
        self.values.remove(current_key(key));
    }

    /// What was set, in key order.
    pub fn explicit(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The value of an option as text: as set, or its default.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values
            .get(key)
            .map(String::as_str)
            .or_else(|| spec(key).default)
    }

    /// The value of a BOOLEAN option with a default.
    pub fn boolean(&self, key: &str) -> bool {
        self.get(key) == Some("true")
    }

    /// The value of an integer option with a default.
    pub fn integer(&self, key: &str) -> i64 {
        self.get(key)
            .and_then(|text| text.parse().ok())
            .expect("checked when it was set; defaults are numbers")
    }

    /// The value of a DOUBLE option with a default.
    pub fn double(&self, key: &str) -> f64 {
        self.get(key)
            .and_then(|text| text.parse().ok())
            .expect("checked when it was set; defaults are numbers")
    }

    /// The value of a duration option with a default.
    pub fn duration(&self, key: &str) -> Duration {
        self.get(key)
            .and_then(parse_duration)
            .expect("checked when it was set; defaults are durations")
    }

    /// The value of a memory size option with a default, in bytes.
    pub fn memory_bytes(&self, key: &str) -> usize {
        self.get(key)
            .and_then(parse_memory_bytes)
            .expect("checked when it was set; defaults are sizes")
    }

    /// `table.exec.mini-batch.size` where mini-batch is on.
    pub fn mini_batch_rows(&self) -> Option<usize> {
        self.boolean("table.exec.mini-batch.enabled")
            .then(|| usize::try_from(self.integer("table.exec.mini-batch.size")).unwrap_or(1))
    }

    /// The options of mini-batch together: where it is on, both limits of a bundle must be set.
    pub fn check_mini_batch(&self) -> Result<()> {
        let missing = |key: &str| {
            Err(Error::user(format!(
                "'{key}' must be > 0 where 'table.exec.mini-batch.enabled' is true"
            ))
            .hint("set both 'table.exec.mini-batch.allow-latency' = '5 s' and 'table.exec.mini-batch.size' = '5000'"))
        };
        if !self.boolean("table.exec.mini-batch.enabled") {
            return Ok(());
        }
        if self
            .duration("table.exec.mini-batch.allow-latency")
            .as_millis()
            == 0
        {
            return missing("table.exec.mini-batch.allow-latency");
        }
        if self.integer("table.exec.mini-batch.size") <= 0 {
            return missing("table.exec.mini-batch.size");
        }
        Ok(())
    }

    /// `table.local-time-zone`.
    pub fn time_zone(&self) -> &str {
        self.get("table.local-time-zone").expect("has a default")
    }

    /// `parallelism.default`.
    pub fn parallelism(&self) -> usize {
        self.integer("parallelism.default").max(1) as usize
    }

    /// `pipeline.max-parallelism`.
    pub fn max_parallelism(&self) -> u16 {
        self.integer("pipeline.max-parallelism").clamp(1, 32768) as u16
    }
}

fn current_key(key: &str) -> &str {
    let renamed = OLD_KEYS.iter().find(|(old, _)| *old == key);
    renamed.map_or(key, |(_, current)| current)
}

fn spec(key: &str) -> &'static OptionSpec {
    SESSION_OPTIONS
        .iter()
        .find(|spec| spec.key == key)
        .expect("the engine asks only for options of SESSION_OPTIONS")
}

/// Checks that every key is known and every value has the form of its option. `owner` says whose options these are.
pub fn check_options(
    options: &BTreeMap<String, String>,
    known: &[OptionSpec],
    owner: &str,
) -> Result<()> {
    for (key, value) in options {
        let Some(spec) = known.iter().find(|spec| spec.matches(key)) else {
            return Err(unknown_option(key, known, owner));
        };
        if !has_form(value, spec.option_type) {
            return Err(Error::user(format!(
                "'{value}' is no value for the option '{key}' of {owner}: it must be {}",
                form(spec.option_type)
            )));
        }
    }
    Ok(())
}

fn unknown_option(key: &str, known: &[OptionSpec], owner: &str) -> Error {
    let mut names: Vec<&str> = known.iter().map(|spec| spec.key).collect();
    names.sort_unstable();
    let closest = names
        .iter()
        .min_by_key(|name| edit_distance(name, key))
        .filter(|name| edit_distance(name, key) <= 3);
    let meant = closest
        .map(|name| format!("did you mean '{name}'? "))
        .unwrap_or_default();
    Error::user(format!("{owner} has no option '{key}'"))
        .hint(format!("{meant}{}", known_names(key, &names)))
}

/// All names where they are few; else those that begin as a key does.
fn known_names(key: &str, names: &[&str]) -> String {
    const FEW: usize = 50;
    if names.len() <= FEW {
        return format!("known options: {}", names.join(", "));
    }
    let alike = |name: &str| {
        let words = std::iter::zip(name.split('.'), key.split('.'));
        words.take_while(|(one, other)| one == other).count()
    };
    let most = names.iter().map(|name| alike(name)).max().unwrap_or(0);
    let mut related = names.to_vec();
    related.retain(|name| most > 0 && alike(name) == most);
    if related.is_empty() {
        return "docs/config.md lists all options".to_string();
    }
    let related = related.join(", ");
    format!("options that begin as it does: {related}; docs/config.md lists all")
}

/// The number of single-character edits between two words; for "did you mean".
pub fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

fn has_form(value: &str, option_type: OptionType) -> bool {
    match option_type {
        OptionType::Boolean => matches!(value, "true" | "false"),
        OptionType::Integer => value.parse::<i64>().is_ok(),
        OptionType::Double => value.parse::<f64>().is_ok(),
        OptionType::Text => true,
        OptionType::Duration => parse_duration(value).is_some(),
        OptionType::MemorySize => parse_memory_bytes(value).is_some(),
        OptionType::Enum(words) => words.contains(&value),
    }
}

fn form(option_type: OptionType) -> String {
    match option_type {
        OptionType::Boolean => "true or false".to_string(),
        OptionType::Integer => "a whole number".to_string(),
        OptionType::Double => "a number".to_string(),
        OptionType::Text => "text".to_string(),
        OptionType::Duration => "a duration such as '5 s', '200 ms' or '1 min'".to_string(),
        OptionType::MemorySize => "a size such as '64 mb'".to_string(),
        OptionType::Enum(words) => format!("one of {}", words.join(", ")),
    }
}

fn number_and_unit(text: &str) -> Option<(u64, String)> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    Some((
        text[..digits].parse().ok()?,
        text[digits..].trim().to_ascii_lowercase(),
    ))
}

/// A duration as Flink writes it: `5 s`, `200ms`, `1 min`, `2 h`, `1 d`; a bare number is milliseconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    let nanos: u64 = match unit.as_str() {
        "ns" | "nano" | "nanosecond" | "nanoseconds" => 1,
        "us" | "µs" | "micro" | "microsecond" | "microseconds" => 1_000,
        "" | "ms" | "milli" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "sec" | "second" | "seconds" => 1_000_000_000,
        "m" | "min" | "minute" | "minutes" => 60_000_000_000,
        "h" | "hour" | "hours" => 3_600_000_000_000,
        "d" | "day" | "days" => 86_400_000_000_000,
        _ => return None,
    };
    Some(Duration::from_nanos(number.checked_mul(nanos)?))
}

/// A size as Flink writes it: `64 mb`, `1gb`; a bare number is bytes.
pub fn parse_memory_bytes(text: &str) -> Option<usize> {
    let (number, unit) = number_and_unit(text)?;
    let shift = match unit.as_str() {
        "" | "b" | "bytes" => 0,
        "k" | "kb" | "kibibytes" => 10,
        "m" | "mb" | "mebibytes" => 20,
        "g" | "gb" | "gibibytes" => 30,
        "t" | "tb" | "tebibytes" => 40,
        _ => return None,
    };
    (number as usize).checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read_as_flink_writes_them() {
        assert_eq!(parse_duration("5 s"), Some(Duration::from_secs(5)));
        assert_eq!(parse_duration("200ms"), Some(Duration::from_millis(200)));
        assert_eq!(parse_duration("7"), Some(Duration::from_millis(7)));
        assert_eq!(parse_duration("1 fortnight"), None);
        assert_eq!(parse_memory_bytes("64 mb"), Some(64 << 20));
        assert_eq!(parse_memory_bytes("x"), None);
    }

    #[test]
    fn an_unknown_option_tells_those_that_are_like_it() {
        let told = |key: &str| {
            let error = SessionConfig::default().set(key, "2").unwrap_err();
            error.to_string()
        };
        let error = told("paralelism.default");
        assert!(
            error.contains("did you mean 'parallelism.default'?")
                && error.contains("docs/config.md"),
            "{error}"
        );
        let error = told("execution.checkpointing.directory");
        assert!(
            error.contains("execution.checkpointing.dir, ")
                && !error.contains("pipeline.max-parallelism"),
            "{error}"
        );
    }

    #[test]
    fn every_default_has_the_form_of_its_option() {
        for spec in SESSION_OPTIONS {
            assert!(
                spec.default
                    .is_none_or(|value| has_form(value, spec.option_type)),
                "{}",
                spec.key
            );
        }
    }
}
