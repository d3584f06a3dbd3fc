//! The Flink dialect of the grammar: quoting, keywords, and the expressions which the library's grammar lacks.
//!
//! What has no place in the library's syntax tree becomes a call of a function with a name that no user can write in that
//! form: [`CAST_CALL`] and [`TRY_CAST_CALL`] (the type travels as JSON in a second argument), [`TABLE_ARGUMENT`] (`TABLE t PARTITION BY k`
//! as an argument) and [`MAP_CONSTRUCTOR`].

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, Value, WindowSpec, WindowType,
};
use sqlparser::dialect::Dialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::json_value_parser;
use super::position::syntax_error;
use super::type_parser::parse_type;

/// `CAST(x AS type)`.
pub(super) const CAST_CALL: &str = "CAST";
/// `TRY_CAST(x AS type)`.
pub(super) const TRY_CAST_CALL: &str = "TRY_CAST";
/// `TABLE t` or `TABLE (query)` as an argument; PARTITION BY stands in the call's OVER.
pub(super) const TABLE_ARGUMENT: &str = "TABLE";
/// `MAP[k, v, …]`.
pub(super) const MAP_CONSTRUCTOR: &str = "MAP";

/// `JSON_VALUE(doc, path …)` with its clauses.
const JSON_VALUE: &str = "JSON_VALUE";

/// Flink SQL.
#[derive(Debug)]
pub(super) struct FlinkDialect;

impl Dialect for FlinkDialect {
    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`'
    }

    fn identifier_quote_style(&self, _identifier: &str) -> Option<char> {
        Some('`')
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_' || ch == '$'
    }

    fn supports_unicode_string_literal(&self) -> bool {
        true
    }

    fn supports_string_escape_constant(&self) -> bool {
        true
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_table_versioning(&self) -> bool {
        true
    }

    fn supports_window_function_null_treatment_arg(&self) -> bool {
        true
    }

    fn supports_window_clause_named_window_reference(&self) -> bool {
        true
    }

    fn supports_parens_around_table_factor(&self) -> bool {
        true
    }

    fn supports_named_fn_args_with_rarrow_operator(&self) -> bool {
        true
    }

    fn supports_match_recognize(&self) -> bool {
        true
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let [first, second] = parser.peek_tokens_with_location();
        if let Token::EscapedStringLiteral(text) = &first.token {
            let literal = Value::SingleQuotedString(text.clone()).with_span(first.span);
            parser.advance_token();
            return Some(Ok(Expr::Value(literal)));
        }
        let Token::Word(word) = &first.token else {
            return None;
        };
        if word.quote_style.is_some() {
            return None;
        }
        match (word.keyword, &second.token) {
            (Keyword::CAST, Token::LParen) => Some(parse_cast(parser, CAST_CALL)),
            (Keyword::TRY_CAST, Token::LParen) => Some(parse_cast(parser, TRY_CAST_CALL)),
            (Keyword::TABLE, Token::LParen | Token::Word(_)) => Some(parse_table_argument(parser)),
            (Keyword::MAP, Token::LBracket) => Some(parse_map(parser)),
            (_, Token::LParen) if word.value.eq_ignore_ascii_case(JSON_VALUE) => {
                Some(parse_json_value(parser))
            }
            _ => None,
        }
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        parse_distinct_from(parser, left, precedence)
            .or_else(|| parse_symmetric_between(parser, left, precedence))
    }
}

/// `a IS [NOT] DISTINCT FROM b`, where `b` ends before AND and OR, as behind any comparison.
fn parse_distinct_from(
    parser: &mut Parser,
    left: &Expr,
    precedence: u8,
) -> Option<Result<Expr, ParserError>> {
    use Keyword::{DISTINCT, FROM, IS, NOT};
    let token = parser.peek_token();
    let name = if parser.parse_keywords(&[IS, DISTINCT, FROM]) {
        "IS DISTINCT FROM"
    } else if parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]) {
        "IS NOT DISTINCT FROM"
    } else {
        return None;
    };
    let right = parser.parse_subexpr(precedence);
    Some(right.map(|right| Expr::Function(call(name, &token, vec![left.clone(), right]))))
}

/// `x [NOT] BETWEEN SYMMETRIC a AND b`, whose bounds may stand in either order; ASYMMETRIC says what is usual.
fn parse_symmetric_between(
    parser: &mut Parser,
    left: &Expr,
    precedence: u8,
) -> Option<Result<Expr, ParserError>> {
    use Keyword::{ASYMMETRIC, BETWEEN, NOT, SYMMETRIC};
    let token = parser.peek_token();
    let forms = [
        (vec![BETWEEN, SYMMETRIC], "BETWEEN SYMMETRIC", false),
        (vec![NOT, BETWEEN, SYMMETRIC], "BETWEEN SYMMETRIC", true),
        (vec![BETWEEN, ASYMMETRIC], "BETWEEN", false),
        (vec![NOT, BETWEEN, ASYMMETRIC], "BETWEEN", true),
    ];
    let (_, name, negated) = forms
        .into_iter()
        .find(|(keywords, ..)| parser.parse_keywords(keywords))?;
    let bounds = parse_bounds(parser, precedence);
    Some(bounds.map(|(low, high)| {
        let between = Expr::Function(call(name, &token, vec![left.clone(), low, high]));
        if negated {
            let op = sqlparser::ast::UnaryOperator::Not;
            let expr = Box::new(between);
            return Expr::UnaryOp { op, expr };
        }
        between
    }))
}

fn parse_bounds(parser: &mut Parser, precedence: u8) -> Result<(Expr, Expr), ParserError> {
    let low = parser.parse_subexpr(precedence)?;
    parser.expect_keyword_is(Keyword::AND)?;
    Ok((low, parser.parse_subexpr(precedence)?))
}

fn call(name: &str, at: &TokenWithSpan, arguments: Vec<Expr>) -> Function {
    let mut ident = Ident::new(name);
    ident.span = at.span;
    Function {
        name: ObjectName::from(vec![ident]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments
                .into_iter()
                .map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)))
                .collect(),
            clauses: vec![],
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    }
}

fn parse_cast(parser: &mut Parser, name: &str) -> Result<Expr, ParserError> {
    let token = parser.next_token();
    parser.expect_token(&Token::LParen)?;
    let input = parser.parse_expr()?;
    parser.expect_keyword_is(Keyword::AS)?;
    let at_type = parser.peek_token();
    let logical_type = parse_type(parser)?;
    parser.expect_token(&Token::RParen)?;
    let json = serde_json::to_string(&logical_type).expect("a type can be written as JSON");
    let json = Value::SingleQuotedString(json).with_span(at_type.span);
    Ok(Expr::Function(call(
        name,
        &token,
        vec![input, Expr::Value(json)],
    )))
}

fn parse_table_argument(parser: &mut Parser) -> Result<Expr, ParserError> {
    let token = parser.next_token();
    let table = if parser.consume_token(&Token::LParen) {
        let query = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        Expr::Subquery(query)
    } else {
        Expr::CompoundIdentifier(parser.parse_identifiers_of_name()?)
    };
    let mut function = call(TABLE_ARGUMENT, &token, vec![table]);
    if parser.parse_keywords(&[Keyword::PARTITION, Keyword::BY]) {
        let partition_by = match parser.parse_expr()? {
            Expr::Tuple(keys) => keys,
            Expr::Nested(key) => vec![*key],
            key => vec![key],
        };
        function.over = Some(WindowType::WindowSpec(WindowSpec {
            window_name: None,
            partition_by,
            order_by: vec![],
            window_frame: None,
        }));
    }
    if parser.peek_keyword(Keyword::ORDER) {
        return Err(syntax_error(
            "ORDER BY of a table argument is not supported",
            &parser.peek_token(),
        ));
    }
    Ok(Expr::Function(function))
}

fn parse_map(parser: &mut Parser) -> Result<Expr, ParserError> {
    let token = parser.next_token();
    parser.expect_token(&Token::LBracket)?;
    let entries = if parser.peek_token_ref().token == Token::RBracket {
        vec![]
    } else {
        parser.parse_comma_separated(Parser::parse_expr)?
    };
    parser.expect_token(&Token::RBracket)?;
    Ok(Expr::Function(call(MAP_CONSTRUCTOR, &token, entries)))
}

fn parse_json_value(parser: &mut Parser) -> Result<Expr, ParserError> {
    let token = parser.next_token();
    parser.expect_token(&Token::LParen)?;
    let arguments = json_value_parser::parse_arguments(parser)?;
    Ok(Expr::Function(call(JSON_VALUE, &token, arguments)))
}

/// The parts of a dotted name.
pub(super) trait ParseName {
    /// `a`, `a.b` or `a.b.c`, each with its place.
    fn parse_identifiers_of_name(&mut self) -> Result<Vec<Ident>, ParserError>;
}

impl ParseName for Parser<'_> {
    fn parse_identifiers_of_name(&mut self) -> Result<Vec<Ident>, ParserError> {
        let mut parts = vec![self.parse_name_part()?];
        while self.consume_token(&Token::Period) {
            parts.push(self.parse_name_part()?);
        }
        Ok(parts)
    }
}

/// One part of a name: a word, with or without back-ticks.
pub(super) trait ParseNamePart {
    /// A word; not a string, which the library's grammar would take too.
    fn parse_name_part(&mut self) -> Result<Ident, ParserError>;
}

impl ParseNamePart for Parser<'_> {
    fn parse_name_part(&mut self) -> Result<Ident, ParserError> {
        match self.peek_token().token {
            Token::Word(_) => self.parse_identifier(),
            _ => self.expected("a name", self.peek_token()),
        }
    }
}
