use super::*;
use crate::expr::{Expression, ExpressionContext, Literal, compile};
use crate::functions;
use crate::operators::test_bench::{Way, check, run};
use crate::types::{Field, LogicalType};

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("k", LogicalType::STRING),
        Field::new("v", LogicalType::BIGINT),
    ])
}

fn spec() -> ChangelogNormalizeSpec {
    ChangelogNormalizeSpec {
        schema: schema(),
        key: vec![0],
        update_before: true,
        time_to_live: TimeToLive::NEVER,
        bundle_rows: None,
        bundle_latency_ms: 0,
    }
}

fn make(spec: ChangelogNormalizeSpec) -> impl Fn() -> ChangelogNormalizeOperator {
    move || ChangelogNormalizeOperator::new(spec.clone(), None).unwrap()
}

#[test]
fn old_rows_come_back_and_repetitions_go() {
    check(
        make(spec()),
        &[&schema()],
        "
        +U a, 1      // a first update is an insert
        +U a, 1      // says nothing new
        +I b, 7      // nor does it matter what the source calls it
        +U a, 2
        -D c, null   // never seen
        -- watermark 5
        +I b, null
        -D a, null   // by key only
        -- watermark 10
        -D a, 2      // gone already
        +U a, 2
        -- end
        ",
        "
        +I a, 1
        +I b, 7
        -U a, 1
        +U a, 2
        -- watermark 5
        -U b, 7
        +U b, null
        -D a, 2
        -- watermark 10
        +I a, 2
        -- watermark end
        ",
    );
}

#[test]
fn without_need_old_rows_are_left_out_and_deletes_are_whole() {
    check(
        make(ChangelogNormalizeSpec {
            update_before: false,
            ..spec()
        }),
        &[&schema()],
        "
        +U a, 1
        -U a, 1
        +U a, 2
        -D a, null
        ",
        "
        +I a, 1
        +U a, 2
        -D a, 2
        ",
    );
}

#[test]
fn a_row_that_stops_satisfying_the_condition_is_deleted() {
    let v = Expression::column(1, "v", LogicalType::BIGINT);
    let five = Expression::literal(Literal::Integer(5), LogicalType::BIGINT);
    let condition = functions::bind_scalar(">", vec![v, five], None).unwrap();
    let context = ExpressionContext::default();
    check(
        || {
            let condition = compile(&condition, &context).unwrap();
            ChangelogNormalizeOperator::new(spec(), Some(condition)).unwrap()
        },
        &[&schema()],
        "
        +U a, 1
        +U a, 6
        +U a, 7
        +U a, 2
        +U a, null
        +U a, 6
        -D a, null
        ",
        "
        +I a, 6
        -U a, 6
        +U a, 7
        -D a, 7
        +I a, 6
        -D a, 6
        ",
    );
}

#[test]
fn with_a_time_to_live_repetitions_refresh_and_what_is_old_is_forgotten() {
    check(
        make(ChangelogNormalizeSpec {
            time_to_live: TimeToLive::of_millis(1000),
            ..spec()
        }),
        &[&schema()],
        "
        +U a, 1
        -- clock 900
        +U a, 1
        -- clock 1800
        +U a, 2
        -- clock 2800
        -D a, 2
        +U a, 3
        ",
        "
        +I a, 1
        -U a, 1
        +U a, 1
        -U a, 1
        +U a, 2
        +I a, 3
        ",
    );
}

#[test]
fn a_bundle_gives_the_net_change_of_each_key() {
    let stream = "
        +U a, 1
        +U a, 2
        +U b, 1
        -D b, 1
        -- watermark 5
        +U a, 3
        +U a, 2
        +U c, 1
        -- end
    ";
    let spec = ChangelogNormalizeSpec {
        bundle_rows: Some(100),
        ..spec()
    };
    let actual = run(&make(spec), &[&schema()], stream, Way::SizeOne);
    assert_eq!(
        actual,
        ["+I a, 2", "-- watermark 5", "+I c, 1", "-- watermark end"]
    );
}

#[test]
fn a_full_bundle_does_not_wait() {
    let spec = ChangelogNormalizeSpec {
        bundle_rows: Some(2),
        bundle_latency_ms: 50,
        ..spec()
    };
    let stream = "
        +U a, 1
        +U a, 2
        +U b, 3
        -- clock 49
        +U b, 4
        -- clock 60
        +U c, 5
        -- clock 110
    ";
    let actual = run(&make(spec), &[&schema()], stream, Way::SizeOne);
    assert_eq!(actual, ["+I a, 2", "+I b, 4", "+I c, 5"]);
}

#[test]
fn keys_come_and_go() {
    use crate::operators::keyed_state::conformance::{Conformance, RandomRows, first_cell};
    use rand::Rng;
    let rows = || -> RandomRows {
        Box::new(|rng, _, _| {
            let key = ["a", "b", "c", "d", "null"][rng.random_range(0..5)];
            let kind = ["+I", "+U", "+U", "-U", "-D"][rng.random_range(0..5)];
            format!("{kind} {key}, {}", rng.random_range(0..3))
        })
    };
    for (bundle_rows, ttl_ms) in [(None, 0), (None, 100), (Some(5), 0)] {
        let spec = ChangelogNormalizeSpec {
            bundle_rows,
            time_to_live: TimeToLive::of_millis(ttl_ms),
            ..spec()
        };
        let suite = Conformance {
            name: &format!("normalization in bundles of {bundle_rows:?}, for {ttl_ms} ms"),
            inputs: &[&schema()],
            rows: &rows,
            output_key: &first_cell,
            watermarks: true,
            clock: ttl_ms > 0,
            bundles: bundle_rows.is_some(),
        };
        suite.check_seeds(0..20, make(spec));
    }
}
