//! JSON files that carry their own checksum: xxh3-64 of the bytes, with the digits of the checksum as zeros.
//!
//! The manifests of checkpoints and of savepoints are such files. The checksum is their first field, so that an altered byte anywhere,
//! also in the name of the field or in the version, is told as damage.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};

/// What stands for the checksum until it is known.
pub(super) const NO_CHECKSUM: &str = "0000000000000000";
const CHECKSUM_KEY: &str = "\"checksum\": \"";

/// The text of `value`, whose first field `checksum` is [`NO_CHECKSUM`], with its checksum.
pub(super) fn sealed(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|error| Error::internal(format!("the manifest does not serialise: {error}")))?;
    seal(&mut text)?;
    Ok(text)
}

/// Puts the checksum in the place of its zeros.
pub(super) fn seal(text: &mut [u8]) -> Result<()> {
    let at = checksum_at(text)
        .ok_or_else(|| Error::internal("the manifest has no place for its checksum"))?;
    let digits = format!("{:016x}", xxh3_64(text));
    text[at..at + digits.len()].copy_from_slice(digits.as_bytes());
    Ok(())
}

/// What [`sealed`] wrote in the layout `version`; else what is wrong with it.
pub(super) fn opened<T: DeserializeOwned>(text: &[u8], version: u64) -> Result<T, ManifestFault> {
    let damaged = |what: &str| ManifestFault::Damaged(what.to_string());
    let value = json(text)?;
    let is_whole = match has_checksum(&value) {
        true => Some(has_its_checksum(text)),
        false => None,
    };
    match (version_of(&value)?, is_whole) {
        (_, Some(false)) => Err(damaged("does not have the checksum it names")),
        (found, _) if found != version => Err(ManifestFault::OtherVersion(found)),
        (_, None) => Err(damaged("has no checksum")),
        (_, Some(true)) => parsed(value),
    }
}

/// The text as JSON.
pub(super) fn json(text: &[u8]) -> Result<Value, ManifestFault> {
    serde_json::from_slice(text)
        .map_err(|error| ManifestFault::Damaged(format!("is no JSON: {error}")))
}

/// The version of the layout that a text names.
pub(super) fn version_of(value: &Value) -> Result<u64, ManifestFault> {
    let version = value.get("version").and_then(Value::as_u64);
    version.ok_or_else(|| ManifestFault::Damaged("has no version".to_string()))
}

/// Whether it names a checksum of its own.
pub(super) fn has_checksum(value: &Value) -> bool {
    value.get("checksum").is_some()
}

/// The value as what it is the JSON of.
pub(super) fn parsed<T: DeserializeOwned>(value: Value) -> Result<T, ManifestFault> {
    serde_json::from_value(value)
        .map_err(|error| ManifestFault::Damaged(format!("cannot be read: {error}")))
}

/// Why a manifest is of no use.
#[derive(Debug)]
pub(super) enum ManifestFault {
    /// Its bytes are not those that were written.
    Damaged(String),
    /// Another build wrote it.
    OtherVersion(u64),
}

/// Whether the text has the checksum that it names.
fn has_its_checksum(text: &[u8]) -> bool {
    let Some(at) = checksum_at(text) else {
        return false;
    };
    let digits = at..at + NO_CHECKSUM.len();
    let mut blank = text.to_vec();
    blank[digits.clone()].copy_from_slice(NO_CHECKSUM.as_bytes());
    format!("{:016x}", xxh3_64(&blank)).as_bytes() == &text[digits]
}

/// Where the digits of the checksum begin.
fn checksum_at(text: &[u8]) -> Option<usize> {
    let at = memchr::memmem::find(text, CHECKSUM_KEY.as_bytes())? + CHECKSUM_KEY.len();
    (text.len() >= at + NO_CHECKSUM.len()).then_some(at)
}
