// SPDX-License-Identifier: GPL-2.0-only

//! Opens files at paths where other users may have put something else.

use rustix::fs::OFlags;
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Opens a regular file for reading. The call neither waits, as for a pipe, nor follows symbolic
/// links. The type is checked on the opened file, because the path may change in the meantime.
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
        // To open a pipe without a writer would block.
        for name in ["pipe", "link", "none", ""] {
            assert!(open(&path(name)).is_err(), "{name}");
        }
    }
}
