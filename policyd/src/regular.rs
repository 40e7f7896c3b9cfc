// SPDX-License-Identifier: GPL-2.0-only

//! Opening files at paths that others may have put something else at.

use rustix::fs::OFlags;
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Opens a regular file for reading. It is neither waited for, as a pipe would be, nor followed
/// elsewhere; and it is the opened file that is looked at, for what is at the path may change.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no regular file",
        ));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mkfifoat};
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn only_files_are_opened() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("file"), "x").unwrap();
        mkfifoat(CWD, path("pipe"), Mode::RWXU).unwrap();
        symlink(path("file"), path("link")).unwrap();
        assert!(open(&path("file")).is_ok());
        // A pipe without a writer would be waited for.
        for name in ["pipe", "link", "none", ""] {
            assert!(open(&path(name)).is_err(), "{name}");
        }
    }
}
