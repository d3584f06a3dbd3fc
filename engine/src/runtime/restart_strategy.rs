//! Whether and when a failed job starts again: Flink's restart strategies, with its keys and defaults.
//!
//! A [`RestartStrategy`] is what the options say, [`Restarts`] is one job's history under it. Time and chance are handed in,
//! so the answers follow from the failures alone.

use std::collections::VecDeque;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::config::SessionConfig;
use crate::error::{Error, Result};
use crate::types::ProcessingTime;

/// `restart-strategy.type` with the options that belong to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RestartStrategy {
    /// The first failure is the last.
    None,
    /// So many restarts in all.
    FixedDelay {
        /// `restart-strategy.fixed-delay.attempts`: how many restarts.
        attempts: u64,
        /// `restart-strategy.fixed-delay.delay`: the time before each.
        delay: Duration,
    },
    /// As long as not more than so many failures fall into an interval.
    FailureRate {
        /// `restart-strategy.failure-rate.max-failures-per-interval`.
        max_failures: usize,
        /// `restart-strategy.failure-rate.failure-rate-interval`.
        interval: Duration,
        /// `restart-strategy.failure-rate.delay`: the time before each restart.
        delay: Duration,
    },
    /// After a growing time, which starts over when the job has run well for a while.
    ExponentialDelay(ExponentialDelay),
}

/// `restart-strategy.exponential-delay.*`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExponentialDelay {
    /// `initial-backoff`: the time before the first restart, at least a millisecond.
    pub initial_backoff: Duration,
    /// `max-backoff`: the time before a restart is never longer.
    pub max_backoff: Duration,
    /// `backoff-multiplier`: by what it grows from failure to failure, above 1.
    pub multiplier: f64,
    /// `reset-backoff-threshold`: after so long without a failure it starts over.
    pub reset_threshold: Duration,
    /// `jitter-factor`: the share of it that chance adds or takes, from 0 to 1.
    pub jitter_factor: f64,
    /// `attempts-before-reset-backoff`: how many restarts before the job fails; the count starts over with the time.
    pub attempts: u64,
}

impl RestartStrategy {
    /// The strategy that the options name; without one `exponential-delay` where there are checkpoints, else none.
    pub fn from_config(config: &SessionConfig, has_checkpoints: bool) -> Result<Self> {
        let unnamed = match has_checkpoints {
            true => "exponential-delay",
            false => "none",
        };
        match config.get("restart-strategy.type").unwrap_or(unnamed) {
            "none" | "off" | "disable" => Ok(RestartStrategy::None),
            "fixed-delay" | "fixeddelay" => Ok(fixed_delay(config)),
            "failure-rate" | "failurerate" => Ok(failure_rate(config)),
            "exponential-delay" | "exponentialdelay" => {
                exponential_delay(config).map(RestartStrategy::ExponentialDelay)
            }
            other => Err(Error::user(format!(
                "'{other}' is no value for the option 'restart-strategy.type'"
            ))
            .hint("none, fixed-delay, failure-rate or exponential-delay")),
        }
    }
}

fn count(config: &SessionConfig, key: &str) -> u64 {
    config.integer(key).max(0) as u64
}

fn fixed_delay(config: &SessionConfig) -> RestartStrategy {
    RestartStrategy::FixedDelay {
        attempts: count(config, "restart-strategy.fixed-delay.attempts"),
        delay: config.duration("restart-strategy.fixed-delay.delay"),
    }
}

fn failure_rate(config: &SessionConfig) -> RestartStrategy {
    let max_failures = count(
        config,
        "restart-strategy.failure-rate.max-failures-per-interval",
    );
    RestartStrategy::FailureRate {
        max_failures: usize::try_from(max_failures).unwrap_or(usize::MAX),
        interval: config.duration("restart-strategy.failure-rate.failure-rate-interval"),
        delay: config.duration("restart-strategy.failure-rate.delay"),
    }
}

fn exponential_delay(config: &SessionConfig) -> Result<ExponentialDelay> {
    let key = |name: &str| format!("restart-strategy.exponential-delay.{name}");
    let delay = ExponentialDelay {
        initial_backoff: config.duration(&key("initial-backoff")),
        max_backoff: config.duration(&key("max-backoff")),
        multiplier: config.double(&key("backoff-multiplier")),
        reset_threshold: config.duration(&key("reset-backoff-threshold")),
        jitter_factor: config.double(&key("jitter-factor")),
        attempts: match config.get(&key("attempts-before-reset-backoff")) {
            None | Some("infinite") => u64::MAX,
            Some(number) => attempts_before_reset(number)?,
        },
    };
    match delay.initial_backoff <= delay.max_backoff {
        true => Ok(delay),
        false => Err(Error::user(
            "the options 'restart-strategy.exponential-delay.*' do not fit together: 'initial-backoff' must not be above 'max-backoff'",
        )),
    }
}

fn attempts_before_reset(number: &str) -> Result<u64> {
    number.parse().ok().filter(|attempts| *attempts >= 1).ok_or_else(|| {
        Error::user(format!(
            "'{number}' is no value for the option 'restart-strategy.exponential-delay.attempts-before-reset-backoff': it must be a whole number from 1, or infinite"
        ))
    })
}

/// The failures of one job and what follows from them.
#[derive(Debug)]
pub struct Restarts {
    strategy: RestartStrategy,
    /// Restarts since the start, or since the backoff started over.
    attempts: u64,
    /// The latest failures, as many as the failure rate needs.
    failures: VecDeque<ProcessingTime>,
    /// When the last restart was due.
    restarted: Option<ProcessingTime>,
    random: SmallRng,
}

impl Restarts {
    /// A job without a failure. `seed` decides the jitter.
    pub fn new(strategy: RestartStrategy, seed: u64) -> Self {
        Restarts {
            strategy,
            attempts: 0,
            failures: VecDeque::new(),
            restarted: None,
            random: SmallRng::seed_from_u64(seed),
        }
    }

    /// The job has failed. Gives the time before its restart, or `None` where it stays failed.
    pub fn on_failure(&mut self, now: ProcessingTime) -> Option<Duration> {
        match self.strategy {
            RestartStrategy::None => None,
            RestartStrategy::FixedDelay { attempts, delay } => {
                self.attempts += 1;
                (self.attempts <= attempts).then_some(delay)
            }
            RestartStrategy::FailureRate {
                max_failures,
                interval,
                delay,
            } => self
                .is_rate_kept(now, max_failures, interval)
                .then_some(delay),
            RestartStrategy::ExponentialDelay(delay) => self.back_off(now, &delay),
        }
    }

    /// Whether the failures in the interval that ends now are not too many.
    fn is_rate_kept(&mut self, now: ProcessingTime, most: usize, interval: Duration) -> bool {
        self.failures.push_back(now);
        if self.failures.len() <= most {
            return true;
        }
        let earliest = self.failures[0];
        while self.failures.len() > most {
            self.failures.pop_front();
        }
        now.millis() - earliest.millis() > millis(interval)
    }

    fn back_off(&mut self, now: ProcessingTime, delay: &ExponentialDelay) -> Option<Duration> {
        let ran_well = |restarted: ProcessingTime| {
            now.millis() - restarted.millis() >= millis(delay.reset_threshold)
        };
        if self.restarted.is_some_and(ran_well) {
            self.attempts = 0;
        }
        let backoff = self.jittered(delay);
        self.attempts += 1;
        self.restarted = Some(ProcessingTime(now.millis() + millis(backoff)));
        (self.attempts <= delay.attempts).then_some(backoff)
    }

    /// The backoff after so many restarts, moved by chance, within its bounds.
    fn jittered(&mut self, delay: &ExponentialDelay) -> Duration {
        let exponent = i32::try_from(self.attempts).unwrap_or(i32::MAX);
        let (least, most) = (millis(delay.initial_backoff), millis(delay.max_backoff));
        // Beyond the greatest backoff only the jitter matters, which must stay a number.
        let grown = (least as f64 * delay.multiplier.powi(exponent)).min(2.0 * most as f64);
        let reach = (grown * delay.jitter_factor) as i64;
        let moved = grown as i64 + self.random.random_range(-reach..=reach);
        Duration::from_millis(moved.clamp(least, most) as u64)
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis())
        .unwrap_or(i64::MAX / 4)
        .min(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The delays after failures at these seconds, in milliseconds; -1: the job stays failed.
    fn delays(strategy: RestartStrategy, failures_s: &[i64]) -> Vec<i64> {
        let mut restarts = Restarts::new(strategy, 7);
        let mut delay = |second: &i64| {
            let delay = restarts.on_failure(ProcessingTime(second * 1000));
            delay.map_or(-1, |delay| delay.as_millis() as i64)
        };
        failures_s.iter().map(&mut delay).collect()
    }

    fn configured(options: &[(&str, &str)], has_checkpoints: bool) -> Result<RestartStrategy> {
        let mut config = SessionConfig::default();
        for (key, value) in options {
            config.set(key, value)?;
        }
        RestartStrategy::from_config(&config, has_checkpoints)
    }

    fn exponential(jitter_factor: f64, attempts: u64) -> RestartStrategy {
        RestartStrategy::ExponentialDelay(ExponentialDelay {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
            multiplier: 2.0,
            reset_threshold: Duration::from_secs(600),
            jitter_factor,
            attempts,
        })
    }

    #[test]
    fn defaults_are_flinks() {
        assert_eq!(configured(&[], false).unwrap(), RestartStrategy::None);
        assert_eq!(
            configured(&[], true).unwrap(),
            RestartStrategy::ExponentialDelay(ExponentialDelay {
                initial_backoff: Duration::from_secs(1),
                max_backoff: Duration::from_secs(60),
                multiplier: 1.5,
                reset_threshold: Duration::from_secs(3600),
                jitter_factor: 0.1,
                attempts: u64::MAX,
            })
        );
        assert_eq!(
            configured(&[("restart-strategy.type", "fixed-delay")], false).unwrap(),
            RestartStrategy::FixedDelay {
                attempts: 1,
                delay: Duration::from_secs(1)
            }
        );
        assert_eq!(
            configured(&[("restart-strategy", "failure-rate")], true).unwrap(),
            RestartStrategy::FailureRate {
                max_failures: 1,
                interval: Duration::from_secs(60),
                delay: Duration::from_secs(1)
            },
            "the old key still works"
        );
    }

    #[test]
    fn options_that_do_not_fit_are_refused() {
        let refused = |key: &str, value: &str| {
            let key = format!("restart-strategy.exponential-delay.{key}");
            configured(&[(&key, value)], true).unwrap_err().to_string()
        };
        assert!(refused("initial-backoff", "2 min").contains("above 'max-backoff'"));
        assert!(refused("backoff-multiplier", "1").contains("above 1"));
        assert!(refused("jitter-factor", "1.5").contains("from 0 to 1"));
        assert!(refused("attempts-before-reset-backoff", "0").contains("infinite"));
    }

    #[test]
    fn a_fixed_delay_ends_with_its_attempts() {
        let strategy = RestartStrategy::FixedDelay {
            attempts: 2,
            delay: Duration::from_secs(3),
        };
        assert_eq!(delays(strategy, &[0, 5, 5000]), [3000, 3000, -1]);
        assert_eq!(delays(RestartStrategy::None, &[0]), [-1]);
    }

    #[test]
    fn a_failure_rate_looks_at_the_latest_failures_only() {
        let rate = |max_failures| RestartStrategy::FailureRate {
            max_failures,
            interval: Duration::from_secs(60),
            delay: Duration::from_millis(10),
        };
        assert_eq!(delays(rate(1), &[0, 61, 122, 130]), [10, 10, 10, -1]);
        assert_eq!(delays(rate(3), &[0, 1, 2, 3]), [10, 10, 10, -1]);
        assert_eq!(delays(rate(3), &[0, 30, 50, 61, 70]), [10, 10, 10, 10, -1]);
    }

    #[test]
    fn a_backoff_doubles_up_to_its_bound_and_starts_over_after_a_quiet_time() {
        let failures = [0, 10, 20, 30, 40, 50];
        let grown = [1000, 2000, 4000, 8000, 10_000, 10_000];
        assert_eq!(delays(exponential(0.0, u64::MAX), &failures), grown);
        // The first restart is at 1 s, so the quiet time is over at 601 s.
        assert_eq!(delays(exponential(0.0, 9), &[0, 600]), [1000, 2000]);
        assert_eq!(delays(exponential(0.0, 9), &[0, 601]), [1000, 1000]);
        assert_eq!(delays(exponential(0.0, 2), &[0, 10, 20]), [1000, 2000, -1]);
    }

    #[test]
    fn jitter_stays_within_its_share_and_the_bounds_and_follows_from_the_seed() {
        let failures: Vec<i64> = (0..200).map(|number| number * 20).collect();
        let seen = delays(exponential(0.25, u64::MAX), &failures);
        assert_eq!(seen, delays(exponential(0.25, u64::MAX), &failures));
        assert!((1000..=1250).contains(&seen[0]), "{}", seen[0]);
        assert!((3000..=5000).contains(&seen[2]), "{}", seen[2]);
        assert!(seen.iter().all(|delay| (1000..=10_000).contains(delay)));
        assert!(
            seen[1..4] != [2000, 4000, 8000],
            "chance has moved some of them"
        );
    }
}
