//! The `raw` format: the bytes of a message are the value of the table's only column; in files, of a line.

use arrow::array::{Array, AsArray, RecordBatch};

use super::columns::{Column, ColumnData};
use super::format::{Decoded, only_inserts};
use super::{Decoder, Encoder, Format, FormatContext};
use crate::config::{OptionSpec, OptionType};
use crate::error::{Error, Result};
use crate::types::{RowKinds, Schema};

/// `'format' = 'raw'`.
#[derive(Debug, Clone, Copy, Default)]
pub struct RawFormat;

const OPTIONS: &[OptionSpec] = &[OptionSpec::new(
    "raw.charset",
    OptionType::Enum(&["UTF-8", "utf-8"]),
    Some("UTF-8"),
    "The encoding of text; only UTF-8.",
)];

impl Format for RawFormat {
    fn identifier(&self) -> &'static str {
        "raw"
    }

    fn options(&self) -> Vec<OptionSpec> {
        OPTIONS.to_vec()
    }

    fn decoder(&self, context: &FormatContext) -> Result<Box<dyn Decoder>> {
        check(context)?;
        let schema = context.schema();
        Ok(Box::new(RawDecoder {
            column: schema
                .fields
                .first()
                .map(|field| Column::new(&field.logical_type)),
            schema,
            table: context.table.clone(),
            rows: 0,
            lines_before_error: 0,
        }))
    }

    fn encoder(&self, context: &FormatContext) -> Result<Box<dyn Encoder>> {
        check(context)?;
        Ok(Box::new(RawEncoder {
            table: context.table.clone(),
        }))
    }
}

fn check(context: &FormatContext) -> Result<()> {
    let [field] = context.physical.fields.as_slice() else {
        return Err(Error::user(format!(
            "table \"{}\" has {} physical columns; the format 'raw' gives one",
            context.table,
            context.physical.len()
        )));
    };
    let root = &field.logical_type.root;
    if root.is_string() || root.is_binary() {
        return Ok(());
    }
    let what = format!(
        "table \"{}\": column \"{}\" of type {root} in the format 'raw'",
        context.table, field.name
    );
    Err(Error::unsupported(what).hint("declare it STRING or BYTES and cast it in the query"))
}

/// The decoder of `raw`. Without a column to read (`COUNT(*)`) it counts rows.
struct RawDecoder {
    schema: Schema,
    table: String,
    column: Option<Column>,
    rows: usize,
    lines_before_error: usize,
}

impl Decoder for RawDecoder {
    fn decode_message(&mut self, message: &[u8]) -> Result<()> {
        if let Some(column) = &mut self.column {
            match &mut column.data {
                ColumnData::Text(_) if std::str::from_utf8(message).is_err() => {
                    return Err(Error::data(format!(
                        "table \"{}\": the message is not UTF-8",
                        self.table
                    ))
                    .hint("declare the column BYTES"));
                }
                ColumnData::Text(values) | ColumnData::Binary(values) => values.push(message),
                _ => unreachable!("other types are refused at the start"),
            }
            column.valid();
        }
        self.rows += 1;
        Ok(())
    }

    fn decode_block(
        &mut self,
        block: &mut [u8],
        is_last: bool,
        max_rows: usize,
    ) -> Result<Decoded> {
        let mut done = Decoded { bytes: 0, lines: 0 };
        while done.lines < max_rows && done.bytes < block.len() {
            let rest = &block[done.bytes..];
            let (line, taken) = match memchr::memchr(b'\n', rest) {
                Some(end) => (&rest[..end], end + 1),
                None if is_last => (rest, rest.len()),
                None => break,
            };
            if let Err(error) = self.decode_message(line) {
                self.lines_before_error = done.lines;
                return Err(error);
            }
            done.bytes += taken;
            done.lines += 1;
        }
        Ok(done)
    }

    fn lines_before_error(&self) -> usize {
        self.lines_before_error
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn finish(&mut self) -> Result<(RecordBatch, RowKinds)> {
        let columns = self
            .column
            .iter_mut()
            .map(Column::take)
            .collect::<Result<Vec<_>>>()?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        let batch = RecordBatch::try_new_with_options(self.schema.to_arrow(), columns, &options)?;
        Ok((batch, RowKinds::INSERT_ONLY))
    }
}

/// The encoder of `raw`: a line a row, an empty one for NULL.
struct RawEncoder {
    table: String,
}

impl Encoder for RawEncoder {
    fn encode(&mut self, rows: &RecordBatch, kinds: &RowKinds, out: &mut Vec<u8>) -> Result<()> {
        only_inserts(kinds, "raw", &self.table)?;
        let column = rows.column(0);
        for row in 0..rows.num_rows() {
            if column.is_valid(row) {
                out.extend_from_slice(match column.as_string_opt::<i32>() {
                    Some(texts) => texts.value(row).as_bytes(),
                    None => column.as_binary::<i32>().value(row),
                });
            }
            out.push(b'\n');
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Field, LogicalType};

    fn context(fields: &[LogicalType]) -> FormatContext {
        FormatContext {
            table: "t".to_string(),
            physical: Schema::new(
                fields
                    .iter()
                    .map(|field| Field::new("c", field.clone()))
                    .collect(),
            ),
            projection: (0..fields.len()).collect(),
            options: Default::default(),
            time_zone: "UTC".to_string(),
        }
    }

    #[test]
    fn lines_are_values() {
        let context = context(&[LogicalType::STRING]);
        let mut decoder = RawFormat.decoder(&context).unwrap();
        let mut block = "a\n\né,{\nlast".as_bytes().to_vec();
        let done = decoder.decode_block(&mut block, false, 100).unwrap();
        assert_eq!((done.bytes, done.lines), (8, 3));
        decoder.decode_block(&mut block[8..], true, 100).unwrap();
        let (batch, kinds) = decoder.finish().unwrap();
        let mut out = Vec::new();
        let mut encoder = RawFormat.encoder(&context).unwrap();
        encoder.encode(&batch, &kinds, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a\n\né,{\nlast\n");
        assert!(decoder.decode_message(b"\xff").is_err());
    }

    #[test]
    fn only_one_column_of_text_or_bytes_is_raw() {
        for fields in [
            &[LogicalType::INT][..],
            &[LogicalType::STRING, LogicalType::STRING],
        ] {
            assert!(RawFormat.decoder(&context(fields)).is_err());
        }
    }
}
