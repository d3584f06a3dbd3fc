//! Which joins keep time: those that give rows in step with the watermark of both inputs. Their columns stay time attributes.
//!
//! A window join does (equal window_start and window_end), an interval join does (its condition bounds the two times against
//! each other), a join as of a time keeps the left one. What any other join gives may be older than the watermark.

use super::{Join, LogicalPlan};
use crate::expr::{Expression, Literal};
use crate::plan::row_logic::{conjunction, conjuncts};
use crate::types::{JoinKind, Schema, TimeAttribute, TypeRoot};

impl Join {
    /// Takes the condition of a WHERE above an inner join in, if the join keeps time with it.
    pub(crate) fn keeps_time_by(&mut self, condition: &Expression) -> bool {
        if self.kind != JoinKind::Inner || self.as_of.is_some() {
            return false;
        }
        let parts = [conjuncts(&self.condition), conjuncts(condition)].concat();
        let both = conjunction(parts).unwrap_or_else(Expression::always_true);
        let own = std::mem::replace(&mut self.condition, both);
        let kept = kept_times(self, &self.left.schema(), &self.right.schema());
        if kept.is_empty() {
            self.condition = own;
        }
        !kept.is_empty()
    }
}

/// The columns whose time attributes a join keeps.
pub(super) fn kept_times(join: &Join, left: &Schema, right: &Schema) -> std::ops::Range<usize> {
    let both = 0..left.len() + right.len();
    if join.as_of.is_some() {
        return 0..left.len();
    }
    if joined_bounds(join).is_some() {
        return both;
    }
    match time_bounds(&join.condition, left, right) {
        Some(_) if !join.kind.is_left_only() => both,
        _ => 0..0,
    }
}

/// How far the times of a pair may be apart, from the condition of a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeBounds {
    /// The time column of the left side.
    pub(crate) left: usize,
    /// The time column of the right side, counted from 0.
    pub(crate) right: usize,
    /// Which kind of time both are.
    pub(crate) attribute: TimeAttribute,
    /// The least `left time - right time`, in milliseconds.
    pub(crate) lower_ms: i64,
    /// The greatest `left time - right time`, in milliseconds.
    pub(crate) upper_ms: i64,
    /// The parts of the condition that say nothing else.
    pub(crate) parts: Vec<Expression>,
}

/// The bounds in a condition over the left columns, then the right ones; `None` where one is missing.
pub(crate) fn time_bounds(
    condition: &Expression,
    left: &Schema,
    right: &Schema,
) -> Option<TimeBounds> {
    let mut found: Vec<Found> = Vec::new();
    for part in conjuncts(condition) {
        let Some(difference) = Difference::of(&part, left, right) else {
            continue;
        };
        let known = found.iter_mut().find(|known| known.pair == difference.pair);
        let bounds = match known {
            Some(known) => known,
            None => {
                found.push(Found {
                    pair: difference.pair,
                    lower: None,
                    upper: None,
                    parts: Vec::new(),
                });
                found.last_mut()?
            }
        };
        let tighter =
            |old: Option<i64>, new: Option<i64>, pick: fn(i64, i64) -> i64| match (old, new) {
                (Some(old), Some(new)) => Some(pick(old, new)),
                (old, new) => old.or(new),
            };
        bounds.lower = tighter(bounds.lower, difference.lower, i64::max);
        bounds.upper = tighter(bounds.upper, difference.upper, i64::min);
        bounds.parts.push(part);
    }
    found.into_iter().find_map(|found| {
        Some(TimeBounds {
            left: found.pair.0,
            right: found.pair.1,
            attribute: left.fields[found.pair.0].time_attribute?,
            lower_ms: found.lower?,
            upper_ms: found.upper?,
            parts: found.parts,
        })
    })
}

/// What was found about a pair of time columns.
struct Found {
    pair: (usize, usize),
    lower: Option<i64>,
    upper: Option<i64>,
    parts: Vec<Expression>,
}

/// What one comparison says about `left time - right time`.
struct Difference {
    pair: (usize, usize),
    lower: Option<i64>,
    upper: Option<i64>,
}

impl Difference {
    fn of(part: &Expression, left: &Schema, right: &Schema) -> Option<Difference> {
        let Expression::Call {
            function,
            arguments,
            ..
        } = part
        else {
            return None;
        };
        let point = |index: usize| TimePoint::of(arguments.get(index)?, left, right);
        match (function.as_str(), arguments.len()) {
            ("BETWEEN", 3) => {
                let low = Self::compared(">=", point(0)?, point(1)?)?;
                let high = Self::compared("<=", point(0)?, point(2)?)?;
                (low.pair == high.pair).then_some(Difference {
                    pair: low.pair,
                    lower: low.lower.or(high.lower),
                    upper: low.upper.or(high.upper),
                })
            }
            (operator, 2) => Self::compared(operator, point(0)?, point(1)?),
            _ => None,
        }
    }

    /// `first operator second`.
    fn compared(operator: &str, first: TimePoint, second: TimePoint) -> Option<Difference> {
        if first.attribute != second.attribute {
            return None;
        }
        if first.on_right {
            let mirrored = match operator {
                "<" => ">",
                "<=" => ">=",
                ">" => "<",
                ">=" => "<=",
                other => other,
            };
            return (!second.on_right).then(|| Self::compared(mirrored, second, first))?;
        }
        if !second.on_right {
            return None;
        }
        let difference = second.shift_ms.checked_sub(first.shift_ms)?;
        let (lower, upper) = match operator {
            "=" => (Some(difference), Some(difference)),
            "<" => (None, Some(difference.checked_sub(1)?)),
            "<=" => (None, Some(difference)),
            ">" => (Some(difference.checked_add(1)?), None),
            ">=" => (Some(difference), None),
            _ => return None,
        };
        Some(Difference {
            pair: (first.column, second.column),
            lower,
            upper,
        })
    }
}

/// A time column and so many milliseconds.
#[derive(Debug, Clone, Copy)]
struct TimePoint {
    on_right: bool,
    /// On its own side.
    column: usize,
    attribute: TimeAttribute,
    shift_ms: i64,
}

impl TimePoint {
    fn of(expression: &Expression, left: &Schema, right: &Schema) -> Option<TimePoint> {
        match expression {
            Expression::Column { index, .. } => {
                let on_right = *index >= left.len();
                let (side, column) = match on_right {
                    true => (right, index - left.len()),
                    false => (left, *index),
                };
                Some(TimePoint {
                    on_right,
                    column,
                    attribute: side.fields[column].time_attribute?,
                    shift_ms: 0,
                })
            }
            Expression::Call {
                function,
                arguments,
                ..
            } => {
                let [time, interval] = &arguments[..] else {
                    return None;
                };
                let sign = match function.as_str() {
                    "+" => 1,
                    "-" => -1,
                    _ => return None,
                };
                let mut point = TimePoint::of(time, left, right)?;
                let by = interval_ms(interval)?.checked_mul(sign)?;
                point.shift_ms = point.shift_ms.checked_add(by)?;
                Some(point)
            }
            _ => None,
        }
    }
}

/// The length of a constant interval of days to seconds.
fn interval_ms(expression: &Expression) -> Option<i64> {
    match expression {
        Expression::Literal {
            value: Literal::Integer(ms),
            logical_type,
        } if logical_type.root == TypeRoot::IntervalDayTime => Some(*ms),
        Expression::Call {
            function,
            arguments,
            ..
        } => match (function.as_str(), &arguments[..]) {
            ("-", [negated]) => interval_ms(negated)?.checked_neg(),
            ("+", [same]) => interval_ms(same),
            ("+", [first, second]) => interval_ms(first)?.checked_add(interval_ms(second)?),
            ("-", [first, second]) => interval_ms(first)?.checked_sub(interval_ms(second)?),
            ("*", [interval, factor]) => {
                let Expression::Literal {
                    value: Literal::Integer(factor),
                    ..
                } = factor
                else {
                    return None;
                };
                interval_ms(interval)?.checked_mul(*factor)
            }
            _ => None,
        },
        _ => None,
    }
}

/// The left window columns of a window join: both sides are windowed and the condition asks for equal window_start and window_end.
fn joined_bounds(join: &Join) -> Option<(usize, usize)> {
    let left = window_bounds(&join.left)?;
    let right = window_bounds(&join.right)?;
    let width = join.left.width();
    let equal = |left: usize, right: usize| equates(&join.condition, left, right + width);
    (equal(left.0, right.0) && equal(left.1, right.1)).then_some(left)
}

/// Whether two columns are equal wherever the condition holds.
fn equates(condition: &Expression, left: usize, right: usize) -> bool {
    let Expression::Call {
        function,
        arguments,
        ..
    } = condition
    else {
        return false;
    };
    match function.as_str() {
        "AND" => arguments
            .iter()
            .any(|argument| equates(argument, left, right)),
        "=" => {
            let columns: Vec<usize> = arguments
                .iter()
                .filter_map(|argument| match argument {
                    Expression::Column { index, .. } => Some(*index),
                    _ => None,
                })
                .collect();
            columns == [left, right] || columns == [right, left]
        }
        _ => false,
    }
}

/// The columns which are window_start and window_end of a window function below.
pub(crate) fn window_bounds(plan: &LogicalPlan) -> Option<(usize, usize)> {
    match plan {
        LogicalPlan::Match(_) => None,
        LogicalPlan::WindowTableFunction(function) => {
            let columns = function.input.width();
            Some((columns, columns + 1))
        }
        LogicalPlan::Filter(filter) => window_bounds(&filter.input),
        LogicalPlan::Unnest(unnest) => window_bounds(&unnest.input),
        LogicalPlan::RowNumber(number) => window_bounds(&number.input),
        LogicalPlan::Project(project) => {
            let bounds = window_bounds(&project.input)?;
            let place_of = |wanted: usize| {
                project.expressions.iter().position(|expression| {
                    matches!(expression, Expression::Column { index, .. } if *index == wanted)
                })
            };
            Some((place_of(bounds.0)?, place_of(bounds.1)?))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let bounds = window_bounds(&aggregate.input)?;
            let place_of = |wanted: usize| {
                aggregate
                    .grouping
                    .iter()
                    .position(|column| *column == wanted)
            };
            Some((place_of(bounds.0)?, place_of(bounds.1)?))
        }
        LogicalPlan::Join(join) => joined_bounds(join),
        LogicalPlan::Over(over) => window_bounds(&over.input),
        LogicalPlan::Sort(sort) => window_bounds(&sort.input),
        LogicalPlan::Scan(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::SetOperation(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Field, LogicalType};

    fn side() -> Schema {
        let time = LogicalType::nullable(TypeRoot::Timestamp(3));
        let rowtime = Field::new("ts", time).with_time_attribute(Some(TimeAttribute::Rowtime));
        Schema::new(vec![Field::new("k", LogicalType::INT), rowtime])
    }

    fn call(function: &str, arguments: Vec<Expression>) -> Expression {
        Expression::call(function, arguments, LogicalType::BOOLEAN)
    }

    /// The left time, or the right one.
    fn time(on_right: bool) -> Expression {
        let time = LogicalType::nullable(TypeRoot::Timestamp(3));
        Expression::column(1 + 2 * usize::from(on_right), "ts", time)
    }

    fn interval(ms: i64) -> Expression {
        Expression::Literal {
            value: Literal::Integer(ms),
            logical_type: LogicalType::not_null(TypeRoot::IntervalDayTime),
        }
    }

    fn bounds(parts: Vec<Expression>) -> Option<(i64, i64)> {
        let condition = conjunction(parts).unwrap();
        let found = time_bounds(&condition, &side(), &side())?;
        assert_eq!((found.left, found.right), (1, 1));
        Some((found.lower_ms, found.upper_ms))
    }

    #[test]
    fn bounds_are_found_in_every_form() {
        let (left, right) = (time(false), time(true));
        let plus = |time: &Expression, ms: i64| call("+", vec![time.clone(), interval(ms)]);
        let minus = |time: &Expression, ms: i64| call("-", vec![time.clone(), interval(ms)]);
        let compare = |first: &Expression, operator: &str, second: &Expression| {
            call(operator, vec![first.clone(), second.clone()])
        };
        assert_eq!(bounds(vec![compare(&left, "=", &right)]), Some((0, 0)));
        assert_eq!(
            bounds(vec![compare(&right, "=", &plus(&left, 5))]),
            Some((-5, -5))
        );
        let between = call(
            "BETWEEN",
            vec![right.clone(), minus(&left, 5), plus(&left, 10)],
        );
        assert_eq!(bounds(vec![between]), Some((-10, 5)));
        let strict = vec![
            compare(&right, ">", &minus(&left, 5)),
            compare(&plus(&left, 10), ">", &right),
        ];
        assert_eq!(bounds(strict), Some((-9, 4)));
        let both_sides = vec![
            compare(&plus(&left, 2), ">=", &minus(&right, 3)),
            compare(&left, "<=", &right),
        ];
        assert_eq!(bounds(both_sides), Some((-5, 0)));
        let negated = call("-", vec![interval(7)]);
        let tightest = vec![
            compare(&left, ">=", &minus(&right, 9)),
            compare(&left, ">=", &call("+", vec![right.clone(), negated])),
            compare(&left, "<", &right),
        ];
        assert_eq!(bounds(tightest), Some((-7, -1)));
        assert_eq!(bounds(vec![compare(&left, "<", &right)]), None, "one bound");
        let same_side = vec![
            compare(&left, "<", &plus(&left, 5)),
            compare(&left, ">", &right),
        ];
        assert_eq!(bounds(same_side), None);
    }
}
