//! Every kind of join over random changelogs against nested loops over the tables that they describe.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::operators::test_bench::{batch, rows_text};
use crate::operators::{Output, Subtask};
use crate::stream::StreamElement;
use crate::types::RowKind;

pub(in crate::operators) type Row = Vec<Option<i32>>;

/// A table that changes at random, and how its changes are told.
pub(in crate::operators) struct Table {
    pub(in crate::operators) side: JoinSide,
    pub(in crate::operators) rows: Vec<Row>,
    /// Whether updates have kinds of their own.
    pub(in crate::operators) updates: bool,
}

impl Table {
    pub(in crate::operators) fn key(&self, row: &Row) -> Row {
        match &self.side.identity {
            RowIdentity::JoinKey => vec![row[0]],
            RowIdentity::UniqueKey(columns) => columns.iter().map(|c| row[*c]).collect(),
            _ => row.clone(),
        }
    }

    /// The next change or two.
    pub(in crate::operators) fn change(&mut self, rng: &mut SmallRng) -> Vec<(RowKind, Row)> {
        let key = rng.random_range(0..5);
        let is_unique = matches!(
            self.side.identity,
            RowIdentity::JoinKey | RowIdentity::UniqueKey(_)
        );
        let key = (key > 0 || is_unique).then_some(key);
        let row: Row = vec![
            key,
            Some(rng.random_range(0..6)),
            Some(rng.random_range(0..3)),
        ];
        if self.side.identity == RowIdentity::None {
            self.rows.push(row.clone());
            return vec![(RowKind::Insert, row)];
        }
        let (before, after) = match self.updates && rng.random_bool(0.5) {
            true => (RowKind::UpdateBefore, RowKind::UpdateAfter),
            false => (RowKind::Delete, RowKind::Insert),
        };
        if self.side.identity == RowIdentity::WholeRow {
            if !self.rows.is_empty() && rng.random_bool(0.45) {
                let at = rng.random_range(0..self.rows.len());
                return vec![(before, self.rows.swap_remove(at))];
            }
            self.rows.push(row.clone());
            return vec![(after, row)];
        }
        let same = |known: &Row| self.key(known) == self.key(&row);
        let Some(at) = self.rows.iter().position(same) else {
            self.rows.push(row.clone());
            return vec![(RowKind::Insert, row)];
        };
        if rng.random_bool(0.4) {
            let mut gone = self.rows.swap_remove(at);
            if self.side.updates_by_key {
                gone[1] = None;
            }
            return vec![(RowKind::Delete, gone)];
        }
        let old = std::mem::replace(&mut self.rows[at], row.clone());
        match self.side.updates_by_key {
            true => vec![(RowKind::UpdateAfter, row)],
            false => vec![(before, old), (after, row)],
        }
    }
}

/// What a join gives, by nested loops.
fn expected(spec: &JoinSpec, tables: &[Table; 2], less: bool) -> Vec<Row> {
    let pairs = |left: &Row, right: &Row| {
        let equal = left[0] == right[0] && (left[0].is_some() || spec.null_safe[0]);
        equal && (!less || matches!((left[1], right[1]), (Some(l), Some(r)) if l < r))
    };
    let nulls = || vec![None; 3];
    let (left, right) = (&tables[0].rows, &tables[1].rows);
    let mut rows = Vec::new();
    for l in left {
        let found: Vec<&Row> = right.iter().filter(|r| pairs(l, r)).collect();
        match spec.kind {
            JoinKind::Semi if !found.is_empty() => rows.push(l.clone()),
            JoinKind::Anti if found.is_empty() => rows.push(l.clone()),
            JoinKind::Semi | JoinKind::Anti => {}
            kind => {
                rows.extend(found.iter().map(|r| [l.clone(), (*r).clone()].concat()));
                if found.is_empty() && kind.keeps_left() {
                    rows.push([l.clone(), nulls()].concat());
                }
            }
        }
    }
    if spec.kind.keeps_right() {
        let alone = right.iter().filter(|r| !left.iter().any(|l| pairs(l, r)));
        rows.extend(alone.map(|r| [nulls(), r.clone()].concat()));
    }
    rows.sort();
    rows
}

/// The table that the output describes.
pub(in crate::operators) struct Result {
    pub(in crate::operators) rows: BTreeMap<Row, i64>,
    /// Whether `+U` replaces.
    pub(in crate::operators) by_key: bool,
}

impl Result {
    pub(in crate::operators) fn take(
        &mut self,
        kind: RowKind,
        row: Row,
        key: &dyn Fn(&Row) -> Row,
    ) {
        if kind == RowKind::UpdateAfter && self.by_key {
            let of_key = |known: &&Row| key(known) == key(&row);
            let other = self.rows.keys().filter(of_key).find(|known| **known != row);
            let old = other.or_else(|| self.rows.keys().find(of_key)).cloned();
            old.into_iter().for_each(|old| self.add(old, -1));
        }
        self.add(row, kind.weight());
    }

    fn add(&mut self, row: Row, weight: i64) {
        let count = self.rows.entry(row.clone()).or_default();
        *count += weight;
        assert!(*count >= 0, "{row:?} is taken back before it is given");
        if *count == 0 {
            self.rows.remove(&row);
        }
    }

    pub(in crate::operators) fn sorted(&self) -> Vec<Row> {
        let rows = self.rows.iter();
        rows.flat_map(|(row, count)| std::iter::repeat_n(row.clone(), *count as usize))
            .collect()
    }
}

pub(in crate::operators) fn cells(line: &str) -> Row {
    line.split(", ").map(|cell| cell.parse().ok()).collect()
}

pub(in crate::operators) fn text(changes: &[(RowKind, Row)]) -> String {
    let cell = |cell: &Option<i32>| cell.map_or("null".to_string(), |cell| cell.to_string());
    let line = |(kind, row): &(RowKind, Row)| {
        format!(
            "{kind} {}",
            row.iter().map(cell).collect::<Vec<_>>().join(", ")
        )
    };
    changes.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn compare(seed: u64, make: &dyn Fn() -> JoinSpec, less: bool) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let spec = make();
    let by_key = spec.left.updates_by_key || spec.right.updates_by_key;
    let table = |side: &JoinSide| Table {
        side: side.clone(),
        rows: Vec::new(),
        updates: !by_key,
    };
    let mut tables = [table(&spec.left), table(&spec.right)];
    let mut operator = JoinOperator::new(make()).unwrap();
    let mut ctx = Context::new(Subtask::SINGLE, Default::default());
    let mut out = Output::new(false).with_limit([0, 1 << 20][(seed % 2) as usize]);
    let rows = BTreeMap::new();
    let mut result = Result { rows, by_key };
    let mut bundle = BTreeMap::new();
    let has_equal_rows = [&spec.left, &spec.right]
        .iter()
        .all(|side| matches!(side.identity, RowIdentity::None | RowIdentity::WholeRow));
    for _ in 0..25 {
        let input = rng.random_range(0..2);
        let mut changes = Vec::new();
        for _ in 0..rng.random_range(1..12) {
            changes.extend(tables[input].change(&mut rng));
        }
        let rows = batch(&tables[input].side.schema, &text(&changes));
        let flow = operator.process_batch(&mut ctx, InputIndex(input), rows, &mut out);
        let mut outputs = drain(&mut operator, &mut ctx, &mut out, flow.unwrap());
        let ends_bundle = spec.mini_batch_rows.is_none() || rng.random_bool(0.4);
        if ends_bundle {
            let flow = operator.flush_bundle(&mut ctx, &mut out).unwrap();
            outputs.extend(drain(&mut operator, &mut ctx, &mut out, flow));
        }
        for (kind, row) in outputs {
            let key = |row: &Row| {
                let (left, right) = row.split_at(3);
                let mut key = tables[0].key(&left.to_vec());
                if !right.is_empty() {
                    key.extend(tables[1].key(&right.to_vec()));
                }
                key
            };
            let seen = bundle.entry(row.clone()).or_insert(kind);
            let churns = seen.is_accumulate() != kind.is_accumulate();
            let is_net = spec.mini_batch_rows == Some(usize::MAX) && !by_key;
            // Of two equal rows one may come while the other loses a partner that is there twice.
            let is_net = is_net && (!has_equal_rows || is_padded(&row));
            assert!(
                !(churns && is_net),
                "seed {seed}, {:?}, {row:?} churns",
                spec.kind
            );
            result.take(kind, row, &key);
        }
        if !ends_bundle {
            continue;
        }
        bundle.clear();
        assert_eq!(
            result.sorted(),
            expected(&spec, &tables, less),
            "seed {seed}, {:?}, {:?}, {:?} after\n{}",
            spec.kind,
            spec.left.identity,
            spec.right.identity,
            text(&changes)
        );
        if rng.random_bool(0.2) {
            let snapshot = operator.snapshot_state(&mut ctx, CheckpointId(1)).unwrap();
            operator = JoinOperator::new(make()).unwrap();
            operator.restore_state(&mut ctx, snapshot).unwrap();
        }
    }
}

fn is_padded(row: &Row) -> bool {
    row.chunks(3).any(|side| side.iter().all(Option::is_none))
}

/// All rows that an operator gives.
pub(in crate::operators) fn drain<O: Operator>(
    operator: &mut O,
    ctx: &mut Context,
    out: &mut Output,
    mut flow: Flow,
) -> Vec<(RowKind, Row)> {
    let mut rows = Vec::new();
    loop {
        while let Some(StreamElement::Batch(batch)) = out.pop() {
            let lines = rows_text(&batch.rows);
            let lines = lines.iter().enumerate();
            rows.extend(lines.map(|(row, line)| (batch.kinds.get(row), cells(line))));
        }
        if flow == Flow::Done {
            return rows;
        }
        flow = operator.resume(ctx, out).unwrap();
    }
}

pub(in crate::operators) fn sides(value: &str) -> Vec<JoinSide> {
    let unique = RowIdentity::UniqueKey(vec![0, 2]);
    vec![
        side(value, RowIdentity::None),
        side(value, RowIdentity::WholeRow),
        side(value, RowIdentity::JoinKey),
        side(value, unique.clone()),
        by_key(value, RowIdentity::JoinKey),
        by_key(value, unique),
    ]
}

#[test]
fn joins_agree_with_nested_loops() {
    let mut seed = 0;
    for kind in KINDS {
        for left in sides("l") {
            for right in sides("r") {
                for (with_condition, null_safe) in
                    [(false, false), (true, false), (false, true), (true, true)]
                {
                    let bundle = [Some(7), Some(usize::MAX)][(seed % 2) as usize];
                    for mini_batch_rows in [None, None, bundle] {
                        let make = || JoinSpec {
                            condition: with_condition.then(less),
                            null_safe: vec![null_safe],
                            mini_batch_rows,
                            ..join(kind, left.clone(), right.clone())
                        };
                        compare(seed, &make, with_condition);
                        seed += 1;
                    }
                }
            }
        }
    }
}
