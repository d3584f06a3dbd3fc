//! Reading the next piece while the last one is taken up.

use std::sync::mpsc::sync_channel;

use crate::error::Result;

/// Reads pieces in order on a thread of its own and hands each to `take`, with its number. Besides the piece that is taken up there is one
/// more in memory at most. A single piece is read here. Ends with the first error.
pub fn read_ahead<P: Send, T: Send>(
    pieces: Vec<P>,
    read: impl Fn(P) -> Result<T> + Sync,
    mut take: impl FnMut(usize, T) -> Result<()>,
) -> Result<()> {
    if pieces.len() < 2 {
        let mut pieces = pieces.into_iter().enumerate();
        return pieces.try_for_each(|(number, piece)| take(number, read(piece)?));
    }
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(0);
        let read = &read;
        scope.spawn(move || {
            for piece in pieces {
                let piece = read(piece);
                let is_last = piece.is_err();
                // Nobody takes more after an error.
                if sender.send(piece).is_err() || is_last {
                    return;
                }
            }
        });
        let mut pieces = receiver.into_iter().enumerate();
        pieces.try_for_each(|(number, piece)| take(number, piece?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn read(piece: usize) -> Result<usize> {
        match piece {
            7 => Err(Error::external("seven cannot be read")),
            piece => Ok(10 * piece),
        }
    }

    #[test]
    fn pieces_come_in_order_until_the_first_error() {
        for (pieces, expected, fails) in [
            (vec![], vec![], false),
            (vec![3], vec![(0, 30)], false),
            (vec![3, 1, 2], vec![(0, 30), (1, 10), (2, 20)], false),
            (vec![3, 7, 2], vec![(0, 30)], true),
            (vec![7], vec![], true),
        ] {
            let mut taken = Vec::new();
            let done = read_ahead(pieces, read, |number, piece| {
                taken.push((number, piece));
                Ok(())
            });
            assert_eq!((taken, done.is_err()), (expected, fails));
        }
    }

    #[test]
    fn nothing_more_is_read_once_one_is_refused() {
        let mut taken = 0;
        let done = read_ahead((0..1000).collect(), read, |_, piece| {
            taken += 1;
            match piece {
                20 => Err(Error::external("no more")),
                _ => Ok(()),
            }
        });
        assert!(done.is_err() && taken == 3);
    }
}
