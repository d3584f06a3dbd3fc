//! The ways in which every case is run: batch cuts, parallelism, kills.

use super::case::{Step, TestCase, Variant};
use crate::error::{Error, Result};

/// One way of running a case; its result must not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// One batch a run of rows of one table and partition.
    Base,
    /// One batch a row.
    Size1,
    /// Batch cuts and the order of ready tasks from a seed.
    Random,
    /// Three subtasks of everything.
    Parallel3,
    /// A checkpoint, a kill and a restore after every step.
    Kill,
    /// The RocksDB state backend, with so little memory that all state is taken out after every batch.
    Rocksdb,
    /// Random cuts, three subtasks and kills together, over RocksDB where this build can.
    Mixed,
}

impl Way {
    /// All ways, in the order in which they run.
    pub const ALL: [Way; 7] = [
        Way::Base,
        Way::Size1,
        Way::Random,
        Way::Parallel3,
        Way::Kill,
        Way::Rocksdb,
        Way::Mixed,
    ];

    /// What `--ways` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Way::Base => "base",
            Way::Size1 => "size1",
            Way::Random => "random",
            Way::Parallel3 => "parallel3",
            Way::Kill => "kill",
            Way::Rocksdb => "rocksdb",
            Way::Mixed => "mixed",
        }
    }

    /// Reads the value of `--ways`: `all`, `one` (base), or names with commas between.
    pub fn parse_list(text: &str) -> Result<Vec<Way>> {
        match text {
            "all" => Ok(Self::ALL.to_vec()),
            "one" => Ok(vec![Way::Base]),
            names => names
                .split(',')
                .map(|name| Self::parse(name.trim()))
                .collect(),
        }
    }

    fn parse(name: &str) -> Result<Way> {
        Self::ALL
            .into_iter()
            .find(|way| way.name() == name)
            .ok_or_else(|| {
                let names: Vec<&str> = Self::ALL.iter().map(|way| way.name()).collect();
                Error::user(format!("there is no way '{name}' to run a test"))
                    .hint(format!("ways are all, one, {}", names.join(", ")))
            })
    }

    /// Why this build cannot run it.
    pub fn unavailable(self) -> Option<&'static str> {
        None
    }
}

/// What a way fixes for one case; what the case itself fixes stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WaySettings {
    pub(super) cuts: Cuts,
    /// `parallelism.default`; `None`: as the case sets it.
    pub(super) parallelism: Option<usize>,
    /// A checkpoint, a kill and a restore after everything that arrives.
    pub(super) kills: bool,
    /// `state.backend.type` and a memory in which nothing stays; else as the case sets it.
    pub(super) spills: bool,
}

/// Where batches end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cuts {
    /// With a run of rows.
    Runs,
    /// With every row.
    Rows,
    /// Anywhere.
    Random,
}

impl WaySettings {
    pub(super) fn of(way: Way, case: &TestCase, variant: &Variant) -> Self {
        let three = matches!(way, Way::Parallel3 | Way::Mixed) && !sets_parallelism(case, variant);
        WaySettings {
            cuts: match way {
                Way::Size1 => Cuts::Rows,
                Way::Random | Way::Mixed => Cuts::Random,
                _ => Cuts::Runs,
            },
            parallelism: three.then_some(3),
            kills: matches!(way, Way::Kill | Way::Mixed) && !has_restores(case),
            spills: matches!(way, Way::Rocksdb | Way::Mixed)
                && Way::Rocksdb.unavailable().is_none()
                && !sets_backend(case, variant),
        }
    }

    /// The options that a way sets over those of a case.
    pub(super) fn options(&self) -> Vec<(String, String)> {
        let mut options = Vec::new();
        if let Some(parallelism) = self.parallelism {
            options.push(("parallelism.default", parallelism.to_string()));
        }
        if self.spills {
            options.push(("state.backend.type", "rocksdb".to_string()));
            options.push(("state.backend.memory", LEAST_MEMORY.to_string()));
        }
        let owned = options.into_iter();
        owned.map(|(key, value)| (key.to_string(), value)).collect()
    }
}

/// `state.backend.memory` of ways in which no state stays at hand.
const LEAST_MEMORY: &str = "1 b";

fn sets_backend(case: &TestCase, variant: &Variant) -> bool {
    let mut options = case.set.iter().chain(&variant.set);
    options.any(|(key, _)| key.starts_with("state.backend."))
}

fn sets_parallelism(case: &TestCase, variant: &Variant) -> bool {
    let by_option = case
        .set
        .iter()
        .chain(&variant.set)
        .any(|(key, _)| key == "parallelism.default");
    by_option
        || case
            .steps
            .iter()
            .any(|step| matches!(step, Step::RestoreWithParallelism(_)))
}

fn has_restores(case: &TestCase) -> bool {
    case.steps.iter().any(|step| {
        matches!(
            step,
            Step::Checkpoint { .. }
                | Step::KillAndRestore
                | Step::RestoreWithParallelism(_)
                | Step::RestoreWithQuery(_)
                | Step::Barrier { .. }
        )
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::case::parse_cases;
    use super::*;

    #[test]
    fn lists_of_ways_are_read() {
        assert_eq!(Way::parse_list("one").unwrap(), [Way::Base]);
        assert_eq!(
            Way::parse_list("kill, mixed").unwrap(),
            [Way::Kill, Way::Mixed]
        );
        assert_eq!(Way::parse_list("all").unwrap().len(), 7);
        assert!(
            Way::parse_list("some")
                .unwrap_err()
                .to_string()
                .contains("parallel3")
        );
    }

    #[test]
    fn a_case_pins_its_own_dimensions() {
        let text = "- name: a\n  set: {parallelism.default: 2}\n  steps: [checkpoint, kill_and_restore]\n  expect: {mode: append, rows: []}\n- name: b\n  expect: {mode: append, rows: []}\n";
        let cases = parse_cases(Path::new("x"), text).unwrap();
        let none = Variant::default();
        let pinned = WaySettings::of(Way::Mixed, &cases[0], &none);
        assert_eq!(
            (pinned.parallelism, pinned.kills, pinned.cuts),
            (None, false, Cuts::Random)
        );
        let free = WaySettings::of(Way::Mixed, &cases[1], &none);
        assert_eq!((free.parallelism, free.kills), (Some(3), true));
        let text =
            "- name: a\n  set: {state.backend.type: hashmap}\n  expect: {mode: append, rows: []}\n";
        let cases = parse_cases(Path::new("x"), text).unwrap();
        assert!(!WaySettings::of(Way::Rocksdb, &cases[0], &none).spills);
    }

    #[test]
    fn a_way_without_room_for_state_sets_the_backend() {
        let settings = WaySettings {
            cuts: Cuts::Runs,
            parallelism: Some(3),
            kills: false,
            spills: true,
        };
        let options = settings.options();
        let keys: Vec<&str> = options.iter().map(|(key, _)| key.as_str()).collect();
        let expected = [
            "parallelism.default",
            "state.backend.type",
            "state.backend.memory",
        ];
        assert_eq!(keys, expected);
    }
}
