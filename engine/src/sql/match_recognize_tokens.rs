//! WITHIN of MATCH_RECOGNIZE, which the library's grammar does not know: `PATTERN (…) WITHIN INTERVAL '1' HOUR DEFINE …` is read as if
//! the interval were the definition of a variable that no user can name.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::position::of_span;
use crate::error::{Error, Result};

/// The variable whose definition is the interval.
pub(super) const WITHIN: &str = "WITHIN INTERVAL";

/// The tokens with every WITHIN moved behind its DEFINE.
pub(super) fn move_within(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let is = |token: &TokenWithSpan, word: &str| matches!(&token.token, Token::Word(own) if own.quote_style.is_none() && own.value.eq_ignore_ascii_case(word));
    if !tokens.iter().any(|token| is(token, "MATCH_RECOGNIZE")) {
        return Ok(tokens);
    }
    let mut result = Vec::with_capacity(tokens.len() + 8);
    let mut interval: Option<Vec<TokenWithSpan>> = None;
    let mut inside = false;
    let mut behind_pattern = false;
    for token in tokens {
        inside |= is(&token, "MATCH_RECOGNIZE");
        if inside && is(&token, "PATTERN") {
            behind_pattern = true;
        }
        if behind_pattern && interval.is_none() && is(&token, "WITHIN") {
            interval = Some(vec![token]);
            continue;
        }
        if !is(&token, "DEFINE") {
            match &mut interval {
                Some(interval) => interval.push(token),
                None => result.push(token),
            }
            continue;
        }
        let span = token.span;
        result.push(token);
        (inside, behind_pattern) = (false, false);
        if let Some(interval) = interval.take() {
            result.extend(definition(interval, span)?);
        }
    }
    match interval {
        None => Ok(result),
        Some(interval) => Err(Error::user("WITHIN stands between PATTERN (…) and DEFINE")
            .at(of_span(interval[0].span))),
    }
}

/// `WITHIN INTERVAL … ` as ``"`WITHIN INTERVAL` AS INTERVAL …,"``.
fn definition(
    interval: Vec<TokenWithSpan>,
    span: sqlparser::tokenizer::Span,
) -> Result<Vec<TokenWithSpan>> {
    let place = of_span(interval[0].span);
    let begins = interval[1..]
        .iter()
        .find(|token| !matches!(token.token, Token::Whitespace(_)));
    let is_interval = begins.is_some_and(
        |token| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::INTERVAL),
    );
    if !is_interval {
        return Err(Error::user("WITHIN takes an interval")
            .at(place)
            .hint("as in PATTERN (A B) WITHIN INTERVAL '1' HOUR"));
    }
    let word = |text: &str, quote_style: Option<char>, keyword: Keyword| TokenWithSpan {
        token: Token::Word(Word {
            value: text.to_string(),
            quote_style,
            keyword,
        }),
        span,
    };
    let mut tokens = vec![
        word(WITHIN, Some('`'), Keyword::NoKeyword),
        word("AS", None, Keyword::AS),
    ];
    tokens.extend(interval.into_iter().skip(1));
    tokens.push(TokenWithSpan {
        token: Token::Comma,
        span,
    });
    Ok(tokens)
}
