//! INTERSECT and EXCEPT as joins and aggregations.
//!
//! Without ALL they are the distinct rows of a semi or an anti join on all columns, in which NULLs are equal. With ALL, rows of
//! both sides are counted together, and each distinct row is given as often as the counts say.

use crate::expr::{Expression, Literal};
use crate::functions::AggregateCall;
use crate::plan::logical::{
    Aggregate, Join, JoinKind, LogicalPlan, Project, SetOperation, SetOperationKind, Union, Unnest,
};
use crate::plan::relation::column_of;
use crate::plan::row_logic::conjunction;
use crate::types::{Field, LogicalType, Schema, TypeRoot};

/// Applies the rule to one node.
pub(super) fn rewrite(plan: LogicalPlan) -> LogicalPlan {
    match plan {
        LogicalPlan::SetOperation(operation) if operation.all => counted(operation),
        LogicalPlan::SetOperation(operation) => joined(operation),
        other => other,
    }
}

fn joined(operation: SetOperation) -> LogicalPlan {
    let columns = operation.schema.len();
    let (left, right) = (operation.left.schema(), operation.right.schema());
    let equal = |column: usize| {
        let sides = vec![
            column_of(&left, column),
            crate::plan::row_logic::reindex(&column_of(&right, column), &|at| at + columns),
        ];
        let boolean = LogicalType::not_null(TypeRoot::Boolean);
        Expression::call("IS NOT DISTINCT FROM", sides, boolean)
    };
    let condition = conjunction((0..columns).map(equal)).unwrap_or_else(Expression::always_true);
    let join = LogicalPlan::Join(Join {
        left: operation.left,
        right: operation.right,
        kind: match operation.kind {
            SetOperationKind::Intersect => JoinKind::Semi,
            SetOperationKind::Except => JoinKind::Anti,
        },
        condition,
        as_of: None,
        state_ttl_ms: [None; 2],
        lookup_hint: None,
        multi_join: false,
        position: operation.position,
    });
    let distinct = LogicalPlan::Aggregate(Aggregate {
        input: Box::new(join),
        grouping: (0..columns).collect(),
        grouping_sets: vec![],
        aggregates: vec![],
        legacy_window: None,
        state_ttl_ms: None,
        position: operation.position,
    });
    first_columns(distinct, &operation.schema)
}

/// Marks rows of the left side with (1, 0), those of the right side with (0, 1), adds the marks up, and gives each row as
/// often as the smaller sum says (INTERSECT), or their difference (EXCEPT).
fn counted(operation: SetOperation) -> LogicalPlan {
    let columns = operation.schema.len();
    let schema = marked_schema(&operation.schema);
    let union = LogicalPlan::Union(Union {
        inputs: vec![
            marked(*operation.left, &schema, [1, 0]),
            marked(*operation.right, &schema, [0, 1]),
        ],
        schema: schema.clone(),
    });
    let sum = |column: usize| AggregateCall {
        function: "$SUM0".to_string(),
        arguments: vec![column],
        argument_types: vec![count_type()],
        distinct: false,
        filter: None,
        logical_type: count_type(),
        name: schema.fields[column].name.clone(),
    };
    let sums = LogicalPlan::Aggregate(Aggregate {
        input: Box::new(union),
        grouping: (0..columns).collect(),
        grouping_sets: vec![],
        aggregates: vec![sum(columns), sum(columns + 1)],
        legacy_window: None,
        state_ttl_ms: None,
        position: operation.position,
    });
    let (left, right) = (column_of(&schema, columns), column_of(&schema, columns + 1));
    let copies = match operation.kind {
        SetOperationKind::Except => Expression::call("-", vec![left, right], count_type()),
        SetOperationKind::Intersect => {
            let boolean = LogicalType::not_null(TypeRoot::Boolean);
            let less = Expression::call("<", vec![left.clone(), right.clone()], boolean);
            Expression::call("CASE", vec![less, left, right], count_type())
        }
    };
    replicated(sums, copies, &operation.schema)
}

fn replicated(input: LogicalPlan, copies: Expression, schema: &Schema) -> LogicalPlan {
    let element = LogicalType::not_null(TypeRoot::Boolean);
    let array = LogicalType::not_null(TypeRoot::Array(Box::new(element.clone())));
    let mut fields = input.schema().fields;
    fields.push(Field::new("$copy", element));
    let unnest = LogicalPlan::Unnest(Unnest {
        collection: Expression::call("$REPLICATE", vec![copies], array),
        input: Box::new(input),
        with_ordinality: false,
        outer: false,
        schema: Schema::new(fields),
    });
    first_columns(unnest, schema)
}

fn count_type() -> LogicalType {
    LogicalType::not_null(TypeRoot::BigInt)
}

fn marked_schema(schema: &Schema) -> Schema {
    let mut fields = schema.fields.clone();
    fields.push(Field::new("$left", count_type()));
    fields.push(Field::new("$right", count_type()));
    Schema::new(fields)
}

fn marked(input: LogicalPlan, schema: &Schema, marks: [i64; 2]) -> LogicalPlan {
    let own = input.schema();
    let mut expressions: Vec<Expression> = (0..own.len())
        .map(|column| column_of(&own, column))
        .collect();
    expressions.extend(marks.map(|mark| Expression::literal(Literal::Integer(mark), count_type())));
    LogicalPlan::Project(Project {
        input: Box::new(input),
        expressions,
        schema: schema.clone(),
    })
}

/// The first columns, under the names and types of `schema`.
fn first_columns(input: LogicalPlan, schema: &Schema) -> LogicalPlan {
    let own = input.schema();
    LogicalPlan::Project(Project {
        expressions: (0..schema.len())
            .map(|column| column_of(&own, column))
            .collect(),
        input: Box::new(input),
        schema: schema.clone(),
    })
}
