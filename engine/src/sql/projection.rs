//! Projections: columns computed from columns, with what becomes of time attributes.

use crate::expr::Expression;
use crate::plan::logical::{LogicalPlan, Project};
use crate::types::{Field, Schema, TimeAttribute};

/// The time attribute of an expression: a bare column keeps its own, PROCTIME() is one, anything else is none.
pub(super) fn attribute_of(expression: &Expression, input: &[Field]) -> Option<TimeAttribute> {
    match expression {
        Expression::Column { index, .. } => input[*index].time_attribute,
        Expression::Call { function, .. } if function == "PROCTIME" => {
            Some(TimeAttribute::Proctime)
        }
        _ => None,
    }
}

/// The named expressions over `plan`, whose columns have the given `fields` (they say which time attributes are left).
/// No node where the result is the input itself.
pub(super) fn project(
    plan: LogicalPlan,
    fields: &[Field],
    items: Vec<(String, Expression)>,
) -> LogicalPlan {
    let schema = Schema::new(
        items
            .iter()
            .map(|(name, expression)| {
                Field::new(name, expression.logical_type().clone())
                    .with_time_attribute(attribute_of(expression, fields))
            })
            .collect(),
    );
    let in_place = |(index, (_, expression)): (usize, &(String, Expression))| matches!(expression, Expression::Column { index: column, .. } if *column == index);
    if items.iter().enumerate().all(in_place) && plan.schema() == schema {
        return plan;
    }
    LogicalPlan::Project(Project {
        input: Box::new(plan),
        expressions: items
            .into_iter()
            .map(|(_, expression)| expression)
            .collect(),
        schema,
    })
}

/// All columns of a schema as expressions with their names.
pub(super) fn columns_of(schema: &Schema) -> Vec<(String, Expression)> {
    schema
        .fields
        .iter()
        .enumerate()
        .map(|(index, field)| {
            let column = Expression::column(index, &field.name, field.logical_type.clone());
            (field.name.clone(), column)
        })
        .collect()
}
