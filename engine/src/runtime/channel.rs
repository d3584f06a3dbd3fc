//! A queue between two tasks, bounded in bytes. Rows move as shared buffers, without a copy.
//!
//! A sender asks [`Sender::has_room`] before it works, so a queue may pass its bound by the output of one step; control
//! elements take no bytes and always fit. Whoever finds nothing to do parks its thread; sending to an empty queue and taking
//! from a full one wake the other side, and so does a barrier, which may overtake what waits (see [`super::channel_state`]).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::error::Result;
use crate::stream::{CheckpointId, StreamElement, concat_batches};

/// Lets a thread sleep until another one has something for it.
#[derive(Debug, Default)]
pub(crate) struct Parker {
    woken: Mutex<bool>,
    condition: Condvar,
}

impl Parker {
    /// Wakes the thread, or keeps it from falling asleep.
    pub(crate) fn unpark(&self) {
        let mut woken = lock(&self.woken);
        if !*woken {
            *woken = true;
            self.condition.notify_one();
        }
    }

    /// Sleeps until woken, at most `timeout`.
    pub(crate) fn park(&self, timeout: Duration) {
        let mut woken = lock(&self.woken);
        if !*woken {
            woken = self
                .condition
                .wait_timeout(woken, timeout)
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .0;
        }
        *woken = false;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[derive(Debug)]
struct Queue {
    elements: VecDeque<(StreamElement, usize)>,
    bytes: usize,
    /// How many barriers and ends are among them.
    lines: usize,
}

/// Whether it says that a part of the stream is over.
fn is_line(element: &StreamElement) -> bool {
    matches!(element, StreamElement::Barrier(_) | StreamElement::End)
}

impl Queue {
    /// Where the barrier of a checkpoint stands.
    fn barrier(&self, checkpoint: CheckpointId) -> Option<usize> {
        let is_it = |(element, _): &(StreamElement, usize)| matches!(element, StreamElement::Barrier(barrier) if barrier.checkpoint == checkpoint);
        (self.lines > 0).then(|| self.elements.iter().position(is_it))?
    }

    fn end(&self) -> Option<usize> {
        let is_end = |(element, _): &(StreamElement, usize)| matches!(element, StreamElement::End);
        (self.lines > 0).then(|| self.elements.iter().position(is_end))?
    }

    fn pop(&mut self) -> Option<StreamElement> {
        let (element, bytes) = self.elements.pop_front()?;
        self.bytes -= bytes;
        self.lines -= usize::from(is_line(&element));
        Some(element)
    }
}

/// What an element takes of a queue.
fn bytes_of(element: &StreamElement) -> usize {
    match element {
        StreamElement::Batch(batch) => batch.size_bytes(),
        _ => 0,
    }
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    capacity_bytes: usize,
    sender: Arc<Parker>,
    receiver: Arc<Parker>,
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct Sender(Arc<Shared>);

/// The reading end.
#[derive(Debug)]
pub(crate) struct Receiver(Arc<Shared>);

/// A channel whose ends belong to the threads of the two parkers.
pub(crate) fn channel(
    capacity_bytes: usize,
    sender: Arc<Parker>,
    receiver: Arc<Parker>,
) -> (Sender, Receiver) {
    let queue = Mutex::new(Queue {
        elements: VecDeque::new(),
        bytes: 0,
        lines: 0,
    });
    let shared = Arc::new(Shared {
        queue,
        capacity_bytes,
        sender,
        receiver,
    });
    (Sender(shared.clone()), Receiver(shared))
}

impl Sender {
    /// Whether the queue is below its bound.
    pub(crate) fn has_room(&self) -> bool {
        lock(&self.0.queue).bytes < self.0.capacity_bytes
    }

    /// Appends an element.
    pub(crate) fn send(&self, element: StreamElement) {
        let (bytes, is_line) = (bytes_of(&element), is_line(&element));
        let mut queue = lock(&self.0.queue);
        queue.bytes += bytes;
        queue.lines += usize::from(is_line);
        queue.elements.push_back((element, bytes));
        let was_empty = queue.elements.len() == 1;
        drop(queue);
        if was_empty || is_line {
            self.0.receiver.unpark();
        }
    }
}

impl Receiver {
    /// Takes the oldest element. Batches that follow each other come as one of up to `batch_rows` rows: behind an exchange
    /// they are fragments.
    pub(crate) fn receive(&self, batch_rows: usize) -> Result<Option<StreamElement>> {
        let mut queue = lock(&self.0.queue);
        let was_full = queue.bytes >= self.0.capacity_bytes;
        let Some(first) = queue.pop() else {
            return Ok(None);
        };
        let mut batches = Vec::new();
        if let StreamElement::Batch(batch) = &first {
            let mut rows = batch.num_rows();
            while let Some((StreamElement::Batch(next), _)) = queue.elements.front() {
                rows += next.num_rows();
                if rows > batch_rows {
                    break;
                }
                if let Some(StreamElement::Batch(next)) = queue.pop() {
                    batches.push(next);
                }
            }
        }
        let wake = was_full && queue.bytes < self.0.capacity_bytes;
        drop(queue);
        if wake {
            self.0.sender.unpark();
        }
        match first {
            StreamElement::Batch(batch) if !batches.is_empty() => {
                let schema = batch.rows.schema();
                batches.insert(0, batch);
                Ok(Some(StreamElement::Batch(concat_batches(
                    &schema, &batches,
                )?)))
            }
            other => Ok(Some(other)),
        }
    }

    /// Whether the barrier of a checkpoint waits, wherever it stands.
    pub(crate) fn has_barrier(&self, checkpoint: CheckpointId) -> bool {
        lock(&self.0.queue).barrier(checkpoint).is_some()
    }

    /// Lets the barrier of a checkpoint overtake: takes it out and gives what it stood behind, which stays. Where the end has
    /// come no barrier will, and what stands before the end is given. `None` where neither has come.
    pub(crate) fn overtake(&self, checkpoint: CheckpointId) -> Option<Vec<StreamElement>> {
        let mut queue = lock(&self.0.queue);
        let barrier = queue.barrier(checkpoint);
        let line = barrier.or_else(|| queue.end())?;
        if barrier.is_some() {
            queue.elements.remove(line);
            queue.lines -= 1;
        }
        let overtaken = queue.elements.range(..line);
        Some(overtaken.map(|(element, _)| element.clone()).collect())
    }

    /// Puts elements in front of all that waits: what was on its way at a restored checkpoint.
    pub(crate) fn replay(&self, elements: Vec<StreamElement>) {
        let mut queue = lock(&self.0.queue);
        for element in elements.into_iter().rev() {
            let bytes = bytes_of(&element);
            queue.bytes += bytes;
            queue.lines += usize::from(is_line(&element));
            queue.elements.push_front((element, bytes));
        }
    }

    /// Whether the oldest element is there and is no batch.
    pub(crate) fn is_control_next(&self) -> bool {
        let queue = lock(&self.0.queue);
        queue
            .elements
            .front()
            .is_some_and(|(element, _)| !matches!(element, StreamElement::Batch(_)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};

    use super::*;
    use crate::stream::{ChangelogBatch, CheckpointBarrier};
    use crate::types::EventTime;

    fn rows(count: i64) -> StreamElement {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count));
        StreamElement::Batch(ChangelogBatch::insert_only(
            RecordBatch::try_from_iter([("n", column)]).unwrap(),
        ))
    }

    fn lengths(receiver: &Receiver, batch_rows: usize) -> Vec<usize> {
        let next = || receiver.receive(batch_rows).unwrap();
        std::iter::from_fn(next)
            .map(|element| {
                if let StreamElement::Batch(batch) = element {
                    batch.num_rows()
                } else {
                    0
                }
            })
            .collect()
    }

    #[test]
    fn small_batches_are_joined_up_to_the_size_but_not_over_a_watermark() {
        let parker = Arc::new(Parker::default());
        let (sender, receiver) = channel(1 << 20, parker.clone(), parker);
        [3, 4, 5]
            .into_iter()
            .for_each(|count| sender.send(rows(count)));
        sender.send(StreamElement::Watermark(EventTime(1)));
        sender.send(rows(2));
        assert_eq!(lengths(&receiver, 8), [7, 5, 0, 2]);
    }

    #[test]
    fn a_barrier_enters_a_full_queue_and_overtakes_what_waits_there() {
        let parker = Arc::new(Parker::default());
        let (sender, receiver) = channel(1, parker.clone(), parker);
        let checkpoint = CheckpointId(3);
        sender.send(rows(4));
        assert!(receiver.overtake(checkpoint).is_none());
        sender.send(StreamElement::Watermark(EventTime(1)));
        sender.send(StreamElement::Barrier(CheckpointBarrier::new(checkpoint)));
        sender.send(rows(5));
        assert!(!sender.has_room() && receiver.has_barrier(checkpoint));
        assert_eq!(receiver.overtake(checkpoint).unwrap().len(), 2);
        assert!(!receiver.has_barrier(checkpoint));
        receiver.replay(vec![rows(1), StreamElement::Watermark(EventTime(0))]);
        assert_eq!(lengths(&receiver, 1), [1, 0, 4, 0, 5]);
        sender.send(rows(2));
        sender.send(StreamElement::End);
        assert_eq!(receiver.overtake(checkpoint).unwrap().len(), 1, "the end");
        assert_eq!(lengths(&receiver, 1), [2, 0], "it stays");
        assert!(sender.has_room());
    }

    #[test]
    fn a_full_queue_has_no_room_until_it_is_read() {
        let parker = Arc::new(Parker::default());
        let (sender, receiver) = channel(64, parker.clone(), parker);
        assert!(sender.has_room());
        sender.send(rows(8));
        assert!(!sender.has_room());
        lengths(&receiver, 8);
        assert!(sender.has_room() && receiver.receive(8).unwrap().is_none());
    }
}
