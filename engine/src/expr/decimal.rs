//! DECIMAL arithmetic on unscaled 128-bit integers with Flink's result types: rounding HALF_UP, NULL on overflow.
//!
//! Nearly all values take the fast path in 128 bits; the rest goes through 256 bits.

use arrow::datatypes::i256;

/// The most digits of a DECIMAL.
pub(crate) const MAX_PRECISION: u8 = 38;

/// 10 to the power of `exponent`, at most 38.
#[inline]
pub(crate) fn power_of_ten(exponent: u8) -> i128 {
    POWERS[exponent as usize]
}

const POWERS: [i128; 39] = {
    let mut powers = [1_i128; 39];
    let mut exponent = 1;
    while exponent < 39 {
        powers[exponent] = powers[exponent - 1] * 10;
        exponent += 1;
    }
    powers
};

/// The value where it has at most `precision` digits.
#[inline]
pub(crate) fn fit(unscaled: i128, precision: u8) -> Option<i128> {
    let bound = power_of_ten(precision);
    (unscaled < bound && unscaled > -bound).then_some(unscaled)
}

/// `value` times 10 to the power of `digits`; `None` where 128 bits do not hold it.
#[inline]
pub(crate) fn scale_up(value: i128, digits: u8) -> Option<i128> {
    if digits == 0 {
        return Some(value);
    }
    // The product of two 64-bit numbers always fits; checked 128-bit products are slow.
    if digits <= 18 && i64::try_from(value).is_ok() {
        return Some(value * power_of_ten(digits));
    }
    value.checked_mul(power_of_ten(digits))
}

/// A value of scale `from` as DECIMAL(precision, to): rounded half up (away from zero), `None` where it does not fit.
#[inline]
pub(crate) fn rescale(unscaled: i128, from: u8, precision: u8, to: u8) -> Option<i128> {
    if to >= from {
        return fit(scale_up(unscaled, to - from)?, precision);
    }
    fit(divide_half_up(unscaled, power_of_ten(from - to)), precision)
}

/// `value / divisor` rounded half up (away from zero).
#[inline]
fn divide_half_up(value: i128, divisor: i128) -> i128 {
    if let (Ok(value), Ok(divisor)) = (i64::try_from(value), i64::try_from(divisor)) {
        // 64-bit division is several times faster.
        let (quotient, remainder) = (
            value.wrapping_div(divisor) as i128,
            value.wrapping_rem(divisor),
        );
        if value != i64::MIN {
            return quotient + rounding(remainder as i128, divisor as i128, value < 0);
        }
    }
    value / divisor + rounding(value % divisor, divisor, value < 0)
}

/// What is added to a quotient that was cut, given the remainder.
#[inline]
fn rounding(remainder: i128, divisor: i128, is_negative: bool) -> i128 {
    if remainder.abs() < divisor.abs() - remainder.abs() {
        0
    } else if is_negative != (divisor < 0) {
        -1
    } else {
        1
    }
}

/// `left + right` as DECIMAL(precision, scale); the operands have the scales `s1` and `s2`.
#[inline]
pub(crate) fn add(
    left: i128,
    s1: u8,
    right: i128,
    s2: u8,
    precision: u8,
    scale: u8,
) -> Option<i128> {
    let common = s1.max(s2);
    let fast = scale_up(left, common - s1)
        .zip(scale_up(right, common - s2))
        .and_then(|(left, right)| left.checked_add(right));
    match fast {
        Some(sum) => rescale(sum, common, precision, scale),
        None => {
            let wide = |value: i128, s: u8| {
                i256::from_i128(value).checked_mul(i256::from_i128(power_of_ten(common - s)))
            };
            let sum = wide(left, s1)?.checked_add(wide(right, s2)?)?;
            rescale_wide(sum, common, precision, scale)
        }
    }
}

/// `left * right` as DECIMAL(precision, scale).
#[inline]
pub(crate) fn multiply(
    left: i128,
    s1: u8,
    right: i128,
    s2: u8,
    precision: u8,
    scale: u8,
) -> Option<i128> {
    let is_small = i64::try_from(left).is_ok() && i64::try_from(right).is_ok();
    let product = if is_small {
        Some(left * right)
    } else {
        left.checked_mul(right)
    };
    match product {
        Some(product) if s1 + s2 <= MAX_PRECISION => rescale(product, s1 + s2, precision, scale),
        _ => {
            let product = i256::from_i128(left).checked_mul(i256::from_i128(right))?;
            rescale_wide(product, s1 + s2, precision, scale)
        }
    }
}

/// `left / right` as DECIMAL(precision, scale), computed to 34 digits (half even) and then rounded half up, as Flink does.
/// `right` is not 0.
#[inline]
pub(crate) fn divide(
    left: i128,
    s1: u8,
    right: i128,
    s2: u8,
    precision: u8,
    scale: u8,
) -> Option<i128> {
    let shift = scale as i32 + s2 as i32 - s1 as i32;
    // A quotient of few digits cannot lie so close to a tie that the first rounding to 34 digits moves it there.
    let is_short = right.unsigned_abs() < 1_000_000_000_000_000 && (0..=38).contains(&shift);
    if is_short
        && let Some(numerator) = left.checked_mul(power_of_ten(shift as u8))
        && numerator.unsigned_abs() / right.unsigned_abs() < 1_000_000_000_000_000_000
    {
        return fit(divide_half_up(numerator, right), precision);
    }
    divide_exactly(left, right, s2 as i32 - s1 as i32, precision, scale)
}

/// Long division: the first 34 significant digits, half even, then half up to the scale.
fn divide_exactly(
    left: i128,
    right: i128,
    exponent: i32,
    precision: u8,
    scale: u8,
) -> Option<i128> {
    if left == 0 {
        return Some(0);
    }
    let is_negative = (left < 0) != (right < 0);
    let ten = i256::from_i128(10);
    let divisor = i256::from_i128(right).wrapping_abs();
    let numerator = i256::from_i128(left).wrapping_abs();
    let mut quotient = numerator.wrapping_div(divisor);
    let mut remainder = numerator.wrapping_rem(divisor);
    // The value is quotient × 10^-places × 10^exponent.
    let mut places = 0_i32;
    let limit = i256::from_i128(power_of_ten(34));
    while quotient < limit && remainder != i256::ZERO {
        remainder = remainder.wrapping_mul(ten);
        quotient = quotient
            .wrapping_mul(ten)
            .wrapping_add(remainder.wrapping_div(divisor));
        remainder = remainder.wrapping_rem(divisor);
        places += 1;
    }
    let mut is_inexact = remainder != i256::ZERO;
    while quotient >= limit {
        let digit = quotient.wrapping_rem(ten).as_i128();
        let shorter = quotient.wrapping_div(ten);
        if shorter >= limit {
            is_inexact |= digit != 0;
            quotient = shorter;
        } else {
            let is_odd = shorter.wrapping_rem(i256::from_i128(2)) != i256::ZERO;
            let up = digit > 5 || (digit == 5 && (is_inexact || is_odd));
            quotient = shorter.wrapping_add(i256::from_i128(i128::from(up)));
        }
        places -= 1;
    }
    let unscaled = quotient.to_i128()?;
    let unscaled = if is_negative { -unscaled } else { unscaled };
    let has = places - exponent;
    let wanted = scale as i32;
    if has <= wanted {
        let factor = u8::try_from(wanted - has)
            .ok()
            .filter(|digits| *digits <= 38);
        return match factor {
            Some(digits) => fit(unscaled.checked_mul(power_of_ten(digits))?, precision),
            None => None,
        };
    }
    match u8::try_from(has - wanted)
        .ok()
        .filter(|digits| *digits <= 38)
    {
        Some(digits) => fit(divide_half_up(unscaled, power_of_ten(digits)), precision),
        None => Some(0),
    }
}

/// The remainder with the sign of `left`, as DECIMAL(precision, scale). `right` is not 0.
pub(crate) fn remainder(
    left: i128,
    s1: u8,
    right: i128,
    s2: u8,
    precision: u8,
    scale: u8,
) -> Option<i128> {
    let common = s1.max(s2);
    let wide = |value: i128, s: u8| {
        i256::from_i128(value).wrapping_mul(i256::from_i128(power_of_ten(common - s)))
    };
    let rest = wide(left, s1).wrapping_rem(wide(right, s2));
    rescale_wide(rest, common, precision, scale)
}

fn rescale_wide(value: i256, from: u8, precision: u8, to: u8) -> Option<i128> {
    if to >= from {
        let factor = i256::from_i128(power_of_ten(to - from));
        return fit(value.checked_mul(factor)?.to_i128()?, precision);
    }
    let mut digits = from - to;
    let mut divisor = i256::ONE;
    while digits > 0 {
        let step = digits.min(MAX_PRECISION);
        divisor = divisor.checked_mul(i256::from_i128(power_of_ten(step)))?;
        digits -= step;
    }
    let quotient = value.wrapping_div(divisor);
    let remainder = value.wrapping_rem(divisor).wrapping_abs();
    let up = remainder >= divisor.wrapping_sub(remainder);
    let one = i256::from_i128(if value < i256::ZERO { -1 } else { 1 });
    let rounded = if up {
        quotient.wrapping_add(one)
    } else {
        quotient
    };
    fit(rounded.to_i128()?, precision)
}

/// Compares two values of different scales.
#[inline]
pub(crate) fn compare(left: i128, s1: u8, right: i128, s2: u8) -> std::cmp::Ordering {
    let common = s1.max(s2);
    if let (Some(left), Some(right)) = (scale_up(left, common - s1), scale_up(right, common - s2)) {
        return left.cmp(&right);
    }
    let wide = |value: i128, s: u8| {
        i256::from_i128(value).wrapping_mul(i256::from_i128(power_of_ten(common - s)))
    };
    wide(left, s1).cmp(&wide(right, s2))
}

/// The double nearest to a value.
pub(crate) fn to_double(unscaled: i128, scale: u8) -> f64 {
    const EXACT: u128 = 1 << 53;
    if unscaled.unsigned_abs() <= EXACT && scale <= 22 {
        return unscaled as f64 / 10_f64.powi(scale as i32);
    }
    format!("{unscaled}e-{scale}")
        .parse()
        .expect("digits and an exponent are a number")
}

/// The digits of a value with its point.
pub(crate) fn write(out: &mut impl std::fmt::Write, unscaled: i128, scale: u8) {
    let digits = unscaled.unsigned_abs();
    let sign = if unscaled < 0 { "-" } else { "" };
    let _ = match scale {
        0 => write!(out, "{unscaled}"),
        _ => {
            let unit = power_of_ten(scale) as u128;
            write!(
                out,
                "{sign}{}.{:0width$}",
                digits / unit,
                digits % unit,
                width = scale as usize
            )
        }
    };
}

/// What a text of digits, point and exponent is as DECIMAL(precision, scale).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// The unscaled value.
    Value(i128),
    /// A number with too many digits before the point.
    Overflow,
    /// No number.
    NotANumber,
}

/// Reads a number as Java's `BigDecimal` does and rounds it half up.
pub(crate) fn parse(text: &str, precision: u8, scale: u8) -> Parsed {
    let Some((is_negative, digits, exponent)) = split_number(text) else {
        return Parsed::NotANumber;
    };
    match round_digits(&digits, exponent, precision, scale) {
        Some(value) => Parsed::Value(if is_negative { -value } else { value }),
        None => Parsed::Overflow,
    }
}

/// Sign, significant digits, and the power of ten by which they are multiplied.
fn split_number(text: &str) -> Option<(bool, Vec<u8>, i64)> {
    let (is_negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], rest[at + 1..].parse::<i32>().ok()? as i64),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = || whole.bytes().chain(fraction.bytes());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits().all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    let digits: Vec<u8> = all_digits()
        .map(|byte| byte - b'0')
        .skip_while(|digit| *digit == 0)
        .collect();
    Some((is_negative, digits, exponent - fraction.len() as i64))
}

fn round_digits(digits: &[u8], exponent: i64, precision: u8, scale: u8) -> Option<i128> {
    if digits.is_empty() {
        return Some(0);
    }
    // How many of the digits are before the last place of the result.
    let kept = digits.len() as i64 + exponent + scale as i64;
    if kept > MAX_PRECISION as i64 {
        return None;
    }
    if kept < 0 {
        return Some(0);
    }
    let kept = kept as usize;
    let mut value = 0_i128;
    for place in 0..kept {
        value = value * 10 + digits.get(place).copied().unwrap_or(0) as i128;
    }
    let up = digits.get(kept).is_some_and(|digit| *digit >= 5);
    fit(value + i128::from(up), precision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_half_up_away_from_zero() {
        assert_eq!(rescale(999_995, 3, 5, 2), None);
        assert_eq!(rescale(999_994, 3, 5, 2), Some(99_999));
        assert_eq!(rescale(-1_005, 3, 5, 2), Some(-101));
        assert_eq!(rescale(i128::MAX, 0, 38, 3), None);
    }

    #[test]
    fn division_has_the_digits_of_the_result_type() {
        assert_eq!(divide(100, 2, 300, 2, 9, 6), Some(333_333));
        assert_eq!(divide(200, 2, 300, 2, 9, 6), Some(666_667));
        assert_eq!(divide(-200, 2, 300, 2, 9, 6), Some(-666_667));
        let nines = power_of_ten(38) - 1;
        assert_eq!(
            divide(nines, 0, 1, 0, 38, 6),
            None,
            "38 digits and six more"
        );
        assert_eq!(divide(1, 0, nines, 0, 38, 37), Some(0));
        assert_eq!(divide(nines, 37, 7, 0, 38, 6), Some(1_428_571));
    }

    #[test]
    fn short_and_long_division_agree() {
        for (left, right) in [(1, 3), (22, 7), (-355, 113), (1_000_000, 999_999), (5, 8)] {
            assert_eq!(
                divide(left, 2, right, 1, 20, 6),
                divide_exactly(left, right, 1 - 2, 20, 6),
                "{left} / {right}"
            );
        }
    }

    #[test]
    fn products_and_sums_beyond_128_bits_are_rounded_or_none() {
        let big = power_of_ten(37);
        assert_eq!(multiply(big, 20, big, 20, 38, 6), None);
        assert_eq!(multiply(big, 30, 10, 1, 38, 6), Some(power_of_ten(13)));
        assert_eq!(add(big, 37, big, 0, 38, 6), None);
        assert_eq!(remainder(-75, 1, 2, 0, 2, 1), Some(-15));
    }

    #[test]
    fn texts_are_numbers_or_not() {
        assert_eq!(parse("12.345", 5, 2), Parsed::Value(1_235));
        assert_eq!(parse("-0.005", 5, 2), Parsed::Value(-1));
        assert_eq!(parse("1e2", 5, 2), Parsed::Value(10_000));
        assert_eq!(parse("1234", 5, 2), Parsed::Overflow);
        assert_eq!(parse("1.2.3", 5, 2), Parsed::NotANumber);
        assert_eq!(parse("", 5, 2), Parsed::NotANumber);
        assert_eq!(parse("1e999999", 5, 2), Parsed::Overflow);
        assert_eq!(parse("1e-999999", 5, 2), Parsed::Value(0));
    }

    #[test]
    fn doubles_are_the_nearest() {
        assert_eq!(to_double(1, 1), 0.1);
        assert_eq!(to_double(power_of_ten(37) + 1, 37), 1.0);
        assert_eq!(to_double(-12_345, 3), -12.345);
    }
}
