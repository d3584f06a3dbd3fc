//! `execution.checkpointing.*`: when checkpoints are taken, where they go and how long they stay.

use std::time::Duration;

use crate::config::SessionConfig;
use crate::error::{Error, Result};

/// See the file.
#[derive(Debug, Clone)]
pub struct CheckpointOptions {
    /// `execution.checkpointing.interval`; zero: no checkpoints.
    pub interval: Duration,
    /// `execution.checkpointing.dir`; needed where there is an interval.
    pub directory: Option<String>,
    /// `execution.checkpointing.mode`.
    pub mode: CheckpointMode,
    /// `execution.checkpointing.aligned-checkpoint-timeout` where `execution.checkpointing.unaligned.enabled`: after so long a
    /// barrier overtakes. `None`: never.
    pub unaligned_after: Option<Duration>,
    /// `execution.checkpointing.min-pause`.
    pub min_pause: Duration,
    /// `execution.checkpointing.timeout`.
    pub timeout: Duration,
    /// `execution.checkpointing.tolerable-failed-checkpoints`.
    pub tolerable_failures: u64,
    /// `execution.checkpointing.num-retained`.
    pub retained: usize,
    /// `execution.checkpointing.incremental`.
    pub incremental: bool,
    /// `execution.checkpointing.externalized-checkpoint-retention`.
    pub retention: CheckpointRetention,
    /// `execution.checkpointing.checkpoints-after-tasks-finish`.
    pub after_tasks_finish: bool,
}

/// What a restore promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CheckpointMode {
    /// Every row counts once: barriers are aligned.
    #[default]
    ExactlyOnce,
    /// A row may count twice: no channel waits for another.
    AtLeastOnce,
}

/// What becomes of a job's checkpoints when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CheckpointRetention {
    /// They go, however it ends.
    #[default]
    NoExternalizedCheckpoints,
    /// They stay where it fails.
    DeleteOnCancellation,
    /// They stay where it fails or is cancelled.
    RetainOnCancellation,
}

/// How a job ends for good. A process that is killed ends no job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// All input was read.
    Finished,
    /// It was cancelled.
    Cancelled,
    /// It failed, and no restart follows.
    Failed,
}

impl CheckpointRetention {
    /// How many checkpoints stay; `None`: all that are retained. A job that finished leaves its last one, which stands for its result: who
    /// starts the job from it reads nothing and writes nothing a second time.
    pub fn kept(self, end: JobEnd) -> Option<usize> {
        match (end, self) {
            (JobEnd::Finished, _) => Some(1),
            (JobEnd::Cancelled, CheckpointRetention::RetainOnCancellation) => None,
            (JobEnd::Cancelled, _) => Some(0),
            (JobEnd::Failed, CheckpointRetention::NoExternalizedCheckpoints) => Some(0),
            (JobEnd::Failed, _) => None,
        }
    }
}

impl CheckpointOptions {
    /// The options of a session.
    pub fn from_config(config: &SessionConfig) -> Result<Self> {
        let key = |name: &str| format!("execution.checkpointing.{name}");
        let text = |name: &str| config.get(&key(name)).unwrap_or_default().to_uppercase();
        let options = CheckpointOptions {
            interval: config.duration(&key("interval")),
            directory: config.get(&key("dir")).map(str::to_string),
            mode: match text("mode").as_str() {
                "AT_LEAST_ONCE" => CheckpointMode::AtLeastOnce,
                _ => CheckpointMode::ExactlyOnce,
            },
            unaligned_after: config
                .boolean(&key("unaligned.enabled"))
                .then(|| config.duration(&key("aligned-checkpoint-timeout"))),
            min_pause: config.duration(&key("min-pause")),
            timeout: config.duration(&key("timeout")),
            tolerable_failures: config.integer(&key("tolerable-failed-checkpoints")).max(0) as u64,
            retained: config.integer(&key("num-retained")).max(1) as usize,
            incremental: config.boolean(&key("incremental")),
            retention: match text("externalized-checkpoint-retention").as_str() {
                "DELETE_ON_CANCELLATION" => CheckpointRetention::DeleteOnCancellation,
                "RETAIN_ON_CANCELLATION" => CheckpointRetention::RetainOnCancellation,
                _ => CheckpointRetention::NoExternalizedCheckpoints,
            },
            after_tasks_finish: config.boolean(&key("checkpoints-after-tasks-finish")),
        };
        if options.is_on() && options.directory.is_none() {
            return Err(Error::user(
                "'execution.checkpointing.interval' is set but not where checkpoints go",
            )
            .hint("SET 'execution.checkpointing.dir' = '/path/to/checkpoints'"));
        }
        if options.unaligned_after.is_some() && options.mode == CheckpointMode::AtLeastOnce {
            return Err(Error::user(
                "'execution.checkpointing.unaligned.enabled' does not go with 'execution.checkpointing.mode' = 'AT_LEAST_ONCE', in which no barrier waits anyway",
            )
            .hint("SET 'execution.checkpointing.mode' = 'EXACTLY_ONCE', or 'execution.checkpointing.unaligned.enabled' = 'false'"));
        }
        let concurrent = config.integer(&key("max-concurrent-checkpoints"));
        if concurrent != 1 {
            return Err(Error::unsupported(format!(
                "'execution.checkpointing.max-concurrent-checkpoints' = '{concurrent}'"
            ))
            .hint("one checkpoint runs at a time: leave it at 1"));
        }
        Ok(options)
    }

    /// Whether checkpoints are taken by time.
    pub fn is_on(&self) -> bool {
        !self.interval.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_of_a_job_that_ended_is_as_in_flink_but_for_the_last_checkpoint_of_one_that_finished()
     {
        use CheckpointRetention::*;
        let kept = |end| {
            [
                NoExternalizedCheckpoints,
                DeleteOnCancellation,
                RetainOnCancellation,
            ]
            .map(|retention| retention.kept(end))
        };
        assert_eq!(kept(JobEnd::Finished), [Some(1), Some(1), Some(1)]);
        assert_eq!(kept(JobEnd::Cancelled), [Some(0), Some(0), None]);
        assert_eq!(kept(JobEnd::Failed), [Some(0), None, None]);
    }

    #[test]
    fn unaligned_checkpoints_start_at_once_or_after_a_time_and_are_exactly_once() {
        let with = |set: &[(&str, &str)]| {
            let mut config = SessionConfig::default();
            for (key, value) in set {
                let key = format!("execution.checkpointing.{key}");
                config.set(&key, value).unwrap();
            }
            CheckpointOptions::from_config(&config)
        };
        let after = |set: &[(&str, &str)]| with(set).unwrap().unaligned_after;
        assert_eq!(after(&[]), None);
        assert_eq!(after(&[("aligned-checkpoint-timeout", "3 s")]), None);
        let enabled = ("unaligned.enabled", "true");
        assert_eq!(after(&[enabled]), Some(Duration::ZERO));
        let later = [enabled, ("aligned-checkpoint-timeout", "3 s")];
        assert_eq!(after(&later), Some(Duration::from_secs(3)));
        let both = with(&[enabled, ("mode", "AT_LEAST_ONCE")]);
        let error = both.unwrap_err().to_string();
        assert!(error.contains("AT_LEAST_ONCE"), "{error}");
    }

    #[test]
    fn options_are_read_under_new_and_old_keys() {
        let mut config = SessionConfig::default();
        config.set("state.checkpoints.dir", "/c").unwrap();
        config.set("state.backend.incremental", "true").unwrap();
        config
            .set("execution.checkpointing.interval", "1 s")
            .unwrap();
        let options = CheckpointOptions::from_config(&config).unwrap();
        assert_eq!(options.directory.as_deref(), Some("/c"));
        assert!(options.incremental && options.after_tasks_finish);
        assert_eq!(options.timeout, Duration::from_secs(600));
        config
            .set("execution.checkpointing.max-concurrent-checkpoints", "2")
            .unwrap();
        let error = CheckpointOptions::from_config(&config)
            .unwrap_err()
            .to_string();
        assert!(error.contains("max-concurrent-checkpoints"), "{error}");
    }
}
