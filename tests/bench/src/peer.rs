// SPDX-License-Identifier: GPL-2.0-only

//! The peers: caches in general use, and the structure of the paper.
//!
//! All use the same fast hasher, and none copies data. A get takes the page out, as in an exclusive
//! cache.

mod foyer;
mod lru;
mod moka;
mod objects;
mod quick;

pub(crate) use self::{foyer::Foyer, lru::Lru, moka::Moka, objects::Objects, quick::Quick};

use foldhash::fast::FixedState;

/// Returns the hasher of all peers.
pub(crate) fn hasher() -> FixedState {
    FixedState::with_seed(7)
}
