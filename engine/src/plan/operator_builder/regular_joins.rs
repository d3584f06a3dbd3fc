//! Operators of regular joins.

use super::{Build, OperatorBuilder};
use crate::error::{Error, Result};
use crate::operators::{
    JoinCondition, JoinOperator, JoinSide, JoinSpec, MultiJoinLevel, MultiJoinOperator,
    MultiJoinSpec, RowIdentity,
};
use crate::plan::exec_node::{ExecNode, NodeId};
use crate::plan::nodes::{JoinNode, MultiJoinNode};
use crate::state::TimeToLive;
use crate::types::{JoinKind, RowKind, Schema};

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
        let keys = join.keys.iter();
        let keys = keys.map(|key| [key.left, key.right][index]).collect();
        self.joined_input(node.inputs[index], keys, join.state_ttl_ms[index])
    }

    pub(super) fn multi_join(&self, node: &ExecNode, join: &MultiJoinNode) -> Result<Build> {
        let sides = node.inputs.iter().zip(&join.inputs);
        let sides: Vec<JoinSide> = sides
            .map(|(id, input)| self.joined_input(*id, input.keys.clone(), input.state_ttl_ms))
            .collect::<Result<_>>()?;
        let (join, output, context) = (join.clone(), node.schema.clone(), self.context);
        Ok(Box::new(move |_| {
            let mut width = sides[0].schema.len();
            let mut levels = Vec::with_capacity(join.levels.len());
            for (level, side) in join.levels.iter().zip(&sides[1..]) {
                let before = Schema::new(output.fields[..width].to_vec());
                let condition = level.condition.as_ref();
                let condition = condition.map(|condition| {
                    JoinCondition::new(condition, &before, &side.schema, &context)
                });
                levels.push(MultiJoinLevel {
                    is_left: level.kind == JoinKind::Left,
                    joined_to: level.joined_to.clone(),
                    condition: condition.transpose()?,
                });
                width += side.schema.len();
            }
            Ok(Box::new(MultiJoinOperator::new(MultiJoinSpec {
                inputs: sides.clone(),
                levels,
                output: output.clone(),
            })?))
        }))
    }

    /// An input of a regular join, dealt by `keys`.
    fn joined_input(
        &self,
        input: NodeId,
        keys: Vec<usize>,
        state_ttl_ms: Option<u64>,
    ) -> Result<JoinSide> {
        let input = self.plan.node(input);
        let time_to_live = TimeToLive::of_millis(state_ttl_ms.unwrap_or(self.state_ttl_ms));
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
