//! Java's regular expressions in terms of the `regex` crate.
//!
//! The two agree but for a few signs: in Java `\d`, `\w`, `\s` and `\b` mean ASCII, and `.` stops at more line ends. What the
//! crate cannot do (look-around, back references, possessive quantifiers) is refused by name. `$` matches only at the very
//! end, not before a last line end.

use regex::Regex;

use crate::error::{Error, Result};

/// A Java pattern, compiled. The error says what is wrong with it.
pub(super) fn compile(pattern: &str) -> Result<Regex> {
    Regex::new(&translate(pattern)?).map_err(|error| {
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default().trim();
        Error::user(format!(
            "the regular expression '{pattern}' is not understood: {}",
            reason.strip_prefix("error: ").unwrap_or(reason)
        ))
    })
}

fn translate(pattern: &str) -> Result<String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut characters = pattern.chars().peekable();
    let mut class_depth = 0_usize;
    let mut after_quantifier = false;
    while let Some(character) = characters.next() {
        let is_quantifier = class_depth == 0 && matches!(character, '*' | '+' | '?' | '}');
        if class_depth == 0 && character == '+' && after_quantifier {
            return Err(unsupported(pattern, "possessive quantifiers"));
        }
        match character {
            '\\' => match characters.next() {
                Some('Q') => quote(&mut out, &mut characters),
                Some(digit @ '1'..='9') => {
                    return Err(unsupported(
                        pattern,
                        &format!("the back reference \\{digit}"),
                    ));
                }
                Some(escaped) => push_escape(&mut out, escaped),
                None => out.push('\\'),
            },
            '.' if class_depth == 0 => out.push_str(r"[^\n\r\u{85}\u{2028}\u{2029}]"),
            '(' if class_depth == 0 => {
                out.push('(');
                refuse_look_around(pattern, &characters)?;
            }
            '[' => {
                class_depth += 1;
                out.push('[');
            }
            ']' if class_depth > 0 => {
                class_depth -= 1;
                out.push(']');
            }
            // These join classes in the crate but stand for themselves in Java.
            '~' | '-' if class_depth > 0 && characters.peek() == Some(&character) => {
                out.push('\\');
                out.push(character);
            }
            other => out.push(other),
        }
        after_quantifier = is_quantifier && !(character == '?' && after_quantifier);
    }
    Ok(out)
}

fn unsupported(pattern: &str, what: &str) -> Error {
    Error::unsupported(format!("{what} in the regular expression '{pattern}'"))
}

fn push_escape(out: &mut String, escaped: char) {
    match escaped {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[a-zA-Z_0-9]"),
        'W' => out.push_str("[^a-zA-Z_0-9]"),
        's' => out.push_str(r"[ \t\n\x0B\f\r]"),
        'S' => out.push_str(r"[^ \t\n\x0B\f\r]"),
        'h' => out.push_str(r"[ \t\u{A0}]"),
        'b' => out.push_str(r"(?-u:\b)"),
        'Z' => out.push_str(r"\z"),
        'e' => out.push_str(r"\x1B"),
        other if other.is_ascii_alphanumeric() => {
            out.push('\\');
            out.push(other);
        }
        other => out.push_str(&regex::escape(&other.to_string())),
    }
}

/// `\Q…\E` stands for its text.
fn quote(out: &mut String, characters: &mut std::iter::Peekable<std::str::Chars>) {
    let mut text = String::new();
    while let Some(character) = characters.next() {
        if character == '\\' && characters.peek() == Some(&'E') {
            characters.next();
            break;
        }
        text.push(character);
    }
    out.push_str(&regex::escape(&text));
}

fn refuse_look_around(
    pattern: &str,
    characters: &std::iter::Peekable<std::str::Chars>,
) -> Result<()> {
    let next: String = characters.clone().take(3).collect();
    let what = ["?=", "?!", "?<=", "?<!", "?>"]
        .iter()
        .find(|sign| next.starts_with(**sign));
    match what {
        Some(sign) => Err(unsupported(pattern, &format!("({sign}…)"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_mean_ascii() {
        assert!(!compile(r"^\d$").unwrap().is_match("٣"));
        assert!(compile(r"^[\d.]+$").unwrap().is_match("1.5"));
        assert!(!compile("^.$").unwrap().is_match("\r"));
        assert!(compile(r"\Qa.b\E+").unwrap().is_match("a.bb"));
        assert!(compile(r"a\/b").unwrap().is_match("a/b"));
        assert!(
            compile("(&|^)channel_id=([^&]*)")
                .unwrap()
                .is_match("x&channel_id=3")
        );
        assert!(compile("a+?b").unwrap().is_match("aab"));
    }

    #[test]
    fn what_is_missing_is_refused() {
        for bad in [r"(a)\1", "(?=a)", "(?<!a)b", "a++", "(", "[a"] {
            assert!(compile(bad).is_err(), "{bad}");
        }
    }
}
