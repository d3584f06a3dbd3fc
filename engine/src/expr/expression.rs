//! The serialisable expression which plans, compiled plans and workers carry; `compiler.rs` turns it into kernels.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::{LogicalType, SqlPosition};

/// A typed expression over the columns of one input row.
///
/// Everything that has an operator sign or a name in SQL is a [`Expression::Call`]: `=`, `AND`, `CASE`, `UPPER`. The
/// names are upper case and listed in `functions::registry`. Equality ignores the position in the SQL text, so that equal
/// sub-plans are found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Expression {
    /// A column of the input.
    Column {
        /// Its index in the input schema.
        index: usize,
        /// Its name, for EXPLAIN and messages only.
        name: String,
        /// Its type.
        logical_type: LogicalType,
    },
    /// A constant.
    Literal {
        /// Its value.
        value: Literal,
        /// Its type.
        logical_type: LogicalType,
    },
    /// A function or operator. `CASE` has the arguments condition, result, condition, result, …, else.
    Call {
        /// Upper-case name.
        function: String,
        /// Arguments, already cast to what the function takes.
        arguments: Vec<Expression>,
        /// The type of the result.
        logical_type: LogicalType,
        /// Where it stands in the SQL text, for errors at run time.
        position: Position,
    },
    /// CAST and TRY_CAST.
    Cast {
        /// What is cast.
        input: Box<Expression>,
        /// The target type.
        logical_type: LogicalType,
        /// What a value that does not fit does.
        mode: CastMode,
        /// Where it stands in the SQL text.
        position: Position,
    },
    /// A field of a ROW: `r.f`.
    FieldAccess {
        /// The row.
        input: Box<Expression>,
        /// The index of the field in the ROW type.
        field: usize,
        /// The type of the field; nullable where the row is.
        logical_type: LogicalType,
    },
}

/// A place in the SQL text which takes no part in equality and hashing.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Position(pub Option<SqlPosition>);

impl PartialEq for Position {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Position {}
impl std::hash::Hash for Position {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// What a cast does with a value that cannot be converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CastMode {
    /// CAST: the job fails with a data error.
    Fail,
    /// TRY_CAST: NULL.
    Null,
}

/// A constant value. The variant must agree with the literal's type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Literal {
    /// NULL of any type.
    Null,
    /// TRUE or FALSE.
    Boolean(bool),
    /// TINYINT to BIGINT; DATE (days since 1970); TIME (ms of day); TIMESTAMP and TIMESTAMP_LTZ in the unit of their Arrow
    /// layout; INTERVAL DAY TO SECOND (ms) and YEAR TO MONTH (months).
    Integer(i64),
    /// The unscaled value of a DECIMAL, in decimal digits.
    Decimal(String),
    /// The IEEE bits of a FLOAT (widened) or DOUBLE.
    DoubleBits(u64),
    /// CHAR, VARCHAR or STRING.
    String(String),
    /// BINARY, VARBINARY or BYTES.
    Binary(Vec<u8>),
}

impl Literal {
    /// A FLOAT or DOUBLE value.
    pub fn double(value: f64) -> Literal {
        Literal::DoubleBits(value.to_bits())
    }
}

impl Expression {
    /// A column.
    pub fn column(index: usize, name: impl Into<String>, logical_type: LogicalType) -> Self {
        Expression::Column {
            index,
            name: name.into(),
            logical_type,
        }
    }

    /// A constant.
    pub fn literal(value: Literal, logical_type: LogicalType) -> Self {
        Expression::Literal {
            value,
            logical_type,
        }
    }

    /// The constant TRUE.
    pub fn always_true() -> Self {
        Self::literal(
            Literal::Boolean(true),
            LogicalType::BOOLEAN.with_nullable(false),
        )
    }

    /// A call whose types have been checked already; binding from SQL goes through `functions::bind_scalar`.
    pub fn call(
        function: impl Into<String>,
        arguments: Vec<Expression>,
        logical_type: LogicalType,
    ) -> Self {
        Expression::Call {
            function: function.into(),
            arguments,
            logical_type,
            position: Position(None),
        }
    }

    /// A cast that fails on values that do not fit.
    pub fn cast(input: Expression, logical_type: LogicalType) -> Self {
        Expression::Cast {
            input: Box::new(input),
            logical_type,
            mode: CastMode::Fail,
            position: Position(None),
        }
    }

    /// The type of its values.
    pub fn logical_type(&self) -> &LogicalType {
        match self {
            Expression::Column { logical_type, .. }
            | Expression::Literal { logical_type, .. }
            | Expression::Call { logical_type, .. }
            | Expression::Cast { logical_type, .. }
            | Expression::FieldAccess { logical_type, .. } => logical_type,
        }
    }

    /// The direct inputs.
    pub fn children(&self) -> Vec<&Expression> {
        match self {
            Expression::Column { .. } | Expression::Literal { .. } => vec![],
            Expression::Call { arguments, .. } => arguments.iter().collect(),
            Expression::Cast { input, .. } | Expression::FieldAccess { input, .. } => vec![input],
        }
    }

    /// Calls `visit` on this expression and on everything below it, parents first.
    pub fn walk(&self, visit: &mut dyn FnMut(&Expression)) {
        visit(self);
        for child in self.children() {
            child.walk(visit);
        }
    }

    /// The same expression with every part replaced by what `rewrite` makes of it, children first.
    pub fn transform(self, rewrite: &mut dyn FnMut(Expression) -> Expression) -> Expression {
        let with_new_children = match self {
            Expression::Call {
                function,
                arguments,
                logical_type,
                position,
            } => {
                let arguments = arguments
                    .into_iter()
                    .map(|argument| argument.transform(rewrite))
                    .collect();
                Expression::Call {
                    function,
                    arguments,
                    logical_type,
                    position,
                }
            }
            Expression::Cast {
                input,
                logical_type,
                mode,
                position,
            } => Expression::Cast {
                input: Box::new(input.transform(rewrite)),
                logical_type,
                mode,
                position,
            },
            Expression::FieldAccess {
                input,
                field,
                logical_type,
            } => Expression::FieldAccess {
                input: Box::new(input.transform(rewrite)),
                field,
                logical_type,
            },
            leaf => leaf,
        };
        rewrite(with_new_children)
    }

    /// The columns that it reads, sorted, each once.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns = Vec::new();
        self.walk(&mut |part| {
            if let Expression::Column { index, .. } = part {
                columns.push(*index);
            }
        });
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Whether any part is a call of the named function.
    pub fn calls(&self, name: &str) -> bool {
        let mut found = false;
        self.walk(&mut |part| {
            found |= matches!(part, Expression::Call { function, .. } if function == name)
        });
        found
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Column { name, .. } => write!(f, "{name}"),
            Expression::Literal {
                value,
                logical_type,
            } => write_literal(f, value, logical_type),
            Expression::Call {
                function,
                arguments,
                ..
            } => write_call(f, function, arguments),
            Expression::Cast {
                input,
                logical_type,
                mode,
                ..
            } => {
                let name = if *mode == CastMode::Fail {
                    "CAST"
                } else {
                    "TRY_CAST"
                };
                write!(f, "{name}({input} AS {})", logical_type.root)
            }
            Expression::FieldAccess { input, field, .. } => match &input.logical_type().root {
                crate::types::TypeRoot::Row(fields) => write!(f, "{input}.{}", fields[*field].name),
                _ => write!(f, "{input}.{field}"),
            },
        }
    }
}

fn write_literal(
    f: &mut fmt::Formatter<'_>,
    value: &Literal,
    logical_type: &LogicalType,
) -> fmt::Result {
    match value {
        Literal::Null => write!(f, "NULL"),
        Literal::Boolean(value) => write!(f, "{}", if *value { "TRUE" } else { "FALSE" }),
        Literal::Integer(value) if logical_type.root.is_integer() => write!(f, "{value}"),
        Literal::Integer(value) => write!(f, "{value}:{}", logical_type.root),
        Literal::Decimal(digits) => write!(f, "{digits}:{}", logical_type.root),
        Literal::DoubleBits(bits) => write!(f, "{:?}", f64::from_bits(*bits)),
        Literal::String(text) => write!(f, "'{}'", text.replace('\'', "''")),
        Literal::Binary(bytes) => {
            write!(f, "X'")?;
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
            write!(f, "'")
        }
    }
}

fn write_call(f: &mut fmt::Formatter<'_>, function: &str, arguments: &[Expression]) -> fmt::Result {
    const INFIX: [&str; 15] = [
        "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "AND", "OR", "||", "LIKE",
    ];
    if INFIX.contains(&function) && arguments.len() >= 2 {
        let parts: Vec<String> = arguments
            .iter()
            .map(|argument| argument.to_string())
            .collect();
        return write!(f, "({})", parts.join(&format!(" {function} ")));
    }
    let parts: Vec<String> = arguments
        .iter()
        .map(|argument| argument.to_string())
        .collect();
    write!(f, "{function}({})", parts.join(", "))
}
