//! VALUES: rows of constants, brought to common types by column.

use sqlparser::ast::{Expr, Parens, Values as AstValues};

use super::binder::Binder;
use super::expression::ExpressionBinder;
use super::scope::{Relation, Scope};
use crate::error::{Error, Result};
use crate::expr::{Expression, Literal};
use crate::functions;
use crate::plan::logical::{LogicalPlan, Values};
use crate::types::{Field, LogicalType, Schema, TypeRoot};

impl Binder<'_> {
    pub(super) fn bind_values(&self, values: &AstValues) -> Result<LogicalPlan> {
        let AstValues {
            explicit_row: _, // ROW (…) and (…) are the same.
            value_keyword,
            rows,
        } = values;
        if *value_keyword {
            return Err(self.unsupported("VALUE (write VALUES)", values));
        }
        let exprs: Vec<&Vec<Expr>> = rows.iter().map(|Parens { content, .. }| content).collect();
        let width = exprs[0].len();
        if let Some((row, wrong)) = exprs.iter().enumerate().find(|(_, row)| row.len() != width) {
            return Err(Error::user(format!(
                "row {} of VALUES has {} columns, the first has {width}",
                row + 1,
                wrong.len()
            ))
            .at(wrong.first().and_then(|expr| self.place(expr))));
        }
        let scope = Scope::default();
        let mut binder = ExpressionBinder::plain(self, &scope, "VALUES");
        let mut bound = exprs
            .iter()
            .map(|row| row.iter().map(|expr| binder.bind(expr)).collect())
            .collect::<Result<Vec<Vec<Expression>>>>()?;
        let fields = (0..width)
            .map(|column| self.settle_column(column, &mut bound, &exprs))
            .collect::<Result<Vec<_>>>()?;
        Ok(LogicalPlan::Values(Values {
            rows: bound,
            schema: Schema::new(fields),
        }))
    }

    /// Casts a column's values to their common type.
    fn settle_column(
        &self,
        column: usize,
        rows: &mut [Vec<Expression>],
        exprs: &[&Vec<Expr>],
    ) -> Result<Field> {
        let types: Vec<LogicalType> = rows
            .iter()
            .map(|row| row[column].logical_type().clone())
            .collect();
        let Some(common) = functions::common_type(&types) else {
            let odd = (1..types.len())
                .find(|row| functions::common_type(&types[..=*row]).is_none())
                .unwrap_or(0);
            return Err(Error::user(format!(
                "column {} of VALUES is {} in the first row and {} here",
                column + 1,
                types[0],
                types[odd]
            ))
            .at(self.place(&exprs[odd][column])));
        };
        let nullable = types.iter().any(|logical_type| logical_type.nullable);
        for row in rows {
            let value = std::mem::replace(&mut row[column], super::literal::null());
            let target = common.with_nullable(value.logical_type().nullable);
            row[column] = functions::implicit_cast(value, &target)?;
        }
        Ok(Field::new(
            format!("EXPR${column}"),
            common.with_nullable(nullable),
        ))
    }
}

/// The one row without columns that SELECT without FROM reads; it has a column that no name reaches.
pub(super) fn single_row() -> Relation {
    let int = LogicalType::not_null(TypeRoot::Int);
    let plan = LogicalPlan::Values(Values {
        rows: vec![vec![Expression::literal(Literal::Integer(0), int.clone())]],
        schema: Schema::new(vec![Field::new("ZERO", int)]),
    });
    let mut relation = Relation::new(plan, None);
    relation.scope.columns[0].hidden = true;
    relation
}
