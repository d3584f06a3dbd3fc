//! Reading the next piece while the last one is taken up.

use std::sync::mpsc::{SyncSender, sync_channel};

use crate::error::{Error, Result};

/// From this size on a snapshot is read by two threads.
const TWO_READERS_FROM_BYTES: u64 = 128 << 20;

/// How many threads read the pieces of a snapshot of so many bytes. A small one is read in the same order each time.
pub fn readers(bytes: u64) -> usize {
    match bytes < TWO_READERS_FROM_BYTES {
        true => 1,
        false => 2,
    }
}

/// Reads pieces on so many threads and hands each to `take`, in order, with its number. Besides the piece that is taken up each thread has
/// one more in memory at most. A single piece is read here. Ends with the first error.
pub fn read_ahead<P: Send, T: Send>(
    pieces: Vec<P>,
    readers: usize,
    read: impl Fn(P) -> Result<T> + Sync,
    mut take: impl FnMut(usize, T) -> Result<()>,
) -> Result<()> {
    let count = pieces.len();
    if count < 2 {
        let mut pieces = pieces.into_iter().enumerate();
        return pieces.try_for_each(|(number, piece)| take(number, read(piece)?));
    }
    let mut shares: Vec<Vec<P>> = (0..readers.max(1)).map(|_| Vec::new()).collect();
    let mut places = (0..shares.len()).cycle();
    for (piece, place) in pieces.into_iter().zip(&mut places) {
        shares[place].push(piece);
    }
    std::thread::scope(|scope| {
        let read = &read;
        let start = |share| {
            let (sender, receiver) = sync_channel(0);
            scope.spawn(move || read_share(share, read, &sender));
            receiver
        };
        let receivers: Vec<_> = shares.into_iter().map(start).collect();
        (0..count).try_for_each(|number| {
            let piece = receivers[number % receivers.len()].recv();
            let gone = |_| Error::internal("a thread that reads a snapshot has ended");
            take(number, piece.map_err(gone)??)
        })
    })
}

fn read_share<P, T>(share: Vec<P>, read: &impl Fn(P) -> Result<T>, pieces: &SyncSender<Result<T>>) {
    for piece in share {
        let piece = read(piece);
        let is_last = piece.is_err();
        // Nobody takes more after an error.
        if pieces.send(piece).is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (vec![3, 1, 2, 7, 4], vec![(0, 30), (1, 10), (2, 20)], true),
            (vec![7], vec![], true),
        ] {
            for readers in [1, 2, 5] {
                let mut taken = Vec::new();
                let done = read_ahead(pieces.clone(), readers, read, |number, piece| {
                    taken.push((number, piece));
                    Ok(())
                });
                assert_eq!((taken, done.is_err()), (expected.clone(), fails));
            }
        }
    }

    #[test]
    fn nothing_more_is_read_once_one_is_refused() {
        for readers in [1, 2] {
            let mut taken = 0;
            let done = read_ahead((0..1000).collect(), readers, read, |_, piece| {
                taken += 1;
                match piece {
                    20 => Err(Error::external("no more")),
                    _ => Ok(()),
                }
            });
            assert!(done.is_err() && taken == 3);
        }
    }
}
