//! INSERT INTO: the query's columns go to the sink's by position, cast where Flink casts by itself.

use std::sync::Arc;

use sqlparser::ast::Ident;

use super::binder::Binder;
use super::catalog::{CatalogObject, local_name};
use super::projection::{columns_of, project};
use super::statement;
use super::suggestion;
use crate::error::{Error, Result};
use crate::expr::{Expression, Literal, Position};
use crate::functions;
use crate::plan::logical::{Insert, LogicalPlan, TableSpec};
use crate::types::{Field, Schema, SqlPosition};

impl Binder<'_> {
    pub(super) fn bind_insert(&self, insert: &statement::Insert) -> Result<Insert> {
        let statement::Insert {
            table: name,
            columns,
            query,
            on_conflict,
        } = insert;
        let table = self.sink(name)?;
        let sink = table.sink_schema();
        let targets = self.targets(&table, &sink, columns)?;
        let plan = self.bind_statement_query(query)?;
        let place = self.place_of_name(name);
        let items = self.match_columns(&table, &sink, &targets, &plan, place)?;
        let fields = plan.schema().fields;
        Ok(Insert {
            query: project(plan, &fields, items),
            table: Arc::new(table),
            on_conflict: *on_conflict,
            position: Position(place),
        })
    }

    fn sink(&self, name: &[Ident]) -> Result<TableSpec> {
        let key = local_name(name)?;
        match self.catalog.find(&key) {
            Some(CatalogObject::Table(table)) => self.table_spec(table, name),
            Some(CatalogObject::View(_)) => Err(Error::user(format!(
                "\"{key}\" is a view: INSERT INTO writes to tables"
            ))
            .at(self.place_of_name(name))),
            None => Err(Error::user(format!("there is no table \"{key}\""))
                .at(self.place_of_name(name))
                .hint(suggestion::hint(
                    &key,
                    "tables",
                    self.catalog.table_names().iter().map(String::as_str),
                ))),
        }
    }

    /// For each sink column the query's column, if it has one.
    fn targets(
        &self,
        table: &TableSpec,
        sink: &Schema,
        columns: &[Ident],
    ) -> Result<Vec<Option<usize>>> {
        if columns.is_empty() {
            return Ok((0..sink.len()).map(Some).collect());
        }
        let mut targets = vec![None; sink.len()];
        for (position, column) in columns.iter().enumerate() {
            let name = self.name(column)?;
            let Some(index) = sink.index_of(&name) else {
                return Err(self.no_target(table, sink, &name, column));
            };
            if targets[index].replace(position).is_some() {
                return Err(
                    Error::user(format!("column \"{name}\" stands twice")).at(self.place(column))
                );
            }
        }
        for (field, target) in sink.fields.iter().zip(&targets) {
            if target.is_none() && !field.logical_type.nullable {
                return Err(Error::user(format!(
                    "column \"{}\" of \"{}\" is NOT NULL, so INSERT INTO must name it",
                    field.name, table.descriptor.name
                ))
                .at(self.place(&columns[0])));
            }
        }
        Ok(targets)
    }

    fn no_target(&self, table: &TableSpec, sink: &Schema, name: &str, column: &Ident) -> Error {
        let computed = table
            .columns
            .iter()
            .any(|column| column.field.name == name && column.computed.is_some());
        let message = if computed {
            format!("column \"{name}\" is computed and cannot be written")
        } else {
            format!(
                "there is no column \"{name}\" in \"{}\"",
                table.descriptor.name
            )
        };
        Error::user(message)
            .at(self.place(column))
            .hint(suggestion::hint(name, "columns", sink.names()))
    }

    fn match_columns(
        &self,
        table: &TableSpec,
        sink: &Schema,
        targets: &[Option<usize>],
        plan: &LogicalPlan,
        place: Option<SqlPosition>,
    ) -> Result<Vec<(String, Expression)>> {
        let query = plan.schema();
        let wanted = targets.iter().flatten().count();
        let both = || {
            format!(
                "query: [{}]; sink: [{}]",
                described(&query),
                described(sink)
            )
        };
        if query.len() != wanted {
            return Err(Error::user(format!(
                "the query gives {} columns, but \"{}\" takes {wanted}",
                query.len(),
                table.descriptor.name
            ))
            .at(place)
            .hint(both()));
        }
        let columns = columns_of(&query);
        sink.fields
            .iter()
            .zip(targets)
            .map(|(field, target)| {
                let value = match target {
                    None => Expression::literal(Literal::Null, field.logical_type.clone()),
                    Some(position) => {
                        let (name, column) = columns[*position].clone();
                        cast_for(column, field).map_err(|error| {
                            Error::user(format!(
                                "column {} of the query (\"{name}\", {}) does not fit column \"{}\" ({}) of \"{}\"",
                                position + 1,
                                query.fields[*position].logical_type,
                                field.name,
                                field.logical_type,
                                table.descriptor.name
                            ))
                            .at(place)
                            .context(error.message().to_string())
                            .hint(format!("cast it: CAST({name} AS {}); {}", field.logical_type.root, both()))
                        })?
                    }
                };
                Ok((field.name.clone(), value))
            })
            .collect()
    }
}

/// Whether NULL fits is asked of each row at run time.
fn cast_for(column: Expression, field: &Field) -> Result<Expression> {
    let target = field
        .logical_type
        .with_nullable(column.logical_type().nullable);
    functions::implicit_cast(column, &target)
}

/// `a INT, b STRING NOT NULL`.
fn described(schema: &Schema) -> String {
    schema
        .fields
        .iter()
        .map(|field| format!("{} {}", field.name, field.logical_type))
        .collect::<Vec<_>>()
        .join(", ")
}
