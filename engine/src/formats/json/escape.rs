//! Escapes in JSON strings, both ways.

/// Appends the value of a string's inside; `None` where an escape is wrong. A lone surrogate becomes `?`, as it does where Java
/// turns text into UTF-8.
pub(super) fn unescape(inside: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = inside;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let escaped = *rest.get(at + 1)?;
        rest = &rest[at + 2..];
        match escaped {
            b'"' | b'\\' | b'/' => out.push(escaped),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let (character, behind) = code_point(rest)?;
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = behind;
            }
            _ => return None,
        }
    }
    out.extend_from_slice(rest);
    Some(())
}

fn code_point(text: &[u8]) -> Option<(char, &[u8])> {
    let (high, rest) = (hexadecimal(text)?, &text[4..]);
    let low = rest.strip_prefix(b"\\u").and_then(hexadecimal);
    match (high, low) {
        (0xD800..0xDC00, Some(low @ 0xDC00..0xE000)) => {
            let point = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
            Some((char::from_u32(point)?, &rest[6..]))
        }
        _ => Some((char::from_u32(high).unwrap_or('?'), rest)),
    }
}

fn hexadecimal(text: &[u8]) -> Option<u32> {
    text.get(..4)?.iter().try_fold(0, |value, byte| {
        Some(value * 16 + (*byte as char).to_digit(16)?)
    })
}

/// Which bytes of a string must be escaped.
const ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut byte = 0;
    while byte < 32 {
        escaped[byte] = true;
        byte += 1;
    }
    escaped[b'"' as usize] = true;
    escaped[b'\\' as usize] = true;
    escaped
};

/// Appends a string with its quotes, escaped as Jackson does.
pub(super) fn write_string(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = value;
    while let Some(at) = rest.iter().position(|byte| ESCAPED[*byte as usize]) {
        out.extend_from_slice(&rest[..at]);
        write_escape(rest[at], out);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        8 => out.extend_from_slice(b"\\b"),
        12 => out.extend_from_slice(b"\\f"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => {
            let digit = b"0123456789ABCDEF"[(byte & 15) as usize];
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', b'0' + (byte >> 4), digit]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_go_both_ways() {
        let mut text = Vec::new();
        unescape(br#"a\u00e9\ud83d\ude00\n\/\\"#, &mut text).unwrap();
        assert_eq!(String::from_utf8(text.clone()).unwrap(), "aé😀\n/\\");
        let mut escaped = Vec::new();
        write_string(b"a\"\\\n\x01\x1f\xc3\xa9", &mut escaped);
        assert_eq!(escaped, b"\"a\\\"\\\\\\n\\u0001\\u001F\xc3\xa9\"");
    }

    #[test]
    fn wrong_escapes_are_refused() {
        for wrong in [&br"\x"[..], br"\u12", br"\u12g4", br"\"] {
            assert_eq!(unescape(wrong, &mut Vec::new()), None);
        }
        let mut text = Vec::new();
        unescape(br"\ud83d\u0041\ude00\ud83d", &mut text).unwrap();
        assert_eq!(text, b"?A??");
    }
}
