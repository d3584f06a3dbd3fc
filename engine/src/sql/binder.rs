//! What binding a statement needs at every place: the catalog, the options, the hints, and how to name a place.

use std::rc::Rc;

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

use super::catalog::Catalog;
use super::hints::{Hints, UsedHints};
use super::position::Placed;
use crate::config::SessionConfig;
use crate::connectors::ConnectorRegistry;
use crate::error::{Error, Result};
use crate::expr::Position;
use crate::plan::logical::LogicalPlan;
use crate::types::SqlPosition;

/// Turns syntax trees into plans. One per statement, and one per view inside it.
pub(super) struct Binder<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) config: &'a SessionConfig,
    pub(super) connectors: &'a ConnectorRegistry,
    pub(super) hints: &'a Hints,
    pub(super) used_hints: UsedHints,
    /// How many views are around what is being bound. Places inside a view's text are not named: they are in another statement.
    pub(super) view_depth: usize,
}

/// The WITH queries that a query sees.
#[derive(Debug, Clone, Default)]
pub(super) struct Environment(Option<Rc<NamedQuery>>);

#[derive(Debug)]
struct NamedQuery {
    name: String,
    plan: LogicalPlan,
    above: Environment,
}

impl Environment {
    /// The same with one more query, which hides one of equal name.
    pub(super) fn with(self, name: String, plan: LogicalPlan) -> Environment {
        Environment(Some(Rc::new(NamedQuery {
            name,
            plan,
            above: self,
        })))
    }

    /// The query of this name.
    pub(super) fn find(&self, name: &str) -> Option<&LogicalPlan> {
        self.iter()
            .find(|query| query.name == name)
            .map(|query| &query.plan)
    }

    /// All names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|query| query.name.as_str())
    }

    fn iter(&self) -> impl Iterator<Item = &NamedQuery> {
        std::iter::successors(self.0.as_deref(), |query| query.above.0.as_deref())
    }
}

impl<'a> Binder<'a> {
    /// A binder for a view inside this one's statement.
    pub(super) fn inside_view(&self, hints: &'a Hints) -> Binder<'a> {
        Binder {
            catalog: self.catalog,
            config: self.config,
            connectors: self.connectors,
            hints,
            used_hints: UsedHints::default(),
            view_depth: self.view_depth + 1,
        }
    }

    /// Where a part of the statement begins.
    pub(super) fn place(&self, part: &impl Placed) -> Option<SqlPosition> {
        (self.view_depth == 0).then(|| part.position()).flatten()
    }

    /// Where a dotted name begins.
    pub(super) fn place_of_name(&self, name: &[Ident]) -> Option<SqlPosition> {
        (self.view_depth == 0)
            .then(|| super::catalog::place(name))
            .flatten()
    }

    /// The same for plans and expressions.
    pub(super) fn position(&self, part: &impl Placed) -> Position {
        Position(self.place(part))
    }

    /// A refusal at a part of the statement.
    pub(super) fn unsupported(&self, what: impl std::fmt::Display, part: &impl Placed) -> Error {
        Error::unsupported(what).at(self.place(part))
    }

    /// A refusal of what a later version brings.
    pub(super) fn not_yet(&self, what: impl std::fmt::Display, part: &impl Placed) -> Error {
        Error::user(format!("{what} is not supported yet")).at(self.place(part))
    }

    /// The text of a name; strings and double quotes are no names in Flink.
    pub(super) fn name(&self, ident: &Ident) -> Result<String> {
        match ident.quote_style {
            None | Some('`') => Ok(ident.value.clone()),
            Some(quote) => Err(Error::user(format!(
                "syntax error: {quote}{}{quote} stands where a name must stand",
                ident.value
            ))
            .at(self.place(ident))
            .hint(format!(
                "names are quoted with back-ticks: `{}`",
                ident.value
            ))),
        }
    }

    /// The parts of a dotted name.
    pub(super) fn name_parts(&self, name: &ObjectName) -> Result<Vec<Ident>> {
        name.0
            .iter()
            .map(|part| match part {
                ObjectNamePart::Identifier(ident) => {
                    self.name(ident)?;
                    Ok(ident.clone())
                }
                ObjectNamePart::Function(function) => Err(self.unsupported(
                    format!("a name made by the function {}", function.name),
                    name,
                )),
            })
            .collect()
    }
}
