//! Compiles an [`Expression`] into physical expressions: columns and literals are DataFusion's, the rest is ours.
//!
//! Children come first; a call whose arguments are all constants is evaluated here, once, unless that fails: then it is
//! left to fail on the row that needs it.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion_common::ScalarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{Column, Literal as LiteralExpr};

use super::call::CallEvaluation;
use super::case::{CaseEvaluation, CoalesceEvaluation};
use super::field_access::FieldAccessEvaluation;
use super::kernel::Call;
use super::literal::to_scalar;
use super::logical::LogicalEvaluation;
use super::physical::{EngineExpr, to_value};
use super::{CompiledExpression, Expression, ExpressionContext, cast, hidden, sharing};
use crate::error::Result;
use crate::functions::{is_deterministic, scalar_function};

/// Compiles an expression for a job. Fails where a function refuses a literal argument, such as a broken pattern.
pub fn compile(expression: &Expression, context: &ExpressionContext) -> Result<CompiledExpression> {
    let reads_time = hidden::reads_time(expression);
    let shared = sharing::share(hidden::with_time_arguments(expression), reads_time);
    let parts = shared
        .parts
        .iter()
        .map(|part| compile_node(part, context))
        .collect::<Result<Vec<_>>>()?;
    let physical = compile_node(&shared.expression, context)?;
    Ok(CompiledExpression::new(
        physical,
        parts,
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
    let children = expression
        .children()
        .into_iter()
        .map(|child| compile_node(child, context))
        .collect::<Result<Vec<_>>>()?;
    let node = match expression {
        Expression::Column { index, name, .. } => {
            return Ok(match hidden::from_end(*index) {
                Some(from_end) => hidden::compile(expression, from_end),
                None => Arc::new(Column::new(name, *index)),
            });
        }
        Expression::Literal {
            value,
            logical_type,
        } => return Ok(Arc::new(LiteralExpr::new(to_scalar(value, logical_type)?))),
        Expression::Call {
            function,
            arguments,
            ..
        } => compile_call(expression, function, arguments, children, context)?,
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
