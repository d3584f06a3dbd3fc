use std::collections::BTreeMap;
use std::sync::Arc;

use rand::Rng;
use rand::rngs::SmallRng;

use super::*;
use crate::operators::KeySet;
use crate::operators::keyed_state::Frozen;
use crate::operators::keyed_state::conformance::{Conformance, RandomRows, first_cell};
use crate::operators::test_bench::{Way, check, run};
use crate::state::{HashMapStateBackend, key_hashes_of};
use crate::types::LogicalType;

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("k", LogicalType::STRING),
        Field::new("v", LogicalType::INT),
    ])
}

fn call(function: &str, argument: Option<usize>, result: TypeRoot) -> AggregateCall {
    AggregateCall {
        function: function.to_string(),
        arguments: argument.into_iter().collect(),
        argument_types: argument.iter().map(|_| LogicalType::INT).collect(),
        distinct: false,
        filter: None,
        logical_type: LogicalType::nullable(result),
        name: function.to_lowercase(),
    }
}

fn count() -> AggregateCall {
    call("COUNT", None, TypeRoot::BigInt)
}

fn of_v(function: &str) -> AggregateCall {
    call(function, Some(1), TypeRoot::Int)
}

fn spec(aggregates: &[AggregateCall]) -> GroupAggregateSpec {
    GroupAggregateSpec {
        keys: vec![0],
        aggregates: aggregates.to_vec(),
        input: schema(),
        merges_partials: false,
        insert_only: false,
        update_before: true,
        mini_batch_rows: None,
        ttl: TimeToLive::NEVER,
    }
}

fn operator(spec: &GroupAggregateSpec) -> GroupAggregateOperator {
    GroupAggregateOperator::new(spec.clone(), Arc::new(HashMapStateBackend)).unwrap()
}

fn checked(spec: &GroupAggregateSpec, stream: &str, expected: &str) {
    check(|| operator(spec), &[&spec.input], stream, expected);
}

#[test]
fn a_group_begins_changes_and_ends() {
    checked(
        &spec(&[of_v("SUM")]),
        "
        +I a, 5
        +I a, 2
        -D a, 5
        +I b, 1
        -D a, 2
        +I a, 1
        ",
        "
        +I a, 5
        -U a, 5
        +U a, 7
        -U a, 7
        +U a, 2
        +I b, 1
        -D a, 2
        +I a, 1
        ",
    );
}

#[test]
fn without_update_before_only_the_new_rows_are_told() {
    let by_key = GroupAggregateSpec {
        update_before: false,
        ..spec(&[count()])
    };
    checked(
        &by_key,
        "
        +I a, 5
        +I a, 2
        -D a, 5
        -D a, 2
        ",
        "
        +I a, 1
        +U a, 2
        +U a, 1
        -D a, 1
        ",
    );
}

#[test]
fn equal_results_are_left_out_unless_they_keep_state_alive() {
    let max = GroupAggregateSpec {
        insert_only: true,
        ..spec(&[of_v("MAX")])
    };
    let stream = "
        +I a, 9
        +I a, 4
    ";
    checked(&max, stream, "+I a, 9");
    let hour = GroupAggregateSpec {
        ttl: TimeToLive::of_millis(3_600_000),
        ..max
    };
    checked(
        &hour,
        stream,
        "
        +I a, 9
        -U a, 9
        +U a, 9
        ",
    );
}

#[test]
fn what_is_taken_back_from_nothing_is_ignored() {
    checked(
        &spec(&[count()]),
        "
        -D z, 1
        +I z, 1
        -D z, 1
        -D z, 1
        +I z, 2
        ",
        "
        +I z, 1
        -D z, 1
        +I z, 1
        ",
    );
}

#[test]
fn distinct_rows_come_once_and_go_with_the_last() {
    checked(
        &spec(&[]),
        "
        +I a, 1
        +I a, 2
        -D a, 1
        +I b, 1
        -D a, 2
        ",
        "
        +I a
        +I b
        -D a
        ",
    );
}

#[test]
fn no_key_is_one_group() {
    let global = GroupAggregateSpec {
        keys: vec![],
        ..spec(&[count(), of_v("SUM")])
    };
    checked(
        &global,
        "
        +I a, 1
        +I b, null
        -D a, 1
        -D b, null
        ",
        "
        +I 1, 1
        -U 1, 1
        +U 2, 1
        -U 2, 1
        +U 1, null
        -D 1, null
        ",
    );
}

#[test]
fn a_group_whose_time_is_over_begins_anew() {
    let minute = GroupAggregateSpec {
        insert_only: true,
        ttl: TimeToLive::of_millis(60_000),
        ..spec(&[count()])
    };
    checked(
        &minute,
        "
        +I a, 1
        -- clock 30000
        +I a, 1
        +I b, 1
        -- clock 89999
        +I a, 1
        -- clock 90000
        +I b, 1
        -- clock 149998
        +I a, 1
        ",
        "
        +I a, 1
        -U a, 1
        +U a, 2
        +I b, 1
        -U a, 2
        +U a, 3
        +I b, 1
        -U a, 3
        +U a, 4
        ",
    );
}

#[test]
fn groups_whose_time_is_over_are_given_back() {
    let minute = GroupAggregateSpec {
        insert_only: true,
        ttl: TimeToLive::of_millis(60_000),
        ..spec(&[count()])
    };
    let mut operator = operator(&minute);
    let mut ctx = Context::new(crate::operators::Subtask::SINGLE, Default::default());
    let mut out = Output::new(false);
    let rows: Vec<String> = (0..20_000).map(|key| format!("+I k{key}, 1")).collect();
    let rows = crate::operators::test_bench::batch(&schema(), &rows.join("\n"));
    let _ = operator
        .process_batch(&mut ctx, InputIndex::FIRST, rows, &mut out)
        .unwrap();
    let full = operator.state_bytes();
    assert_eq!(operator.groups(), 20_000);
    ctx.set_processing_time(operator.next_processing_timer().unwrap());
    let _ = operator.on_processing_time(&mut ctx, &mut out).unwrap();
    assert_eq!(
        (operator.groups(), operator.next_processing_timer()),
        (0, None)
    );
    assert!(4 * operator.state_bytes() < full);
}

fn lines_of(spec: &GroupAggregateSpec, stream: &str, way: Way) -> Vec<String> {
    run(&|| operator(spec), &[&spec.input], stream, way)
}

#[test]
fn a_bundle_tells_one_change_a_key() {
    let bundled = GroupAggregateSpec {
        mini_batch_rows: Some(4),
        ..spec(&[count(), of_v("MAX")])
    };
    let stream = "
        +I a, 1
        +I b, 1
        +I a, 2
        -D b, 1
        +I a, 2
        -D a, 2
        +I c, 7
        -- watermark 10
        -D a, 2
        -D a, 1
        -- end
    ";
    let expected = [
        "+I a, 2, 2",
        "+I c, 1, 7",
        "-- watermark 10",
        "-D a, 2, 2",
        "-- watermark end",
    ];
    let at_once = lines_of(&bundled, stream, Way::SizeOne);
    assert_eq!(at_once, expected);
}

/// Local phases over halves of the rows, then the global one.
fn in_two_phases(spec: &GroupAggregateSpec, rows: &[Row]) -> Vec<String> {
    let backend: Arc<dyn StateBackend> = Arc::new(HashMapStateBackend);
    let mut ctx = Context::new(crate::operators::Subtask::SINGLE, Default::default());
    let mut partials = Output::new(false);
    let mut local = LocalGroupAggregateOperator::new(spec, backend.clone()).unwrap();
    let batch = crate::operators::test_bench::batch(&schema(), &text(rows));
    let _ = local
        .process_batch(&mut ctx, InputIndex::FIRST, batch, &mut partials)
        .unwrap();
    let _ = local.flush_bundle(&mut ctx, &mut partials).unwrap();
    let global = GroupAggregateSpec {
        merges_partials: true,
        ..spec.clone()
    };
    let mut global = operator(&global);
    let mut out = Output::new(false);
    while let Some(element) = partials.pop() {
        if let crate::stream::StreamElement::Batch(batch) = element {
            let _ = global
                .process_batch(&mut ctx, InputIndex::FIRST, batch, &mut out)
                .unwrap();
        }
    }
    let _ = global.flush_bundle(&mut ctx, &mut out).unwrap();
    let mut lines = crate::operators::test_bench::StreamText::default();
    while let Some(element) = out.pop() {
        lines.element(element);
    }
    lines.lines
}

#[test]
fn a_lone_delete_makes_no_row_in_two_phases() {
    let two = GroupAggregateSpec {
        mini_batch_rows: Some(3),
        ..spec(&[count()])
    };
    let rows = [(false, 1, Some(1)), (true, 2, Some(1)), (true, 3, Some(1))];
    assert_eq!(in_two_phases(&two, &rows), ["+I k2, 1", "+I k3, 1"]);
}

/// Whether it comes, key, value.
type Row = (bool, u64, Option<i32>);

fn text(rows: &[Row]) -> String {
    let line = |(comes, key, value): &Row| {
        let kind = if *comes { "+I" } else { "-D" };
        let value = value.map_or("null".to_string(), |value| value.to_string());
        format!("{kind} k{key}, {value}\n")
    };
    rows.iter().map(line).collect()
}

/// Small deterministic pseudo-random numbers.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

/// Rows that come and go; now and then one goes that was not there.
fn random_rows(seed: u64, keys: u64, count: usize) -> Vec<Row> {
    let mut next = numbers(seed);
    let mut there: Vec<(u64, Option<i32>)> = Vec::new();
    let mut rows = Vec::new();
    while rows.len() < count {
        let key = next(keys);
        if next(10) < 4 && !there.is_empty() {
            let (key, value) = there.swap_remove(next(there.len() as u64) as usize);
            rows.push((false, key, value));
        } else if next(20) == 0 && !there.iter().any(|(own, _)| *own == key) {
            rows.push((false, key, Some(3)));
        } else {
            let value = (next(6) > 0).then(|| next(5) as i32 - 2);
            there.push((key, value));
            rows.push((true, key, value));
        }
    }
    rows
}

/// The same aggregates, from all rows of a group.
fn slow_results(values: &[Option<i32>]) -> String {
    let known: Vec<i32> = values.iter().flatten().copied().collect();
    let or_null = |value: Option<i32>| value.map_or("null".to_string(), |value| value.to_string());
    let distinct: std::collections::BTreeSet<i32> = known.iter().copied().collect();
    let sum = (!known.is_empty()).then(|| known.iter().sum());
    let cells = [
        values.len().to_string(),
        or_null(sum),
        or_null(known.iter().min().copied()),
        or_null(known.iter().max().copied()),
        distinct.len().to_string(),
        or_null(known.first().copied()),
        or_null(known.last().copied()),
    ];
    cells.join(", ")
}

fn aggregates() -> Vec<AggregateCall> {
    let distinct = AggregateCall {
        distinct: true,
        ..call("COUNT", Some(1), TypeRoot::BigInt)
    };
    vec![
        count(),
        of_v("SUM"),
        of_v("MIN"),
        of_v("MAX"),
        distinct,
        of_v("FIRST_VALUE"),
        of_v("LAST_VALUE"),
    ]
}

/// The slow twin: bundles of `bundle` rows; with 1 it is record by record.
fn twin(rows: &[Row], bundle: usize) -> Vec<String> {
    let mut groups: BTreeMap<u64, Vec<Option<i32>>> = BTreeMap::new();
    let mut lines = Vec::new();
    for rows in rows.chunks(bundle) {
        let mut touched: Vec<(u64, Option<String>)> = Vec::new();
        for (comes, key, value) in rows {
            if !touched.iter().any(|(known, _)| known == key) {
                touched.push((*key, groups.get(key).map(|values| slow_results(values))));
            }
            if *comes {
                groups.entry(*key).or_default().push(*value);
            } else if let Some(values) = groups.get_mut(key) {
                if let Some(at) = values.iter().position(|known| known == value) {
                    values.remove(at);
                }
                if values.is_empty() {
                    groups.remove(key);
                }
            }
        }
        for (key, before) in touched {
            let after = groups.get(&key).map(|values| slow_results(values));
            match (before, after) {
                (None, Some(after)) => lines.push(format!("+I k{key}, {after}")),
                (Some(before), None) => lines.push(format!("-D k{key}, {before}")),
                (Some(before), Some(after)) if before != after => {
                    lines.push(format!("-U k{key}, {before}"));
                    lines.push(format!("+U k{key}, {after}"));
                }
                _ => {}
            }
        }
    }
    lines
}

#[test]
fn the_fast_operator_agrees_with_a_slow_one() {
    for (seed, keys) in [(1, 1), (2, 3), (3, 40), (4, 7)] {
        let rows = random_rows(seed, keys, 300);
        let record = spec(&aggregates());
        for way in Way::ALL {
            let actual = lines_of(&record, &text(&rows), way);
            assert_eq!(actual, twin(&rows, 1), "seed {seed}, {way:?}");
        }
        for size in [1, 7, 1000] {
            let bundled = GroupAggregateSpec {
                mini_batch_rows: Some(size),
                ..record.clone()
            };
            let stream = text(&rows) + "-- end\n";
            for way in [Way::SizeOne, Way::Whole] {
                let mut actual = lines_of(&bundled, &stream, way);
                assert_eq!(actual.pop().unwrap(), "-- watermark end");
                assert_eq!(actual, twin(&rows, size), "seed {seed}, bundles of {size}");
            }
        }
    }
}

#[test]
fn both_phases_agree_with_a_slow_one() {
    // Only rows that were there go: what else a partial takes back cannot be told.
    for seed in 1..6 {
        let mut rows = random_rows(seed, 5, 120);
        let mut there: Vec<(u64, Option<i32>)> = Vec::new();
        rows.retain(|(comes, key, value)| {
            if *comes {
                there.push((*key, *value));
                return true;
            }
            let at = there.iter().position(|known| known == &(*key, *value));
            at.map(|at| there.remove(at)).is_some()
        });
        let two = GroupAggregateSpec {
            mini_batch_rows: Some(1_000_000),
            ..spec(&aggregates())
        };
        let mut expected = twin(&rows, 1_000_000);
        let mut actual = in_two_phases(&two, &rows);
        expected.sort();
        actual.sort();
        assert_eq!(actual, expected, "seed {seed}");
    }
}

/// Rows of a few keys that come and go; now and then one goes that was not there. `cells` are those of a key and a value.
fn random_changes(
    takes_back: bool,
    cells: &'static dyn Fn(u32, &str) -> String,
) -> impl Fn() -> RandomRows {
    move || {
        let mut there: Vec<String> = Vec::new();
        Box::new(move |rng: &mut SmallRng, _, _| {
            if takes_back && rng.random_bool(0.4) && !there.is_empty() {
                let row = there.swap_remove(rng.random_range(0..there.len()));
                return format!("-D {row}");
            }
            let value = match rng.random_range(0..5) {
                0 => "null".to_string(),
                value => value.to_string(),
            };
            let row = cells(rng.random_range(0..12), &value);
            if takes_back && rng.random_bool(0.05) {
                return format!("-D {row}");
            }
            there.push(row.clone());
            format!("+I {row}")
        })
    }
}

fn text_key(key: u32, value: &str) -> String {
    match key {
        0 => format!("null, {value}"),
        key => format!("k{key}, {value}"),
    }
}

fn conforms(name: &str, spec: &GroupAggregateSpec, rows: &dyn Fn() -> RandomRows) {
    let keys = spec.keys.len();
    Conformance {
        name,
        inputs: &[&spec.input],
        rows,
        output_key: &|cells| cells[..keys].join(", "),
        watermarks: spec.mini_batch_rows.is_some(),
        clock: spec.ttl.is_enabled(),
        bundles: spec.mini_batch_rows.is_some(),
    }
    .check(|| operator(spec));
}

#[test]
fn groups_come_and_go_with_their_keys() {
    let everything = spec(&aggregates());
    conforms("all rows", &everything, &random_changes(true, &text_key));
    let growing = GroupAggregateSpec {
        insert_only: true,
        update_before: false,
        ..everything.clone()
    };
    conforms("inserts", &growing, &random_changes(false, &text_key));
    let bundled = GroupAggregateSpec {
        mini_batch_rows: Some(5),
        ..everything.clone()
    };
    conforms("bundles", &bundled, &random_changes(true, &text_key));
    let keyless = GroupAggregateSpec {
        keys: vec![],
        ..everything
    };
    conforms("no key", &keyless, &random_changes(true, &text_key));
}

#[test]
fn groups_with_a_time_to_live_come_and_go_with_their_keys() {
    for insert_only in [true, false] {
        let short = GroupAggregateSpec {
            ttl: TimeToLive::of_millis(60),
            insert_only,
            ..spec(&aggregates())
        };
        let rows = random_changes(!insert_only, &text_key);
        conforms("time to live", &short, &rows);
    }
}

#[test]
fn lists_of_distinct_values_keep_their_order() {
    let distinct = |function: &str, result: TypeRoot| AggregateCall {
        distinct: true,
        ..call(function, Some(1), result)
    };
    let list = TypeRoot::Array(Box::new(LogicalType::INT));
    let ordered = spec(&[
        distinct("ARRAY_AGG", list),
        distinct("LAST_VALUE", TypeRoot::Int),
        count(),
    ]);
    conforms("distinct lists", &ordered, &random_changes(true, &text_key));
}

#[test]
fn groups_of_every_layout_of_keys_come_and_go() {
    let input = |key: LogicalType| {
        Schema::new(vec![
            Field::new("k", key),
            Field::new("v", LogicalType::INT),
        ])
    };
    fn number_key(key: u32, value: &str) -> String {
        match key {
            0 => format!("null, {value}"),
            key => format!("{key}, {value}"),
        }
    }
    for insert_only in [true, false] {
        let by_number = GroupAggregateSpec {
            input: input(LogicalType::BIGINT),
            insert_only,
            ..spec(&[count(), of_v("SUM")])
        };
        let rows = random_changes(!insert_only, &number_key);
        conforms("numbers", &by_number, &rows);
        let by_both = GroupAggregateSpec {
            keys: vec![0, 1],
            ..by_number
        };
        conforms("two columns", &by_both, &rows);
    }
}

#[test]
fn partials_find_the_groups_of_their_keys() {
    let two = GroupAggregateSpec {
        merges_partials: true,
        mini_batch_rows: Some(4),
        ..spec(&[count(), of_v("SUM")])
    };
    let aggregates = AggregateSetSpec::new(&two.aggregates, false).unwrap();
    let partials = partial_schema(two.key_fields(), &aggregates);
    let rows = || -> RandomRows {
        let mut there: Vec<String> = Vec::new();
        Box::new(move |rng: &mut SmallRng, _, _| {
            if rng.random_bool(0.3) && !there.is_empty() {
                return there.swap_remove(rng.random_range(0..there.len()));
            }
            let (key, value) = (rng.random_range(0..9), rng.random_range(0..5));
            there.push(format!("+I k{key}, -1, {}, -1", -value));
            format!("+I k{key}, 1, {value}, 1")
        })
    };
    Conformance {
        name: "partials",
        inputs: &[&partials],
        rows: &rows,
        output_key: &first_cell,
        watermarks: true,
        clock: false,
        bundles: true,
    }
    .check(|| operator(&two));
}

/// All of what is frozen: rows by the hash of their key, and the keys that are gone.
#[derive(Default)]
struct Thawed {
    rows: BTreeMap<u64, Vec<String>>,
    gone: Vec<u64>,
}

impl Thawed {
    /// Takes one piece; whether there was one.
    fn take(&mut self, operator: &mut GroupAggregateOperator, ctx: &Context) -> bool {
        let Some(piece) = operator.thaw(ctx, 3).unwrap() else {
            return false;
        };
        self.gone.extend(piece.gone.iter().flatten());
        for batch in piece.batches(TABLE) {
            let lines = crate::operators::test_bench::rows_text(batch);
            for (hash, line) in std::iter::zip(key_hashes_of(batch), lines) {
                let rows = self.rows.entry(*hash).or_default();
                rows.push(line);
                assert_eq!(rows.len(), 1, "a group is copied once");
            }
        }
        true
    }
}

struct Changing {
    operator: GroupAggregateOperator,
    ctx: Context,
    random: SmallRng,
    /// The keys that rows came for since the last snapshot.
    touched: KeySet,
}

impl Changing {
    fn take_rows(&mut self, text: &str) -> Vec<u64> {
        let rows = crate::operators::test_bench::batch(&schema(), text);
        let hashes = key_hashes(&rows, &[0]).unwrap().values().to_vec();
        self.touched.extend(hashes.iter().copied());
        let mut out = Output::new(false);
        let operator = &mut self.operator;
        let flow = operator.process_batch(&mut self.ctx, InputIndex::FIRST, rows, &mut out);
        assert_eq!(flow.unwrap(), Flow::Done);
        hashes
    }

    fn change(&mut self) {
        let mut row = || {
            let kind = ["+I", "+I", "-D"][self.random.random_range(0..3)];
            format!("{kind} k{}, 1", self.random.random_range(0..200))
        };
        let rows: Vec<String> = (0..20).map(|_| row()).collect();
        let hashes = self.take_rows(&rows.join("\n"));
        let keys: KeySet = hashes[..4].iter().copied().collect();
        match self.random.random_range(0..5) {
            0 => {
                let mut out = Output::new(false);
                let flow = self.operator.flush_bundle(&mut self.ctx, &mut out);
                assert_eq!(flow.unwrap(), Flow::Done);
                let cold = self.operator.evict_keyed(&self.ctx, &keys).unwrap();
                self.operator.load_keyed(&self.ctx, &cold).unwrap();
            }
            1 => {
                let now = self.ctx.processing_time();
                self.ctx
                    .set_processing_time(ProcessingTime(now.millis() + 50));
                let mut out = Output::new(false);
                let flow = self.operator.on_processing_time(&mut self.ctx, &mut out);
                assert_eq!(flow.unwrap(), Flow::Done);
            }
            _ => {}
        }
    }
}

#[test]
fn a_frozen_group_is_copied_as_it_was() {
    for seed in 0..40 {
        let mut job = Changing {
            operator: operator(&GroupAggregateSpec {
                mini_batch_rows: (seed % 2 == 0).then_some(7),
                ttl: TimeToLive::of_millis([0, 200][seed as usize / 2 % 2]),
                ..spec(&[count(), of_v("SUM")])
            }),
            ctx: Context::new(crate::operators::Subtask::SINGLE, Default::default()),
            random: rand::SeedableRng::seed_from_u64(seed),
            touched: KeySet::default(),
        };
        job.ctx.track_changed_keys();
        job.operator.track_changes();
        for round in 0..10 {
            for _ in 0..job.random.random_range(0..8) {
                job.change();
            }
            let mut out = Output::new(false);
            let _ = job.operator.flush_bundle(&mut job.ctx, &mut out).unwrap();
            let told: KeySet = job.ctx.take_changed_keys().into_iter().collect();
            let touched = std::mem::take(&mut job.touched);
            let all = round % 3 == 2;
            let whole = job.operator.snapshot_keyed(&job.ctx).unwrap();
            let mut expected = BTreeMap::new();
            for batch in whole.batches(TABLE) {
                let lines = crate::operators::test_bench::rows_text(batch);
                expected.extend(std::iter::zip(key_hashes_of(batch).to_vec(), lines));
            }
            let keys = match all {
                true => Frozen::All,
                false => Frozen::Changed(&told),
            };
            assert!(job.operator.freeze(&job.ctx, keys).unwrap());
            let mut thawed = Thawed::default();
            let steps = job.random.random_range(0..4);
            for step in 0.. {
                if step < steps {
                    job.change();
                }
                if job.random.random() && !thawed.take(&mut job.operator, &job.ctx) {
                    break;
                }
            }
            let copied: BTreeMap<u64, String> = thawed
                .rows
                .into_iter()
                .map(|(hash, mut rows)| (hash, rows.remove(0)))
                .collect();
            let what = format!("seed {seed} round {round}");
            for (hash, row) in &copied {
                assert_eq!(Some(row), expected.get(hash), "{what}: {hash}");
            }
            if all {
                assert_eq!(copied, expected, "{what}: all that was there");
                continue;
            }
            for hash in touched.iter().chain(&told) {
                let is_told = copied.contains_key(hash) || thawed.gone.contains(hash);
                assert!(is_told, "{what}: {hash} changed, and nothing is said of it");
                assert_eq!(copied.get(hash), expected.get(hash), "{what}: {hash}");
            }
        }
    }
}

#[test]
fn what_changed_is_frozen_with_what_ended() {
    let mut operator = operator(&spec(&[count()]));
    let mut ctx = Context::new(crate::operators::Subtask::SINGLE, Default::default());
    let mut out = Output::new(false);
    let mut take = |operator: &mut GroupAggregateOperator, text: &str| {
        let rows = crate::operators::test_bench::batch(&schema(), text);
        let hashes = key_hashes(&rows, &[0]).unwrap().values().to_vec();
        let _ = operator
            .process_batch(&mut ctx, InputIndex::FIRST, rows, &mut out)
            .unwrap();
        hashes
    };
    let ctx = Context::new(crate::operators::Subtask::SINGLE, Default::default());
    let copied = |operator: &mut GroupAggregateOperator| {
        let nobody = KeySet::default();
        assert!(operator.freeze(&ctx, Frozen::Changed(&nobody)).unwrap());
        let mut thawed = Thawed::default();
        while thawed.take(operator, &ctx) {}
        let hashes: Vec<u64> = thawed.rows.into_keys().collect();
        (hashes, thawed.gone)
    };
    let hashes = take(&mut operator, "+I a, 1\n+I b, 1\n+I c, 1");
    assert!(operator.take_changed().is_empty(), "nobody has asked");
    operator.track_changes();
    take(&mut operator, "-D a, 1\n+I b, 1");
    assert_eq!(copied(&mut operator), (vec![hashes[1]], vec![hashes[0]]));
    assert!(operator.take_changed().is_empty(), "it has been told");
    let c = take(&mut operator, "+I c, 1");
    let keys = c.iter().copied().collect();
    operator.evict_keyed(&ctx, &keys).unwrap();
    assert_eq!(copied(&mut operator), (vec![], c), "it is elsewhere");
}

#[test]
fn what_is_evicted_gives_memory_back() {
    for insert_only in [true, false] {
        let mut operator = operator(&GroupAggregateSpec {
            insert_only,
            ..spec(&[count(), of_v("SUM")])
        });
        let mut ctx = Context::new(crate::operators::Subtask::SINGLE, Default::default());
        let mut out = Output::new(false);
        let rows: Vec<String> = (0..20_000).map(|key| format!("+I k{key}, 1")).collect();
        let rows = crate::operators::test_bench::batch(&schema(), &rows.join("\n"));
        let hashes = key_hashes(&rows, &[0]).unwrap().values().to_vec();
        let _ = operator
            .process_batch(&mut ctx, InputIndex::FIRST, rows, &mut out)
            .unwrap();
        let full = operator.size_bytes();
        let keys = hashes[..16_000].iter().copied().collect();
        let gone = operator.evict_keyed(&ctx, &keys).unwrap();
        assert_eq!(operator.groups(), 4000);
        assert!(3 * operator.size_bytes() < full);
        operator.load_keyed(&ctx, &gone).unwrap();
        assert_eq!(operator.groups(), 20_000);
        operator.clear_keyed().unwrap();
        assert!(100 * operator.size_bytes() < full);
    }
}
