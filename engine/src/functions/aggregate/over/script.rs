//! What happens to frames, as a list: rows added, rows removed, results wanted, group by group.

use arrow::buffer::BooleanBuffer;

/// See the module. Rows are positions in the columns that functions are given.
#[derive(Debug, Default)]
pub struct OverScript {
    /// Kind in the upper two bits, row in the lower ones.
    steps: Vec<u32>,
    /// For each group in turn where its steps end.
    runs: Vec<Run>,
    results: usize,
    /// The time of each row, for functions that compare them.
    times: Vec<i64>,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    group: u32,
    end: usize,
}

const ADD: u32 = 0;
const REMOVE: u32 = 1 << 30;
const RESULT: u32 = 2 << 30;
const KIND: u32 = 3 << 30;

/// Which rows of a script count for a function.
#[derive(Clone, Copy)]
pub(super) enum Counted<'a> {
    All,
    /// A bit for each row.
    Rows(&'a BooleanBuffer),
    /// A bit for each step.
    Steps(&'a BooleanBuffer),
}

impl OverScript {
    /// An empty script for rows with these times.
    pub fn new(times: Vec<i64>) -> Self {
        OverScript {
            steps: Vec::with_capacity(2 * times.len()),
            times,
            ..OverScript::default()
        }
    }

    /// A row enters the frame.
    #[inline]
    pub fn add(&mut self, row: usize) {
        debug_assert!(row < REMOVE as usize, "a script has fewer than 2^30 rows");
        self.steps.push(ADD | row as u32);
    }

    /// A row leaves the frame; the oldest one always.
    #[inline]
    pub fn remove(&mut self, row: usize) {
        self.steps.push(REMOVE | row as u32);
    }

    /// A result is wanted; says which it is, from 0.
    #[inline]
    pub fn result(&mut self) -> usize {
        self.steps.push(RESULT);
        self.results += 1;
        self.results - 1
    }

    /// All steps since the last call belong to this group; a group comes once in a script.
    pub fn end_group(&mut self, group: u32) {
        let end = self.steps.len();
        self.runs.push(Run { group, end });
    }

    /// Whether nothing happens.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// How many results are wanted.
    pub fn results(&self) -> usize {
        self.results
    }

    pub(super) fn steps(&self) -> usize {
        self.steps.len()
    }

    pub(super) fn times(&self) -> &[i64] {
        &self.times
    }

    /// The groups in the order of the script.
    pub(super) fn groups(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().map(|run| run.group)
    }

    /// Plays the script over the states of a function.
    #[inline(always)]
    pub(super) fn play<S>(
        &self,
        states: &mut [S],
        counted: Counted,
        add: impl FnMut(&mut S, usize),
        remove: impl FnMut(&mut S, usize),
        result: impl FnMut(&S),
    ) {
        match counted {
            Counted::All => self.play_where(states, |_, _| true, add, remove, result),
            Counted::Rows(rows) => {
                self.play_where(states, |_, row| rows.value(row), add, remove, result)
            }
            Counted::Steps(steps) => {
                self.play_where(states, |step, _| steps.value(step), add, remove, result)
            }
        }
    }

    #[inline(always)]
    fn play_where<S>(
        &self,
        states: &mut [S],
        counts: impl Fn(usize, usize) -> bool,
        mut add: impl FnMut(&mut S, usize),
        mut remove: impl FnMut(&mut S, usize),
        mut result: impl FnMut(&S),
    ) {
        let mut start = 0;
        for run in &self.runs {
            let state = &mut states[run.group as usize];
            for (at, step) in self.steps[start..run.end].iter().enumerate() {
                let row = (step & !KIND) as usize;
                match step & KIND {
                    RESULT => result(state),
                    ADD if counts(start + at, row) => add(state, row),
                    REMOVE if counts(start + at, row) => remove(state, row),
                    _ => {}
                }
            }
            start = run.end;
        }
    }

    /// Calls `change(step, group, row, enters)` for each row that enters or leaves a frame.
    pub(super) fn for_each_change(&self, mut change: impl FnMut(usize, u32, usize, bool)) {
        let mut start = 0;
        for run in &self.runs {
            for (at, step) in self.steps[start..run.end].iter().enumerate() {
                if step & KIND != RESULT {
                    let row = (step & !KIND) as usize;
                    change(start + at, run.group, row, step & KIND == ADD);
                }
            }
            start = run.end;
        }
    }
}
