//! Splits a script into statements at the semicolons outside strings, comments and statement sets.

use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace};

use super::dialect::FlinkDialect;
use super::position;
use crate::error::{Error, Result};
use crate::types::SqlPosition;

/// One statement of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptStatement {
    /// Its text, without the semicolon behind it and the comments around it.
    pub text: String,
    /// Where it begins in the script.
    pub start: SqlPosition,
}

/// The statements of a script. Fails where a string or comment does not end, at its place in the script.
pub fn split_script(text: &str) -> Result<Vec<ScriptStatement>> {
    let mut statements = Vec::new();
    let mut current: Vec<TokenWithSpan> = Vec::new();
    for token in tokenize(text)? {
        match token.token {
            Token::Whitespace(_) | Token::EOF if !is_hint(&token) || current.is_empty() => {}
            Token::SemiColon if !in_statement_set(&current) => {
                statements.extend(statement(text, &current));
                current.clear();
            }
            _ => current.push(token),
        }
    }
    statements.extend(statement(text, &current));
    Ok(statements)
}

/// Whether a comment is a hint, which belongs to the statement even behind its last word.
fn is_hint(token: &TokenWithSpan) -> bool {
    matches!(&token.token, Token::Whitespace(Whitespace::MultiLineComment(text)) if text.starts_with('+'))
}

/// The tokens of a text, comments and blanks included.
pub(super) fn tokenize(text: &str) -> Result<Vec<TokenWithSpan>> {
    Tokenizer::new(&FlinkDialect, text)
        .tokenize_with_location()
        .map_err(|error| {
            Error::user(format!("syntax error: {}", error.message))
                .at(position::of_location(error.location))
                .with_sql(text)
        })
}

fn statement(text: &str, tokens: &[TokenWithSpan]) -> Option<ScriptStatement> {
    let (first, last) = (tokens.first()?, tokens.last()?);
    let Location { line, column } = first.span.start;
    let start = position::byte_offset(text, first.span.start);
    let end = position::byte_offset(text, last.span.end);
    Some(ScriptStatement {
        text: text[start..end].to_string(),
        start: SqlPosition { line, column },
    })
}

/// Whether the tokens open a statement set that no END has closed yet.
fn in_statement_set(tokens: &[TokenWithSpan]) -> bool {
    let Some(body) = statement_set_body(tokens) else {
        return false;
    };
    let mut starts_statement = true;
    for token in body {
        if starts_statement && is_word(token, "END") {
            return false;
        }
        starts_statement = token.token == Token::SemiColon;
    }
    true
}

/// What follows STATEMENT SET [BEGIN] in `[EXPLAIN …] [EXECUTE | BEGIN] STATEMENT SET [BEGIN] …`.
fn statement_set_body(tokens: &[TokenWithSpan]) -> Option<&[TokenWithSpan]> {
    const LEADING: [&str; 15] = [
        "EXPLAIN",
        "EXECUTE",
        "BEGIN",
        "PLAN",
        "FOR",
        "COMPILE",
        "ESTIMATED_COST",
        "CHANGELOG_MODE",
        "STATE",
        "UPGRADE",
        "FROM",
        "JSON_EXECUTION_PLAN",
        "PLAN_ADVICE",
        "AND",
        "STATEMENT",
    ];
    let leading = tokens
        .iter()
        .take_while(|token| {
            matches!(token.token, Token::Comma | Token::SingleQuotedString(_))
                || LEADING.iter().any(|word| is_word(token, word))
        })
        .count();
    let set = tokens.get(leading).filter(|token| is_word(token, "SET"));
    if leading == 0 || set.is_none() || !is_word(&tokens[leading - 1], "STATEMENT") {
        return None;
    }
    let body = &tokens[leading + 1..];
    match body {
        [begin, rest @ ..] if is_word(begin, "BEGIN") => Some(rest),
        // BEGIN STATEMENT SET; INSERT …
        [semicolon, rest @ ..] if semicolon.token == Token::SemiColon => Some(rest),
        all => Some(all),
    }
}

fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<String> {
        split_script(script)
            .unwrap()
            .into_iter()
            .map(|statement| statement.text)
            .collect()
    }

    #[test]
    fn semicolons_in_strings_comments_and_names_do_not_split() {
        assert_eq!(
            texts("-- one; two\nSELECT ';', 'it''s;' /* ; */ FROM `a;b`;\n\n;SELECT 2"),
            [
                "SELECT ';', 'it''s;' /* ; */ FROM `a;b`".to_string(),
                "SELECT 2".to_string()
            ]
        );
        assert_eq!(texts(" -- nothing\n"), Vec::<String>::new());
        let hinted = "SELECT a FROM t /*+ OPTIONS('k' = 'v') */";
        assert_eq!(texts(&format!("{hinted} /* end */;")), [hinted]);
    }

    #[test]
    fn a_statement_set_stays_whole() {
        let set = "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT CASE WHEN x THEN 1 END FROM t; INSERT INTO b SELECT 1; END";
        assert_eq!(texts(&format!("{set}; SELECT 1;")), [set, "SELECT 1"]);
        let old = "BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END";
        assert_eq!(texts(&format!("{old};\nSELECT 1")), [old, "SELECT 1"]);
        let explained = "EXPLAIN CHANGELOG_MODE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END";
        assert_eq!(
            texts(&format!("{explained}; SET 'a' = 'b'")),
            [explained, "SET 'a' = 'b'"]
        );
    }

    #[test]
    fn places_count_characters() {
        let statements = split_script("SELECT 'ä';\n  SELECT 2;").unwrap();
        assert_eq!(statements[1].start, SqlPosition { line: 2, column: 3 });
        let error = split_script("SELECT 1;\n SELECT 'open").unwrap_err();
        assert_eq!(error.position(), Some(SqlPosition { line: 2, column: 9 }));
        assert!(error.to_string().contains("SELECT 'open"), "{error}");
    }
}
