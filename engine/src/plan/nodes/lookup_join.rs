//! Joins each row with what an external table holds for its key at the moment.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, names};
use super::window_join::join_type;
use crate::connectors::TableDescriptor;
use crate::expr::Expression;
use crate::types::JoinKind;

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
        attributes
    }
}
