// SPDX-License-Identifier: GPL-2.0-only

//! foyer's block engine, behind a memory part of one entry, which puts bypass.

use std::path::Path;

use anyhow::{Result, bail};
use foldhash::fast::FixedState;
use foyer::{
    BlockEngineConfig, DeviceBuilder as _, FileDeviceBuilder, HybridCache, HybridCacheBuilder,
    Load, RecoverMode,
};
use tokio::runtime::{Builder, Runtime};

use super::{
    SEGMENT,
    store::{Bytes, Page, Store},
};
use crate::peer::hasher;

/// A cache of foyer, whose tasks run in the thread that waits for them. Only reads and writes of
/// the file have threads of their own.
pub(super) struct Foyer {
    cache: HybridCache<u64, Vec<u8>, FixedState>,
    runtime: Runtime,
    /// Pages that were put since the last wait.
    waiting: u64,
}

impl Foyer {
    /// Creates a cache in the first `bytes` bytes of a file, which becomes as long as that.
    pub(super) fn new(path: &Path, bytes: u64) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let device = FileDeviceBuilder::new(path)
            .with_capacity(bytes as usize)
            .with_direct(true)
            .build()?;
        let builder = HybridCacheBuilder::new()
            .with_flush_on_close(false)
            .memory(1)
            .with_shards(1)
            .with_hash_builder(hasher())
            .storage()
            .with_engine_config(BlockEngineConfig::new(device))
            .with_recover_mode(RecoverMode::None);
        let cache = runtime.block_on(builder.build())?;
        Ok(Self {
            cache,
            runtime,
            waiting: 0,
        })
    }
}

impl Store for Foyer {
    fn put(&mut self, first: u64, pages: &[Page]) -> Result<()> {
        for (number, page) in (first..).zip(pages) {
            self.cache
                .storage_writer(number)
                .force()
                .insert(page.to_vec());
        }
        self.waiting += pages.len() as u64;
        // foyer drops puts if too many wait.
        match self.waiting >= SEGMENT {
            true => self.settle(),
            false => Ok(()),
        }
    }

    fn settle(&mut self) -> Result<()> {
        self.waiting = 0;
        self.runtime.block_on(self.cache.storage().wait());
        Ok(())
    }

    fn get(&mut self, first: u64, pages: &mut [Page]) -> Result<()> {
        let storage = self.cache.storage();
        self.runtime.block_on(async {
            // Reads at the same time would take more threads.
            for (number, page) in (first..).zip(pages) {
                let Load::Entry { value, .. } = storage.load(&number).await? else {
                    bail!("a page is missing");
                };
                page.copy_from_slice(&value);
            }
            Ok(())
        })
    }

    fn bytes(&self) -> Bytes {
        let statistics = self.cache.statistics();
        Bytes {
            written: statistics.disk_write_bytes() as u64,
            read: statistics.disk_read_bytes() as u64,
        }
    }
}
