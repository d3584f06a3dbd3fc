//! The one physical expression of ours: an [`Evaluation`] over child expressions, in DataFusion's trait.
//!
//! Columns and literals are DataFusion's own `Column` and `Literal`. Everything else carries Flink's semantics and goes
//! through here; what a node does is its evaluation, what it is (equality, hash, text) is its source [`Expression`].

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use datafusion_common::Result as DataFusionResult;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use super::{Expression, Value};
use crate::error::Result;

/// How a node computes its value from its children.
pub(super) trait Evaluation: Send + Sync {
    /// The values of all rows of `rows`, of which there is at least one.
    fn evaluate(
        &self,
        rows: &RecordBatch,
        children: &[Arc<dyn PhysicalExpr>],
    ) -> Result<ColumnarValue>;
}

/// A node with an evaluation of ours.
#[derive(Clone)]
pub(super) struct EngineExpr {
    source: Arc<Expression>,
    children: Vec<Arc<dyn PhysicalExpr>>,
    evaluation: Arc<dyn Evaluation>,
}

impl EngineExpr {
    pub(super) fn create(
        source: &Expression,
        children: Vec<Arc<dyn PhysicalExpr>>,
        evaluation: impl Evaluation + 'static,
    ) -> Arc<dyn PhysicalExpr> {
        Arc::new(EngineExpr {
            source: Arc::new(source.clone()),
            children,
            evaluation: Arc::new(evaluation),
        })
    }
}

impl PartialEq for EngineExpr {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for EngineExpr {}

impl Hash for EngineExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.source.hash(state);
    }
}

impl fmt::Display for EngineExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)
    }
}

impl fmt::Debug for EngineExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EngineExpr({})", self.source)
    }
}

impl PhysicalExpr for EngineExpr {
    fn data_type(&self, _: &Schema) -> DataFusionResult<DataType> {
        Ok(self.source.logical_type().to_arrow())
    }

    fn nullable(&self, _: &Schema) -> DataFusionResult<bool> {
        Ok(self.source.logical_type().nullable)
    }

    fn evaluate(&self, rows: &RecordBatch) -> DataFusionResult<ColumnarValue> {
        Ok(self.evaluation.evaluate(rows, &self.children)?)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.children.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(EngineExpr {
            children,
            ..(*self).clone()
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)
    }
}

/// A columnar value as a kernel's argument.
pub(super) fn to_value(value: ColumnarValue) -> Result<Value> {
    Ok(match value {
        ColumnarValue::Array(array) => Value {
            array,
            is_scalar: false,
        },
        ColumnarValue::Scalar(scalar) => Value {
            array: scalar.to_array()?,
            is_scalar: true,
        },
    })
}
