//! The state backend that the options of a session ask for.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::SessionConfig;
use crate::error::{Error, Result};
use crate::state::{
    CompactionStyle, HashMapStateBackend, RocksDbOptions, RocksDbStateBackend, StateBackend,
};

/// The backend that `state.backend.type` names, new for this run.
///
/// Fails where the name or a value is none, and where RocksDB finds no room on the local disk.
pub(super) fn state_backend(config: &SessionConfig) -> Result<Arc<dyn StateBackend>> {
    match backend_name(config) {
        "hashmap" => Ok(Arc::new(HashMapStateBackend)),
        "rocksdb" => Ok(Arc::new(RocksDbStateBackend::open(rocksdb_options(config)?)?)),
        other => Err(Error::unsupported(format!("the state backend '{other}'"))
            .hint("set state.backend.type to hashmap, which keeps keyed state in memory, or rocksdb, which keeps it there and on disk")),
    }
}

fn backend_name(config: &SessionConfig) -> &str {
    let set = |wanted: &str| config.explicit().find(|(key, _)| *key == wanted);
    let old = set("state.backend").filter(|_| set("state.backend.type").is_none());
    match old {
        Some((_, name)) => name,
        None => config.get("state.backend.type").unwrap_or("hashmap"),
    }
}

fn rocksdb_options(config: &SessionConfig) -> Result<RocksDbOptions> {
    let key = |rest: &str| format!("state.backend.rocksdb.{rest}");
    let has_filters = config.boolean(&key("use-bloom-filter"));
    let bits = number(config, &key("bloom-filter.bits-per-key"), 1.0..=100.0)?;
    let style = config.get(&key("compaction.style")).unwrap_or("LEVEL");
    Ok(RocksDbOptions {
        local_directory: local_directory(config.get(&key("localdir")))?,
        memory_bytes: memory_bytes(config)?,
        write_buffer_ratio: number(config, &key("memory.write-buffer-ratio"), 0.0..=1.0)?,
        threads: number(config, &key("thread.num"), 1.0..=64.0)?.max(2.0) as usize,
        block_bytes: block_bytes(config, &key("block.blocksize"))?,
        bloom_bits_per_key: has_filters.then_some(bits),
        compaction_style: match style.eq_ignore_ascii_case("universal") {
            true => CompactionStyle::Universal,
            false => CompactionStyle::Level,
        },
        ..RocksDbOptions::default()
    })
}

fn memory_bytes(config: &SessionConfig) -> Result<usize> {
    const KEY: &str = "state.backend.memory";
    match config.memory_bytes(KEY) {
        0 => Err(
            Error::user(format!("'{KEY}' is 0: no key could be at hand"))
                .hint(format!("SET '{KEY}' = '256 mb'")),
        ),
        bytes => Ok(bytes),
    }
}

/// The directory that `state.backend.rocksdb.localdir` names; Flink takes several, we one.
fn local_directory(path: Option<&str>) -> Result<PathBuf> {
    let Some(path) = path else {
        return Ok(std::env::temp_dir());
    };
    if path.contains(',') {
        return Err(Error::unsupported(
            "more than one directory in 'state.backend.rocksdb.localdir'",
        )
        .hint("name one; disks can be joined below it"));
    }
    Ok(PathBuf::from(path.strip_prefix("file://").unwrap_or(path)))
}

fn number(config: &SessionConfig, key: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64> {
    let text = config.get(key).unwrap_or_default();
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        let (least, greatest) = range.into_inner();
        Error::user(format!(
            "'{text}' is no value for the option '{key}' of the session: it must be from {least} to {greatest}"
        ))
    })
}

fn block_bytes(config: &SessionConfig, key: &str) -> Result<usize> {
    let bytes = config.memory_bytes(key);
    if (1 << 10..=1 << 20).contains(&bytes) {
        return Ok(bytes);
    }
    Err(Error::user(format!(
        "{bytes} bytes is no value for the option '{key}' of the session: it must be from 1 kb to 1 mb"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(options: &[(&str, &str)]) -> SessionConfig {
        let mut config = SessionConfig::default();
        for (key, value) in options {
            config.set(key, value).unwrap();
        }
        config
    }

    #[test]
    fn the_type_is_hashmap_by_default_and_the_new_key_comes_first() {
        assert_eq!(backend_name(&config(&[])), "hashmap");
        assert_eq!(
            backend_name(&config(&[("state.backend", "rocksdb")])),
            "rocksdb"
        );
        let both = [
            ("state.backend", "rocksdb"),
            ("state.backend.type", "hashmap"),
        ];
        assert_eq!(backend_name(&config(&both)), "hashmap");
    }

    #[test]
    fn defaults_are_those_of_the_options() {
        assert_eq!(
            rocksdb_options(&config(&[])).unwrap(),
            RocksDbOptions::default()
        );
    }

    #[test]
    fn options_reach_rocksdb() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().to_str().unwrap();
        let config = config(&[
            ("state.backend.type", "rocksdb"),
            ("state.backend.memory", "16 mb"),
            ("state.backend.rocksdb.localdir", path),
            ("state.backend.rocksdb.use-bloom-filter", "false"),
            ("state.backend.rocksdb.compaction.style", "UNIVERSAL"),
        ]);
        let options = rocksdb_options(&config).unwrap();
        assert_eq!(options.memory_bytes, 16 << 20);
        assert_eq!(options.bloom_bits_per_key, None);
        assert_eq!(options.compaction_style, CompactionStyle::Universal);
        let backend = state_backend(&config).unwrap();
        assert_eq!(backend.name(), "rocksdb");
        assert!(backend.local_directory().starts_with(parent.path()));
        assert!(backend.memory_budget().unwrap().total_bytes() < 16 << 20);
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        for (key, value, word) in [
            ("state.backend.type", "filesystem", "hashmap"),
            ("state.backend.rocksdb.localdir", "/a,/b", "one"),
            (
                "state.backend.rocksdb.memory.write-buffer-ratio",
                "2",
                "from 0 to 1",
            ),
            ("state.backend.rocksdb.block.blocksize", "100", "1 kb"),
        ] {
            let mut options = config(&[("state.backend.type", "rocksdb")]);
            options.set(key, value).unwrap();
            let error = state_backend(&options).unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::User);
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
