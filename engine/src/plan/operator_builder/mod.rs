//! Node to operator, one line a node. The only place in `plan` that names operators; what updates is in the files beside.

mod changelog;
mod group_aggregates;
mod match_recognize;
mod over;
mod ranks;
mod regular_joins;
mod temporal_joins;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use changelog::drop_update_before;

use crate::config::SessionConfig;
use crate::connectors::{ConnectorRegistry, Sink, Source as _, TableDescriptor};
use crate::error::{Error, Result};
use crate::expr::{ExpressionContext, compile};
use crate::operators::{
    AggregatePhase, CalcOperator, CalcSpec, CorrelateOperator, CorrelateSpec, ExpandOperator,
    JoinCondition, KeepRow, LocalWindowAggregateOperator, NotNullEnforcer, Operator,
    SessionWindowAggregateOperator, SessionWindowTableFunctionOperator, SinkOperator, SinkSpec,
    SourceOperator, Subtask, TypeLengthEnforcer, UnionOperator, ValuesSource,
    WatermarkAssignerSpec, WindowAggregateOperator, WindowDeduplicateOperator,
    WindowDeduplicateSpec, WindowJoinOperator, WindowJoinSide, WindowJoinSpec, WindowRankOperator,
    WindowRankSpec, WindowTableFunctionOperator, local_output_schema, lookup_state_schema,
};
use crate::plan::exec_node::{ExecNode, ExecNodeKind, ExecPlan, NodeId};
use crate::plan::node_uid::{Lineage, folded_input, given, lineages};
use crate::plan::nodes::{
    self, CalcNode, CorrelateNode, ExpandNode, GlobalWindowAggregateNode, LocalWindowAggregateNode,
    SinkNode, SinkTarget, TableSourceScanNode, ValuesNode, WatermarkAssignerNode,
    WindowDeduplicateNode, WindowJoinNode, WindowRankNode, WindowTableFunctionNode,
};
use crate::runtime::SourceNode;
use crate::state::{HashMapStateBackend, StateBackend};
use crate::types::{RowKind, Schema, TimeZone};
use crate::watermark::WatermarkStrategy;
use crate::window::{WindowAggregateSpec, WindowInput, WindowKind, WindowSpec};

type Build = Box<dyn Fn(Subtask) -> Result<Box<dyn Operator>> + Send + Sync>;

/// Builds the operators of one plan.
pub(super) struct OperatorBuilder<'a> {
    plan: &'a ExecPlan,
    /// What the columns of each node hold.
    lineages: Vec<Lineage>,
    connectors: &'a ConnectorRegistry,
    context: ExpressionContext,
    backend: Arc<dyn StateBackend>,
    /// `table.exec.mini-batch.size` where mini-batch is on.
    mini_batch_rows: Option<usize>,
    /// `table.exec.mini-batch.allow-latency`, milliseconds.
    mini_batch_latency_ms: u64,
    /// `table.exec.state.ttl`, milliseconds; 0: never.
    state_ttl_ms: u64,
    deduplicate_options: DeduplicateOptions,
    /// `sink.committer.retries`.
    commit_retries: u32,
    select_sink: Option<Arc<dyn Sink>>,
}

/// `table.exec.deduplicate.*`.
#[derive(Debug, Clone, Copy)]
struct DeduplicateOptions {
    first_is_insert: bool,
    compact_changes: bool,
}

impl DeduplicateOptions {
    fn of(config: &SessionConfig) -> Self {
        DeduplicateOptions {
            first_is_insert: config
                .boolean("table.exec.deduplicate.insert-update-after-sensitive-enabled"),
            compact_changes: config
                .boolean("table.exec.deduplicate.mini-batch.compact-changes-enabled"),
        }
    }
}

impl<'a> OperatorBuilder<'a> {
    pub(super) fn new(
        plan: &'a ExecPlan,
        config: &SessionConfig,
        connectors: &'a ConnectorRegistry,
        select_sink: Option<Arc<dyn Sink>>,
    ) -> Result<Self> {
        let context = ExpressionContext {
            time_zone: TimeZone::parse(config.time_zone())?,
        };
        Ok(OperatorBuilder {
            plan,
            lineages: lineages(plan),
            connectors,
            context,
            backend: Arc::new(HashMapStateBackend),
            mini_batch_rows: config.mini_batch_rows(),
            mini_batch_latency_ms: config
                .duration("table.exec.mini-batch.allow-latency")
                .as_millis() as u64,
            state_ttl_ms: config.duration("table.exec.state.ttl").as_millis() as u64,
            deduplicate_options: DeduplicateOptions::of(config),
            commit_retries: config.integer("sink.committer.retries").clamp(0, 1 << 30) as u32,
            select_sink,
        })
    }
}

impl OperatorBuilder<'_> {
    /// What each input of a node gives it; see [`given`].
    pub(super) fn reads(&self, node: &ExecNode) -> Vec<String> {
        let inputs = node.inputs.iter().map(|input| self.plan.node(*input));
        inputs
            .map(|input| given(self.plan, &self.lineages, input))
            .collect()
    }

    /// The tables of operators that reach out to the world when they are made.
    pub(super) fn outside_state_schema(&self, node: &ExecNode) -> Option<Vec<(String, SchemaRef)>> {
        match node.kind {
            ExecNodeKind::Sink(_) | ExecNodeKind::LateRowsSink(_) => Some(Vec::new()),
            ExecNodeKind::LookupJoin(_) => {
                let input = &self.plan.node(node.inputs[0]).schema;
                Some(lookup_state_schema(input, &node.schema))
            }
            _ => None,
        }
    }

    /// The source of a scan or of constant rows, with what is fused behind it.
    pub(super) fn source(&self, node: &ExecNode, fused: &[NodeId]) -> Result<SourceNode> {
        match &node.kind {
            ExecNodeKind::TableSourceScan(scan) => self.table_source(node, scan, fused),
            ExecNodeKind::Values(values) => self.values(node, values),
            _ => Err(Error::internal(format!(
                "{} is no source",
                node.kind.name()
            ))),
        }
    }

    fn table_source(
        &self,
        node: &ExecNode,
        scan: &TableSourceScanNode,
        fused: &[NodeId],
    ) -> Result<SourceNode> {
        let source = self
            .connectors
            .for_table(&scan.table, None)?
            .create_source(&scan.table)?;
        let (mut calc, mut assigner) = (None, None);
        for id in fused {
            let fused = self.plan.node(*id);
            match &fused.kind {
                ExecNodeKind::Calc(node) => {
                    calc = Some((node.clone(), self.input_schema(fused), fused.schema.clone()))
                }
                ExecNodeKind::WatermarkAssigner(node) => assigner = Some(node.clone()),
                other => {
                    return Err(Error::internal(format!(
                        "{} is not fused into a source",
                        other.name()
                    )));
                }
            }
        }
        let context = self.context;
        let reader = source.clone();
        let build = move |_: Subtask| -> Result<SourceOperator> {
            let calc = calc
                .as_ref()
                .map(|(node, input, output)| {
                    CalcSpec::new(
                        node.condition.as_ref(),
                        &node.projection,
                        input,
                        output,
                        &context,
                    )
                })
                .transpose()?;
            let assigner = assigner
                .as_ref()
                .map(|node| watermark_assigner(node, &context))
                .transpose()?;
            Ok(SourceOperator::new(reader.reader()?, calc, assigner))
        };
        Ok(SourceNode {
            uid: node.uid.clone(),
            name: format!("Source: {}", scan.table.name),
            is_bounded: source.is_bounded(),
            splits: Arc::new(move || source.splits()),
            build: Box::new(build),
        })
    }

    fn values(&self, node: &ExecNode, values: &ValuesNode) -> Result<SourceNode> {
        let source = Arc::new(ValuesSource::new(
            &values.rows,
            &node.schema,
            &self.context,
        )?);
        let reader = source.clone();
        Ok(SourceNode {
            uid: node.uid.clone(),
            name: "Source: VALUES".to_string(),
            is_bounded: true,
            splits: Arc::new(move || source.splits()),
            build: Box::new(move |_| Ok(SourceOperator::new(reader.reader()?, None, None))),
        })
    }

    /// What makes the operator of a node, for each subtask.
    pub(super) fn operator(&self, node: &ExecNode) -> Result<Build> {
        match &node.kind {
            ExecNodeKind::Calc(calc) => self.calc(node, calc),
            ExecNodeKind::Expand(expand) => self.expand(node, expand),
            ExecNodeKind::Correlate(correlate) => self.correlate(node, correlate),
            ExecNodeKind::Union(_) => self.union(node),
            ExecNodeKind::Sink(sink) => self.sink(node, sink),
            ExecNodeKind::LateRowsSink(sink) => self.table_sink(&sink.table, SinkSpec::AS_THEY_ARE),
            ExecNodeKind::WindowTableFunction(function) => {
                self.window_table_function(node, function)
            }
            ExecNodeKind::WindowAggregate(aggregate) => {
                self.window_aggregate(node, &aggregate.spec)
            }
            ExecNodeKind::GroupWindowAggregate(aggregate) => {
                self.window_aggregate(node, &aggregate.spec)
            }
            ExecNodeKind::LocalWindowAggregate(local) => self.local_window_aggregate(node, local),
            ExecNodeKind::GlobalWindowAggregate(global) => {
                self.global_window_aggregate(node, global)
            }
            ExecNodeKind::WindowRank(rank) => self.window_rank(node, rank),
            ExecNodeKind::WindowDeduplicate(deduplicate) => {
                self.window_deduplicate(node, deduplicate)
            }
            ExecNodeKind::WindowJoin(join) => self.window_join(node, join),
            ExecNodeKind::ChangelogNormalize(normalize) => {
                self.changelog_normalize(node, normalize)
            }
            ExecNodeKind::DropUpdateBefore(_) => Ok(drop_update_before()),
            ExecNodeKind::SinkUpsertMaterializer(materializer) => {
                self.sink_upsert_materializer(node, materializer)
            }
            ExecNodeKind::MiniBatchAssigner(assigner) => self.mini_batch_assigner(node, assigner),
            ExecNodeKind::GroupAggregate(aggregate) => self.group_aggregate(node, aggregate),
            ExecNodeKind::LocalGroupAggregate(local) => self.local_group_aggregate(node, local),
            ExecNodeKind::GlobalGroupAggregate(global) => self.global_group_aggregate(node, global),
            ExecNodeKind::Deduplicate(deduplicate) => self.deduplicate(node, deduplicate),
            ExecNodeKind::Rank(rank) => self.rank(node, rank),
            ExecNodeKind::TemporalSort(sort) => self.temporal_sort(node, sort),
            ExecNodeKind::OverAggregate(over) => self.over_aggregate(node, over),
            ExecNodeKind::Match(found) => self.match_recognize(node, found),
            ExecNodeKind::Join(join) => self.join(node, join),
            ExecNodeKind::MultiJoin(join) => self.multi_join(node, join),
            ExecNodeKind::IntervalJoin(join) => self.interval_join(node, join),
            ExecNodeKind::TemporalJoin(join) => self.temporal_join(node, join),
            ExecNodeKind::LookupJoin(join) => self.lookup_join(node, join),
            ExecNodeKind::TableSourceScan(_)
            | ExecNodeKind::Values(_)
            | ExecNodeKind::Exchange(_)
            | ExecNodeKind::WatermarkAssigner(_) => Err(Error::internal(format!(
                "{} does not run as an operator of its own here",
                node.kind.name()
            ))),
        }
    }

    fn calc(&self, node: &ExecNode, calc: &CalcNode) -> Result<Build> {
        let (calc, input, output, context) = (
            calc.clone(),
            self.input_schema(node),
            node.schema.clone(),
            self.context,
        );
        let make = move || {
            CalcSpec::new(
                calc.condition.as_ref(),
                &calc.projection,
                &input,
                &output,
                &context,
            )
        };
        Ok(Box::new(move |_| Ok(Box::new(CalcOperator::new(make()?)))))
    }

    fn expand(&self, node: &ExecNode, expand: &ExpandNode) -> Result<Build> {
        let (projections, output, context) = (
            expand.projections.clone(),
            node.schema.clone(),
            self.context,
        );
        Ok(Box::new(move |_| {
            Ok(Box::new(ExpandOperator::new(
                &projections,
                &output,
                &context,
            )?))
        }))
    }

    fn correlate(&self, node: &ExecNode, correlate: &CorrelateNode) -> Result<Build> {
        let (correlate, output, context) = (correlate.clone(), node.schema.clone(), self.context);
        Ok(Box::new(move |_| {
            let spec = CorrelateSpec {
                collection: compile(&correlate.collection, &context)?,
                collection_type: correlate.collection.logical_type().root.clone(),
                outer: correlate.outer,
                with_ordinality: correlate.with_ordinality,
                output: output.clone(),
            };
            Ok(Box::new(CorrelateOperator::new(spec)))
        }))
    }

    fn union(&self, node: &ExecNode) -> Result<Build> {
        let schema = node.schema.clone();
        Ok(Box::new(move |_| Ok(Box::new(UnionOperator::new(&schema)))))
    }

    fn window_table_function(
        &self,
        node: &ExecNode,
        function: &WindowTableFunctionNode,
    ) -> Result<Build> {
        let (function, input, output) = (
            function.clone(),
            self.input_schema(node),
            node.schema.clone(),
        );
        if matches!(function.window.kind, WindowKind::Session { .. }) {
            return Ok(Box::new(move |_| {
                let WindowTableFunctionNode {
                    window,
                    time_column,
                    partition_by,
                } = function.clone();
                Ok(Box::new(SessionWindowTableFunctionOperator::new(
                    window,
                    time_column,
                    partition_by,
                    &input,
                )?))
            }));
        }
        Ok(Box::new(move |_| {
            Ok(Box::new(WindowTableFunctionOperator::new(
                &function.window,
                function.time_column,
                &output,
            )?))
        }))
    }

    fn window_aggregate(&self, node: &ExecNode, spec: &WindowAggregateSpec) -> Result<Build> {
        let (spec, input, insert_only, backend) = (
            spec.clone(),
            self.input_schema(node),
            self.is_insert_only(node.inputs[0]),
            self.backend.clone(),
        );
        let texts = self.column_texts(node.inputs[0]);
        let is_session = matches!(
            (&spec.window.kind, &spec.input),
            (WindowKind::Session { .. }, WindowInput::TimeColumn(_))
        );
        Ok(Box::new(move |_| {
            if is_session {
                let sessions =
                    SessionWindowAggregateOperator::new(spec.clone(), &input, insert_only)?;
                return Ok(Box::new(sessions.with_column_texts(&texts)));
            }
            let single = AggregatePhase::Single;
            let windows = WindowAggregateOperator::new(
                spec.clone(),
                &input,
                single,
                insert_only,
                backend.clone(),
            )?;
            Ok(Box::new(windows.with_column_texts(&texts)))
        }))
    }

    fn local_window_aggregate(
        &self,
        node: &ExecNode,
        local: &LocalWindowAggregateNode,
    ) -> Result<Build> {
        let (spec, input, insert_only, backend) = (
            local.spec.clone(),
            self.input_schema(node),
            self.is_insert_only(node.inputs[0]),
            self.backend.clone(),
        );
        Ok(Box::new(move |_| {
            Ok(Box::new(LocalWindowAggregateOperator::new(
                spec.clone(),
                &input,
                insert_only,
                backend.clone(),
            )?))
        }))
    }

    fn global_window_aggregate(
        &self,
        node: &ExecNode,
        global: &GlobalWindowAggregateNode,
    ) -> Result<Build> {
        let rows = folded_input(self.plan, node);
        let (insert_only, texts) = (self.is_insert_only(rows), self.column_texts(rows));
        let input = local_output_schema(&global.spec, &global.local_input, insert_only)?;
        let (spec, backend) = (global.spec.clone(), self.backend.clone());
        Ok(Box::new(move |_| {
            let phase = AggregatePhase::Global;
            let windows = WindowAggregateOperator::new(
                spec.clone(),
                &input,
                phase,
                insert_only,
                backend.clone(),
            )?;
            Ok(Box::new(windows.with_column_texts(&texts)))
        }))
    }

    /// The local aggregation behind the exchange (or several) that a global one reads.
    fn local_phase(&self, id: NodeId) -> &ExecNode {
        let node = self.plan.node(id);
        match node.kind {
            ExecNodeKind::Exchange(_) => self.local_phase(node.inputs[0]),
            _ => node,
        }
    }

    fn window_rank(&self, node: &ExecNode, rank: &WindowRankNode) -> Result<Build> {
        let spec = WindowRankSpec {
            input: self.input_schema(node),
            output: node.schema.clone(),
            window_end: rank.window_end,
            window_time: rank.window.time.clone(),
            session_start: session_start(&rank.window, rank.window_start),
            partition_keys: rank.partition_by.clone(),
            order_by: rank.order_by.clone(),
            rank_start: rank.rank_start,
            rank_end: rank.rank_end,
            output_rank: rank.output_rank,
        };
        let backend = self.backend.clone();
        Ok(Box::new(move |_| {
            Ok(Box::new(WindowRankOperator::new(spec.clone(), &*backend)?))
        }))
    }

    fn window_deduplicate(
        &self,
        node: &ExecNode,
        deduplicate: &WindowDeduplicateNode,
    ) -> Result<Build> {
        let spec = WindowDeduplicateSpec {
            schema: node.schema.clone(),
            window_end: deduplicate.window_end,
            window_time: deduplicate.window.time.clone(),
            session_start: session_start(&deduplicate.window, deduplicate.window_start),
            partition_keys: deduplicate.partition_by.clone(),
            order_column: deduplicate.order_column,
            keep: match deduplicate.keep {
                nodes::KeepRow::First => KeepRow::First,
                nodes::KeepRow::Last => KeepRow::Last,
            },
        };
        let backend = self.backend.clone();
        Ok(Box::new(move |_| {
            Ok(Box::new(WindowDeduplicateOperator::new(
                spec.clone(),
                &*backend,
            )?))
        }))
    }

    fn window_join(&self, node: &ExecNode, join: &WindowJoinNode) -> Result<Build> {
        let (join, output, context, backend) = (
            join.clone(),
            node.schema.clone(),
            self.context,
            self.backend.clone(),
        );
        let (left, right) = (
            self.plan.node(node.inputs[0]).schema.clone(),
            self.plan.node(node.inputs[1]).schema.clone(),
        );
        Ok(Box::new(move |_| {
            let side = |schema: &Schema, start: usize, window_end: usize, keys: Vec<usize>| {
                WindowJoinSide {
                    schema: schema.clone(),
                    window_end,
                    session_start: session_start(&join.window, start),
                    keys,
                }
            };
            let null_safe = join.keys.iter().map(|key| key.null_safe).collect();
            let left_keys = join.keys.iter().map(|key| key.left).collect();
            let right_keys = join.keys.iter().map(|key| key.right).collect();
            let spec = WindowJoinSpec {
                kind: join.kind,
                left: side(
                    &left,
                    join.left_window_start,
                    join.left_window_end,
                    left_keys,
                ),
                right: side(
                    &right,
                    join.right_window_start,
                    join.right_window_end,
                    right_keys,
                ),
                null_safe,
                condition: join
                    .condition
                    .as_ref()
                    .map(|condition| JoinCondition::new(condition, &left, &right, &context))
                    .transpose()?,
                window_time: join.window.time.clone(),
                output: output.clone(),
            };
            Ok(Box::new(WindowJoinOperator::new(spec, &*backend)?))
        }))
    }

    /// What the columns of a node hold, in terms of tables: the names of states.
    fn column_texts(&self, id: NodeId) -> Vec<String> {
        self.lineages[id.0].columns.clone()
    }

    fn is_insert_only(&self, id: NodeId) -> bool {
        self.plan.node(id).changelog_mode.is_insert_only()
    }

    fn sink(&self, node: &ExecNode, sink: &SinkNode) -> Result<Build> {
        let spec = self.sink_spec(node, sink);
        match &sink.target {
            SinkTarget::Table(table) => self.table_sink(table, spec),
            SinkTarget::Collect => {
                let sink = self
                    .select_sink
                    .clone()
                    .ok_or_else(|| Error::internal("a SELECT needs somebody to take its rows"))?;
                Ok(build_sink(sink, spec))
            }
        }
    }

    fn sink_spec(&self, node: &ExecNode, sink: &SinkNode) -> SinkSpec {
        let name = |column: usize| node.schema.fields[column].name.clone();
        let given = self.plan.node(node.inputs[0]).changelog_mode;
        let by_key = given.contains(RowKind::UpdateBefore)
            && !sink.changelog_mode.contains(RowKind::UpdateBefore);
        let columns = match &sink.target {
            SinkTarget::Table(table) => table
                .physical
                .fields
                .iter()
                .map(|field| (field.name.clone(), field.logical_type.clone()))
                .collect(),
            SinkTarget::Collect => Vec::new(),
        };
        SinkSpec {
            not_null: sink
                .not_null
                .iter()
                .map(|column| (*column, name(*column)))
                .collect(),
            not_null_enforcer: match sink.enforcer {
                nodes::NotNullEnforcer::Error => NotNullEnforcer::Error,
                nodes::NotNullEnforcer::Drop => NotNullEnforcer::Drop,
            },
            columns,
            type_length_enforcer: match sink.type_length {
                nodes::TypeLengthEnforcer::Ignore => TypeLengthEnforcer::Ignore,
                nodes::TypeLengthEnforcer::TrimPad => TypeLengthEnforcer::TrimPad,
                nodes::TypeLengthEnforcer::Error => TypeLengthEnforcer::Error,
            },
            by_key: by_key.then(|| sink.primary_key()),
            deletes_by_key: !sink.changelog_mode.contains(RowKind::UpdateBefore),
            commit_retries: self.commit_retries,
        }
    }

    fn table_sink(&self, table: &TableDescriptor, spec: SinkSpec) -> Result<Build> {
        let sink = self.connectors.for_table(table, None)?.create_sink(table)?;
        Ok(build_sink(sink, spec))
    }

    fn input_schema(&self, node: &ExecNode) -> Schema {
        self.plan.node(node.inputs[0]).schema.clone()
    }
}

/// Sessions of equal end may start at different times, so there the start belongs to what tells windows apart.
fn session_start(window: &WindowSpec, window_start: usize) -> Option<usize> {
    matches!(window.kind, WindowKind::Session { .. }).then_some(window_start)
}

fn build_sink(sink: Arc<dyn Sink>, spec: SinkSpec) -> Build {
    Box::new(move |subtask| {
        let sink = sink.clone();
        Ok(Box::new(SinkOperator::new(sink, subtask, spec.clone())?))
    })
}

fn watermark_assigner(
    node: &WatermarkAssignerNode,
    context: &ExpressionContext,
) -> Result<WatermarkAssignerSpec> {
    let session_idle_timeout = std::time::Duration::from_millis(node.session_idle_timeout_ms);
    Ok(WatermarkAssignerSpec {
        time_column: node.column,
        expression: compile(&node.expression, context)?,
        table: node.table.clone(),
        column: node.column_name.clone(),
        strategy: WatermarkStrategy::from_options(
            &node.table,
            &node.options,
            session_idle_timeout,
        )?,
        keep_all_steps: node.keeps_all_steps,
    })
}
