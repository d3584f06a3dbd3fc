//! The clauses of JSON_VALUE: `JSON_VALUE(doc, path [RETURNING type] [NULL | ERROR | DEFAULT literal ON EMPTY] [… ON ERROR])`.
//!
//! They become further string literals of the call, in the order in which `functions` documents them for JSON_VALUE: the
//! mode ON EMPTY, its default, the mode ON ERROR, its default, the type.

use sqlparser::ast::{Expr, UnaryOperator, Value, ValueWithSpan};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::type_parser::parse_type;
use crate::types::TypeRoot;

/// The arguments of a JSON_VALUE of which the opening parenthesis was read; reads the closing one.
pub(super) fn parse_arguments(parser: &mut Parser) -> Result<Vec<Expr>, ParserError> {
    let document = parser.parse_expr()?;
    parser.expect_token(&Token::Comma)?;
    let path = parser.parse_expr()?;
    let start = parser.peek_token();
    let mut clauses = Clauses::default();
    if consume_word(parser, "RETURNING") {
        clauses.returning = Some(match parse_type(parser)?.root {
            TypeRoot::Char(_) | TypeRoot::Varchar(_) => "STRING".to_string(),
            other => other.to_string(),
        });
        // A type takes NULL for its nullability; before ON it was the behaviour.
        if is_word(&parser.peek_token_ref().token, "ON") {
            clauses.parse_on(parser, ("NULL", String::new()))?;
        }
    }
    while !parser.consume_token(&Token::RParen) {
        clauses.parse_one(parser)?;
    }
    let mut arguments = vec![document, path];
    arguments.extend(clauses.into_arguments(&start));
    Ok(arguments)
}

#[derive(Default)]
struct Clauses {
    on_empty: Option<(&'static str, String)>,
    on_error: Option<(&'static str, String)>,
    returning: Option<String>,
}

impl Clauses {
    fn parse_one(&mut self, parser: &mut Parser) -> Result<(), ParserError> {
        let behaviour = if consume_word(parser, "NULL") {
            ("NULL", String::new())
        } else if consume_word(parser, "ERROR") {
            ("ERROR", String::new())
        } else if consume_word(parser, "DEFAULT") {
            ("DEFAULT", parse_default(parser)?)
        } else {
            let found = parser.peek_token();
            return parser.expected("NULL, ERROR or DEFAULT, or )", found);
        };
        self.parse_on(parser, behaviour)
    }

    fn parse_on(
        &mut self,
        parser: &mut Parser,
        behaviour: (&'static str, String),
    ) -> Result<(), ParserError> {
        expect_word(parser, "ON")?;
        let slot = if consume_word(parser, "EMPTY") {
            &mut self.on_empty
        } else {
            expect_word(parser, "ERROR")?;
            &mut self.on_error
        };
        *slot = Some(behaviour);
        Ok(())
    }

    fn into_arguments(self, at: &TokenWithSpan) -> Vec<Expr> {
        if self.on_empty.is_none() && self.on_error.is_none() && self.returning.is_none() {
            return vec![];
        }
        let missing = || ("NULL", String::new());
        let (on_empty, default_on_empty) = self.on_empty.unwrap_or_else(missing);
        let (on_error, default_on_error) = self.on_error.unwrap_or_else(missing);
        [
            on_empty.to_string(),
            default_on_empty,
            on_error.to_string(),
            default_on_error,
            self.returning.unwrap_or_else(|| "STRING".to_string()),
        ]
        .into_iter()
        .map(|text| Expr::Value(Value::SingleQuotedString(text).with_span(at.span)))
        .collect()
    }
}

/// The text of a literal.
fn parse_default(parser: &mut Parser) -> Result<String, ParserError> {
    let start = parser.peek_token();
    let literal = |expr: &Expr| match expr {
        Expr::Value(ValueWithSpan { value, span: _ }) => match value {
            Value::SingleQuotedString(text) | Value::Number(text, _) => Some(text.clone()),
            Value::Boolean(value) => Some(value.to_string()),
            _ => None,
        },
        _ => None,
    };
    let text = match parser.parse_expr()? {
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => literal(&expr).map(|text| format!("-{text}")),
        expr => literal(&expr),
    };
    match text {
        Some(text) => Ok(text),
        None => parser.expected("a literal behind DEFAULT", start),
    }
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

fn consume_word(parser: &mut Parser, word: &str) -> bool {
    let found = is_word(&parser.peek_token_ref().token, word);
    if found {
        parser.advance_token();
    }
    found
}

fn expect_word(parser: &mut Parser, word: &str) -> Result<(), ParserError> {
    if consume_word(parser, word) {
        return Ok(());
    }
    let found = parser.peek_token();
    parser.expected(word, found)
}
