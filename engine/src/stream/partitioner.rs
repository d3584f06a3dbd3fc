//! Deals the rows of a batch to channels: one counting scatter, then one gather a channel.

use arrow::array::UInt32Array;

use super::{ChangelogBatch, KeyGroup};
use crate::error::Result;
use crate::types::EventTime;

/// What one channel gets of a batch.
#[derive(Debug)]
pub struct Scatter {
    /// Which channel.
    pub channel: usize,
    /// Its rows, in their order; may be empty where only `behind` matters.
    pub batch: ChangelogBatch,
    /// A watermark that follows these rows because its step stood behind the last of them.
    pub behind: Option<EventTime>,
}

/// Deals rows to `parallelism` channels by the key group of their hashes, which the batch must carry.
pub fn scatter_by_key_group(
    batch: ChangelogBatch,
    parallelism: usize,
    max_parallelism: u16,
) -> Result<Vec<Scatter>> {
    if parallelism == 1 {
        return Ok(vec![Scatter {
            channel: 0,
            batch,
            behind: None,
        }]);
    }
    let channels: Vec<u32> = {
        let hashes = batch
            .hashes
            .as_ref()
            .expect("an exchange by key computes hashes first")
            .values();
        hashes
            .iter()
            .map(|hash| {
                KeyGroup::of_hash(*hash, max_parallelism).subtask(parallelism, max_parallelism)
                    as u32
            })
            .collect()
    };
    scatter_by_channel(batch, &channels, parallelism)
}

/// Deals row `i` to channel `channels[i]`. Channels without a row get a step's watermark all the same.
pub fn scatter_by_channel(
    batch: ChangelogBatch,
    channels: &[u32],
    parallelism: usize,
) -> Result<Vec<Scatter>> {
    let mut starts = vec![0usize; parallelism + 1];
    channels
        .iter()
        .for_each(|channel| starts[*channel as usize + 1] += 1);
    (0..parallelism).for_each(|channel| starts[channel + 1] += starts[channel]);
    if let Some(only) =
        (0..parallelism).find(|channel| starts[channel + 1] - starts[*channel] == channels.len())
    {
        if batch.steps.is_empty() {
            return Ok(vec![Scatter {
                channel: only,
                batch,
                behind: None,
            }]);
        }
    }
    let mut next = starts.clone();
    let mut rows = vec![0u32; channels.len()];
    for (row, channel) in channels.iter().enumerate() {
        let place = &mut next[*channel as usize];
        rows[*place] = row as u32;
        *place += 1;
    }
    let rows = UInt32Array::from(rows);
    let mut result = Vec::with_capacity(parallelism);
    for channel in 0..parallelism {
        let (batch, behind) =
            batch.take(&rows.slice(starts[channel], starts[channel + 1] - starts[channel]))?;
        if batch.num_rows() > 0 || behind.is_some() {
            result.push(Scatter {
                channel,
                batch,
                behind,
            });
        }
    }
    Ok(result)
}
