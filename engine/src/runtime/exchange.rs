//! The way out of a task: every element goes to every edge, and on each edge to the channels that should have it.

use std::sync::Arc;

use super::channel::Sender;
use super::graph::Partitioning;
use crate::error::Result;
use crate::stream::{ChangelogBatch, KeyHashes, StreamElement, scatter_by_key_group};

/// One edge as one subtask sees it: a channel to each subtask behind it that it may write to.
#[derive(Debug)]
pub(crate) struct OutputEdge {
    partitioning: Partitioning,
    max_parallelism: u16,
    channels: Vec<Arc<Sender>>,
    next: usize,
}

impl OutputEdge {
    /// An edge to `channels`, one a subtask (one in all for `Forward` and `Singleton`).
    pub(crate) fn new(
        partitioning: Partitioning,
        max_parallelism: u16,
        channels: Vec<Arc<Sender>>,
    ) -> Self {
        OutputEdge {
            partitioning,
            max_parallelism,
            channels,
            next: 0,
        }
    }

    fn has_room(&self) -> bool {
        self.channels.iter().all(|channel| channel.has_room())
    }

    fn send(&mut self, element: StreamElement) -> Result<()> {
        match element {
            StreamElement::Batch(batch) => self.send_batch(batch),
            control => {
                self.channels
                    .iter()
                    .for_each(|channel| channel.send(control.clone()));
                Ok(())
            }
        }
    }

    fn send_batch(&mut self, batch: ChangelogBatch) -> Result<()> {
        match &self.partitioning {
            Partitioning::Forward | Partitioning::Singleton => {
                self.channels[0].send(StreamElement::Batch(batch))
            }
            Partitioning::Rebalance => self.send_round_robin(batch),
            Partitioning::Hash(columns) => {
                let batch = with_hashes(batch, columns)?;
                for (channel, part) in
                    scatter_by_key_group(batch, self.channels.len(), self.max_parallelism)?
                {
                    self.channels[channel].send(StreamElement::Batch(part));
                }
            }
        }
        Ok(())
    }

    /// Whole batches in turn. A batch's steps concern every channel, but a watermark follows each batch that has some.
    fn send_round_robin(&mut self, batch: ChangelogBatch) {
        self.channels[self.next].send(StreamElement::Batch(batch));
        self.next = (self.next + 1) % self.channels.len();
    }
}

/// The batch with the hashes of its key, computed unless they have come along.
pub(super) fn with_hashes(mut batch: ChangelogBatch, columns: &[usize]) -> Result<ChangelogBatch> {
    if batch
        .hashes
        .as_ref()
        .is_none_or(|hashes| hashes.for_columns(columns).is_none())
    {
        batch.hashes = Some(KeyHashes::of(&batch.rows, columns)?);
    }
    Ok(batch)
}

/// All edges of a subtask.
#[derive(Debug, Default)]
pub(crate) struct Router {
    edges: Vec<OutputEdge>,
}

impl Router {
    /// A router over `edges`; none for a sink.
    pub(crate) fn new(edges: Vec<OutputEdge>) -> Self {
        Router { edges }
    }

    /// Whether every channel is below its bound.
    pub(crate) fn has_room(&self) -> bool {
        self.edges.iter().all(OutputEdge::has_room)
    }

    /// Sends an element to every edge.
    pub(crate) fn send(&mut self, element: StreamElement) -> Result<()> {
        let Some((last, others)) = self.edges.split_last_mut() else {
            return Ok(());
        };
        for edge in others {
            edge.send(element.clone())?;
        }
        last.send(element)
    }

    /// Whether there is an edge at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }
}
