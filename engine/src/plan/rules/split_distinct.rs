//! Distinct aggregates of hot keys: first by key and bucket of the distinct value, then by key.
//!
//! With mini-batch and `table.optimizer.distinct-agg.split.enabled`. A value belongs to one bucket, so what is distinct within
//! the buckets of a key is distinct in all; counts are added up, sums too, and of the smallest and greatest the best
//! stays. It is left out where distinct aggregates speak of several columns, or an aggregate cannot be made of those of its
//! buckets.

use crate::error::Result;
use crate::expr::{Expression, Literal};
use crate::functions::{AggregateCall, bind_scalar};
use crate::plan::exec_node::{ExecNodeKind, NodeId};
use crate::plan::nodes::{CalcNode, GroupAggregateSpec};
use crate::plan::physical::Planner;
use crate::plan::relation::column_of;
use crate::types::{Field, LogicalType, Schema, TypeRoot};

impl Planner<'_> {
    /// The aggregation over a node, in two levels where it is to be split.
    pub(super) fn split_group_aggregate(
        &mut self,
        input: NodeId,
        spec: GroupAggregateSpec,
    ) -> Result<NodeId> {
        let wanted = self.config.boolean("table.exec.mini-batch.enabled")
            && self
                .config
                .boolean("table.optimizer.distinct-agg.split.enabled");
        let (true, Some(value)) = (wanted, distinct_value(&spec)) else {
            return Ok(self.group_aggregate_phases(input, spec));
        };
        let buckets = self
            .config
            .integer("table.optimizer.distinct-agg.split.bucket-num");
        let with_bucket = self.add_bucket(input, value, buckets)?;
        let bucket = self.builder.node(with_bucket).schema.len() - 1;
        let mut by_bucket = spec.clone();
        by_bucket.grouping.push(bucket);
        let partial = self.group_aggregate_phases(with_bucket, by_bucket);
        let keys = spec.grouping.len();
        let partial_schema = self.builder.node(partial).schema.clone();
        let calls = spec.aggregates.into_iter().enumerate();
        let whole = GroupAggregateSpec {
            grouping: (0..keys).collect(),
            aggregates: calls
                .map(|(index, call)| of_buckets(call, keys + 1 + index, &partial_schema))
                .collect(),
            state_ttl_ms: spec.state_ttl_ms,
        };
        Ok(self.group_aggregate_phases(partial, whole))
    }

    /// All columns, then the bucket of `value`.
    fn add_bucket(&mut self, input: NodeId, value: usize, buckets: i64) -> Result<NodeId> {
        let schema = self.builder.node(input).schema.clone();
        let code = bind_scalar("HASH_CODE", vec![column_of(&schema, value)], None)?;
        let number = LogicalType::not_null(TypeRoot::Int);
        let buckets = Expression::literal(Literal::Integer(buckets), number);
        let bucket = bind_scalar("MOD", vec![code, buckets], None)?;
        let mut projection: Vec<Expression> =
            (0..schema.len()).map(|at| column_of(&schema, at)).collect();
        let mut fields = schema.fields;
        fields.push(Field::new("$bucket", bucket.logical_type().clone()));
        projection.push(bucket);
        let kind = ExecNodeKind::Calc(CalcNode {
            projection,
            condition: None,
        });
        Ok(self.builder.add(kind, vec![input], Schema::new(fields)))
    }
}

/// The column whose distinct values are split: the only one of all distinct aggregates, where the others allow it.
fn distinct_value(spec: &GroupAggregateSpec) -> Option<usize> {
    let mut distinct = spec.aggregates.iter().filter(|call| call.distinct);
    let [value] = distinct.next()?.arguments[..] else {
        return None;
    };
    let is_split = |call: &AggregateCall| {
        let function = call.function.as_str();
        let adds_up = matches!(function, "COUNT" | "SUM" | "$SUM0" | "MIN" | "MAX");
        adds_up && (!call.distinct || call.arguments == [value])
    };
    spec.aggregates.iter().all(is_split).then_some(value)
}

/// The aggregate over those of the buckets, which are in a column.
fn of_buckets(call: AggregateCall, column: usize, partials: &Schema) -> AggregateCall {
    AggregateCall {
        function: match call.function.as_str() {
            "COUNT" => "$SUM0".to_string(),
            function => function.to_string(),
        },
        arguments: vec![column],
        argument_types: vec![partials.fields[column].logical_type.clone()],
        distinct: false,
        filter: None,
        ..call
    }
}
