//! Holds texts and byte strings to the lengths that a sink's columns declare: `table.exec.sink.type-length-enforcer`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, RecordBatch, StringArray};

use crate::error::{Error, Result};
use crate::types::{LogicalType, TypeRoot};

/// What a value of another length does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeLengthEnforcer {
    /// It is written as it is.
    Ignore,
    /// CHAR and BINARY are filled up (with blanks, with zeros), what is too long is cut.
    TrimPad,
    /// The job fails.
    Error,
}

/// A column with a length.
#[derive(Debug, Clone)]
pub(super) struct LengthRule {
    column: usize,
    name: String,
    declared: TypeRoot,
    length: usize,
    /// CHAR and BINARY: no shorter either.
    is_exact: bool,
}

/// The columns that have a length.
pub(super) fn length_rules(columns: &[(String, LogicalType)]) -> Vec<LengthRule> {
    let rule = |(column, (name, logical_type)): (usize, &(String, LogicalType))| {
        let (length, is_exact) = match logical_type.root {
            TypeRoot::Char(length) | TypeRoot::Binary(length) => (length, true),
            TypeRoot::Varchar(length) | TypeRoot::Varbinary(length) => (length, false),
            _ => return None,
        };
        (length < i32::MAX as u32).then(|| LengthRule {
            column,
            name: name.clone(),
            declared: logical_type.root.clone(),
            length: length as usize,
            is_exact,
        })
    };
    columns.iter().enumerate().filter_map(rule).collect()
}

/// The rows with every value of a length that its column allows.
pub(super) fn enforce_lengths(
    rows: RecordBatch,
    rules: &[LengthRule],
    enforcer: TypeLengthEnforcer,
) -> Result<RecordBatch> {
    let mut columns: Option<Vec<ArrayRef>> = None;
    for rule in rules {
        let column = rows.column(rule.column);
        let Some((row, length)) = rule.first_misfit(column) else {
            continue;
        };
        if enforcer == TypeLengthEnforcer::Error {
            return Err(rule.misfit(row, length));
        }
        columns.get_or_insert_with(|| rows.columns().to_vec())[rule.column] = rule.fitted(column);
    }
    match columns {
        None => Ok(rows),
        Some(columns) => Ok(RecordBatch::try_new(rows.schema(), columns)?),
    }
}

impl LengthRule {
    fn fits(&self, length: usize) -> bool {
        length == self.length || length < self.length && !self.is_exact
    }

    /// The first value that does not fit, and its length.
    fn first_misfit(&self, column: &ArrayRef) -> Option<(usize, usize)> {
        let misfit = |(row, length): (usize, Option<usize>)| {
            let length = length?;
            (!self.fits(length)).then_some((row, length))
        };
        match column.as_string_opt::<i32>() {
            Some(texts) => {
                let lengths = texts
                    .iter()
                    .map(|text| text.map(|text| text.chars().count()));
                lengths.enumerate().find_map(misfit)
            }
            None => {
                let bytes = column.as_binary::<i32>();
                let lengths = bytes.iter().map(|bytes| bytes.map(<[u8]>::len));
                lengths.enumerate().find_map(misfit)
            }
        }
    }

    fn fitted(&self, column: &ArrayRef) -> ArrayRef {
        match column.as_string_opt::<i32>() {
            Some(texts) => {
                let fitted = texts
                    .iter()
                    .map(|text| text.map(|text| self.fit_text(text)));
                Arc::new(fitted.collect::<StringArray>())
            }
            None => {
                let bytes = column.as_binary::<i32>();
                let fitted = bytes
                    .iter()
                    .map(|bytes| bytes.map(|bytes| self.fit_bytes(bytes)));
                Arc::new(fitted.collect::<BinaryArray>())
            }
        }
    }

    fn fit_text(&self, text: &str) -> String {
        let mut fitted: String = text.chars().take(self.length).collect();
        if self.is_exact {
            let blanks = self.length - fitted.chars().count();
            fitted.extend(std::iter::repeat_n(' ', blanks));
        }
        fitted
    }

    fn fit_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut fitted = bytes[..bytes.len().min(self.length)].to_vec();
        if self.is_exact {
            fitted.resize(self.length, 0);
        }
        fitted
    }

    fn misfit(&self, row: usize, length: usize) -> Error {
        Error::data(format!(
            "column \"{}\" of the sink is {}, but a value of length {length} came (row {} of a batch)",
            self.name,
            self.declared,
            row + 1
        ))
        .hint(
            "cut it in the query (SUBSTRING, LPAD), or SET 'table.exec.sink.type-length-enforcer' = 'TRIM_PAD' (cut or fill up) or \
             'IGNORE' (write it as it is)",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> RecordBatch {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("añc"), None, Some("a")]));
        let bytes: ArrayRef = Arc::new(BinaryArray::from_opt_vec(vec![
            Some(b"abc"),
            None,
            Some(b"a"),
        ]));
        RecordBatch::try_from_iter([("c", texts.clone()), ("v", texts), ("b", bytes)]).unwrap()
    }

    fn rules() -> Vec<LengthRule> {
        length_rules(&[
            ("c".to_string(), LogicalType::nullable(TypeRoot::Char(2))),
            ("v".to_string(), LogicalType::nullable(TypeRoot::Varchar(2))),
            ("b".to_string(), LogicalType::nullable(TypeRoot::Binary(2))),
        ])
    }

    #[test]
    fn values_are_cut_and_filled_up() {
        let fitted = enforce_lengths(rows(), &rules(), TypeLengthEnforcer::TrimPad).unwrap();
        let texts = |column: usize| {
            let texts = fitted.column(column).as_string::<i32>();
            texts
                .iter()
                .map(|text| text.map(str::to_string))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            texts(0),
            [Some("añ".to_string()), None, Some("a ".to_string())]
        );
        assert_eq!(
            texts(1),
            [Some("añ".to_string()), None, Some("a".to_string())]
        );
        let bytes = fitted.column(2).as_binary::<i32>();
        assert_eq!((bytes.value(0), bytes.value(2)), (&b"ab"[..], &b"a\0"[..]));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_column() {
        let error = enforce_lengths(rows(), &rules(), TypeLengthEnforcer::Error).unwrap_err();
        assert_eq!(
            error.message(),
            "column \"c\" of the sink is CHAR(2), but a value of length 3 came (row 1 of a batch)"
        );
    }
}
