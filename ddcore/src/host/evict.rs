// SPDX-License-Identifier: GPL-2.0-only

//! Eviction of the oldest pages of a pool of a session, from one shard after the other. Pages of a
//! pool that uses both tiers are [demoted](super::relocate) instead.

use super::bin::Bin;
use super::carried::Page;
use super::cause::Cause;
use super::list::{self, is_ssd, ssd_list, victim};
use super::notice::Fresh;
use super::pressure::Gauge;
use super::relocate::demote;
use super::room::Stock;
use super::session::{Session, TierKind};
use crate::index::{age, Index, Reason, Storage, BLOCK_PAGES};
use crate::number::Number;
use crate::partition::{self, collect, entitle, Entity, Victims, POOL_VICTIMS};

/// Maximum number of pages that are evicted from a shard in a turn.
pub(super) const TURN: u64 = Fresh::SIZE as u64;

/// The pages that left the memory tier.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Freed {
    /// Number of pages that are no longer in any tier.
    pub evicted: u64,
    /// Number of pages that are in the SSD tier now.
    pub demoted: u64,
}

impl Freed {
    /// Returns the sum of both.
    pub const fn total(&self) -> u64 {
        self.evicted + self.demoted
    }

    /// Creates a value for pages that were all evicted.
    pub const fn evicted(pages: u64) -> Self {
        Self {
            evicted: pages,
            demoted: 0,
        }
    }
}

/// Parameters of an eviction by weight from a VM.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    /// Number of pages to which the VM is entitled.
    pub(super) entitlement: u64,
    /// Whether pages of pools that use both tiers are demoted, if the SSD tier admits them and
    /// currently accepts more.
    pub(super) demotes: bool,
    /// The reason.
    pub(super) cause: Cause,
}

/// Evicts up to `pages` pages of a pool: from one shard after the other, the oldest pages of the
/// class that the policy chooses. Adds them to `stock` if it is given. Returns their number.
pub fn evict<S: Session>(
    session: &S,
    (pool, cause): (u32, Cause),
    pages: u64,
    stock: Option<&impl Stock<S::Page>>,
) -> u64 {
    let Some(order) = session.order(pool) else {
        return 0;
    };
    let state = session.state();
    let now = session.now();
    let mut turn = state.next_shard.load();
    let (mut evicted, mut dry) = (0, 0);
    while evicted < pages && dry < session.shards() {
        let shard = turn as usize % session.shards();
        turn = turn.wrapping_add(1);
        // The class is chosen once per turn, and again if it has no pages left.
        let mut chosen = None;
        let got = from_shard(session, shard, TURN.min(pages - evicted), stock, |index| {
            if chosen.is_none_or(|list| list::used(index, list..list + 1) == 0) {
                chosen = Some(list::list(pool, victim(index, pool, order, now)?));
            }
            Some((chosen?, BLOCK_PAGES as u32))
        });
        evicted += got;
        dry = if got == 0 { dry + 1 } else { 0 };
        session.cond_resched();
    }
    state.next_shard.swap(turn);
    if evicted > 0 {
        state.reading.expire();
        session.tell_evicted(pool, TierKind::Memory, evicted, cause);
    }
    evicted
}

/// Evicts up to `max_pages` pages of a session, from one pool after the other. Queues as many
/// eviction notices for the guest as fit. Returns the number of pages.
pub fn evict_all<S: Session>(session: &S, max_pages: u64, cause: Cause) -> u64 {
    let mut evicted = 0;
    for pool in 0..session.pool_count() {
        if evicted == max_pages || session.is_empty() {
            break;
        }
        evicted += evict_pool(session, (pool, cause), max_pages - evicted);
    }
    evicted
}

/// Evicts up to `max_pages` of the pages that a pool has when the call begins. Pages that are put
/// during the call may stay, so that a guest that puts as fast as pages are evicted cannot delay
/// the caller forever. Returns the number of pages.
pub fn evict_pool<S: Session>(session: &S, (pool, cause): (u32, Cause), max_pages: u64) -> u64 {
    let Some(gauge) = session.gauge(pool) else {
        return 0;
    };
    let held = gauge.held().min(max_pages);
    let evicted = evict(session, (pool, cause), held, None::<&()>);
    // Pages that were demoted in the meantime are counted here.
    let rest = gauge.ssd().min(max_pages - evicted);
    evicted + evict_ssd(session, (pool, cause), rest, u64::MAX)
}

/// Evicts up to `pages` of the oldest pages of a pool in the SSD tier whose stamps are at most
/// `last`. Returns their number.
pub fn evict_ssd<S: Session>(
    session: &S,
    (pool, cause): (u32, Cause),
    pages: u64,
    last: u64,
) -> u64 {
    let list = ssd_list(pool);
    let mut evicted = 0;
    for shard in 0..session.shards() {
        while evicted < pages {
            let step = TURN.min(pages - evicted);
            let got = from_shard(session, shard, step, None::<&()>, |store| {
                let stamp = store.oldest_stamp(list)?;
                // The next block may belong to a segment that stays.
                (stamp <= last).then(|| (list, store.oldest_pages(list)))
            });
            if got == 0 {
                break;
            }
            evicted += got;
            session.cond_resched();
        }
    }
    if evicted > 0 {
        session.tell_evicted(pool, TierKind::Ssd, evicted, cause);
    }
    evicted
}

/// Returns the stamp of a pool's oldest pages in the SSD tier.
pub fn oldest_ssd_stamp<S: Session>(session: &S, pool: u32) -> Option<u64> {
    let oldest = |shard| session.with(shard, |store| store.oldest_stamp(ssd_list(pool)));
    (0..session.shards()).filter_map(oldest).min()
}

/// Removes up to `pages` pages of a session from the memory tier. Algorithm 1 chooses among the
/// pools, repeatedly if necessary, so that a guest with its pages in a thousand pools loses a full
/// batch like any other guest. Returns the numbers of pages.
///
/// If the VM uses spare pages of other VMs, its pools divide the pages that the VM has.
pub(super) fn evict_by_weight<S>(
    session: &S,
    pages: u64,
    how: Parameters,
    stock: Option<&impl Stock<S::Page>>,
) -> Freed
where
    S: Session<Page: Page>,
{
    let choose = || choose(session, pages, |used| how.entitlement.max(used));
    let mut demoted = 0;
    let all = collect(pages, pages, choose, |pool, pages| {
        let pool = pool as u32;
        let freed = match how.demotes && session.ssd_share(pool) > 0 {
            true => demote(session, (pool, how.cause), pages, stock),
            false => Freed::default(),
        };
        demoted += freed.demoted;
        let done = freed.total();
        done + evict(session, (pool, how.cause), pages - done, stock)
    });
    Freed {
        evicted: all - demoted,
        demoted,
    }
}

/// Evicts up to `pages` pages of a session by the weights of its pools, because the host needs
/// memory. Returns their number.
pub(super) fn shrink<S: Session>(session: &S, pages: u64) -> u64 {
    // The pools divide only the pages that will remain. A pool that has no more than its part of
    // them loses no page.
    let left = session.used().saturating_sub(pages);
    let choose = || choose(session, TURN, |_| left);
    collect(pages, TURN, choose, |pool, pages| {
        let pool = (pool as u32, Cause::Shortage);
        evict(session, pool, pages, None::<&()>)
    })
}

/// Chooses pools for evictions of `turn` pages each. `divide` maps the number of pages that the
/// pools have to the number that is divided among them.
fn choose<S: Session>(
    session: &S,
    turn: u64,
    divide: impl FnOnce(u64) -> u64,
) -> Victims<POOL_VICTIMS> {
    let mut victims = Victims::new();
    session.with_entities(|pools| {
        let pools = entities(session, pools);
        let used = partition::used(pools);
        entitle(pools, divide(used));
        victims.choose(pools, turn, POOL_VICTIMS);
    });
    victims
}

/// Writes the weight and the usage of each pool into `pools`, and returns the part of it that was
/// written.
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
        session.with(shard, |index| {
            let lists = (0..index.storage().lists().len() as u16).filter(|list| !is_ssd(*list));
            let ages = lists.filter_map(|list| Some(age(now, index.oldest_stamp(list)?)));
            ages.max()
        })
    };
    (0..session.shards()).filter_map(oldest).max()
}

/// Evicts up to `pages` pages whose age is at least `least`. Returns their number.
pub(super) fn evict_aged<S: Session>(
    session: &S,
    (now, least): (u64, u64),
    (pages, cause): (u64, Cause),
    stock: Option<&impl Stock<S::Page>>,
) -> u64 {
    let mut evicted = 0;
    for shard in 0..session.shards() {
        let mut list = 0;
        while evicted < pages {
            // A turn evicts from one list only, so that the pool of its pages is known afterwards.
            let mut chosen = None;
            let got = from_shard(session, shard, TURN.min(pages - evicted), stock, |index| {
                let lists = index.storage().lists().len();
                while list < lists {
                    let stamp = index.oldest_stamp(list as u16);
                    let is_old = stamp.is_some_and(|stamp| age(now, stamp) >= least);
                    if is_old && !is_ssd(list as u16) {
                        if chosen.is_some_and(|chosen| chosen != list) {
                            return None;
                        }
                        chosen = Some(list);
                        return Some((list as u16, BLOCK_PAGES as u32));
                    }
                    list += 1;
                }
                None
            });
            let Some(chosen) = chosen.filter(|_| got > 0) else {
                break;
            };
            evicted += got;
            let pool = list::pool(chosen as u16);
            session.tell_evicted(pool, TierKind::Memory, got, cause);
        }
    }
    evicted
}

/// Evicts up to `pages` pages from a shard, as long as `choose` returns a list, together with the
/// maximum number of pages to evict from it before `choose` is called again. Returns their number.
#[inline(never)]
pub(super) fn from_shard<S: Session>(
    session: &S,
    shard: usize,
    pages: u64,
    stock: Option<&impl Stock<S::Page>>,
    mut choose: impl FnMut(&Index<S::Storage>) -> Option<(u16, u32)>,
) -> u64 {
    let (mut bin, mut fresh) = (Bin::new(), Fresh::new());
    session.with(shard, |index| {
        let mut left = pages.min(TURN) as u32;
        while left > 0 {
            let Some((list, max_pages)) = choose(index) else {
                break;
            };
            // Blocks that follow in this list may be younger than those of another list, so that
            // `choose` is called again.
            let got = index.remove_oldest(list, left.min(max_pages), Reason::Eviction, |removed| {
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
