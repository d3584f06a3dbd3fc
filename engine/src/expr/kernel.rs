//! A kernel: the function that computes one call over a batch, made once when the expression is compiled.

use arrow::array::ArrayRef;

use super::{Arguments, Expression, ExpressionContext, Literal};
use crate::error::Result;
use crate::types::LogicalType;

/// Computes one array of `arguments.rows()` values.
pub(crate) type Kernel = Box<dyn Fn(&Arguments) -> Result<ArrayRef> + Send + Sync>;

/// A call that is about to become a kernel: literal patterns and units are read here, once.
pub(crate) struct Call<'a> {
    /// Its arguments.
    pub(crate) arguments: &'a [Expression],
    /// The type of the result.
    pub(crate) logical_type: &'a LogicalType,
    /// The session.
    pub(crate) context: &'a ExpressionContext,
}

impl Call<'_> {
    /// The type of an argument.
    pub(crate) fn argument_type(&self, index: usize) -> &LogicalType {
        self.arguments[index].logical_type()
    }

    /// The text of an argument that is a string literal.
    pub(crate) fn text(&self, index: usize) -> Option<&str> {
        match self.arguments.get(index)? {
            Expression::Literal {
                value: Literal::String(text),
                ..
            } => Some(text),
            _ => None,
        }
    }
}

/// The kernel of a function that needs nothing of its call.
pub(crate) fn plain(function: fn(&Arguments) -> Result<ArrayRef>) -> Kernel {
    Box::new(function)
}
