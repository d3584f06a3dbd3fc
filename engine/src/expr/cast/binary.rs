//! Casts among BINARY and VARBINARY, and between them and text as UTF-8. BINARY(n) cuts and pads with zeros.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, builder::BinaryBuilder};

use super::Cast;
use crate::error::Result;
use crate::types::TypeRoot;

/// BINARY or VARBINARY to another length.
pub(super) fn cast(cast: &Cast) -> Result<ArrayRef> {
    Ok(fit(cast.array.as_binary::<i32>(), &cast.to.root))
}

/// Text to its UTF-8 bytes.
pub(super) fn from_string(cast: &Cast) -> Result<ArrayRef> {
    let bytes = BinaryArray::from(cast.array.as_string::<i32>().clone());
    Ok(fit(&bytes, &cast.to.root))
}

fn fit(values: &BinaryArray, to: &TypeRoot) -> ArrayRef {
    let (length, pads) = match to {
        TypeRoot::Binary(n) => (*n as usize, true),
        TypeRoot::Varbinary(n) => (*n as usize, false),
        other => unreachable!("{other} is not binary"),
    };
    let fits = |bytes: &[u8]| bytes.len() == length || (bytes.len() < length && !pads);
    if values.iter().flatten().all(fits) {
        return Arc::new(values.clone());
    }
    let mut builder = BinaryBuilder::with_capacity(values.len(), values.value_data().len());
    let mut padded = Vec::new();
    for value in values {
        match value {
            None => builder.append_null(),
            Some(bytes) if fits(bytes) => builder.append_value(bytes),
            Some(bytes) => {
                padded.clear();
                padded.extend_from_slice(&bytes[..bytes.len().min(length)]);
                padded.resize(length, 0);
                builder.append_value(&padded);
            }
        }
    }
    Arc::new(builder.finish())
}
