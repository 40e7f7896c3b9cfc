// SPDX-License-Identifier: GPL-2.0-only

//! Files that the kernel makes up while they are read.

use std::{fs::File, io::Read, path::Path};

/// Reads such files, thousands in a look. They say that they are empty, so that a reader that goes by
/// their length reads them in small pieces.
#[derive(Debug)]
pub(super) struct Pseudo(Vec<u8>);

/// More than most files have.
const ENOUGH: usize = 8 << 10;
/// More than any file has.
const MOST: usize = 1 << 20;

impl Pseudo {
    pub(super) fn new() -> Self {
        Self(vec![0; ENOUGH])
    }

    /// Returns what a file says; `None` if it cannot be read, or is no text.
    pub(super) fn read(&mut self, path: &Path) -> Option<&str> {
        let mut file = File::open(path).ok()?;
        let mut length = 0;
        loop {
            if length == self.0.len() {
                if length >= MOST {
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
        write(&path, vec![b'x'; MOST + 1]).unwrap();
        assert_eq!(pseudo.read(&path), None);
    }
}
