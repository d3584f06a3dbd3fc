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
/// Fails where the name or the directory is none, and where RocksDB finds no room on the local disk.
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
    let bits = config.double(&key("bloom-filter.bits-per-key"));
    let style = config.get(&key("compaction.style")).unwrap_or("LEVEL");
    Ok(RocksDbOptions {
        local_directory: local_directory(config.get(&key("localdir")))?,
        memory_bytes: config.memory_bytes("state.backend.memory"),
        write_buffer_ratio: config.double(&key("memory.write-buffer-ratio")),
        threads: config.integer(&key("thread.num")).max(2) as usize,
        block_bytes: config.memory_bytes(&key("block.blocksize")),
        bloom_bits_per_key: has_filters.then_some(bits),
        compaction_style: match style.eq_ignore_ascii_case("universal") {
            true => CompactionStyle::Universal,
            false => CompactionStyle::Level,
        },
        ..RocksDbOptions::default()
    })
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
        ] {
            let mut options = config(&[("state.backend.type", "rocksdb")]);
            options.set(key, value).unwrap();
            let error = state_backend(&options).unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::User);
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
