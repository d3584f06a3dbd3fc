//! Keyed state as one value a key.

use crate::error::Result;
use crate::operators::KeySet;
use crate::state::{StateSnapshot, decode_snapshot, encode_snapshot};

/// Makes values of snapshots, and snapshots of values.
#[derive(Debug, Default)]
pub(super) struct UnitCodec;

/// The values of the keys of a snapshot, by ascending hash.
pub(super) struct Encoded {
    values: Vec<Vec<u8>>,
}

impl Encoded {
    pub(super) fn value(&self, index: usize) -> &[u8] {
        &self.values[index]
    }
}

impl UnitCodec {
    /// The value of each key, behind what `head` writes for it.
    pub(super) fn encode(
        &mut self,
        snapshot: &StateSnapshot,
        head: &mut dyn FnMut(usize, &mut Vec<u8>),
    ) -> Result<Encoded> {
        let mut values = Vec::new();
        for (index, hash) in snapshot.key_hashes().into_iter().enumerate() {
            let one: KeySet = [hash].into_iter().collect();
            let part = snapshot.filter_keyed(&|hash| one.contains(&hash))?;
            let mut value = Vec::new();
            head(index, &mut value);
            value.extend(encode_snapshot(&part)?);
            values.push(value);
        }
        Ok(Encoded { values })
    }

    /// The state of keys, given with their values.
    pub(super) fn decode(&self, units: &[(u64, &[u8])]) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        for (_, value) in units {
            let mut one = decode_snapshot(value)?;
            one.changed = None;
            snapshot.merge(one);
        }
        Ok(snapshot)
    }
}
