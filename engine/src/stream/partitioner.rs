//! Deals the rows of a batch to channels: one counting scatter, then one gather a channel.

use arrow::array::UInt32Array;

use super::{ChangelogBatch, KeyGroup};
use crate::error::Result;

/// Deals rows to `parallelism` channels by the key group of their hashes, which the batch must carry.
pub fn scatter_by_key_group(
    batch: ChangelogBatch,
    parallelism: usize,
    max_parallelism: u16,
) -> Result<Vec<(usize, ChangelogBatch)>> {
    if parallelism == 1 {
        return Ok(vec![(0, batch)]);
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

/// Deals row `i` to channel `channels[i]`; channels without a row get nothing. Steps behind a channel's last row are left
/// out: the watermark element that follows every batch with steps goes to all channels.
pub fn scatter_by_channel(
    batch: ChangelogBatch,
    channels: &[u32],
    parallelism: usize,
) -> Result<Vec<(usize, ChangelogBatch)>> {
    let mut starts = vec![0usize; parallelism + 1];
    channels
        .iter()
        .for_each(|channel| starts[*channel as usize + 1] += 1);
    (0..parallelism).for_each(|channel| starts[channel + 1] += starts[channel]);
    let takes_all = |channel: &usize| starts[channel + 1] - starts[*channel] == channels.len();
    if let Some(only) = (0..parallelism).find(takes_all) {
        return Ok(vec![(only, batch)]);
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
        let mine = rows.slice(starts[channel], starts[channel + 1] - starts[channel]);
        if !mine.is_empty() {
            result.push((channel, batch.take(&mine)?.0));
        }
    }
    Ok(result)
}
