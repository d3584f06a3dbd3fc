//! Numbers as text, by Java's rules: what `parseInt`, `parseDouble` and `BigDecimal` read, and what they print.

use std::io::Write;

/// Without the characters up to the blank at both ends, as Java's `String.trim`.
pub(super) fn trim(text: &[u8]) -> &[u8] {
    let Some(start) = text.iter().position(|byte| *byte > b' ') else {
        return &[];
    };
    let end = text
        .iter()
        .rposition(|byte| *byte > b' ')
        .map_or(0, |last| last + 1);
    &text[start..end]
}

/// A whole number with an optional sign; `None` where it is none or passes 64 bits.
pub(super) fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: i64 = 0;
    // Counts down from zero, so that the smallest number has a place.
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_sub(digit as i64)?;
    }
    if negative {
        Some(value)
    } else {
        value.checked_neg()
    }
}

/// A floating-point number as `Double.parseDouble` reads it (but no hexadecimal): `NaN` and `Infinity` only in this spelling,
/// a `d` or `f` at the end allowed.
pub(super) fn parse_floating<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    let (sign, magnitude) = match text.first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    match magnitude {
        b"NaN" => "NaN".parse().ok(),
        b"Infinity" => format!("{sign}inf").parse().ok(),
        [b'0'..=b'9' | b'.', ..] => {
            let suffix = matches!(magnitude.last(), Some(b'd' | b'D' | b'f' | b'F'));
            std::str::from_utf8(&text[..text.len() - usize::from(suffix)])
                .ok()?
                .parse()
                .ok()
        }
        _ => None,
    }
}

/// What became of a decimal text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecimalText {
    /// The value, times ten to the scale.
    Unscaled(i128),
    /// A number with more digits before the point than the type has: NULL in Flink.
    TooWide,
    /// No number.
    Malformed,
}

/// A number as `BigDecimal` reads it, rounded half up (away from zero) to `scale`.
pub(super) fn parse_decimal(text: &[u8], precision: u8, scale: u8) -> DecimalText {
    match decimal_parts(text) {
        Some(parts) => parts.round(precision, scale),
        None => DecimalText::Malformed,
    }
}

/// Sign, digits before and behind the point, and the exponent of a decimal text.
struct DecimalParts<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

fn decimal_parts(text: &[u8]) -> Option<DecimalParts<'_>> {
    let (negative, text) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (
            &text[..at],
            parse_integer(&text[at + 1..]).filter(|exponent| i32::try_from(*exponent).is_ok())?,
        ),
        None => (text, 0),
    };
    let (whole, fraction) = match mantissa.iter().position(|byte| *byte == b'.') {
        Some(point) => (&mantissa[..point], &mantissa[point + 1..]),
        None => (mantissa, &mantissa[..0]),
    };
    let all_digits = whole.iter().chain(fraction).all(u8::is_ascii_digit);
    (all_digits && whole.len() + fraction.len() > 0).then_some(DecimalParts {
        negative,
        whole,
        fraction,
        exponent,
    })
}

impl DecimalParts<'_> {
    fn round(&self, precision: u8, scale: u8) -> DecimalText {
        // How many of the digits stand before the place that is cut.
        let kept = self.whole.len() as i64 + self.exponent + scale as i64;
        let digits = self.whole.iter().chain(self.fraction);
        let limit = 10_i128.pow(precision as u32);
        let mut value: i128 = 0;
        let mut taken = 0;
        for byte in digits {
            let digit = (byte - b'0') as i128;
            if taken >= kept {
                value += i128::from(taken == kept && digit >= 5);
                taken = kept;
                break;
            }
            // Ten times a value of this size reaches the limit, and may pass 128 bits.
            if value >= limit / 10 {
                return DecimalText::TooWide;
            }
            value = value * 10 + digit;
            taken += 1;
        }
        if value == 0 {
            return DecimalText::Unscaled(0);
        }
        while taken < kept {
            if value >= limit / 10 {
                return DecimalText::TooWide;
            }
            value *= 10;
            taken += 1;
        }
        if value >= limit {
            return DecimalText::TooWide;
        }
        DecimalText::Unscaled(if self.negative { -value } else { value })
    }
}

/// Appends a DECIMAL as `BigDecimal.toString` (or, where `plain`, `toPlainString`) prints it.
pub(super) fn write_decimal(unscaled: i128, scale: u8, plain: bool, out: &mut Vec<u8>) {
    let mut room = [0_u8; 39];
    let digits = digits_of(unscaled.unsigned_abs(), &mut room);
    let scale = scale as usize;
    if unscaled < 0 {
        out.push(b'-');
    }
    let exponent = digits.len() as i64 - 1 - scale as i64;
    if exponent < -6 && !plain {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.push(b'E');
        write_integer(exponent, out);
    } else if digits.len() > scale {
        let point = digits.len() - scale;
        out.extend_from_slice(&digits[..point]);
        if scale > 0 {
            out.push(b'.');
            out.extend_from_slice(&digits[point..]);
        }
    } else {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', scale - digits.len()));
        out.extend_from_slice(digits);
    }
}

fn digits_of(value: u128, room: &mut [u8; 39]) -> &[u8] {
    let mut at = room.len();
    let mut rest = value;
    // 64-bit division is much the faster one.
    while rest > u64::MAX as u128 {
        at -= 1;
        room[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let mut rest = rest as u64;
    loop {
        at -= 1;
        room[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return &room[at..];
        }
    }
}

/// Appends a finite DOUBLE or FLOAT as Java prints it: plain from a thousandth to ten million, else `1.5E10`.
pub(super) fn write_floating(value: impl std::fmt::LowerExp, out: &mut Vec<u8>) {
    let start = out.len();
    // The shortest digits that give the value again, such as `-1.25e-3`.
    write!(out, "{value:e}").expect("a vector takes all bytes");
    let mut room = [0_u8; 32];
    let length = out.len() - start;
    room[..length].copy_from_slice(&out[start..]);
    out.truncate(start);
    let shortest = &room[..length];
    let at = memchr::memchr(b'e', shortest).expect("the exponent form has an e");
    let exponent = parse_integer(&shortest[at + 1..]).expect("an exponent is a number") as i32;
    let mut digits = [0_u8; 32];
    let mut count = 0;
    for byte in &shortest[..at] {
        match byte {
            b'-' => out.push(b'-'),
            b'.' => {}
            digit => {
                digits[count] = *digit;
                count += 1;
            }
        }
    }
    write_digits(&digits[..count], exponent, out);
}

fn write_digits(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    if digits == b"0" {
        out.extend_from_slice(b"0.0");
    } else if (-3..7).contains(&exponent) {
        write_plain(digits, exponent, out);
    } else {
        out.push(digits[0]);
        out.push(b'.');
        out.extend_from_slice(if digits.len() > 1 { &digits[1..] } else { b"0" });
        out.push(b'E');
        write_integer(exponent.into(), out);
    }
}

fn write_plain(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        out.extend_from_slice(digits);
        return;
    }
    let point = exponent as usize + 1;
    out.extend((0..point).map(|place| digits.get(place).copied().unwrap_or(b'0')));
    out.push(b'.');
    out.extend_from_slice(if digits.len() > point {
        &digits[point..]
    } else {
        b"0"
    });
}

/// Appends a whole number.
pub(super) fn write_integer(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(digits_of(value.unsigned_abs().into(), &mut [0; 39]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_java_reads_them() {
        assert_eq!(parse_integer(b"+7"), Some(7));
        assert_eq!(parse_integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_integer(b"9223372036854775808"), None);
        assert_eq!(parse_integer(b""), None);
        assert_eq!(parse_integer(b"1.0"), None);
        assert_eq!(trim(b" \t42\n"), b"42");
        assert_eq!(trim(b"  "), b"");
    }

    #[test]
    fn floating_words_are_java_s() {
        assert_eq!(parse_floating::<f64>(b"-Infinity"), Some(f64::NEG_INFINITY));
        assert!(parse_floating::<f64>(b"NaN").unwrap().is_nan());
        assert_eq!(parse_floating::<f64>(b"inf"), None);
        assert_eq!(parse_floating::<f64>(b"nan"), None);
        assert_eq!(parse_floating::<f64>(b"1.5d"), Some(1.5));
        assert_eq!(parse_floating::<f64>(b".5"), Some(0.5));
        assert_eq!(parse_floating::<f64>(b"d"), None);
    }

    #[test]
    fn decimals_round_half_up_and_are_too_wide_past_the_precision() {
        use DecimalText::*;
        assert_eq!(parse_decimal(b"1.235", 6, 2), Unscaled(124));
        assert_eq!(parse_decimal(b"-1.235", 6, 2), Unscaled(-124));
        assert_eq!(parse_decimal(b"12345.6", 6, 2), TooWide);
        assert_eq!(parse_decimal(b"9999.995", 6, 2), TooWide);
        assert_eq!(parse_decimal(b"1.5e2", 6, 2), Unscaled(15000));
        assert_eq!(parse_decimal(b"15e-3", 6, 2), Unscaled(2));
        assert_eq!(parse_decimal(b"5e-3", 6, 2), Unscaled(1));
        assert_eq!(parse_decimal(b"9e-4", 6, 2), Unscaled(0));
        assert_eq!(parse_decimal(b"0e999999", 6, 2), Unscaled(0));
        assert_eq!(parse_decimal(b"1e999999999", 6, 2), TooWide);
        assert_eq!(parse_decimal(b"1e-999999999", 6, 2), Unscaled(0));
        assert_eq!(parse_decimal(b".", 6, 2), Malformed);
        assert_eq!(
            parse_decimal(b"799.929496989092949698", 38, 18),
            Unscaled(799_929_496_989_092_949_698)
        );
        assert_eq!(
            parse_decimal(b"99999999999999999999999999999999999999", 38, 0),
            Unscaled(10_i128.pow(38) - 1)
        );
    }

    #[test]
    fn numbers_are_printed_as_java_prints_them() {
        let print = |value: f64| {
            let mut out = Vec::new();
            write_floating(value, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(print(1.0), "1.0");
        assert_eq!(print(-0.0), "-0.0");
        assert_eq!(print(100.0), "100.0");
        assert_eq!(print(1234567.125), "1234567.125");
        assert_eq!(print(1e7), "1.0E7");
        assert_eq!(print(0.001), "0.001");
        assert_eq!(print(0.00012), "1.2E-4");
        assert_eq!(print(123.456), "123.456");
        let decimal = |value, scale, plain| {
            let mut out = Vec::new();
            write_decimal(value, scale, plain, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(decimal(-1250, 2, false), "-12.50");
        assert_eq!(decimal(5, 3, false), "0.005");
        assert_eq!(decimal(1, 8, false), "1E-8");
        assert_eq!(decimal(12, 8, true), "0.00000012");
        assert_eq!(decimal(123, 8, false), "0.00000123");
        assert_eq!(decimal(0, 2, false), "0.00");
        assert_eq!(decimal(7, 0, false), "7");
        let widest = 10_i128.pow(38) - 1;
        assert_eq!(decimal(-widest, 0, false), format!("-{widest}"));
        assert_eq!(print(f64::MAX), "1.7976931348623157E308");
        let mut out = Vec::new();
        write_integer(i64::MIN, &mut out);
        assert_eq!(out, b"-9223372036854775808");
    }
}
