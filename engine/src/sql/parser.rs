//! The grammar of statements. Queries and expressions go to the library; everything around them is read here, so that what
//! is not supported is refused by name.

use sqlparser::ast::Query;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::dialect::{FlinkDialect, ParseName, ParseNamePart};
use super::hints::{self, Hints};
use super::match_recognize_tokens;
use super::operator_chain;
use super::position::{self, syntax_error};
use super::script::tokenize;
use super::statement::{Insert, Name, ObjectKind, Statement};
use crate::error::{Error, Result};
use crate::plan::logical::ExplainDetails;
use crate::plan::logical::OnConflict;
use crate::types::SqlPosition;

/// A statement with the hints in it.
#[derive(Debug, Clone)]
pub(super) struct Parsed {
    pub(super) statement: Statement,
    pub(super) hints: Hints,
}

/// Reads one statement; a semicolon may follow it.
pub(super) fn parse_statement(text: &str) -> Result<Parsed> {
    let (tokens, hints) = hints::extract(tokenize(text)?)?;
    let tokens = match_recognize_tokens::move_within(tokens)?;
    operator_chain::check(&tokens)?;
    let parser = parser_of(tokens.clone());
    let mut parser = StatementParser { parser, text };
    match parser.parse_all() {
        Ok(statement) => Ok(Parsed { statement, hints }),
        Err(error) => Err(refine(error, &tokens).at(end_of(&tokens))),
    }
}

/// How deep expressions, subqueries and FROM items may nest.
const MAX_NESTING: usize = 128;

fn parser_of(tokens: Vec<TokenWithSpan>) -> Parser<'static> {
    Parser::new(&FlinkDialect)
        .with_recursion_limit(MAX_NESTING)
        .with_tokens_with_locations(tokens)
}

/// Where the last token ends: the place of an error that the statement stops too early.
fn end_of(tokens: &[TokenWithSpan]) -> Option<SqlPosition> {
    let last = tokens
        .iter()
        .rfind(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF))?;
    position::of_location(last.span.end)
}

/// The library tries `(` first as a subquery and then, where that fails, as a parenthesized join, and reports the second
/// failure, near the subquery's beginning. Parses the subquery alone to find what is wrong with it, if that lies further on.
fn refine(error: Error, tokens: &[TokenWithSpan]) -> Error {
    let Some(place) = error.position() else {
        return error;
    };
    let tokens: Vec<&TokenWithSpan> = tokens
        .iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)))
        .collect();
    let opens_before = |pair: &[&TokenWithSpan]| {
        pair[0].token == Token::LParen
            && starts_query(pair[1])
            && position::of_span(pair[1].span).is_some_and(|start| !is_before(place, start))
    };
    let Some(start) = tokens
        .windows(2)
        .collect::<Vec<_>>()
        .into_iter()
        .rposition(opens_before)
    else {
        return error;
    };
    let inner: Vec<TokenWithSpan> = tokens[start + 1..].iter().copied().cloned().collect();
    let mut parser = parser_of(inner.clone());
    let failure = parser
        .parse_query()
        .and_then(|_| parser.expect_token(&Token::RParen));
    match failure.map_err(position::from_parser) {
        Err(deeper)
            if deeper
                .position()
                .is_none_or(|found| is_before(place, found)) =>
        {
            refine(deeper, &inner)
        }
        _ => error,
    }
}

fn is_before(first: SqlPosition, second: SqlPosition) -> bool {
    (first.line, first.column) < (second.line, second.column)
}

fn starts_query(token: &TokenWithSpan) -> bool {
    matches!(&token.token, Token::Word(word)
        if matches!(word.keyword, Keyword::SELECT | Keyword::WITH | Keyword::VALUES))
}

/// Reads the tokens of one statement; `text` is what they were made from.
pub(super) struct StatementParser<'a> {
    pub(super) parser: Parser<'a>,
    pub(super) text: &'a str,
}

impl StatementParser<'_> {
    fn parse_all(&mut self) -> Result<Statement> {
        let statement = self.parse_statement()?;
        let _ = self.parser.consume_token(&Token::SemiColon);
        let rest = self.parser.peek_token();
        if rest.token != Token::EOF {
            return Err(Error::user(format!(
                "syntax error: expected the end of the statement, found {}",
                rest.token
            ))
            .at(position::of_span(rest.span)));
        }
        Ok(statement)
    }

    fn parse_statement(&mut self) -> Result<Statement> {
        let first = self.parser.peek_token();
        let Token::Word(word) = &first.token else {
            return match first.token {
                Token::LParen => self.parse_query_statement(),
                Token::EOF => Err(Error::user("there is no statement")),
                _ => Err(self.refuse_statement()),
            };
        };
        match word.keyword {
            Keyword::SELECT | Keyword::WITH | Keyword::VALUES => self.parse_query_statement(),
            Keyword::CREATE => self.parse_create(),
            Keyword::DROP => self.parse_drop(),
            Keyword::SET => self.parse_set(),
            Keyword::RESET => self.parse_reset(),
            Keyword::USE => self.parse_use(),
            Keyword::SHOW => self.parse_show(),
            Keyword::DESCRIBE | Keyword::DESC => self.parse_describe(),
            Keyword::INSERT => Ok(Statement::Inserts(vec![self.parse_insert()?])),
            Keyword::EXECUTE | Keyword::BEGIN => self.parse_statement_set(),
            Keyword::EXPLAIN => self.parse_explain(),
            _ => Err(self.refuse_statement()),
        }
    }

    /// Names the statement by its first two words.
    pub(super) fn refuse_statement(&self) -> Error {
        let first = self.parser.peek_nth_token(0);
        let second = self.parser.peek_nth_token(1);
        let name = match (&first.token, &second.token) {
            (Token::Word(first), Token::Word(second)) => {
                format!("{} {}", first.value, second.value).to_uppercase()
            }
            (token, _) => token.to_string().to_uppercase(),
        };
        Error::unsupported(format!("the statement {name} …"))
            .at(position::of_span(first.span))
            .hint(
                "statements: CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, SET, RESET, USE, SHOW TABLES, SHOW VIEWS, \
                 SHOW CREATE TABLE, DESCRIBE, INSERT INTO, EXECUTE STATEMENT SET, EXPLAIN, SELECT",
            )
    }

    /// Refuses what stands at the next token.
    pub(super) fn unsupported(&self, what: &str) -> Error {
        Error::unsupported(what).at(self.position())
    }

    /// Where the next token is.
    pub(super) fn position(&self) -> Option<SqlPosition> {
        position::of_span(self.parser.peek_token_ref().span)
    }

    pub(super) fn name(&mut self) -> Result<Name> {
        self.parser
            .parse_identifiers_of_name()
            .map_err(position::from_parser)
    }

    pub(super) fn expect(&mut self, keyword: Keyword) -> Result<()> {
        self.parser
            .expect_keyword_is(keyword)
            .map_err(position::from_parser)
    }

    pub(super) fn expect_token(&mut self, token: &Token) -> Result<()> {
        self.parser
            .expect_token(token)
            .map(|_| ())
            .map_err(position::from_parser)
    }

    /// Whether the next word is this one; takes it then. For words that are no keywords of the library.
    pub(super) fn parse_word(&mut self, word: &str) -> bool {
        let found = matches!(&self.parser.peek_token_ref().token, Token::Word(next)
            if next.quote_style.is_none() && next.value.eq_ignore_ascii_case(word));
        if found {
            self.parser.advance_token();
        }
        found
    }

    /// A string in single quotes.
    pub(super) fn string(&mut self, what: &str) -> Result<String> {
        let token = self.parser.next_token();
        match token.token {
            Token::SingleQuotedString(text) => Ok(text),
            _ => {
                let message = format!("expected {what} in single quotes, found {}", token.token);
                Err(position::from_parser(syntax_error(message, &token)))
            }
        }
    }

    pub(super) fn query(&mut self) -> Result<Box<Query>> {
        self.parser.parse_query().map_err(position::from_parser)
    }

    fn parse_query_statement(&mut self) -> Result<Statement> {
        Ok(Statement::Query(self.query()?))
    }

    fn parse_set(&mut self) -> Result<Statement> {
        self.expect(Keyword::SET)?;
        if matches!(
            self.parser.peek_token_ref().token,
            Token::EOF | Token::SemiColon
        ) {
            return Ok(Statement::Set(None));
        }
        let place = self.position();
        let hint = "write SET 'key' = 'value'";
        let key = self.string("the key").map_err(|error| error.hint(hint))?;
        self.expect_token(&Token::Eq)
            .map_err(|error| error.hint(hint))?;
        let value = self.string("the value").map_err(|error| error.hint(hint))?;
        Ok(Statement::Set(Some((key, value, place))))
    }

    fn parse_reset(&mut self) -> Result<Statement> {
        self.expect(Keyword::RESET)?;
        if matches!(
            self.parser.peek_token_ref().token,
            Token::EOF | Token::SemiColon
        ) {
            return Ok(Statement::Reset(None));
        }
        let place = self.position();
        Ok(Statement::Reset(Some((self.string("the key")?, place))))
    }

    fn parse_use(&mut self) -> Result<Statement> {
        self.expect(Keyword::USE)?;
        if self.parse_word("MODULES") {
            return Err(Error::unsupported("USE MODULES").at(self.position()));
        }
        let catalog = self.parser.parse_keyword(Keyword::CATALOG);
        Ok(Statement::Use(catalog, self.name()?))
    }

    fn parse_show(&mut self) -> Result<Statement> {
        if self
            .parser
            .parse_keywords(&[Keyword::SHOW, Keyword::CREATE])
        {
            let kind = self.object_kind("SHOW CREATE")?;
            return Ok(Statement::ShowCreate(kind, self.name()?));
        }
        if self
            .parser
            .parse_keywords(&[Keyword::SHOW, Keyword::TABLES])
        {
            return Ok(Statement::ShowTables);
        }
        if self.parser.parse_keywords(&[Keyword::SHOW, Keyword::VIEWS]) {
            return Ok(Statement::ShowViews);
        }
        Err(self.refuse_statement())
    }

    /// TABLE or VIEW.
    pub(super) fn object_kind(&mut self, statement: &str) -> Result<ObjectKind> {
        if self.parser.parse_keyword(Keyword::TABLE) {
            return Ok(ObjectKind::Table);
        }
        if self.parser.parse_keyword(Keyword::VIEW) {
            return Ok(ObjectKind::View);
        }
        let token = self.parser.peek_token();
        Err(self.unsupported(&format!(
            "the statement {statement} {} …",
            token.token.to_string().to_uppercase()
        )))
    }

    fn parse_describe(&mut self) -> Result<Statement> {
        self.parser.advance_token();
        if self.parser.peek_keyword(Keyword::EXTENDED) {
            return Err(self.unsupported("DESCRIBE EXTENDED"));
        }
        let _ = self.parser.parse_keyword(Keyword::TABLE);
        Ok(Statement::Describe(self.name()?))
    }

    fn parse_insert(&mut self) -> Result<Insert> {
        self.expect(Keyword::INSERT)?;
        if self.parser.peek_keyword(Keyword::OVERWRITE) {
            return Err(self.unsupported("INSERT OVERWRITE"));
        }
        self.expect(Keyword::INTO)?;
        let table = self.name()?;
        if self.parser.peek_keyword(Keyword::PARTITION) {
            return Err(self.unsupported("PARTITION (…) of INSERT INTO"));
        }
        let columns = self.insert_columns()?;
        if self.parser.peek_keyword(Keyword::ON) {
            return Err(
                Error::user("ON CONFLICT stands behind the query of INSERT INTO")
                    .at(self.position()),
            );
        }
        let query = self.query()?;
        let on_conflict = self.on_conflict()?;
        Ok(Insert {
            table,
            columns,
            query,
            on_conflict,
        })
    }

    /// `ON CONFLICT DO NOTHING`, `DO ERROR` or `DO DEDUPLICATE`, where it is there.
    fn on_conflict(&mut self) -> Result<Option<OnConflict>> {
        if !self.parser.parse_keyword(Keyword::ON) {
            return Ok(None);
        }
        self.expect(Keyword::CONFLICT)?;
        self.expect(Keyword::DO)?;
        let position = self.position();
        let action = self.parser.next_token().token.to_string().to_uppercase();
        let actions = [
            OnConflict::DoNothing,
            OnConflict::DoError,
            OnConflict::DoDeduplicate,
        ];
        match actions.into_iter().find(|known| known.name() == action) {
            Some(action) => Ok(Some(action)),
            None => Err(Error::user(format!("ON CONFLICT DO {action} is not known"))
                .at(position)
                .hint("DO NOTHING, DO ERROR and DO DEDUPLICATE are")),
        }
    }

    /// `(a, b)`, unless the parenthesis opens the query.
    fn insert_columns(&mut self) -> Result<Vec<sqlparser::ast::Ident>> {
        let opens_query = starts_query(&self.parser.peek_nth_token(1))
            || self.parser.peek_nth_token(1).token == Token::LParen;
        if self.parser.peek_token_ref().token != Token::LParen || opens_query {
            return Ok(vec![]);
        }
        self.names_in_parentheses()
    }

    /// `(a, b, …)`.
    pub(super) fn names_in_parentheses(&mut self) -> Result<Vec<sqlparser::ast::Ident>> {
        self.expect_token(&Token::LParen)?;
        let names = self
            .parser
            .parse_comma_separated(|parser| parser.parse_name_part())
            .map_err(position::from_parser)?;
        self.expect_token(&Token::RParen)?;
        Ok(names)
    }

    /// `EXECUTE STATEMENT SET BEGIN …; END`, `BEGIN STATEMENT SET; …; END`, and `STATEMENT SET BEGIN …` behind EXPLAIN.
    fn parse_statement_set(&mut self) -> Result<Statement> {
        let execute = self.parser.peek_keyword(Keyword::EXECUTE);
        let second = self.parser.peek_nth_token(1);
        let is_set =
            matches!(&second.token, Token::Word(word) if word.keyword == Keyword::STATEMENT);
        if execute && matches!(&second.token, Token::Word(word) if word.keyword == Keyword::INSERT)
        {
            self.parser.advance_token();
            return Ok(Statement::Inserts(vec![self.parse_insert()?]));
        }
        if !is_set {
            return Err(self.refuse_statement());
        }
        self.parser.advance_token();
        self.parse_statement_set_body()
    }

    fn parse_statement_set_body(&mut self) -> Result<Statement> {
        self.expect(Keyword::STATEMENT)?;
        self.expect(Keyword::SET)?;
        if !self.parser.consume_token(&Token::SemiColon) {
            self.expect(Keyword::BEGIN)?;
        }
        let mut inserts = Vec::new();
        while !self.parser.parse_keyword(Keyword::END) {
            if !self.parser.peek_keyword(Keyword::INSERT) {
                return Err(self.not_in_statement_set());
            }
            inserts.push(self.parse_insert()?);
            self.expect_token(&Token::SemiColon)?;
        }
        if inserts.is_empty() {
            return Err(Error::user("the statement set is empty").at(self.position()));
        }
        Ok(Statement::Inserts(inserts))
    }

    fn not_in_statement_set(&self) -> Error {
        let token = self.parser.peek_token();
        let found = match token.token {
            Token::EOF => "but the statement ends".to_string(),
            other => format!("found {other}"),
        };
        Error::user(format!(
            "syntax error: expected INSERT INTO or END in a statement set, {found}"
        ))
        .at(position::of_span(token.span))
    }

    fn parse_explain(&mut self) -> Result<Statement> {
        self.expect(Keyword::EXPLAIN)?;
        if self.parse_word("UPGRADE") {
            let path = self.parse_upgrade_path()?;
            let statement = self.parse_explained()?;
            return Ok(Statement::ExplainUpgrade(path, Box::new(statement)));
        }
        let mut mode = ExplainDetails::default();
        if !self.parser.parse_keywords(&[Keyword::PLAN, Keyword::FOR]) {
            loop {
                if self.parse_word("CHANGELOG_MODE") {
                    mode.changelog_mode = true;
                } else if self.parse_word("STATE") {
                    mode.state = true;
                } else {
                    self.refuse_explain_detail()?;
                    break;
                }
                if !self.parser.consume_token(&Token::Comma) {
                    break;
                }
            }
        }
        let statement = self.parse_explained()?;
        Ok(Statement::Explain(mode, Box::new(statement)))
    }

    /// `FROM 'path'`, which may be left out.
    fn parse_upgrade_path(&mut self) -> Result<Option<String>> {
        if !self.parser.parse_keyword(Keyword::FROM) {
            return Ok(None);
        }
        let place = self.position();
        match self.parser.next_token().token {
            Token::SingleQuotedString(path) => Ok(Some(path)),
            _ => Err(
                Error::user("EXPLAIN UPGRADE FROM is followed by a path in quotes")
                    .at(place)
                    .hint("EXPLAIN UPGRADE FROM '/path/to/savepoint' INSERT INTO …"),
            ),
        }
    }

    /// The statement behind EXPLAIN.
    fn parse_explained(&mut self) -> Result<Statement> {
        let place = self.position();
        let statement = if self.parser.peek_keyword(Keyword::STATEMENT) {
            self.parse_statement_set_body()?
        } else {
            self.parse_statement()?
        };
        match statement {
            Statement::Inserts(_) | Statement::Query(_) => Ok(statement),
            _ => Err(
                Error::user("EXPLAIN is for a query, an INSERT INTO or a statement set").at(place),
            ),
        }
    }

    fn refuse_explain_detail(&self) -> Result<()> {
        const LATER: [&str; 3] = ["ESTIMATED_COST", "JSON_EXECUTION_PLAN", "PLAN_ADVICE"];
        match &self.parser.peek_token_ref().token {
            Token::Word(word) if LATER.contains(&word.value.to_uppercase().as_str()) => {
                let what = format!("EXPLAIN {}", word.value.to_uppercase());
                Err(self
                    .unsupported(&what)
                    .hint("EXPLAIN CHANGELOG_MODE and EXPLAIN STATE are"))
            }
            _ => Ok(()),
        }
    }
}

/// An expression or type, with the library's error as ours.
pub(super) fn parsed<T>(result: Result<T, ParserError>) -> Result<T> {
    result.map_err(position::from_parser)
}
