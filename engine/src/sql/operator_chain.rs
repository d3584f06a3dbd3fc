//! Refuses expressions with so many operators in a row that walking their syntax tree, a level an operator, would exhaust
//! the stack. The grammar builds such trees without recursion, so its own limit on nesting does not see them.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::position;
use crate::error::{Error, Result};

/// The most operators in a row.
const MAX_OPERATORS: usize = 1000;

/// How tightly an operator binds: OR, AND, a comparison, or what computes. UNION nests as OR does.
fn strength(token: &Token) -> Option<usize> {
    match token {
        Token::Word(word) => match word.keyword {
            Keyword::OR | Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT => Some(0),
            Keyword::AND => Some(1),
            _ => None,
        },
        Token::Eq | Token::Neq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq => Some(2),
        Token::Plus
        | Token::Minus
        | Token::Mul
        | Token::Div
        | Token::Mod
        | Token::StringConcat
        | Token::LBracket
        | Token::Period => Some(3),
        _ => None,
    }
}

/// The operators since the expression began, by strength: a weaker one starts the stronger ones anew.
type Counts = [usize; 4];

/// Checks the tokens of a statement.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut open: Vec<Counts> = vec![[0; 4]];
    for token in tokens {
        match &token.token {
            Token::LParen => open.push([0; 4]),
            Token::RParen if open.len() > 1 => {
                open.pop();
            }
            Token::Comma => *open.last_mut().expect("never empty") = [0; 4],
            other => {
                let Some(strength) = strength(other) else {
                    continue;
                };
                let counts = open.last_mut().expect("never empty");
                counts[strength] += 1;
                counts[strength + 1..].fill(0);
                if counts.iter().sum::<usize>() > MAX_OPERATORS {
                    return Err(Error::user(format!(
                        "an expression has more than {MAX_OPERATORS} operators in a row"
                    ))
                    .at(position::of_span(token.span))
                    .hint("use IN (…) for many comparisons, or parentheses around parts"));
                }
            }
        }
    }
    Ok(())
}
