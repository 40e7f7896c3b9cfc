// SPDX-License-Identifier: GPL-2.0-only

//! `foyer-memory`: the in-memory half of foyer, in FIFO order.

use ddabi::key::PageKey;
use foldhash::fast::FixedState;
use foyer_memory::{Cache as FoyerCache, CacheBuilder, CacheProperties, FifoConfig};

use super::hasher;
use crate::{cache::Cache, mix::Run};

/// A cache of `foyer-memory`.
pub(crate) struct Foyer(FoyerCache<PageKey, u64, FixedState, CacheProperties>);

impl Foyer {
    /// Creates a cache for a number of pages.
    pub(crate) fn new(pages: u64) -> Self {
        let builder = CacheBuilder::new(pages as usize)
            .with_shards(16)
            .with_eviction_config(FifoConfig::default())
            .with_hash_builder(hasher());
        Self(builder.build())
    }
}

impl Cache for Foyer {
    fn put(&self, runs: &[Run], frame: u64) {
        for (key, frame) in runs.iter().flat_map(Run::keys).zip(frame..) {
            self.0.insert(key, frame);
        }
    }

    fn get(&self, runs: &[Run], frames: &mut Vec<u64>) {
        let keys = runs.iter().flat_map(Run::keys);
        frames.extend(keys.filter_map(|key| self.0.remove(&key).map(|entry| *entry.value())));
    }

    fn flush(&self, runs: &[Run]) -> usize {
        let keys = runs.iter().flat_map(Run::keys);
        keys.filter_map(|key| self.0.remove(&key)).count()
    }
}
