// SPDX-License-Identifier: GPL-2.0-only

//! The number of places that pools and sessions have.

use crate::memory::gfp_nowarn;
use kernel::alloc::AllocError;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::sync::Arc;

/// The number of places that the segments of a pool, or of all pools of a session, have.
pub(crate) struct Holding {
    places: Atomic<u64>,
    all: Option<Arc<Holding>>,
    /// A number for the write streams of devices, which differs from that of other pools.
    pub(crate) stream: u32,
}

impl Holding {
    /// Creates the holding of a session, or that of a pool if `all`, the holding of its session, is
    /// given.
    pub(crate) fn new(all: Option<Arc<Holding>>) -> Result<Arc<Self>, AllocError> {
        static STREAMS: Atomic<u32> = Atomic::new(0);
        let this = Self {
            places: Atomic::new(0),
            all,
            stream: STREAMS.fetch_add(1, Relaxed),
        };
        Arc::new(this, gfp_nowarn())
    }

    pub(crate) fn places(&self) -> u64 {
        self.places.load(Relaxed)
    }

    pub(crate) fn add(&self, places: u64) {
        self.places.add(places, Relaxed);
        if let Some(all) = &self.all {
            all.add(places);
        }
    }

    pub(crate) fn subtract(&self, places: u64) {
        self.places.fetch_sub(places, Relaxed);
        if let Some(all) = &self.all {
            all.subtract(places);
        }
    }
}
