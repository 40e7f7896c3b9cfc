// SPDX-License-Identifier: GPL-2.0-only

//! Disturbances of a churn: reclaim and other readers.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::PathBuf,
    sync::{
        RwLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use ddhelper::churn::{Plan, Random};
use memmap2::{Advice, Mmap};

use crate::files::Tree;

/// Reclaim and reading beside the steps.
///
/// They do not change the result of any step, and make pages leave the page cache and be read again
/// while the steps change them.
#[derive(Debug)]
pub(crate) struct Disturbances {
    /// Locked shared while a file is open or reclaimed from, because the filesystem cannot be
    /// unmounted then.
    pub(crate) gate: RwLock<()>,
    /// Set when the steps are done.
    pub(crate) done: AtomicBool,
    /// The control file for reclaim.
    pub(crate) reclaim: PathBuf,
}

impl Disturbances {
    /// Reclaims pages of this cgroup until the steps are done.
    pub(crate) fn reclaim(&self, seed: u64) {
        let mut rng = Random::new(seed);
        while !self.done.load(Ordering::Relaxed) {
            let open = self.gate.read().unwrap_or_else(|e| e.into_inner());
            // Less memory is reclaimed (EAGAIN) if there is no more.
            let _ = fs::write(&self.reclaim, format!("{}K", rng.within(64, 1024)));
            drop(open);
            thread::sleep(Duration::from_millis(rng.within(5, 50)));
        }
    }

    /// Reads random files until the steps are done. The content may be from before or after a step
    /// under way, and is not checked.
    pub(crate) fn read(&self, tree: &Tree, plan: &Plan) {
        let mut rng = Random::new(plan.seed ^ 1);
        let mut buffer = vec![0; 128 << 10];
        while !self.done.load(Ordering::Relaxed) {
            let open = self.gate.read().unwrap_or_else(|e| e.into_inner());
            // The number of files has 32 bits.
            let path = tree.path(rng.below(plan.files.into()) as u32);
            if let Ok(file) = File::open(path) {
                if rng.chance(30) {
                    populate(&file);
                } else {
                    let end = rng.below(buffer.len() as u64) as usize;
                    let _ = file.read_at(&mut buffer[..end], rng.below(plan.longest));
                }
            }
            drop(open);
            thread::sleep(Duration::from_millis(rng.within(2, 30)));
        }
    }
}

/// Maps all pages of a file without touching them, because it may be truncated at any time.
pub(crate) fn populate(file: &File) {
    // SAFETY: no byte of the mapping is looked at.
    if let Ok(map) = unsafe { Mmap::map(file) } {
        let _ = map.advise(Advice::PopulateRead);
    }
}
