//! Numbers as Java writes and reads them: `1.0E10`, `0.1`, `NaN`, `Infinity`.
//!
//! The digits are the shortest that read back as the same number (as Rust and Java since 19 find them); only the
//! notation differs: plain from 10⁻³ up to 10⁷, scientific outside.

use std::fmt::Write;

/// Writes a DOUBLE as Java's `Double.toString`.
pub(crate) fn write_double(out: &mut impl Write, value: f64) {
    match special(value) {
        Some(text) => {
            let _ = out.write_str(text);
        }
        None => write_notation(out, value.abs() >= 1e-3 && value.abs() < 1e7, &value),
    }
}

/// Writes a FLOAT as Java's `Float.toString`.
pub(crate) fn write_float(out: &mut impl Write, value: f32) {
    match special(value as f64) {
        Some(text) => {
            let _ = out.write_str(text);
        }
        None => write_notation(out, value.abs() >= 1e-3 && value.abs() < 1e7, &value),
    }
}

fn special(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else if value == 0.0 {
        Some(if value.is_sign_negative() {
            "-0.0"
        } else {
            "0.0"
        })
    } else {
        None
    }
}

fn write_notation<T: std::fmt::Debug + std::fmt::LowerExp>(
    out: &mut impl Write,
    is_plain: bool,
    value: &T,
) {
    if is_plain {
        // Rust's `{:?}` writes plain notation with at least one digit behind the point in this range.
        let _ = write!(out, "{value:?}");
        return;
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').expect("scientific notation has an e");
    let point = if digits.contains('.') { "" } else { ".0" };
    let _ = write!(out, "{digits}{point}E{exponent}");
}

/// Reads a DOUBLE as Java's `Double.parseDouble` does, of trimmed text: no `inf`, but `Infinity`, `1d` and `1f`.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned {
        "NaN" => return Some(f64::NAN),
        "Infinity" => {
            let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
            return Some(sign * f64::INFINITY);
        }
        _ => {}
    }
    let digits = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    let is_number = digits
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    if !is_number {
        return None;
    }
    digits.parse().ok()
}

/// Reads an integer as Flink's CAST does: trimmed, an optional sign, and a fraction that is checked and cut. `None` where it
/// is no such text or does not fit 64 bits.
pub(crate) fn parse_integer(text: &str) -> Option<i64> {
    let text = text.trim();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = whole.strip_prefix(['+', '-']).unwrap_or(whole);
    if digits.is_empty() {
        // ".5" and "." are 0, "" is no number.
        return (!text.is_empty() && text.contains('.')).then_some(0);
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    whole.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_java_writes_them() {
        let text = |value| {
            let mut out = String::new();
            write_double(&mut out, value);
            out
        };
        for (value, expected) in [
            (0.1, "0.1"),
            (1e10, "1.0E10"),
            (1e7, "1.0E7"),
            (9_999_999.0, "9999999.0"),
            (0.001, "0.001"),
            (0.000_99, "9.9E-4"),
            (-1.5, "-1.5"),
            (-0.0, "-0.0"),
            (f64::INFINITY, "Infinity"),
            (f64::NAN, "NaN"),
            (1.234e-5, "1.234E-5"),
            (123_456_789.125, "1.23456789125E8"),
        ] {
            assert_eq!(text(value), expected);
        }
        let mut out = String::new();
        write_float(&mut out, 0.1_f32);
        assert_eq!(out, "0.1");
    }

    #[test]
    fn texts_are_read_as_java_reads_them() {
        assert_eq!(parse_double(" 1.5 "), Some(1.5));
        assert_eq!(parse_double("1e3d"), Some(1000.0));
        assert_eq!(parse_double("-Infinity"), Some(f64::NEG_INFINITY));
        for bad in ["inf", "nan", "", "1x", "--1"] {
            assert_eq!(parse_double(bad), None, "{bad}");
        }
        assert_eq!(parse_integer(" +12 "), Some(12));
        assert_eq!(parse_integer("-1.9"), Some(-1));
        assert_eq!(parse_integer("12x"), None);
        assert_eq!(parse_integer("."), Some(0), "as Flink has it");
        assert_eq!(parse_integer(" "), None);
        assert_eq!(parse_integer("9223372036854775808"), None);
    }
}
