//! Where a table's files are: in a local directory or in an object store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{find_files, found_again, is_hidden_name, local_path};
use super::input::InputFile;
use crate::blobs::{BlobInfo, BlobStore, open_blobs};
use crate::error::{Error, Result};

/// What makes a part of a path a pattern.
const WILDCARDS: [char; 3] = ['*', '?', '['];

/// The meaning of the option `path`.
#[derive(Debug, Clone)]
pub(super) enum Location {
    /// Plain or a `file:` URL: a file, a directory or a pattern.
    Local(PathBuf),
    /// Any other URL.
    Objects(Objects),
}

/// Objects of a store.
#[derive(Debug, Clone)]
pub(super) struct Objects {
    /// The URL as far as it is no pattern, without a slash at the end.
    base: String,
    /// What stands behind it; the names of objects below it match.
    pattern: Option<String>,
    blobs: Arc<dyn BlobStore>,
}

/// A file that a table is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableFile {
    /// Its path or URL.
    pub(super) id: String,
    /// Its length, where finding it has told; a local one says it when it is opened.
    pub(super) bytes: Option<u64>,
}

impl Location {
    /// Reads the option's value; opens nothing yet.
    pub(super) fn parse(path: &str) -> Result<Self> {
        let is_remote = path
            .split_once("://")
            .is_some_and(|(scheme, _)| scheme != "file");
        if is_remote {
            Objects::parse(path).map(Location::Objects)
        } else {
            local_path(path).map(Location::Local)
        }
    }

    /// All files, by name, but for hidden ones.
    pub(super) fn files(&self) -> Result<Vec<TableFile>> {
        match self {
            Location::Local(path) => find_files(path)?.iter().map(|path| local(path)).collect(),
            Location::Objects(objects) => objects.files(),
        }
    }

    /// Opens a file that [`Location::files`] gave.
    pub(super) fn open(&self, file: &TableFile) -> Result<InputFile> {
        match self {
            Location::Local(path) => InputFile::local(&found_again(path, Path::new(&file.id))?),
            Location::Objects(objects) => objects.open(file),
        }
    }
}

fn local(path: &Path) -> Result<TableFile> {
    let id = path.to_str().ok_or_else(|| {
        Error::unsupported(format!(
            "a file name that is not UTF-8 ({})",
            path.display()
        ))
    })?;
    Ok(TableFile {
        id: id.to_string(),
        bytes: None,
    })
}

impl Objects {
    fn parse(url: &str) -> Result<Self> {
        let (base, pattern) = match url.find(WILDCARDS) {
            Some(at) => {
                let slash = url[..at].rfind('/').unwrap_or(at);
                (&url[..slash], Some(url[slash..].trim_start_matches('/')))
            }
            None => (url, None),
        };
        if base.ends_with("//") || base.ends_with(':') || base.ends_with(":/") {
            return Err(Error::user(format!(
                "'{url}' does not say which store: a pattern begins behind its name"
            )));
        }
        let base = base.trim_end_matches('/');
        Ok(Objects {
            base: base.to_string(),
            pattern: pattern.map(str::to_string),
            blobs: open_blobs(base)?,
        })
    }

    /// The store that a sink writes to.
    pub(super) fn sink(&self) -> Result<Arc<dyn BlobStore>> {
        match &self.pattern {
            None => Ok(self.blobs.clone()),
            Some(pattern) => Err(Error::user(format!(
                "a sink writes a directory, but {}/{pattern} is a pattern",
                self.base
            ))),
        }
    }

    fn files(&self) -> Result<Vec<TableFile>> {
        let mut found = self.blobs.list("")?;
        match &self.pattern {
            Some(pattern) => retain_matching(&mut found, pattern)?,
            None => found.retain(|blob| !blob.path.split('/').any(is_hidden_name)),
        }
        if !found.is_empty() {
            let id = |blob: BlobInfo| TableFile {
                id: format!("{}/{}", self.base, blob.path),
                bytes: Some(blob.bytes),
            };
            return Ok(found.into_iter().map(id).collect());
        }
        match &self.pattern {
            Some(pattern) => Err(Error::external(format!(
                "no object matches {}/{pattern}",
                self.base
            ))),
            None => self.single().map(|object| vec![object]),
        }
    }

    /// The object whose URL is the table's path.
    fn single(&self) -> Result<TableFile> {
        let missing = || {
            Error::external(format!("there is no object {} or below it", self.base))
                .hint("a sink that writes there makes the first ones with its first checkpoint")
        };
        let (above, name) = self.above().ok_or_else(missing)?;
        let found = open_blobs(above)?.list("")?.into_iter();
        let object = found.into_iter().find(|blob| blob.path == name);
        object.ok_or_else(missing).map(|blob| TableFile {
            id: self.base.clone(),
            bytes: Some(blob.bytes),
        })
    }

    /// The URL above the table's, and the name below it.
    fn above(&self) -> Option<(&str, &str)> {
        let (above, name) = self.base.rsplit_once('/')?;
        (!above.ends_with('/')).then_some((above, name))
    }

    fn open(&self, file: &TableFile) -> Result<InputFile> {
        let gone = || {
            Error::user(format!("{} is no object of {}", file.id, self.base))
                .hint("objects are read where they were when the job was started first: restore with the path that the table had")
        };
        let bytes = file.bytes.ok_or_else(gone)?;
        let (blobs, path) = match file.id.strip_prefix(&self.base) {
            Some("") => {
                let (above, name) = self.above().ok_or_else(gone)?;
                (open_blobs(above)?, name)
            }
            Some(rest) => (self.blobs.clone(), rest.trim_start_matches('/')),
            None => return Err(gone()),
        };
        Ok(InputFile::object(blobs, path, bytes))
    }
}

/// Keeps what matches, and what lies below something that does; nothing hidden.
fn retain_matching(found: &mut Vec<BlobInfo>, pattern: &str) -> Result<()> {
    let matcher = glob::Pattern::new(pattern.trim_end_matches('/'))
        .map_err(|error| Error::user(format!("the pattern {pattern} is wrong: {}", error.msg)))?;
    let options = glob::MatchOptions {
        require_literal_separator: true,
        require_literal_leading_dot: true,
        case_sensitive: true,
    };
    let matches = |path: &str| {
        let ends = path.match_indices('/').map(|(at, _)| at);
        ends.chain([path.len()])
            .any(|end| matcher.matches_with(&path[..end], options))
    };
    found.retain(|blob| matches(&blob.path) && !blob.path.split('/').any(is_hidden_name));
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn ids(path: &str) -> Vec<String> {
        let files = Location::parse(path).unwrap().files().unwrap();
        files.into_iter().map(|file| file.id).collect()
    }

    #[test]
    fn objects_are_found_below_a_url_by_pattern_or_by_name() {
        let blobs = open_blobs("memory://location-test/a").unwrap();
        for path in ["x.json", "b/y.json", ".hidden/z.json", "b/_part", "b/w.csv"] {
            blobs.put(path, Bytes::from_static(b"1")).unwrap();
        }
        let root = "memory://location-test/a";
        let all = ["b/w.csv", "b/y.json", "x.json"].map(|name| format!("{root}/{name}"));
        assert_eq!(ids(root), all);
        assert_eq!(ids(&format!("{root}/")), all);
        assert_eq!(ids(&format!("{root}/*.json")), [all[2].clone()]);
        assert_eq!(ids(&format!("{root}/?")), [all[0].clone(), all[1].clone()]);
        assert_eq!(ids(&format!("{root}/*/*.json")), [all[1].clone()]);
        assert_eq!(ids(&all[1]), [all[1].clone()]);
        for missing in ["nothing", "*.txt", "b/w.cs"] {
            let missing = Location::parse(&format!("{root}/{missing}")).unwrap();
            assert!(missing.files().is_err());
        }
        assert!(Location::parse("memory://*/x").is_err());
        let Location::Objects(objects) = Location::parse(&format!("{root}/*")).unwrap() else {
            panic!("a URL names objects");
        };
        assert!(objects.sink().is_err());
    }
}
