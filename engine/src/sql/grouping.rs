//! What a grouped query may refer to, and the aggregates that its expressions ask for.
//!
//! While the expressions of SELECT and HAVING are bound, the number of aggregates is not known yet; what stands behind
//! the grouping columns is referred to by indices from [`AGGREGATES`], [`GROUPING_ID`] and [`WINDOW`], which
//! [`Grouping::resolve`] replaces in the end.

use crate::expr::{Expression, Position};
use crate::functions::AggregateCall;
use crate::plan::logical::{Aggregate, LegacyWindow, LogicalPlan, window_columns};
use crate::types::{Field, LogicalType, TimeAttribute, TypeRoot};

use super::projection::{attribute_of, project};

const AGGREGATES: usize = 1 << 40;
const GROUPING_ID: usize = 2 << 40;
const WINDOW: usize = 3 << 40;

/// The GROUP BY of a query, and what is computed by it.
#[derive(Debug, Clone)]
pub(super) struct Grouping {
    /// The grouping expressions over the input, each once.
    expressions: Vec<Expression>,
    /// The columns that they become.
    fields: Vec<Field>,
    /// Each set as positions in `expressions`; a single set holds all.
    sets: Vec<Vec<usize>>,
    /// `GROUP BY TUMBLE(…)` and friends.
    pub(super) legacy: Option<LegacyGroup>,
    requests: Vec<AggregateRequest>,
    /// The names of the aggregates' columns.
    names: Vec<String>,
    /// The name for the next aggregate, where a SELECT item is nothing but one.
    pub(super) next_name: Option<String>,
    /// How long a group is remembered, from a hint.
    pub(super) state_ttl_ms: Option<u64>,
    pub(super) position: Position,
}

/// A legacy group window over the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LegacyGroup {
    pub(super) window: LegacyWindow,
    pub(super) time_field: Field,
}

/// An aggregate over expressions of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AggregateRequest {
    pub(super) function: String,
    pub(super) arguments: Vec<Expression>,
    pub(super) distinct: bool,
    pub(super) filter: Option<Expression>,
    pub(super) logical_type: LogicalType,
}

impl Grouping {
    /// `expressions` over an input with the given `fields`.
    pub(super) fn new(
        expressions: Vec<Expression>,
        sets: Vec<Vec<usize>>,
        legacy: Option<LegacyGroup>,
        input: &[Field],
        position: Position,
    ) -> Self {
        let several = sets.len() > 1;
        let fields = expressions
            .iter()
            .enumerate()
            .map(|(index, expression)| {
                let in_all = sets.iter().all(|set| set.contains(&index));
                group_field(index, expression, several, in_all, input)
            })
            .collect();
        Grouping {
            expressions,
            fields,
            sets,
            legacy,
            requests: vec![],
            names: vec![],
            next_name: None,
            state_ttl_ms: None,
            position,
        }
    }

    /// Whether a grouping expression is more than a column.
    pub(super) fn has_computed(&self) -> bool {
        self.expressions
            .iter()
            .any(|expression| !matches!(expression, Expression::Column { .. }))
    }

    /// The grouping column which an expression over the input is.
    pub(super) fn column_of(&self, expression: &Expression) -> Option<Expression> {
        let index = self.position_of(expression)?;
        let field = &self.fields[index];
        Some(Expression::column(
            index,
            &field.name,
            field.logical_type.clone(),
        ))
    }

    /// Its position among the grouping expressions.
    pub(super) fn position_of(&self, expression: &Expression) -> Option<usize> {
        self.expressions
            .iter()
            .position(|candidate| candidate == expression)
    }

    /// The number of grouping expressions.
    pub(super) fn len(&self) -> usize {
        self.expressions.len()
    }

    /// Whether there is more than one set.
    pub(super) fn has_several_sets(&self) -> bool {
        self.sets.len() > 1
    }

    /// The column of an aggregate; equal ones share it.
    pub(super) fn aggregate(&mut self, request: AggregateRequest) -> Expression {
        let name = self.next_name.take();
        let logical_type = request.logical_type.clone();
        let found = self.requests.iter().position(|other| *other == request);
        let index = found.unwrap_or_else(|| {
            let index = self.requests.len();
            let generated = || format!("$f{}", self.expressions.len() + index);
            self.names.push(name.unwrap_or_else(generated));
            self.requests.push(request);
            index
        });
        Expression::column(AGGREGATES + index, &self.names[index], logical_type)
    }

    /// The column `$e`: one bit a grouping column, set where it is aggregated away.
    pub(super) fn grouping_id(&self) -> Expression {
        Expression::column(GROUPING_ID, "$e", LogicalType::not_null(TypeRoot::BigInt))
    }

    /// Column 0, 1 or 2 of the legacy window: start, end, time.
    pub(super) fn window_column(&self, column: usize) -> Option<Expression> {
        let field = self.window_fields()?.swap_remove(column);
        Some(Expression::column(
            WINDOW + column,
            field.name,
            field.logical_type,
        ))
    }

    fn window_fields(&self) -> Option<Vec<Field>> {
        let legacy = self.legacy.as_ref()?;
        let attribute = if legacy.window.window.time.is_event_time() {
            TimeAttribute::Rowtime
        } else {
            TimeAttribute::Proctime
        };
        let time = legacy.time_field.logical_type.root.clone();
        Some(window_columns(time, attribute))
    }

    /// The same expression over the columns of the aggregate's plan.
    pub(super) fn resolve(&self, expression: Expression) -> Expression {
        let aggregates = self.len();
        let grouping_id = aggregates + self.requests.len();
        let window = grouping_id + usize::from(self.has_several_sets());
        expression.transform(&mut |part| match part {
            Expression::Column {
                index,
                name,
                logical_type,
            } => Expression::Column {
                index: match index {
                    index if index >= super::over::NUMBERS => index, // Resolved later.
                    index if index >= WINDOW => index - WINDOW + window,
                    index if index >= GROUPING_ID => index - GROUPING_ID + grouping_id,
                    index if index >= AGGREGATES => index - AGGREGATES + aggregates,
                    index => index,
                },
                name,
                logical_type,
            },
            other => other,
        })
    }

    /// The aggregate over `input`: below it a projection computes arguments, filters and grouping expressions.
    pub(super) fn into_plan(self, input: LogicalPlan, input_fields: &[Field]) -> LogicalPlan {
        let mut below = Below::default();
        let grouping: Vec<usize> = self
            .expressions
            .iter()
            .zip(&self.fields)
            .map(|(expression, field)| below.add_named(expression.clone(), field.name.clone()))
            .collect();
        let aggregates = self
            .requests
            .into_iter()
            .zip(self.names)
            .map(|(request, name)| below.call(request, name))
            .collect();
        let legacy_window = self.legacy.map(|legacy| LegacyWindow {
            time_column: below.add(Expression::column(
                legacy.window.time_column,
                &legacy.time_field.name,
                legacy.time_field.logical_type.clone(),
            )),
            window: legacy.window.window,
        });
        LogicalPlan::Aggregate(Aggregate {
            input: Box::new(project(input, input_fields, below.columns)),
            grouping,
            grouping_sets: if self.sets.len() > 1 {
                self.sets
            } else {
                vec![]
            },
            aggregates,
            legacy_window,
            state_ttl_ms: self.state_ttl_ms,
            position: self.position,
        })
    }
}

fn group_field(
    index: usize,
    expression: &Expression,
    several: bool,
    in_all: bool,
    input: &[Field],
) -> Field {
    let name = match expression {
        Expression::Column { name, .. } => name.clone(),
        _ => format!("$f{index}"),
    };
    let attribute = attribute_of(expression, input);
    let mut field = Field::new(name, expression.logical_type().clone());
    // A column outside of a set is NULL there; window bounds are in every set.
    field.logical_type.nullable |= several && (attribute.is_none() || !in_all);
    field.with_time_attribute(attribute)
}

/// The columns of the projection below an aggregate, each expression once.
#[derive(Default)]
struct Below {
    columns: Vec<(String, Expression)>,
}

impl Below {
    fn add_named(&mut self, expression: Expression, name: String) -> usize {
        if let Some(index) = self
            .columns
            .iter()
            .position(|(_, other)| *other == expression)
        {
            return index;
        }
        self.columns.push((name, expression));
        self.columns.len() - 1
    }

    fn add(&mut self, expression: Expression) -> usize {
        let name = match &expression {
            Expression::Column { name, .. } => name.clone(),
            _ => format!("$f{}", self.columns.len()),
        };
        self.add_named(expression, name)
    }

    fn call(&mut self, request: AggregateRequest, name: String) -> AggregateCall {
        let argument_types = request
            .arguments
            .iter()
            .map(|argument| argument.logical_type().clone())
            .collect();
        AggregateCall {
            function: request.function,
            arguments: request
                .arguments
                .into_iter()
                .map(|argument| self.add(argument))
                .collect(),
            argument_types,
            distinct: request.distinct,
            filter: request.filter.map(|filter| self.add(filter)),
            logical_type: request.logical_type,
            name,
        }
    }
}
