//! Expressions: from the syntax tree to typed expressions over the columns of a scope.

use sqlparser::ast::{
    AccessExpr, Array, BinaryOperator, CaseWhen, CeilFloorKind, DateTimeField, Expr, ExtractSyntax,
    Ident, Subscript, TrimWhereField, TypedString, UnaryOperator, Value, ValueWithSpan,
};

use super::binder::Binder;
use super::grouping::Grouping;
use super::interval::bind_interval;
use super::literal::{self, bind_literal, bind_number, bind_typed_string};
use super::match_recognize::PatternScope;
use super::over::OverCalls;
use super::position::Placed;
use super::scope::Scope;
use super::suggestion;
use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::functions;
use crate::types::{SqlPosition, TypeRoot};

/// The most operators that may follow each other without parentheses, AND and OR aside.
const MAX_CHAIN: usize = 300;

/// Binds expressions of one clause.
pub(super) struct ExpressionBinder<'a> {
    pub(super) binder: &'a Binder<'a>,
    pub(super) scope: &'a Scope,
    /// The clause, for messages.
    pub(super) clause: &'static str,
    /// Where the query is grouped: what expressions may refer to, and where aggregates are collected.
    pub(super) grouping: Option<&'a mut Grouping>,
    /// Where calls with OVER are collected; they are refused without it.
    pub(super) over: Option<&'a mut OverCalls>,
    /// In MATCH_RECOGNIZE: what names and calls mean there.
    pub(super) pattern: Option<&'a mut PatternScope>,
}

impl<'a> ExpressionBinder<'a> {
    /// A binder for a clause that allows neither aggregates nor OVER.
    pub(super) fn plain(binder: &'a Binder<'a>, scope: &'a Scope, clause: &'static str) -> Self {
        ExpressionBinder {
            binder,
            scope,
            clause,
            grouping: None,
            over: None,
            pattern: None,
        }
    }

    /// A condition: BOOLEAN.
    pub(super) fn bind_condition(&mut self, expr: &Expr) -> Result<Expression> {
        let condition = self.bind(expr)?;
        match condition.logical_type().root {
            TypeRoot::Boolean => Ok(condition),
            TypeRoot::Null => {
                functions::implicit_cast(condition, &crate::types::LogicalType::BOOLEAN)
            }
            _ => Err(Error::user(format!(
                "the condition of {} is {}, not BOOLEAN",
                self.clause,
                condition.logical_type()
            ))
            .at(self.place(expr))),
        }
    }

    /// Any expression. Nesting is bounded by the parser's limit, chains of operators by [`MAX_CHAIN`].
    pub(super) fn bind(&mut self, expr: &Expr) -> Result<Expression> {
        if let Expr::BinaryOp { .. } = expr {
            return self.bind_chain(expr);
        }
        if let Some(grouped) = self.match_group(expr)? {
            return Ok(grouped);
        }
        let place = self.place(expr);
        match expr {
            Expr::Nested(inner) => self.bind(inner),
            Expr::Identifier(ident) => self.bind_name(std::slice::from_ref(ident), place),
            Expr::CompoundIdentifier(parts) => self.bind_name(parts, place),
            Expr::CompoundFieldAccess { root, access_chain } => {
                self.bind_access(root, access_chain)
            }
            Expr::Value(ValueWithSpan { value, span: _ }) => {
                bind_literal(value).map_err(|error| error.at(place))
            }
            Expr::TypedString(literal) => self.bind_typed_string(literal),
            Expr::Interval(interval) => bind_interval(interval).map_err(|error| error.at(place)),
            Expr::Function(function) => self.bind_function(function),
            Expr::UnaryOp { op, expr } => self.bind_unary(op, expr, place),
            Expr::BinaryOp { .. } => self.bind_chain(expr),
            Expr::IsNull(input) => self.call("IS NULL", &[input], place),
            Expr::IsNotNull(input) => self.call("IS NOT NULL", &[input], place),
            Expr::IsTrue(input) => self.call("IS TRUE", &[input], place),
            Expr::IsNotTrue(input) => self.call("IS NOT TRUE", &[input], place),
            Expr::IsFalse(input) => self.call("IS FALSE", &[input], place),
            Expr::IsNotFalse(input) => self.call("IS NOT FALSE", &[input], place),
            Expr::IsUnknown(input) => self.call("IS UNKNOWN", &[input], place),
            Expr::IsNotUnknown(input) => self.call("IS NOT UNKNOWN", &[input], place),
            Expr::IsDistinctFrom(a, b) => self.call("IS DISTINCT FROM", &[a, b], place),
            Expr::IsNotDistinctFrom(a, b) => self.call("IS NOT DISTINCT FROM", &[a, b], place),
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => {
                let between = self.call("BETWEEN", &[expr, low, high], place)?;
                self.negated_if(*negated, between, place)
            }
            Expr::InList {
                expr,
                list,
                negated,
            } => self.bind_in_list(expr, list, *negated, place),
            Expr::Like {
                negated,
                any,
                expr,
                pattern,
                escape_char,
            } => {
                if *any {
                    return Err(self.binder.unsupported("LIKE ANY", expr.as_ref()));
                }
                self.bind_pattern("LIKE", expr, pattern, escape_char.as_ref(), *negated, place)
            }
            Expr::SimilarTo {
                negated,
                expr,
                pattern,
                escape_char,
            } => self.bind_pattern(
                "SIMILAR TO",
                expr,
                pattern,
                escape_char.as_ref(),
                *negated,
                place,
            ),
            Expr::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => self.bind_case(
                operand.as_deref(),
                conditions,
                else_result.as_deref(),
                place,
            ),
            Expr::Extract {
                field,
                syntax,
                expr,
            } => self.bind_extract(field, syntax, expr, place),
            Expr::Ceil { expr, field } => self.bind_rounding("CEIL", expr, field, place),
            Expr::Floor { expr, field } => self.bind_rounding("FLOOR", expr, field, place),
            Expr::Position { expr, r#in } => self.call("POSITION", &[expr, r#in], place),
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                special: _, // How the arguments were separated.
                shorthand,
            } => self.bind_substring(
                expr,
                substring_from.as_deref(),
                substring_for.as_deref(),
                *shorthand,
                place,
            ),
            Expr::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters,
            } => {
                if trim_characters.is_some() {
                    return Err(self
                        .binder
                        .unsupported("TRIM(x, characters)", expr.as_ref()));
                }
                self.bind_trim(trim_where.as_ref(), trim_what.as_deref(), expr, place)
            }
            Expr::Overlay {
                expr,
                overlay_what,
                overlay_from,
                overlay_for,
            } => {
                let mut arguments = vec![expr.as_ref(), overlay_what, overlay_from];
                arguments.extend(overlay_for.as_deref());
                self.call("OVERLAY", &arguments, place)
            }
            Expr::Tuple(values) => {
                let values: Vec<&Expr> = values.iter().collect();
                self.call("ROW", &values, place)
            }
            Expr::Array(Array { elem, named: true }) => {
                let elements: Vec<&Expr> = elem.iter().collect();
                self.call("ARRAY", &elements, place)
            }
            Expr::Array(_) => Err(Error::user(
                "syntax error: [ stands where an expression must stand",
            )
            .at(place)
            .hint("an array is written ARRAY[…]")),
            Expr::InSubquery { negated, .. } => Err(self.subquery_place(
                if *negated {
                    "NOT IN (SELECT …)"
                } else {
                    "IN (SELECT …)"
                },
                expr,
            )),
            Expr::Exists { negated, .. } => {
                Err(self.subquery_place(if *negated { "NOT EXISTS" } else { "EXISTS" }, expr))
            }
            Expr::Subquery(query) => self.bind_scalar_subquery(query),
            Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_) => {
                Err(Error::user("GROUPING SETS, CUBE and ROLLUP stand in GROUP BY only").at(place))
            }
            Expr::AtTimeZone { .. } => Err(self
                .binder
                .unsupported("AT TIME ZONE", expr)
                .hint("use CONVERT_TZ, or CAST between TIMESTAMP and TIMESTAMP_LTZ")),
            Expr::Cast { .. } => Err(self
                .binder
                .unsupported("the cast ::", expr)
                .hint("write CAST(x AS type)")),
            other => Err(self
                .binder
                .unsupported(format!("the expression {}", shortened(other)), expr)),
        }
    }

    pub(super) fn place(&self, part: &impl Placed) -> Option<SqlPosition> {
        self.binder.place(part)
    }

    /// The column of the grouped query that an expression stands for, where it is one of GROUP BY.
    fn match_group(&mut self, expr: &Expr) -> Result<Option<Expression>> {
        let Some(grouping) = &self.grouping else {
            return Ok(None);
        };
        let is_name = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        if !is_name && !grouping.has_computed() {
            return Ok(None);
        }
        let mut plain = ExpressionBinder::plain(self.binder, self.scope, self.clause);
        match plain.bind(expr) {
            Ok(bound) => Ok(grouping.column_of(&bound)),
            // The parts are bound next and tell what is wrong.
            Err(_) => Ok(None),
        }
    }

    /// A name: a column, then fields of it.
    fn bind_name(&mut self, parts: &[Ident], place: Option<SqlPosition>) -> Result<Expression> {
        parts
            .iter()
            .try_for_each(|part| self.binder.name(part).map(|_| ()))?;
        if self.pattern.is_some() {
            let (column, taken) = self.bind_pattern_name(parts, place)?;
            return self.bind_fields(column, &parts[taken..]);
        }
        let (column, taken) = self.scope.resolve(parts, place)?;
        if let Some(grouping) = &self.grouping {
            let grouped = grouping.column_of(&column);
            return match grouped {
                Some(column) => self.bind_fields(column, &parts[taken..]),
                None => Err(self.not_grouped(&column, place)),
            };
        }
        self.bind_fields(column, &parts[taken..])
    }

    fn not_grouped(&self, column: &Expression, place: Option<SqlPosition>) -> Error {
        Error::user(format!(
            "column \"{column}\" must appear in GROUP BY or inside an aggregate function"
        ))
        .at(place)
        .hint(format!(
            "add {column} to GROUP BY, or use it in COUNT, SUM, MIN, MAX, …"
        ))
    }

    fn bind_fields(&self, root: Expression, names: &[Ident]) -> Result<Expression> {
        names
            .iter()
            .try_fold(root, |input, name| self.field(input, name))
    }

    fn field(&self, input: Expression, name: &Ident) -> Result<Expression> {
        let wanted = self.binder.name(name)?;
        let TypeRoot::Row(fields) = &input.logical_type().root else {
            return Err(Error::user(format!(
                "{input} is {}: it has no field \"{wanted}\"",
                input.logical_type()
            ))
            .at(self.place(name)));
        };
        let Some(index) = fields.iter().position(|field| field.name == wanted) else {
            let names = fields.iter().map(|field| field.name.as_str());
            return Err(Error::user(format!("{input} has no field \"{wanted}\""))
                .at(self.place(name))
                .hint(suggestion::hint(&wanted, "fields", names)));
        };
        let field = &fields[index].logical_type;
        let logical_type = field.with_nullable(field.nullable || input.logical_type().nullable);
        Ok(Expression::FieldAccess {
            input: Box::new(input),
            field: index,
            logical_type,
        })
    }

    /// `t.a[1].f`: the names in front may be a table, a column and its fields.
    fn bind_access(&mut self, root: &Expr, chain: &[AccessExpr]) -> Result<Expression> {
        let mut names = match root {
            Expr::Identifier(ident) => vec![ident.clone()],
            Expr::CompoundIdentifier(parts) => parts.clone(),
            _ => vec![],
        };
        let mut rest = chain;
        while let ([AccessExpr::Dot(Expr::Identifier(name)), behind @ ..], false) =
            (rest, names.is_empty())
        {
            names.push(name.clone());
            rest = behind;
        }
        let mut result = if names.is_empty() {
            self.bind(root)?
        } else {
            self.bind_name(&names, self.place(root))?
        };
        for access in rest {
            result = self.bind_one_access(result, access)?;
        }
        Ok(result)
    }

    fn bind_one_access(&mut self, input: Expression, access: &AccessExpr) -> Result<Expression> {
        match access {
            AccessExpr::Dot(Expr::Identifier(name)) => self.field(input, name),
            AccessExpr::Dot(other) => Err(self
                .binder
                .unsupported(format!(".{}", shortened(other)), other)),
            AccessExpr::Subscript(Subscript::Index { index }) => {
                let place = self.place(index);
                let index = self.bind(index)?;
                functions::bind_scalar("ITEM", vec![input, index], place)
            }
            AccessExpr::Subscript(slice @ Subscript::Slice { .. }) => {
                Err(Error::unsupported(format!("the slice [{slice}]")).hint("use ARRAY_SLICE"))
            }
        }
    }

    fn bind_typed_string(&self, literal: &TypedString) -> Result<Expression> {
        bind_typed_string(literal).map_err(|error| error.at(self.place(&literal.value)))
    }

    /// A call of a function or operator whose arguments are all expressions.
    fn call(
        &mut self,
        name: &str,
        arguments: &[&Expr],
        place: Option<SqlPosition>,
    ) -> Result<Expression> {
        let arguments = arguments
            .iter()
            .map(|argument| self.bind(argument))
            .collect::<Result<Vec<_>>>()?;
        functions::bind_scalar(name, arguments, place)
    }

    fn negated_if(
        &self,
        negated: bool,
        input: Expression,
        place: Option<SqlPosition>,
    ) -> Result<Expression> {
        if negated {
            functions::bind_scalar("NOT", vec![input], place)
        } else {
            Ok(input)
        }
    }

    fn bind_unary(
        &mut self,
        op: &UnaryOperator,
        expr: &Expr,
        place: Option<SqlPosition>,
    ) -> Result<Expression> {
        match op {
            UnaryOperator::Not => self.call("NOT", &[expr], place),
            UnaryOperator::Plus => self.bind_plus(expr, place),
            UnaryOperator::Minus => match expr {
                Expr::Value(ValueWithSpan {
                    value: Value::Number(digits, false),
                    span: _,
                }) => bind_number(&format!("-{digits}")).map_err(|error| error.at(place)),
                _ => self.call("NEGATE", &[expr], place),
            },
            other => Err(self
                .binder
                .unsupported(format!("the operator {other}"), expr)),
        }
    }

    /// `+x` is x, where x is a number or an interval.
    fn bind_plus(&mut self, expr: &Expr, place: Option<SqlPosition>) -> Result<Expression> {
        let input = self.bind(expr)?;
        let root = &input.logical_type().root;
        let signed = root.is_numeric()
            || matches!(
                root,
                TypeRoot::Null | TypeRoot::IntervalDayTime | TypeRoot::IntervalYearMonth
            );
        if signed {
            return Ok(input);
        }
        Err(Error::user(format!(
            "the sign + stands before a {}",
            input.logical_type()
        ))
        .at(place))
    }

    /// `a + b + c …`: bound from the left without recursion, so that a long chain does not exhaust the stack.
    fn bind_chain(&mut self, expr: &Expr) -> Result<Expression> {
        let mut links = Vec::new();
        let mut first = expr;
        let mut bound = None;
        while let Expr::BinaryOp { left, op, right } = first {
            let follows = |(before, _): &(&BinaryOperator, &Expr)| {
                *before == op || !(is_logical(before) || is_logical(op))
            };
            if !links.last().is_none_or(follows) {
                break;
            }
            bound = self.match_group(first)?;
            if bound.is_some() {
                break;
            }
            links.push((op, right.as_ref()));
            first = left;
        }
        links.reverse();
        let first = match bound {
            Some(bound) => bound,
            None => self.bind(first)?,
        };
        let place = self.place(expr);
        if let Some(name) = long_condition(&links) {
            return self.bind_long_condition(name, first, &links, place);
        }
        if let Some((_, right)) = links.get(MAX_CHAIN) {
            return Err(Error::user(format!(
                "an expression has more than {MAX_CHAIN} operators in a row"
            ))
            .at(self.place(*right))
            .hint("put parentheses around parts of it"));
        }
        links.into_iter().try_fold(first, |left, (op, right)| {
            let name = operator_name(op)
                .ok_or_else(|| Error::unsupported(format!("the operator {op}")).at(place))?;
            let right = self.bind(right)?;
            functions::bind_scalar(name, vec![left, right], place)
        })
    }

    /// Many conditions joined by AND or OR: a tree of few levels with the conditions in their order.
    fn bind_long_condition(
        &mut self,
        name: &str,
        first: Expression,
        links: &[(&BinaryOperator, &Expr)],
        place: Option<SqlPosition>,
    ) -> Result<Expression> {
        let mut level = vec![first];
        for (_, right) in links {
            level.push(self.bind(right)?);
        }
        while level.len() > 1 {
            let mut pairs = Vec::with_capacity(level.len().div_ceil(2));
            let mut rest = level.into_iter();
            while let Some(left) = rest.next() {
                pairs.push(match rest.next() {
                    Some(right) => functions::bind_scalar(name, vec![left, right], place)?,
                    None => left,
                });
            }
            level = pairs;
        }
        Ok(level.remove(0))
    }

    fn bind_in_list(
        &mut self,
        expr: &Expr,
        list: &[Expr],
        negated: bool,
        place: Option<SqlPosition>,
    ) -> Result<Expression> {
        let mut arguments = vec![expr];
        arguments.extend(list);
        let found = self.call("IN", &arguments, place)?;
        self.negated_if(negated, found, place)
    }

    fn bind_pattern(
        &mut self,
        name: &str,
        expr: &Expr,
        pattern: &Expr,
        escape: Option<&ValueWithSpan>,
        negated: bool,
        place: Option<SqlPosition>,
    ) -> Result<Expression> {
        let mut arguments = vec![self.bind(expr)?, self.bind(pattern)?];
        if let Some(ValueWithSpan { value, span: _ }) = escape {
            arguments.push(bind_literal(value).map_err(|error| error.at(place))?);
        }
        let matched = functions::bind_scalar(name, arguments, place)?;
        self.negated_if(negated, matched, place)
    }

    fn bind_case(
        &mut self,
        operand: Option<&Expr>,
        conditions: &[CaseWhen],
        else_result: Option<&Expr>,
        place: Option<SqlPosition>,
    ) -> Result<Expression> {
        let mut arguments = Vec::with_capacity(conditions.len() * 2 + 1);
        for CaseWhen { condition, result } in conditions {
            arguments.push(match operand {
                Some(operand) => self.call("=", &[operand, condition], self.place(condition))?,
                None => self.bind(condition)?,
            });
            arguments.push(self.bind(result)?);
        }
        arguments.push(match else_result {
            Some(result) => self.bind(result)?,
            None => literal::null(),
        });
        functions::bind_scalar("CASE", arguments, place)
    }

    fn bind_extract(
        &mut self,
        field: &DateTimeField,
        syntax: &ExtractSyntax,
        expr: &Expr,
        place: Option<SqlPosition>,
    ) -> Result<Expression> {
        if *syntax != ExtractSyntax::From {
            return Err(self.binder.unsupported("EXTRACT(unit, x)", expr));
        }
        let unit = literal::string(&field.to_string().to_uppercase());
        let input = self.bind(expr)?;
        functions::bind_scalar("EXTRACT", vec![unit, input], place)
    }

    /// `FLOOR(x)` of a number, or `FLOOR(x TO unit)` of a time.
    fn bind_rounding(
        &mut self,
        name: &str,
        expr: &Expr,
        field: &CeilFloorKind,
        place: Option<SqlPosition>,
    ) -> Result<Expression> {
        let mut arguments = vec![self.bind(expr)?];
        match field {
            CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) => {}
            CeilFloorKind::DateTimeField(unit) => {
                arguments.push(literal::string(&unit.to_string().to_uppercase()))
            }
            CeilFloorKind::Scale(_) => {
                return Err(self.binder.unsupported(format!("{name}(x, digits)"), expr));
            }
        }
        functions::bind_scalar(name, arguments, place)
    }

    fn bind_substring(
        &mut self,
        expr: &Expr,
        from: Option<&Expr>,
        length: Option<&Expr>,
        shorthand: bool,
        place: Option<SqlPosition>,
    ) -> Result<Expression> {
        let mut arguments = vec![expr];
        if from.is_none() && length.is_some() {
            return Err(self
                .binder
                .unsupported("SUBSTRING(x FOR n) without FROM", expr));
        }
        arguments.extend(from);
        arguments.extend(length);
        let name = if shorthand { "SUBSTR" } else { "SUBSTRING" };
        self.call(name, &arguments, place)
    }

    /// TRIM's arguments: which end, what to trim (a blank by default), the text.
    fn bind_trim(
        &mut self,
        end: Option<&TrimWhereField>,
        what: Option<&Expr>,
        expr: &Expr,
        place: Option<SqlPosition>,
    ) -> Result<Expression> {
        let end = end.map_or("BOTH".to_string(), |end| end.to_string());
        let what = match what {
            Some(what) => self.bind(what)?,
            None => literal::string(" "),
        };
        let arguments = vec![literal::string(&end), what, self.bind(expr)?];
        functions::bind_scalar("TRIM", arguments, place)
    }

    fn subquery_place(&self, what: &str, expr: &Expr) -> Error {
        self.binder
            .not_yet(format!("{what} at this place"), expr)
            .hint("it may stand in WHERE, alone or joined to other conditions by AND")
    }
}

/// AND or OR, where a chain has many of them; it has nothing else then.
fn long_condition(links: &[(&BinaryOperator, &Expr)]) -> Option<&'static str> {
    const LONG: usize = 32;
    let (op, _) = links.first()?;
    (is_logical(op) && links.len() > LONG)
        .then(|| operator_name(op))
        .flatten()
}

fn is_logical(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::And | BinaryOperator::Or)
}

/// The name of a binary operator in `functions`.
fn operator_name(op: &BinaryOperator) -> Option<&'static str> {
    Some(match op {
        BinaryOperator::Plus => "+",
        BinaryOperator::Minus => "-",
        BinaryOperator::Multiply => "*",
        BinaryOperator::Divide => "/",
        BinaryOperator::Modulo => "%",
        BinaryOperator::StringConcat => "||",
        BinaryOperator::Eq => "=",
        BinaryOperator::NotEq => "<>",
        BinaryOperator::Lt => "<",
        BinaryOperator::LtEq => "<=",
        BinaryOperator::Gt => ">",
        BinaryOperator::GtEq => ">=",
        BinaryOperator::And => "AND",
        BinaryOperator::Or => "OR",
        _ => return None,
    })
}

/// The text of an expression, cut to a length that fits a message.
pub(super) fn shortened(expr: &Expr) -> String {
    let text = expr.to_string();
    if text.chars().count() <= 60 {
        return text;
    }
    text.chars().take(57).chain("...".chars()).collect()
}
