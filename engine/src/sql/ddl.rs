//! CREATE TABLE and CREATE VIEW: columns, computed columns, watermark and primary key are checked and bound here.

use sqlparser::ast::{Expr, Ident};

use super::binder::{Binder, Environment};
use super::catalog::{CatalogTable, CatalogView, local_name};
use super::expression::ExpressionBinder;
use super::hints::Hints;
use super::query::names_of;
use super::scope::Scope;
use super::statement::{ColumnKind, CreateTable, CreateView, PrimaryKey, Watermark};
use super::suggestion;
use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::functions;
use crate::plan::logical::{ColumnSpec, WatermarkSpec};
use crate::types::{Field, LogicalType, Schema, TimeAttribute, TypeRoot};

impl Binder<'_> {
    /// The table that a CREATE TABLE declares.
    pub(super) fn bind_create_table(&self, create: &CreateTable) -> Result<CatalogTable> {
        let CreateTable {
            temporary: _,
            if_not_exists: _,
            name,
            columns,
            watermarks,
            primary_keys,
            options,
        } = create;
        let names: Vec<&Ident> = columns.iter().map(|column| &column.name).collect();
        self.refuse_duplicates(&names)?;
        let mut specs = self.bind_columns(create)?;
        if specs.iter().all(|column| column.computed.is_some()) {
            return Err(Error::user(format!(
                "table \"{}\" has no column that is stored",
                local_name(name)?
            ))
            .at(self.place_of_name(name)));
        }
        let primary_key = self.bind_primary_key(primary_keys, &mut specs)?;
        let watermark = match &watermarks[..] {
            [] => None,
            [single] => Some(self.bind_watermark(single, &mut specs)?),
            [_, second, ..] => {
                return Err(Error::user("a table has one WATERMARK at most")
                    .at(self.place_of_name(&second.column)));
            }
        };
        let computed_texts = columns
            .iter()
            .enumerate()
            .filter_map(|(index, column)| match &column.kind {
                ColumnKind::Physical(_) => None,
                ColumnKind::Computed(_, text) => Some((index, text.clone())),
            })
            .collect();
        Ok(CatalogTable {
            name: local_name(name)?,
            columns: specs,
            watermark,
            primary_key,
            options: options.clone(),
            computed_texts,
            watermark_text: watermarks.first().map(|watermark| watermark.text.clone()),
        })
    }

    fn refuse_duplicates(&self, names: &[&Ident]) -> Result<()> {
        for (index, name) in names.iter().enumerate() {
            if names[..index].iter().any(|other| other.value == name.value) {
                return Err(
                    Error::user(format!("the column \"{}\" stands twice", name.value))
                        .at(self.place(*name)),
                );
            }
        }
        Ok(())
    }

    /// The columns in order of declaration. A computed column may use any other, wherever that is declared; the expressions of
    /// computed columns among them take their place.
    fn bind_columns(&self, create: &CreateTable) -> Result<Vec<ColumnSpec>> {
        let physical: Vec<Field> = create
            .columns
            .iter()
            .filter_map(|column| match &column.kind {
                ColumnKind::Physical(logical_type) => {
                    Some(Field::new(&column.name.value, logical_type.clone()))
                }
                ColumnKind::Computed(..) => None,
            })
            .collect();
        let mut visible = Computed {
            scope: Scope::of(&Schema::new(physical.clone()), None),
            values: columns_with_values(&physical),
            physical: physical.len(),
        };
        create
            .columns
            .iter()
            .map(|column| match &column.kind {
                ColumnKind::Physical(logical_type) => Ok(ColumnSpec {
                    field: Field::new(&column.name.value, logical_type.clone()),
                    computed: None,
                }),
                ColumnKind::Computed(expr, _) => {
                    self.bind_computed(&column.name, expr, create, &mut visible)
                }
            })
            .collect()
    }

    fn bind_computed(
        &self,
        name: &Ident,
        expr: &Expr,
        create: &CreateTable,
        visible: &mut Computed,
    ) -> Result<ColumnSpec> {
        let bound = ExpressionBinder::plain(self, &visible.scope, "a computed column")
            .bind(expr)
            .map_err(|error| refer_to_computed(error, create))?;
        let value = visible.expand(bound);
        let attribute =
            matches!(&value, Expression::Call { function, .. } if function == "PROCTIME")
                .then_some(TimeAttribute::Proctime);
        let field = Field::new(self.name(name)?, value.logical_type().clone())
            .with_time_attribute(attribute);
        if field.logical_type.root == TypeRoot::Null {
            return Err(Error::user(format!(
                "the computed column \"{}\" has no type",
                field.name
            ))
            .at(self.place(name))
            .hint("cast NULL to a type"));
        }
        visible.add(field.clone(), value.clone());
        Ok(ColumnSpec {
            field,
            computed: Some(value),
        })
    }

    /// The indices of the key among the physical columns, which become NOT NULL.
    fn bind_primary_key(
        &self,
        keys: &[PrimaryKey],
        columns: &mut [ColumnSpec],
    ) -> Result<Vec<usize>> {
        let key = match keys {
            [] => return Ok(vec![]),
            [single] => single,
            [_, second, ..] => {
                return Err(Error::user("a table has one PRIMARY KEY at most").at(second.position));
            }
        };
        self.refuse_duplicates(&key.columns.iter().collect::<Vec<_>>())?;
        let mut indices = Vec::with_capacity(key.columns.len());
        for name in &key.columns {
            let Some(index) = columns
                .iter()
                .position(|column| column.field.name == name.value)
            else {
                let names = columns.iter().map(|column| column.field.name.as_str());
                return Err(Error::user(format!(
                    "the primary key names a column \"{}\" that the table does not have",
                    name.value
                ))
                .at(self.place(name))
                .hint(suggestion::hint(&name.value, "columns", names)));
            };
            if columns[index].computed.is_some() {
                return Err(Error::user(format!(
                    "the primary key names \"{}\", which is a computed column",
                    name.value
                ))
                .at(self.place(name)));
            }
            columns[index].field.logical_type.nullable = false;
            let before = &columns[..index];
            indices.push(
                before
                    .iter()
                    .filter(|column| column.computed.is_none())
                    .count(),
            );
        }
        Ok(indices)
    }

    fn bind_watermark(
        &self,
        watermark: &Watermark,
        columns: &mut [ColumnSpec],
    ) -> Result<WatermarkSpec> {
        let Watermark {
            column: name,
            expression,
            text: _,
        } = watermark;
        let place = self.place_of_name(name);
        let [single] = &name[..] else {
            return Err(Error::user(
                "WATERMARK FOR takes a column of the table, not a field of a ROW",
            )
            .at(place)
            .hint("make it a computed column first: ts AS r.ts, WATERMARK FOR ts AS …"));
        };
        let Some(column) = columns
            .iter()
            .position(|column| column.field.name == single.value)
        else {
            let names = columns.iter().map(|column| column.field.name.as_str());
            return Err(Error::user(format!(
                "WATERMARK FOR names a column \"{}\" that the table does not have",
                single.value
            ))
            .at(place)
            .hint(suggestion::hint(&single.value, "columns", names)));
        };
        let field = &mut columns[column].field;
        if field.time_attribute == Some(TimeAttribute::Proctime) {
            return Err(Error::user(format!(
                "\"{}\" is processing time: it has no watermark",
                field.name
            ))
            .at(place));
        }
        check_event_time(field).map_err(|error| error.at(place))?;
        field.time_attribute = Some(TimeAttribute::Rowtime);
        let target = field.logical_type.clone();
        let schema = Schema::new(columns.iter().map(|column| column.field.clone()).collect());
        let scope = Scope::of(&schema, None);
        let bound = ExpressionBinder::plain(self, &scope, "WATERMARK").bind(expression)?;
        let expression =
            fit_watermark(bound, &target).map_err(|error| error.at(self.place(expression)))?;
        Ok(WatermarkSpec { column, expression })
    }

    /// The view that a CREATE VIEW declares.
    pub(super) fn bind_create_view(
        &self,
        create: &CreateView,
        hints: &Hints,
    ) -> Result<CatalogView> {
        let CreateView {
            temporary: _,
            if_not_exists: _,
            name,
            columns,
            query,
            text,
        } = create;
        let plan = self.bind_query(query, &Environment::default())?;
        let schema = plan.schema();
        let place = self.place_of_name(name);
        if !columns.is_empty() && columns.len() != schema.len() {
            return Err(Error::user(format!(
                "the view names {} columns, but its query has {}",
                columns.len(),
                schema.len()
            ))
            .at(place)
            .hint(format!("the query's columns: {}", names_of(&schema))));
        }
        self.refuse_duplicates(&columns.iter().collect::<Vec<_>>())?;
        let names: Vec<String> = if columns.is_empty() {
            schema.names().map(str::to_string).collect()
        } else {
            columns
                .iter()
                .map(|column| self.name(column))
                .collect::<Result<_>>()?
        };
        if let Some(twice) = names
            .iter()
            .enumerate()
            .find(|(index, name)| names[..*index].contains(name))
        {
            return Err(
                Error::user(format!("the view has two columns \"{}\"", twice.1))
                    .at(place)
                    .hint("name the columns: CREATE VIEW v (a, b) AS …, or give aliases"),
            );
        }
        Ok(CatalogView {
            name: local_name(name)?,
            columns: names,
            text: text.clone(),
            query: query.clone(),
            hints: hints.clone(),
        })
    }
}

/// The columns that computed columns may use, with what each stands for over the physical ones.
struct Computed {
    scope: Scope,
    values: Vec<Expression>,
    physical: usize,
}

impl Computed {
    fn add(&mut self, field: Field, value: Expression) {
        let mut more = Scope::of(&Schema::new(vec![field]), None);
        self.scope.columns.append(&mut more.columns);
        self.values.push(value);
    }

    fn expand(&self, expression: Expression) -> Expression {
        expression.transform(&mut |part| match part {
            Expression::Column { index, .. } if index >= self.physical => {
                self.values[index].clone()
            }
            other => other,
        })
    }
}

fn columns_with_values(fields: &[Field]) -> Vec<Expression> {
    fields
        .iter()
        .enumerate()
        .map(|(index, field)| Expression::column(index, &field.name, field.logical_type.clone()))
        .collect()
}

/// A computed column cannot use one that is computed behind it.
fn refer_to_computed(error: Error, create: &CreateTable) -> Error {
    let later = create.columns.iter().any(|column| {
        matches!(column.kind, ColumnKind::Computed(..))
            && error
                .message()
                .contains(&format!("no column \"{}\"", column.name.value))
    });
    if !later {
        return error;
    }
    let place = error.position();
    Error::user(error.message())
        .at(place)
        .hint("a computed column may use stored columns, and computed columns declared before it")
}

fn check_event_time(field: &Field) -> Result<()> {
    match field.logical_type.root {
        TypeRoot::Timestamp(precision) | TypeRoot::TimestampLtz(precision) if precision <= 3 => {
            Ok(())
        }
        _ => Err(Error::user(format!(
            "the event time \"{}\" is {}: it must be TIMESTAMP(p) or TIMESTAMP_LTZ(p) with p up to 3",
            field.name, field.logical_type
        ))
        .hint(match field.logical_type.root {
            TypeRoot::Timestamp(_) | TypeRoot::TimestampLtz(_) => {
                "declare it with precision 3, or add a computed column: ts AS CAST(x AS TIMESTAMP(3))"
            }
            TypeRoot::BigInt => "add a computed column: ts AS TO_TIMESTAMP_LTZ(millis, 3)",
            _ => "add a computed column: ts AS TO_TIMESTAMP(text)",
        })),
    }
}

/// The watermark as a value of the event-time column's type.
fn fit_watermark(expression: Expression, target: &LogicalType) -> Result<Expression> {
    let found = expression.logical_type().clone();
    let same_kind = matches!(
        (&found.root, &target.root),
        (TypeRoot::Timestamp(_), TypeRoot::Timestamp(_))
            | (TypeRoot::TimestampLtz(_), TypeRoot::TimestampLtz(_))
    );
    if !same_kind {
        return Err(Error::user(format!(
            "the watermark is {found}, but its column is {target}"
        ))
        .hint("as in WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"));
    }
    if expression.calls("PROCTIME") {
        return Err(Error::user("a watermark cannot be processing time"));
    }
    if found.root == target.root {
        return Ok(expression);
    }
    functions::implicit_cast(expression, &target.with_nullable(found.nullable))
}
