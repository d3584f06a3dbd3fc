//! Node to operator, one line a node. The only place in `plan` that names operators.

use std::sync::Arc;

use super::exec_node::{ExecNode, ExecNodeKind, ExecPlan, NodeId};
use super::nodes::{
    self, CalcNode, CorrelateNode, ExpandNode, SinkNode, SinkTarget, TableSourceScanNode, ValuesNode, WatermarkAssignerNode,
};
use crate::config::SessionConfig;
use crate::connectors::{ConnectorRegistry, Sink, Source as _, TableDescriptor};
use crate::error::{Error, Result};
use crate::expr::{ExpressionContext, compile};
use crate::operators::{
    CalcOperator, CalcSpec, CorrelateOperator, CorrelateSpec, ExpandOperator, NotNullEnforcer, Operator, SinkOperator, SourceOperator, Subtask,
    UnionOperator, ValuesSource, WatermarkAssignerSpec,
};
use crate::runtime::SourceNode;
use crate::state::{HashMapStateBackend, StateBackend};
use crate::types::{Schema, TimeZone};
use crate::watermark::WatermarkStrategy;

type Build = Box<dyn Fn(Subtask) -> Result<Box<dyn Operator>> + Send + Sync>;

/// Builds the operators of one plan.
pub(super) struct OperatorBuilder<'a> {
    plan: &'a ExecPlan,
    connectors: &'a ConnectorRegistry,
    context: ExpressionContext,
    backend: Arc<dyn StateBackend>,
    select_sink: Option<Arc<dyn Sink>>,
}

impl<'a> OperatorBuilder<'a> {
    pub(super) fn new(
        plan: &'a ExecPlan,
        config: &SessionConfig,
        connectors: &'a ConnectorRegistry,
        select_sink: Option<Arc<dyn Sink>>,
    ) -> Result<Self> {
        let context = ExpressionContext { time_zone: TimeZone::parse(config.time_zone())? };
        Ok(OperatorBuilder { plan, connectors, context, backend: Arc::new(HashMapStateBackend), select_sink })
    }
}

impl OperatorBuilder<'_> {
    /// The source of a scan or of constant rows, with what is fused behind it.
    pub(super) fn source(&self, node: &ExecNode, fused: &[NodeId]) -> Result<SourceNode> {
        match &node.kind {
            ExecNodeKind::TableSourceScan(scan) => self.table_source(node, scan, fused),
            ExecNodeKind::Values(values) => self.values(node, values),
            _ => Err(Error::internal(format!("{} is no source", node.kind.name()))),
        }
    }

    fn table_source(&self, node: &ExecNode, scan: &TableSourceScanNode, fused: &[NodeId]) -> Result<SourceNode> {
        let source = self.connectors.for_table(&scan.table, None)?.create_source(&scan.table)?;
        let (mut calc, mut assigner) = (None, None);
        for id in fused {
            let fused = self.plan.node(*id);
            match &fused.kind {
                ExecNodeKind::Calc(node) => calc = Some((node.clone(), self.input_schema(fused), fused.schema.clone())),
                ExecNodeKind::WatermarkAssigner(node) => assigner = Some(node.clone()),
                other => return Err(Error::internal(format!("{} is not fused into a source", other.name()))),
            }
        }
        let context = self.context.clone();
        let reader = source.clone();
        let build = move |_: Subtask| -> Result<SourceOperator> {
            let calc = calc.as_ref().map(|(node, input, output)| CalcSpec::new(node.condition.as_ref(), &node.projection, input, output, &context)).transpose()?;
            let assigner = assigner.as_ref().map(|node| watermark_assigner(node, &context)).transpose()?;
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
        let source = Arc::new(ValuesSource::new(&values.rows, &node.schema, &self.context)?);
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
            ExecNodeKind::LateRowsSink(sink) => self.table_sink(&sink.table, Vec::new(), NotNullEnforcer::Error),
            other => Err(Error::unsupported(format!("running a {} node", other.name()))),
        }
    }

    fn calc(&self, node: &ExecNode, calc: &CalcNode) -> Result<Build> {
        let (calc, input, output, context) = (calc.clone(), self.input_schema(node), node.schema.clone(), self.context.clone());
        let make = move || CalcSpec::new(calc.condition.as_ref(), &calc.projection, &input, &output, &context);
        Ok(Box::new(move |_| Ok(Box::new(CalcOperator::new(make()?)))))
    }

    fn expand(&self, node: &ExecNode, expand: &ExpandNode) -> Result<Build> {
        let (projections, output, context) = (expand.projections.clone(), node.schema.clone(), self.context.clone());
        Ok(Box::new(move |_| Ok(Box::new(ExpandOperator::new(&projections, &output, &context)?))))
    }

    fn correlate(&self, node: &ExecNode, correlate: &CorrelateNode) -> Result<Build> {
        let (correlate, output, context) = (correlate.clone(), node.schema.clone(), self.context.clone());
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

    fn sink(&self, node: &ExecNode, sink: &SinkNode) -> Result<Build> {
        let not_null: Vec<(usize, String)> = sink.not_null.iter().map(|column| (*column, node.schema.fields[*column].name.clone())).collect();
        let enforcer = match sink.enforcer {
            nodes::NotNullEnforcer::Error => NotNullEnforcer::Error,
            nodes::NotNullEnforcer::Drop => NotNullEnforcer::Drop,
        };
        match &sink.target {
            SinkTarget::Table(table) => self.table_sink(table, not_null, enforcer),
            SinkTarget::Collect => {
                let sink = self.select_sink.clone().ok_or_else(|| Error::internal("a SELECT needs somebody to take its rows"))?;
                Ok(build_sink(sink, not_null, enforcer))
            }
        }
    }

    fn table_sink(&self, table: &TableDescriptor, not_null: Vec<(usize, String)>, enforcer: NotNullEnforcer) -> Result<Build> {
        let sink = self.connectors.for_table(table, None)?.create_sink(table)?;
        Ok(build_sink(sink, not_null, enforcer))
    }

    fn input_schema(&self, node: &ExecNode) -> Schema {
        self.plan.node(node.inputs[0]).schema.clone()
    }
}

fn build_sink(sink: Arc<dyn Sink>, not_null: Vec<(usize, String)>, enforcer: NotNullEnforcer) -> Build {
    Box::new(move |subtask| Ok(Box::new(SinkOperator::new(sink.clone(), subtask, not_null.clone(), enforcer)?)))
}

fn watermark_assigner(node: &WatermarkAssignerNode, context: &ExpressionContext) -> Result<WatermarkAssignerSpec> {
    let session_idle_timeout = std::time::Duration::from_millis(node.session_idle_timeout_ms);
    Ok(WatermarkAssignerSpec {
        time_column: node.column,
        expression: compile(&node.expression, context)?,
        table: node.table.clone(),
        column: node.column_name.clone(),
        strategy: WatermarkStrategy::from_options(&node.table, &node.options, session_idle_timeout)?,
        keep_all_steps: node.keeps_all_steps,
    })
}
