//! The logical plans of a job as one graph, in which equal sub-plans are one node.
//!
//! Sharing begins here, before columns are pruned: what is asked of a shared node is the union of what its consumers ask,
//! so that pruning never makes two sub-plans differ that were equal as written.

use hashbrown::HashMap;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use super::logical::LogicalPlan;
use super::row_logic::is_shareable;
use crate::expr::Expression;
use crate::types::Schema;

/// Index of a node; inputs have smaller ones than their consumers.
pub(crate) type LogicalId = usize;

/// See the module.
pub(crate) struct LogicalGraph<'a> {
    pub(crate) nodes: Vec<LogicalNode<'a>>,
    pub(crate) roots: Vec<LogicalId>,
}

/// A distinct sub-plan.
pub(crate) struct LogicalNode<'a> {
    pub(crate) plan: &'a LogicalPlan,
    pub(crate) inputs: Vec<LogicalId>,
    pub(crate) schema: Schema,
    /// How many nodes and roots read it.
    pub(crate) consumers: usize,
}

impl<'a> LogicalGraph<'a> {
    /// The graph of several queries.
    pub(crate) fn of(queries: impl IntoIterator<Item = &'a LogicalPlan>) -> Self {
        let mut interner = Interner::default();
        let roots = queries
            .into_iter()
            .map(|query| interner.add(query).0)
            .collect();
        let mut graph = LogicalGraph {
            nodes: interner.nodes,
            roots,
        };
        graph.count_consumers();
        graph
    }

    fn count_consumers(&mut self) {
        let read: Vec<LogicalId> = self
            .nodes
            .iter()
            .flat_map(|node| node.inputs.clone())
            .chain(self.roots.clone())
            .collect();
        read.into_iter()
            .for_each(|id| self.nodes[id].consumers += 1);
    }
}

#[derive(Default)]
struct Interner<'a> {
    nodes: Vec<LogicalNode<'a>>,
    known: HashMap<&'a LogicalPlan, LogicalId, Xxh3DefaultBuilder>,
}

impl<'a> Interner<'a> {
    /// The node of a plan, and whether it may be shared.
    fn add(&mut self, plan: &'a LogicalPlan) -> (LogicalId, bool) {
        if let Some(id) = self.known.get(plan) {
            return (*id, true);
        }
        let (inputs, shared): (Vec<_>, Vec<_>) = plan
            .inputs()
            .into_iter()
            .map(|input| self.add(input))
            .unzip();
        let shareable = shared.into_iter().all(|shared| shared)
            && plan.expressions().into_iter().all(is_shareable);
        let id = self.nodes.len();
        self.nodes.push(LogicalNode {
            plan,
            inputs,
            schema: plan.schema(),
            consumers: 0,
        });
        if shareable {
            self.known.insert(plan, id);
        }
        (id, shareable)
    }
}

impl LogicalPlan {
    /// The direct inputs.
    pub fn inputs(&self) -> Vec<&LogicalPlan> {
        match self {
            LogicalPlan::Scan(_) | LogicalPlan::Values(_) => vec![],
            LogicalPlan::Project(project) => vec![&project.input],
            LogicalPlan::Filter(filter) => vec![&filter.input],
            LogicalPlan::Unnest(unnest) => vec![&unnest.input],
            LogicalPlan::Union(union) => union.inputs.iter().collect(),
            LogicalPlan::WindowTableFunction(function) => vec![&function.input],
            LogicalPlan::Aggregate(aggregate) => vec![&aggregate.input],
            LogicalPlan::RowNumber(number) => vec![&number.input],
            LogicalPlan::Join(join) => vec![&join.left, &join.right],
            LogicalPlan::Over(over) => vec![&over.input],
            LogicalPlan::Match(found) => vec![&found.input],
            LogicalPlan::Sort(sort) => vec![&sort.input],
            LogicalPlan::SetOperation(operation) => vec![&operation.left, &operation.right],
        }
    }

    /// The same node with every input replaced by what `rewrite` makes of it.
    pub fn map_inputs(mut self, rewrite: &mut dyn FnMut(LogicalPlan) -> LogicalPlan) -> Self {
        let mut apply = |input: &mut LogicalPlan| {
            let old = std::mem::replace(input, LogicalPlan::Union(nothing()));
            *input = rewrite(old);
        };
        match &mut self {
            LogicalPlan::Scan(_) | LogicalPlan::Values(_) => {}
            LogicalPlan::Project(project) => apply(&mut project.input),
            LogicalPlan::Filter(filter) => apply(&mut filter.input),
            LogicalPlan::Unnest(unnest) => apply(&mut unnest.input),
            LogicalPlan::Union(union) => union.inputs.iter_mut().for_each(apply),
            LogicalPlan::WindowTableFunction(function) => apply(&mut function.input),
            LogicalPlan::Aggregate(aggregate) => apply(&mut aggregate.input),
            LogicalPlan::RowNumber(number) => apply(&mut number.input),
            LogicalPlan::Join(join) => {
                apply(&mut join.left);
                apply(&mut join.right);
            }
            LogicalPlan::Over(over) => apply(&mut over.input),
            LogicalPlan::Match(found) => apply(&mut found.input),
            LogicalPlan::Sort(sort) => apply(&mut sort.input),
            LogicalPlan::SetOperation(operation) => {
                apply(&mut operation.left);
                apply(&mut operation.right);
            }
        }
        self
    }

    /// The node's own expressions.
    pub fn expressions(&self) -> Vec<&Expression> {
        match self {
            LogicalPlan::Values(values) => values.rows.iter().flatten().collect(),
            LogicalPlan::Project(project) => project.expressions.iter().collect(),
            LogicalPlan::Filter(filter) => vec![&filter.condition],
            LogicalPlan::Unnest(unnest) => vec![&unnest.collection],
            LogicalPlan::Join(join) => vec![&join.condition],
            _ => vec![],
        }
    }

    /// The same node with its own expressions replaced by what `rewrite` makes of them.
    pub fn map_expressions(mut self, rewrite: &mut dyn FnMut(Expression) -> Expression) -> Self {
        let mut apply = |expression: &mut Expression| {
            let old = std::mem::replace(expression, Expression::always_true());
            *expression = rewrite(old);
        };
        match &mut self {
            LogicalPlan::Values(values) => values.rows.iter_mut().flatten().for_each(apply),
            LogicalPlan::Project(project) => project.expressions.iter_mut().for_each(apply),
            LogicalPlan::Filter(filter) => apply(&mut filter.condition),
            LogicalPlan::Unnest(unnest) => apply(&mut unnest.collection),
            LogicalPlan::Join(join) => apply(&mut join.condition),
            _ => {}
        }
        self
    }
}

fn nothing() -> super::logical::Union {
    super::logical::Union {
        inputs: vec![],
        schema: Schema::default(),
    }
}
