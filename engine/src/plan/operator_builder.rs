//! Node to operator, one line a node. The only place in `plan` that names operators.

use std::sync::Arc;

use super::exec_node::{ExecNode, ExecNodeKind, ExecPlan, NodeId};
use super::nodes::*;
use crate::config::SessionConfig;
use crate::connectors::{ConnectorRegistry, Sink, TableDescriptor};
use crate::error::{Error, Result};
use crate::expr::{ExpressionContext, compile};
use crate::operators::*;
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

    fn input_schema(&self, node: &ExecNode) -> Schema {
        self.plan.node(node.inputs[0]).schema.clone()
    }
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
