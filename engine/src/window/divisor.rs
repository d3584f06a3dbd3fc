//! Division by a number known only at run time but the same for every row: a multiplication and a shift.

/// A divisor with its reciprocal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Divisor {
    value: i64,
    /// `floor((2^64 - 1) / value)`.
    reciprocal: u64,
    /// A multiple of the divisor that makes every dividend within `range` positive.
    bias: i64,
    /// Dividends up to this distance from 0 take the fast way.
    range: i64,
}

impl Divisor {
    /// `value` must be positive.
    pub(super) fn new(value: i64) -> Self {
        assert!(value > 0, "a length of time to divide by is positive");
        let range = if value < 1 << 60 { 1 << 60 } else { 0 };
        let bias = value * (range / value + 1);
        Divisor {
            value,
            reciprocal: u64::MAX / value as u64,
            bias,
            range,
        }
    }

    pub(super) fn value(&self) -> i64 {
        self.value
    }

    /// The greatest multiple of the divisor that is not above `dividend`.
    #[inline]
    pub(super) fn floor(&self, dividend: i64) -> i64 {
        if !(-self.range..self.range).contains(&dividend) {
            return dividend.saturating_sub(dividend.rem_euclid(self.value));
        }
        // Between 0 and 2^62, where the estimate is the quotient or one less.
        let positive = (dividend + self.bias) as u64;
        let estimate = ((positive as u128 * self.reciprocal as u128) >> 64) as u64;
        let rest = positive - estimate * self.value as u64;
        let rest = if rest >= self.value as u64 {
            rest - self.value as u64
        } else {
            rest
        };
        dividend - rest as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_plain_division() {
        let sizes = [
            1,
            2,
            3,
            7,
            1000,
            10_000,
            86_400_000,
            (1 << 40) + 1,
            1 << 59,
            i64::MAX,
        ];
        let around = [
            0,
            1,
            1000,
            86_400_000,
            1 << 50,
            1 << 60,
            i64::MAX - 2,
            i64::MIN + 3,
        ];
        for size in sizes {
            let divisor = Divisor::new(size);
            for dividend in around
                .iter()
                .flat_map(|at| (-3i64..=3).map(|step| at.saturating_add(step)))
                .flat_map(|at| [at, at.saturating_neg()])
            {
                let expected = dividend.saturating_sub(dividend.rem_euclid(size));
                assert_eq!(divisor.floor(dividend), expected, "{dividend} by {size}");
            }
        }
    }
}
