//! Joins: every left row with every right row.

use volley::plan::logical::{Join, JoinKind};
use volley::testing::cell::Value;

use super::expression::Evaluator;
use super::{MOST_ROWS, Row, Unclear};

/// How many pairs a twin looks at.
const MOST_PAIRS: usize = 20_000;

pub(super) fn join(node: &Join, left: Vec<Row>, right: Vec<Row>) -> Result<Vec<Row>, Unclear> {
    if node.as_of.is_some() {
        return Err(Unclear::Unknown("FOR SYSTEM_TIME AS OF"));
    }
    if left.len() * right.len() > MOST_PAIRS {
        return Err(Unclear::TooLarge);
    }
    let both = node.left.schema().join(&node.right.schema());
    let condition = Evaluator::new(&node.condition, &both);
    let nulls = |side: &volley::plan::logical::LogicalPlan| vec![Value::Null; side.schema().len()];
    let mut has_pair = vec![false; right.len()];
    let mut rows = Vec::new();
    for left in &left {
        let pairs: Vec<Row> = right
            .iter()
            .map(|right| [&left[..], right].concat())
            .collect();
        let matches = condition.are_true(&pairs.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let is_matched = matches.contains(&true);
        for (at, pair) in pairs.into_iter().enumerate().filter(|(at, _)| matches[*at]) {
            has_pair[at] = true;
            if !node.kind.is_left_only() {
                rows.push(pair);
            }
        }
        match node.kind {
            JoinKind::Semi if is_matched => rows.push(left.clone()),
            JoinKind::Anti if !is_matched => rows.push(left.clone()),
            kind if kind.keeps_left() && !is_matched => {
                rows.push([&left[..], &nulls(&node.right)].concat());
            }
            _ => {}
        }
        if rows.len() > MOST_ROWS {
            return Err(Unclear::TooLarge);
        }
    }
    if node.kind.keeps_right() {
        let alone = right.iter().enumerate().filter(|(at, _)| !has_pair[*at]);
        rows.extend(alone.map(|(_, right)| [&nulls(&node.left)[..], right].concat()));
    }
    Ok(rows)
}
