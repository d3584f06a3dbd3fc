//! Which files a path names: one file, a directory with everything below it, or a pattern.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The local path of the option `path`: plain or a `file:` URL.
pub(super) fn local_path(path: &str) -> Result<PathBuf> {
    let local = match path.split_once(":/") {
        Some(("file", rest)) => match rest.strip_prefix('/') {
            Some(after_host) => after_host,
            None => return Ok(Path::new("/").join(rest)),
        },
        Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            return Err(Error::unsupported(format!("a path of scheme '{scheme}'"))
                .hint("use a local path, a file:// URL, or the URL of an object store such as s3://bucket/directory"));
        }
        _ => path,
    };
    if local.is_empty() {
        return Err(Error::user("the option 'path' is empty"));
    }
    Ok(PathBuf::from(local))
}

/// The files that `path` names, sorted by name. Names that begin with `.` or `_` inside directories are hidden, as in Flink.
pub(super) fn find_files(path: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if path.exists() {
        collect(path, &mut files)?;
    } else {
        collect_matching(path, &mut files)?;
    }
    files.sort();
    Ok(files)
}

/// Where a file is that `path` named when it was found: still there, or, where `path` names another place now and the file is gone from the old
/// one, the file of the same name below it. So input can be moved while its job lies still.
pub(super) fn found_again(path: &Path, file: &Path) -> Result<PathBuf> {
    let root = root_of(path);
    let is_below = !root.as_os_str().is_empty() && file.starts_with(&root);
    if is_below || file.exists() {
        return Ok(file.to_path_buf());
    }
    let same_name = |found: &PathBuf| {
        let below = found.strip_prefix(&root).unwrap_or(found);
        file.ends_with(below)
    };
    let mut moved = find_files(path)?.into_iter().filter(same_name);
    match (moved.next(), moved.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(Error::external(format!(
            "the file {} is gone, and no file of its name is in {}",
            file.display(),
            path.display()
        ))
        .hint("it has not been read to its end: put it back, or where it was below the table's 'path'")),
        (Some(one), Some(other)) => Err(Error::external(format!(
            "the file {} is gone, and may be {} or {} now",
            file.display(),
            one.display(),
            other.display()
        ))
        .hint("restore with the path that the table had")),
    }
}

/// The directory below which all files of a path lie.
fn root_of(path: &Path) -> PathBuf {
    if path.is_dir() {
        return path.to_path_buf();
    }
    let is_pattern = |part: &std::ffi::OsStr| part.to_string_lossy().contains(['*', '?', '[']);
    let parts: Vec<&std::ffi::OsStr> = path.iter().collect();
    let fixed = parts.iter().position(|part| is_pattern(part));
    // A pattern's last part, or that of a single file, names files.
    let above = fixed.unwrap_or(parts.len().saturating_sub(1));
    parts[..above].iter().collect()
}

fn collect_matching(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let text = path.to_string_lossy();
    if !text.contains(['*', '?', '[']) {
        return Err(
            Error::external(format!("there is no file or directory {text}")).hint(
                "paths that do not begin with / start in the directory in which the command runs",
            ),
        );
    }
    let matching = glob::glob(&text)
        .map_err(|error| Error::user(format!("the pattern {text} is wrong: {}", error.msg)))?;
    for found in matching {
        let found = found.map_err(|error| {
            let path = error.path().display().to_string();
            Error::external(format!("cannot look at {path}: {}", error.error()))
        })?;
        if !is_hidden(&found) {
            collect(&found, files)?;
        }
    }
    if files.is_empty() {
        return Err(Error::external(format!("no file matches {text}")));
    }
    Ok(())
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(|error| about(path, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| about(path, &error))?.path();
        if !is_hidden(&entry) {
            collect(&entry, files)?;
        }
    }
    Ok(())
}

fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(is_hidden_name)
}

/// Whether a file or a directory of this name is left out.
pub(super) fn is_hidden_name(name: &str) -> bool {
    name.starts_with(['.', '_'])
}

/// An error of the file system with the path that it is about, and how to mend it where that is plain.
pub(super) fn about(path: &Path, error: &std::io::Error) -> Error {
    use std::io::ErrorKind;
    let message = format!("{}: {error}", path.display());
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            Error::resource(message).hint(
                "make room there, or let 'path' name a directory on another disk; what was committed before is whole",
            )
        }
        ErrorKind::PermissionDenied => {
            Error::external(message).hint("give the user who runs the job the right to do so")
        }
        ErrorKind::ReadOnlyFilesystem => {
            Error::external(message).hint("let 'path' name a directory that can be written")
        }
        ErrorKind::NotADirectory => {
            Error::external(message).hint("a file stands where the path has a directory")
        }
        _ => Error::external(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_gives_all_visible_files_below_it_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("b/_hidden")).unwrap();
        for name in [
            "z.json",
            "b/a.json",
            ".part",
            "_SUCCESS",
            "b/_hidden/x.json",
        ] {
            fs::write(root.join(name), "").unwrap();
        }
        let found = find_files(root).unwrap();
        assert_eq!(found, [root.join("b/a.json"), root.join("z.json")]);
        let matching = find_files(&root.join("*.json")).unwrap();
        assert_eq!(matching, [root.join("z.json")]);
        assert!(find_files(&root.join("*.csv")).is_err());
        let missing = find_files(&root.join("nothing")).unwrap_err().to_string();
        assert!(
            missing.contains("there is no file or directory"),
            "{missing}"
        );
    }

    #[test]
    fn a_file_that_was_moved_is_found_below_the_new_path_and_no_other_is_taken_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let write = |name: &str| {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "").unwrap();
            root.join(name)
        };
        let old = write("old/day/a.json");
        let new = write("new/day/a.json");
        let found = |path: &str, file: &Path| found_again(&root.join(path), file);
        assert_eq!(found("old", &old).unwrap(), old);
        assert_eq!(found("new", &old).unwrap(), old, "it is still there");
        fs::remove_file(&old).unwrap();
        for path in [
            "new",
            "new/day",
            "new/day/a.json",
            "new/*/a.json",
            "new/day/*",
        ] {
            assert_eq!(found(path, &old).unwrap(), new, "{path}");
        }
        // The path is the same: the file is gone.
        write("old/a.json");
        assert_eq!(found("old", &old).unwrap(), old);
        let missing = found("new", &root.join("old/day/b.json")).unwrap_err();
        assert!(
            missing.to_string().contains("is gone, and no file"),
            "{missing}"
        );
        write("new/a.json");
        let unclear = found("new", &old).unwrap_err().to_string();
        assert!(unclear.contains("may be"), "{unclear}");
    }

    #[test]
    fn urls_of_files_are_paths() {
        assert_eq!(local_path("file:///a/b").unwrap(), Path::new("/a/b"));
        assert_eq!(local_path("file:/a/b").unwrap(), Path::new("/a/b"));
        assert_eq!(local_path("a/b").unwrap(), Path::new("a/b"));
        assert!(
            local_path("s3:/bucket/x")
                .unwrap_err()
                .to_string()
                .contains("'s3'")
        );
    }
}
