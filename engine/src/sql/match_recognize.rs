//! MATCH_RECOGNIZE: the pattern, the conditions of its variables, and the measures.
//!
//! Names and calls in conditions and measures ask for values of rows of the match: `A.price` for the last row of A,
//! `FIRST(A.price, 1)`, `SUM(A.price)`. Each such value becomes a column ([`Navigation`]); conditions and measures are ordinary
//! expressions over these. What stands inside of FIRST, LAST and aggregates is computed below, for every row.

use sqlparser::ast::{
    AfterMatchSkip, Expr, Ident, MatchRecognizePattern, MatchRecognizeSymbol, OrderByExpr,
    RepetitionQuantifier, RowsPerMatch, TableFactor,
};

use super::binder::{Binder, Environment};
use super::expression::ExpressionBinder;
use super::function_call::Call;
use super::match_recognize_tokens::WITHIN;
use super::projection::{columns_of, project};
use super::scope::{Relation, Scope};
use crate::error::{Error, Result};
use crate::expr::{Expression, Literal};
use crate::functions::{self, AfterMatch, AggregateCall, MatchPattern, Navigation, PatternStep};
use crate::plan::logical::{LogicalPlan, Match};
use crate::types::{Field, LogicalType, Schema, SortKey, SqlPosition, TimeAttribute, TypeRoot};

/// What names and calls mean in conditions and measures.
#[derive(Debug, Default)]
pub(super) struct PatternScope {
    variables: Vec<String>,
    navigations: Vec<(Navigation, LogicalType)>,
    /// The columns below: those of the input, then what stands inside of calls.
    below: Vec<(String, Expression)>,
    /// The time column, which MATCH_ROWTIME() is about.
    time: Option<usize>,
    /// Inside of FIRST, LAST or an aggregate: whose rows its names are about, once one was seen.
    inside: Option<Option<Option<usize>>>,
}

impl PatternScope {
    fn navigation(
        &mut self,
        navigation: Navigation,
        logical_type: LogicalType,
        name: &str,
    ) -> Expression {
        let known = self
            .navigations
            .iter()
            .position(|(known, _)| *known == navigation);
        let index = known.unwrap_or_else(|| {
            self.navigations.push((navigation, logical_type.clone()));
            self.navigations.len() - 1
        });
        Expression::column(index, name, logical_type)
    }

    fn column_below(&mut self, expression: Expression) -> usize {
        let known = self
            .below
            .iter()
            .position(|(_, known)| *known == expression);
        known.unwrap_or_else(|| {
            let name = format!("$m{}", self.below.len());
            self.below.push((name, expression));
            self.below.len() - 1
        })
    }
}

impl ExpressionBinder<'_> {
    /// A name in a condition or measure, and how many of its parts that took.
    pub(super) fn bind_pattern_name(
        &mut self,
        parts: &[Ident],
        place: Option<SqlPosition>,
    ) -> Result<(Expression, usize)> {
        let scope = self.scope;
        let pattern = self.pattern.as_deref_mut().expect("the caller has looked");
        let variable = match parts {
            [first, _, ..] => pattern
                .variables
                .iter()
                .position(|variable| *variable == first.value),
            _ => None,
        };
        let skipped = usize::from(variable.is_some());
        let (column, taken) = scope.resolve(&parts[skipped..], place)?;
        if let Some(seen) = &mut pattern.inside {
            if seen.is_some_and(|other| other != variable) {
                return Err(Error::user(
                    "Multiple pattern variables in the arguments of one function",
                )
                .at(place)
                .hint("aggregate the rows of one variable each: SUM(A.x) + SUM(B.x)"));
            }
            *seen = Some(variable);
            return Ok((column, skipped + taken));
        }
        let Expression::Column {
            index,
            name,
            logical_type,
        } = &column
        else {
            return Err(Error::internal("a name is a column"));
        };
        let navigation = Navigation::Last {
            variable,
            column: *index,
            offset: 0,
        };
        let logical_type = logical_type.with_nullable(true);
        let value = pattern.navigation(navigation, logical_type, name);
        Ok((value, skipped + taken))
    }

    /// A call that means something else in conditions and measures.
    pub(super) fn bind_pattern_call(&mut self, call: &Call) -> Result<Option<Expression>> {
        let Some(pattern) = self.pattern.as_deref_mut() else {
            return Ok(None);
        };
        if pattern.inside.is_some() {
            let nested = matches!(call.name.as_str(), "FIRST" | "LAST")
                || functions::is_aggregate(&call.name);
            return match nested {
                true => Err(Error::unsupported(format!(
                    "{} inside of another function of the rows of a match",
                    call.name
                ))
                .at(call.place)),
                false => Ok(None),
            };
        }
        match call.name.as_str() {
            "FIRST" | "LAST" => self.bind_first_or_last(call).map(Some),
            "PREV" | "NEXT" => Err(Error::user(format!(
                "{} is not supported in MATCH_RECOGNIZE: only logical offsets are",
                call.name
            ))
            .at(call.place)
            .hint("LAST(A.price, 1) is the price of the row before the last one of A")),
            "CLASSIFIER" | "MATCH_NUMBER" | "FINAL" | "RUNNING" => {
                Err(Error::unsupported(call.name.as_str()).at(call.place))
            }
            "MATCH_ROWTIME" => {
                let Some(time) = pattern.time else {
                    return Err(Error::user(
                        "MATCH_ROWTIME() needs an event-time column in ORDER BY",
                    )
                    .at(call.place));
                };
                let (name, column) = pattern.below[time].clone();
                let logical_type = column.logical_type().with_nullable(false);
                let last = Navigation::Last {
                    variable: None,
                    column: time,
                    offset: 0,
                };
                Ok(Some(pattern.navigation(last, logical_type, &name)))
            }
            "MATCH_PROCTIME" => functions::bind_scalar("PROCTIME", vec![], call.place).map(Some),
            name if functions::is_aggregate(name) => self.bind_match_aggregate(call).map(Some),
            _ => Ok(None),
        }
    }

    /// Binds arguments over the rows themselves; says whose rows they are about.
    fn bind_inside<T>(
        &mut self,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<(T, Option<usize>)> {
        let scope = |binder: &mut Self, inside| {
            let pattern = binder.pattern.as_deref_mut();
            std::mem::replace(&mut pattern.expect("in a pattern").inside, inside)
        };
        scope(self, Some(None));
        let bound = bind(self);
        let seen = scope(self, None).flatten().flatten();
        Ok((bound?, seen))
    }

    fn bind_first_or_last(&mut self, call: &Call) -> Result<Expression> {
        let (value, offset) = match call.arguments {
            [value] => (value, None),
            [value, offset] => (value, Some(offset)),
            _ => {
                return Err(Error::user(format!(
                    "{} takes a value and maybe an offset",
                    call.name
                ))
                .at(call.place));
            }
        };
        let value = self.plain_argument(call, value)?;
        let offset = match offset {
            None => 0,
            Some(offset) => self.bind_offset(call, offset)?,
        };
        let (value, variable) = self.bind_inside(|binder| binder.bind(value))?;
        let logical_type = value.logical_type().with_nullable(true);
        let pattern = self.pattern.as_deref_mut().expect("in a pattern");
        let column = pattern.column_below(value);
        let navigation = match call.name.as_str() {
            "FIRST" => Navigation::First {
                variable,
                column,
                offset,
            },
            _ => Navigation::Last {
                variable,
                column,
                offset,
            },
        };
        Ok(pattern.navigation(navigation, logical_type, &call.name))
    }

    fn bind_offset(&mut self, call: &Call, offset: &sqlparser::ast::FunctionArg) -> Result<usize> {
        let offset = self.plain_argument(call, offset)?;
        match self.bind(offset)? {
            Expression::Literal {
                value: Literal::Integer(value),
                logical_type,
            } if logical_type.root.is_integer() && value >= 0 => Ok(value as usize),
            _ => Err(Error::user(format!(
                "the offset of {} is a constant whole number that is not negative",
                call.name
            ))
            .at(self.binder.place(offset))),
        }
    }

    fn bind_match_aggregate(&mut self, call: &Call) -> Result<Expression> {
        if call.distinct {
            return Err(Error::user(format!(
                "DISTINCT is not allowed with {} in MATCH_RECOGNIZE",
                call.name
            ))
            .at(call.place));
        }
        if call.filter.is_some() {
            return Err(Error::unsupported("FILTER in MATCH_RECOGNIZE").at(call.place));
        }
        let (arguments, variable) =
            self.bind_inside(|binder| binder.bind_aggregate_arguments(call))?;
        let types: Vec<LogicalType> = arguments
            .iter()
            .map(|argument| argument.logical_type().clone())
            .collect();
        let bound = functions::bind_aggregate(&call.name, &types, false, call.place)?;
        let arguments = arguments
            .into_iter()
            .zip(&bound.argument_types)
            .map(|(argument, target)| super::aggregate::cast_argument(argument, target, call))
            .collect::<Result<Vec<_>>>()?;
        let pattern = self.pattern.as_deref_mut().expect("in a pattern");
        let argument_types = arguments
            .iter()
            .map(|argument| argument.logical_type().clone())
            .collect();
        let aggregate = AggregateCall {
            function: bound.function,
            arguments: arguments
                .into_iter()
                .map(|argument| pattern.column_below(argument))
                .collect(),
            argument_types,
            distinct: false,
            filter: None,
            logical_type: bound.logical_type.clone(),
            name: call.name.clone(),
        };
        let navigation = Navigation::Aggregate {
            variable,
            call: aggregate,
        };
        Ok(pattern.navigation(navigation, bound.logical_type, &call.name))
    }
}

impl Binder<'_> {
    /// `t MATCH_RECOGNIZE (…)`; the alias is the caller's.
    pub(super) fn bind_match_recognize(
        &self,
        factor: &TableFactor,
        environment: &Environment,
    ) -> Result<Relation> {
        let TableFactor::MatchRecognize {
            table,
            partition_by,
            order_by,
            measures,
            rows_per_match,
            after_match_skip,
            pattern,
            symbols,
            alias: _,
        } = factor
        else {
            return Err(Error::internal("no MATCH_RECOGNIZE"));
        };
        let position = self.position(factor);
        if let Some(RowsPerMatch::AllRows(_)) = rows_per_match {
            return Err(Error::unsupported("ALL ROWS PER MATCH").at(position.0));
        }
        let input = self.bind_factor(table, environment)?;
        let steps = pattern_steps(pattern).map_err(|error| error.at(position.0))?;
        let fields: Vec<Field> = input
            .scope
            .columns
            .iter()
            .map(|column| column.field.clone())
            .collect();
        let mut scope = PatternScope {
            variables: steps.iter().map(|step| step.variable.clone()).collect(),
            below: columns_of(&Schema::new(fields.clone())),
            ..PatternScope::default()
        };
        let partition_by = partition_by
            .iter()
            .map(|key| self.match_key(&input.scope, key))
            .collect::<Result<Vec<_>>>()?;
        let order_by = order_by
            .iter()
            .map(|key| self.match_order(&input.scope, key))
            .collect::<Result<Vec<_>>>()?;
        let attribute = order_by
            .first()
            .and_then(|key| fields[key.column].time_attribute);
        scope.time = order_by
            .first()
            .map(|key| key.column)
            .filter(|_| attribute == Some(TimeAttribute::Rowtime));
        let mut conditions: Vec<Option<Expression>> = vec![None; steps.len()];
        let mut within_ms = None;
        for definition in symbols {
            if definition.symbol.value == WITHIN {
                within_ms = Some(self.match_within(&input.scope, &definition.definition)?);
                continue;
            }
            let variable = self.variable(&steps, &definition.symbol)?;
            let mut binder = ExpressionBinder {
                pattern: Some(&mut scope),
                ..ExpressionBinder::plain(self, &input.scope, "DEFINE")
            };
            conditions[variable] = Some(binder.bind_condition(&definition.definition)?);
        }
        let mut output: Vec<Field> = partition_by
            .iter()
            .map(|key| fields[*key].clone())
            .collect();
        let mut bound_measures = Vec::with_capacity(measures.len());
        for measure in measures {
            let mut binder = ExpressionBinder {
                pattern: Some(&mut scope),
                ..ExpressionBinder::plain(self, &input.scope, "MEASURES")
            };
            let bound = binder.bind(&measure.expr)?;
            let time = match_time(&measure.expr);
            let name = self.name(&measure.alias)?;
            output.push(Field::new(name, bound.logical_type().clone()).with_time_attribute(time));
            bound_measures.push(bound);
        }
        let after_match = self.after_match(&steps, after_match_skip.as_ref())?;
        let plan = LogicalPlan::Match(Box::new(Match {
            input: Box::new(project(input.plan, &fields, scope.below)),
            partition_by,
            order_by,
            pattern: MatchPattern {
                steps,
                after_match,
                within_ms,
            },
            navigations: scope.navigations,
            conditions,
            measures: bound_measures,
            schema: Schema::new(output),
            position,
        }));
        Ok(Relation::new(plan, None))
    }

    fn match_key(&self, scope: &Scope, key: &Expr) -> Result<usize> {
        match ExpressionBinder::plain(self, scope, "MATCH_RECOGNIZE").bind(key)? {
            Expression::Column { index, .. } => Ok(index),
            _ => Err(Error::unsupported(
                "PARTITION BY and ORDER BY of MATCH_RECOGNIZE by anything but columns",
            )
            .at(self.place(key))),
        }
    }

    fn match_order(&self, scope: &Scope, key: &OrderByExpr) -> Result<SortKey> {
        let descending = key.options.asc == Some(false);
        Ok(SortKey {
            column: self.match_key(scope, &key.expr)?,
            descending,
            nulls_first: key.options.nulls_first.unwrap_or(!descending),
        })
    }

    fn match_within(&self, scope: &Scope, interval: &Expr) -> Result<i64> {
        match ExpressionBinder::plain(self, scope, "WITHIN").bind(interval)? {
            Expression::Literal {
                value: Literal::Integer(value),
                logical_type,
            } if logical_type.root == TypeRoot::IntervalDayTime && value > 0 => Ok(value),
            _ => Err(Error::user("WITHIN takes an interval of days to seconds")
                .at(self.place(interval))
                .hint("as in PATTERN (A B) WITHIN INTERVAL '1' HOUR")),
        }
    }

    fn variable(&self, steps: &[PatternStep], name: &Ident) -> Result<usize> {
        let found = steps.iter().position(|step| step.variable == name.value);
        found.ok_or_else(|| {
            Error::user(format!("the pattern has no variable \"{}\"", name.value))
                .at(self.place(name))
        })
    }

    fn after_match(
        &self,
        steps: &[PatternStep],
        skip: Option<&AfterMatchSkip>,
    ) -> Result<AfterMatch> {
        Ok(match skip {
            // Flink's default, not the standard's.
            None | Some(AfterMatchSkip::ToNextRow) => AfterMatch::ToNextRow,
            Some(AfterMatchSkip::PastLastRow) => AfterMatch::PastLastRow,
            Some(AfterMatchSkip::ToFirst(name)) => AfterMatch::ToFirst(self.variable(steps, name)?),
            Some(AfterMatchSkip::ToLast(name)) => AfterMatch::ToLast(self.variable(steps, name)?),
        })
    }
}

/// The time attribute of a measure that is nothing but the time of the match.
fn match_time(expr: &Expr) -> Option<TimeAttribute> {
    let Expr::Function(function) = expr else {
        return None;
    };
    match function.name.to_string().to_uppercase().as_str() {
        "MATCH_ROWTIME" => Some(TimeAttribute::Rowtime),
        "MATCH_PROCTIME" => Some(TimeAttribute::Proctime),
        _ => None,
    }
}

/// The variables of a pattern, if it is a sequence of them.
fn pattern_steps(pattern: &MatchRecognizePattern) -> Result<Vec<PatternStep>> {
    let parts = match pattern {
        MatchRecognizePattern::Concat(parts) => &parts[..],
        single => std::slice::from_ref(single),
    };
    let mut steps: Vec<PatternStep> = Vec::with_capacity(parts.len());
    for part in parts {
        let step = pattern_step(part)?;
        if steps.iter().any(|other| other.variable == step.variable) {
            return Err(Error::unsupported(format!(
                "the variable {} at two places of a pattern",
                step.variable
            )));
        }
        steps.push(step);
    }
    if steps.iter().all(|step| step.least == 0) {
        return Err(Error::user(
            "Patterns that can produce empty matches are not supported. There must be at least one non-optional state.",
        ));
    }
    if steps.last().is_some_and(|step| step.greedy) {
        return Err(Error::user(
            "Greedy quantifiers are not allowed as the last element of a Pattern yet. Finish your pattern with either a \
             simple variable or reluctant quantifier.",
        ));
    }
    Ok(steps)
}

fn pattern_step(part: &MatchRecognizePattern) -> Result<PatternStep> {
    use RepetitionQuantifier::*;
    let (symbol, quantifier, reluctant) = match part {
        MatchRecognizePattern::Repetition(inner, AtMostOne) => match inner.as_ref() {
            MatchRecognizePattern::Repetition(symbol, AtMostOne) => {
                symbol_of(symbol)?;
                return Err(Error::user(
                    "Reluctant optional variables are not supported yet.",
                ));
            }
            MatchRecognizePattern::Repetition(symbol, quantifier) => {
                (symbol.as_ref(), Some(quantifier), true)
            }
            symbol => (symbol, Some(&AtMostOne), true),
        },
        MatchRecognizePattern::Repetition(symbol, quantifier) => {
            (symbol.as_ref(), Some(quantifier), false)
        }
        symbol => (symbol, None, false),
    };
    let (least, most) = match quantifier {
        None => (1, Some(1)),
        Some(ZeroOrMore) => (0, None),
        Some(OneOrMore) => (1, None),
        Some(AtMostOne) => (0, Some(1)),
        Some(Exactly(count)) => (*count, Some(*count)),
        Some(AtLeast(count)) => (*count, None),
        Some(AtMost(count)) => (0, Some(*count)),
        Some(Range(least, most)) => (*least, Some(*most)),
    };
    if most.is_some_and(|most| most < least.max(1)) {
        return Err(Error::user(format!(
            "a quantifier allows from {least} to {} rows, which is none",
            most.unwrap_or_default()
        )));
    }
    Ok(PatternStep {
        variable: symbol_of(symbol)?,
        least,
        most,
        greedy: !reluctant && most != Some(least),
    })
}

fn symbol_of(pattern: &MatchRecognizePattern) -> Result<String> {
    let refused = match pattern {
        MatchRecognizePattern::Symbol(MatchRecognizeSymbol::Named(name)) => {
            return Ok(name.value.clone());
        }
        MatchRecognizePattern::Symbol(_) => "anchors (^ and $) in a pattern",
        MatchRecognizePattern::Exclude(_) => "excluded variables ({- A -}) in a pattern",
        MatchRecognizePattern::Permute(_) => "PERMUTE in a pattern",
        MatchRecognizePattern::Alternation(_) => "branching patterns (A | B)",
        MatchRecognizePattern::Group(_) | MatchRecognizePattern::Concat(_) => {
            "group patterns ((A B)+)"
        }
        MatchRecognizePattern::Repetition(..) => "a quantifier behind another one",
    };
    Err(Error::unsupported(refused))
}
