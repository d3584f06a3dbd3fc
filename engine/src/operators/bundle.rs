//! How many rows make a bundle of mini-batch: counted exactly, whatever the physical batches are.
//!
//! An operator that holds a bundle folds each part of a batch and emits where a part ends the bundle; it also emits, and calls
//! [`Bundle::close`], before it passes a watermark on and in `flush_bundle` (before a barrier, at the end, behind an idle
//! input).

/// Counts the rows of the bundle that is open.
#[derive(Debug, Clone)]
pub struct Bundle {
    size: usize,
    rows: usize,
}

/// Rows of a batch that belong to one bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BundlePart {
    /// The first of them.
    pub offset: usize,
    /// Their number, at least one.
    pub length: usize,
    /// Whether the bundle is full with them: emit what it changed.
    pub ends: bool,
}

impl Bundle {
    /// Bundles of `size` rows, at least one.
    pub fn new(size: usize) -> Self {
        Bundle {
            size: size.max(1),
            rows: 0,
        }
    }

    /// Adds the rows of a batch: the parts of it that belong to the open bundle and to those behind it. After a part that ends
    /// its bundle counting begins anew.
    pub fn parts(&mut self, rows: usize) -> Vec<BundlePart> {
        let mut parts = Vec::with_capacity(rows / self.size + 1);
        let mut offset = 0;
        while offset < rows {
            let length = (rows - offset).min(self.size - self.rows);
            self.rows += length;
            let ends = self.rows == self.size;
            if ends {
                self.rows = 0;
            }
            parts.push(BundlePart {
                offset,
                length,
                ends,
            });
            offset += length;
        }
        parts
    }

    /// Whether no row waits.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The bundle was emitted before it was full.
    pub fn close(&mut self) {
        self.rows = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_ends_after_its_size_whatever_the_batches_are() {
        let mut bundle = Bundle::new(3);
        let ends = |parts: Vec<BundlePart>| -> Vec<(usize, usize, bool)> {
            let parts = parts.into_iter();
            parts
                .map(|part| (part.offset, part.length, part.ends))
                .collect()
        };
        assert_eq!(ends(bundle.parts(2)), [(0, 2, false)]);
        assert_eq!(
            ends(bundle.parts(5)),
            [(0, 1, true), (1, 3, true), (4, 1, false)]
        );
        assert!(!bundle.is_empty());
        bundle.close();
        assert_eq!(ends(bundle.parts(3)), [(0, 3, true)]);
        assert!(bundle.is_empty() && bundle.parts(0).is_empty());
    }
}
