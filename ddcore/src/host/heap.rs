// SPDX-License-Identifier: GPL-2.0-only

//! An owner of the engine on the heap, for the fuzz target, the simulator and the benchmark.
//!
//! It implements the traits of [`session`](super::session) and [`room`](super::room) once. The
//! trait [`Owner`] abstracts from the differences between its users.
//!
//! - [`lock`]: the lock of shards, queues and lists of VMs; [`pool`]: a slot for a pool;
//! - [`session`]: a registration with its index; [`vm`]: a VM that has one;
//! - [`device`]: a device of the SSD tier;
//! - [`vm_list`]: the VMs; [`stock`]: evicted pages that are kept; [`host`]: a tier with all of
//!   these.

mod device;
mod host;
mod lock;
mod pool;
mod session;
mod stock;
#[cfg(test)]
pub(super) mod tests;
mod vm;
mod vm_list;

pub use device::{Device, PoolKey};
pub use host::Host;
pub use lock::Lock;
pub use session::Session;
pub use stock::Stock;
pub use vm::Vm;
pub use vm_list::VmList;

use super::carried::Page;
use super::cause::Cause;
use super::room;
use super::session::TierKind;
use crate::host::evict::Freed;
use crate::index::{Held, Removed};
use core::sync::atomic::AtomicU64;
use ddabi::answer::Eviction;
use ddabi::pool::SsdAdmit;
use ddabi::request::Run;

/// The accounting of a tier on the heap.
pub type Tier = super::tier::Tier<AtomicU64>;

/// The differences between the users of this module. A value contains the state that a user adds to
/// its host.
///
/// Provided functions behave like the kernel module.
pub trait Owner: Sized {
    /// The lock for data that threads share.
    type Lock<T>: Lock<T>;
    /// A page of the tier's memory.
    type Page: Page;
    /// The owner's state of each session.
    type Session;
    /// A VM.
    type Vm: room::Vm<Session = Session<Self>>;

    /// Binary logarithm of the number of shards of a session, unless another one is given.
    const SHARD_BITS: u32;

    /// Converts an entry that was removed from the index of a session to its page.
    fn page(session: &Session<Self>, removed: Removed) -> Option<Self::Page>;

    /// Returns an additional owner of a page that is in the index.
    fn share_page(_session: &Session<Self>, _held: Held<'_>) -> Option<Self::Page> {
        None
    }

    /// Moves pages to places of the SSD tier.
    fn put_on_ssd(
        _session: &Session<Self>,
        _run: &Run,
        _pages: &mut [Option<Self::Page>],
        _counted: usize,
    ) -> Option<(usize, u64)> {
        None
    }

    /// Reads pages of the SSD tier.
    fn read_from_ssd(
        _session: &Session<Self>,
        _run: &Run,
        _pages: &mut [Option<Self::Page>],
    ) -> bool {
        false
    }

    /// Closes the segment that a pool fills, if it has this stamp or if `None` is given.
    fn close_segment(_session: &Session<Self>, _pool: u32, _stamp: Option<u64>) {}

    /// Returns the number of pages for which a pool has places in the SSD tier.
    fn places(_session: &Session<Self>, _pool: u32) -> u64 {
        0
    }

    /// Returns the weight of a pool in the SSD tier.
    #[inline]
    fn ssd_share(_session: &Session<Self>, _pool: u32) -> u32 {
        0
    }

    /// Returns which pages of a pool go to the SSD tier.
    #[inline]
    fn ssd_admit(_session: &Session<Self>, _pool: u32) -> SsdAdmit {
        SsdAdmit::All
    }

    /// Returns the weight of the VM of a session in the SSD tier.
    #[inline]
    fn vm_ssd_share(_session: &Session<Self>) -> u32 {
        0
    }

    /// Called after pages of a pool were evicted from a tier.
    fn tell_evicted(
        _session: &Session<Self>,
        _pool: u32,
        _tier: TierKind,
        _pages: u64,
        _cause: Cause,
    ) {
    }

    /// Called after pages of a pool were evicted because they may not go to the SSD tier.
    fn tell_unproven(_session: &Session<Self>, _pool: u32, _pages: u64) {}

    /// Called after pages of a pool moved to a tier.
    fn tell_relocated(_session: &Session<Self>, _pool: u32, _to: TierKind, _pages: u64) {}

    /// Returns the capacity of the SSD tier in pages.
    #[inline]
    fn ssd_pages(_host: &Host<Self>) -> u64 {
        0
    }

    /// Returns whether the index of a session gets more memory if it needs some.
    #[inline]
    fn has_index_memory(_session: &Session<Self>) -> bool {
        true
    }

    /// Queues eviction notices for the guest.
    fn announce(session: &Session<Self>, notices: &[Eviction]);

    /// Returns the clock for the ages of a session's pages.
    #[inline]
    fn now(session: &Session<Self>) -> u64 {
        session.clock.now()
    }

    /// Returns the stamp of pages that enter a session now.
    #[inline]
    fn stamp(session: &Session<Self>, pages: u64) -> u64 {
        session.tier().stamp(&session.clock, pages)
    }

    /// Fills `pages` with new pages while the host can spare memory or the tier is below its floor.
    /// Returns their number, which is 0 if pages have no data.
    fn allocate(
        _host: &Host<Self>,
        _pages: &mut [Option<Self::Page>],
        _below_floor: bool,
    ) -> usize {
        0
    }

    /// Returns the number of pages that the host can spare, which is not limited if pages have no
    /// data.
    fn spare(&self) -> u64 {
        u64::MAX / 2
    }

    /// Returns the NUMA node of a page, or `None` if there is only one.
    fn node(&self, _page: &Self::Page) -> Option<usize> {
        None
    }

    /// Returns the time in milliseconds since an arbitrary moment.
    fn milliseconds(&self) -> u64;

    /// Called after each eviction batch, with its pages.
    fn evicted(_host: &Host<Self>, _pages: &Freed) {}

    /// Returns the clock for ages while all pages are in one FIFO.
    fn common_time(host: &Host<Self>) -> u64 {
        host.tier.now()
    }

    /// Returns the time in which as many pages are put as an eviction batch has, in the same unit.
    fn batch_time(host: &Host<Self>) -> u64 {
        host.tier.batch_time()
    }
}
