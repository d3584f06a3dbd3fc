use super::*;
use crate::operators::Subtask;
use crate::operators::test_bench::{Way, batch, check, run};
use crate::types::{Field, LogicalType};

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("user", LogicalType::STRING),
        Field::new("city", LogicalType::STRING),
        Field::new("tag", LogicalType::INT),
    ])
}

fn spec(on_conflict: OnConflict) -> SinkUpsertMaterializerSpec {
    SinkUpsertMaterializerSpec {
        table: "cities".to_string(),
        schema: schema(),
        primary_key: vec![1],
        upsert_key: vec![0],
        on_conflict,
        compacts_at_checkpoints: false,
        time_to_live: TimeToLive::NEVER,
    }
}

fn make(spec: SinkUpsertMaterializerSpec) -> impl Fn() -> SinkUpsertMaterializerOperator {
    move || SinkUpsertMaterializerOperator::new(spec.clone()).unwrap()
}

#[test]
fn the_row_before_comes_back_when_the_last_one_goes() {
    check(
        make(spec(OnConflict::Deduplicate)),
        &[&schema()],
        "
        +I u1, Rome, 1
        +I u2, Rome, 2
        -- watermark 5
        -D u2, Rome, 9     // found by its key, whatever else is in it
        +I u3, Rome, 3
        -U u1, Rome, 1     // not the last: nothing to see
        +U u1, Oslo, 1
        -D u7, Oslo, 1     // unknown
        +U u1, Oslo, 4
        -D u3, Rome, 3
        ",
        "
        +I u1, Rome, 1
        +U u2, Rome, 2
        -- watermark 5
        +U u1, Rome, 1
        +U u3, Rome, 3
        +I u1, Oslo, 1
        +U u1, Oslo, 4
        -D u3, Rome, 3
        ",
    );
}

#[test]
fn without_a_key_equal_rows_are_counted_and_the_oldest_goes_first() {
    check(
        make(SinkUpsertMaterializerSpec {
            upsert_key: vec![],
            ..spec(OnConflict::Deduplicate)
        }),
        &[&schema()],
        "
        +I a, Rome, null
        +I b, Rome, 1
        +I a, Rome, null
        -D a, Rome, null
        -D a, Rome, null
        -D a, Rome, null
        -D b, Rome, 2
        -D b, Rome, 1
        ",
        "
        +I a, Rome, null
        +U b, Rome, 1
        +U a, Rome, null
        +U b, Rome, 1
        -D b, Rome, 1
        ",
    );
}

#[test]
fn the_first_row_stays_and_the_others_are_refused() {
    check(
        make(spec(OnConflict::Nothing)),
        &[&schema()],
        "
        +I u1, Rome, 1
        +I u2, Rome, 2
        -- watermark 5
        -U u1, Rome, 1
        +U u1, Rome, 3
        +I u4, Oslo, 4
        -D u4, Oslo, 4
        -- watermark 6
        -D u2, Rome, 2
        -- watermark 7
        -D u1, Rome, 3
        +I u5, Rome, 5
        -- watermark 8
        -D u5, Rome, 5
        -- end
        ",
        "
        +I u1, Rome, 1
        -- watermark 5
        +U u1, Rome, 3
        -- watermark 7
        +U u5, Rome, 5
        -- watermark 8
        -D u5, Rome, 5
        -- watermark end
        ",
    );
}

#[test]
fn two_rows_of_one_key_fail_unless_one_is_gone_in_time() {
    let fine = "
        +I u2, Rome, 2     // comes before the one that it replaces is taken back
        -D u1, Rome, 1
        +I u1, Rome, 1
        -D u1, Rome, 1
        -- watermark 5
    ";
    let operator = make(spec(OnConflict::Error));
    let actual = run(&operator, &[&schema()], fine, Way::Whole);
    assert_eq!(actual, ["+I u2, Rome, 2", "-- watermark 5"]);
    let mut ctx = Context::new(Subtask::SINGLE, Default::default());
    let mut out = Output::new(false);
    let mut operator = operator();
    let rows = batch(&schema(), "+I u1, Rome, 1\n+I u2, Rome, 2");
    let flow = operator.process_batch(&mut ctx, InputIndex::FIRST, rows, &mut out);
    assert_eq!(flow.unwrap(), Flow::Done);
    ctx.advance_watermark(EventTime(1));
    let error = operator
        .process_watermark(&mut ctx, EventTime(1), &mut out)
        .unwrap_err();
    assert_eq!(
        error.message(),
        "INSERT INTO \"cities\" ON CONFLICT DO ERROR: two rows have the primary key (city=Rome): (user=u1, city=Rome, tag=1) and \
         (user=u2, city=Rome, tag=2)"
    );
}

#[test]
fn what_is_older_than_its_time_to_live_does_not_come_back() {
    check(
        make(SinkUpsertMaterializerSpec {
            time_to_live: TimeToLive::of_millis(1000),
            ..spec(OnConflict::Deduplicate)
        }),
        &[&schema()],
        "
        +I u1, Rome, 1
        -- clock 900
        +I u2, Rome, 2
        -- clock 1800
        -D u2, Rome, 2
        -- clock 2800
        -D u1, Rome, 1
        +I u3, Rome, 3
        ",
        "
        +I u1, Rome, 1
        +U u2, Rome, 2
        +U u1, Rome, 1
        +I u3, Rome, 3
        ",
    );
}

/// A list, scanned: what the linked rows must agree with.
#[derive(Default)]
struct Scanned(std::collections::BTreeMap<u64, Vec<(u64, u64)>>);

impl Scanned {
    fn apply(&mut self, adds: bool, city: u64, user: u64, tag: u64) -> Option<String> {
        let rows = self.0.entry(city).or_default();
        let at = rows.iter().position(|(known, _)| *known == user);
        let line =
            |kind: &str, (user, tag): (u64, u64)| Some(format!("{kind} {user}, {city}, {tag}"));
        if adds {
            let kind = if rows.is_empty() { "+I" } else { "+U" };
            at.map(|at| rows.remove(at));
            rows.push((user, tag));
            return line(kind, (user, tag));
        }
        let at = at?;
        let was_last = at + 1 == rows.len();
        let removed = rows.remove(at);
        match rows.last() {
            None => line("-D", removed),
            Some(last) if was_last => line("+U", *last),
            _ => None,
        }
    }
}

#[test]
fn random_changes_agree_with_a_scanned_list() {
    let mut state = 7u64;
    let mut number = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let (mut stream, mut expected) = (String::new(), String::new());
    let mut scanned = Scanned::default();
    for tag in 0..600 {
        let (adds, city, user) = (number(2) == 0, number(3), number(5));
        let kind = if adds { "+I" } else { "-D" };
        stream.push_str(&format!("{kind} {user}, {city}, {tag}\n"));
        if let Some(line) = scanned.apply(adds, city, user, tag) {
            expected.push_str(&line);
            expected.push('\n');
        }
    }
    check(
        make(spec(OnConflict::Deduplicate)),
        &[&schema()],
        &stream,
        &expected,
    );
}

#[test]
fn keys_come_and_go() {
    use crate::operators::keyed_state::conformance::{Conformance, RandomRows};
    use rand::Rng;
    // Each user has one city at a time, and each change of it takes the former back: before or after.
    let rows = || -> RandomRows {
        let mut cities = [None; 6];
        Box::new(move |rng, _, _| {
            let user = rng.random_range(0..cities.len());
            let city = ["Rome", "Oslo", "Bern", "null"][rng.random_range(0..4)];
            let former: Option<&str> = cities[user].replace(city);
            let tag = rng.random_range(0..2);
            let comes = format!("+U u{user}, {city}, {tag}");
            let goes = former.map(|former| format!("-U u{user}, {former}, {tag}"));
            match (goes, rng.random_bool(0.5)) {
                (None, _) => comes,
                (Some(goes), _) if rng.random_bool(0.3) => {
                    cities[user] = None;
                    goes
                }
                (Some(goes), true) => format!("{goes}\n{comes}"),
                (Some(goes), false) if former != Some(city) => format!("{comes}\n{goes}"),
                (Some(goes), false) => format!("{goes}\n{comes}"),
            }
        })
    };
    let mut seed = 0;
    for on_conflict in [OnConflict::Deduplicate, OnConflict::Nothing] {
        for upsert_key in [vec![0], vec![]] {
            for ttl_ms in [0, 100] {
                let spec = SinkUpsertMaterializerSpec {
                    upsert_key: upsert_key.clone(),
                    time_to_live: TimeToLive::of_millis(ttl_ms),
                    ..spec(on_conflict)
                };
                let suite = Conformance {
                    name: &format!("{on_conflict:?} by {upsert_key:?}, for {ttl_ms} ms"),
                    inputs: &[&schema()],
                    rows: &rows,
                    output_key: &|cells| cells[1].to_string(),
                    watermarks: true,
                    clock: ttl_ms > 0,
                    bundles: false,
                };
                suite.check_seeds(seed..seed + 15, make(spec));
                seed += 15;
            }
        }
    }
}

#[test]
fn what_is_decided_at_checkpoints_stays() {
    let at_checkpoints = |on_conflict| {
        let spec = SinkUpsertMaterializerSpec {
            compacts_at_checkpoints: true,
            ..spec(on_conflict)
        };
        make(spec)().keyed_state().is_none()
    };
    assert!(at_checkpoints(OnConflict::Nothing));
    assert!(!at_checkpoints(OnConflict::Deduplicate));
}
