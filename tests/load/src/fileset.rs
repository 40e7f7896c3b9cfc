// SPDX-License-Identifier: GPL-2.0-only

//! File sets, which are known before they exist.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rand::{RngCore as _, SeedableRng as _};
use rand_distr::{Distribution as _, Gamma};
use rand_pcg::Pcg64Mcg;

use crate::profile::{MIB, Shape};

/// Shape of the gamma distribution of sizes; Filebench's default.
const GAMMA: f64 = 1.5;
/// Sizes are cut off at this many times their mean, so that sets of few files have about the
/// intended size.
const MAX_FACTOR: f64 = 8.0;

/// One file of a set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct File {
    /// Path.
    pub path: PathBuf,
    /// Initial length.
    pub len: u64,
    /// Whether it exists at the start.
    pub present: bool,
}

/// Files of one kind below one directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileSet {
    files: Vec<File>,
}

impl FileSet {
    pub(crate) fn plan(dir: &Path, name: &str, shape: &Shape, seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let top = dir.join(name);
        let files = (0..shape.files).map(|number| File {
            path: path(&top, shape.dir_width, number),
            len: match shape.spread {
                true => spread_len(&mut rng, shape.file_size),
                false => shape.file_size,
            },
            present: rng.next_u64() % 100 < shape.present,
        });
        Self {
            files: files.collect(),
        }
    }

    /// Returns its files.
    #[must_use]
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Returns the bytes of the files that exist at the start.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let present = self.files.iter().filter(|file| file.present);
        present.map(|file| file.len).sum()
    }

    /// Puts the files into their initial state. Files that are in this state are left alone.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        for file in &self.files {
            let found = match fs::metadata(&file.path) {
                Ok(metadata) => Some(metadata.len()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
            match (file.present, found) {
                (true, Some(len)) if len == file.len => {}
                (true, _) => file.write()?,
                (false, Some(_)) => fs::remove_file(&file.path)?,
                (false, None) => {
                    if let Some(dir) = file.path.parent() {
                        fs::create_dir_all(dir)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the share of one of `threads` threads. Every file is in one share.
    pub(crate) fn share(&self, thread: u64, threads: u64) -> Vec<File> {
        let own = (0..).zip(&self.files);
        own.filter(|(number, _): &(u64, _)| number % threads == thread)
            .map(|(_, file)| file.clone())
            .collect()
    }
}

impl File {
    fn write(&self) -> io::Result<()> {
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir)?;
        }
        let mut rng = Pcg64Mcg::seed_from_u64(self.len);
        let mut block = vec![0; self.len.min(MIB) as usize];
        rng.fill_bytes(&mut block);
        let mut to = fs::File::create(&self.path)?;
        let mut rest = self.len;
        while rest > 0 {
            let part = &block[..rest.min(block.len() as u64) as usize];
            io::Write::write_all(&mut to, part)?;
            rest -= part.len() as u64;
        }
        Ok(())
    }
}

fn path(top: &Path, dir_width: Option<u64>, number: u64) -> PathBuf {
    match dir_width {
        Some(width) => top.join(format!("{:04}/{number:06}", number / width)),
        None => top.join(format!("{number:06}")),
    }
}

fn spread_len(rng: &mut Pcg64Mcg, mean: u64) -> u64 {
    let mean = mean as f64;
    let len = match Gamma::new(GAMMA, mean / GAMMA) {
        Ok(gamma) => gamma.sample(rng),
        // The parameters are positive, so that this does not happen. The mean is a valid size as
        // well.
        Err(_) => mean,
    };
    len.clamp(1.0, MAX_FACTOR * mean) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Load, Profile};

    #[test]
    fn plans_depend_on_the_seed_alone() {
        let plan = |seed| Load::new(Profile::Proxy, "/x").seed(seed).sets();
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }

    #[test]
    fn sizes_have_their_mean() {
        let sets = Load::new(Profile::Webserver, "/x").files(10_000).sets();
        let mean = sets[0].bytes() / 10_000;
        assert!((15_500..17_300).contains(&mean), "{mean}");
    }

    #[test]
    fn preparing_restores_the_files_that_a_run_changed() {
        let dir = tempfile::tempdir().unwrap();
        let load = Load::new(Profile::Mail, dir.path()).files(20);
        let set = &load.sets()[0];
        set.prepare().unwrap();
        let there = set.files().iter().find(|file| file.present).unwrap();
        let absent = set.files().iter().find(|file| !file.present).unwrap();
        fs::write(&there.path, "grown").unwrap();
        fs::write(&absent.path, "new").unwrap();
        set.prepare().unwrap();
        assert_eq!(fs::metadata(&there.path).unwrap().len(), there.len);
        assert!(!absent.path.exists());
    }

    #[test]
    fn shares_cover_every_file_once() {
        let set = &Load::new(Profile::Webserver, "/x").files(10).sets()[0];
        let mut all: Vec<_> = (0..3).flat_map(|thread| set.share(thread, 3)).collect();
        all.sort_by(|a, b| a.path.cmp(&b.path));
        assert_eq!(all, set.files());
    }
}
