//! The hashes of a key, computed once before an exchange; they travel with the rows to the state behind it.

use crate::error::Result;
use crate::stream::{ChangelogBatch, KeyHashes};

/// The batch with the hashes of its `key` columns; those that it carries already are kept where they are of these columns.
pub fn with_key_hashes(batch: ChangelogBatch, key: &[usize]) -> Result<ChangelogBatch> {
    let known = batch
        .hashes
        .as_ref()
        .is_some_and(|hashes| hashes.for_columns(key).is_some());
    if known {
        return Ok(batch);
    }
    let hashes = Some(KeyHashes::of(&batch.rows, key)?);
    Ok(ChangelogBatch { hashes, ..batch })
}

/// The hashes of the `key` columns of a batch's rows: those that came with it, or computed here.
pub fn key_hashes(batch: &ChangelogBatch, key: &[usize]) -> Result<KeyHashes> {
    match &batch.hashes {
        Some(hashes) if hashes.for_columns(key).is_some() => Ok(hashes.clone()),
        _ => KeyHashes::of(&batch.rows, key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::test_bench::batch;
    use crate::types::{Field, LogicalType, Schema};

    #[test]
    fn hashes_of_another_key_are_replaced() {
        let schema = Schema::new(vec![
            Field::new("a", LogicalType::INT),
            Field::new("b", LogicalType::INT),
        ]);
        let rows = batch(&schema, "+I 1, 2\n+I 2, 1");
        let by_a = with_key_hashes(rows, &[0]).unwrap();
        let by_b = with_key_hashes(by_a.clone(), &[1]).unwrap();
        let hashes = |batch: &ChangelogBatch| batch.hashes.as_ref().unwrap().values().to_vec();
        assert_eq!(hashes(&by_a)[0], hashes(&by_b)[1]);
        assert!(by_b.hashes.as_ref().unwrap().for_columns(&[0]).is_none());
        assert_eq!(
            key_hashes(&by_b, &[0]).unwrap().values(),
            &hashes(&by_a)[..]
        );
    }
}
