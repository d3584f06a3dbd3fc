//! Operators of regular joins.

use super::{Build, OperatorBuilder};
use crate::error::{Error, Result};
use crate::operators::{JoinCondition, JoinOperator, JoinSide, JoinSpec, RowIdentity};
use crate::plan::exec_node::ExecNode;
use crate::plan::nodes::JoinNode;
use crate::state::TimeToLive;
use crate::types::RowKind;

impl OperatorBuilder<'_> {
    pub(super) fn join(&self, node: &ExecNode, join: &JoinNode) -> Result<Build> {
        let sides = [
            self.join_side(node, join, 0)?,
            self.join_side(node, join, 1)?,
        ];
        let (join, output, context) = (join.clone(), node.schema.clone(), self.context);
        let mini_batch_rows = self.mini_batch_rows;
        Ok(Box::new(move |_| {
            let [left, right] = sides.clone();
            let condition = join.condition.as_ref().map(|condition| {
                JoinCondition::new(condition, &left.schema, &right.schema, &context)
            });
            Ok(Box::new(JoinOperator::new(JoinSpec {
                kind: join.kind,
                null_safe: join.keys.iter().map(|key| key.null_safe).collect(),
                condition: condition.transpose()?,
                left,
                right,
                output: output.clone(),
                mini_batch_rows,
            })?))
        }))
    }

    fn join_side(&self, node: &ExecNode, join: &JoinNode, index: usize) -> Result<JoinSide> {
        let input = self.plan.node(node.inputs[index]);
        let keys: Vec<usize> = join
            .keys
            .iter()
            .map(|key| [key.left, key.right][index])
            .collect();
        let ttl_ms = join.state_ttl_ms[index].unwrap_or(self.state_ttl_ms);
        let time_to_live = TimeToLive::of_millis(ttl_ms);
        let mode = input.changelog_mode;
        let updates_by_key =
            mode.contains(RowKind::UpdateAfter) && !mode.contains(RowKind::UpdateBefore);
        let within = |key: &Vec<usize>| key.iter().all(|column| keys.contains(column));
        let identity = match input.upsert_key() {
            Some(_) if input.upsert_keys.iter().any(within) => RowIdentity::JoinKey,
            Some(key) => RowIdentity::UniqueKey(key.to_vec()),
            None if updates_by_key => {
                return Err(Error::internal(
                    "updates by key come to a join where nothing names their rows",
                ));
            }
            None if mode.is_insert_only() && !time_to_live.is_enabled() => RowIdentity::None,
            None => RowIdentity::WholeRow,
        };
        Ok(JoinSide {
            schema: input.schema.clone(),
            keys,
            identity,
            updates_by_key,
            time_to_live,
        })
    }
}
