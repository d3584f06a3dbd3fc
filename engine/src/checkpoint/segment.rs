//! Segments: a change written down in buckets of keys, and several read as one in bounded memory.
//!
//! A large segment is cut into buckets by key, so that whoever takes over some key groups, or merges segments, reads and holds only
//! those. Segments are read from the newest back: what a newer one speaks for is passed over in older ones, so every row is
//! looked at once and none is moved twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;

use super::change::{Change, KeySpan, KeyedTables, Keys, joined, retain, retain_rows};
use super::data_file::{DataWriter, decode_keys, decode_table, read_piece};
use super::deal::{Deal, joined_rows};
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
    let mut segment = SegmentWriter::new(checkpoint, &change.whole);
    let gone = in_order(change.gone.clone());
    let count = change
        .size_bytes()
        .div_ceil(writer.sizes.bucket_bytes.max(1));
    let count = count.min(bounds.width() as usize);
    if count <= 1 {
        segment.bucket(writer, bounds, &gone, &change.tables)?;
        return Ok(segment.finish());
    }
    let shares = bounds.shares(count);
    let tables = change.tables.iter();
    let deals = tables.map(|(name, batches)| Ok((name, Deal::new(batches, &shares)?)));
    let deals = deals.collect::<Result<Vec<_>>>()?;
    for first in (0..count).step_by(DEALT_BUCKETS) {
        let buckets = first..count.min(first + DEALT_BUCKETS);
        let mut dealt = buckets
            .clone()
            .map(|_| KeyedTables::new())
            .collect::<Vec<_>>();
        for (name, deal) in &deals {
            let rows = deal.rows_of(buckets.clone())?;
            for (tables, rows) in dealt.iter_mut().zip(rows) {
                tables.insert((*name).clone(), rows);
            }
        }
        for (index, tables) in buckets.zip(dealt) {
            let span = shares.span(index);
            segment.bucket(writer, span, keys_in(&gone, span), &tables)?;
        }
    }
    Ok(segment.finish())
}

/// Hashes ascending and each once.
fn in_order(mut hashes: Vec<u64>) -> Vec<u64> {
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// The hashes of a span among some in ascending order.
fn keys_in(keys: &[u64], span: KeySpan) -> &[u64] {
    let start = keys.partition_point(|key| ((key >> 32) as u32) < span.first);
    let end = keys.partition_point(|key| ((key >> 32) as u32) <= span.last);
    &keys[start..end]
}

/// How many buckets are dealt at once: what is dealt is there twice.
const DEALT_BUCKETS: usize = 8;

/// How many buckets' worth of rows are merged at once: about as many become one, for later segments replace most rows.
const MERGED_BUCKETS: usize = 3;

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
        gone: &[u64],
        tables: &KeyedTables,
    ) -> Result<()> {
        let mut bucket = Bucket {
            span,
            gone: None,
            tables: BTreeMap::new(),
        };
        if !gone.is_empty() {
            bucket.gone = Some(writer.keys(gone)?);
        }
        for (name, batches) in tables {
            if batches.iter().any(|batch| batch.num_rows() > 0) {
                bucket.tables.insert(name.clone(), writer.table(batches)?);
            }
        }
        let pieces = bucket.gone.iter().chain(bucket.tables.values());
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
    gone: Vec<u64>,
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
        let mut together = Change::default();
        let mut covered = Keys::within(span);
        for number in (0..self.segments.len()).rev() {
            if covered.spans.iter().any(|covered| covered.covers(span)) {
                break;
            }
            let whole = self.segments[number].whole.clone();
            // Nobody asks what the last one covers.
            let is_last = number == 0 || whole.iter().any(|whole| whole.covers(span));
            let told = self.add_older(number, span, &covered, &mut together, !is_last)?;
            covered.add(&told);
            covered.spans = joined([covered.spans, whole].concat());
        }
        together.whole = covered.spans;
        let inside = |key: &u64| together.whole.iter().any(|span| span.contains(*key));
        together.gone.retain(|key| !inside(key));
        together.tables.retain(|_, batches| !batches.is_empty());
        together.tables.values_mut().for_each(|of| of.reverse());
        Ok(together)
    }

    /// Adds what a segment says that is not covered. Gives the keys of which it says something, if that is asked for.
    fn add_older(
        &mut self,
        number: usize,
        span: KeySpan,
        covered: &Keys,
        together: &mut Change,
        asks_keys: bool,
    ) -> Result<Vec<u64>> {
        let mut told = Vec::new();
        for bucket in (0..self.segments[number].buckets.len()).rev() {
            let of_bucket = self.segments[number].buckets[bucket].span;
            if !of_bucket.overlaps(span) {
                continue;
            }
            let loaded = self.load(number, bucket)?;
            let gone = keys_in(&loaded.gone, span);
            let is_new = covered.others(gone);
            let news = is_new.set_indices().map(|at| gone[at]);
            together.gone.extend(news);
            let inside = span.covers(of_bucket);
            for (name, batches) in &loaded.tables {
                let rows = together.tables.entry(name.clone()).or_default();
                for batch in batches.iter().rev() {
                    let batch = match inside {
                        true => batch.clone(),
                        false => retain(batch, |hash| span.contains(hash))?,
                    };
                    if asks_keys {
                        told.extend_from_slice(key_hashes_of(&batch));
                    }
                    let batch = match covered.is_empty() {
                        true => batch,
                        false => retain_rows(&batch, covered.others(key_hashes_of(&batch)))?,
                    };
                    rows.extend((batch.num_rows() > 0).then_some(batch));
                }
            }
            told.extend_from_slice(if asks_keys { gone } else { &[] });
        }
        Ok(told)
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
        let gone = match &pieces.gone {
            Some(piece) => decode_keys(&self.bytes(piece)?),
            None => Vec::new(),
        };
        let loaded = Arc::new(Loaded { gone, tables });
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
            .div_ceil(MERGED_BUCKETS * writer.sizes.bucket_bytes.max(1))
            .max(1);
        for index in 0..count {
            if stopped() {
                return Err(Error::internal(
                    "the job has ended while its checkpoints were merged",
                ));
            }
            let span = KeySpan::ALL.share(index, count);
            let change = self.read(span)?;
            let tables = change.tables.iter();
            let tables = tables.map(|(name, batches)| Ok((name.clone(), joined_rows(batches)?)));
            let tables = tables.collect::<Result<_>>()?;
            merged.bucket(writer, span, &in_order(change.gone), &tables)?;
        }
        Ok(merged.finish())
    }
}
