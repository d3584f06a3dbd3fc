//! `FOR SYSTEM_TIME AS OF l.ts` behind the right table of a join.

use sqlparser::ast::{Expr, TableFactor, TableVersion};

use super::binder::{Binder, Environment};
use super::expression::ExpressionBinder;
use super::scope::{Relation, Scope};
use crate::error::{Error, Result};
use crate::expr::Expression;

impl Binder<'_> {
    /// The right side of a join, and the left column of its FOR SYSTEM_TIME AS OF.
    pub(super) fn bind_right(
        &self,
        left: &Relation,
        factor: &TableFactor,
        environment: &Environment,
    ) -> Result<(Relation, Option<usize>)> {
        let TableFactor::Table {
            version: Some(TableVersion::ForSystemTimeAsOf(time)),
            ..
        } = factor
        else {
            return Ok((self.bind_factor(factor, environment)?, None));
        };
        let as_of = self.bind_system_time(time, &left.scope)?;
        let mut table = factor.clone();
        if let TableFactor::Table { version, .. } = &mut table {
            *version = None;
        }
        Ok((self.bind_factor(&table, environment)?, Some(as_of)))
    }

    fn bind_system_time(&self, time: &Expr, left: &Scope) -> Result<usize> {
        let clause = "FOR SYSTEM_TIME AS OF";
        let refuse = |what: String| {
            Error::user(format!(
                "{clause} takes a time attribute of the left table, not {what}"
            ))
            .at(self.place(time))
            .hint(
                "name a column bare: the event time of the left table's WATERMARK for a temporal join, a column AS PROCTIME() \
                 for a lookup join",
            )
        };
        let bound = ExpressionBinder::plain(self, left, clause).bind(time)?;
        let Expression::Column { index, name, .. } = &bound else {
            return Err(refuse(match &bound {
                Expression::Literal { .. } => "a constant".to_string(),
                _ => "an expression".to_string(),
            }));
        };
        match left.columns[*index].field.time_attribute {
            Some(_) => Ok(*index),
            None => Err(refuse(format!("the plain column \"{name}\""))),
        }
    }
}
