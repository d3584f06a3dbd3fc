//! Where the structure of a JSON text stands: the positions that the SIMD parser's first stage finds.
//!
//! One pass over a whole chunk of lines gives the position of every brace, bracket, colon, comma, opening quote and first
//! character of a number or word outside of strings, and checks UTF-8 and control characters on the way. Our builders walk
//! these positions; the parser's second stage, which would build a tape, is made to stop at once.

use simd_json::{Buffers, ErrorType, INPUT_PADDING, Tape};

/// The structure of one chunk at a time; its buffers are reused.
pub(super) struct Structure {
    buffers: Buffers,
    tape: Tape<'static>,
}

impl Structure {
    pub(super) fn new() -> Self {
        Structure {
            buffers: Buffers::new(0),
            tape: Tape(Vec::new()),
        }
    }

    /// Finds the structure of the first `length` bytes of `text`, which must begin with `{`. False where a string holds a
    /// control character or does not end, or the text is not UTF-8. `text` is unchanged on return; bytes behind `length` are
    /// only read, and spare a copy.
    pub(super) fn scan(&mut self, text: &mut [u8], length: usize) -> bool {
        debug_assert_eq!(text.first(), Some(&b'{'), "a scan begins at an object");
        // No document begins with a closing brace: the second stage ends on it with an internal error, having written nothing.
        text[0] = b'}';
        let mut tape = std::mem::replace(&mut self.tape, Tape(Vec::new())).reset();
        let scanned = if text.len() - length >= INPUT_PADDING {
            simd_json::fill_tape_padded(text, length, &mut self.buffers, &mut tape)
        } else {
            simd_json::fill_tape(&mut text[..length], &mut self.buffers, &mut tape)
        };
        let plain = matches!(&scanned, Err(error) if *error.error() == ErrorType::InternalError);
        self.tape = tape.reset();
        text[0] = b'{';
        plain
    }

    /// The positions that the last scan found, rising.
    pub(super) fn positions(&self) -> &[u32] {
        self.buffers.structural_indexes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(text: &str, length: usize) -> Option<Vec<u32>> {
        let mut bytes = text.as_bytes().to_vec();
        let mut structure = Structure::new();
        let plain = structure.scan(&mut bytes, length);
        assert_eq!(bytes, text.as_bytes(), "the text is as before");
        plain.then(|| structure.positions().to_vec())
    }

    #[test]
    fn positions_of_lines_are_found_with_and_without_room_behind() {
        let line = "{\"a\":1}\n{ }\n";
        let expected = Some(vec![0, 1, 4, 5, 6, 8, 10]);
        assert_eq!(positions(line, line.len()), expected);
        let padded = format!("{line}{}", "x".repeat(100));
        assert_eq!(positions(&padded, line.len()), expected);
    }

    #[test]
    fn open_strings_and_control_characters_are_refused() {
        assert_eq!(positions("{\"a", 3), None);
        assert_eq!(positions("{\"a\t\":1}", 8), None);
        assert!(positions("{\"\\\"\":\"{\"}", 10).is_some());
    }
}
