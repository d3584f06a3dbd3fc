//! Whole numbers in as few bytes as they need: seven bits a byte, low bits first, the eighth says that more follow.

/// The bytes of a number: an array and how many of it count.
pub(super) fn encode(mut number: u64) -> ([u8; 10], usize) {
    let mut bytes = [0; 10];
    let mut length = 0;
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        bytes[length] = if number == 0 { low } else { low | 0x80 };
        length += 1;
        if number == 0 {
            return (bytes, length);
        }
    }
}

/// The number at the start, and what is behind it; `None` where it is cut off or too long.
pub(super) fn decode(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (place, byte) in bytes.iter().take(10).enumerate() {
        let low = u64::from(byte & 0x7f);
        if place == 9 && low > 1 {
            return None;
        }
        number |= low << (7 * place);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[place + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [
            0,
            1,
            127,
            128,
            300,
            16_383,
            16_384,
            u64::from(u32::MAX),
            u64::MAX,
        ] {
            let (bytes, length) = encode(number);
            assert_eq!(decode(&bytes[..length]), Some((number, &[][..])));
            assert_eq!(decode(&bytes[..length - 1]), None);
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused() {
        assert_eq!(decode(&[0xff; 11]), None);
        assert_eq!(
            decode(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2]),
            None
        );
    }
}
