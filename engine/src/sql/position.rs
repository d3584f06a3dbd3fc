//! Places in the SQL text: from the parser's spans and error messages to ours, and the text between two places.

use sqlparser::ast::{
    Expr, Function, Ident, LimitClause, ObjectName, OrderBy, Query, Select, SelectItem, SetExpr,
    Spanned, TableFactor, ValueWithSpan, Values, WildcardAdditionalOptions,
};
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, Span, TokenWithSpan};

use crate::error::Error;
use crate::types::SqlPosition;

/// The place of a location; `None` for the parser's "nowhere" (line 0).
pub(super) fn of_location(location: Location) -> Option<SqlPosition> {
    (location.line > 0).then_some(SqlPosition {
        line: location.line,
        column: location.column,
    })
}

/// Where a span begins.
pub(super) fn of_span(span: Span) -> Option<SqlPosition> {
    of_location(span.start)
}

/// A part of a syntax tree that knows its place.
pub(super) trait Placed {
    /// Where it begins, as far as the parser knows.
    fn position(&self) -> Option<SqlPosition>;
}

impl Placed for Ident {
    fn position(&self) -> Option<SqlPosition> {
        of_span(self.span)
    }
}

/// `impl Placed for T { … of_span(self.span()) }` for each type that the binder names places of.
macro_rules! placed_by_span {
    ($($part:ty),*) => {
        $(impl Placed for $part {
            fn position(&self) -> Option<SqlPosition> {
                of_span(self.span())
            }
        })*
    };
}

placed_by_span!(
    Expr,
    Function,
    LimitClause,
    ObjectName,
    OrderBy,
    Query,
    Select,
    SelectItem,
    SetExpr,
    TableFactor,
    ValueWithSpan,
    Values,
    WildcardAdditionalOptions
);

/// The mark before the place in the parser's messages.
const AT: &str = " at Line: ";

/// A syntax error at a token, in the form which [`from_parser`] reads.
pub(super) fn syntax_error(message: impl std::fmt::Display, token: &TokenWithSpan) -> ParserError {
    let Location { line, column } = token.span.start;
    ParserError::ParserError(format!("{message}{AT}{line}, Column: {column}"))
}

/// The parser's error as ours: the place is cut out of the message.
pub(super) fn from_parser(error: ParserError) -> Error {
    let text = match error {
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => text,
        ParserError::RecursionLimitExceeded => {
            return Error::user("the statement is nested too deeply to be parsed");
        }
    };
    let Some((message, place)) = text.rsplit_once(AT) else {
        return Error::user(format!("syntax error: {}", in_our_words(&text)));
    };
    let place = place
        .split_once(", Column: ")
        .and_then(|(line, column)| Some((line.parse().ok()?, column.trim().parse().ok()?)))
        .and_then(|(line, column)| of_location(Location { line, column }));
    Error::user(format!("syntax error: {}", in_our_words(message))).at(place)
}

fn in_our_words(message: &str) -> String {
    let expected = message
        .strip_prefix("Expected: ")
        .or_else(|| message.strip_prefix("Expected "));
    match expected.and_then(|rest| rest.split_once(", found: ")) {
        Some((expected, "EOF")) => format!("expected {expected}, but the statement ends"),
        Some((expected, found)) => format!("expected {expected}, found {found}"),
        None => message.to_string(),
    }
}

/// The byte at which the given line and column of `text` begins.
pub(super) fn byte_offset(text: &str, location: Location) -> usize {
    let line_start: usize = text
        .split_inclusive('\n')
        .take(location.line.saturating_sub(1) as usize)
        .map(str::len)
        .sum();
    text[line_start..]
        .char_indices()
        .nth(location.column.saturating_sub(1) as usize)
        .map_or(text.len(), |(byte, _)| line_start + byte)
}
