//! From logical plans to exec nodes: each logical node becomes a relation over nodes, inputs first.

use std::sync::Arc;

use super::changelog_inference::infer_changelog_modes;
use super::exec_node::{ExecNodeKind, ExecPlan, NodeId};
use super::graph_builder::GraphBuilder;
use super::logical::{
    Filter, LogicalPlan, Project, Scan, Statement, TableSpec, Union, Unnest, Values,
};
use super::logical_graph::{LogicalGraph, LogicalId};
use super::node_uid::assign_uids;
use super::nodes::*;
use super::relation::{Pending, Relation};
use super::row_logic::occurrences;
use super::rules;
use crate::config::SessionConfig;
use crate::connectors::ConnectorRegistry;
use crate::error::Result;
use crate::expr::Position;
use crate::types::Schema;

/// Plans a statement: chooses the nodes, shares what is equal, checks changelog modes. `late_rows_table` is the table
/// that `volley.late-rows.sink` names. Refused with its place in the SQL text: whatever cannot run.
pub fn plan_statement(
    statement: &Statement,
    config: &SessionConfig,
    connectors: &ConnectorRegistry,
    late_rows_table: Option<Arc<TableSpec>>,
) -> Result<ExecPlan> {
    config.check_mini_batch()?;
    let queries: Vec<LogicalPlan> = queries(statement)
        .into_iter()
        .map(|query| rules::rewrite_tree(query.clone()))
        .collect();
    let graph = LogicalGraph::of(&queries);
    let mut planner = Planner::new(&graph, config, connectors);
    let roots = planner.sinks(statement)?;
    let late_rows_sink = late_rows_table
        .map(|table| planner.late_rows_sink(&table))
        .transpose()?;
    let mut plan = planner.builder.finish(roots, late_rows_sink);
    rules::prune_fields(&mut plan, connectors)?;
    plan = rules::insert_mini_batch_assigners(plan, config);
    rules::mark_readers_of_watermarks(&mut plan);
    let mut plan = infer_changelog_modes(plan, &positions(statement), config)?;
    assign_uids(&mut plan);
    Ok(plan)
}

fn queries(statement: &Statement) -> Vec<&LogicalPlan> {
    match statement {
        Statement::Inserts(inserts) => inserts.iter().map(|insert| &insert.query).collect(),
        Statement::Select(query) => vec![query],
    }
}

/// Where the SQL text names the sink of each query.
fn positions(statement: &Statement) -> Vec<Position> {
    match statement {
        Statement::Inserts(inserts) => inserts.iter().map(|insert| insert.position).collect(),
        Statement::Select(_) => vec![],
    }
}

/// Plans one job.
pub(crate) struct Planner<'a> {
    pub(crate) graph: &'a LogicalGraph<'a>,
    pub(crate) config: &'a SessionConfig,
    pub(crate) connectors: &'a ConnectorRegistry,
    pub(crate) builder: GraphBuilder,
    required: Vec<Vec<usize>>,
    relations: Vec<Option<Relation>>,
}

impl<'a> Planner<'a> {
    fn new(
        graph: &'a LogicalGraph<'a>,
        config: &'a SessionConfig,
        connectors: &'a ConnectorRegistry,
    ) -> Self {
        Planner {
            graph,
            config,
            connectors,
            builder: GraphBuilder::new(config.parallelism()),
            required: rules::required_columns(graph),
            relations: vec![None; graph.nodes.len()],
        }
    }

    /// The relation of a logical node; made once.
    pub(crate) fn relation(&mut self, id: LogicalId) -> Result<Relation> {
        if let Some(relation) = &self.relations[id] {
            return Ok(relation.clone());
        }
        let relation = self.translate(id)?;
        self.relations[id] = Some(relation.clone());
        Ok(relation)
    }

    /// The relation of an input of a logical node.
    pub(crate) fn input(&mut self, id: LogicalId, position: usize) -> Result<Relation> {
        self.relation(self.graph.nodes[id].inputs[position])
    }

    /// The columns of a logical node that somebody reads, sorted.
    pub(crate) fn required(&self, id: LogicalId) -> &[usize] {
        &self.required[id]
    }

    /// The columns of a logical node.
    pub(crate) fn schema(&self, id: LogicalId) -> &Schema {
        &self.graph.nodes[id].schema
    }

    fn translate(&mut self, id: LogicalId) -> Result<Relation> {
        match self.graph.nodes[id].plan {
            LogicalPlan::Scan(scan) => self.scan(id, scan),
            LogicalPlan::Values(values) => Ok(self.values(id, values)),
            LogicalPlan::Project(project) => self.project(id, project),
            LogicalPlan::Filter(filter) => self.filter(id, filter),
            LogicalPlan::Unnest(unnest) => self.unnest(id, unnest),
            LogicalPlan::Union(union) => self.union(id, union),
            LogicalPlan::WindowTableFunction(function) => self.window_function(id, function),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(id, aggregate),
            LogicalPlan::RowNumber(number) => self.row_number(id, number),
            LogicalPlan::Join(join) => self.join(id, join),
            LogicalPlan::Over(over) => self.over(id, over),
            LogicalPlan::Match(found) => self.match_recognize(id, found),
            LogicalPlan::Sort(sort) => self.sort(id, sort),
            LogicalPlan::SetOperation(operation) => Err(crate::error::Error::unsupported(format!(
                "{:?}",
                operation.kind
            ))
            .at(operation.position.0)),
        }
    }

    fn scan(&mut self, id: LogicalId, scan: &Scan) -> Result<Relation> {
        let required = self.required(id).to_vec();
        let relation = self.source(&scan.table, scan.position, &required)?;
        self.settled_if_shared(id, relation)
    }

    fn values(&mut self, id: LogicalId, values: &Values) -> Relation {
        let required = self.required(id).to_vec();
        let kind = ExecNodeKind::Values(ValuesNode {
            rows: values
                .rows
                .iter()
                .map(|row| required.iter().map(|column| row[*column].clone()).collect())
                .collect(),
        });
        let node = self
            .builder
            .add(kind, vec![], values.schema.project(&required));
        self.spread(id, node)
    }

    /// The relation of a node that has just the required columns of a logical node.
    pub(crate) fn spread(&self, id: LogicalId, node: NodeId) -> Relation {
        let mut relation = Relation::of_node(&self.builder, node);
        let mut columns = vec![None; self.schema(id).len()];
        for (position, column) in self.required(id).iter().enumerate() {
            columns[*column] = relation.columns[position].take();
        }
        relation.columns = columns;
        relation.schema = self.schema(id).clone();
        relation
    }

    fn project(&mut self, id: LogicalId, project: &Project) -> Result<Relation> {
        let required = self.required(id).to_vec();
        let expressions = |column: usize| &project.expressions[column];
        let uses = |read: usize| {
            required
                .iter()
                .map(|column| occurrences(expressions(*column), read))
                .sum()
        };
        let input = self.input(id, 0)?.settle_for(&mut self.builder, &uses)?;
        let mut columns = vec![None; project.expressions.len()];
        for column in &required {
            columns[*column] = Some(input.lower(expressions(*column)));
        }
        let relation = Relation {
            columns,
            schema: project.schema.clone(),
            ..input
        };
        self.settled_if_shared(id, relation)
    }

    fn filter(&mut self, id: LogicalId, filter: &Filter) -> Result<Relation> {
        let required = self.required(id).to_vec();
        let uses = |read: usize| {
            occurrences(&filter.condition, read) + usize::from(required.contains(&read))
        };
        let input = self.input(id, 0)?.settle_for(&mut self.builder, &uses)?;
        let condition = input.lower(&filter.condition);
        let mut input = input.only(&required.into_iter().collect());
        if let Pending::Rank(rank) = input.pending.clone() {
            return self.filter_ranked(input, rank, condition);
        }
        input.and(condition);
        self.settled_if_shared(id, input)
    }

    /// Computes once what several consumers would compute each for itself.
    fn settled_if_shared(&mut self, id: LogicalId, relation: Relation) -> Result<Relation> {
        if self.graph.nodes[id].consumers < 2 {
            return Ok(relation);
        }
        if relation.condition.is_some() {
            return relation.settle_total(&mut self.builder);
        }
        relation.settle_for(&mut self.builder, &|_| 2)
    }

    fn union(&mut self, id: LogicalId, union: &Union) -> Result<Relation> {
        let required = self.required(id).to_vec();
        let inputs: Vec<NodeId> = (0..union.inputs.len())
            .map(|position| {
                let input = self.input(id, position)?.select(&required);
                input.pack_exactly(&mut self.builder)
            })
            .collect::<Result<_>>()?;
        let inputs = self.side_by_side(inputs);
        let node = self.builder.add(
            ExecNodeKind::Union(UnionNode {}),
            inputs,
            union.schema.project(&required),
        );
        Ok(self.spread(id, node))
    }

    /// Inputs of one parallelism: where one of them is single, all are gathered.
    fn side_by_side(&mut self, inputs: Vec<NodeId>) -> Vec<NodeId> {
        let single = inputs
            .iter()
            .any(|input| self.builder.node(*input).parallelism == 1);
        if !single {
            return inputs;
        }
        inputs
            .into_iter()
            .map(|input| self.builder.gather(input))
            .collect()
    }

    fn unnest(&mut self, id: LogicalId, unnest: &Unnest) -> Result<Relation> {
        let width = self.graph.nodes[self.graph.nodes[id].inputs[0]]
            .schema
            .len();
        let read = self
            .required(id)
            .iter()
            .copied()
            .filter(|column| *column < width);
        let read = read.chain(unnest.collection.columns()).collect();
        let input = self.input(id, 0)?.only(&read).decided(&mut self.builder)?;
        let input = input.settle(&mut self.builder)?;
        let below = self.builder.node(input.base).schema.clone();
        let kind = ExecNodeKind::Correlate(CorrelateNode {
            collection: input.lower(&unnest.collection),
            outer: unnest.outer,
            with_ordinality: unnest.with_ordinality,
        });
        let added = Schema::new(unnest.schema.fields[width..].to_vec());
        let schema = below.join(&added);
        let node = self.builder.add(kind, vec![input.base], schema);
        let output = Relation::of_node(&self.builder, node);
        let mut columns = input.columns;
        columns.extend(output.columns[below.len()..].iter().cloned());
        Ok(Relation {
            columns,
            schema: unnest.schema.clone(),
            ..output
        })
    }

    /// The node of a whole query, with exactly its columns.
    pub(super) fn query(&mut self, root: LogicalId) -> Result<NodeId> {
        self.relation(root)?.pack_exactly(&mut self.builder)
    }
}
