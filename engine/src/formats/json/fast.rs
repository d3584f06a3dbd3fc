//! The fast reader: walks the structure of a record and appends its fields to their columns, with nothing in between.
//!
//! It knows the usual shape of records only. Whatever is odd (a value that a type cannot read, a key that comes twice, wrong
//! syntax) it refuses; the caller takes back what was appended and asks the tolerant reader, which also finds the words for
//! an error. The keys of the record before tell which key comes next, so that most keys cost one comparison.

use super::JsonOptions;
use super::convert::{push_boolean, push_number};
use super::escape::unescape;
use crate::formats::columns::{Column, ColumnData};
use crate::formats::text_value::push_text;

/// Nesting that the fast reader follows; deeper values are for the tolerant one.
const DEEPEST: usize = 64;
/// Entries of a map whose keys are compared one by one; larger maps are for the tolerant reader.
const MOST_ENTRIES: usize = 32;
/// Keys of a record whose order is remembered.
const MOST_KEYS: usize = 1024;

/// The keys of the last record, in order, each with the column that it fills.
#[derive(Debug, Default)]
pub(super) struct KeyOrder {
    keys: Vec<(Vec<u8>, Option<usize>)>,
}

impl KeyOrder {
    /// The column, if any, of the key that stands at `place` of its record; outer `None`: the key has escapes.
    #[inline(always)]
    fn column(&mut self, place: usize, key: &[u8], names: &[String]) -> Option<Option<usize>> {
        match self.keys.get(place) {
            Some((expected, column)) if expected == key => Some(*column),
            _ => self.learn(place, key, names),
        }
    }

    fn learn(&mut self, place: usize, key: &[u8], names: &[String]) -> Option<Option<usize>> {
        if memchr::memchr(b'\\', key).is_some() {
            return None;
        }
        let column = names.iter().position(|name| name.as_bytes() == key);
        match self.keys.get_mut(place) {
            Some((expected, its_column)) => {
                expected.clear();
                expected.extend_from_slice(key);
                *its_column = column;
            }
            // A record with thousands of keys is no reason to remember them all.
            None if place < MOST_KEYS => self.keys.push((key.to_vec(), column)),
            None => {}
        }
        Some(column)
    }
}

/// A chunk with its structure.
pub(super) struct FastReader<'a> {
    pub(super) text: &'a [u8],
    pub(super) positions: &'a [u32],
    pub(super) options: &'a JsonOptions,
    /// Room for unescaped text.
    pub(super) scratch: &'a mut Vec<u8>,
}

impl<'a> FastReader<'a> {
    /// The byte at a structural position; 0 behind the last.
    #[inline(always)]
    fn byte(&self, at: usize) -> u8 {
        match self.positions.get(at) {
            Some(position) => self.text[*position as usize],
            None => 0,
        }
    }

    #[inline(always)]
    fn position(&self, at: usize) -> usize {
        self.positions
            .get(at)
            .map_or(self.text.len(), |position| *position as usize)
    }

    /// What stands between a structural position and the next, without the blanks behind it.
    #[inline(always)]
    fn token(&self, at: usize) -> &'a [u8] {
        let token = &self.text[self.position(at)..self.position(at + 1)];
        match token.last() {
            Some(last) if *last <= b' ' => {
                let end = token.iter().rposition(|byte| *byte > b' ');
                &token[..end.map_or(0, |end| end + 1)]
            }
            _ => token,
        }
    }

    /// The inside of the string that opens at a structural position. The closing quote is the last thing before the next
    /// position, for anything else behind it would be a position of its own.
    #[inline(always)]
    fn string(&self, at: usize) -> Option<&'a [u8]> {
        let token = self.token(at);
        match token {
            [b'"', inside @ .., b'"'] => Some(inside),
            _ => None,
        }
    }

    /// Reads the record whose brace stands at `at` into one row of `columns`; gives the place behind its closing brace.
    /// `None`: refused, with some columns longer than others.
    pub(super) fn record(
        &mut self,
        at: usize,
        names: &[String],
        columns: &mut [Column],
        order: &mut KeyOrder,
        rows: usize,
    ) -> Option<usize> {
        let mut at = at + 1;
        let mut filled = 0;
        let mut place = 0;
        if self.byte(at) != b'}' {
            loop {
                if self.byte(at) != b'"' || self.byte(at + 1) != b':' {
                    return None;
                }
                let key = self.string(at)?;
                at = match order.column(place, key, names)? {
                    Some(column) => {
                        filled += 1;
                        let column = &mut columns[column];
                        if column.len() != rows {
                            return None;
                        }
                        self.value(at + 2, column, 0)?
                    }
                    None => self.skip(at + 2, 0)?,
                };
                place += 1;
                match self.byte(at) {
                    b',' => at += 1,
                    b'}' => break,
                    _ => return None,
                }
            }
        }
        if filled < columns.len() {
            if self.options.fail_on_missing_field {
                return None;
            }
            columns
                .iter_mut()
                .filter(|column| column.len() == rows)
                .for_each(Column::push_null);
        }
        Some(at + 1)
    }

    /// Appends the value at `at` to `column`; gives the place behind it.
    fn value(&mut self, at: usize, column: &mut Column, depth: usize) -> Option<usize> {
        match self.byte(at) {
            b'"' => {
                let inside = self.string(at)?;
                if memchr::memchr(b'\\', inside).is_some() {
                    self.escaped(at, column)?;
                } else if !push_text(column, inside, &self.options.text) {
                    self.misread(column)?;
                }
                Some(at + 1)
            }
            b'-' | b'0'..=b'9' => {
                let token = self.token(at);
                if let (ColumnData::BigInt(values), Some(value)) =
                    (&mut column.data, plain_integer(token))
                {
                    values.push(value);
                    column.valid();
                    return Some(at + 1);
                }
                if !is_number(token) {
                    return None;
                }
                if !push_number(column, token) {
                    self.misread(column)?;
                }
                Some(at + 1)
            }
            b'n' if self.token(at) == b"null" => {
                column.push_null();
                Some(at + 1)
            }
            b't' if self.token(at) == b"true" => push_boolean(column, true).then_some(at + 1),
            b'f' if self.token(at) == b"false" => push_boolean(column, false).then_some(at + 1),
            b'{' | b'[' if depth < DEEPEST => self.nested(at, column, depth),
            _ => None,
        }
    }

    /// A scalar that a type cannot read is NULL when reading leniently; otherwise the tolerant reader has the words for it.
    fn misread(&self, column: &mut Column) -> Option<()> {
        self.options.ignore_parse_errors.then(|| column.push_null())
    }

    fn escaped(&mut self, at: usize, column: &mut Column) -> Option<()> {
        let mut scratch = std::mem::take(self.scratch);
        scratch.clear();
        let pushed = self
            .string(at)
            .and_then(|inside| unescape(inside, &mut scratch))
            .is_some_and(|()| push_text(column, &scratch, &self.options.text));
        *self.scratch = scratch;
        pushed.then_some(())
    }

    fn nested(&mut self, at: usize, column: &mut Column, depth: usize) -> Option<usize> {
        let opens = self.byte(at);
        let behind = match &mut column.data {
            ColumnData::Row { names, columns } if opens == b'{' => {
                self.row(at + 1, names, columns, depth)?
            }
            ColumnData::List { offsets, element } if opens == b'[' => {
                let behind = self.elements(at + 1, element, depth)?;
                offsets.push(element.len() as i32);
                behind
            }
            ColumnData::Map {
                offsets,
                key,
                value,
            } if opens == b'{' => {
                let behind = self.entries(at + 1, key, value, depth)?;
                offsets.push(key.len() as i32);
                behind
            }
            _ => return None,
        };
        column.valid();
        Some(behind)
    }

    fn row(
        &mut self,
        at: usize,
        names: &[String],
        columns: &mut [Column],
        depth: usize,
    ) -> Option<usize> {
        // No column stands behind the others before the row begins.
        let rows = columns.first().map_or(0, Column::len);
        let mut filled = 0;
        let behind = self.fields(at, |reader, key, at| {
            let next = names.get(filled).filter(|name| name.as_bytes() == key);
            let place = match next {
                Some(_) => Some(filled),
                None => names.iter().position(|name| name.as_bytes() == key),
            };
            let Some(place) = place else {
                return reader.skip(at, depth + 1);
            };
            filled += 1;
            (columns[place].len() == rows)
                .then(|| reader.value(at, &mut columns[place], depth + 1))?
        })?;
        if filled < columns.len() {
            if self.options.fail_on_missing_field {
                return None;
            }
            columns
                .iter_mut()
                .filter(|column| column.len() == rows)
                .for_each(Column::push_null);
        }
        Some(behind)
    }

    fn entries(
        &mut self,
        at: usize,
        keys: &mut Column,
        values: &mut Column,
        depth: usize,
    ) -> Option<usize> {
        let first = keys.len();
        self.fields(at, |reader, key, at| {
            let ColumnData::Text(texts) = &keys.data else {
                return None;
            };
            if keys.len() - first > MOST_ENTRIES || texts.since(first).any(|before| before == key) {
                return None;
            }
            push_text(keys, key, &reader.options.text)
                .then(|| reader.value(at, values, depth + 1))?
        })
    }

    /// Hands the key and the place of the value of each field of an object to `field`; gives the place behind its brace.
    fn fields(
        &mut self,
        at: usize,
        mut field: impl FnMut(&mut Self, &'a [u8], usize) -> Option<usize>,
    ) -> Option<usize> {
        let mut at = at;
        if self.byte(at) == b'}' {
            return Some(at + 1);
        }
        loop {
            if self.byte(at) != b'"' || self.byte(at + 1) != b':' {
                return None;
            }
            let key = self.string(at)?;
            if memchr::memchr(b'\\', key).is_some() {
                return None;
            }
            at = field(self, key, at + 2)?;
            match self.byte(at) {
                b',' => at += 1,
                b'}' => return Some(at + 1),
                _ => return None,
            }
        }
    }

    fn elements(&mut self, at: usize, element: &mut Column, depth: usize) -> Option<usize> {
        let mut at = at;
        if self.byte(at) == b']' {
            return Some(at + 1);
        }
        loop {
            at = self.value(at, element, depth + 1)?;
            match self.byte(at) {
                b',' => at += 1,
                b']' => return Some(at + 1),
                _ => return None,
            }
        }
    }

    /// Checks a value that nobody reads; gives the place behind it.
    fn skip(&mut self, at: usize, depth: usize) -> Option<usize> {
        match self.byte(at) {
            b'"' => {
                let inside = self.string(at)?;
                let plain = memchr::memchr(b'\\', inside).is_none()
                    || unescape(inside, &mut Vec::new()).is_some();
                plain.then_some(at + 1)
            }
            b'-' | b'0'..=b'9' => is_number(self.token(at)).then_some(at + 1),
            b'n' => (self.token(at) == b"null").then_some(at + 1),
            b't' => (self.token(at) == b"true").then_some(at + 1),
            b'f' => (self.token(at) == b"false").then_some(at + 1),
            b'{' if depth < DEEPEST => {
                self.fields(at + 1, |reader, _, at| reader.skip(at, depth + 1))
            }
            b'[' if depth < DEEPEST => self.skip_elements(at + 1, depth),
            _ => None,
        }
    }

    fn skip_elements(&mut self, at: usize, depth: usize) -> Option<usize> {
        let mut at = at;
        if self.byte(at) == b']' {
            return Some(at + 1);
        }
        loop {
            at = self.skip(at, depth + 1)?;
            match self.byte(at) {
                b',' => at += 1,
                b']' => return Some(at + 1),
                _ => return None,
            }
        }
    }
}

/// A whole number of at most 18 digits in JSON's grammar; `None` for all others, which [`push_number`] judges.
#[inline(always)]
fn plain_integer(token: &[u8]) -> Option<i64> {
    let (negative, digits) = match token {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 || (digits[0] == b'0' && digits.len() > 1) {
        return None;
    }
    let mut value: i64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + digit as i64;
    }
    Some(if negative { -value } else { value })
}

/// Whether a token is a number by JSON's grammar.
pub(super) fn is_number(token: &[u8]) -> bool {
    let mut rest = token.strip_prefix(b"-").unwrap_or(token);
    match rest {
        [b'0', behind @ ..] => rest = behind,
        [b'1'..=b'9', ..] => rest = behind_digits(rest),
        _ => return false,
    }
    if let [b'.', behind @ ..] = rest {
        rest = behind_digits(behind);
        if rest.len() == behind.len() {
            return false;
        }
    }
    if let [b'e' | b'E', behind @ ..] = rest {
        let digits = match behind {
            [b'+' | b'-', digits @ ..] => digits,
            digits => digits,
        };
        rest = behind_digits(digits);
        if rest.len() == digits.len() {
            return false;
        }
    }
    rest.is_empty()
}

fn behind_digits(text: &[u8]) -> &[u8] {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    &text[digits..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_of_numbers_is_json_s() {
        for number in ["0", "-0", "10", "1.5", "1e5", "1.25E-10", "-1e+2"] {
            assert!(is_number(number.as_bytes()), "{number}");
        }
        for other in [
            "", "-", "01", "1.", ".5", "+1", "1e", "1e+", "0x1", "NaN", "1 2",
        ] {
            assert!(!is_number(other.as_bytes()), "{other}");
        }
        assert_eq!(plain_integer(b"-120"), Some(-120));
        assert_eq!(plain_integer(b"012"), None);
        assert_eq!(plain_integer(b"1.5"), None);
        assert_eq!(plain_integer(b"1234567890123456789"), None);
    }
}
