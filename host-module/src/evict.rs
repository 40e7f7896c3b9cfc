// SPDX-License-Identifier: GPL-2.0

//! Making room: who gives, and which pages.
//!
//! One eviction runs at a time, under the lock of the VM list. A task that waited for the lock
//! looks again whether there is room before it evicts more.
//!
//! The tier is full when it holds its capacity, or all that the host can spare. In the second case
//! a put fills the pages that were evicted for it, by weight as ever, and needs no other memory.

use crate::host::Host;
use crate::lists;
use crate::mutation::mutated;
use crate::notice::Fresh;
use crate::page::{Bin, Page};
use crate::registry::Roster;
use crate::session::Session;
use crate::shard::{Memory, Shard, SHARDS};
use crate::stock::Stock;
use ddabi::genl::Mode;
use ddcore::partition::{collect, collect_in_turns, entitle, victim, Entity};
use ddcore::store::{age, Reason, Storage, Store, BLOCK_PAGES};
use kernel::prelude::*;
use kernel::sync::atomic::ordering::Relaxed;

/// Rounds of eviction for one reservation: others may take the room that was made.
const ROUNDS: usize = 64;

/// Pages evicted between two checks whether the calling task was killed.
const ROUND: u64 = 4096;

/// Pages of one shard in a turn of the round.
const TURN: u64 = Fresh::SIZE as u64;

/// Pages that a VM gives to the shrinker in a turn.
const VM_TURN: u64 = 8 * TURN;

impl Host {
    /// Reserves room in the tier for `pages`, or for as many as there can be, and evicts for it if
    /// need be. Returns how many pages there is room for: all of these, or none.
    pub(crate) fn make_room(&self, pages: u64) -> u64 {
        if mutated(c"evicts-without-need") {
            self.evict_batch(&mut self.vms.lock(), None);
        }
        if mutated(c"spare-unlent") {
            self.take_back();
        }
        for _ in 0..ROUNDS {
            if self.tier.reserve(pages) {
                return pages;
            }
            self.tier.recover();
            let pages = pages.min(self.tier.limit());
            if self.tier.reserve(pages) {
                return pages;
            }
            let mut roster = self.vms.lock();
            if self.tier.reserve(pages) {
                return pages;
            }
            let stock = self.tier.is_scarce().then_some(&self.stock);
            let evicted = self.evict_batch(&mut roster, stock);
            // Reserve while the list is still locked, or another task could take the room every
            // time. Do so even if nothing was evicted: the victim may have emptied itself.
            if self.tier.reserve(pages) {
                return pages;
            }
            if evicted == 0 {
                break;
            }
        }
        0
    }

    /// Evicts from a VM that has more than it is entitled to: a test has nothing lent.
    fn take_back(&self) {
        let mut roster = self.vms.lock();
        roster.entitle(self.tier.limit());
        let exceeds = |vm: &Entity| vm.used > vm.entitlement;
        if roster.entities().iter().any(exceeds) {
            self.evict_batch(&mut roster, None);
        }
    }

    /// Gets pages for a put that has room reserved for them; returns how many.
    pub(crate) fn fill(&self, pages: &mut [Option<Page>]) -> usize {
        let mut got = self.stock.take(pages);
        // The room for these pages is reserved, and so a part of what is used.
        let below_floor = self.tier.used() <= self.tier.floor() && !mutated(c"floor-empty");
        got += Page::allocate(&mut pages[got..], below_floor);
        if got < pages.len() && !mutated(c"puts-not-recycled") {
            got += self.recycle(&mut pages[got..]);
        }
        got
    }

    /// Gets pages by eviction, because the kernel has none for the caller. The limit falls to what
    /// the tier holds, and what lies idle on nodes that the caller may not use. Returns how many.
    fn recycle(&self, pages: &mut [Option<Page>]) -> usize {
        let missing = pages.len() as u64;
        let mut roster = self.vms.lock();
        let held = (self.tier.used() + self.stock.len()).saturating_sub(missing);
        self.tier.lower_limit(held + crate::ffi::spare_pages());
        let mut got = 0;
        for _ in 0..ROUNDS {
            got += self.stock.take(&mut pages[got..]);
            if got == pages.len() || self.evict_batch(&mut roster, Some(&self.stock)) == 0 {
                break;
            }
        }
        got
    }

    /// Takes pages back whose content is gone. While the host is short the next puts fill them.
    pub(crate) fn retire(&self, pages: &mut [Option<Page>]) {
        if self.tier.is_scarce() {
            self.stock.add(pages);
        }
        pages.fill_with(|| None);
    }

    /// Gives up to `pages` back to a host that is short of memory, and no longer counts on them;
    /// returns how many.
    pub(crate) fn shrink(&self, roster: &mut Roster, pages: u64) -> u64 {
        let pages = pages.min(crate::shrinker::count(self));
        let stocked = self.stock.give_back(pages);
        let used = self.tier.used();
        let pages = (pages - stocked).min(used.saturating_sub(self.tier.floor()));
        self.tier.lower_limit(used - pages);
        stocked
            + match self.tier.mode() {
                Mode::Weighted => self.shrink_by_weight(roster, pages),
                Mode::GlobalFifo => self.evict_by_age(roster, pages, None),
            }
    }

    /// Evicts until the tier is within its capacity.
    pub(crate) fn enforce_capacity(&self) {
        if mutated(c"capacity-unenforced") {
            return;
        }
        // An administrator who is killed waits no longer; puts evict what is left to evict.
        while self.tier.is_overfull() && !crate::ffi::is_dying() {
            if self.evict_batch(&mut self.vms.lock(), None) == 0 {
                break;
            }
            crate::ffi::breathe();
        }
    }

    /// Evicts one batch, whose pages go to the stock if one is given. Returns their number.
    fn evict_batch(&self, roster: &mut Roster, stock: Option<&Stock>) -> u64 {
        let batch = u64::from(self.tier.batch());
        let evicted = match self.tier.mode() {
            Mode::Weighted => self.evict_by_weight(roster, batch, stock),
            Mode::GlobalFifo => self.evict_by_age(roster, batch, stock),
        };
        self.tier.totals.eviction_batches.add(1);
        self.tier.totals.evicted.add(evicted);
        evicted
    }

    /// Algorithm 1 among the VMs, then among the pools of the victim: a guest with its pages in a
    /// thousand pools gives a batch like any other.
    fn evict_by_weight(&self, roster: &mut Roster, batch: u64, stock: Option<&Stock>) -> u64 {
        roster.entitle(self.tier.limit());
        let Some(at) = victim(roster.entities(), batch) else {
            return 0;
        };
        let vm = roster.entities()[at];
        let Some(session) = roster.session(at) else {
            return 0;
        };
        // A VM that uses its peers' spare pages divides these like its own: its pools share what
        // it holds.
        let pages = vm.entitlement.max(vm.used);
        let pools = roster.scratch();
        session.entities(pools);
        entitle(pools, pages);
        collect(pools, batch, |pool, pages| {
            session.evict(pool as u32, pages, stock)
        })
    }

    /// The same in turns, for the little that the kernel asks for at a time: a whole batch of one
    /// VM, or of one pool, would be most of what it has if there are many.
    fn shrink_by_weight(&self, roster: &mut Roster, pages: u64) -> u64 {
        roster.entitle(self.tier.limit());
        let (vms, entities, pools) = roster.parts();
        if mutated(c"capacity-alone") {
            // From all by what they hold, whatever their weights.
            for vm in entities.iter_mut() {
                vm.weight = vm.used as u32;
            }
            let used: u64 = entities.iter().map(|vm| vm.used).sum();
            entitle(entities, used.saturating_sub(pages));
        }
        if mutated(c"shrinks-in-order") {
            let first = entities.iter().position(|vm| vm.used > 0).unwrap_or(0);
            for vm in entities.iter_mut().skip(first + 1) {
                vm.used = 0;
            }
        }
        collect_in_turns(entities, pages, VM_TURN, |at, pages| {
            let session = vms.get(at).and_then(|vm| vm.session());
            session.map_or(0, |session| session.shrink(pages, pools))
        })
    }

    /// Evicts the oldest pages of all VMs, to within a batch.
    fn evict_by_age(&self, roster: &mut Roster, batch: u64, stock: Option<&Stock>) -> u64 {
        let now = self.tier.clock.now();
        let sessions = || (0..roster.vms().len()).filter_map(|at| roster.session(at));
        let Some(oldest) = sessions()
            .filter_map(|session| session.oldest_age(now))
            .max()
        else {
            return 0;
        };
        let least = oldest.saturating_sub(self.tier.batch_ticks());
        let mut evicted = 0;
        for session in sessions() {
            evicted += session.evict_aged((now, least), batch - evicted, stock);
            if evicted >= batch {
                break;
            }
        }
        evicted
    }
}

impl Session {
    /// Gives up to `pages` to the shrinker, by the weights of the pools, and returns their number.
    /// `pools` is memory for computing entitlements.
    fn shrink(&self, pages: u64, pools: &mut KVec<Entity>) -> u64 {
        self.entities(pools);
        let used: u64 = pools.iter().map(|pool| pool.used).sum();
        // Only what will be left is divided: a pool within its part of that gives nothing.
        entitle(pools, used.saturating_sub(pages));
        collect_in_turns(pools, pages, TURN, |pool, pages| {
            self.evict(pool as u32, pages, None)
        })
    }

    /// Evicts up to `pages` of a pool: of each shard in turn the oldest of the class that gives.
    /// They go to the stock if one is given. Returns their number.
    pub(crate) fn evict(&self, pool: u32, pages: u64, stock: Option<&Stock>) -> u64 {
        let Some(place) = self.place(pool) else {
            return 0;
        };
        let (order, now) = (place.policy().order(), self.clock.now());
        let mut evicted = 0;
        let mut dry = 0;
        while evicted < pages && dry < SHARDS {
            let turn = self.rotor.fetch_add(1, Relaxed) as usize;
            let Some(shard) = self.shards.get(turn % SHARDS) else {
                break;
            };
            // The class is chosen once a turn, and again if it has nothing left.
            let mut list = None;
            let got = self.evict_from(shard, TURN.min(pages - evicted), stock, |store| {
                if !list.is_some_and(|list| lists::has_pages(store, list)) {
                    let class = lists::victim(store, pool, order, now)?;
                    list = Some(lists::list(pool, class as u8));
                }
                list
            });
            evicted += got;
            dry = if got == 0 { dry + 1 } else { 0 };
            crate::ffi::breathe();
        }
        if evicted > 0 {
            self.reading.expire();
        }
        evicted
    }

    /// Evicts everything; the guest is told, as far as there is room for notices.
    pub(crate) fn evict_all(&self) {
        for pool in 0..self.pool_count() {
            self.evict_pool(pool);
        }
    }

    /// Evicts what a pool holds now. Pages put during the call may stay, so that a guest that puts
    /// as fast as pages are evicted cannot keep the caller here. Returns early if the caller is
    /// killed.
    pub(crate) fn evict_pool(&self, pool: u32) {
        let mut left = self.list(pool).used;
        while left > 0 && !crate::ffi::is_dying() {
            let got = self.evict(pool, left.min(ROUND), None);
            if got == 0 {
                break;
            }
            left -= got;
        }
    }

    /// Age of the oldest page.
    fn oldest_age(&self, now: u64) -> Option<u64> {
        let oldest = |shard: &Shard| {
            shard.with(&self.tier, |store| {
                let ages = (0..store.storage().lists().len())
                    .filter_map(|list| Some(age(now, store.oldest_stamp(list as u16)?)));
                ages.max()
            })
        };
        self.shards.iter().filter_map(oldest).max()
    }

    /// Evicts up to `pages` that are at least `least` old. Returns their number.
    fn evict_aged(&self, (now, least): (u64, u64), pages: u64, stock: Option<&Stock>) -> u64 {
        let mut evicted = 0;
        for shard in self.shards.iter() {
            let mut list = 0;
            while evicted < pages {
                let got = self.evict_from(shard, TURN.min(pages - evicted), stock, |store| {
                    let lists = store.storage().lists().len();
                    while list < lists {
                        let stamp = store.oldest_stamp(list as u16);
                        if stamp.is_some_and(|stamp| age(now, stamp) >= least) {
                            return Some(list as u16);
                        }
                        list += 1;
                    }
                    None
                });
                if got == 0 {
                    break;
                }
                evicted += got;
            }
        }
        evicted
    }

    /// Evicts up to `pages` from a shard, as long as `choose` names a list. Returns their number.
    #[inline(never)]
    fn evict_from(
        &self,
        shard: &Shard,
        pages: u64,
        stock: Option<&Stock>,
        mut choose: impl FnMut(&Store<Memory>) -> Option<u16>,
    ) -> u64 {
        let (mut bin, mut fresh) = (Bin::new(), Fresh::new());
        shard.with(&self.tier, |store| {
            let mut left = pages.min(TURN) as u32;
            while left > 0 {
                let Some(list) = choose(store) else { break };
                // No more than a block at a time, for the next may be younger.
                let step = left.min(BLOCK_PAGES as u32);
                let got = store.remove_oldest(list, step, Reason::Eviction, |page| {
                    fresh.add(&page);
                    bin.add(page);
                });
                if got == 0 {
                    break;
                }
                left -= got;
            }
        });
        self.went(bin.count());
        if let Some(stock) = stock {
            stock.add(bin.pages());
        }
        self.announce(&fresh);
        bin.count() as u64
    }

    fn announce(&self, fresh: &Fresh) {
        if mutated(c"evictions-untold") {
            return;
        }
        let mut lost = 0;
        let mut notices = self.notices.lock();
        for notice in fresh.as_slice() {
            if !notices.add(notice) {
                lost += 1;
            }
        }
        drop(notices);
        if lost > 0 {
            self.tier.totals.notices_lost.add(lost);
        }
    }
}
