// SPDX-License-Identifier: GPL-2.0

//! Making room: who gives, and which pages.
//!
//! One eviction runs at a time, under the lock of the VM list; whoever waited for it looks again
//! whether there is room before evicting more.

use crate::host::Host;
use crate::lists;
use crate::mutation::mutated;
use crate::notice::Fresh;
use crate::page::Bin;
use crate::registry::Roster;
use crate::session::Session;
use crate::shard::{Memory, Shard, SHARDS};
use ddabi::genl::Mode;
use ddcore::partition::{collect, entitle, victim};
use ddcore::store::{age, Reason, Storage, Store, BLOCK_PAGES};
use kernel::sync::atomic::ordering::Relaxed;

/// Rounds of eviction for one reservation: others may take the room that was made.
const ROUNDS: usize = 64;

/// Pages between two looks whether somebody still waits.
const ROUND: u64 = 4096;

/// Pages of one shard in a turn of the round.
const TURN: u64 = Fresh::SIZE as u64;

impl Host {
    /// Reserves room in the tier, and evicts for it if need be.
    pub(crate) fn make_room(&self, pages: u64) -> bool {
        if mutated(c"evicts-without-need") {
            self.evict_batch(&mut self.vms.lock());
        }
        for _ in 0..ROUNDS {
            if self.tier.reserve(pages) {
                return true;
            }
            if pages > self.tier.capacity() {
                return false;
            }
            let mut roster = self.vms.lock();
            if self.tier.reserve(pages) {
                return true;
            }
            let evicted = self.evict_batch(&mut roster);
            // Before others may look: they could take the room time and again. And if the victim
            // had just emptied itself, there is room all the same.
            if self.tier.reserve(pages) {
                return true;
            }
            if evicted == 0 {
                return false;
            }
        }
        false
    }

    /// Evicts until the tier is within its capacity.
    pub(crate) fn enforce_capacity(&self) {
        // An administrator who is killed waits no longer; puts evict what is left to evict.
        while self.tier.is_overfull() && !crate::ffi::is_dying() {
            if self.evict_batch(&mut self.vms.lock()) == 0 {
                break;
            }
            crate::ffi::breathe();
        }
    }

    /// Evicts one batch; says how many pages.
    fn evict_batch(&self, roster: &mut Roster) -> u64 {
        let batch = u64::from(self.tier.batch());
        let evicted = match self.tier.mode() {
            Mode::Weighted => self.evict_by_weight(roster, batch),
            Mode::GlobalFifo => self.evict_by_age(roster, batch),
        };
        self.tier.totals.eviction_batches.add(1);
        self.tier.totals.evicted.add(evicted);
        evicted
    }

    /// Algorithm 1 among the VMs, then among the pools of the victim: a guest with its pages in a
    /// thousand pools gives a batch like any other.
    fn evict_by_weight(&self, roster: &mut Roster, batch: u64) -> u64 {
        roster.entitle(self.tier.capacity());
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
            session.evict(pool as u32, pages)
        })
    }

    /// The oldest pages of all, whoever owns them, to within a batch.
    fn evict_by_age(&self, roster: &mut Roster, batch: u64) -> u64 {
        let now = self.tier.now();
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
            evicted += session.evict_aged(now, least, batch - evicted);
            if evicted >= batch {
                break;
            }
        }
        evicted
    }
}

impl Session {
    /// Evicts up to `pages` of a pool: of each shard in turn the oldest of the class that gives.
    /// Says how many.
    pub(crate) fn evict(&self, pool: u32, pages: u64) -> u64 {
        let Some(place) = self.place(pool) else {
            return 0;
        };
        let (order, now) = (place.policy().order(), self.tier.now());
        let mut evicted = 0;
        let mut dry = 0;
        while evicted < pages && dry < SHARDS {
            let turn = self.rotor.fetch_add(1, Relaxed) as usize;
            let Some(shard) = self.shards.get(turn % SHARDS) else {
                break;
            };
            // The class is chosen once a turn, and again if it has nothing left.
            let mut list = None;
            let got = self.evict_from(shard, TURN.min(pages - evicted), |store| {
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
        self.reading.expire();
        evicted
    }

    /// Evicts everything; the guest is told, as far as there is room for notices.
    pub(crate) fn evict_all(&self) {
        for pool in 0..self.pool_count() {
            self.evict_pool(pool);
        }
    }

    /// Evicts what a pool holds now. What comes meanwhile may stay: a guest that puts as fast as we
    /// evict must not keep us here. Who is killed stops early.
    pub(crate) fn evict_pool(&self, pool: u32) {
        let mut left = self.list(pool).used;
        while left > 0 && !crate::ffi::is_dying() {
            let got = self.evict(pool, left.min(ROUND));
            if got == 0 {
                break;
            }
            left -= got;
        }
    }

    /// Age of the oldest page.
    fn oldest_age(&self, now: u32) -> Option<u32> {
        let oldest = |shard: &Shard| {
            shard.with(&self.tier, |store| {
                let ages = (0..store.storage().lists().len())
                    .filter_map(|list| Some(age(now, store.oldest_stamp(list as u16)?)));
                ages.max()
            })
        };
        self.shards.iter().filter_map(oldest).max()
    }

    /// Evicts up to `pages` that are at least `least` old. Says how many.
    fn evict_aged(&self, now: u32, least: u32, pages: u64) -> u64 {
        let mut evicted = 0;
        for shard in self.shards.iter() {
            let mut list = 0;
            while evicted < pages {
                let got = self.evict_from(shard, TURN.min(pages - evicted), |store| {
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

    /// Evicts up to `pages` from a shard, as long as `choose` names a list. Says how many.
    #[inline(never)]
    fn evict_from(
        &self,
        shard: &Shard,
        pages: u64,
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
