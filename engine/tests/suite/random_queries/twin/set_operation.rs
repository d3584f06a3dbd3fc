//! INTERSECT and EXCEPT: equal rows counted on both sides.

use std::collections::BTreeMap;

use volley::plan::logical::{SetOperation, SetOperationKind};

use super::{Ordered, Row};

pub(super) fn set_operation(node: &SetOperation, left: Vec<Row>, right: Vec<Row>) -> Vec<Row> {
    let (left, right) = (counts(left), counts(right));
    let mut result = Vec::new();
    for (row, here) in left {
        let there = right.get(&row).copied().unwrap_or(0);
        let copies = match (node.kind, node.all) {
            (SetOperationKind::Intersect, true) => here.min(there),
            (SetOperationKind::Intersect, false) => usize::from(there > 0),
            (SetOperationKind::Except, true) => here.saturating_sub(there),
            (SetOperationKind::Except, false) => usize::from(there == 0),
        };
        result.extend(std::iter::repeat_n(row.0, copies));
    }
    result
}

fn counts(rows: Vec<Row>) -> BTreeMap<Ordered, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(Ordered(row)).or_default() += 1;
    }
    counts
}
