//! Segments: a change written down in buckets of keys, and several read as one in bounded memory.
//!
//! A large segment is cut into buckets by key, so that whoever takes over some key groups, or merges segments, reads and holds only
//! those. Segments are read from the newest back: what a newer one speaks for is passed over in older ones, so every row is
//! looked at once and none is moved twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use hashbrown::HashTable;

use super::change::{Change, KeySpan, KeyedTables, Replaced, joined, retain};
use super::data_file::{DataWriter, decode_keys, decode_table, read_piece};
use super::manifest::{Bucket, Piece, Segment};
use crate::blobs::BlobStore;
use crate::error::{Error, Result};
use crate::state::key_hashes_of;
use crate::stream::CheckpointId;

/// Writes a change, whose keys all lie in `bounds`, as a segment.
pub(super) fn write_change(
    writer: &mut DataWriter<'_>,
    checkpoint: CheckpointId,
    change: &Change,
    bounds: KeySpan,
) -> Result<Segment> {
    let mut segment = SegmentWriter::new(checkpoint, &change.replaced.spans);
    let count = change
        .size_bytes()
        .div_ceil(writer.sizes.bucket_bytes.max(1));
    let count = count.min(bounds.width() as usize);
    if count <= 1 {
        segment.bucket(writer, bounds, &change.replaced.keys, &change.tables)?;
        return Ok(segment.finish());
    }
    let dealt: Vec<(&String, Dealt<'_>)> = change
        .tables
        .iter()
        .map(|(name, batches)| (name, Dealt::new(batches, bounds, count)))
        .collect();
    for index in 0..count {
        let mut tables = KeyedTables::new();
        for (name, dealt) in &dealt {
            tables.extend(
                dealt
                    .bucket(index)?
                    .map(|batch| ((*name).clone(), vec![batch])),
            );
        }
        let span = bounds.share(index, count);
        let keys = keys_in(&change.replaced.keys, span);
        segment.bucket(writer, span, keys, &tables)?;
    }
    Ok(segment.finish())
}

/// The hashes of a span among some in ascending order.
fn keys_in(keys: &[u64], span: KeySpan) -> &[u64] {
    let start = keys.partition_point(|key| ((key >> 32) as u32) < span.first);
    let end = keys.partition_point(|key| ((key >> 32) as u32) <= span.last);
    &keys[start..end]
}

/// The rows of a table in the order of their buckets.
struct Dealt<'a> {
    batches: Vec<&'a RecordBatch>,
    /// Batch and row.
    order: Vec<(u32, u32)>,
    /// Where each bucket begins, and where the last one ends.
    starts: Vec<usize>,
}

impl<'a> Dealt<'a> {
    fn new(batches: &'a [RecordBatch], bounds: KeySpan, buckets: usize) -> Self {
        let mut starts = vec![0; buckets + 1];
        let mut places = Vec::new();
        for (number, batch) in batches.iter().enumerate() {
            for (row, hash) in key_hashes_of(batch).iter().enumerate() {
                let bucket = bounds.share_of(*hash, buckets);
                starts[bucket + 1] += 1;
                places.push((bucket as u32, number as u32, row as u32));
            }
        }
        for bucket in 0..buckets {
            starts[bucket + 1] += starts[bucket];
        }
        let mut next = starts.clone();
        let mut order = vec![(0, 0); places.len()];
        for (bucket, batch, row) in places {
            order[next[bucket as usize]] = (batch, row);
            next[bucket as usize] += 1;
        }
        Dealt {
            batches: batches.iter().collect(),
            order,
            starts,
        }
    }

    fn bucket(&self, index: usize) -> Result<Option<RecordBatch>> {
        let rows = &self.order[self.starts[index]..self.starts[index + 1]];
        if rows.is_empty() {
            return Ok(None);
        }
        let places: Vec<(usize, usize)> = rows
            .iter()
            .map(|(batch, row)| (*batch as usize, *row as usize))
            .collect();
        Ok(Some(interleave_record_batch(&self.batches, &places)?))
    }
}

/// A segment under way.
pub(super) struct SegmentWriter {
    segment: Segment,
}

impl SegmentWriter {
    pub(super) fn new(checkpoint: CheckpointId, whole: &[KeySpan]) -> Self {
        SegmentWriter {
            segment: Segment {
                checkpoint,
                whole: whole.to_vec(),
                bytes: 0,
                buckets: Vec::new(),
            },
        }
    }

    pub(super) fn finish(self) -> Segment {
        self.segment
    }

    pub(super) fn bucket(
        &mut self,
        writer: &mut DataWriter<'_>,
        span: KeySpan,
        keys: &[u64],
        tables: &KeyedTables,
    ) -> Result<()> {
        let mut bucket = Bucket {
            span,
            keys: None,
            tables: BTreeMap::new(),
        };
        if !keys.is_empty() {
            bucket.keys = Some(writer.keys(keys)?);
        }
        for (name, batches) in tables {
            if batches.iter().any(|batch| batch.num_rows() > 0) {
                bucket.tables.insert(name.clone(), writer.table(batches)?);
            }
        }
        let pieces = bucket.keys.iter().chain(bucket.tables.values());
        let bytes: u64 = pieces.map(|piece| piece.bytes).sum();
        if bytes > 0 {
            self.segment.bytes += bytes;
            self.segment.buckets.push(bucket);
        }
        Ok(())
    }
}

/// Where the files of a checkpoint are found.
#[derive(Debug, Clone)]
pub(super) struct DataSource {
    pub(super) blobs: Arc<dyn BlobStore>,
    /// Its own files are named with this; where its directory has another name, [`DataSource::moved_to`] stands in for it.
    pub(super) own: String,
    pub(super) moved_to: String,
}

impl DataSource {
    pub(super) fn path(&self, file: &str) -> String {
        match file.strip_prefix(&self.own) {
            Some(rest) => format!("{}{rest}", self.moved_to),
            None => file.to_string(),
        }
    }

    pub(super) fn table(&self, piece: &Piece) -> Result<Vec<RecordBatch>> {
        decode_table(self.bytes(piece)?)
    }

    fn bytes(&self, piece: &Piece) -> Result<bytes::Bytes> {
        read_piece(&*self.blobs, &self.path(&piece.file), piece)
    }
}

/// Reads segments as one.
pub(super) struct SegmentsReader<'a> {
    blobs: &'a dyn BlobStore,
    source: Option<&'a DataSource>,
    segments: &'a [Segment],
    /// By segment the bucket read last: neighbouring spans often lie in one.
    loaded: Vec<Option<(usize, Arc<Loaded>)>>,
}

struct Loaded {
    keys: Vec<u64>,
    tables: KeyedTables,
}

impl<'a> SegmentsReader<'a> {
    /// The segments of an operator, oldest first, with their files where they were written.
    pub(super) fn new(blobs: &'a dyn BlobStore, segments: &'a [Segment]) -> Self {
        SegmentsReader {
            blobs,
            source: None,
            segments,
            loaded: segments.iter().map(|_| None).collect(),
        }
    }

    /// The same with the files of a checkpoint that may have been moved.
    pub(super) fn of(source: &'a DataSource, segments: &'a [Segment]) -> Self {
        SegmentsReader {
            source: Some(source),
            ..SegmentsReader::new(&*source.blobs, segments)
        }
    }

    /// What the segments together say of the keys of a span.
    pub(super) fn read(&mut self, span: KeySpan) -> Result<Change> {
        let mut covered = Covered::default();
        let mut tables: BTreeMap<String, Vec<RecordBatch>> = BTreeMap::new();
        for number in (0..self.segments.len()).rev() {
            if covered.spans.iter().any(|covered| covered.covers(span)) {
                break;
            }
            let mut keys = Vec::new();
            for bucket in (0..self.segments[number].buckets.len()).rev() {
                let of_bucket = self.segments[number].buckets[bucket].span;
                if !of_bucket.overlaps(span) {
                    continue;
                }
                let loaded = self.load(number, bucket)?;
                let inside = span.covers(of_bucket);
                keys.extend_from_slice(keys_in(&loaded.keys, span));
                for (name, batches) in &loaded.tables {
                    let rows = tables.entry(name.clone()).or_default();
                    for batch in batches.iter().rev() {
                        let batch = match inside && covered.is_empty() {
                            true => batch.clone(),
                            false => retain(batch, |hash| {
                                span.contains(hash) && !covered.contains(hash)
                            })?,
                        };
                        rows.extend((batch.num_rows() > 0).then_some(batch));
                    }
                }
            }
            covered.add(&keys, &self.segments[number].whole);
        }
        tables.retain(|_, batches| !batches.is_empty());
        tables.values_mut().for_each(|batches| batches.reverse());
        Ok(Change {
            replaced: covered.replaced(),
            tables,
        })
    }

    fn load(&mut self, segment: usize, bucket: usize) -> Result<Arc<Loaded>> {
        if let Some((at, loaded)) = &self.loaded[segment]
            && *at == bucket
        {
            return Ok(loaded.clone());
        }
        self.loaded[segment] = None;
        let pieces = &self.segments[segment].buckets[bucket];
        let mut tables = KeyedTables::new();
        for (name, piece) in &pieces.tables {
            tables.insert(name.clone(), decode_table(self.bytes(piece)?)?);
        }
        let keys = match &pieces.keys {
            Some(piece) => decode_keys(&self.bytes(piece)?),
            None => Vec::new(),
        };
        let loaded = Arc::new(Loaded { keys, tables });
        self.loaded[segment] = Some((bucket, loaded.clone()));
        Ok(loaded)
    }

    fn bytes(&self, piece: &Piece) -> Result<bytes::Bytes> {
        match self.source {
            Some(source) => source.bytes(piece),
            None => read_piece(self.blobs, &piece.file, piece),
        }
    }

    /// Writes what the segments together say as one segment, a bucket at a time.
    pub(super) fn merge_into(
        &mut self,
        writer: &mut DataWriter<'_>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Segment> {
        let spans = self
            .segments
            .iter()
            .flat_map(|segment| segment.whole.clone());
        let whole = joined(spans.collect());
        let latest = self.segments.iter().map(|segment| segment.checkpoint).max();
        let mut merged = SegmentWriter::new(latest.unwrap_or(CheckpointId(0)), &whole);
        let bytes: u64 = self.segments.iter().map(|segment| segment.bytes).sum();
        let count = (bytes as usize)
            .div_ceil(writer.sizes.bucket_bytes.max(1))
            .max(1);
        for index in 0..count {
            if stopped() {
                return Err(Error::internal(
                    "the job has ended while its checkpoints were merged",
                ));
            }
            let span = KeySpan::ALL.share(index, count);
            let change = self.read(span)?;
            merged.bucket(writer, span, &change.replaced.keys, &change.tables)?;
        }
        Ok(merged.finish())
    }
}

/// What newer segments speak for.
#[derive(Default)]
struct Covered {
    spans: Vec<KeySpan>,
    keys: HashTable<u64>,
}

impl Covered {
    fn is_empty(&self) -> bool {
        self.spans.is_empty() && self.keys.is_empty()
    }

    fn contains(&self, hash: u64) -> bool {
        self.spans.iter().any(|span| span.contains(hash))
            || self.keys.find(spread(hash), |key| *key == hash).is_some()
    }

    fn add(&mut self, keys: &[u64], spans: &[KeySpan]) {
        for key in keys {
            let (hash, same) = (spread(*key), |other: &u64| other == key);
            self.keys
                .entry(hash, same, |key| spread(*key))
                .or_insert(*key);
        }
        self.spans.extend_from_slice(spans);
    }

    /// The keys beyond the spans, in order.
    fn replaced(self) -> Replaced {
        let spans = joined(self.spans);
        let outside = |key: &u64| !spans.iter().any(|span| span.contains(*key));
        let mut keys: Vec<u64> = self.keys.into_iter().filter(outside).collect();
        keys.sort_unstable();
        Replaced { spans, keys }
    }
}

/// The table looks at the upper bits of a hash, which the keys of a span have in common.
fn spread(hash: u64) -> u64 {
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
