//! Compiles an [`Expression`] into physical expressions: columns and literals are DataFusion's, the rest is ours.
//!
//! Children come first; a call whose arguments are all constants is evaluated here, once, unless that fails: then it is
//! left to fail on the row that needs it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion_common::ScalarValue;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{Column, Literal as LiteralExpr};

use super::call::CallEvaluation;
use super::case::{CaseEvaluation, CoalesceEvaluation};
use super::compiled::HIDDEN_COLUMNS;
use super::field_access::FieldAccessEvaluation;
use super::kernel::Call;
use super::literal::to_scalar;
use super::logical::LogicalEvaluation;
use super::physical::{EngineExpr, Evaluation, to_value};
use super::{CompiledExpression, Expression, ExpressionContext, cast};
use crate::error::Result;
use crate::functions::{HiddenInput, hidden_input, is_deterministic, scalar_function};
use crate::types::{LogicalType, TypeRoot};

/// Compiles an expression for a job. Fails where a function refuses a literal argument, such as a broken pattern.
pub fn compile(expression: &Expression, context: &ExpressionContext) -> Result<CompiledExpression> {
    let physical = compile_node(expression, context)?;
    Ok(CompiledExpression::new(
        physical,
        expression.clone(),
        *context,
    ))
}

/// Compiles several expressions.
pub fn compile_all(
    expressions: &[Expression],
    context: &ExpressionContext,
) -> Result<Vec<CompiledExpression>> {
    expressions
        .iter()
        .map(|expression| compile(expression, context))
        .collect()
}

fn compile_node(
    expression: &Expression,
    context: &ExpressionContext,
) -> Result<Arc<dyn PhysicalExpr>> {
    let mut children = expression
        .children()
        .into_iter()
        .map(|child| compile_node(child, context))
        .collect::<Result<Vec<_>>>()?;
    let node = match expression {
        Expression::Column { index, name, .. } => return Ok(Arc::new(Column::new(name, *index))),
        Expression::Literal {
            value,
            logical_type,
        } => return Ok(Arc::new(LiteralExpr::new(to_scalar(value, logical_type)?))),
        Expression::Call {
            function,
            arguments,
            ..
        } => {
            if let Some(input) = hidden_input(function, arguments.len()) {
                children.push(hidden_column(input));
            }
            compile_call(expression, function, arguments, children, context)?
        }
        Expression::Cast { .. } => {
            let evaluation = cast::CastEvaluation::new(expression, context);
            EngineExpr::create(expression, children, evaluation)
        }
        Expression::FieldAccess { field, .. } => EngineExpr::create(
            expression,
            children,
            FieldAccessEvaluation { field: *field },
        ),
    };
    Ok(fold(expression, &node).unwrap_or(node))
}

fn compile_call(
    source: &Expression,
    function: &str,
    arguments: &[Expression],
    children: Vec<Arc<dyn PhysicalExpr>>,
    context: &ExpressionContext,
) -> Result<Arc<dyn PhysicalExpr>> {
    Ok(match function {
        "AND" | "OR" => EngineExpr::create(
            source,
            children,
            LogicalEvaluation::new(function == "AND", arguments),
        ),
        "CASE" => EngineExpr::create(source, children, CaseEvaluation::new(arguments)),
        "COALESCE" => EngineExpr::create(source, children, CoalesceEvaluation::new(arguments)),
        _ => {
            let function = scalar_function(function)?;
            let call = Call {
                arguments,
                logical_type: source.logical_type(),
                context,
            };
            let kernel = (function.kernel)(&call)?;
            let evaluation = CallEvaluation::new(kernel, source, function.is_strict, &children)?;
            EngineExpr::create(source, children, evaluation)
        }
    })
}

/// The literal that a node of constants is; `None` where it is no constant or where it fails.
fn fold(expression: &Expression, node: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
    let is_constant = is_deterministic(expression)
        && node
            .children()
            .iter()
            .all(|child| child.downcast_ref::<LiteralExpr>().is_some());
    if !is_constant {
        return None;
    }
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let one_row =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).ok()?;
    let value = to_value(node.evaluate(&one_row).ok()?).ok()?;
    let scalar = ScalarValue::try_from_array(&value.array, 0).ok()?;
    Some(Arc::new(LiteralExpr::new(scalar)))
}

/// Reads one of the hidden columns, which are counted from the end of the batch.
struct HiddenColumnEvaluation {
    from_end: usize,
}

impl Evaluation for HiddenColumnEvaluation {
    fn evaluate(&self, rows: &RecordBatch, _: &[Arc<dyn PhysicalExpr>]) -> Result<ColumnarValue> {
        let column: &ArrayRef = rows.column(rows.num_columns() - self.from_end);
        debug_assert_eq!(column.len(), rows.num_rows());
        Ok(ColumnarValue::Array(column.clone()))
    }
}

fn hidden_column(input: HiddenInput) -> Arc<dyn PhysicalExpr> {
    let (name, root, from_end) = match input {
        HiddenInput::ProcessingTime => (
            "$PROCESSING_TIME",
            TypeRoot::TimestampLtz(3),
            HIDDEN_COLUMNS,
        ),
        HiddenInput::Watermark => ("$WATERMARK", TypeRoot::BigInt, HIDDEN_COLUMNS - 1),
    };
    let source = Expression::call(name, vec![], LogicalType::nullable(root));
    EngineExpr::create(&source, vec![], HiddenColumnEvaluation { from_end })
}
