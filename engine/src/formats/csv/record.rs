//! Cuts one CSV record into fields, without copying those that stand in the text as they are.
//!
//! A quote counts only where a field begins, a doubled quote inside is one, and a record ends at a line end outside of quotes.

use super::CsvOptions;

/// The fields of the record that was read last.
#[derive(Debug, Default)]
pub(super) struct Record {
    fields: Vec<FieldPlace>,
    /// The fields that had doubled quotes or escapes, without them.
    unescaped: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct FieldPlace {
    start: usize,
    end: usize,
    is_unescaped: bool,
    is_quoted: bool,
}

/// How a record ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RecordEnd {
    /// The place behind the record and its line end.
    Whole(usize),
    /// The text ends before it.
    Cut,
    /// It breaks the rules; the place behind its line, and what is wrong.
    Broken(usize, &'static str),
}

/// One field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CsvField<'a> {
    pub(super) text: &'a [u8],
    pub(super) is_quoted: bool,
}

impl Record {
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// A field of the record that was read from `text`.
    pub(super) fn field<'a>(&'a self, text: &'a [u8], index: usize) -> CsvField<'a> {
        let place = self.fields[index];
        let source = if place.is_unescaped {
            &self.unescaped
        } else {
            text
        };
        CsvField {
            text: &source[place.start..place.end],
            is_quoted: place.is_quoted,
        }
    }

    /// Reads the record that begins at `start`. Where the text is not the last, a line end must be there (and, behind a
    /// carriage return, one more character).
    pub(super) fn read(
        &mut self,
        text: &[u8],
        start: usize,
        is_last: bool,
        options: &CsvOptions,
    ) -> RecordEnd {
        self.fields.clear();
        self.unescaped.clear();
        let mut at = start;
        loop {
            let field = match options.quote {
                Some(quote) if self.opens_quote(text, at, quote, options) => {
                    self.quoted(text, at, quote, is_last, options)
                }
                _ => self.plain(text, at, options),
            };
            match field {
                FieldEnd::Behind(end) => at = end,
                FieldEnd::Cut => return RecordEnd::Cut,
                FieldEnd::Broken(problem) => return broken(text, start, is_last, problem),
            }
            match text.get(at) {
                Some(byte) if *byte == options.delimiter => at += 1,
                Some(b'\n') => return RecordEnd::Whole(at + 1),
                Some(_) => match text.get(at + 1) {
                    Some(b'\n') => return RecordEnd::Whole(at + 2),
                    None if !is_last => return RecordEnd::Cut,
                    _ => return RecordEnd::Whole(at + 1),
                },
                None if is_last => return RecordEnd::Whole(at),
                None => return RecordEnd::Cut,
            }
        }
    }

    fn opens_quote(&self, text: &[u8], at: usize, quote: u8, options: &CsvOptions) -> bool {
        let first = match options.trim_spaces {
            true => text[at..].iter().find(|byte| **byte != b' '),
            false => text.get(at),
        };
        first == Some(&quote)
    }

    /// A field without quotes: up to a delimiter or a line end.
    fn plain(&mut self, text: &[u8], start: usize, options: &CsvOptions) -> FieldEnd {
        let rest = &text[start..];
        if let Some(escape) = options.escape
            && let Some(end) = self.plain_with_escapes(text, start, escape, options)
        {
            return end;
        }
        let length = memchr::memchr3(options.delimiter, b'\n', b'\r', rest).unwrap_or(rest.len());
        let (mut from, mut to) = (start, start + length);
        if options.trim_spaces {
            while from < to && text[from] == b' ' {
                from += 1;
            }
            while from < to && text[to - 1] == b' ' {
                to -= 1;
            }
        }
        self.fields.push(FieldPlace {
            start: from,
            end: to,
            is_unescaped: false,
            is_quoted: false,
        });
        FieldEnd::Behind(start + length)
    }

    /// `None` where the field has no escape.
    fn plain_with_escapes(
        &mut self,
        text: &[u8],
        start: usize,
        escape: u8,
        options: &CsvOptions,
    ) -> Option<FieldEnd> {
        let ends = |byte: u8| byte == options.delimiter || byte == b'\n' || byte == b'\r';
        let first = text[start..]
            .iter()
            .position(|byte| *byte == escape || ends(*byte))?;
        if text[start + first] != escape {
            return None;
        }
        let from = self.unescaped.len();
        let mut at = start;
        while let Some(byte) = text.get(at).copied() {
            if byte == escape {
                let Some(escaped) = text.get(at + 1) else {
                    return Some(FieldEnd::Cut);
                };
                self.unescaped.push(escaped_meaning(*escaped));
                at += 2;
            } else if ends(byte) {
                break;
            } else {
                self.unescaped.push(byte);
                at += 1;
            }
        }
        self.fields.push(FieldPlace {
            start: from,
            end: self.unescaped.len(),
            is_unescaped: true,
            is_quoted: false,
        });
        Some(FieldEnd::Behind(at))
    }

    /// A field in quotes; gives the place of the delimiter or line end behind it.
    fn quoted(
        &mut self,
        text: &[u8],
        start: usize,
        quote: u8,
        is_last: bool,
        options: &CsvOptions,
    ) -> FieldEnd {
        let open = start
            + text[start..]
                .iter()
                .take_while(|byte| **byte == b' ')
                .count();
        let from = self.unescaped.len();
        let (mut at, mut copied) = (open + 1, open + 1);
        loop {
            let special = match options.escape {
                Some(escape) => memchr::memchr2(quote, escape, &text[at..]),
                None => memchr::memchr(quote, &text[at..]),
            };
            let Some(special) = special.map(|special| at + special) else {
                return match is_last {
                    true => FieldEnd::Broken("a quote is not closed"),
                    false => FieldEnd::Cut,
                };
            };
            match (text[special], text.get(special + 1)) {
                (_, None) if !is_last => return FieldEnd::Cut,
                (byte, Some(next)) if byte == quote && *next == quote => {
                    self.unescaped.extend_from_slice(&text[copied..=special]);
                    (at, copied) = (special + 2, special + 2);
                }
                (byte, _) if byte == quote => {
                    return self.close(text, (copied, special), from, options);
                }
                (_, Some(escaped)) => {
                    self.unescaped.extend_from_slice(&text[copied..special]);
                    self.unescaped.push(escaped_meaning(*escaped));
                    (at, copied) = (special + 2, special + 2);
                }
                (_, None) => return FieldEnd::Broken("the text ends with an escape"),
            }
        }
    }

    fn close(
        &mut self,
        text: &[u8],
        (copied, quote): (usize, usize),
        from: usize,
        options: &CsvOptions,
    ) -> FieldEnd {
        let is_unescaped = self.unescaped.len() > from;
        if is_unescaped {
            self.unescaped.extend_from_slice(&text[copied..quote]);
        }
        self.fields.push(FieldPlace {
            start: if is_unescaped { from } else { copied },
            end: if is_unescaped {
                self.unescaped.len()
            } else {
                quote
            },
            is_unescaped,
            is_quoted: true,
        });
        // Blanks may follow a closing quote.
        let behind = &text[quote + 1..];
        let blanks = behind
            .iter()
            .take_while(|byte| **byte == b' ' && options.delimiter != b' ')
            .count();
        match behind.get(blanks) {
            Some(byte) if *byte != options.delimiter && !matches!(byte, b'\n' | b'\r') => {
                FieldEnd::Broken("a closing quote is followed by something else than a delimiter")
            }
            _ => FieldEnd::Behind(quote + 1 + blanks),
        }
    }
}

enum FieldEnd {
    Behind(usize),
    Cut,
    Broken(&'static str),
}

/// Jackson's meanings of escaped characters.
fn escaped_meaning(byte: u8) -> u8 {
    match byte {
        b'0' => 0,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        other => other,
    }
}

/// A broken record ends with its first line.
fn broken(text: &[u8], start: usize, is_last: bool, problem: &'static str) -> RecordEnd {
    match memchr::memchr(b'\n', &text[start..]) {
        Some(end) => RecordEnd::Broken(start + end + 1, problem),
        None if is_last => RecordEnd::Broken(text.len(), problem),
        None => RecordEnd::Cut,
    }
}
