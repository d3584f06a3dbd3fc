//! A snapshot that is being copied: groups as they were at a barrier that has passed.
//!
//! At the barrier only the set of groups is fixed, so that rows need not wait. A group of the set is copied before a batch changes it;
//! the others are copied a few at a time between batches.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

/// See the file.
pub(super) struct Frozen {
    /// A bit a group: still to be copied.
    bits: Vec<u64>,
    /// The word from which on to look for some.
    next: usize,
    pub(super) schema: SchemaRef,
    /// What was copied and not given.
    pub(super) batches: Vec<RecordBatch>,
    /// The hashes of keys without a state, not given.
    pub(super) gone: Vec<u64>,
}

impl Frozen {
    /// The groups whose bits are set.
    pub(super) fn new(bits: Vec<u64>, schema: SchemaRef) -> Self {
        Frozen {
            bits,
            next: 0,
            schema,
            batches: Vec::new(),
            gone: Vec::new(),
        }
    }

    /// Those of some groups that are still to be copied, each once.
    pub(super) fn take_among(&mut self, groups: &[u32]) -> Vec<u32> {
        let mut taken = Vec::new();
        for group in groups {
            let Some(word) = self.bits.get_mut(*group as usize / 64) else {
                continue;
            };
            let bit = 1 << (group % 64);
            if *word & bit != 0 {
                *word &= !bit;
                taken.push(*group);
            }
        }
        taken
    }

    /// So many groups that are still to be copied, if there are; ascending.
    pub(super) fn take_some(&mut self, most: usize) -> Vec<u32> {
        let mut taken = Vec::new();
        while taken.len() < most && self.next < self.bits.len() {
            let word = std::mem::take(&mut self.bits[self.next]);
            add_set(self.next, word, &mut taken);
            self.next += 1;
        }
        for group in taken.drain(most.min(taken.len())..) {
            self.next = group as usize / 64;
            self.bits[self.next] |= 1 << (group % 64);
        }
        taken
    }

    /// Whether nothing is left to be copied or given.
    pub(super) fn is_over(&self) -> bool {
        self.next >= self.bits.len() && self.batches.is_empty() && self.gone.is_empty()
    }

    pub(super) fn size_bytes(&self) -> usize {
        let batches = self.batches.iter();
        let copied: usize = batches.map(RecordBatch::get_array_memory_size).sum();
        copied + (self.bits.capacity() + self.gone.capacity()) * 8
    }
}

/// The numbers of the bits that are set, ascending.
pub(super) fn set_in(bits: &[u64]) -> Vec<u32> {
    let mut set = Vec::new();
    let words = bits.iter().enumerate();
    words.for_each(|(number, word)| add_set(number, *word, &mut set));
    set
}

fn add_set(number: usize, word: u64, set: &mut Vec<u32>) {
    let mut rest = word;
    while rest != 0 {
        set.push(number as u32 * 64 + rest.trailing_zeros());
        rest &= rest - 1;
    }
}
