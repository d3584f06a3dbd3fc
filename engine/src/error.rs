//! The one error of the engine: who must act, what went wrong, where, and how to mend it.
//!
//! An [`Error`] is sorted by who can do something about it ([`ErrorKind`]). It carries a message in words of the user's
//! world, an optional [`SqlPosition`], the places it passed through (`while …`), and a hint. Errors travel with `?` and
//! are reported once, where they stop.

use std::fmt;

use crate::types::SqlPosition;

/// `Result` with the engine's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Who has to act on an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The author of the SQL or of the options: the statement cannot be run as it is written.
    User,
    /// The owner of the data: a record cannot be decoded or an expression fails on a row.
    Data,
    /// The operator of an outside system: a file, a broker, a network.
    External,
    /// Whoever sized the machine: memory, disk, limits.
    Resource,
    /// Us: a law of the engine was broken.
    Internal,
}

impl ErrorKind {
    /// The exit code of the `volley` binary for a run that ends with this kind: 2 user, 3 data, 4 external,
    /// 5 resource, 70 internal. (0 is success, 1 a failing test case, 130 Ctrl-C.)
    pub fn exit_code(self) -> i32 {
        match self {
            ErrorKind::User => 2,
            ErrorKind::Data => 3,
            ErrorKind::External => 4,
            ErrorKind::Resource => 5,
            ErrorKind::Internal => 70,
        }
    }
}

/// An error of the engine. Boxed inside, so that `Result` stays small.
#[derive(Clone)]
pub struct Error(Box<Details>);

#[derive(Clone)]
struct Details {
    kind: ErrorKind,
    message: String,
    position: Option<SqlPosition>,
    hint: Option<String>,
    context: Vec<String>,
    snippet: Option<Snippet>,
    is_broken_pipe: bool,
}

/// The line of SQL that an error is about.
#[derive(Clone)]
struct Snippet {
    line: String,
    /// What stands before the caret.
    indent: String,
}

impl Error {
    /// An error of the given kind with a message that says what and where.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Details {
            kind,
            message: message.into(),
            position: None,
            hint: None,
            context: Vec::new(),
            snippet: None,
            is_broken_pipe: false,
        }))
    }

    /// The statement or an option is wrong.
    pub fn user(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::User, message)
    }

    /// The statement uses something of Flink SQL that Volley refuses: `what` names it.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::user(format!("{what} is not supported"))
    }

    /// A record or a row is wrong.
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Data, message)
    }

    /// Something outside the process failed.
    pub fn external(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::External, message)
    }

    /// The machine is too small for the job.
    pub fn resource(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Resource, message)
    }

    /// A law of the engine was broken; a user can only report it.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Adds how to mend it. The first hint stays.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// Puts words in front of the message: whose problem it is.
    pub fn prefixed(mut self, prefix: &str) -> Self {
        self.0.message.insert_str(0, prefix);
        self
    }

    /// Adds the place in the SQL text. The first (innermost) position stays.
    pub fn at(mut self, position: impl Into<Option<SqlPosition>>) -> Self {
        if self.0.position.is_none() {
            self.0.position = position.into();
        }
        self
    }

    /// Adds what was going on, outermost last: `while reading file x, line 3`.
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.0.context.push(context.into());
        self
    }

    /// Cuts the line that [`Error::at`] names out of `sql`, with a caret below, for display.
    pub fn with_sql(mut self, sql: &str) -> Self {
        let Some(position) = self.0.position else {
            return self;
        };
        if self.0.snippet.is_some() {
            return self;
        }
        let line = sql.lines().nth(position.line.saturating_sub(1) as usize);
        self.0.snippet = line.map(|line| {
            let before = line
                .chars()
                .take(position.column.saturating_sub(1) as usize);
            let indent = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            Snippet {
                line: line.to_string(),
                indent,
            }
        });
        self
    }

    /// Who has to act.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether whoever read our output has gone (`volley run … | head`), which is no fault of anybody.
    pub fn is_broken_pipe(&self) -> bool {
        self.0.is_broken_pipe
    }

    /// What went wrong, without context and hint.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where in the SQL text, if it is known.
    pub fn position(&self) -> Option<SqlPosition> {
        self.0.position
    }

    /// Moves the position by the place where the statement starts in its script.
    pub fn shifted(mut self, start: SqlPosition) -> Self {
        if let Some(position) = &mut self.0.position {
            *position = position.after(start);
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details = &self.0;
        if let Some(position) = details.position {
            write!(f, "line {}, column {}: ", position.line, position.column)?;
        }
        write!(f, "{}", details.message)?;
        for context in &details.context {
            write!(f, "\n  {context}")?;
        }
        if let (Some(Snippet { line, indent }), Some(position)) =
            (&details.snippet, details.position)
        {
            let number = position.line.to_string();
            let width = number.len();
            write!(f, "\n{number} | {line}\n{:width$} | {indent}^", "")?;
        }
        if let Some(hint) = &details.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        use arrow::error::ArrowError;
        match error {
            ArrowError::ExternalError(inner) => match inner.downcast::<Error>() {
                Ok(own) => *own,
                Err(other) => Error::external(other.to_string()),
            },
            ArrowError::DivideByZero => {
                Error::data("division by zero").hint("guard it: CASE WHEN b <> 0 THEN a / b END")
            }
            ArrowError::IoError(message, _) => Error::external(message),
            ArrowError::ArithmeticOverflow(_)
            | ArrowError::ComputeError(_)
            | ArrowError::CastError(_)
            | ArrowError::ParseError(_)
            | ArrowError::JsonError(_)
            | ArrowError::CsvError(_) => Error::data(error.to_string()),
            other => Error::internal(other.to_string()),
        }
    }
}

impl From<datafusion_common::DataFusionError> for Error {
    fn from(error: datafusion_common::DataFusionError) -> Self {
        use datafusion_common::DataFusionError;
        match error {
            DataFusionError::ArrowError(inner, _) => (*inner).into(),
            DataFusionError::External(inner) => match inner.downcast::<Error>() {
                Ok(own) => *own,
                Err(other) => Error::external(other.to_string()),
            },
            DataFusionError::Context(context, inner) => Error::from(*inner).context(context),
            DataFusionError::Execution(message) => Error::data(message),
            other => Error::internal(other.to_string()),
        }
    }
}

impl From<Error> for datafusion_common::DataFusionError {
    fn from(error: Error) -> Self {
        datafusion_common::DataFusionError::External(Box::new(error))
    }
}

impl From<Error> for arrow::error::ArrowError {
    fn from(error: Error) -> Self {
        arrow::error::ArrowError::ExternalError(Box::new(error))
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        let mut result = Error::external(error.to_string());
        result.0.is_broken_pipe = error.kind() == std::io::ErrorKind::BrokenPipe;
        result
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Error::external(error.to_string())
    }
}
