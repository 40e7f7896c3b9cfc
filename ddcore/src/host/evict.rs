// SPDX-License-Identifier: GPL-2.0-only

//! Eviction within a session: the oldest pages of a pool, from one shard after the other.

use super::bin::Bin;
use super::list::{self, victim};
use super::notice::Fresh;
use super::pressure::Gauge;
use super::room::Stock;
use super::session::Session;
use super::walk::counted;
use crate::number::Number;
use crate::partition::{collect, entitle, Entity, Victims, POOL_VICTIMS};
use crate::store::{age, Reason, Storage, Store, BLOCK_PAGES};

/// Pages of one shard in a turn.
pub(super) const TURN: u64 = Fresh::SIZE as u64;

/// Pages evicted between two checks whether the calling task was killed.
const ROUND: u64 = 4096;

/// Evicts up to `pages` of a pool: from each shard in turn, the oldest of the class that the policy
/// chooses. They go to a stock if one is given. Returns their number.
pub fn evict<S: Session>(
    session: &S,
    pool: u32,
    pages: u64,
    stock: Option<&impl Stock<S::Page>>,
) -> u64 {
    let Some(order) = session.order(pool) else {
        return 0;
    };
    let ledger = session.ledger();
    let now = session.now();
    let mut turn = ledger.rotor.load();
    let (mut evicted, mut dry) = (0, 0);
    while evicted < pages && dry < S::SHARDS {
        let shard = turn as usize % S::SHARDS;
        turn = turn.wrapping_add(1);
        // The class is chosen once per turn, and again if it has no page left.
        let mut chosen = None;
        let got = from_shard(session, shard, TURN.min(pages - evicted), stock, |store| {
            if chosen.is_none_or(|list| list::used(store, list..list + 1) == 0) {
                chosen = Some(list::list(pool, victim(store, pool, order, now)?));
            }
            chosen
        });
        evicted += got;
        dry = if got == 0 { dry + 1 } else { 0 };
        session.cond_resched();
    }
    ledger.rotor.swap(turn);
    if evicted > 0 {
        ledger.reading.expire();
    }
    evicted
}

/// Evicts all pages of a session. The guest gets notices, as far as there is room for them.
pub fn evict_all<S: Session>(session: &S) {
    for pool in 0..session.pool_count() {
        evict_pool(session, pool);
    }
}

/// Evicts the pages that a pool holds now. Pages put during the call may stay, so that a guest that
/// puts as fast as pages are evicted cannot keep the caller here. Returns early if the calling task
/// is killed.
pub fn evict_pool<S: Session>(session: &S, pool: u32) {
    let mut left = counted(session, pool).used;
    while left > 0 && !session.is_dying() {
        let got = evict(session, pool, left.min(ROUND), None::<&()>);
        if got == 0 {
            break;
        }
        left -= got;
    }
}

/// Evicts up to `pages` of a session, by Algorithm 1 among its pools: a guest with its pages in a
/// thousand pools gives a batch like any other. Returns their number.
///
/// `entitlement` is that of the VM. If it uses spare pages of its peers, its pools share what it
/// holds.
pub(super) fn evict_by_weight<S: Session>(
    session: &S,
    pages: u64,
    entitlement: u64,
    stock: Option<&impl Stock<S::Page>>,
) -> u64 {
    let choose = || choose(session, pages, |used| entitlement.max(used));
    collect(pages, pages, choose, |pool, pages| {
        evict(session, pool as u32, pages, stock)
    })
}

/// Evicts up to `pages` of a session by the weights of its pools, because the host needs memory.
/// Returns their number.
pub(super) fn shrink<S: Session>(session: &S, pages: u64) -> u64 {
    // Only the pages that will be left are divided: a pool within its part of them gives none.
    let left = session.used().saturating_sub(pages);
    let choose = || choose(session, TURN, |_| left);
    collect(pages, TURN, choose, |pool, pages| {
        evict(session, pool as u32, pages, None::<&()>)
    })
}

/// Chooses the pools of evictions of `turn` pages. `divide` returns the pages that are divided among
/// the pools, from the number that they hold.
fn choose<S: Session>(
    session: &S,
    turn: u64,
    divide: impl FnOnce(u64) -> u64,
) -> Victims<POOL_VICTIMS> {
    let mut victims = Victims::new();
    session.with_entities(|pools| {
        let pools = entities(session, pools);
        let used = pools.iter().map(|pool| pool.used).sum();
        entitle(pools, divide(used));
        victims.choose(pools, turn, POOL_VICTIMS);
    });
    victims
}

/// Writes weight and use of each pool into `pools`, which has room for all, and returns that part
/// of it.
pub(super) fn entities<'a, S: Session>(session: &S, pools: &'a mut [Entity]) -> &'a mut [Entity] {
    let count = (session.pool_count() as usize).min(pools.len());
    let pools = &mut pools[..count];
    for (number, pool) in (0..).zip(pools.iter_mut()) {
        *pool = Entity {
            weight: session.share(number),
            entitlement: 0,
            used: session.gauge(number).map_or(0, Gauge::held),
        };
    }
    pools
}

/// Returns the age of a session's oldest page.
pub(super) fn oldest_age<S: Session>(session: &S, now: u64) -> Option<u64> {
    let oldest = |shard| {
        session.with(shard, |store| {
            let ages = (0..store.storage().lists().len())
                .filter_map(|list| Some(age(now, store.oldest_stamp(list as u16)?)));
            ages.max()
        })
    };
    (0..S::SHARDS).filter_map(oldest).max()
}

/// Evicts up to `pages` that are at least `least` old. Returns their number.
pub(super) fn evict_aged<S: Session>(
    session: &S,
    (now, least): (u64, u64),
    pages: u64,
    stock: Option<&impl Stock<S::Page>>,
) -> u64 {
    let mut evicted = 0;
    for shard in 0..S::SHARDS {
        let mut list = 0;
        while evicted < pages {
            let got = from_shard(session, shard, TURN.min(pages - evicted), stock, |store| {
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
fn from_shard<S: Session>(
    session: &S,
    shard: usize,
    pages: u64,
    stock: Option<&impl Stock<S::Page>>,
    mut choose: impl FnMut(&Store<S::Storage>) -> Option<u16>,
) -> u64 {
    let (mut bin, mut fresh) = (Bin::new(), Fresh::new());
    session.with(shard, |store| {
        let mut left = pages.min(TURN) as u32;
        while left > 0 {
            let Some(list) = choose(store) else { break };
            // Take at most a block at a time, because the next block may be younger.
            let step = left.min(BLOCK_PAGES as u32);
            let got = store.remove_oldest(list, step, Reason::Eviction, |removed| {
                fresh.add(&removed);
                bin.add(session, removed);
            });
            if got == 0 {
                break;
            }
            left -= got;
        }
    });
    bin.settle(session);
    if let Some(stock) = stock {
        stock.add(bin.pages());
    }
    session.announce(fresh.as_slice());
    bin.count() as u64
}
