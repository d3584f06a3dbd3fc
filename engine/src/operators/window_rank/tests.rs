use rand::Rng;
use rand::rngs::SmallRng;

use super::*;
use crate::operators::keyed_state::conformance::{Conformance, RandomRows, first_cell};
use crate::operators::test_bench::{Way, check, run};
use crate::operators::window_reduce::THIN_OUT_ROWS;
use crate::operators::{Context, Flow, InputIndex, Operator, Output};
use crate::state::HashMapStateBackend;
use crate::types::{Field, LogicalType, TypeRoot};

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("k", LogicalType::STRING),
        Field::new("v", LogicalType::INT),
        Field::new("window_end", LogicalType::nullable(TypeRoot::Timestamp(3))),
    ])
}

fn spec(rank_start: u64, rank_end: u64, output_rank: bool) -> WindowRankSpec {
    let mut output = schema();
    if output_rank {
        output.fields.push(Field::new("rn", LogicalType::BIGINT));
    }
    WindowRankSpec {
        input: schema(),
        output,
        window_end: 2,
        window_time: WindowTime::EventTimestamp,
        session_start: None,
        partition_keys: vec![0],
        order_by: vec![SortKey {
            column: 1,
            descending: true,
            nulls_first: false,
        }],
        rank_start,
        rank_end,
        output_rank,
    }
}

fn operator(spec: &WindowRankSpec) -> WindowRankOperator {
    WindowRankOperator::new(spec.clone(), &HashMapStateBackend).unwrap()
}

#[test]
fn the_first_ranks_of_each_window_and_partition_come_when_the_window_ends() {
    check(
        || operator(&spec(1, 2, true)),
        &[&schema()],
        "
            +I a, 5, 10
            +I a, 3, 10
            +I b, 1, 10
            +I a, 9, 20
            +I a, 4, 10
            -- watermark 8
            +I a, null, 10
            -- watermark 9
            +I a, 99, 10      // late
            +I b, 2, 20
            -- end
        ",
        "
            -- watermark 8
            +I a, 5, 10, 1
            +I a, 4, 10, 2
            +I b, 1, 10, 1
            -- watermark 9
            +I a, 9, 20, 1
            +I b, 2, 20, 1
            -- watermark end
            late a, 99, 10
        ",
    );
}

#[test]
fn equal_rows_rank_as_they_came_and_nulls_where_the_key_says() {
    let mut without_rank = spec(2, 3, false);
    without_rank.partition_keys.clear();
    without_rank.order_by[0].nulls_first = true;
    check(
        || operator(&without_rank),
        &[&schema()],
        "
            +I x, 7, 10
            +I y, 7, 10
            +I z, null, 10      // ranks first
            +I w, 7, 10
            -- end
        ",
        "
            +I x, 7, 10
            +I y, 7, 10
            -- watermark end
        ",
    );
}

#[test]
fn windows_fire_between_the_watermarks_that_make_them_due() {
    check(
        || operator(&spec(1, 1, false)),
        &[&schema()],
        "
            +I a, 1, 10
            +I a, 2, 20
            -- watermark 12
            +I a, 3, 10         // late by the step
            +I a, 4, 30
            -- watermark 25
        ",
        "
            +I a, 1, 10
            -- watermark 12
            +I a, 2, 20
            -- watermark 25
            late a, 3, 10
        ",
    );
}

#[test]
fn a_window_that_grows_is_thinned_out_and_gives_the_same() {
    let mut stream = String::new();
    for row in 0..3 * THIN_OUT_ROWS {
        stream += &format!("+I k{}, {}, 10\n", row % 3, (row * 7919) % 100_003);
    }
    let mut operator = operator(&spec(1, 5, true));
    let batch = crate::operators::test_bench::batch(&schema(), &stream);
    let mut ctx = Context::new(crate::operators::Subtask::SINGLE, Default::default());
    let mut out = Output::new(false);
    for offset in (0..batch.num_rows()).step_by(1000) {
        let rows = batch.slice(offset, 1000.min(batch.num_rows() - offset));
        let flow = operator.process_batch(&mut ctx, InputIndex::FIRST, rows, &mut out);
        assert_eq!(flow.unwrap(), Flow::Done);
    }
    assert!(operator.sizes[&10].rows <= THIN_OUT_ROWS);
    let (thinned, hashes) = operator.buffer.take(10).unwrap();
    let thinned_ranks = operator.reduce.rank(&thinned, &hashes, 1).unwrap();
    let values = |rows: &RecordBatch, ranked: &Ranked| {
        let rows =
            compute::take_record_batch(rows, &UInt32Array::from(ranked.rows.clone())).unwrap();
        let mut lines = crate::operators::test_bench::rows_text(&rows);
        lines.sort();
        lines
    };
    let hashes = crate::stream::KeyHashes::of(&batch.rows, &[0]).unwrap();
    let all = operator
        .reduce
        .rank(&batch.rows, hashes.values(), 1)
        .unwrap();
    assert_eq!(values(&thinned, &thinned_ranks), values(&batch.rows, &all));
}

/// The twin of a Top-N: all rows of a window, sorted by the standard library.
#[test]
fn random_streams_agree_with_a_sorted_list() {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    let mut random = SmallRng::seed_from_u64(3);
    for _ in 0..30 {
        let rows: Vec<(i64, i64)> = (0..40)
            .map(|_| (random.random_range(0..3), random.random_range(0..8)))
            .collect();
        let stream: String = rows
            .iter()
            .map(|(key, value)| format!("+I {key}, {value}, 10\n"))
            .collect();
        let mut expected = Vec::new();
        for key in 0..3 {
            let mut partition: Vec<i64> = rows
                .iter()
                .filter(|(own, _)| *own == key)
                .map(|(_, value)| *value)
                .collect();
            partition.sort_by_key(|value| std::cmp::Reverse(*value));
            let ranked = partition.iter().take(4).enumerate().skip(1);
            expected.extend(ranked.map(|(at, value)| format!("+I {key}, {value}, 10, {}", at + 1)));
        }
        expected.sort();
        for way in Way::ALL {
            let spec = spec(2, 4, true);
            let mut actual = run(
                &|| operator(&spec),
                &[&schema()],
                &format!("{stream}-- end"),
                way,
            );
            actual.retain(|line| line.starts_with("+I"));
            actual.sort();
            assert_eq!(actual, expected, "{way:?}");
        }
    }
}

#[test]
fn sessions_of_equal_end_and_unequal_start_rank_apart() {
    let mut by_start = spec(1, 1, true);
    by_start.session_start = Some(1);
    by_start.partition_keys.clear();
    check(
        || operator(&by_start),
        &[&schema()],
        "
            +I a, 1, 10
            +I b, 1, 10
            +I c, 2, 10
            -- end
        ",
        "
            +I a, 1, 10, 1
            +I c, 2, 10, 1
            -- watermark end
        ",
    );
}

#[test]
fn windows_fire_for_the_keys_that_are_there() {
    let rows = || -> RandomRows {
        Box::new(|rng: &mut SmallRng, _, time| {
            let end = ((time + rng.random_range(-20..10)).div_euclid(10) + 1) * 10;
            let (key, value) = (rng.random_range(0..6), rng.random_range(0..9));
            match key {
                0 => format!("+I null, {value}, {end}"),
                key => format!("+I k{key}, {value}, {end}"),
            }
        })
    };
    let clock = WindowTime::Processing {
        time_zone: "UTC".to_string(),
    };
    for window_time in [WindowTime::EventTimestamp, clock] {
        let spec = WindowRankSpec {
            window_time,
            ..spec(1, 2, true)
        };
        Conformance {
            name: "window Top-N",
            inputs: &[&schema()],
            rows: &rows,
            output_key: &first_cell,
            watermarks: true,
            clock: !spec.window_time.is_event_time(),
            bundles: false,
        }
        .check(|| operator(&spec));
    }
}
