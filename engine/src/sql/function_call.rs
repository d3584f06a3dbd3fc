//! Calls: casts, constructors, aggregates, OVER and scalar functions, each with the clauses that it may have.

use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
    ValueWithSpan,
};

use super::dialect::{CAST_CALL, MAP_CONSTRUCTOR, TABLE_ARGUMENT, TRY_CAST_CALL};
use super::expression::{ExpressionBinder, shortened};
use super::{aggregate, legacy_window, literal, table_function};
use crate::error::{Error, Result};
use crate::expr::{CastMode, Expression, Position};
use crate::functions;
use crate::types::{LogicalType, SqlPosition};

/// A call after the parts that no function may have were refused.
pub(super) struct Call<'e> {
    /// Upper case.
    pub(super) name: String,
    pub(super) arguments: &'e [FunctionArg],
    pub(super) distinct: bool,
    pub(super) filter: Option<&'e Expr>,
    pub(super) place: Option<SqlPosition>,
}

impl ExpressionBinder<'_> {
    pub(super) fn bind_function(&mut self, function: &Function) -> Result<Expression> {
        let call = self.read_call(function)?;
        if let Some(over) = &function.over
            && call.name != TABLE_ARGUMENT
        {
            return self.bind_over(&call, over);
        }
        self.bind_call(&call)
    }

    /// Checks everything but the arguments and OVER.
    pub(super) fn read_call<'e>(&self, function: &'e Function) -> Result<Call<'e>> {
        let Function {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            filter,
            null_treatment,
            over: _, // The caller's.
            within_group,
        } = function;
        let parts = self.binder.name_parts(name)?;
        let [ident] = &parts[..] else {
            return Err(self
                .binder
                .unsupported(format!("the function {name}"), name)
                .hint("only built-in functions are there, without a catalog before their name"));
        };
        let upper = ident.value.to_uppercase();
        let refuse = |what: &str| self.binder.unsupported(format!("{what} of {upper}"), name);
        if *uses_odbc_syntax {
            return Err(refuse("the form {fn …}"));
        }
        if !matches!(parameters, FunctionArguments::None) {
            return Err(refuse("a second list of arguments"));
        }
        if null_treatment.is_some() {
            return Err(refuse("IGNORE NULLS or RESPECT NULLS"));
        }
        if !within_group.is_empty() {
            return Err(refuse("WITHIN GROUP"));
        }
        let (arguments, distinct) = match args {
            FunctionArguments::None => (&[][..], false),
            FunctionArguments::Subquery(_) => return Err(refuse("a subquery as the argument")),
            FunctionArguments::List(list) => {
                if let Some(clause) = list.clauses.first() {
                    return Err(refuse(&clause.to_string()));
                }
                let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
                (&list.args[..], distinct)
            }
        };
        Ok(Call {
            name: upper,
            arguments,
            distinct,
            filter: filter.as_deref(),
            place: self.place(name),
        })
    }

    fn bind_call(&mut self, call: &Call) -> Result<Expression> {
        if let Some(value) = self.bind_pattern_call(call)? {
            return Ok(value);
        }
        if let Some(column) = self.bind_grouping_call(call)? {
            return Ok(column);
        }
        if functions::is_aggregate(&call.name) {
            return self.bind_aggregate(call);
        }
        self.refuse_aggregate_clauses(call)?;
        match call.name.as_str() {
            CAST_CALL => self.bind_cast(call, CastMode::Fail),
            TRY_CAST_CALL => self.bind_cast(call, CastMode::Null),
            MAP_CONSTRUCTOR | "ROW" | "ARRAY" => self.bind_scalar(call),
            "TIMESTAMPADD" | "TIMESTAMPDIFF" => self.bind_with_unit(call),
            TABLE_ARGUMENT => {
                Err(Error::user("TABLE stands where a value must stand").at(call.place))
            }
            name if table_function::is_window_function(name) => {
                Err(self.window_function_as_value(call))
            }
            "UNNEST" => Err(Error::user("UNNEST stands in FROM only")
                .at(call.place)
                .hint("FROM t CROSS JOIN UNNEST(t.items) AS u (item)")),
            _ => self.bind_scalar(call),
        }
    }

    /// GROUPING and the functions of legacy group windows.
    fn bind_grouping_call(&mut self, call: &Call) -> Result<Option<Expression>> {
        if matches!(call.name.as_str(), "GROUPING" | "GROUPING_ID") {
            return aggregate::bind_grouping_id(self, call).map(Some);
        }
        if legacy_window::is_auxiliary(&call.name) {
            return legacy_window::bind_auxiliary(self, call).map(Some);
        }
        Ok(None)
    }

    fn window_function_as_value(&self, call: &Call) -> Error {
        Error::user(format!(
            "{} stands where a value must stand",
            call.name
        ))
        .at(call.place)
        .hint(format!(
            "windows are made in FROM: SELECT … FROM {}(TABLE t, DESCRIPTOR(ts), …) GROUP BY window_start, window_end",
            call.name
        ))
    }

    fn refuse_aggregate_clauses(&self, call: &Call) -> Result<()> {
        let clause = match call {
            Call { distinct: true, .. } => "DISTINCT",
            Call {
                filter: Some(_), ..
            } => "FILTER",
            _ => return Ok(()),
        };
        Err(Error::user(format!(
            "{clause} is for aggregate functions; {} is none",
            call.name
        ))
        .at(call.place))
    }

    fn bind_scalar(&mut self, call: &Call) -> Result<Expression> {
        let arguments = self.bind_arguments(call)?;
        functions::bind_scalar(&call.name, arguments, call.place)
    }

    pub(super) fn bind_arguments(&mut self, call: &Call) -> Result<Vec<Expression>> {
        call.arguments
            .iter()
            .map(|argument| {
                let expr = self.plain_argument(call, argument)?;
                self.bind(expr)
            })
            .collect()
    }

    /// The expression of an argument without a name.
    pub(super) fn plain_argument<'e>(
        &self,
        call: &Call,
        argument: &'e FunctionArg,
    ) -> Result<&'e Expr> {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
            FunctionArg::Unnamed(
                FunctionArgExpr::Wildcard
                | FunctionArgExpr::QualifiedWildcard(_)
                | FunctionArgExpr::WildcardWithOptions(_),
            ) => Err(Error::user(format!("{} does not take *", call.name)).at(call.place)),
            FunctionArg::Named { .. } | FunctionArg::ExprNamed { .. } => Err(Error::unsupported(
                format!("the named argument {argument} of {}", call.name),
            )
            .at(call.place)),
        }
    }

    fn bind_cast(&mut self, call: &Call, mode: CastMode) -> Result<Expression> {
        let [input, logical_type] = call.arguments else {
            return Err(Error::internal("the dialect gives a cast two arguments"));
        };
        let input = self.plain_argument(call, input)?;
        let logical_type = self.plain_argument(call, logical_type)?;
        let input = self.bind(input)?;
        let target = cast_target(logical_type)?;
        let bound = functions::bind_cast(input.clone(), target, mode, call.place)?;
        if bound == input && input.logical_type().root.is_timestamp() {
            return Ok(opaque(input, mode, call.place));
        }
        Ok(bound)
    }

    /// `TIMESTAMPADD(DAY, 1, ts)`: the unit is a bare word.
    fn bind_with_unit(&mut self, call: &Call) -> Result<Expression> {
        let Some((unit, rest)) = call.arguments.split_first() else {
            return self.bind_scalar(call);
        };
        let unit = match self.plain_argument(call, unit)? {
            Expr::Identifier(unit) => literal::string(&unit.value.to_uppercase()),
            other => {
                return Err(Error::user(format!(
                    "{} takes a unit first, not {}",
                    call.name,
                    shortened(other)
                ))
                .at(call.place)
                .hint("units: YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND"));
            }
        };
        let mut arguments = vec![unit];
        for argument in rest {
            let expr = self.plain_argument(call, argument)?;
            arguments.push(self.bind(expr)?);
        }
        functions::bind_scalar(&call.name, arguments, call.place)
    }
}

/// A time column that is cast to its own type: no time attribute any more, so no bare column either.
fn opaque(input: Expression, mode: CastMode, place: Option<SqlPosition>) -> Expression {
    let logical_type = input.logical_type().clone();
    Expression::Cast {
        input: Box::new(input),
        logical_type,
        mode,
        position: Position(place),
    }
}

/// The type which the dialect wrote as JSON.
fn cast_target(expr: &Expr) -> Result<LogicalType> {
    let Expr::Value(ValueWithSpan {
        value: Value::SingleQuotedString(json),
        span: _,
    }) = expr
    else {
        return Err(Error::internal(
            "the dialect gives a cast its type as a string",
        ));
    };
    serde_json::from_str(json)
        .map_err(|error| Error::internal(format!("the type of a cast: {error}")))
}
