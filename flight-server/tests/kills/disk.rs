//! Disks that fail: full ones, and files that lost their end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::job::{Job, collect};

/// Takes the last byte from the largest data file of a checkpoint's directory; gives the file.
pub(crate) fn truncate_largest(directory: &Path) -> PathBuf {
    let mut files = Vec::new();
    collect(directory, &mut |path| {
        if path.file_name().is_some_and(|name| name != "manifest.json") {
            files.push((fs::metadata(path).unwrap().len(), path.to_path_buf()));
        }
    });
    let (bytes, path) = files.into_iter().max().expect("a checkpoint has files");
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(bytes - 1).unwrap();
    path
}

/// A disk without room below a job's checkpoints.
pub(crate) enum FullDisk {
    /// A small file system in memory, mounted over the checkpoints.
    Mounted(PathBuf),
    /// No file may grow beyond some size.
    Limited,
}

impl FullDisk {
    /// A small file system where this process may mount one; else a limit on the size of files, which the process is told of as an error.
    pub(crate) fn over(job: &mut Job) -> FullDisk {
        let directory = job.checkpoints();
        fs::create_dir_all(&directory).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"])
            .arg(&directory)
            .output()
            .is_ok_and(|output| output.status.success());
        if mounted {
            return FullDisk::Mounted(directory);
        }
        // Blocks of 512 bytes.
        job.wrapper = Some("trap '' XFSZ; ulimit -f 16; exec \"$@\"".to_string());
        FullDisk::Limited
    }

    pub(crate) fn how(&self) -> &'static str {
        match self {
            FullDisk::Mounted(_) => "a file system of 16 kB",
            FullDisk::Limited => {
                "a limit on the size of files (no file system may be mounted here)"
            }
        }
    }

    /// The disk has room again.
    pub(crate) fn give_room(&self, job: &mut Job) {
        match self {
            FullDisk::Limited => job.wrapper = None,
            FullDisk::Mounted(directory) => {
                let grown = Command::new("mount")
                    .args(["-o", "remount,size=256m"])
                    .arg(directory)
                    .status();
                assert!(grown.is_ok_and(|status| status.success()));
            }
        }
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        if let FullDisk::Mounted(directory) = self {
            let _ = Command::new("umount").arg(directory).status();
        }
    }
}
