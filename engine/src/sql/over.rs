//! Calls with OVER: collected while expressions are bound, planned below the projection.
//!
//! ROW_NUMBER becomes a node of its own, since a bound on it makes a Top-N; all other calls share one window, as in Flink.

use sqlparser::ast::{
    Expr, NamedWindowDefinition, NamedWindowExpr, OrderByExpr, OrderByOptions, WindowFrame,
    WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};

use super::binder::Binder;
use super::expression::{ExpressionBinder, shortened};
use super::function_call::Call;
use super::grouping::AggregateRequest;
use super::projection::{columns_of, project};
use super::suggestion;
use crate::error::{Error, Result};
use crate::expr::{Expression, Literal, Position};
use crate::functions::{self, AggregateCall};
use crate::plan::logical::{LogicalPlan, Over, OverFrame, RowNumber};
use crate::types::{Field, LogicalType, Schema, SortKey, TypeRoot};

/// Columns of row numbers are referred to from here on until [`OverCalls::resolve`].
pub(super) const NUMBERS: usize = 4 << 40;
/// The same for the results of all other calls.
const RESULTS: usize = 5 << 40;

/// How many windows of a WINDOW clause may refer to each other.
const MAX_REFERENCES: usize = 64;

/// The calls with OVER of one SELECT.
#[derive(Debug, Default)]
pub(super) struct OverCalls {
    /// The WINDOW clause.
    named: Vec<NamedWindowDefinition>,
    numbers: Vec<NumberCall>,
    /// All calls but ROW_NUMBER, with their names.
    calls: Vec<(AggregateRequest, String)>,
    /// The window of all of these.
    window: Option<Window>,
    /// The name for the next number, where a SELECT item is nothing but one.
    pub(super) next_name: Option<String>,
    /// How many columns stand before the first number, once planned.
    base: usize,
}

#[derive(Debug, PartialEq)]
struct NumberCall {
    partition_by: Vec<Expression>,
    order_by: Vec<Order>,
    name: String,
    position: Position,
}

/// The window of calls.
#[derive(Debug)]
struct Window {
    partition_by: Vec<Expression>,
    order_by: Vec<Order>,
    frame: OverFrame,
    position: Position,
}

#[derive(Debug, Clone, PartialEq)]
struct Order {
    expression: Expression,
    descending: bool,
    nulls_first: bool,
}

/// The clauses of a window, its references to named ones followed.
#[derive(Clone, Copy, Default)]
struct Clauses<'a> {
    partition_by: &'a [Expr],
    order_by: &'a [OrderByExpr],
    frame: Option<&'a WindowFrame>,
}

impl ExpressionBinder<'_> {
    pub(super) fn bind_over(&mut self, call: &Call, over: &WindowType) -> Result<Expression> {
        refuse_unsupported(call)?;
        let Some(calls) = self.over.take() else {
            return Err(Error::user(format!(
                "{}() OVER is not allowed in {}",
                call.name, self.clause
            ))
            .at(call.place)
            .hint("compute it in a subquery: SELECT … FROM (SELECT *, ROW_NUMBER() OVER (…) AS rn FROM t) WHERE rn <= 3"));
        };
        let result = self.bind_over_call(calls, call, over);
        self.over = Some(calls);
        result
    }

    fn bind_over_call(
        &mut self,
        calls: &mut OverCalls,
        call: &Call,
        over: &WindowType,
    ) -> Result<Expression> {
        let name = calls.next_name.take();
        let named = std::mem::take(&mut calls.named);
        let bound = self.clauses(&named, over, call).and_then(|clauses| {
            if call.name == "ROW_NUMBER" {
                let (partition_by, order_by) = self.bind_row_number(&clauses, call)?;
                return Ok(calls.add_number(partition_by, order_by, name, Position(call.place)));
            }
            let request = self.bind_over_request(call, &clauses)?;
            let window = self.bind_window(&clauses, call)?;
            calls.add(request, window, name)
        });
        calls.named = named;
        bound
    }

    /// The clauses of a window, which may add to those of a named one.
    fn clauses<'w>(
        &self,
        named: &'w [NamedWindowDefinition],
        over: &'w WindowType,
        call: &Call,
    ) -> Result<Clauses<'w>> {
        match over {
            WindowType::NamedWindow(name) => self.named_clauses(named, &name.value, call, 0),
            WindowType::WindowSpec(spec) => self.spec_clauses(named, spec, call, 0),
        }
    }

    fn named_clauses<'w>(
        &self,
        named: &'w [NamedWindowDefinition],
        name: &str,
        call: &Call,
        depth: usize,
    ) -> Result<Clauses<'w>> {
        let found = named.iter().find(|window| window.0.value == name);
        match found {
            Some(_) if depth > MAX_REFERENCES => Err(Error::user(format!(
                "the window \"{name}\" is defined by itself"
            ))
            .at(call.place)),
            Some(NamedWindowDefinition(_, NamedWindowExpr::NamedWindow(other))) => {
                self.named_clauses(named, &other.value, call, depth + 1)
            }
            Some(NamedWindowDefinition(_, NamedWindowExpr::WindowSpec(spec))) => {
                self.spec_clauses(named, spec, call, depth + 1)
            }
            None => {
                let names = named.iter().map(|window| window.0.value.as_str());
                Err(Error::user(format!("there is no window \"{name}\""))
                    .at(call.place)
                    .hint(suggestion::hint(name, "windows", names)))
            }
        }
    }

    fn spec_clauses<'w>(
        &self,
        named: &'w [NamedWindowDefinition],
        spec: &'w WindowSpec,
        call: &Call,
        depth: usize,
    ) -> Result<Clauses<'w>> {
        let WindowSpec {
            window_name,
            partition_by,
            order_by,
            window_frame,
        } = spec;
        let own = Clauses {
            partition_by,
            order_by,
            frame: window_frame.as_ref(),
        };
        let Some(name) = window_name else {
            return Ok(own);
        };
        let base = self.named_clauses(named, &name.value, call, depth)?;
        let twice = |what: &str| {
            Error::user(format!(
                "{what} stands in the window \"{}\" already",
                name.value
            ))
            .at(call.place)
        };
        if !own.partition_by.is_empty() {
            return Err(twice("PARTITION BY"));
        }
        if !own.order_by.is_empty() && !base.order_by.is_empty() {
            return Err(twice("ORDER BY"));
        }
        if own.frame.is_some() && base.frame.is_some() {
            return Err(twice("ROWS or RANGE"));
        }
        Ok(Clauses {
            partition_by: base.partition_by,
            order_by: if own.order_by.is_empty() {
                base.order_by
            } else {
                own.order_by
            },
            frame: own.frame.or(base.frame),
        })
    }

    fn bind_row_number(
        &mut self,
        clauses: &Clauses,
        call: &Call,
    ) -> Result<(Vec<Expression>, Vec<Order>)> {
        if !call.arguments.is_empty() || call.distinct || call.filter.is_some() {
            return Err(Error::user("ROW_NUMBER takes no arguments").at(call.place));
        }
        if clauses.frame.is_some() {
            return Err(Error::user("ROW_NUMBER takes no ROWS or RANGE").at(call.place));
        }
        if clauses.order_by.is_empty() {
            return Err(Error::user("ROW_NUMBER needs ORDER BY")
                .at(call.place)
                .hint("as in ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts)"));
        }
        self.bind_keys(clauses)
    }

    fn bind_keys(&mut self, clauses: &Clauses) -> Result<(Vec<Expression>, Vec<Order>)> {
        let partition_by = clauses
            .partition_by
            .iter()
            .map(|expr| self.bind(expr))
            .collect::<Result<_>>()?;
        let order_by = clauses
            .order_by
            .iter()
            .map(|order| self.bind_order(order))
            .collect::<Result<_>>()?;
        Ok((partition_by, order_by))
    }

    fn bind_order(&mut self, order: &OrderByExpr) -> Result<Order> {
        let OrderByExpr {
            expr,
            options: OrderByOptions { asc, nulls_first },
            with_fill,
        } = order;
        if with_fill.is_some() {
            return Err(self.binder.unsupported("WITH FILL", expr));
        }
        let descending = *asc == Some(false);
        Ok(Order {
            expression: self.bind(expr)?,
            descending,
            // NULL is the smallest value.
            nulls_first: nulls_first.unwrap_or(!descending),
        })
    }

    fn bind_window(&mut self, clauses: &Clauses, call: &Call) -> Result<Window> {
        let (partition_by, order_by) = self.bind_keys(clauses)?;
        let frame = match clauses.frame {
            None => OverFrame::Range(None),
            Some(frame) => self.bind_frame(frame, call)?,
        };
        Ok(Window {
            partition_by,
            order_by,
            frame,
            position: Position(call.place),
        })
    }

    fn bind_frame(&mut self, frame: &WindowFrame, call: &Call) -> Result<OverFrame> {
        let WindowFrame {
            units,
            start_bound,
            end_bound,
        } = frame;
        if !matches!(end_bound, None | Some(WindowFrameBound::CurrentRow)) {
            return Err(not_up_to_current_row(call));
        }
        let preceding = match start_bound {
            WindowFrameBound::CurrentRow => None,
            WindowFrameBound::Following(_) => return Err(not_up_to_current_row(call)),
            WindowFrameBound::Preceding(preceding) => Some(preceding.as_deref()),
        };
        match (units, preceding) {
            (WindowFrameUnits::Groups, _) => {
                Err(Error::unsupported("a frame of GROUPS").at(call.place))
            }
            (WindowFrameUnits::Rows, None) => Ok(OverFrame::Rows(Some(0))),
            (WindowFrameUnits::Rows, Some(None)) => Ok(OverFrame::Rows(None)),
            (WindowFrameUnits::Rows, Some(Some(rows))) => {
                self.bind_preceding_rows(rows).map(OverFrame::Rows)
            }
            (WindowFrameUnits::Range, None) => Ok(OverFrame::Range(Some(0))),
            (WindowFrameUnits::Range, Some(None)) => Ok(OverFrame::Range(None)),
            (WindowFrameUnits::Range, Some(Some(length))) => {
                self.bind_preceding_range(length).map(OverFrame::Range)
            }
        }
    }

    fn bind_preceding_rows(&mut self, rows: &Expr) -> Result<Option<u64>> {
        if let Expression::Literal {
            value: Literal::Integer(value),
            logical_type,
        } = self.bind(rows)?
            && logical_type.root.is_integer()
            && let Ok(value) = u64::try_from(value)
        {
            return Ok(Some(value));
        }
        Err(Error::user(format!(
            "ROWS … PRECEDING takes a whole number that is not negative, not {}",
            shortened(rows)
        ))
        .at(self.binder.place(rows)))
    }

    fn bind_preceding_range(&mut self, length: &Expr) -> Result<Option<i64>> {
        if let Expression::Literal {
            value: Literal::Integer(value),
            logical_type,
        } = self.bind(length)?
            && logical_type.root == TypeRoot::IntervalDayTime
            && value >= 0
        {
            return Ok(Some(value));
        }
        Err(Error::user(format!(
            "Data Type mismatch between ORDER BY and RANGE clause: RANGE … PRECEDING takes an interval of days to seconds, \
             not {}",
            shortened(length)
        ))
        .at(self.binder.place(length))
        .hint("as in RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND CURRENT ROW"))
    }

    fn bind_over_request(&mut self, call: &Call, clauses: &Clauses) -> Result<AggregateRequest> {
        let request = match call.name.as_str() {
            "RANK" | "DENSE_RANK" => bind_ranking(call)?,
            "LAG" => self.bind_lag(call)?,
            _ => return self.bind_over_aggregate(call),
        };
        if clauses.frame.is_some() {
            return Err(Error::user(format!(
                "ROW/RANGE not allowed with RANK, DENSE_RANK or ROW_NUMBER functions, nor with {}",
                call.name
            ))
            .at(call.place));
        }
        Ok(request)
    }

    fn bind_over_aggregate(&mut self, call: &Call) -> Result<AggregateRequest> {
        if !functions::is_aggregate(&call.name) && functions::is_scalar(&call.name) {
            return Err(Error::user(format!(
                "OVER must be applied to aggregate function; {} is none",
                call.name
            ))
            .at(call.place));
        }
        let arguments = self.bind_aggregate_arguments(call)?;
        let filter = call
            .filter
            .map(|filter| self.bind_condition(filter))
            .transpose()?;
        let types: Vec<LogicalType> = arguments
            .iter()
            .map(|argument| argument.logical_type().clone())
            .collect();
        let bound = functions::bind_aggregate(&call.name, &types, call.distinct, call.place)?;
        let arguments = arguments
            .into_iter()
            .zip(&bound.argument_types)
            .map(|(argument, target)| super::aggregate::cast_argument(argument, target, call))
            .collect::<Result<Vec<_>>>()?;
        Ok(AggregateRequest {
            function: bound.function,
            arguments,
            distinct: call.distinct,
            filter,
            logical_type: bound.logical_type,
        })
    }

    /// `LAG(x [, offset [, default]])`.
    fn bind_lag(&mut self, call: &Call) -> Result<AggregateRequest> {
        if call.distinct || call.filter.is_some() {
            return Err(Error::user("LAG takes neither DISTINCT nor FILTER").at(call.place));
        }
        if !(1..=3).contains(&call.arguments.len()) {
            return Err(Error::user(format!(
                "LAG takes 1 to 3 arguments, not {}",
                call.arguments.len()
            ))
            .at(call.place)
            .hint("LAG(value, offset, default)"));
        }
        let mut arguments = self.bind_arguments(call)?;
        if let Some(offset) = arguments.get(1) {
            let offset = lag_offset(offset, call)?;
            arguments[1] = Expression::literal(
                Literal::Integer(offset),
                LogicalType::not_null(TypeRoot::Int),
            );
        }
        let mut result = arguments[0].logical_type().with_nullable(true);
        if let Some(default) = arguments.get(2) {
            let types = [
                arguments[0].logical_type().clone(),
                default.logical_type().clone(),
            ];
            result = functions::common_type(&types)
                .ok_or_else(|| {
                    Error::user(format!(
                        "LAG takes a default of the type of its value: {} and {} have none in common",
                        types[0], types[1]
                    ))
                    .at(call.place)
                })?
                .with_nullable(true);
            for argument in [0, 2] {
                arguments[argument] =
                    super::aggregate::cast_argument(arguments[argument].clone(), &result, call)?;
            }
        }
        Ok(AggregateRequest {
            function: "LAG".to_string(),
            arguments,
            distinct: false,
            filter: None,
            logical_type: result,
        })
    }
}

fn refuse_unsupported(call: &Call) -> Result<()> {
    let name = call.name.as_str();
    if matches!(
        name,
        "LEAD" | "NTILE" | "CUME_DIST" | "PERCENT_RANK" | "NTH_VALUE"
    ) {
        return Err(
            Error::user(format!("{name} Function is not supported in stream mode.")).at(call.place),
        );
    }
    Ok(())
}

fn bind_ranking(call: &Call) -> Result<AggregateRequest> {
    if !call.arguments.is_empty() || call.distinct || call.filter.is_some() {
        return Err(Error::user(format!("{} takes no arguments", call.name)).at(call.place));
    }
    Ok(AggregateRequest {
        function: call.name.clone(),
        arguments: vec![],
        distinct: false,
        filter: None,
        logical_type: LogicalType::not_null(TypeRoot::BigInt),
    })
}

fn lag_offset(offset: &Expression, call: &Call) -> Result<i64> {
    match offset {
        Expression::Literal {
            value: Literal::Integer(value),
            logical_type,
        } if logical_type.root.is_integer() && (0..=i64::from(i32::MAX)).contains(value) => {
            Ok(*value)
        }
        _ => Err(Error::user(format!(
            "the offset of LAG is a constant whole number that is not negative, not {offset}"
        ))
        .at(call.place)),
    }
}

fn not_up_to_current_row(call: &Call) -> Error {
    Error::user("OVER RANGE FOLLOWING windows are not supported yet.")
        .at(call.place)
        .hint("a frame ends at the current row: ROWS BETWEEN 2 PRECEDING AND CURRENT ROW")
}

impl OverCalls {
    /// None yet; with the windows of the WINDOW clause.
    pub(super) fn new(named: &[NamedWindowDefinition]) -> Self {
        OverCalls {
            named: named.to_vec(),
            ..OverCalls::default()
        }
    }

    fn add_number(
        &mut self,
        partition_by: Vec<Expression>,
        order_by: Vec<Order>,
        name: Option<String>,
        position: Position,
    ) -> Expression {
        let same =
            |call: &NumberCall| call.partition_by == partition_by && call.order_by == order_by;
        let index = match self.numbers.iter().position(same) {
            Some(index) => index,
            None => {
                let index = self.numbers.len();
                self.numbers.push(NumberCall {
                    partition_by,
                    order_by,
                    name: name.unwrap_or_else(|| format!("w{index}$o0")),
                    position,
                });
                index
            }
        };
        Expression::column(
            NUMBERS + index,
            &self.numbers[index].name,
            LogicalType::not_null(TypeRoot::BigInt),
        )
    }

    /// The result of a call; equal ones share it.
    fn add(
        &mut self,
        request: AggregateRequest,
        window: Window,
        name: Option<String>,
    ) -> Result<Expression> {
        if let Some(known) = &self.window
            && !known.is_same(&window)
        {
            return Err(Error::user(
                "Over Agg: Unsupported use of OVER windows. All aggregates must be computed on the same window.",
            )
            .at(window.position.0)
            .hint("compute the others in a subquery around this one"));
        }
        self.window.get_or_insert(window);
        let logical_type = request.logical_type.clone();
        let known = self.calls.iter().position(|(known, _)| *known == request);
        let index = known.unwrap_or_else(|| {
            let index = self.calls.len();
            let name = name.unwrap_or_else(|| format!("w0$o{index}"));
            self.calls.push((request, name));
            index
        });
        let name = &self.calls[index].1;
        Ok(Expression::column(RESULTS + index, name, logical_type))
    }

    /// Changes the expressions of all calls.
    pub(super) fn rewrite(&mut self, rewrite: impl Fn(Expression) -> Expression) {
        let all = |expressions: &mut Vec<Expression>| {
            *expressions = std::mem::take(expressions)
                .into_iter()
                .map(&rewrite)
                .collect();
        };
        let orders = |orders: &mut Vec<Order>| {
            for order in orders {
                order.expression = rewrite(order.expression.clone());
            }
        };
        for call in &mut self.numbers {
            all(&mut call.partition_by);
            orders(&mut call.order_by);
        }
        for (request, _) in &mut self.calls {
            all(&mut request.arguments);
            request.filter = request.filter.take().map(&rewrite);
        }
        if let Some(window) = &mut self.window {
            all(&mut window.partition_by);
            orders(&mut window.order_by);
        }
    }

    /// Computes the calls over `input`, whose columns have the given `fields`: the plan, and its columns' fields.
    pub(super) fn plan(
        &mut self,
        input: LogicalPlan,
        fields: Vec<Field>,
    ) -> (LogicalPlan, Vec<Field>) {
        if self.numbers.is_empty() && self.calls.is_empty() {
            return (input, fields);
        }
        let mut items = columns_of(&Schema::new(fields.clone()));
        let numbers: Vec<(Vec<usize>, Vec<SortKey>)> = self
            .numbers
            .iter()
            .map(|call| keys(&call.partition_by, &call.order_by, &mut items))
            .collect();
        let over = self.window.as_ref().map(|window| {
            let (partition_by, order_by) = keys(&window.partition_by, &window.order_by, &mut items);
            let calls = self.calls.iter().map(|(request, name)| AggregateCall {
                function: request.function.clone(),
                arguments: request
                    .arguments
                    .iter()
                    .map(|argument| column_for(argument, &mut items))
                    .collect(),
                argument_types: request
                    .arguments
                    .iter()
                    .map(|argument| argument.logical_type().clone())
                    .collect(),
                distinct: request.distinct,
                filter: request
                    .filter
                    .as_ref()
                    .map(|filter| column_for(filter, &mut items)),
                logical_type: request.logical_type.clone(),
                name: name.clone(),
            });
            let calls = calls.collect();
            (partition_by, order_by, window.frame, calls, window.position)
        });
        self.base = items.len();
        let mut plan = project(input, &fields, items);
        for (call, (partition_by, order_by)) in self.numbers.iter().zip(numbers) {
            plan = LogicalPlan::RowNumber(RowNumber {
                input: Box::new(plan),
                partition_by,
                order_by,
                name: call.name.clone(),
                position: call.position,
            });
        }
        if let Some((partition_by, order_by, frame, calls, position)) = over {
            plan = LogicalPlan::Over(Over {
                input: Box::new(plan),
                partition_by,
                order_by,
                frame,
                calls,
                position,
            });
        }
        let fields = plan.schema().fields;
        (plan, fields)
    }

    /// The same expression over the columns of the plan with the results.
    pub(super) fn resolve(&self, expression: Expression) -> Expression {
        expression.transform(&mut |part| match part {
            Expression::Column {
                index,
                name,
                logical_type,
            } if index >= NUMBERS => Expression::Column {
                index: if index >= RESULTS {
                    index - RESULTS + self.base + self.numbers.len()
                } else {
                    index - NUMBERS + self.base
                },
                name,
                logical_type,
            },
            other => other,
        })
    }
}

impl Window {
    fn is_same(&self, other: &Window) -> bool {
        self.partition_by == other.partition_by
            && self.order_by == other.order_by
            && self.frame == other.frame
    }
}

fn keys(
    partition_by: &[Expression],
    order_by: &[Order],
    items: &mut Vec<(String, Expression)>,
) -> (Vec<usize>, Vec<SortKey>) {
    let partition_by = partition_by
        .iter()
        .map(|expression| column_for(expression, items))
        .collect();
    let order_by = order_by
        .iter()
        .map(|order| SortKey {
            column: column_for(&order.expression, items),
            descending: order.descending,
            nulls_first: order.nulls_first,
        })
        .collect();
    (partition_by, order_by)
}

/// The column which holds the expression; added where there is none.
fn column_for(expression: &Expression, items: &mut Vec<(String, Expression)>) -> usize {
    if let Some(index) = items.iter().position(|(_, item)| item == expression) {
        return index;
    }
    items.push((format!("$o{}", items.len()), expression.clone()));
    items.len() - 1
}

/// That a WINDOW clause names no window twice.
pub(super) fn check_named_windows(binder: &Binder, named: &[NamedWindowDefinition]) -> Result<()> {
    for (index, window) in named.iter().enumerate() {
        let name = &window.0.value;
        if named[..index].iter().any(|other| other.0.value == *name) {
            return Err(
                Error::user(format!("the window \"{name}\" is defined twice"))
                    .at(binder.place(&window.0)),
            );
        }
    }
    Ok(())
}
