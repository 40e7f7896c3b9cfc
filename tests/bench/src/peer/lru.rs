// SPDX-License-Identifier: GPL-2.0-only

//! `lru`: a hash table with a list, behind one lock that is taken once for each batch.

use std::{num::NonZeroUsize, sync::Mutex};

use ddabi::key::PageKey;
use foldhash::fast::FixedState;
use lru::LruCache;

use super::hasher;
use crate::{cache::Cache, mix::Run};

/// A cache of `lru`.
pub(crate) struct Lru(Mutex<LruCache<PageKey, u64, FixedState>>);

impl Lru {
    /// Creates a cache for a number of pages.
    pub(crate) fn new(pages: u64) -> Self {
        let pages = NonZeroUsize::new(pages as usize).unwrap_or(NonZeroUsize::MIN);
        Self(Mutex::new(LruCache::with_hasher(pages, hasher())))
    }
}

impl Cache for Lru {
    fn put(&self, runs: &[Run], frame: u64) {
        let mut cache = self.0.lock().expect("no panic under the lock");
        for (key, frame) in runs.iter().flat_map(Run::keys).zip(frame..) {
            cache.put(key, frame);
        }
    }

    fn get(&self, runs: &[Run], frames: &mut Vec<u64>) {
        let mut cache = self.0.lock().expect("no panic under the lock");
        let keys = runs.iter().flat_map(Run::keys);
        frames.extend(keys.filter_map(|key| cache.pop(&key)));
    }

    fn flush(&self, runs: &[Run]) -> usize {
        let mut cache = self.0.lock().expect("no panic under the lock");
        let keys = runs.iter().flat_map(Run::keys);
        keys.filter_map(|key| cache.pop(&key)).count()
    }
}
