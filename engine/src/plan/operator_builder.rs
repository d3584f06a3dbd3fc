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
