//! Makes a failing scenario smaller while it fails in the same way.

use volley::testing::Way;
use volley::types::RowKind;

use super::draft;
use super::run::{Fault, FaultKind, Outcome, run};
use super::scenario::{Scenario, Sink};
use super::tables::fold;

/// How many smaller scenarios are tried.
const MOST_TRIES: usize = 600;

/// The smallest scenario that was found.
pub(super) fn shrink(scenario: &Scenario, fault: &Fault) -> Scenario {
    let mut shrinker = Shrinker {
        smallest: scenario.clone(),
        signature: fault.signature(),
        kind: fault.kind,
        tries: 0,
    };
    loop {
        let before = shrinker.smallest_size();
        shrinker.shrink_run();
        shrinker.shrink_query();
        shrinker.shrink_history();
        shrinker.shrink_tables();
        if shrinker.smallest_size() == before || shrinker.tries >= MOST_TRIES {
            return shrinker.smallest;
        }
    }
}

struct Shrinker {
    smallest: Scenario,
    kind: FaultKind,
    signature: String,
    tries: usize,
}

impl Shrinker {
    fn smallest_size(&self) -> (usize, usize, usize, usize) {
        let smallest = &self.smallest;
        (
            smallest.history.len(),
            smallest.draft.len(),
            smallest.set.len(),
            smallest.events.len(),
        )
    }

    /// Keeps the candidate if it fails too.
    fn accept(&mut self, candidate: Scenario) -> bool {
        if self.tries >= MOST_TRIES || fold(&candidate.tables, &candidate.history).is_none() {
            return false;
        }
        self.tries += 1;
        let fails =
            matches!(run(&candidate), Outcome::Fault(fault) if fault.signature() == self.signature);
        if fails {
            self.smallest = candidate;
        }
        fails
    }

    fn attempt(&mut self, change: impl FnOnce(&mut Scenario)) -> bool {
        let mut candidate = self.smallest.clone();
        change(&mut candidate);
        self.accept(candidate)
    }

    fn shrink_run(&mut self) {
        for way in [Way::Size1, Way::Base] {
            if self.smallest.way != Way::Size1 && self.smallest.way != Way::Base {
                self.attempt(|scenario| scenario.way = way);
            }
        }
        if !self.smallest.events.is_empty() {
            self.attempt(|scenario| scenario.events.clear());
        }
        for at in (0..self.smallest.events.len()).rev() {
            self.attempt(|scenario| drop(scenario.events.remove(at)));
        }
        for at in (0..self.smallest.set.len()).rev() {
            self.attempt(|scenario| drop(scenario.set.remove(at)));
        }
        if !matches!(self.smallest.sink, Sink::Select) {
            self.attempt(|scenario| scenario.sink = Sink::Select);
        }
        if self
            .smallest
            .tables
            .iter()
            .any(|table| table.partitions > 1)
        {
            self.attempt(|scenario| {
                scenario
                    .tables
                    .iter_mut()
                    .for_each(|table| table.partitions = 1);
                scenario
                    .history
                    .iter_mut()
                    .for_each(|change| change.partition = 0);
            });
        }
    }

    fn shrink_query(&mut self) {
        if self.kind == FaultKind::Binding {
            return;
        }
        for part in draft::parts(&self.smallest.draft) {
            self.attempt(|scenario| scenario.draft = draft::without(&scenario.draft, part));
        }
    }

    fn shrink_tables(&mut self) {
        for number in (0..self.smallest.tables.len()).rev() {
            let is_fed = self
                .smallest
                .history
                .iter()
                .any(|change| change.table == number);
            if !is_fed && self.attempt(|scenario| remove_table(scenario, number)) {
                continue;
            }
            if self.smallest.tables[number].array.is_some() {
                self.attempt(|scenario| remove_array(scenario, number));
            }
            let first = usize::from(self.smallest.tables[number].has_key);
            for column in (first..self.smallest.tables[number].columns.len()).rev() {
                self.attempt(|scenario| remove_column(scenario, number, column));
            }
        }
    }

    fn shrink_history(&mut self) {
        let mut length = self.smallest.history.len() / 2;
        while length > 0 {
            let mut at = 0;
            while at + length <= self.smallest.history.len() {
                if !self
                    .attempt(|scenario| remove(scenario, &(at..at + length).collect::<Vec<_>>()))
                {
                    at += length.max(1);
                }
            }
            length /= 2;
        }
        self.shrink_lives();
    }

    /// Leaves out a row with all that happens to it, and updates of it on the way.
    fn shrink_lives(&mut self) {
        let mut at = 0;
        while at < self.smallest.history.len() {
            let history = &self.smallest.history;
            let first = &history[at];
            let later =
                (at + 1..history.len()).filter(|other| history[*other].table == first.table);
            let same = later.clone().find(|other| {
                !history[*other].kind.is_accumulate() && history[*other].row == first.row
            });
            let mut candidates: Vec<Vec<usize>> = Vec::new();
            if let Some(end) = same.filter(|_| first.kind.is_accumulate()) {
                // `+I a, -U a, +U b` becomes `+I b`; `+I a, -D a` becomes nothing.
                candidates.push(vec![at, end]);
            }
            if first.kind == RowKind::UpdateBefore {
                candidates.push(vec![at, at + 1]);
            }
            let accepted = candidates.into_iter().any(|gone| {
                self.attempt(|scenario| {
                    let becomes_insert = gone.len() == 2
                        && scenario.history[gone[1]].kind == RowKind::UpdateBefore
                        && gone[1] + 1 < scenario.history.len();
                    if becomes_insert {
                        scenario.history[gone[1] + 1].kind = scenario.history[gone[0]].kind;
                    }
                    remove(scenario, &gone);
                })
            });
            at += usize::from(!accepted);
        }
    }
}

/// Leaves out some changes; events stay between the ones around them.
fn remove(scenario: &mut Scenario, gone: &[usize]) {
    for (before, _) in &mut scenario.events {
        *before -= gone.iter().filter(|at| **at < *before).count();
    }
    let mut at = 0;
    scenario.history.retain(|_| {
        at += 1;
        !gone.contains(&(at - 1))
    });
}

fn remove_table(scenario: &mut Scenario, number: usize) {
    scenario.tables.remove(number);
    let behind = |change: &&mut super::tables::Change| change.table > number;
    scenario
        .history
        .iter_mut()
        .filter(behind)
        .for_each(|change| change.table -= 1);
}

fn remove_array(scenario: &mut Scenario, number: usize) {
    scenario.tables[number].array = None;
    for change in scenario
        .history
        .iter_mut()
        .filter(|change| change.table == number)
    {
        change.row.pop();
    }
}

fn remove_column(scenario: &mut Scenario, number: usize, column: usize) {
    let table = &mut scenario.tables[number];
    if table.columns.remove(column).is_rowtime {
        table.time = None;
    }
    for change in scenario
        .history
        .iter_mut()
        .filter(|change| change.table == number)
    {
        change.row.remove(column);
    }
}
