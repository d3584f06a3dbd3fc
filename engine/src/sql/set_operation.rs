//! INTERSECT and EXCEPT, ALL too: rows are compared by position, after a cast to common types.

use sqlparser::ast::{SetExpr, SetQuantifier};

use super::binder::{Binder, Environment};
use crate::error::Result;
use crate::plan::logical::{LogicalPlan, SetOperation, SetOperationKind};
use crate::types::Schema;

impl Binder<'_> {
    /// `left INTERSECT right` and the like; time attributes are lost.
    pub(super) fn bind_set_operation(
        &self,
        kind: SetOperationKind,
        quantifier: SetQuantifier,
        left: &SetExpr,
        right: &SetExpr,
        environment: &Environment,
    ) -> Result<LogicalPlan> {
        let name = match kind {
            SetOperationKind::Intersect => "INTERSECT",
            SetOperationKind::Except => "EXCEPT",
        };
        let all = match quantifier {
            SetQuantifier::All => true,
            SetQuantifier::None | SetQuantifier::Distinct => false,
            other => return Err(self.unsupported(format!("{name} {other}"), right)),
        };
        let (inputs, mut fields) = self.bind_branches(name, &[left, right], environment)?;
        let fields_mut = fields.iter_mut();
        fields_mut.for_each(|field| field.time_attribute = None);
        let [left_plan, right_plan]: [LogicalPlan; 2] = inputs
            .try_into()
            .map_err(|_| crate::error::Error::internal("a set operation has two branches"))?;
        Ok(LogicalPlan::SetOperation(SetOperation {
            kind,
            all,
            left: Box::new(left_plan),
            right: Box::new(right_plan),
            schema: Schema::new(fields),
            position: self.position(right),
        }))
    }
}
