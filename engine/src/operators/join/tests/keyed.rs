//! Joins of which some keys are elsewhere.

use super::random::{Table, sides, text};
use super::*;
use crate::operators::keyed_state::conformance::{Conformance, RandomRows};

/// The join key of a result, whose sides have three columns each.
fn key_of(cells: &[&str]) -> String {
    let keys = cells.iter().step_by(3);
    let known = keys.copied().find(|key| *key != "null");
    known.unwrap_or("null").to_string()
}

fn check_keyed(seeds: std::ops::Range<u64>, make: impl Fn() -> JoinSpec) {
    let spec = make();
    let by_key = spec.left.updates_by_key || spec.right.updates_by_key;
    let rows = || -> RandomRows {
        let table = |side: &JoinSide| Table {
            side: side.clone(),
            rows: Vec::new(),
            updates: !by_key,
        };
        let mut tables = [table(&spec.left), table(&spec.right)];
        Box::new(move |rng, input, _| text(&tables[input].change(rng)))
    };
    let is_keyed = !spec.null_safe.is_empty();
    let forgets = spec.left.time_to_live.is_enabled();
    let name = format!(
        "{:?} join of {:?} and {:?}, mini-batch {:?}",
        spec.kind, spec.left.identity, spec.right.identity, spec.mini_batch_rows
    );
    let suite = Conformance {
        name: &name,
        inputs: &[&schema("l"), &schema("r")],
        rows: &rows,
        output_key: &move |cells| {
            if is_keyed {
                key_of(cells)
            } else {
                String::new()
            }
        },
        watermarks: spec.mini_batch_rows.is_some(),
        clock: forgets,
        bundles: spec.mini_batch_rows.is_some(),
    };
    suite.check_seeds(seeds, || JoinOperator::new(make()).unwrap());
}

#[test]
fn keys_of_every_kind_of_join_come_and_go() {
    let mut seed = 0;
    for kind in KINDS {
        for left in sides("l") {
            for right in sides("r") {
                let variant = seed % 4;
                check_keyed(seed..seed + 1, || JoinSpec {
                    condition: (variant % 2 == 1).then(less),
                    null_safe: vec![variant > 1],
                    ..join(kind, left.clone(), right.clone())
                });
                seed += 1;
            }
        }
    }
}

#[test]
fn keys_come_and_go_between_bundles() {
    for (seed, kind) in (0..).zip(KINDS) {
        for (offset, identity) in (0..).zip([RowIdentity::WholeRow, RowIdentity::JoinKey]) {
            let seed = 100 + 10 * seed + 4 * offset;
            check_keyed(seed..seed + 4, || JoinSpec {
                mini_batch_rows: Some(5),
                ..join(
                    kind,
                    side("l", identity.clone()),
                    side("r", RowIdentity::WholeRow),
                )
            });
        }
    }
}

#[test]
fn keys_whose_rows_are_forgotten_come_and_go() {
    let forgetful = |side: JoinSide| JoinSide {
        time_to_live: TimeToLive::of_millis(100),
        ..side
    };
    for (seed, kind) in (0..).zip(KINDS) {
        for (offset, right) in (0..).zip(&sides("r")[1..]) {
            let seed = 200 + 10 * seed + offset;
            check_keyed(seed..seed + 1, || {
                let left = side("l", RowIdentity::WholeRow);
                join(kind, forgetful(left), forgetful(right.clone()))
            });
        }
    }
}

#[test]
fn a_join_without_keys_is_one_unit() {
    for kind in KINDS {
        check_keyed(0..4, || {
            let row = || RowIdentity::WholeRow;
            let (mut left, mut right) = (side("l", row()), side("r", row()));
            (left.keys, right.keys) = (vec![], vec![]);
            JoinSpec {
                null_safe: vec![],
                condition: Some(less()),
                ..join(kind, left, right)
            }
        });
    }
}

#[test]
fn a_unique_key_with_another_join_key_is_another_row() {
    checked(
        || {
            let left = side("l", RowIdentity::UniqueKey(vec![2]));
            join(JoinKind::Inner, left, side("r", RowIdentity::WholeRow))
        },
        "
            right +I 1, 7, 0
            right +I 2, 8, 0
            +I 1, 5, 9
            +U 2, 6, 9              // before the row that it replaces goes
            -U 1, 5, 9
            right +I 2, 9, 0
        ",
        "
            +I 1, 5, 9, 1, 7, 0
            +U 2, 6, 9, 2, 8, 0
            -U 1, 5, 9, 1, 7, 0
            +I 2, 6, 9, 2, 9, 0
        ",
    );
}

#[test]
fn keys_that_are_taken_out_give_their_memory_back() {
    let spec = join(
        JoinKind::Full,
        side("l", RowIdentity::UniqueKey(vec![0, 2])),
        side("r", RowIdentity::WholeRow),
    );
    let mut operator = JoinOperator::new(spec).unwrap();
    let mut ctx = Context::new(crate::operators::Subtask::SINGLE, Default::default());
    let mut out = Output::new(false);
    let mut most = 0;
    for round in 0..20 {
        let row = |row: i32| format!("+I {0}, {0}, {0}", round * 1000 + row);
        let text: Vec<String> = (0..1000).map(row).collect();
        for (input, value) in [(InputIndex::FIRST, "l"), (InputIndex::SECOND, "r")] {
            let batch = crate::operators::test_bench::batch(&schema(value), &text.join("\n"));
            let flow = operator.process_batch(&mut ctx, input, batch, &mut out);
            assert_eq!(flow.unwrap(), Flow::Done);
        }
        while out.pop().is_some() {}
        let state = operator.keyed_state().unwrap();
        let keys = state.snapshot_keyed(&ctx).unwrap().key_hashes();
        most = most.max(keys.len());
        let cold = keys.into_iter().filter(|hash| hash % 8 != 0).collect();
        state.evict_keyed(&ctx, &cold).unwrap();
    }
    assert!(most < 5000, "an eighth of 20000 keys and a round: {most}");
    let state = &operator.state;
    assert!(state.groups.len() < 10_000 && state.sides[0].slab.capacity() < 6000);
    let held = state.size_bytes();
    operator.state.clear_keyed().unwrap();
    assert!(operator.state.size_bytes() < held / 20);
}
