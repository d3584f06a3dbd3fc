//! What every operator with keyed state must pass: that it does not matter which keys are there, as long as those are that act.
//!
//! A random stream goes through the operator twice: as it is, and with keys that are taken out after every call and put back only when a
//! row of theirs comes or time makes them act ([`KeyedState::due`]). Both give the same changes, up to the order of keys within a call, and
//! keep the same state; and whatever key's state a call changes is one of a row or one that the operator told.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use arrow::array::ArrayRef;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::{DueTime, KeySet, KeyedState};
use crate::operators::test_bench::{batch, rows_text};
use crate::operators::{Context, Flow, InputIndex, Operator, Output, Subtask};
use crate::state::{StateSnapshot, TableScope, key_hashes_of};
use crate::stream::{ChangelogBatch, StreamElement, hash_columns};
use crate::types::{EventTime, ProcessingTime, Schema};

/// How many random streams are tried.
const SEEDS: u64 = 50;
/// How many calls a stream makes.
const STEPS: usize = 40;

/// Gives rows of an input in the notation of the test bench, one or more lines; the number is the event time of the stream, in milliseconds.
pub(in crate::operators) type RandomRows = Box<dyn FnMut(&mut SmallRng, usize, i64) -> String>;

/// A stream that an operator is checked with; see the module.
pub(in crate::operators) struct Conformance<'a> {
    /// Printed with the seed when something is wrong.
    pub(in crate::operators) name: &'a str,
    /// The columns of the inputs.
    pub(in crate::operators) inputs: &'a [&'a Schema],
    /// Makes the rows of a stream, anew for each.
    pub(in crate::operators) rows: &'a dyn Fn() -> RandomRows,
    /// What tells the keys of the output apart, by the cells of a row: the changes of one key keep their order.
    pub(in crate::operators) output_key: &'a dyn Fn(&[&str]) -> String,
    /// Whether watermarks come.
    pub(in crate::operators) watermarks: bool,
    /// Whether the clock advances.
    pub(in crate::operators) clock: bool,
    /// Whether the operator holds bundles: keys are taken out only where one has ended.
    pub(in crate::operators) bundles: bool,
}

/// The key of the output is its first column.
pub(in crate::operators) fn first_cell(cells: &[&str]) -> String {
    cells[0].to_string()
}

enum Step {
    Batch(InputIndex, ChangelogBatch),
    Watermark(EventTime),
    Clock(ProcessingTime),
    Flush,
}

impl Conformance<'_> {
    /// Checks an operator with many streams.
    pub(in crate::operators) fn check<O: Operator>(&self, make: impl Fn() -> O) {
        self.check_seeds(0..SEEDS, make);
    }

    /// The same with these streams alone, for operators that come in many variants.
    pub(in crate::operators) fn check_seeds<O: Operator>(
        &self,
        seeds: Range<u64>,
        make: impl Fn() -> O,
    ) {
        for seed in seeds {
            let _seed = PrintSeed(self.name, seed);
            self.check_seed(seed, &make);
        }
    }

    fn check_seed<O: Operator>(&self, seed: u64, make: &impl Fn() -> O) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut plain = Run::new(make(), Output::LIMIT_BYTES);
        let mut tiered = Tiered {
            run: Run::new(make(), [0, Output::LIMIT_BYTES][(seed % 2) as usize]),
            cold: BTreeMap::new(),
            keeps: [0.0, 0.3, 0.7][(seed % 3) as usize],
            rng: SmallRng::seed_from_u64(seed ^ 0xe71c),
            evicts: true,
        };
        let mut before = [StateRows::default(), StateRows::default()];
        for (number, step) in self.steps(&mut rng).into_iter().enumerate() {
            let what = format!("{} seed {seed} step {number}: {step:?}", self.name);
            tiered.evicts = !self.bundles || !matches!(step, Step::Batch(..) | Step::Clock(_));
            plain.step(&step);
            tiered.step(&step);
            let [expected, actual] = [&mut plain.given, &mut tiered.run.given]
                .map(|given| std::mem::take(given).by_key(self.output_key));
            assert_eq!(actual, expected, "{what}: what goes out");
            if !tiered.evicts {
                continue;
            }
            let now = plain.ctx.processing_time();
            let kept = [plain.state_rows(), tiered.state_rows()];
            assert_eq!(
                kept[1].alive(now),
                kept[0].alive(now),
                "{what}: what is kept, with eviction and without"
            );
            let told = [plain.take_changed(), tiered.run.take_changed()];
            for (run, way) in ["without", "with"].into_iter().enumerate() {
                let untold = before[run].changed(&kept[run], now, &told[run]);
                assert!(
                    untold.is_empty(),
                    "{what}: {way} eviction, keys changed silently: {untold:#?}"
                );
            }
            before = kept;
            self.check_columns(&mut plain);
            tiered.evict(&what);
        }
    }

    /// What a plan carries along may stand elsewhere in the next one: an operator says which columns its tables have, so that a restore finds them
    /// by name. Tables of keys alone need not, for another key is another operator.
    fn check_columns<O: Operator>(&self, run: &mut Run<O>) {
        let declared: BTreeMap<_, _> = run.operator.state_schema().into_iter().collect();
        let (state, ctx) = run.state();
        let snapshot = state.snapshot_keyed(ctx).unwrap();
        let inputs = self.inputs.iter().enumerate();
        let carried: BTreeSet<String> = inputs
            .flat_map(|(input, schema)| {
                let key = state.key_columns(InputIndex(input));
                let names = schema.names().enumerate();
                let carried = names.filter(|(column, _)| !key.contains(column));
                carried
                    .map(|(_, name)| name.to_string())
                    .collect::<Vec<_>>()
            })
            .collect();
        for (name, table) in &snapshot.tables {
            for batch in &table.batches {
                let what = format!("{}: the table {name}", self.name);
                if let Some(schema) = declared.get(name) {
                    assert_eq!(&batch.schema(), schema, "{what}");
                    continue;
                }
                let schema = batch.schema();
                let found = schema
                    .fields()
                    .iter()
                    .find(|field| carried.contains(field.name()));
                assert_eq!(found, None, "{what} holds what a plan carries along");
            }
        }
    }

    fn steps(&self, rng: &mut SmallRng) -> Vec<Step> {
        let mut rows = (self.rows)();
        let mut steps = Vec::new();
        let (mut time, mut watermark, mut clock) = (100, i64::MIN, 1000);
        while steps.len() < STEPS {
            time += rng.random_range(0..8);
            match rng.random_range(0..10) {
                0 | 1 if self.watermarks => {
                    watermark = (time - rng.random_range(0..25)).max(watermark + 1);
                    steps.push(Step::Watermark(EventTime(watermark)));
                }
                2 if self.clock => {
                    clock += rng.random_range(1..60);
                    steps.push(Step::Clock(ProcessingTime(clock)));
                }
                3 if self.bundles => steps.push(Step::Flush),
                _ => {
                    let input = rng.random_range(0..self.inputs.len());
                    let count = rng.random_range(1..8);
                    let lines: Vec<String> = (0..count).map(|_| rows(rng, input, time)).collect();
                    let batch = batch(self.inputs[input], &lines.join("\n"));
                    if batch.num_rows() > 0 {
                        steps.push(Step::Batch(InputIndex(input), batch));
                    }
                }
            }
        }
        steps.push(Step::Flush);
        if self.clock {
            steps.push(Step::Clock(ProcessingTime(clock + 100_000)));
        }
        if self.watermarks {
            steps.push(Step::Watermark(EventTime::MAX));
        }
        steps
    }
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Step::Watermark(watermark) => write!(f, "watermark {watermark:?}"),
            Step::Clock(now) => write!(f, "clock {now:?}"),
            Step::Flush => write!(f, "end of bundle"),
            Step::Batch(input, batch) => {
                let rows = rows_text(&batch.rows).into_iter().enumerate();
                let lines: Vec<String> = rows
                    .map(|(row, cells)| format!("{} {cells}", batch.kinds.get(row)))
                    .collect();
                write!(f, "input {}: {}", input.0, lines.join("; "))
            }
        }
    }
}

struct PrintSeed<'a>(&'a str, u64);

impl Drop for PrintSeed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: failed with seed {}", self.0, self.1);
        }
    }
}

/// An operator at work.
struct Run<O> {
    operator: O,
    ctx: Context,
    out: Output,
    given: Given,
    /// The keys of the rows that came.
    touched: BTreeSet<u64>,
}

/// What goes out in a step.
#[derive(Default)]
struct Given {
    rows: Vec<(String, String)>,
    late: Vec<String>,
    watermark: Option<EventTime>,
}

/// Changes of each key in order, late rows, the last watermark.
type GivenByKey = (
    BTreeMap<String, Vec<String>>,
    Vec<String>,
    Option<EventTime>,
);

impl Given {
    fn by_key(mut self, key: &dyn Fn(&[&str]) -> String) -> GivenByKey {
        let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (kind, cells) in self.rows {
            let key = key(&cells.split(", ").collect::<Vec<_>>());
            rows.entry(key).or_default().push(format!("{kind} {cells}"));
        }
        self.late.sort();
        (rows, self.late, self.watermark)
    }
}

impl<O: Operator> Run<O> {
    fn new(mut operator: O, limit_bytes: usize) -> Self {
        let state = operator.keyed_state();
        state.expect("an operator with keyed state").track_changes();
        let mut ctx = Context::new(Subtask::SINGLE, Default::default());
        ctx.await_answers();
        ctx.track_changed_keys();
        ctx.set_processing_time(ProcessingTime(1000));
        let mut operator = operator;
        let state = operator.keyed_state();
        let state = state.expect("an operator with keyed state");
        if state.tracks_changes() {
            state.track_changes();
        }
        Run {
            operator,
            ctx,
            out: Output::new(true).with_limit(limit_bytes),
            given: Given::default(),
            touched: BTreeSet::new(),
        }
    }

    fn state(&mut self) -> (&mut dyn KeyedState, &Context) {
        let state = self.operator.keyed_state();
        (state.expect("an operator with keyed state"), &self.ctx)
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Batch(input, batch) => self.batch(*input, batch),
            Step::Watermark(watermark) => self.watermark(*watermark),
            Step::Clock(now) => self.clock(*now),
            Step::Flush => self.flush(),
        }
    }

    fn hashes(&mut self, input: InputIndex, batch: &ChangelogBatch) -> BTreeSet<u64> {
        let columns = self.state().0.key_columns(input).to_vec();
        let keys: Vec<ArrayRef> = columns
            .iter()
            .map(|column| batch.rows.column(*column).clone())
            .collect();
        let hashes = hash_columns(&keys, batch.num_rows()).unwrap();
        hashes.into_iter().collect()
    }

    fn batch(&mut self, input: InputIndex, batch: &ChangelogBatch) {
        let hashes = self.hashes(input, batch);
        self.touched.extend(hashes);
        let flow = self
            .operator
            .process_batch(&mut self.ctx, input, batch.clone(), &mut self.out);
        self.settle(flow.unwrap());
    }

    fn watermark(&mut self, watermark: EventTime) {
        self.ctx.advance_watermark(watermark);
        let flow = self
            .operator
            .process_watermark(&mut self.ctx, watermark, &mut self.out);
        self.settle(flow.unwrap());
    }

    fn clock(&mut self, now: ProcessingTime) {
        self.ctx.set_processing_time(now);
        while let Some(timer) = self.operator.next_processing_timer()
            && timer <= now
        {
            let flow = self
                .operator
                .on_processing_time(&mut self.ctx, &mut self.out);
            self.settle(flow.unwrap());
        }
    }

    fn flush(&mut self) {
        let flow = self.operator.flush_bundle(&mut self.ctx, &mut self.out);
        self.settle(flow.unwrap());
    }

    fn settle(&mut self, mut flow: Flow) {
        loop {
            while let Some(element) = self.out.pop() {
                match element {
                    StreamElement::Batch(batch) => {
                        let rows = rows_text(&batch.rows).into_iter().enumerate();
                        let kind = |row: usize| batch.kinds.get(row).to_string();
                        let rows = rows.map(|(row, cells)| (kind(row), cells));
                        self.given.rows.extend(rows);
                    }
                    StreamElement::Watermark(watermark) => self.given.watermark = Some(watermark),
                    other => panic!("{other:?} from an operator"),
                }
            }
            while let Some(late) = self.out.pop_late() {
                self.given.late.extend(rows_text(&late.rows));
            }
            if flow == Flow::Done {
                return;
            }
            flow = self.operator.resume(&mut self.ctx, &mut self.out).unwrap();
        }
    }

    fn state_rows(&mut self) -> StateRows {
        let (state, ctx) = self.state();
        let snapshot = state.snapshot_keyed(ctx).unwrap();
        let mut rows = StateRows::default();
        rows.add(state, &snapshot);
        rows
    }

    /// The keys that may have changed since the last call.
    fn take_changed(&mut self) -> BTreeSet<u64> {
        let mut changed = std::mem::take(&mut self.touched);
        changed.extend(self.ctx.take_changed_keys());
        let (state, _) = self.state();
        if state.tracks_changes() {
            changed = state.take_changed().into_iter().collect();
        }
        changed
    }
}

/// Rows of keyed tables as text: by key, each with its table and its expiry.
#[derive(Debug, Default)]
struct StateRows(BTreeMap<u64, Vec<(String, i64, String)>>);

impl StateRows {
    fn add(&mut self, state: &dyn KeyedState, snapshot: &StateSnapshot) {
        for (name, table) in &snapshot.tables {
            assert_eq!(table.scope, TableScope::Keyed, "table {name}");
            for batch in &table.batches {
                let expiries = state.expiries(name, batch);
                let hashes = key_hashes_of(batch).iter().enumerate();
                for ((row, hash), line) in hashes.zip(rows_text(batch)) {
                    let expiry = expiries.as_ref().map_or(i64::MAX, |of| of[row]);
                    let of_key = self.0.entry(*hash).or_default();
                    of_key.push((name.clone(), expiry, line));
                }
            }
        }
    }

    /// What is not forgotten, in no order.
    fn alive(&self, now: ProcessingTime) -> BTreeMap<u64, Vec<(String, String)>> {
        let mut alive = BTreeMap::new();
        for (hash, rows) in &self.0 {
            let rows = rows.iter().filter(|(_, expiry, _)| *expiry > now.millis());
            let mut rows: Vec<_> = rows
                .map(|(table, _, line)| (table.clone(), line.clone()))
                .collect();
            rows.sort();
            if !rows.is_empty() {
                alive.insert(*hash, rows);
            }
        }
        alive
    }

    /// The keys whose rows differ in `after`, but for those that were told.
    fn changed(&self, after: &StateRows, now: ProcessingTime, told: &BTreeSet<u64>) -> Vec<String> {
        let (before, after) = (self.alive(now), after.alive(now));
        let keys: BTreeSet<&u64> = before.keys().chain(after.keys()).collect();
        keys.into_iter()
            .filter(|key| before.get(key) != after.get(key) && !told.contains(key))
            .map(|key| format!("{key}: {:?} -> {:?}", before.get(key), after.get(key)))
            .collect()
    }
}

/// An operator of which some keys are elsewhere.
struct Tiered<O> {
    run: Run<O>,
    cold: BTreeMap<u64, StateSnapshot>,
    /// Which part of the keys stays after a call.
    keeps: f64,
    rng: SmallRng,
    evicts: bool,
}

impl<O: Operator> Tiered<O> {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Batch(input, batch) => {
                let hashes = self.run.hashes(*input, batch);
                self.load(hashes);
                self.run.batch(*input, batch);
            }
            Step::Watermark(watermark) => {
                self.act(DueTime::Event, watermark.millis(), |run| {
                    run.watermark(*watermark);
                });
            }
            Step::Clock(now) => {
                self.act(DueTime::Processing, now.millis(), |run| run.clock(*now));
            }
            Step::Flush => self.run.flush(),
        }
    }

    /// Lets time come: keys that are due are loaded in parts, each of which the operator is called for.
    fn act(&mut self, time: DueTime, at: i64, call: impl Fn(&mut Run<O>)) {
        let state = self.run.operator.keyed_state().unwrap();
        let is_of_time = state.due_time() == time;
        let mut due: Vec<u64> = Vec::new();
        if is_of_time {
            let acting = self
                .cold
                .iter()
                .filter(|(_, unit)| acts_by(due_of(state, unit), at));
            due.extend(acting.map(|(hash, _)| *hash));
        }
        due.shuffle(&mut self.rng);
        let mut parts = vec![Vec::new()];
        for hash in due {
            if self.rng.random_bool(0.3) {
                parts.push(Vec::new());
            }
            parts.last_mut().unwrap().push(hash);
        }
        for part in parts {
            self.load(part);
            call(&mut self.run);
            if self.evicts {
                let hot = self.evict("while time acts");
                if is_of_time {
                    let state = self.run.operator.keyed_state().unwrap();
                    for hash in hot {
                        let due = due_of(state, &self.cold[&hash]);
                        let acts = acts_by(due, at);
                        assert!(!acts, "a key that has acted at {at} is still due at {due}");
                    }
                }
            }
        }
    }

    fn load(&mut self, hashes: impl IntoIterator<Item = u64>) {
        let mut parts = vec![StateSnapshot::default()];
        for hash in hashes {
            if self.rng.random_bool(0.2) {
                parts.push(StateSnapshot::default());
            }
            if let Some(unit) = self.cold.remove(&hash) {
                parts.last_mut().unwrap().merge(unit);
            }
        }
        let (state, ctx) = self.run.state();
        for part in parts {
            state.load_keyed(ctx, &part).unwrap();
        }
    }

    /// Takes some keys out, and says which.
    fn evict(&mut self, what: &str) -> Vec<u64> {
        let keeps = self.keeps;
        let state = self.run.operator.keyed_state().unwrap();
        let ctx = &self.run.ctx;
        let all = state.snapshot_keyed(ctx).unwrap();
        let known = state.keys(ctx).unwrap();
        let count = known.len();
        let known: BTreeSet<u64> = known.into_iter().collect();
        assert_eq!(known.len(), count, "{what}: each key once");
        let mut of_rows = all.key_hashes().into_iter();
        assert!(
            of_rows.all(|hash| known.contains(&hash)),
            "{what}: all keys"
        );
        let mut keys: KeySet = KeySet::default();
        for hash in all.key_hashes() {
            if !self.rng.random_bool(keeps) {
                keys.insert(hash);
            }
        }
        // One that is nowhere.
        keys.insert(0x1234_5678_9abc_def0);
        let is_gone = |hash: u64| keys.contains(&hash);
        let exported = state.export_keyed(ctx, &keys).unwrap();
        let expected = all.filter_keyed(&is_gone).unwrap();
        assert_eq!(lines(&exported), lines(&expected), "{what}: export");
        let gone = if keeps == 0.0 && self.rng.random_bool(0.5) {
            state.clear_keyed().unwrap();
            expected
        } else {
            state.evict_keyed(ctx, &keys).unwrap()
        };
        assert_eq!(lines(&gone), lines(&exported), "{what}: what is taken out");
        let rest = state.snapshot_keyed(ctx).unwrap();
        let stays = all.filter_keyed(&|hash| !is_gone(hash)).unwrap();
        assert_eq!(lines(&rest), lines(&stays), "{what}: what stays");
        let hashes = gone.key_hashes();
        for hash in &hashes {
            let unit = gone.filter_keyed(&|other| other == *hash).unwrap();
            let twice = self.cold.insert(*hash, unit);
            assert!(twice.is_none(), "{what}: a key is in one place");
        }
        hashes
    }

    fn state_rows(&mut self) -> StateRows {
        let mut rows = self.run.state_rows();
        let (state, _) = self.run.state();
        for unit in self.cold.values() {
            rows.add(state, unit);
        }
        rows
    }
}

/// The largest time is never, also for the largest watermark.
fn acts_by(due: i64, at: i64) -> bool {
    due <= at && due < i64::MAX
}

/// When a unit acts next.
fn due_of(state: &dyn KeyedState, unit: &StateSnapshot) -> i64 {
    let tables = unit.tables.iter();
    let batches =
        tables.flat_map(|(name, table)| table.batches.iter().map(move |rows| (name, rows)));
    let dues = batches.flat_map(|(name, rows)| {
        let due = state.due(name, rows);
        assert_eq!(due.len(), rows.num_rows(), "a time for each row of {name}");
        due
    });
    dues.min().unwrap_or(i64::MAX)
}

/// The rows of each table, sorted.
fn lines(snapshot: &StateSnapshot) -> BTreeMap<&str, Vec<String>> {
    let mut tables = BTreeMap::new();
    for (name, table) in &snapshot.tables {
        let mut lines: Vec<String> = table.batches.iter().flat_map(rows_text).collect();
        lines.sort();
        if !lines.is_empty() {
            tables.insert(name.as_str(), lines);
        }
    }
    tables
}
