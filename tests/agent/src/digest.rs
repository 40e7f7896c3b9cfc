// SPDX-License-Identifier: GPL-2.0-only

//! Digest of a file tree.

/// The running digest of a tree. It covers for every regular file, in the order of paths, its
/// relative path, a zero byte, its length (64 bits, little-endian) and its content.
#[derive(Debug, Default)]
pub struct Tree(blake3::Hasher);

impl Tree {
    /// Returns the digest of no files.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins the next file, whose content follows through [`Tree::content`].
    pub fn file(&mut self, path: &str, len: u64) {
        self.0.update(path.as_bytes());
        self.0.update(&[0]);
        self.0.update(&len.to_le_bytes());
    }

    /// Adds the next bytes of the current file.
    pub fn content(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// Returns the digest in hex.
    #[must_use]
    pub fn finish(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_borders_count() {
        let digest = |files: &[(&str, &str)]| {
            let mut tree = Tree::new();
            for (path, content) in files {
                tree.file(path, content.len() as u64);
                tree.content(content.as_bytes());
            }
            tree.finish()
        };
        assert_ne!(digest(&[("a", "xy")]), digest(&[("b", "xy")]));
        assert_ne!(
            digest(&[("a", "x"), ("b", "y")]),
            digest(&[("a", ""), ("b", "xy")])
        );
    }
}
