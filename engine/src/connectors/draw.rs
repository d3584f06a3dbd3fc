//! Random numbers that are a function of (seed, column, row number), so that any row can be made alone.
//!
//! A generator that carries state must be replayed from its beginning to resume; one that hashes the row's number need
//! not. Each cell starts a short sequence of its own (a counter whose steps are multiplied and folded), and which other columns are made
//! never changes it.

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The random numbers of one cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draw(u64);

/// The random numbers of one column: draws for any row number.
#[derive(Debug, Clone, Copy)]
pub(super) struct ColumnDraws(u64);

impl ColumnDraws {
    /// The column of a table with this seed; columns differ in `salt`.
    pub(super) const fn new(seed: u64, salt: u64) -> Self {
        ColumnDraws(mix(seed ^ mix(salt.wrapping_add(GAMMA))))
    }

    /// The numbers of one row's cell.
    #[inline]
    pub(super) fn row(self, number: u64) -> Draw {
        Draw(mix(self.0 ^ number.wrapping_mul(GAMMA)))
    }
}

impl Draw {
    /// 64 random bits.
    #[inline]
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        let product = self.0 as u128 * (self.0 ^ 0xe703_7ed1_a0b4_28db) as u128;
        (product >> 64) as u64 ^ product as u64
    }

    /// A whole number from 0 to `bound - 1`; `bound` is at least 1.
    #[inline]
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((self.bits() as u128 * bound as u128) >> 64) as u64
    }

    /// A number of `[0, 1)`.
    #[inline]
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True once in `n` times.
    #[inline]
    pub(super) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Appends lower-case letters.
    #[inline]
    pub(super) fn letters(&mut self, length: usize, out: &mut Vec<u8>) {
        // Whole blocks are written and what is too much is cut off again.
        let end = out.len() + length;
        while out.len() < end {
            let mut block = [0; 32];
            for word in block.chunks_exact_mut(8) {
                word.copy_from_slice(&letters8(self.bits()).to_le_bytes());
            }
            out.extend_from_slice(&block);
        }
        out.truncate(end);
    }
}

/// Eight letters from eight random bytes, each `b'a' + byte * 26 / 256`: two products, of the even and of the odd bytes, whose
/// sixteen-bit lanes do not touch.
#[inline]
fn letters8(bits: u64) -> u64 {
    const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
    let even = (((bits & EVEN) * 26) >> 8) & EVEN;
    let odd = (((bits >> 8) & EVEN) * 26) & !EVEN;
    (even | odd) + 0x6161_6161_6161_6161
}

#[inline]
const fn mix(value: u64) -> u64 {
    let mut z = value;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_rows_share_nothing_and_repeat_exactly() {
        let column = ColumnDraws::new(7, 1);
        let first: Vec<u64> = (0..4).map(|_| column.row(10).bits()).collect();
        assert!(first.iter().all(|bits| *bits == first[0]));
        let mut seen: Vec<u64> = (0..1000)
            .flat_map(|row| {
                let mut draw = column.row(row);
                [draw.bits(), draw.bits(), draw.bits()]
            })
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 3000);
        assert_ne!(ColumnDraws::new(7, 2).row(10).bits(), first[0]);
    }

    #[test]
    fn letters_are_each_bytes_share_of_the_alphabet() {
        let column = ColumnDraws::new(1, 1);
        for row in 0..1000 {
            let bits = column.row(row).bits();
            let expected = bits
                .to_le_bytes()
                .map(|byte| b'a' + (byte as u32 * 26 / 256) as u8);
            assert_eq!(letters8(bits).to_le_bytes(), expected);
        }
        let mut text = Vec::new();
        column.row(0).letters(70, &mut text);
        assert!(text.len() == 70 && text.iter().all(u8::is_ascii_lowercase));
    }

    #[test]
    fn a_bound_is_kept_and_filled_evenly() {
        let column = ColumnDraws::new(1, 1);
        let mut counts = [0; 7];
        (0..70_000).for_each(|row| counts[column.row(row).below(7) as usize] += 1);
        assert!(
            counts.iter().all(|count| (9_500..10_500).contains(count)),
            "{counts:?}"
        );
    }
}
