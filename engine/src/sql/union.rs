//! UNION ALL: the branches' columns are brought to common types by position.

use sqlparser::ast::{SetExpr, SetOperator, SetQuantifier};

use super::binder::{Binder, Environment};
use super::projection::{columns_of, project};
use super::query::names_of;
use crate::error::{Error, Result};
use crate::functions;
use crate::plan::logical::{LogicalPlan, Union};
use crate::types::{Field, LogicalType, Schema};

impl Binder<'_> {
    pub(super) fn bind_union(
        &self,
        left: &SetExpr,
        right: &SetExpr,
        environment: &Environment,
    ) -> Result<LogicalPlan> {
        let mut branches = Vec::new();
        collect(left, &mut branches);
        branches.push(right);
        let (inputs, fields) = self.bind_branches("UNION ALL", &branches, environment)?;
        Ok(LogicalPlan::Union(Union {
            inputs,
            schema: Schema::new(fields),
        }))
    }

    /// The branches of the set operation `name`, their columns cast to common types; and those columns.
    pub(super) fn bind_branches(
        &self,
        name: &str,
        branches: &[&SetExpr],
        environment: &Environment,
    ) -> Result<(Vec<LogicalPlan>, Vec<Field>)> {
        let inputs = branches
            .iter()
            .map(|branch| self.bind_body(branch, environment))
            .collect::<Result<Vec<_>>>()?;
        let schemas: Vec<Schema> = inputs.iter().map(LogicalPlan::schema).collect();
        for (branch, schema) in branches.iter().zip(&schemas) {
            if schema.len() != schemas[0].len() {
                return Err(Error::user(format!(
                    "the branches of {name} have {} and {} columns",
                    schemas[0].len(),
                    schema.len()
                ))
                .at(self.place(*branch))
                .hint(format!(
                    "first: {}; here: {}",
                    names_of(&schemas[0]),
                    names_of(schema)
                )));
            }
        }
        let fields = (0..schemas[0].len())
            .map(|column| self.common_field(name, column, &schemas, branches))
            .collect::<Result<Vec<_>>>()?;
        let inputs = inputs
            .into_iter()
            .zip(&schemas)
            .map(|(input, schema)| cast_to(input, schema, &fields))
            .collect::<Result<Vec<_>>>()?;
        Ok((inputs, fields))
    }

    /// The first branch's name, the common type, and a time attribute where all branches have the same.
    fn common_field(
        &self,
        name: &str,
        column: usize,
        schemas: &[Schema],
        branches: &[&SetExpr],
    ) -> Result<Field> {
        let fields: Vec<&Field> = schemas
            .iter()
            .map(|schema| &schema.fields[column])
            .collect();
        let types: Vec<LogicalType> = fields
            .iter()
            .map(|field| field.logical_type.clone())
            .collect();
        let Some(common) = functions::common_type(&types) else {
            let odd = (1..types.len())
                .find(|index| functions::common_type(&types[..=*index]).is_none())
                .unwrap_or(0);
            return Err(Error::user(format!(
                "column {} (\"{}\") of {name} is {} in the first branch and {} here",
                column + 1,
                fields[0].name,
                types[0],
                types[odd]
            ))
            .at(self.place(branches[odd]))
            .hint("cast one of them"));
        };
        let nullable = types.iter().any(|logical_type| logical_type.nullable);
        let attribute = fields[0].time_attribute.filter(|attribute| {
            fields.iter().all(|field| {
                field.time_attribute == Some(*attribute) && field.logical_type.root == common.root
            })
        });
        Ok(Field::new(&fields[0].name, common.with_nullable(nullable))
            .with_time_attribute(attribute))
    }
}

/// The branches of nested UNION ALLs, from left to right.
fn collect<'e>(body: &'e SetExpr, branches: &mut Vec<&'e SetExpr>) {
    match body {
        SetExpr::SetOperation {
            left,
            op: SetOperator::Union,
            set_quantifier: SetQuantifier::All,
            right,
        } => {
            collect(left, branches);
            branches.push(right);
        }
        other => branches.push(other),
    }
}

fn cast_to(input: LogicalPlan, schema: &Schema, fields: &[Field]) -> Result<LogicalPlan> {
    let items = columns_of(schema)
        .into_iter()
        .zip(fields)
        .map(|((name, column), field)| {
            let nullable = column.logical_type().nullable;
            let target = field.logical_type.with_nullable(nullable);
            Ok((name, functions::implicit_cast(column, &target)?))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(project(input, &schema.fields, items))
}
