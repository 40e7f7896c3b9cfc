// SPDX-License-Identifier: GPL-2.0-only

//! Deterministic file content, which is known outside of the machines that read it.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Write},
    path::Path,
};

use ddagent::digest::Tree;

/// One file of known content.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileSpec {
    /// Path relative to the filesystem's root.
    pub path: String,
    /// Length in bytes.
    pub len: u64,
    /// Seed of the content. Equal seeds give equal bytes.
    pub seed: u64,
}

impl FileSpec {
    /// Returns a file.
    pub fn new(path: impl Into<String>, len: u64, seed: u64) -> Self {
        Self {
            path: path.into(),
            len,
            seed,
        }
    }

    /// Returns a reader of the content.
    #[must_use]
    pub fn reader(&self) -> impl Read + use<> {
        stream(self.seed).take(self.len)
    }

    /// Returns the blake3 digest of the content in hex.
    #[must_use]
    pub fn digest(&self) -> String {
        self.digest_range(0, self.len)
    }

    /// Returns the blake3 digest of a part of the content in hex.
    #[must_use]
    pub fn digest_range(&self, offset: u64, len: u64) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut content = stream(self.seed);
        content.set_position(offset);
        copy(
            content.take(len.min(self.len.saturating_sub(offset))),
            |part| {
                hasher.update(part);
            },
        );
        hasher.finalize().to_hex().to_string()
    }

    /// Writes the file below `root`, with its directories.
    ///
    /// # Errors
    ///
    /// Returns the errors of the filesystem.
    pub fn write_below(&self, root: &Path) -> io::Result<()> {
        let path = root.join(&self.path);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        io::copy(&mut self.reader(), &mut file)?;
        file.flush()
    }
}

/// Returns `count` files `dir/NNN/NNNNNN`, a hundred in each directory.
#[must_use]
pub fn small_files(dir: &str, count: u64, len: u64, seed: u64) -> Vec<FileSpec> {
    (0..count)
        .map(|n| FileSpec::new(format!("{dir}/{:03}/{n:06}", n / 100), len, seed + n))
        .collect()
}

/// Returns the agent's tree digest of directory `dir` if it contains `files` and no others.
#[must_use]
pub fn tree_digest(files: &[FileSpec], dir: &str) -> String {
    let prefix = format!("{}/", dir.trim_matches('/'));
    let mut below: Vec<(&str, &FileSpec)> = files
        .iter()
        .filter_map(|file| Some((file.path.strip_prefix(&prefix)?, file)))
        .collect();
    below.sort_by(|a, b| a.0.split('/').cmp(b.0.split('/')));
    let mut tree = Tree::new();
    for (path, file) in below {
        tree.file(path, file.len);
        copy(file.reader(), |part| tree.content(part));
    }
    tree.finish()
}

fn stream(seed: u64) -> blake3::OutputReader {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof()
}

fn copy(mut from: impl Read, mut to: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 1 << 16];
    // The generator never fails.
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        to(&buffer[..n]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_files_have_the_promised_content() {
        let dir = tempfile::tempdir().unwrap();
        let file = FileSpec::new("a/b", 100_001, 7);
        file.write_below(dir.path()).unwrap();
        let bytes = std::fs::read(dir.path().join("a/b")).unwrap();
        assert_eq!(bytes.len(), 100_001);
        assert_eq!(blake3::hash(&bytes).to_hex().as_str(), file.digest());
        assert_eq!(
            blake3::hash(&bytes[4096..8192]).to_hex().as_str(),
            file.digest_range(4096, 4096)
        );
        assert_ne!(file.digest(), FileSpec::new("a/b", 100_001, 8).digest());
    }
}
