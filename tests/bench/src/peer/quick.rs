// SPDX-License-Identifier: GPL-2.0-only

//! `quick_cache`: a concurrent cache with an S3-FIFO-like policy.

use ddabi::key::PageKey;
use foldhash::fast::FixedState;
use quick_cache::{UnitWeighter, sync::Cache as QuickCache, sync::DefaultLifecycle};

use super::hasher;
use crate::{cache::Cache, mix::Run};

/// A cache of `quick_cache`.
pub(crate) struct Quick(QuickCache<PageKey, u64, UnitWeighter, FixedState>);

impl Quick {
    /// Creates a cache for a number of pages.
    pub(crate) fn new(pages: u64) -> Self {
        Self(QuickCache::with(
            pages as usize,
            pages,
            UnitWeighter,
            hasher(),
            DefaultLifecycle::default(),
        ))
    }
}

impl Cache for Quick {
    fn put(&self, runs: &[Run], frame: u64) {
        for (key, frame) in runs.iter().flat_map(Run::keys).zip(frame..) {
            self.0.insert(key, frame);
        }
    }

    fn get(&self, runs: &[Run], frames: &mut Vec<u64>) {
        let keys = runs.iter().flat_map(Run::keys);
        frames.extend(keys.filter_map(|key| Some(self.0.remove(&key)?.1)));
    }

    fn flush(&self, runs: &[Run]) -> usize {
        let keys = runs.iter().flat_map(Run::keys);
        keys.filter_map(|key| self.0.remove(&key)).count()
    }
}
