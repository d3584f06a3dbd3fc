//! Hints: a pass over the tokens takes `/*+ OPTIONS('k' = 'v') */` out before parsing and keeps it for the table before it, and
//! `/*+ STATE_TTL('t' = '1 d') */`, `/*+ LOOKUP('table' = 't', …) */` and `/*+ MULTI_JOIN(a, b, c) */` for the SELECT before it.
//!
//! To the grammar a hint is a comment. The binder asks by the place of a table's name or of SELECT; a hint that nobody asked
//! for is an error, as is every kind of hint that is not supported.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use sqlparser::ast::Ident;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace};

use super::dialect::FlinkDialect;
use super::position;
use crate::config::parse_duration;
use crate::error::{Error, Result};
use crate::types::SqlPosition;

/// The hints of one statement.
#[derive(Debug, Clone, Default)]
pub(super) struct Hints(Vec<Hint>);

#[derive(Debug, Clone)]
struct Hint {
    /// Where the token before it begins.
    after: Option<Location>,
    kind: HintKind,
    options: BTreeMap<String, String>,
    position: Option<SqlPosition>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HintKind {
    /// Behind a table: its options.
    Options,
    /// Behind SELECT: how long the state of its tables is kept.
    StateTtl,
    /// Behind SELECT: how a table is looked up.
    Lookup,
    /// Behind SELECT: which tables are joined by one node.
    MultiJoin,
}

/// The STATE_TTL hints of a SELECT: milliseconds by table.
#[derive(Debug, Clone, Default)]
pub(super) struct StateTtl {
    pub(super) by_table: BTreeMap<String, u64>,
    pub(super) position: Option<SqlPosition>,
}

/// The MULTI_JOIN hints of a SELECT.
#[derive(Debug, Clone, Default)]
pub(super) struct MultiJoinTables {
    pub(super) tables: BTreeSet<String>,
    pub(super) position: Option<SqlPosition>,
}

/// Which hints of a statement a table has asked for.
#[derive(Debug, Default)]
pub(super) struct UsedHints(RefCell<BTreeSet<usize>>);

impl Hints {
    /// The options which stand behind a table's name.
    pub(super) fn options_after(&self, name: &Ident, used: &UsedHints) -> BTreeMap<String, String> {
        let mut options = BTreeMap::new();
        for (index, hint) in self.0.iter().enumerate() {
            if hint.kind == HintKind::Options && hint.after == Some(name.span.start) {
                used.0.borrow_mut().insert(index);
                options.extend(hint.options.clone());
            }
        }
        options
    }

    /// What stands behind a SELECT about state; of equal tables the last counts.
    pub(super) fn state_ttl_after(&self, select: Location, used: &UsedHints) -> Result<StateTtl> {
        let mut state_ttl = StateTtl::default();
        for (index, hint) in self.0.iter().enumerate() {
            if hint.kind != HintKind::StateTtl || hint.after != Some(select) {
                continue;
            }
            used.0.borrow_mut().insert(index);
            state_ttl.position = hint.position;
            for (table, text) in &hint.options {
                let ttl = parse_duration(text).ok_or_else(|| {
                    Error::user(format!(
                        "'{text}' is no duration for STATE_TTL of '{table}'"
                    ))
                    .at(hint.position)
                    .hint("write STATE_TTL('t' = '1 d')")
                })?;
                let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
                state_ttl.by_table.insert(table.clone(), millis);
            }
        }
        Ok(state_ttl)
    }

    /// The options and the places of the LOOKUP hints behind a SELECT.
    pub(super) fn lookups_after(
        &self,
        select: Location,
        used: &UsedHints,
    ) -> Vec<(&BTreeMap<String, String>, Option<SqlPosition>)> {
        let mut lookups = Vec::new();
        for (index, hint) in self.0.iter().enumerate() {
            if hint.kind == HintKind::Lookup && hint.after == Some(select) {
                used.0.borrow_mut().insert(index);
                lookups.push((&hint.options, hint.position));
            }
        }
        lookups
    }

    /// Which tables a SELECT wants joined by one node; the first hint counts.
    pub(super) fn multi_join_after(&self, select: Location, used: &UsedHints) -> MultiJoinTables {
        let mut found: Option<MultiJoinTables> = None;
        for (index, hint) in self.0.iter().enumerate() {
            if hint.kind == HintKind::MultiJoin && hint.after == Some(select) {
                used.0.borrow_mut().insert(index);
                found.get_or_insert_with(|| MultiJoinTables {
                    tables: hint.options.keys().cloned().collect(),
                    position: hint.position,
                });
            }
        }
        found.unwrap_or_default()
    }

    /// Refuses a hint that stands behind anything but a table.
    pub(super) fn check_all_used(&self, used: &UsedHints) -> Result<()> {
        let used = used.0.borrow();
        match (0..self.0.len()).find(|index| !used.contains(index)) {
            None => Ok(()),
            Some(index) => Err(self.0[index].misplaced()),
        }
    }
}

impl Hint {
    fn misplaced(&self) -> Error {
        let (what, mend) = match self.kind {
            HintKind::Options => (
                "the hint OPTIONS does not follow a table",
                "write it behind the table's name: FROM t /*+ OPTIONS('key' = 'value') */ AS a",
            ),
            HintKind::StateTtl => (
                "the hint STATE_TTL does not follow SELECT",
                "write it behind SELECT: SELECT /*+ STATE_TTL('t' = '1 d') */ … FROM t",
            ),
            HintKind::Lookup => (
                "the hint LOOKUP does not follow SELECT",
                "write it behind SELECT: SELECT /*+ LOOKUP('table' = 'd', 'async' = 'true') */ … FROM l JOIN d …",
            ),
            HintKind::MultiJoin => (
                "the hint MULTI_JOIN does not follow SELECT",
                "write it behind SELECT: SELECT /*+ MULTI_JOIN(a, b, c) */ … FROM a JOIN b … JOIN c …",
            ),
        };
        Error::user(what).at(self.position).hint(mend)
    }
}

/// Takes the hints out of the tokens.
pub(super) fn extract(tokens: Vec<TokenWithSpan>) -> Result<(Vec<TokenWithSpan>, Hints)> {
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut hints = Vec::new();
    let mut before: Option<TokenWithSpan> = None;
    for token in tokens {
        match &token.token {
            Token::Whitespace(Whitespace::MultiLineComment(text)) if text.starts_with('+') => {
                hints.extend(read(&text[1..], &token, before.as_ref())?);
            }
            Token::Whitespace(_) => kept.push(token),
            _ => {
                before = Some(token.clone());
                kept.push(token);
            }
        }
    }
    Ok((kept, Hints(hints)))
}

/// The hints of one comment: `NAME(…), NAME(…)`.
fn read(text: &str, at: &TokenWithSpan, before: Option<&TokenWithSpan>) -> Result<Vec<Hint>> {
    let place = position::of_span(at.span);
    let tokens: Vec<Token> = Tokenizer::new(&FlinkDialect, text)
        .tokenize()
        .map_err(|error| Error::user(format!("this hint cannot be read: {error}")).at(place))?
        .into_iter()
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .collect();
    let mut rest = &tokens[..];
    let mut hints = Vec::new();
    while let Some((name, arguments, after)) = split_first_hint(rest) {
        let kind = check_name(name, place)?;
        let after_select = before.is_some_and(
            |token| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::SELECT),
        );
        if after_select && kind == HintKind::Options {
            return Err(
                Error::user("the hint OPTIONS belongs behind a table, not behind SELECT").at(place),
            );
        }
        hints.push(Hint {
            after: before.map(|token| token.span.start),
            kind,
            options: match kind {
                HintKind::MultiJoin => read_tables(arguments, place)?,
                _ => read_options(name, arguments, place)?,
            },
            position: place,
        });
        rest = after;
    }
    if rest.is_empty() {
        return Ok(hints);
    }
    Err(Error::user(format!("the hint /*+{text}*/ cannot be read"))
        .at(place)
        .hint("a hint looks like /*+ OPTIONS('key' = 'value', 'key' = 'value') */"))
}

/// The name and the tokens between the parentheses of the first hint, and what follows it.
fn split_first_hint(tokens: &[Token]) -> Option<(&str, &[Token], &[Token])> {
    let tokens = match tokens {
        [Token::Comma, rest @ ..] => rest,
        all => all,
    };
    let [Token::Word(name), Token::LParen, rest @ ..] = tokens else {
        return bare_name(tokens);
    };
    let end = rest.iter().position(|token| *token == Token::RParen)?;
    Some((&name.value, &rest[..end], &rest[end + 1..]))
}

/// A hint without arguments, such as `NO_MERGE`.
fn bare_name(tokens: &[Token]) -> Option<(&str, &[Token], &[Token])> {
    match tokens {
        [Token::Word(name), rest @ ..] => Some((&name.value, &[], rest)),
        _ => None,
    }
}

fn check_name(name: &str, place: Option<SqlPosition>) -> Result<HintKind> {
    const LATER: [&str; 7] = [
        "BROADCAST",
        "SHUFFLE_HASH",
        "SHUFFLE_MERGE",
        "NEST_LOOP",
        "NO_MULTI_JOIN",
        "BUNDLE",
        "JSON_AGGREGATE_WRAPPED",
    ];
    let upper = name.to_uppercase();
    match upper.as_str() {
        "OPTIONS" => return Ok(HintKind::Options),
        "STATE_TTL" => return Ok(HintKind::StateTtl),
        "LOOKUP" => return Ok(HintKind::Lookup),
        "MULTI_JOIN" => return Ok(HintKind::MultiJoin),
        _ => {}
    }
    if LATER.contains(&upper.as_str()) {
        return Err(Error::unsupported(format!("the hint {upper}"))
            .at(place)
            .hint("only OPTIONS, STATE_TTL, LOOKUP and MULTI_JOIN are; leave this hint out"));
    }
    Err(Error::user(format!("there is no hint {name}"))
        .at(place)
        .hint("the hint for a table's options is OPTIONS('key' = 'value')"))
}

fn read_options(
    name: &str,
    tokens: &[Token],
    place: Option<SqlPosition>,
) -> Result<BTreeMap<String, String>> {
    let mut options = BTreeMap::new();
    for part in tokens.split(|token| *token == Token::Comma) {
        let [
            Token::SingleQuotedString(key),
            Token::Eq,
            Token::SingleQuotedString(value),
        ] = part
        else {
            let name = name.to_uppercase();
            return Err(Error::user(format!(
                "the hint {name} takes pairs of strings: 'key' = 'value'"
            ))
            .at(place));
        };
        options.insert(key.clone(), value.clone());
    }
    Ok(options)
}

/// The tables of a hint: names, or names in quotes.
fn read_tables(tokens: &[Token], place: Option<SqlPosition>) -> Result<BTreeMap<String, String>> {
    let mut tables = BTreeMap::new();
    for part in tokens.split(|token| *token == Token::Comma) {
        let table = match part {
            [Token::Word(word)] => word.value.clone(),
            [Token::SingleQuotedString(name)] => name.clone(),
            _ => {
                return Err(Error::user("the hint MULTI_JOIN takes names of tables")
                    .at(place)
                    .hint("write MULTI_JOIN(a, b, c)"));
            }
        };
        tables.insert(table, String::new());
    }
    Ok(tables)
}
