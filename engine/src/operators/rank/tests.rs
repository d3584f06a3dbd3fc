//! Top-N by hand, and against a naive twin.

use std::collections::BTreeMap;

use rand::Rng;
use rand::rngs::SmallRng;

use super::*;
use crate::operators::keyed_state::conformance::{Conformance, RandomRows, first_cell};
use crate::operators::test_bench::{Way, check, run};
use crate::types::{Field, LogicalType, TypeRoot};

/// k STRING, v INT, id INT.
fn input() -> Schema {
    Schema::new(vec![
        Field::new("k", LogicalType::STRING),
        Field::new("v", LogicalType::INT),
        Field::new("id", LogicalType::INT),
    ])
}

/// Of each k the first rows in the order of v, falling.
fn spec(strategy: RankStrategy, start: u64, end: u64, output_rank: bool) -> RankSpec {
    let mut output = input();
    if output_rank {
        let rank_type = LogicalType::not_null(TypeRoot::BigInt);
        output.fields.push(Field::new("rn", rank_type));
    }
    let replaces_only_row = (start, end) == (1, 1) && strategy != RankStrategy::Retract;
    RankSpec {
        input: input(),
        output,
        partition_by: vec![0],
        order_by: vec![SortKey {
            column: 1,
            descending: true,
            nulls_first: false,
        }],
        ties: Ties::FirstArrived,
        start,
        end: RankEnd::Constant(end),
        strategy,
        output_rank,
        changelog: RankChangelog {
            update_before: true,
            replaces_only_row: replaces_only_row && !output_rank,
            bundle_rows: None,
        },
        time_to_live: TimeToLive::NEVER,
    }
}

/// The same with the long form of keys.
fn with_long_keys(mut spec: RankSpec) -> RankSpec {
    let by_text = SortKey {
        column: 0,
        descending: false,
        nulls_first: true,
    };
    spec.order_by.push(by_text);
    spec
}

struct Boxed(Box<dyn Operator>);

impl Operator for Boxed {
    fn process_batch(
        &mut self,
        ctx: &mut crate::operators::Context,
        input: crate::operators::InputIndex,
        batch: crate::stream::ChangelogBatch,
        out: &mut crate::operators::Output,
    ) -> Result<crate::operators::Flow> {
        self.0.process_batch(ctx, input, batch, out)
    }
    fn process_watermark(
        &mut self,
        ctx: &mut crate::operators::Context,
        watermark: crate::types::EventTime,
        out: &mut crate::operators::Output,
    ) -> Result<crate::operators::Flow> {
        self.0.process_watermark(ctx, watermark, out)
    }
    fn resume(
        &mut self,
        ctx: &mut crate::operators::Context,
        out: &mut crate::operators::Output,
    ) -> Result<crate::operators::Flow> {
        self.0.resume(ctx, out)
    }
    fn flush_bundle(
        &mut self,
        ctx: &mut crate::operators::Context,
        out: &mut crate::operators::Output,
    ) -> Result<crate::operators::Flow> {
        self.0.flush_bundle(ctx, out)
    }
    fn snapshot_state(
        &mut self,
        ctx: &mut crate::operators::Context,
        checkpoint: crate::stream::CheckpointId,
    ) -> Result<crate::state::StateSnapshot> {
        self.0.snapshot_state(ctx, checkpoint)
    }
    fn restore_state(
        &mut self,
        ctx: &mut crate::operators::Context,
        snapshot: crate::state::StateSnapshot,
    ) -> Result<()> {
        self.0.restore_state(ctx, snapshot)
    }
}

fn make(spec: &RankSpec) -> Boxed {
    Boxed(rank_operator(spec.clone()).unwrap())
}

fn check_rank(spec: RankSpec, stream: &str, expected: &str) {
    check(|| make(&spec), &[&input()], stream, expected);
    let long = with_long_keys(spec);
    check(|| make(&long), &[&input()], stream, expected);
}

const APPENDS: &str = "
    +I a, 5, 1
    +I a, 3, 2
    +I a, 3, 3      // equal to the worst
    +I a, 4, 4
    +I b, null, 5
    +I a, 9, 6
    +I b, 1, 7
";

#[test]
fn without_the_rank_the_row_that_falls_out_is_deleted() {
    check_rank(
        spec(RankStrategy::AppendFast, 1, 2, false),
        APPENDS,
        "
            +I a, 5, 1
            +I a, 3, 2
            -D a, 3, 2
            +I a, 4, 4
            +I b, null, 5
            -D a, 4, 4
            +I a, 9, 6
            +I b, 1, 7
        ",
    );
}

#[test]
fn with_the_rank_rows_shift() {
    check_rank(
        spec(RankStrategy::AppendFast, 1, 2, true),
        APPENDS,
        "
            +I a, 5, 1, 1
            +I a, 3, 2, 2
            -U a, 3, 2, 2
            +U a, 4, 4, 2
            +I b, null, 5, 1
            -U a, 5, 1, 1
            +U a, 9, 6, 1
            -U a, 4, 4, 2
            +U a, 5, 1, 2
            -U b, null, 5, 1
            +U b, 1, 7, 1
            +I b, null, 5, 2
        ",
    );
}

#[test]
fn the_only_row_of_a_partition_is_updated() {
    check_rank(
        spec(RankStrategy::AppendFast, 1, 1, false),
        APPENDS,
        "
            +I a, 5, 1
            +I b, null, 5
            -U a, 5, 1
            +U a, 9, 6
            -U b, null, 5
            +U b, 1, 7
        ",
    );
}

#[test]
fn an_offset_shows_the_ranks_behind_it() {
    check_rank(
        spec(RankStrategy::AppendFast, 2, 3, false),
        "
            +I a, 5, 1
            +I a, 9, 2
            +I a, 7, 3
            +I a, 1, 4
            +I a, 8, 5
        ",
        "
            +I a, 5, 1
            -U a, 5, 1
            +U a, 7, 3
            +I a, 5, 1
            -U a, 7, 3
            +U a, 8, 5
            -U a, 5, 1
            +U a, 7, 3
        ",
    );
}

const RETRACTS: &str = "
    +I a, 5, 1
    +I a, 9, 2
    +I a, 7, 3
    +I a, 7, 3      // twice the same
    -D a, 9, 2
    -U a, 7, 3
    +U a, 1, 3
    -D a, 4, 4      // never there
";

#[test]
fn a_row_that_goes_lets_the_next_one_in() {
    check_rank(
        spec(RankStrategy::Retract, 1, 2, false),
        RETRACTS,
        "
            +I a, 5, 1
            +I a, 9, 2
            -D a, 5, 1
            +I a, 7, 3
            -D a, 9, 2
            +I a, 7, 3
            -D a, 7, 3
            +I a, 5, 1
        ",
    );
    check_rank(
        spec(RankStrategy::Retract, 1, 2, true),
        RETRACTS,
        "
            +I a, 5, 1, 1
            -U a, 5, 1, 1
            +U a, 9, 2, 1
            +I a, 5, 1, 2
            -U a, 5, 1, 2
            +U a, 7, 3, 2
            -U a, 9, 2, 1
            +U a, 7, 3, 1
            -U a, 7, 3, 2
            +U a, 7, 3, 2
            -U a, 7, 3, 1   // the first of the two goes, the second takes its place
            +U a, 7, 3, 1
            -U a, 7, 3, 2
            +U a, 5, 1, 2
        ",
    );
}

const UPDATES: &str = "
    +I a, 1, 1
    +I a, 1, 2
    +I a, 1, 3      // outside
    -U a, 1, 2
    +U a, 2, 2
    -U a, 1, 3
    +U a, 3, 3      // comes in
    -U a, 2, 2
    +U a, 2, 2
";

#[test]
fn updates_by_key_move_rows_up() {
    let by_id = || RankStrategy::UpdateFast(vec![0, 2]);
    check_rank(
        spec(by_id(), 1, 2, false),
        UPDATES,
        "
            +I a, 1, 1
            +I a, 1, 2
            -U a, 1, 2
            +U a, 2, 2
            -D a, 1, 1
            +I a, 3, 3
            -U a, 2, 2
            +U a, 2, 2
        ",
    );
    check_rank(
        spec(by_id(), 1, 2, true),
        UPDATES,
        "
            +I a, 1, 1, 1
            +I a, 1, 2, 2
            -U a, 1, 1, 1
            -U a, 1, 2, 2
            +U a, 2, 2, 1
            +U a, 1, 1, 2
            -U a, 2, 2, 1
            +U a, 3, 3, 1
            -U a, 1, 1, 2
            +U a, 2, 2, 2
            -U a, 2, 2, 2
            +U a, 2, 2, 2
        ",
    );
}

#[test]
fn the_end_may_be_a_column_of_the_first_row() {
    let spec = RankSpec {
        end: RankEnd::Column(2),
        ..spec(RankStrategy::AppendFast, 1, 1, false)
    };
    let spec = RankSpec {
        changelog: RankChangelog {
            replaces_only_row: false,
            ..spec.changelog
        },
        ..spec
    };
    check_rank(
        spec,
        "
            +I a, 5, 2
            +I a, 3, 2
            +I a, 4, 2
            +I b, 1, null
            +I b, 2, 1
        ",
        "
            +I a, 5, 2
            +I a, 3, 2
            -D a, 3, 2
            +I a, 4, 2
        ",
    );
}

#[test]
fn by_arrival_the_first_rows_are_counted() {
    let by_arrival = RankSpec {
        order_by: vec![],
        partition_by: vec![],
        ..spec(RankStrategy::AppendFast, 2, 3, true)
    };
    check(
        || make(&by_arrival),
        &[&input()],
        "+I a, 5, 1\n+I b, 6, 2\n-- watermark 3\n+I c, 7, 3\n+I d, 8, 4",
        "+I b, 6, 2, 2\n-- watermark 3\n+I c, 7, 3, 3",
    );
}

#[test]
fn by_arrival_falling_a_newcomer_is_the_first() {
    let newest = RankSpec {
        order_by: vec![],
        ties: Ties::LastArrived,
        ..spec(RankStrategy::AppendFast, 1, 2, false)
    };
    check(
        || make(&newest),
        &[&input()],
        "+I a, 5, 1\n+I a, 6, 2\n+I a, 7, 3",
        "+I a, 5, 1\n+I a, 6, 2\n-D a, 5, 1\n+I a, 7, 3",
    );
}

#[test]
fn a_partition_is_forgotten_with_its_time_to_live() {
    let spec = RankSpec {
        time_to_live: TimeToLive::of_millis(1000),
        ..spec(RankStrategy::AppendFast, 1, 2, true)
    };
    check_rank(
        spec,
        "
            +I a, 5, 1
            -- clock 999
            +I a, 4, 2
            -- clock 1999
            +I a, 3, 3
        ",
        "
            +I a, 5, 1, 1
            +I a, 4, 2, 2
            +I a, 3, 3, 1
        ",
    );
}

/// Small deterministic pseudo-random numbers.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

type Row = (u64, u64, u64);

/// A stream as the strategy allows it, and the rows that are there in the end, as they arrived (with `v` as they changed last).
fn random_stream(strategy: &RankStrategy, seed: u64) -> (String, Vec<Row>) {
    let mut next = numbers(seed);
    let (mut text, mut rows): (String, Vec<Row>) = Default::default();
    let line = |(k, v, id): Row| format!("k{k}, {v}, {id}\n");
    for id in 0..150 {
        let changes = !rows.is_empty() && next(3) > 0;
        match strategy {
            RankStrategy::UpdateFast(_) if changes => {
                let at = next(rows.len() as u64) as usize;
                let (k, v, id) = rows.remove(at);
                let new = (k, v + next(3), id);
                text += &format!("-U {}+U {}", line((k, v, id)), line(new));
                if new.1 == v {
                    rows.insert(at, new);
                } else {
                    rows.push(new);
                }
            }
            RankStrategy::Retract if changes && next(2) == 0 => {
                let at = next(rows.len() as u64) as usize;
                let first = rows.iter().position(|row| *row == rows[at]).unwrap();
                text += &format!("-D {}", line(rows.remove(first)));
            }
            _ => {
                let id = if *strategy == RankStrategy::Retract {
                    next(4)
                } else {
                    id
                };
                let row = (next(3), next(8), id);
                text += &format!("+I {}", line(row));
                rows.push(row);
            }
        }
        if next(20) == 0 {
            text += &format!("-- watermark {id}\n");
        }
    }
    (text + "-- end\n", rows)
}

/// What should be there: the rows of each key with ranks from `start` to `end`.
fn naive(rows: &[Row], start: usize, end: usize, output_rank: bool) -> Vec<String> {
    let mut result = Vec::new();
    for key in 0..3 {
        let mut own: Vec<Row> = rows.iter().copied().filter(|row| row.0 == key).collect();
        own.sort_by_key(|(_, v, _)| std::cmp::Reverse(*v));
        for (at, (k, v, id)) in own.into_iter().enumerate() {
            let rank = at + 1;
            if (start..=end).contains(&rank) {
                let suffix = if output_rank {
                    format!(", {rank}")
                } else {
                    String::new()
                };
                result.push(format!("k{k}, {v}, {id}{suffix}"));
            }
        }
    }
    result.sort();
    result
}

/// The bag that a changelog leaves; nothing may be taken that is not there.
fn applied(lines: &[String]) -> Vec<String> {
    let mut bag: BTreeMap<&str, i64> = BTreeMap::new();
    for line in lines.iter().filter(|line| !line.starts_with("--")) {
        let (kind, row) = line.split_once(' ').unwrap();
        let count = bag.entry(row).or_default();
        *count += if matches!(kind, "+I" | "+U") { 1 } else { -1 };
        assert!(*count >= 0, "{line} was not there");
    }
    let rows = bag.into_iter();
    rows.flat_map(|(row, count)| vec![row.to_string(); count as usize])
        .collect()
}

#[test]
fn all_forms_agree_with_a_naive_twin() {
    let strategies = [
        RankStrategy::AppendFast,
        RankStrategy::UpdateFast(vec![0, 2]),
        RankStrategy::Retract,
    ];
    for seed in 1..25 {
        for strategy in &strategies {
            let (stream, rows) = random_stream(strategy, seed);
            for (start, end) in [(1, 1), (1, 3), (2, 4)] {
                for output_rank in [false, true] {
                    let bundle = [None, Some(7), Some(1000)][seed as usize % 3];
                    let mut spec = spec(strategy.clone(), start, end, output_rank);
                    spec.changelog.bundle_rows = bundle;
                    let expected = naive(&rows, start as usize, end as usize, output_rank);
                    for way in Way::ALL {
                        let lines = run(&|| make(&spec), &[&input()], &stream, way);
                        let actual = applied(&lines);
                        let what =
                            format!("{strategy:?} {start} {end} {output_rank} {way:?} {seed}");
                        assert_eq!(actual, expected, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn without_rows_before_updates_an_offset_gives_the_difference_of_sets() {
    for seed in 1..25 {
        let (stream, rows) = random_stream(&RankStrategy::Retract, seed);
        let mut spec = spec(RankStrategy::Retract, 2, 4, false);
        spec.changelog.update_before = false;
        for way in Way::ALL {
            let lines = run(&|| make(&spec), &[&input()], &stream, way);
            assert_eq!(applied(&lines), naive(&rows, 2, 4, false), "{way:?} {seed}");
        }
    }
}

/// Rows with a value for each key and id; `id` is the same number for all rows of a key where it is their last rank.
fn random_inserts(id_by_key: bool) -> impl Fn() -> RandomRows {
    move || {
        Box::new(move |rng: &mut SmallRng, _, _| {
            let (key, value) = (rng.random_range(0..7), rng.random_range(0..9));
            let id = if id_by_key {
                key % 4
            } else {
                rng.random_range(0..5)
            };
            match key {
                0 => format!("+I null, {value}, {id}"),
                key => format!("+I k{key}, {value}, {id}"),
            }
        })
    }
}

/// Inserts, and deletes of rows that came and of some that did not.
fn random_retractions(id_by_key: bool) -> impl Fn() -> RandomRows {
    move || {
        let mut inserts = random_inserts(id_by_key)();
        let mut there: Vec<String> = Vec::new();
        Box::new(move |rng: &mut SmallRng, input, time| {
            if rng.random_bool(0.4) && !there.is_empty() {
                let row = there.swap_remove(rng.random_range(0..there.len()));
                return format!("-D {row}");
            }
            let line = inserts(rng, input, time);
            let row = line.trim_start_matches("+I ").to_string();
            if rng.random_bool(0.05) {
                return format!("-D {row}");
            }
            there.push(row);
            line
        })
    }
}

/// Rows by key and id whose value only grows.
fn random_updates() -> RandomRows {
    let mut values: BTreeMap<(u32, u32), i32> = BTreeMap::new();
    Box::new(move |rng: &mut SmallRng, _, _| {
        let name = (rng.random_range(1..7), rng.random_range(0..5));
        let row = |value: i32| format!("k{}, {value}, {}", name.0, name.1);
        let known = values.get(&name).copied();
        let value = known.unwrap_or(0) + rng.random_range(0..3);
        values.insert(name, value);
        match known {
            None => format!("+I {}", row(value)),
            Some(before) => format!("-U {}\n+U {}", row(before), row(value)),
        }
    })
}

fn conforms<O: Operator>(
    name: &str,
    spec: &RankSpec,
    rows: &dyn Fn() -> RandomRows,
    make: impl Fn(RankSpec) -> O,
) {
    Conformance {
        name,
        inputs: &[&spec.input],
        rows,
        output_key: &first_cell,
        watermarks: true,
        clock: spec.time_to_live.is_enabled(),
        bundles: spec.changelog.bundle_rows.is_some(),
    }
    .check(|| make(spec.clone()));
}

fn short(spec: RankSpec) -> RankSpec {
    RankSpec {
        time_to_live: TimeToLive::of_millis(80),
        ..spec
    }
}

fn bundled(mut spec: RankSpec) -> RankSpec {
    spec.changelog.bundle_rows = Some(5);
    spec
}

fn by_column(spec: RankSpec) -> RankSpec {
    RankSpec {
        end: RankEnd::Column(2),
        ..spec
    }
}

fn ranked(spec: RankSpec) -> RankOperator<u128> {
    RankOperator::new(spec).unwrap()
}

#[test]
fn ranks_of_inserts_do_not_ask_where_partitions_are() {
    let append = |start, output_rank| spec(RankStrategy::AppendFast, start, 3, output_rank);
    let inserts = random_inserts(false);
    for spec in [
        append(1, true),
        append(2, false),
        RankSpec {
            ties: Ties::LastArrived,
            ..append(1, true)
        },
        bundled(append(1, true)),
        short(append(1, false)),
    ] {
        conforms("inserts", &spec, &inserts, ranked);
    }
    let long = with_long_keys(append(1, true));
    conforms("long keys", &long, &inserts, |spec| {
        RankOperator::<Box<[u8]>>::new(spec).unwrap()
    });
    let by_column = by_column(append(1, true));
    conforms("last ranks", &by_column, &random_inserts(true), ranked);
}

#[test]
fn ranks_of_updates_do_not_ask_where_partitions_are() {
    let update = |output_rank| spec(RankStrategy::UpdateFast(vec![0, 2]), 1, 3, output_rank);
    for spec in [update(true), update(false), bundled(update(true))] {
        conforms("updates", &spec, &random_updates, ranked);
    }
}

#[test]
fn ranks_of_retractions_do_not_ask_where_partitions_are() {
    let retract = |output_rank| spec(RankStrategy::Retract, 1, 2, output_rank);
    let rows = random_retractions(false);
    for spec in [
        retract(true),
        retract(false),
        bundled(retract(true)),
        short(retract(true)),
    ] {
        conforms("retractions", &spec, &rows, ranked);
    }
    for spec in [retract(true), short(retract(true))] {
        let rows = random_retractions(true);
        conforms("last ranks", &by_column(spec), &rows, ranked);
    }
}

#[test]
fn counts_do_not_ask_where_partitions_are() {
    let counted = RankSpec {
        order_by: Vec::new(),
        ..spec(RankStrategy::AppendFast, 2, 3, true)
    };
    let make = |spec| FirstRowsOperator::new(spec).unwrap();
    let inserts = random_inserts(true);
    conforms("counts", &counted, &inserts, make);
    conforms("counts for a time", &short(counted.clone()), &inserts, make);
    conforms("last ranks", &by_column(counted), &inserts, make);
}
