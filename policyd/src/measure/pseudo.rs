// SPDX-License-Identifier: GPL-2.0-only

//! Reads files of procfs, sysfs and cgroupfs.

use std::{fs::File, io::Read, path::Path};

/// Reads such files with one buffer, because a measurement reads thousands. Their length is
/// reported as 0, so that a reader that relies on it would read in small pieces.
#[derive(Debug)]
pub(super) struct Pseudo(Vec<u8>);

/// Size of the first read, which most files fit.
const ENOUGH: usize = 8 << 10;
/// Size that no such file reaches.
const MAX_BYTES: usize = 1 << 20;

impl Pseudo {
    pub(super) fn new() -> Self {
        Self(vec![0; ENOUGH])
    }

    /// Returns the content of a file; `None` if it cannot be read, or is not UTF-8.
    pub(super) fn read(&mut self, path: &Path) -> Option<&str> {
        let mut file = File::open(path).ok()?;
        let mut length = 0;
        loop {
            if length == self.0.len() {
                if length >= MAX_BYTES {
                    return None;
                }
                self.0.resize(length * 2, 0);
            }
            match file.read(&mut self.0[length..]).ok()? {
                0 => break,
                more => length += more,
            }
        }
        std::str::from_utf8(&self.0[..length]).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::write;
    use tempfile::TempDir;

    #[test]
    fn files_of_any_length_are_read_whole() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("file");
        let mut pseudo = Pseudo::new();
        assert_eq!(pseudo.read(&path), None);
        for length in [0, 1, ENOUGH - 1, ENOUGH, ENOUGH + 1, 5 * ENOUGH, 3] {
            let text = "x".repeat(length);
            write(&path, &text).unwrap();
            assert_eq!(pseudo.read(&path), Some(text.as_str()));
        }
        write(&path, [0xff]).unwrap();
        assert_eq!(pseudo.read(&path), None);
        write(&path, vec![b'x'; MAX_BYTES + 1]).unwrap();
        assert_eq!(pseudo.read(&path), None);
    }
}
