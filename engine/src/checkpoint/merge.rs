//! Which segments are merged, and when: so that reading stays short and what is written stays in proportion to what changed.
//!
//! All of them once what changed outweighs by far what tells of keys as a whole; a run of the youngest, as in an LSM tree, once there are many. The
//! merge itself may run anywhere while checkpoints go on: it only reads files that do not change, and is laid in afterwards. An operator
//! that tells all its keys anew soon enough spares it: what its segments replace as a whole is left out.

use std::collections::BTreeMap;
use std::ops::Range;

use super::change::{KeySpan, joined};
use super::data_file::{DataWriter, FileSizes};
use super::manifest::Segment;
use super::segment::SegmentsReader;
use crate::blobs::BlobStore;
use crate::error::Result;

/// The most segments that are read as one.
pub(super) const MOST_SEGMENTS: usize = 16;

/// Segments of one operator that are to become one.
#[derive(Debug, Clone)]
pub struct MergePlan {
    pub(super) uid: String,
    pub(super) segments: Vec<Segment>,
    /// What the names of the new files begin with.
    pub(super) prefix: String,
    pub(super) sizes: FileSizes,
}

/// How many times as much as the base may lie above it. More is merged less often, and takes more room and longer to restore;
/// RocksDB's universal compaction draws the line at two (a size amplification of 200 percent), where operators that can tell all anew do so.
const MOST_ABOVE_BASE: u64 = 3;

/// A merge that is done.
#[derive(Debug)]
pub struct Merged {
    pub(super) plan: MergePlan,
    pub(super) segment: Segment,
    /// The files that were written, with their lengths; of no use are those that the segment does not name.
    pub(super) files: BTreeMap<String, u64>,
}

impl MergePlan {
    /// Merges, a bucket of keys at a time, unless told to stop.
    pub fn run(self, blobs: &dyn BlobStore, stopped: &dyn Fn() -> bool) -> Result<Merged> {
        let (segment, files) = merge(blobs, &self.segments, &self.prefix, self.sizes, stopped)?;
        Ok(Merged {
            plan: self,
            segment,
            files,
        })
    }
}

/// One segment for some (at least one), and the files written for it.
pub(super) fn merge(
    blobs: &dyn BlobStore,
    segments: &[Segment],
    prefix: &str,
    sizes: FileSizes,
    stopped: &dyn Fn() -> bool,
) -> Result<(Segment, BTreeMap<String, u64>)> {
    let mut segments = segments.to_vec();
    let mut files = BTreeMap::new();
    let mut step = 0;
    loop {
        let mut merged = Vec::new();
        for run in segments.chunks(MOST_SEGMENTS) {
            let mut writer = DataWriter::new(blobs, format!("{prefix}-{step}"), sizes);
            merged.push(SegmentsReader::new(blobs, run).merge_into(&mut writer, stopped)?);
            files.extend(writer.finish()?);
            step += 1;
        }
        segments = merged;
        if segments.len() == 1 {
            return Ok((segments.remove(0), files));
        }
    }
}

/// The segments of an operator, oldest first, without what later ones speak for as a whole.
pub(super) fn without_replaced(segments: Vec<Segment>) -> Vec<Segment> {
    let mut replaced: Vec<KeySpan> = Vec::new();
    let mut kept = Vec::new();
    for mut segment in segments.into_iter().rev() {
        let is_replaced = |span: &KeySpan| replaced.iter().any(|later| later.covers(*span));
        let buckets = segment.buckets.len();
        segment.buckets.retain(|bucket| !is_replaced(&bucket.span));
        segment.whole.retain(|span| !is_replaced(span));
        if segment.buckets.len() < buckets {
            segment.bytes = segment.pieces().map(|piece| piece.bytes).sum();
        }
        replaced = joined([replaced, segment.whole.clone()].concat());
        if segment.speaks() {
            kept.push(segment);
        }
    }
    // Nothing stands below what is the oldest now.
    if let Some(oldest) = kept.last_mut() {
        oldest.whole = vec![KeySpan::ALL];
    }
    kept.reverse();
    kept
}

/// Which of an operator's segments should be merged now.
pub(super) fn due(segments: &[Segment]) -> Option<Range<usize>> {
    let sum = |segments: &[Segment]| -> u64 { segments.iter().map(|segment| segment.bytes).sum() };
    let base: u64 = segments.iter().map(Segment::base_bytes).sum();
    if segments.len() > 1 && sum(segments) - base > MOST_ABOVE_BASE * base {
        return Some(0..segments.len());
    }
    if segments.len() <= MOST_SEGMENTS {
        return None;
    }
    // The youngest two, and whatever before them is not larger than all behind it: each byte is merged a few times, as often as
    // the logarithm of what changed since the base was written.
    let mut start = segments.len() - 2;
    while start > 1 && segments[start - 1].bytes <= sum(&segments[start..]) {
        start -= 1;
    }
    Some(start..segments.len())
}

#[cfg(test)]
mod tests {
    use super::super::manifest::{Bucket, Piece};
    use super::*;
    use crate::stream::CheckpointId;

    /// A base and changes of these sizes.
    fn segments(sizes: &[u64]) -> Vec<Segment> {
        let segment = |(at, bytes): (usize, &u64)| Segment {
            checkpoint: CheckpointId(1),
            whole: if at == 0 { vec![KeySpan::ALL] } else { vec![] },
            bytes: *bytes,
            buckets: vec![],
        };
        sizes.iter().enumerate().map(segment).collect()
    }

    #[test]
    fn what_is_written_stays_in_proportion_to_what_changed() {
        let (mut sizes, mut written) = (vec![10_000u64], 0u64);
        let checkpoints = 3000;
        for _ in 0..checkpoints {
            sizes.push(10);
            if let Some(run) = due(&segments(&sizes)) {
                // Nothing is replaced twice: the worst case.
                let merged: u64 = sizes[run.clone()].iter().sum();
                written += merged;
                sizes.splice(run, [merged]);
            }
            assert!(sizes.len() <= MOST_SEGMENTS, "{sizes:?}");
        }
        let changed = checkpoints * 10;
        assert!(written < 5 * changed, "{written} of {changed}");
    }

    #[test]
    fn all_are_merged_once_the_later_outweigh_the_base_three_times() {
        assert_eq!(due(&segments(&[])), None);
        assert_eq!(due(&segments(&[10])), None);
        assert_eq!(due(&segments(&[10, 15, 15])), None);
        assert_eq!(due(&segments(&[10, 15, 16])), Some(0..3));
    }

    /// A segment of some sixteenths of all keys, ten bytes each, some of which it speaks for as a whole.
    fn segment(checkpoint: u64, of: Range<usize>, whole: Vec<KeySpan>) -> Segment {
        let piece = |span: KeySpan| Piece {
            file: format!("{checkpoint}-{}", span.first),
            offset: 0,
            bytes: 10,
            checksum: String::new(),
            rows: 1,
        };
        let bucket = |at: usize| {
            let span = KeySpan::ALL.share(at, 16);
            Bucket {
                span,
                gone: None,
                tables: [("t".to_string(), piece(span))].into(),
            }
        };
        Segment {
            checkpoint: CheckpointId(checkpoint),
            whole,
            bytes: 10 * of.len() as u64,
            buckets: of.map(bucket).collect(),
        }
    }

    #[test]
    fn what_later_segments_speak_for_as_a_whole_is_left_out() {
        let half = |at| KeySpan::ALL.share(at, 2);
        let summary = |segments: &[Segment]| -> Vec<(u64, usize, u64, Vec<KeySpan>)> {
            let of = |it: &Segment| {
                (
                    it.checkpoint.0,
                    it.buckets.len(),
                    it.bytes,
                    it.whole.clone(),
                )
            };
            segments.iter().map(of).collect()
        };
        let first = vec![
            segment(1, 0..16, vec![KeySpan::ALL]),
            segment(2, 3..12, vec![]),
            // One instance told all its keys, the other one changes.
            segment(3, 0..10, vec![half(0)]),
        ];
        let kept = without_replaced(first);
        let all = vec![KeySpan::ALL];
        let expected = [
            (1, 8, 80, all.clone()),
            (2, 4, 40, vec![]),
            (3, 10, 100, vec![half(0)]),
        ];
        assert_eq!(summary(&kept), expected);
        // 80 of the first and 80 of the third tell of keys as a whole, 60 are changes.
        let base: u64 = kept.iter().map(Segment::base_bytes).sum();
        assert_eq!(base, 160);
        let next = [kept, vec![segment(4, 8..16, vec![half(1)])]].concat();
        let kept = without_replaced(next);
        let expected = [(3, 8, 80, all.clone()), (4, 8, 80, vec![half(1)])];
        assert_eq!(summary(&kept), expected);
        let next = [kept, vec![segment(5, 0..16, all.clone())]].concat();
        assert_eq!(summary(&without_replaced(next)), [(5, 16, 160, all)]);
    }
}
