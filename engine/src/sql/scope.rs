//! The names that an expression may use: the columns of a FROM clause, each with the table that it comes from.

use sqlparser::ast::{Ident, Query};

use super::suggestion;
use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::plan::logical::LogicalPlan;
use crate::types::{Field, Schema, SqlPosition};

/// The columns of a plan with the names under which they can be reached, in the order of the plan's schema.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    pub(super) columns: Vec<ScopeColumn>,
    /// Columns that USING made one of two.
    pub(super) merged: Vec<MergedColumn>,
    /// Where the columns of a correlated subquery begin; those before belong to the query around it.
    pub(super) inner_from: usize,
    /// The values of scalar subqueries, over the scope's columns.
    pub(super) scalars: Vec<(Query, Expression)>,
}

/// A column with the name or alias of its table.
#[derive(Debug, Clone)]
pub(super) struct ScopeColumn {
    pub(super) qualifier: Option<String>,
    pub(super) field: Field,
    /// Not reachable, and not part of `*`.
    pub(super) hidden: bool,
}

/// One column for two of equal name, from `JOIN … USING (name)`.
#[derive(Debug, Clone)]
pub(super) struct MergedColumn {
    pub(super) name: String,
    /// Its value, over the scope's columns.
    pub(super) expression: Expression,
    /// The columns that it stands for.
    pub(super) columns: Vec<usize>,
}

/// A plan and the names of its columns.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    pub(super) plan: LogicalPlan,
    pub(super) scope: Scope,
}

impl Relation {
    /// A plan whose columns belong to the named table.
    pub(super) fn new(plan: LogicalPlan, qualifier: Option<String>) -> Self {
        let scope = Scope::of(&plan.schema(), qualifier);
        Relation { plan, scope }
    }
}

impl Scope {
    /// All columns of a schema, under one table name.
    pub(super) fn of(schema: &Schema, qualifier: Option<String>) -> Self {
        let column = |field: &Field| ScopeColumn {
            qualifier: qualifier.clone(),
            field: field.clone(),
            hidden: false,
        };
        Scope {
            columns: schema.fields.iter().map(column).collect(),
            ..Scope::default()
        }
    }

    /// The columns of both sides of a join.
    pub(super) fn join(left: &Scope, right: &Scope) -> Scope {
        let shift = left.columns.len();
        let moved = right.merged.iter().map(|merged| MergedColumn {
            name: merged.name.clone(),
            expression: shifted(merged.expression.clone(), shift as isize),
            columns: merged.columns.iter().map(|column| column + shift).collect(),
        });
        Scope {
            columns: [&left.columns[..], &right.columns[..]].concat(),
            merged: left.merged.iter().cloned().chain(moved).collect(),
            inner_from: 0,
            scalars: left.scalars.clone(),
        }
    }

    /// The value of a scalar subquery that has been joined.
    pub(super) fn scalar(&self, subquery: &Query) -> Option<Expression> {
        let known = self.scalars.iter().find(|(known, _)| known == subquery);
        known.map(|(_, value)| value.clone())
    }

    /// The columns that a correlated subquery sees: its own first, then those of the query around it.
    pub(super) fn correlated(outer: &Scope, inner: &Scope) -> Scope {
        Scope {
            inner_from: outer.columns.len(),
            ..Scope::join(outer, inner)
        }
    }

    /// The column at an index.
    pub(super) fn column(&self, index: usize) -> Expression {
        let field = &self.columns[index].field;
        Expression::column(index, &field.name, field.logical_type.clone())
    }

    /// Resolves the front of a dotted name, and says how many parts it took; the rest are fields of a ROW.
    pub(super) fn resolve(
        &self,
        parts: &[Ident],
        place: Option<SqlPosition>,
    ) -> Result<(Expression, usize)> {
        for range in self.levels() {
            for taken in (1..=parts.len()).rev().filter(|taken| *taken <= 4) {
                if let Some(found) = self.find(&parts[..taken], range.clone(), place)? {
                    return Ok((found, taken));
                }
            }
        }
        Err(self.unknown(parts, place))
    }

    fn levels(&self) -> Vec<std::ops::Range<usize>> {
        if self.inner_from == 0 {
            return std::iter::once(0..self.columns.len()).collect();
        }
        vec![self.inner_from..self.columns.len(), 0..self.inner_from]
    }

    fn find(
        &self,
        parts: &[Ident],
        range: std::ops::Range<usize>,
        place: Option<SqlPosition>,
    ) -> Result<Option<Expression>> {
        let (name, qualifier) = parts.split_last().expect("a name has a part");
        if !is_qualifier(qualifier) {
            return Ok(None);
        }
        let qualifier = qualifier.last().map(|part| part.value.as_str());
        if qualifier.is_none()
            && let Some(merged) = self.merged_column(&name.value, &range)
        {
            return Ok(Some(merged.expression.clone()));
        }
        let found: Vec<usize> = range
            .filter(|index| self.matches(*index, qualifier, &name.value))
            .collect();
        match found[..] {
            [] => Ok(None),
            [only] => Ok(Some(self.column(only))),
            [first, second, ..] => Err(self.ambiguous(&name.value, first, second).at(place)),
        }
    }

    fn merged_column(&self, name: &str, range: &std::ops::Range<usize>) -> Option<&MergedColumn> {
        self.merged.iter().find(|merged| {
            merged.name == name && merged.columns.iter().all(|column| range.contains(column))
        })
    }

    fn matches(&self, index: usize, qualifier: Option<&str>, name: &str) -> bool {
        let column = &self.columns[index];
        !column.hidden
            && column.field.name == name
            && qualifier.is_none_or(|qualifier| column.qualifier.as_deref() == Some(qualifier))
    }

    fn ambiguous(&self, name: &str, first: usize, second: usize) -> Error {
        let table = |index: usize| {
            self.columns[index]
                .qualifier
                .as_deref()
                .unwrap_or("a subquery without a name")
        };
        Error::user(format!(
            "column \"{name}\" is ambiguous: it is in {} and in {}",
            table(first),
            table(second)
        ))
        .hint(format!("write {}.{name}", table(first)))
    }

    fn unknown(&self, parts: &[Ident], place: Option<SqlPosition>) -> Error {
        let first = parts[0].value.as_str();
        let of_table: Vec<&str> = self
            .visible()
            .filter(|column| column.qualifier.as_deref() == Some(first))
            .map(|column| column.field.name.as_str())
            .collect();
        if parts.len() > 1 && !of_table.is_empty() {
            let name = parts[1].value.as_str();
            return Error::user(format!("there is no column \"{name}\" in \"{first}\""))
                .at(place)
                .hint(suggestion::hint(name, "columns", of_table));
        }
        let error = if parts.len() > 1 {
            Error::user(format!("there is no table or column \"{first}\" here"))
        } else {
            Error::user(format!("there is no column \"{first}\" here"))
        };
        let mut names: Vec<&str> = self
            .visible()
            .map(|column| column.field.name.as_str())
            .collect();
        if parts.len() > 1 {
            names.extend(
                self.visible()
                    .filter_map(|column| column.qualifier.as_deref()),
            );
            names.sort_unstable();
        }
        error
            .at(place)
            .hint(suggestion::hint(first, "columns", names))
    }

    fn visible(&self) -> impl Iterator<Item = &ScopeColumn> {
        self.columns.iter().filter(|column| !column.hidden)
    }

    /// The columns that `*` stands for, or `qualifier.*`.
    pub(super) fn wildcard(&self, qualifier: Option<&str>) -> Vec<(String, Expression)> {
        if let Some(qualifier) = qualifier {
            return self
                .visible_indices()
                .filter(|index| self.columns[*index].qualifier.as_deref() == Some(qualifier))
                .map(|index| (self.columns[index].field.name.clone(), self.column(index)))
                .collect();
        }
        let merged = self
            .merged
            .iter()
            .map(|merged| (merged.name.clone(), merged.expression.clone()));
        let is_merged = |index: &usize| {
            self.merged
                .iter()
                .any(|merged| merged.columns.contains(index))
        };
        let others = self
            .visible_indices()
            .filter(|index| !is_merged(index))
            .map(|index| (self.columns[index].field.name.clone(), self.column(index)));
        merged.chain(others).collect()
    }

    fn visible_indices(&self) -> impl Iterator<Item = usize> {
        (0..self.columns.len()).filter(|index| !self.columns[*index].hidden)
    }

    /// Whether a table of this name is here.
    pub(super) fn has_table(&self, name: &str) -> bool {
        self.columns
            .iter()
            .any(|column| column.qualifier.as_deref() == Some(name))
    }

    /// The names of the tables, each once.
    pub(super) fn tables(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .columns
            .iter()
            .filter_map(|column| column.qualifier.as_deref())
            .collect();
        names.dedup();
        names
    }
}

/// What may stand before a column's name: nothing, a table, or a table with database and catalog.
fn is_qualifier(parts: &[Ident]) -> bool {
    use super::catalog::{CATALOG, DATABASE};
    match parts {
        [] | [_] => true,
        [database, _] => database.value == DATABASE,
        [catalog, database, _] => catalog.value == CATALOG && database.value == DATABASE,
        _ => false,
    }
}

/// The expression with every column moved by `by`.
pub(super) fn shifted(expression: Expression, by: isize) -> Expression {
    expression.transform(&mut |part| match part {
        Expression::Column {
            index,
            name,
            logical_type,
        } => Expression::Column {
            index: index
                .checked_add_signed(by)
                .expect("a column moves within its row"),
            name,
            logical_type,
        },
        other => other,
    })
}
