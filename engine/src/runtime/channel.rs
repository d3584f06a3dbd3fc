//! A queue between two tasks, bounded in bytes. Rows move as shared buffers, without a copy.
//!
//! A sender asks [`Sender::has_room`] before it works, so a queue may pass its bound by the output of one step; control
//! elements always fit. Whoever finds nothing to do parks its thread; sending to an empty queue and taking from a full one
//! wake the other side.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::error::Result;
use crate::stream::{StreamElement, concat_batches};

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
        let bytes = match &element {
            StreamElement::Batch(batch) => batch.size_bytes(),
            _ => 0,
        };
        let mut queue = lock(&self.0.queue);
        queue.bytes += bytes;
        queue.elements.push_back((element, bytes));
        let was_empty = queue.elements.len() == 1;
        drop(queue);
        if was_empty {
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
        let Some((first, bytes)) = queue.elements.pop_front() else {
            return Ok(None);
        };
        queue.bytes -= bytes;
        let mut batches = Vec::new();
        if let StreamElement::Batch(batch) = &first {
            let mut rows = batch.num_rows();
            while let Some((StreamElement::Batch(next), _)) = queue.elements.front() {
                rows += next.num_rows();
                if rows > batch_rows {
                    break;
                }
                if let Some((StreamElement::Batch(next), bytes)) = queue.elements.pop_front() {
                    queue.bytes -= bytes;
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
    use crate::stream::ChangelogBatch;
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
