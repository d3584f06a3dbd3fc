//! Joins each row with what an external table holds for its key at the moment.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, names};
use super::window_join::join_type;
use crate::connectors::TableDescriptor;
use crate::expr::Expression;
use crate::plan::logical::{LookupOutputMode, LookupRetry};
use crate::types::{ChangelogMode, JoinKind};

/// Looks each left row up in a table. Output: left columns, then the table's projected columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LookupJoinNode {
    /// INNER or LEFT.
    pub kind: JoinKind,
    /// The table; its `projection` names the columns that come out.
    pub table: TableDescriptor,
    /// What is looked up.
    pub keys: Vec<LookupKey>,
    /// What a row of the table must satisfy besides, over the left columns, then the table's projected ones.
    pub condition: Option<Expression>,
    /// Where rows wait for their answers side by side: how.
    pub asynchronous: Option<AsyncLookup>,
    /// How a key that is not found is asked for again.
    pub retry: Option<LookupRetry>,
}

/// How rows wait for their answers side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AsyncLookup {
    /// The order asked for; see [`LookupJoinNode::output_mode`].
    pub output_mode: LookupOutputMode,
    /// `table.exec.async-lookup.key-ordered-enabled`.
    pub key_ordered: bool,
    /// How long a row may wait, milliseconds.
    pub timeout_ms: u64,
    /// How many rows may wait for an answer.
    pub capacity: usize,
}

/// One equality of a lookup.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LookupKey {
    /// A physical column of the table.
    pub column: usize,
    /// What it must equal.
    pub value: LookupValue,
}

/// What a lookup compares with.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LookupValue {
    /// A column of the left input.
    Column(usize),
    /// A constant.
    Constant(Expression),
}

impl LookupJoinNode {
    /// Whether rows may wait in the operator.
    pub(crate) fn holds_rows(&self) -> bool {
        self.asynchronous.is_some() || self.retry.is_some()
    }

    /// The order in which rows come out: that in which they came in, unless another is allowed and all are inserts.
    pub fn output_mode(&self, input: &ChangelogMode) -> LookupOutputMode {
        match &self.asynchronous {
            Some(asynchronous) if input.is_insert_only() => asynchronous.output_mode,
            _ => LookupOutputMode::Ordered,
        }
    }

    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let left = scope.input();
        let keys = self.keys.iter().map(|key| {
            let column = &self.table.physical.fields[key.column].name;
            match &key.value {
                LookupValue::Column(value) => format!("{column}={}", left.fields[*value].name),
                LookupValue::Constant(value) => format!("{column}={value}"),
            }
        });
        let mut attributes = vec![
            (
                "table",
                format!("default_catalog.default_database.{}", self.table.name),
            ),
            ("joinType", join_type(self.kind)),
            ("lookup", keys.collect::<Vec<_>>().join(", ")),
        ];
        if let Some(condition) = &self.condition {
            attributes.push(("joinCondition", condition.to_string()));
        }
        attributes.push(("select", names(scope.output())));
        if let Some(asynchronous) = &self.asynchronous {
            let mode = match self.output_mode(&scope.inputs[0].changelog_mode) {
                LookupOutputMode::Ordered => "ORDERED",
                LookupOutputMode::AllowUnordered => "UNORDERED",
            };
            let AsyncLookup {
                key_ordered,
                timeout_ms,
                capacity,
                ..
            } = asynchronous;
            attributes.push((
                "async",
                format!("{mode}, KEY_ORDERED: {key_ordered}, {timeout_ms}ms, {capacity}"),
            ));
        }
        if let Some(retry) = &self.retry {
            let (delay, attempts) = (retry.fixed_delay_ms, retry.max_attempts);
            attributes.push((
                "retry",
                format!("lookup_miss, FIXED_DELAY, {delay}ms, {attempts}"),
            ));
        }
        attributes
    }
}
