//! Makes one node of a chain of INNER and LEFT joins on a common key, where the option or a hint asks for it.
//!
//! The chain grows from left to right: a join whose left input is a regular join, or a chain already, becomes its last level
//! if some of its equalities are on the chain's key. Equalities that are not become conditions.

use crate::error::Result;
use crate::expr::Expression;
use crate::plan::exec_node::{ExecNodeKind, NodeId};
use crate::plan::logical::Join;
use crate::plan::logical_graph::LogicalId;
use crate::plan::nodes::{JoinKey, JoinNode, MultiJoinInput, MultiJoinLevel, MultiJoinNode};
use crate::plan::physical::Planner;
use crate::plan::relation::{Packed, Pending, Relation, column_of};
use crate::plan::row_logic::{bare_column, conjunction, reindex, substitute};
use crate::types::{JoinKind, LogicalType, Schema};

use super::join::JoinInputs;
use super::join_conditions::Equality;

/// Joins that are one node already, or could be.
pub(super) struct Chain {
    node: MultiJoinNode,
    /// What is joined, not yet dealt by the common key.
    inputs: Vec<NodeId>,
    /// The columns of all inputs.
    schema: Schema,
}

/// The equalities of one more join.
struct Links {
    /// For each column of the chain's key the equality on it.
    of_key: Vec<Option<usize>>,
    /// The inputs whose columns they name.
    joined_to: Vec<usize>,
    /// The other equalities.
    others: Vec<usize>,
}

impl Planner<'_> {
    /// The chain that `join` can be the next level of.
    pub(super) fn chain(&self, join: &Join, inputs: &JoinInputs) -> Option<Chain> {
        let is_wanted =
            join.multi_join || self.config.boolean("table.optimizer.multi-join.enabled");
        let is_plain = is_chained(join.kind) && join.state_ttl_ms[0].is_none();
        if !is_wanted || !is_plain {
            return None;
        }
        let left = &inputs.left;
        let is_bare = |column: &Expression| bare_column(column).is_some();
        let passes = left.condition.is_none()
            && matches!(left.pending, Pending::Nothing)
            && left.columns.iter().flatten().all(is_bare);
        if !passes {
            return None;
        }
        let base = self.builder.node(left.base);
        let node = match &base.kind {
            ExecNodeKind::Join(first) => chain_of_two(first)?,
            ExecNodeKind::MultiJoin(chain) => chain.clone(),
            _ => return None,
        };
        let chain = Chain {
            node,
            inputs: base
                .inputs
                .iter()
                .map(|input| self.before_exchange(*input))
                .collect(),
            schema: base.schema.clone(),
        };
        let is_first = chain.node.inputs.len() == 2;
        let links = self.links(&chain, left, &inputs.conditions.equalities);
        let linked = links.of_key.iter().flatten().count();
        // In a longer chain nobody knows any more which inputs a column of the key was compared with.
        let is_common = linked == links.of_key.len() || (is_first && linked > 0);
        is_common.then_some(chain)
    }

    fn width(&self, node: NodeId) -> usize {
        self.builder.node(node).schema.len()
    }

    fn before_exchange(&self, id: NodeId) -> NodeId {
        let node = self.builder.node(id);
        match node.kind {
            ExecNodeKind::Exchange(_) => node.inputs[0],
            _ => id,
        }
    }

    /// Which input a column of the chain is of, and the first column of that.
    fn input_of(&self, chain: &Chain, column: usize) -> (usize, usize) {
        let mut first = 0;
        for (index, input) in chain.inputs.iter().enumerate() {
            let width = self.width(*input);
            if column < first + width {
                return (index, first);
            }
            first += width;
        }
        unreachable!("a column of a chain is one of its inputs'")
    }

    fn links(&self, chain: &Chain, left: &Relation, equalities: &[Equality]) -> Links {
        let keys = chain.node.inputs[0].keys.len();
        let mut links = Links {
            of_key: vec![None; keys],
            joined_to: Vec::new(),
            others: Vec::new(),
        };
        for (index, equality) in equalities.iter().enumerate() {
            let column = bare_column(&left.lower(&equality.left)).filter(|_| !equality.null_safe);
            let place = column.and_then(|column| {
                let (input, first) = self.input_of(chain, column);
                let mut own = chain.node.inputs[input].keys.iter();
                Some((input, own.position(|key| first + key == column)?))
            });
            match place {
                Some((input, key)) if links.takes(key, equality, equalities) => {
                    links.of_key[key].get_or_insert(index);
                    links.joined_to.push(input);
                }
                _ => links.others.push(index),
            }
        }
        links.joined_to.sort_unstable();
        links.joined_to.dedup();
        links
    }

    /// The chain with `join` as its last level.
    pub(super) fn multi_join(
        &mut self,
        id: LogicalId,
        join: &Join,
        inputs: JoinInputs,
        chain: Chain,
    ) -> Result<Relation> {
        let equalities = &inputs.conditions.equalities;
        let links = self.links(&chain, &inputs.left, equalities);
        let mut chain = self.narrowed(chain, &links);
        let linked: Vec<usize> = links.of_key.iter().flatten().copied().collect();
        let keys = linked.iter().map(|index| &equalities[*index].right);
        let (right, keys) = self.side(inputs.right, keys)?;
        let left_width = inputs.conditions.left_width;
        let others = links.others.iter().map(|index| &equalities[*index]);
        let others = others.map(|other| equality(other, left_width));
        let condition = conjunction(others.chain(inputs.conditions.residual()));
        let condition =
            condition.map(|part| self.over_chain(&part, &chain, &inputs.left, &right, left_width));
        chain.node.inputs.push(MultiJoinInput {
            keys,
            state_ttl_ms: join.state_ttl_ms[1],
        });
        chain.node.levels.push(MultiJoinLevel {
            kind: join.kind,
            joined_to: links.joined_to,
            condition,
        });
        let width = chain.schema.len();
        chain.schema = chain
            .schema
            .join(&self.joined_schema(join.kind, right.node));
        chain.inputs.push(right.node);
        let required = self.required(id).to_vec();
        let schema = self.schema(id).clone();
        let base = self.add_chain(chain);
        let output = &self.builder.node(base).schema;
        let column = |column: usize| {
            let at = match column < left_width {
                true => inputs.left.bare(column)?,
                false => width + right.positions[column - left_width]?,
            };
            required.contains(&column).then(|| column_of(output, at))
        };
        Ok(Relation {
            base,
            columns: (0..schema.len()).map(column).collect(),
            schema,
            condition: None,
            pending: Pending::Nothing,
        })
    }

    fn add_chain(&mut self, chain: Chain) -> NodeId {
        let keys = chain.node.inputs.iter().map(|input| input.keys.clone());
        let inputs = chain.inputs.iter().zip(keys.collect::<Vec<_>>());
        let inputs = inputs
            .map(|(input, keys)| self.builder.distribute(*input, &keys))
            .collect();
        let kind = ExecNodeKind::MultiJoin(chain.node);
        self.builder.add(kind, inputs, chain.schema)
    }

    /// The right input's columns, without time, nullable where they may be padded.
    fn joined_schema(&self, kind: JoinKind, node: NodeId) -> Schema {
        let mut schema = self.builder.node(node).schema.clone();
        for field in &mut schema.fields {
            field.logical_type.nullable |= kind == JoinKind::Left;
            field.time_attribute = None;
        }
        schema
    }

    /// The chain whose key is only what the next join is on, too; the first join's other equalities become its condition.
    fn narrowed(&self, mut chain: Chain, links: &Links) -> Chain {
        if links.of_key.iter().all(Option::is_some) {
            return chain;
        }
        let width = self.width(chain.inputs[0]);
        let dropped: Vec<Expression> = (0..links.of_key.len())
            .filter(|key| links.of_key[*key].is_none())
            .map(|key| {
                let [left, right] = [0, 1].map(|input| chain.node.inputs[input].keys[key]);
                let sides = vec![
                    column_of(&chain.schema, left),
                    column_of(&chain.schema, width + right),
                ];
                Expression::call("=", sides, LogicalType::BOOLEAN)
            })
            .collect();
        let level = &mut chain.node.levels[0];
        level.condition = conjunction(dropped.into_iter().chain(level.condition.take()));
        for input in &mut chain.node.inputs {
            let kept = input.keys.iter().zip(&links.of_key);
            let kept = kept.filter(|(_, link)| link.is_some());
            input.keys = kept.map(|(key, _)| *key).collect();
        }
        chain
    }

    /// A condition over the logical columns as one over the chain's columns, then the right node's.
    fn over_chain(
        &self,
        condition: &Expression,
        chain: &Chain,
        left: &Relation,
        right: &Packed,
        left_width: usize,
    ) -> Expression {
        let width = chain.schema.len();
        let schema = &self.builder.node(right.node).schema;
        substitute(condition, &|column| match column < left_width {
            true => left.column(column).clone(),
            false => {
                let own = column_of(schema, right.at(column - left_width));
                reindex(&own, &|at| width + at)
            }
        })
    }
}

impl Links {
    /// Whether an equality on a column of the key is the first one, or compares with the same right value as that.
    fn takes(&self, key: usize, equality: &Equality, equalities: &[Equality]) -> bool {
        let first = self.of_key[key].map(|first| &equalities[first]);
        first.is_none_or(|first| first.right == equality.right)
    }
}

fn is_chained(kind: JoinKind) -> bool {
    matches!(kind, JoinKind::Inner | JoinKind::Left)
}

/// An equality as a condition over the left columns, then the right ones.
fn equality(equality: &Equality, left_width: usize) -> Expression {
    let function = match equality.null_safe {
        true => "IS NOT DISTINCT FROM",
        false => "=",
    };
    let right = reindex(&equality.right, &|column| left_width + column);
    let sides = vec![equality.left.clone(), right];
    Expression::call(function, sides, LogicalType::BOOLEAN)
}

/// A regular join as a chain; `None` where it has no key, or one in which NULL equals NULL.
fn chain_of_two(join: &JoinNode) -> Option<MultiJoinNode> {
    let is_plain = |key: &JoinKey| !key.null_safe;
    if !is_chained(join.kind) || join.keys.is_empty() || !join.keys.iter().all(is_plain) {
        return None;
    }
    let input = |keys: Vec<usize>, side: usize| MultiJoinInput {
        keys,
        state_ttl_ms: join.state_ttl_ms[side],
    };
    Some(MultiJoinNode {
        inputs: vec![
            input(join.keys.iter().map(|key| key.left).collect(), 0),
            input(join.keys.iter().map(|key| key.right).collect(), 1),
        ],
        levels: vec![MultiJoinLevel {
            kind: join.kind,
            joined_to: vec![0],
            condition: join.condition.clone(),
        }],
    })
}
