//! Window functions in FROM: `TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE)` and its kin, by position or by name.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgOperator, FunctionArguments, Ident,
    WindowSpec as AstWindowSpec, WindowType,
};

use super::binder::{Binder, Environment};
use super::dialect::TABLE_ARGUMENT;
use super::expression::{ExpressionBinder, shortened};
use super::scope::{Relation, Scope};
use super::window_function::{self, Length};
use crate::error::{Error, Result};
use crate::expr::{Expression, Position};
use crate::plan::logical::{LogicalPlan, WindowTableFunction};
use crate::types::{Field, SqlPosition};
use crate::window::{WindowKind, WindowSpec};

/// What a window function takes, by position.
struct Signature {
    name: &'static str,
    /// The lengths after DATA and TIMECOL.
    lengths: &'static [&'static str],
    /// How many of them must be there.
    required: usize,
}

const SIGNATURES: [Signature; 4] = [
    Signature {
        name: "TUMBLE",
        lengths: &["SIZE", "OFFSET"],
        required: 1,
    },
    Signature {
        name: "HOP",
        lengths: &["SLIDE", "SIZE", "OFFSET"],
        required: 2,
    },
    Signature {
        name: "CUMULATE",
        lengths: &["STEP", "SIZE", "OFFSET"],
        required: 2,
    },
    Signature {
        name: "SESSION",
        lengths: &["GAP"],
        required: 1,
    },
];

impl Signature {
    fn parameters(&self) -> Vec<&'static str> {
        [&["DATA", "TIMECOL"][..], self.lengths].concat()
    }

    /// How a call looks.
    fn usage(&self) -> String {
        let lengths: Vec<String> = self
            .lengths
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let name = name.to_lowercase();
                if index < self.required {
                    format!(", {name}")
                } else {
                    format!(" [, {name}]")
                }
            })
            .collect();
        format!("{}(TABLE t, DESCRIPTOR(ts){})", self.name, lengths.concat())
    }
}

/// Whether a name is that of a window function.
pub(super) fn is_window_function(name: &str) -> bool {
    SIGNATURES
        .iter()
        .any(|signature| signature.name.eq_ignore_ascii_case(name))
}

/// A call of a window function with its arguments sorted into parameters.
struct WindowCall<'e> {
    signature: &'static Signature,
    /// In the order of the parameters.
    arguments: Vec<Option<&'e Expr>>,
    place: Option<SqlPosition>,
}

impl WindowCall<'_> {
    fn usage_error(&self, message: String, place: Option<SqlPosition>) -> Error {
        Error::user(message)
            .at(place)
            .at(self.place)
            .hint(self.signature.usage())
    }
}

impl Binder<'_> {
    /// The function inside `TABLE(…)`.
    pub(super) fn bind_table_function(
        &self,
        expr: &Expr,
        environment: &Environment,
    ) -> Result<Relation> {
        let Expr::Function(function) = expr else {
            return Err(Error::user(format!(
                "TABLE(…) takes a table function, not {}",
                shortened(expr)
            ))
            .at(self.place(expr)));
        };
        let Function {
            name,
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args: FunctionArguments::List(list),
            filter: None,
            null_treatment: None,
            over: None,
            within_group,
        } = function
        else {
            return Err(self.unsupported(
                format!("this form of the table function {}", function.name),
                function,
            ));
        };
        if !within_group.is_empty()
            || list.duplicate_treatment.is_some()
            || !list.clauses.is_empty()
        {
            return Err(
                self.unsupported(format!("this form of the table function {name}"), function)
            );
        }
        let parts = self.name_parts(name)?;
        self.bind_window_function(&parts, &list.args, environment)
    }

    /// A window function by its name and arguments.
    pub(super) fn bind_window_function(
        &self,
        name: &[Ident],
        arguments: &[FunctionArg],
        environment: &Environment,
    ) -> Result<Relation> {
        let place = self.place_of_name(name);
        let signature = match name {
            [single] => SIGNATURES
                .iter()
                .find(|signature| signature.name.eq_ignore_ascii_case(&single.value)),
            _ => None,
        };
        let Some(signature) = signature else {
            let written: Vec<&str> = name.iter().map(|part| part.value.as_str()).collect();
            return Err(
                Error::unsupported(format!("the table function {}", written.join(".")))
                    .at(place)
                    .hint("table functions: TUMBLE, HOP, CUMULATE, SESSION, UNNEST"),
            );
        };
        let call = self.sort_arguments(signature, arguments, place)?;
        self.bind_window_call(&call, environment)
    }

    fn sort_arguments<'e>(
        &self,
        signature: &'static Signature,
        arguments: &'e [FunctionArg],
        place: Option<SqlPosition>,
    ) -> Result<WindowCall<'e>> {
        let parameters = signature.parameters();
        let mut call = WindowCall {
            signature,
            arguments: vec![None; parameters.len()],
            place,
        };
        let mut named = false;
        for (position, argument) in arguments.iter().enumerate() {
            let (index, expr) = match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if !named => (position, expr),
                FunctionArg::Named {
                    name,
                    arg: FunctionArgExpr::Expr(expr),
                    operator: FunctionArgOperator::RightArrow,
                } if named || position == 0 => {
                    named = true;
                    (self.parameter(&call, &parameters, name)?, expr)
                }
                other => {
                    let message = format!(
                        "the argument {other} of {}: either all arguments have names (NAME => value), or none",
                        signature.name
                    );
                    return Err(call.usage_error(message, None));
                }
            };
            match call.arguments.get_mut(index) {
                None => {
                    let message = format!(
                        "{} takes at most {} arguments",
                        signature.name,
                        parameters.len()
                    );
                    return Err(call.usage_error(message, self.place(expr)));
                }
                Some(Some(_)) => {
                    let message = format!("{} has {} twice", signature.name, parameters[index]);
                    return Err(call.usage_error(message, self.place(expr)));
                }
                Some(slot) => *slot = Some(expr),
            }
        }
        let missing = (0..2 + signature.required).find(|index| call.arguments[*index].is_none());
        match missing {
            None => Ok(call),
            Some(index) => {
                let message = format!("{} lacks its {}", signature.name, parameters[index]);
                Err(call.usage_error(message, None))
            }
        }
    }

    fn parameter(&self, call: &WindowCall, parameters: &[&str], name: &Ident) -> Result<usize> {
        parameters
            .iter()
            .position(|parameter| parameter.eq_ignore_ascii_case(&name.value))
            .ok_or_else(|| {
                Error::user(format!(
                    "{} has no argument {}",
                    call.signature.name, name.value
                ))
                .at(self.place(name))
                .hint(format!("arguments: {}", parameters.join(", ")))
            })
    }

    fn bind_window_call(&self, call: &WindowCall, environment: &Environment) -> Result<Relation> {
        let data = call.arguments[0].expect("checked with the required ones");
        let (input, partition_by) = self.bind_table_argument(call, data, environment)?;
        let descriptor = call.arguments[1].expect("checked with the required ones");
        let time_column = self.bind_descriptor(call, descriptor, &input.scope)?;
        let field = &input.scope.columns[time_column].field;
        let time = self.window_time(field).ok_or_else(|| {
            let fields = input.scope.columns.iter().map(|column| &column.field);
            self.not_a_time_attribute(call.signature.name, field, fields, self.place(descriptor))
        })?;
        let (kind, offset_ms) = self.bind_lengths(call)?;
        if !partition_by.is_empty() && !matches!(kind, WindowKind::Session { .. }) {
            let message = format!(
                "PARTITION BY is for SESSION; {} has none",
                call.signature.name
            );
            return Err(call.usage_error(message, None));
        }
        let plan = LogicalPlan::WindowTableFunction(WindowTableFunction {
            input: Box::new(settle_attributes(input)),
            window: WindowSpec {
                kind,
                offset_ms,
                time,
            },
            time_column,
            partition_by,
            position: Position(call.place),
        });
        Ok(Relation::new(plan, None))
    }

    /// `TABLE t [PARTITION BY …]`, `TABLE (query)` or `(query)`.
    fn bind_table_argument(
        &self,
        call: &WindowCall,
        expr: &Expr,
        environment: &Environment,
    ) -> Result<(Relation, Vec<usize>)> {
        match expr {
            Expr::Subquery(query) => {
                let plan = self.bind_query(query, environment)?;
                Ok((Relation::new(plan, None), vec![]))
            }
            Expr::Nested(inner) => self.bind_table_argument(call, inner, environment),
            Expr::Function(function) if is_table_argument(function) => {
                let FunctionArguments::List(list) = &function.args else {
                    return Err(Error::internal("the dialect gives TABLE one argument"));
                };
                let [FunctionArg::Unnamed(FunctionArgExpr::Expr(table))] = &list.args[..] else {
                    return Err(Error::internal("the dialect gives TABLE one argument"));
                };
                let input = match table {
                    Expr::CompoundIdentifier(name) => {
                        let plan = self.bind_named_table(name, environment)?;
                        let qualifier = name.last().map(|part| part.value.clone());
                        Relation::new(plan, qualifier)
                    }
                    query => return self.bind_table_argument(call, query, environment),
                };
                let keys = match &function.over {
                    Some(WindowType::WindowSpec(AstWindowSpec { partition_by, .. })) => {
                        self.bind_partition_keys(call, partition_by, &input.scope)?
                    }
                    _ => vec![],
                };
                Ok((input, keys))
            }
            other => Err(call.usage_error(
                format!(
                    "{} takes a table first, written TABLE name, not {}",
                    call.signature.name,
                    shortened(other)
                ),
                self.place(other),
            )),
        }
    }

    fn bind_partition_keys(
        &self,
        call: &WindowCall,
        keys: &[Expr],
        scope: &Scope,
    ) -> Result<Vec<usize>> {
        keys.iter()
            .map(|key| self.bind_column(call, key, scope, "PARTITION BY"))
            .collect()
    }

    fn bind_column(
        &self,
        call: &WindowCall,
        expr: &Expr,
        scope: &Scope,
        clause: &'static str,
    ) -> Result<usize> {
        match ExpressionBinder::plain(self, scope, clause).bind(expr)? {
            Expression::Column { index, .. } => Ok(index),
            _ => Err(call.usage_error(
                format!(
                    "{clause} of {} takes columns, not {}",
                    call.signature.name,
                    shortened(expr)
                ),
                self.place(expr),
            )),
        }
    }

    fn bind_descriptor(&self, call: &WindowCall, expr: &Expr, scope: &Scope) -> Result<usize> {
        let wrong = || {
            call.usage_error(
                format!(
                    "{} takes DESCRIPTOR(time column) second, not {}",
                    call.signature.name,
                    shortened(expr)
                ),
                self.place(expr),
            )
        };
        let Expr::Function(Function {
            name,
            args: FunctionArguments::List(list),
            ..
        }) = expr
        else {
            return Err(wrong());
        };
        let is_descriptor = name.to_string().eq_ignore_ascii_case("DESCRIPTOR");
        match &list.args[..] {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(column))] if is_descriptor => {
                self.bind_column(call, column, scope, "DESCRIPTOR")
            }
            _ => Err(wrong()),
        }
    }

    /// The lengths by position: of TUMBLE size and offset, and so on.
    fn bind_lengths(&self, call: &WindowCall) -> Result<(WindowKind, i64)> {
        let scope = Scope::default();
        let length = |index: usize| -> Result<Option<Length>> {
            let Some(expr) = call.arguments.get(2 + index).copied().flatten() else {
                return Ok(None);
            };
            let name = match call.signature.lengths[index] {
                "SIZE" => "size",
                "SLIDE" => "slide",
                "STEP" => "step",
                "GAP" => "gap",
                _ => "offset",
            };
            let bound = ExpressionBinder::plain(self, &scope, "a window function").bind(expr)?;
            Length::of(name, call.signature.name, &bound, self.place(expr)).map(Some)
        };
        let required = |index: usize| -> Result<Length> {
            Ok(length(index)?.expect("required lengths are there"))
        };
        let offset = length(call.signature.required)?.map_or(0, |offset| offset.ms);
        let kind = match call.signature.name {
            "TUMBLE" => WindowKind::Tumble {
                size_ms: required(0)?.positive("TUMBLE")?,
            },
            "HOP" => window_function::hop(required(0)?, required(1)?)?,
            "CUMULATE" => window_function::cumulate(required(0)?, required(1)?)?,
            _ => WindowKind::Session {
                gap_ms: required(0)?.positive("SESSION")?,
            },
        };
        Ok((kind, offset))
    }
}

/// Whether a call is what the dialect makes of `TABLE …`.
fn is_table_argument(function: &Function) -> bool {
    function.name.to_string() == TABLE_ARGUMENT
}

/// A plan whose schema has only the time attributes that its scope still has.
fn settle_attributes(relation: Relation) -> LogicalPlan {
    let fields: Vec<Field> = relation
        .scope
        .columns
        .into_iter()
        .map(|column| column.field)
        .collect();
    let items = super::projection::columns_of(&crate::types::Schema::new(fields.clone()));
    super::projection::project(relation.plan, &fields, items)
}
