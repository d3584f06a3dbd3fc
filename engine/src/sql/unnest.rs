//! UNNEST: a row for each element of a collection, which may be a column of a table to its left.

use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, TableAlias, TableFactor};

use super::binder::Binder;
use super::expression::ExpressionBinder;
use super::scope::{Relation, Scope, ScopeColumn};
use crate::error::{Error, Result};
use crate::plan::logical::{LogicalPlan, Unnest};
use crate::types::{Field, LogicalType, Schema, SqlPosition, TypeRoot};

/// `UNNEST(collection) [WITH ORDINALITY] [AS t (a, b)]`.
pub(super) struct UnnestCall<'e> {
    collection: &'e Expr,
    with_ordinality: bool,
    alias: Option<&'e TableAlias>,
    pub(super) place: Option<SqlPosition>,
}

impl Binder<'_> {
    /// The UNNEST that a factor is, if it is one: to the grammar it is a table with arguments.
    pub(super) fn as_unnest<'e>(&self, factor: &'e TableFactor) -> Result<Option<UnnestCall<'e>>> {
        let TableFactor::Table {
            name,
            alias,
            args: Some(args),
            with_hints,
            version: None,
            with_ordinality,
            partitions,
            json_path: None,
            sample: None,
            index_hints,
        } = factor
        else {
            return Ok(None);
        };
        if !name.to_string().eq_ignore_ascii_case("UNNEST") {
            return Ok(None);
        }
        let place = self.place(name);
        if !with_hints.is_empty()
            || !partitions.is_empty()
            || !index_hints.is_empty()
            || args.settings.is_some()
        {
            return Err(Error::unsupported("this form of UNNEST").at(place));
        }
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(collection))] = &args.args[..] else {
            return Err(Error::user("UNNEST takes one collection").at(place));
        };
        Ok(Some(UnnestCall {
            collection,
            with_ordinality: *with_ordinality,
            alias: alias.as_ref(),
            place,
        }))
    }

    /// The rows of `left`, each repeated for every element. `outer` keeps rows without elements.
    pub(super) fn bind_unnest(
        &self,
        left: Relation,
        unnest: &UnnestCall,
        outer: bool,
    ) -> Result<Relation> {
        let collection =
            ExpressionBinder::plain(self, &left.scope, "UNNEST").bind(unnest.collection)?;
        let mut fields = element_fields(collection.logical_type()).ok_or_else(|| {
            Error::user(format!(
                "UNNEST takes an ARRAY, MAP or MULTISET, not {}",
                collection.logical_type()
            ))
            .at(self.place(unnest.collection))
        })?;
        let single = fields.len() == 1;
        if unnest.with_ordinality {
            fields.push(Field::new(
                "ORDINALITY",
                LogicalType::not_null(TypeRoot::Int),
            ));
        }
        for field in &mut fields {
            field.logical_type.nullable |= outer;
        }
        let mut names = Scope::of(&Schema::new(fields), None);
        if let Some(alias) = unnest.alias {
            let table = self.name(&alias.name)?;
            let columns = self.alias_columns(alias)?;
            self.apply_names(&mut names, 0, &table, &columns, &alias.name)?;
            if columns.is_empty() && single && !unnest.with_ordinality {
                // A single column without a name of its own is named like its table.
                names.columns[0].field.name = table;
            }
        }
        let position = crate::expr::Position(unnest.place);
        let scope = self.joined_scope(&left.scope, &names, position)?;
        let field = |column: &ScopeColumn| column.field.clone();
        let schema = Schema::new(
            left.plan
                .schema()
                .fields
                .into_iter()
                .chain(names.columns.iter().map(field))
                .collect(),
        );
        let plan = LogicalPlan::Unnest(Unnest {
            input: Box::new(left.plan),
            collection,
            with_ordinality: unnest.with_ordinality,
            outer,
            schema,
        });
        Ok(Relation { plan, scope })
    }
}

/// The columns of an element: the fields of a ROW, key and value of a MAP, else one.
fn element_fields(collection: &LogicalType) -> Option<Vec<Field>> {
    match &collection.root {
        TypeRoot::Array(element) | TypeRoot::Multiset(element) => Some(match &element.root {
            TypeRoot::Row(fields) => fields
                .iter()
                .map(|field| {
                    let nullable = field.logical_type.nullable || element.nullable;
                    Field::new(&field.name, field.logical_type.with_nullable(nullable))
                })
                .collect(),
            _ => vec![Field::new("EXPR$0", element.as_ref().clone())],
        }),
        TypeRoot::Map(key, value) => Some(vec![
            Field::new("KEY", key.as_ref().clone()),
            Field::new("VALUE", value.as_ref().clone()),
        ]),
        _ => None,
    }
}
