//! Random numbers that are a function of (seed, column, row number), so that any row can be made alone.
//!
//! A generator that carries state must be replayed from its beginning to resume; one that hashes the row's number need
//! not. Each cell starts a short SplitMix64 sequence of its own, and which other columns are made never changes it.

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
        mix(self.0)
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

    /// Appends lower-case letters, eight a step.
    #[inline]
    pub(super) fn letters(&mut self, length: usize, out: &mut Vec<u8>) {
        let mut left = length;
        while left >= 8 {
            out.extend_from_slice(&letters8(self.bits()));
            left -= 8;
        }
        out.extend_from_slice(&letters8(self.bits())[..left]);
    }
}

/// Eight letters of eight random bytes.
#[inline]
fn letters8(bits: u64) -> [u8; 8] {
    bits.to_le_bytes()
        .map(|byte| b'a' + ((byte as u16 * 26) >> 8) as u8)
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
