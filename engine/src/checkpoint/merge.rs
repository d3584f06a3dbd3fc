//! Which segments are merged, and when: so that reading stays short and what is written stays in proportion to what changed.
//!
//! All of them once the later ones outweigh the base by far; a run of the youngest, as in an LSM tree, once there are many. The merge
//! itself may run anywhere while checkpoints go on: it only reads files that do not change, and is laid in afterwards.

use std::collections::BTreeMap;
use std::ops::Range;

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

/// How many times as much as the base may lie above it. More is written less often, and takes more room and longer to restore;
/// RocksDB's universal compaction draws the same line (a size amplification of 200 percent).
const MOST_ABOVE_BASE: u64 = 2;

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

/// Which of an operator's segments should be merged now.
pub(super) fn due(segments: &[Segment]) -> Option<Range<usize>> {
    let (base, later) = segments.split_first()?;
    let sum = |segments: &[Segment]| -> u64 { segments.iter().map(|segment| segment.bytes).sum() };
    if !later.is_empty() && sum(later) > MOST_ABOVE_BASE * base.bytes {
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
    use super::*;
    use crate::stream::CheckpointId;

    fn segments(sizes: &[u64]) -> Vec<Segment> {
        let segment = |bytes: &u64| Segment {
            checkpoint: CheckpointId(1),
            whole: vec![],
            bytes: *bytes,
            buckets: vec![],
        };
        sizes.iter().map(segment).collect()
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
    fn all_are_merged_once_the_later_outweigh_the_base_twice() {
        assert_eq!(due(&segments(&[])), None);
        assert_eq!(due(&segments(&[10, 15, 5])), None);
        assert_eq!(due(&segments(&[10, 15, 6])), Some(0..3));
    }
}
