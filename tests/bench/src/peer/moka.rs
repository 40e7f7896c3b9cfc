// SPDX-License-Identifier: GPL-2.0-only

//! `moka`: a concurrent cache with a TinyLFU policy.

use ddabi::key::PageKey;
use foldhash::fast::FixedState;

use super::hasher;
use crate::{cache::Cache, mix::Run};

/// A cache of `moka`.
pub(crate) struct Moka(moka::sync::Cache<PageKey, u64, FixedState>);

impl Moka {
    /// Creates a cache for a number of pages.
    pub(crate) fn new(pages: u64) -> Self {
        let builder = moka::sync::Cache::builder().max_capacity(pages);
        Self(builder.build_with_hasher(hasher()))
    }
}

impl Cache for Moka {
    fn put(&self, runs: &[Run], frame: u64) {
        for (key, frame) in runs.iter().flat_map(Run::keys).zip(frame..) {
            self.0.insert(key, frame);
        }
    }

    fn get(&self, runs: &[Run], frames: &mut Vec<u64>) {
        let keys = runs.iter().flat_map(Run::keys);
        frames.extend(keys.filter_map(|key| self.0.remove(&key)));
    }

    fn flush(&self, runs: &[Run]) -> usize {
        let keys = runs.iter().flat_map(Run::keys);
        keys.filter_map(|key| self.0.remove(&key)).count()
    }
}
