//! SQL text in which parts that can be left out are marked, so that a failing query can be made smaller.
//!
//! `⟦7⟧ WHERE a = 1⟦/7⟧` is such a part; parts with one number are left out together.

use std::collections::BTreeSet;

const OPEN: char = '⟦';
const CLOSE: char = '⟧';

/// A part that can be left out.
pub(super) fn part(number: usize, text: impl std::fmt::Display) -> String {
    format!("{OPEN}{number}{CLOSE}{text}{OPEN}/{number}{CLOSE}")
}

/// The text without the marks. Every item of a SELECT has a comma in front; the first one's goes.
pub(super) fn plain(draft: &str) -> String {
    let texts = tokens(draft).into_iter().filter_map(|token| match token {
        Token::Text(text) => Some(text),
        _ => None,
    });
    let text: String = texts.collect();
    text.replace("SELECT , ", "SELECT ")
        .replace("DISTINCT , ", "DISTINCT ")
}

/// The numbers of the parts, the outermost and longest first where their order in the text is that.
pub(super) fn parts(draft: &str) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    tokens(draft)
        .into_iter()
        .filter_map(|token| match token {
            Token::Begin(number) => seen.insert(number).then_some(number),
            _ => None,
        })
        .collect()
}

/// The draft without the parts of one number.
pub(super) fn without(draft: &str, number: usize) -> String {
    let mut result = String::new();
    let mut depth = 0;
    for token in tokens(draft) {
        match token {
            Token::Begin(other) if other == number => depth += 1,
            Token::End(other) if other == number => depth -= 1,
            _ if depth > 0 => {}
            Token::Begin(other) => result += &format!("{OPEN}{other}{CLOSE}"),
            Token::End(other) => result += &format!("{OPEN}/{other}{CLOSE}"),
            Token::Text(text) => result += text,
        }
    }
    result
}

enum Token<'t> {
    Begin(usize),
    End(usize),
    Text(&'t str),
}

fn tokens(draft: &str) -> Vec<Token<'_>> {
    let mut result = Vec::new();
    for piece in draft.split_inclusive(CLOSE) {
        let (text, mark) = piece.split_once(OPEN).unwrap_or((piece, ""));
        result.push(Token::Text(text));
        let mark = mark.trim_end_matches(CLOSE);
        match mark.strip_prefix('/') {
            Some(number) => result.push(Token::End(number.parse().expect("a number"))),
            None if mark.is_empty() => {}
            None => result.push(Token::Begin(mark.parse().expect("a number"))),
        }
    }
    result
}

#[test]
fn parts_are_left_out() {
    let draft = format!(
        "SELECT a{} FROM t{}",
        part(1, ", b"),
        part(2, format!(" WHERE a{}", part(3, " = 1")))
    );
    assert_eq!(plain(&draft), "SELECT a, b FROM t WHERE a = 1");
    assert_eq!(parts(&draft), [1, 2, 3]);
    assert_eq!(plain(&without(&draft, 3)), "SELECT a, b FROM t WHERE a");
    assert_eq!(plain(&without(&without(&draft, 2), 1)), "SELECT a FROM t");
}
