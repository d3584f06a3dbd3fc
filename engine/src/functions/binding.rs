//! Binds calls and casts: checks the arguments, casts them to what the function takes, and tells the type of the result.

use std::ops::RangeInclusive;

use super::registry::{self, Entry};
use crate::error::{Error, Result};
use crate::expr::cast;
use crate::expr::{CastMode, Expression, Literal, Position};
use crate::types::{LogicalType, SqlPosition, TypeRoot};

/// A call of a scalar function or operator (see `functions::registry` for the names), with its arguments cast to what it
/// takes. Errors carry `position`: an unknown name lists close ones, a name that only Flink knows is refused as unsupported.
pub fn bind_scalar(
    name: &str,
    arguments: Vec<Expression>,
    position: Option<SqlPosition>,
) -> Result<Expression> {
    bind(name, arguments, position).map_err(|error| error.at(position))
}

fn bind(
    name: &str,
    mut arguments: Vec<Expression>,
    position: Option<SqlPosition>,
) -> Result<Expression> {
    // The signs of one operand.
    let name = match (name, arguments.len()) {
        ("-", 1) => "NEGATE",
        ("+", 1) if arguments[0].logical_type().root.is_numeric() => {
            return Ok(arguments.remove(0));
        }
        _ => name,
    };
    match registry::find(name)? {
        Entry::Function(function) => {
            let mut binding = Binding {
                name: function.name,
                arguments,
                position,
            };
            let logical_type = (function.bind)(&mut binding)?;
            Ok(Expression::Call {
                function: function.name.to_string(),
                arguments: binding.arguments,
                logical_type,
                position: Position(position),
            })
        }
        Entry::Rewrite(rewrite) => (rewrite.rewrite)(Binding {
            name: rewrite.name,
            arguments,
            position,
        }),
    }
}

/// A written CAST or TRY_CAST. Refuses, naming the types, what Flink refuses. TRY_CAST is nullable.
pub fn bind_cast(
    input: Expression,
    to: LogicalType,
    mode: CastMode,
    position: Option<SqlPosition>,
) -> Result<Expression> {
    let from = input.logical_type();
    cast::check_explicit(from, &to).map_err(|error| error.at(position))?;
    let fails_to_null = mode == CastMode::Null && cast::can_fail(&from.root, &to.root);
    let overflows = from.root != to.root && may_overflow(&from.root, &to.root);
    let logical_type = to.with_nullable(from.nullable || fails_to_null || overflows);
    Ok(cast_node(input, logical_type, mode, position))
}

fn cast_node(
    input: Expression,
    to: LogicalType,
    mode: CastMode,
    position: Option<SqlPosition>,
) -> Expression {
    if let Expression::Literal {
        value: Literal::Null,
        ..
    } = input
    {
        return Expression::literal(Literal::Null, to.with_nullable(true));
    }
    if input.logical_type().root == to.root {
        return input;
    }
    Expression::Cast {
        input: Box::new(input),
        logical_type: to,
        mode,
        position: Position(position),
    }
}

/// The input as a value of type `to`, where Flink allows that without a written CAST: for INSERT, UNION, VALUES and CASE
/// branches. The same expression where the types agree already (nullability aside).
pub fn implicit_cast(input: Expression, to: &LogicalType) -> Result<Expression> {
    let from = input.logical_type();
    if !cast::supports_implicit(&from.root, &to.root) {
        return Err(Error::user(format!(
            "a {} stands where {} is needed",
            from.root, to.root
        ))
        .hint(format!("write CAST(… AS {})", to.root)));
    }
    let nullable = from.nullable;
    Ok(cast_to(input, &to.with_nullable(nullable)))
}

/// A cast that the engine inserts and that is known to be allowed.
pub(crate) fn cast_to(input: Expression, to: &LogicalType) -> Expression {
    let from = input.logical_type();
    let to = to.with_nullable(from.nullable || may_overflow(&from.root, &to.root));
    cast_node(input, to, CastMode::Fail, None)
}

/// Whether a cast makes NULL of a value: a DECIMAL has fewer digits before its point than the value may have.
fn may_overflow(from: &TypeRoot, to: &TypeRoot) -> bool {
    let TypeRoot::Decimal { precision, scale } = to else {
        return false;
    };
    match from.as_decimal() {
        Some((from_precision, from_scale)) => {
            let rounds_up = u8::from(from_scale > *scale);
            from_precision - from_scale + rounds_up > precision - scale
        }
        None => from.is_approximate(),
    }
}

/// Whether evaluating may raise a data error on some row.
pub fn can_fail(expression: &Expression) -> bool {
    let mut fails = false;
    expression.walk(&mut |part| {
        fails |= match part {
            Expression::Call {
                function,
                arguments,
                ..
            } => registry::scalar_function(function)
                .is_ok_and(|function| (function.can_fail)(arguments)),
            Expression::Cast {
                input,
                logical_type,
                mode,
                ..
            } => {
                *mode == CastMode::Fail
                    && cast::can_fail(&input.logical_type().root, &logical_type.root)
            }
            _ => false,
        }
    });
    fails
}

/// Whether the value depends on nothing but the columns: not on the clock, the watermark or chance.
pub fn is_deterministic(expression: &Expression) -> bool {
    let mut deterministic = true;
    expression.walk(&mut |part| {
        if let Expression::Call {
            function,
            arguments,
            ..
        } = part
        {
            deterministic &= registry::hidden_input(function, arguments.len()).is_none()
                && registry::scalar_function(function)
                    .map_or(true, |function| function.is_deterministic);
        }
    });
    deterministic
}

/// A call whose arguments are being checked.
pub(crate) struct Binding {
    /// The function.
    pub(crate) name: &'static str,
    /// Its arguments so far.
    pub(crate) arguments: Vec<Expression>,
    /// Where it stands.
    pub(crate) position: Option<SqlPosition>,
}

impl Binding {
    /// The type of an argument.
    pub(crate) fn root(&self, index: usize) -> &TypeRoot {
        &self.arguments[index].logical_type().root
    }

    /// Whether any argument may be NULL.
    pub(crate) fn any_nullable(&self) -> bool {
        self.arguments
            .iter()
            .any(|argument| argument.logical_type().nullable)
    }

    /// A result type that is nullable where an argument is.
    pub(crate) fn result(&self, root: TypeRoot) -> LogicalType {
        LogicalType {
            root,
            nullable: self.any_nullable(),
        }
    }

    /// Checks the number of arguments.
    pub(crate) fn count(&self, expected: RangeInclusive<usize>) -> Result<()> {
        let count = self.arguments.len();
        if expected.contains(&count) {
            return Ok(());
        }
        let (least, most) = (*expected.start(), *expected.end());
        let wanted = match (least, most) {
            (least, most) if least == most => format!("{least}"),
            (least, usize::MAX) => format!("at least {least}"),
            (least, most) => format!("{least} to {most}"),
        };
        let plural = if most == 1 { "" } else { "s" };
        Err(Error::user(format!(
            "{} takes {wanted} argument{plural}, not {count}",
            self.name
        )))
    }

    /// The error for an argument of a wrong type.
    pub(crate) fn wrong_argument(&self, index: usize, expected: &str) -> Error {
        Error::user(format!(
            "{} takes {expected} as argument {}, not {}",
            self.name,
            index + 1,
            self.root(index)
        ))
    }

    /// Casts an argument to a type to which it can be cast implicitly.
    pub(crate) fn coerce(&mut self, index: usize, to: &TypeRoot) -> Result<()> {
        if !cast::supports_implicit(self.root(index), to) {
            return Err(self.wrong_argument(index, &to.to_string()));
        }
        self.cast(index, to);
        Ok(())
    }

    /// Casts an argument to a type, whatever the implicit rules say.
    pub(crate) fn cast(&mut self, index: usize, to: &TypeRoot) {
        let argument = self.arguments[index].clone();
        let nullable = argument.logical_type().nullable;
        let to = LogicalType {
            root: to.clone(),
            nullable,
        };
        self.arguments[index] = cast_to(argument, &to);
    }

    /// The argument is text (CHAR, VARCHAR, STRING).
    pub(crate) fn string(&mut self, index: usize) -> Result<()> {
        match self.root(index) {
            TypeRoot::Null => self.coerce(index, &TypeRoot::STRING),
            root if root.is_string() => Ok(()),
            _ => Err(self.wrong_argument(index, "STRING")),
        }
    }

    /// All arguments are text.
    pub(crate) fn strings(&mut self) -> Result<()> {
        (0..self.arguments.len()).try_for_each(|index| self.string(index))
    }

    /// The argument is a whole number; it becomes a BIGINT.
    pub(crate) fn integer(&mut self, index: usize) -> Result<()> {
        match self.root(index) {
            TypeRoot::Null => {}
            root if root.is_integer() => {}
            _ => return Err(self.wrong_argument(index, "a whole number")),
        }
        self.coerce(index, &TypeRoot::BigInt)
    }

    /// The argument is a number; it becomes a DOUBLE.
    pub(crate) fn double(&mut self, index: usize) -> Result<()> {
        match self.root(index) {
            TypeRoot::Null => {}
            root if root.is_numeric() => {}
            _ => return Err(self.wrong_argument(index, "a number")),
        }
        self.coerce(index, &TypeRoot::Double)
    }

    /// The argument is a BOOLEAN.
    pub(crate) fn boolean(&mut self, index: usize) -> Result<()> {
        self.coerce(index, &TypeRoot::Boolean)
    }

    /// The text of an argument that must be a string literal.
    pub(crate) fn literal_text(&self, index: usize) -> Result<&str> {
        match &self.arguments[index] {
            Expression::Literal {
                value: Literal::String(text),
                ..
            } => Ok(text),
            _ => Err(Error::user(format!(
                "{} takes a literal as argument {}",
                self.name,
                index + 1
            ))),
        }
    }

    /// The value of an argument that is a whole number as a literal.
    pub(crate) fn literal_integer(&self, index: usize) -> Option<i64> {
        fn value(expression: &Expression) -> Option<i64> {
            match expression {
                Expression::Literal {
                    value: Literal::Integer(value),
                    ..
                } => Some(*value),
                Expression::Cast { input, .. } => value(input),
                _ => None,
            }
        }
        value(self.arguments.get(index)?)
    }

    /// Binds a call that stands for (a part of) this one.
    pub(crate) fn call(&self, name: &str, arguments: Vec<Expression>) -> Result<Expression> {
        bind_scalar(name, arguments, self.position)
    }
}
