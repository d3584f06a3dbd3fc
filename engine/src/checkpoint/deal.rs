//! Rows of keyed tables dealt to buckets of keys.
//!
//! A counting sort over some thousand rows at a time, which stay near the processor; no row depends on how the one before it was dealt.
//! Columns of fixed width are dealt into one array a bucket, so that what is written is in few pieces; tables with others piece by piece, since
//! what a bucket holds of them may be too much for one array.

use std::ops::Range;

use arrow::array::{Array, ArrayData, ArrayRef, RecordBatch, UInt32Array, make_array};
use arrow::buffer::Buffer;
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{ArrowNativeType, DataType, SchemaRef};

use super::change::Shares;
use crate::error::Result;
use crate::state::key_hashes_of;

/// Rows that are dealt at once, so that they stay near the processor.
const DEALT_ROWS: usize = 16 << 10;
/// The most rows of a batch that is written.
const BATCH_ROWS: usize = 64 << 10;

/// Which rows of a table go into which bucket.
pub(super) struct Deal {
    pieces: Vec<Piece>,
}

/// Some rows, and what order puts them by their buckets.
struct Piece {
    rows: RecordBatch,
    order: Vec<u32>,
    /// Where each bucket begins in the order, and where the last one ends.
    starts: Vec<u32>,
}

impl Deal {
    /// Deals rows to the buckets that these spans are.
    pub(super) fn new(batches: &[RecordBatch], shares: &Shares) -> Result<Self> {
        let mut pieces = Vec::new();
        for_each_piece(batches, &mut |rows| {
            pieces.push(Piece::new(rows.clone(), shares));
            Ok(())
        })?;
        Ok(Deal { pieces })
    }

    /// The rows of some buckets, by bucket. They are there twice then.
    pub(super) fn rows_of(&self, buckets: Range<usize>) -> Result<Vec<Vec<RecordBatch>>> {
        let Some(first) = self.pieces.first() else {
            return Ok(vec![Vec::new(); buckets.len()]);
        };
        let schema = first.rows.schema();
        let is_fixed = |column: usize| self.is_fixed(column, schema.field(column).data_type());
        let mut others = self.pieces.iter().map(|piece| piece.rows.schema_ref());
        let is_one = others.all(|other| other.fields() == schema.fields());
        match is_one && (0..schema.fields().len()).all(is_fixed) {
            true => self.columns_of(&schema, buckets),
            false => self.pieces_of(buckets),
        }
    }

    /// Whether a column has a value of one width in every row, and no NULL.
    fn is_fixed(&self, column: usize, data_type: &DataType) -> bool {
        let mut columns = self.pieces.iter().map(|piece| piece.rows.column(column));
        matches!(data_type.primitive_width(), Some(1 | 2 | 4 | 8))
            && columns.all(|array| array.null_count() == 0)
    }

    fn columns_of(
        &self,
        schema: &SchemaRef,
        buckets: Range<usize>,
    ) -> Result<Vec<Vec<RecordBatch>>> {
        let mut columns: Vec<Vec<ArrayRef>> = buckets.clone().map(|_| Vec::new()).collect();
        for (at, field) in schema.fields().iter().enumerate() {
            let data_type = field.data_type();
            let dealt = match data_type.primitive_width() {
                Some(1) => self.values_of::<u8>(at, buckets.clone()),
                Some(2) => self.values_of::<u16>(at, buckets.clone()),
                Some(4) => self.values_of::<u32>(at, buckets.clone()),
                _ => self.values_of::<u64>(at, buckets.clone()),
            };
            for (columns, (values, rows)) in columns.iter_mut().zip(dealt) {
                let data = ArrayData::builder(data_type.clone());
                let data = data.len(rows).add_buffer(values).build()?;
                columns.push(make_array(data));
            }
        }
        let batch = |columns| Ok(in_batches(&RecordBatch::try_new(schema.clone(), columns)?));
        columns.into_iter().map(batch).collect()
    }

    /// The values of a column by bucket, and how many there are.
    fn values_of<T: ArrowNativeType>(
        &self,
        column: usize,
        buckets: Range<usize>,
    ) -> Vec<(Buffer, usize)> {
        let room = |bucket: usize| self.pieces.iter().map(|piece| piece.of(bucket).len()).sum();
        let mut dealt: Vec<Vec<T>> = buckets
            .clone()
            .map(|bucket| Vec::with_capacity(room(bucket)))
            .collect();
        for piece in &self.pieces {
            let data = piece.rows.column(column).to_data();
            let values = &data.buffer::<T>(0)[..piece.rows.num_rows()];
            for (bucket, dealt) in buckets.clone().zip(&mut dealt) {
                dealt.extend(piece.of(bucket).iter().map(|row| values[*row as usize]));
            }
        }
        let counted = |values: Vec<T>| {
            let rows = values.len();
            (Buffer::from_vec(values), rows)
        };
        dealt.into_iter().map(counted).collect()
    }

    fn pieces_of(&self, buckets: Range<usize>) -> Result<Vec<Vec<RecordBatch>>> {
        let mut dealt = vec![Vec::new(); buckets.len()];
        for piece in &self.pieces {
            let starts = &piece.starts[buckets.start..=buckets.end];
            let (first, last) = (starts[0], starts[starts.len() - 1]);
            if first == last {
                continue;
            }
            let order = piece.order[first as usize..last as usize].to_vec();
            let rows = take_record_batch(&piece.rows, &UInt32Array::from(order))?;
            for (ends, dealt) in starts.windows(2).zip(&mut dealt) {
                let (start, end) = ((ends[0] - first) as usize, (ends[1] - first) as usize);
                dealt.extend((start < end).then(|| rows.slice(start, end - start)));
            }
        }
        Ok(dealt)
    }
}

impl Piece {
    fn new(rows: RecordBatch, shares: &Shares) -> Self {
        let hashes = key_hashes_of(&rows).iter();
        let buckets: Vec<u32> = hashes.map(|hash| shares.number_of(*hash) as u32).collect();
        let mut starts = vec![0u32; shares.count() + 1];
        for bucket in &buckets {
            starts[*bucket as usize + 1] += 1;
        }
        for bucket in 1..starts.len() {
            starts[bucket] += starts[bucket - 1];
        }
        let mut next = starts.clone();
        let mut order = vec![0u32; buckets.len()];
        for (row, bucket) in buckets.into_iter().enumerate() {
            let next = &mut next[bucket as usize];
            order[*next as usize] = row as u32;
            *next += 1;
        }
        Piece {
            rows,
            order,
            starts,
        }
    }

    /// The rows of a bucket.
    fn of(&self, bucket: usize) -> &[u32] {
        &self.order[self.starts[bucket] as usize..self.starts[bucket + 1] as usize]
    }
}

fn in_batches(rows: &RecordBatch) -> Vec<RecordBatch> {
    let starts = (0..rows.num_rows()).step_by(BATCH_ROWS);
    let batch = |start| rows.slice(start, BATCH_ROWS.min(rows.num_rows() - start));
    starts.map(batch).collect()
}

/// The same rows in fewer batches: what is merged again and again would fall to pieces.
pub(super) fn joined_rows(batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
    let mut pieces = Vec::new();
    for_each_piece(batches, &mut |piece| {
        pieces.push(piece.clone());
        Ok(())
    })?;
    Ok(pieces)
}

/// The rows of batches in order, some thousand at a time: large ones in parts, small ones together.
fn for_each_piece(
    batches: &[RecordBatch],
    call: &mut dyn FnMut(&RecordBatch) -> Result<()>,
) -> Result<()> {
    let (mut small, mut rows) = (Vec::new(), 0);
    let mut together = |small: &mut Vec<RecordBatch>| -> Result<()> {
        match small.as_slice() {
            [] => return Ok(()),
            [one] => call(one)?,
            several => call(&concat_batches(&several[0].schema(), several)?)?,
        }
        small.clear();
        Ok(())
    };
    for batch in batches {
        for offset in (0..batch.num_rows()).step_by(DEALT_ROWS) {
            let part = batch.slice(offset, DEALT_ROWS.min(batch.num_rows() - offset));
            if rows + part.num_rows() > DEALT_ROWS {
                together(&mut small)?;
                rows = 0;
            }
            rows += part.num_rows();
            small.push(part);
        }
    }
    together(&mut small)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Date32Array, Int16Array, StringArray, UInt64Array};

    use super::super::change::KeySpan;
    use super::*;
    use crate::state::KEY_HASH_COLUMN;

    const LENGTHS: [usize; 8] = [
        3,
        0,
        DEALT_ROWS + 5,
        1,
        2 * DEALT_ROWS,
        DEALT_ROWS - 1,
        1,
        BATCH_ROWS,
    ];

    /// Columns by name for some hashes.
    type Others<'a> = &'a dyn Fn(&[u64]) -> Vec<(&'static str, ArrayRef)>;

    /// Batches of these lengths, with other columns for some hashes spread over all keys.
    fn batches(lengths: &[usize], others: Others<'_>) -> Vec<RecordBatch> {
        let mut next = 0u64;
        let batch = |length: &usize| {
            let hashes: Vec<u64> = (0..*length)
                .map(|_| {
                    next += 1;
                    next.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                })
                .collect();
            let others = others(&hashes);
            let hashes: ArrayRef = Arc::new(UInt64Array::from(hashes));
            let columns = [(KEY_HASH_COLUMN, hashes)].into_iter().chain(others);
            let columns = columns.map(|(name, column)| (name, column, name == "some"));
            RecordBatch::try_from_iter_with_nullable(columns).unwrap()
        };
        lengths.iter().map(batch).collect()
    }

    fn hashes(batches: &[RecordBatch]) -> Vec<u64> {
        let hashes = batches.iter().flat_map(key_hashes_of);
        hashes.copied().collect()
    }

    fn small(hashes: &[u64]) -> impl Iterator<Item = i16> {
        hashes.iter().map(|hash| *hash as i16)
    }

    /// Each bucket has the rows of its keys, in order and with all their columns.
    fn check_dealt(others: Others<'_>) {
        let batches = batches(&LENGTHS, others);
        let count = 11;
        let shares = KeySpan::ALL.shares(count);
        let deal = Deal::new(&batches, &shares).unwrap();
        for buckets in [0..8, 8..count] {
            let dealt = deal.rows_of(buckets.clone()).unwrap();
            for (bucket, dealt) in buckets.zip(dealt) {
                let span = shares.span(bucket);
                let mut expected = hashes(&batches);
                expected.retain(|hash| span.contains(*hash));
                assert_eq!(hashes(&dealt), expected);
                for batch in dealt {
                    assert!(batch.num_rows() <= BATCH_ROWS);
                    assert_eq!(batch.schema(), batches[0].schema());
                    let columns = others(key_hashes_of(&batch));
                    let columns: Vec<ArrayRef> = columns.into_iter().map(|of| of.1).collect();
                    assert_eq!(batch.columns()[1..], columns);
                }
            }
        }
    }

    #[test]
    fn rows_are_joined_in_order() {
        let batches = batches(&LENGTHS, &|_| vec![]);
        let joined = joined_rows(&batches).unwrap();
        assert_eq!(hashes(&joined), hashes(&batches));
        assert!(joined.iter().all(|piece| piece.num_rows() <= DEALT_ROWS));
    }

    #[test]
    fn columns_of_fixed_width_are_dealt_by_bucket() {
        check_dealt(&|hashes| {
            let days = hashes.iter().map(|hash| *hash as i32);
            let flags = hashes.iter().map(|hash| *hash as i8);
            let bytes = arrow::array::Int8Array::from_iter_values(flags);
            vec![
                (
                    "short",
                    Arc::new(Int16Array::from_iter_values(small(hashes))),
                ),
                ("day", Arc::new(Date32Array::from_iter_values(days))),
                ("byte", Arc::new(bytes)),
            ]
        });
        let none = Deal::new(&[], &KeySpan::ALL.shares(2)).unwrap();
        assert_eq!(none.rows_of(0..2).unwrap(), [vec![], vec![]]);
    }

    #[test]
    fn tables_with_text_or_nulls_are_dealt_piece_by_piece() {
        check_dealt(&|hashes| {
            let text = small(hashes).map(|value| value.to_string());
            vec![("text", Arc::new(StringArray::from_iter_values(text)))]
        });
        check_dealt(&|hashes| {
            let some = small(hashes).map(|value| (value % 3 != 0).then_some(value));
            vec![("some", Arc::new(Int16Array::from_iter(some)))]
        });
    }
}
