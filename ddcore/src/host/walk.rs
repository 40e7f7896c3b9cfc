// SPDX-License-Identifier: GPL-2.0-only

//! Operations on whole shards, in steps. Each step takes the shard's lock, and the scheduler may
//! run other tasks between two steps.

use super::bin::{self, Bin};
use super::cause::Cause;
use super::list::{self, all_lists, lists, same_class, ssd_list};
use super::notice::Fresh;
use super::session::{Session, TierKind};
use super::steps::{in_steps, Effort, Part, Work};
use super::tally::Tally;
use crate::index::{Cursor, Index, List, Reason, Removed, Storage, Walk};
use crate::ssd::place::Place;
use core::cell::{Cell, RefCell};
use core::ops::Range;
use ddabi::key::FileKey;

/// Maximum number of pages that are removed or moved in one step under a shard's lock.
pub(super) const STEP: u32 = bin::SIZE as u32;

/// Repeats a step on a shard's index until it returns [`Walk::Done`]. Returns the number of pages
/// that the step has put into its bin.
fn walk<S: Session>(
    session: &S,
    shard: usize,
    step: impl FnMut(&mut Index<S::Storage>, &mut Bin<S::Page>) -> Walk,
) -> u64 {
    walk_with(session, shard, step, || ())
}

/// Like [`walk`]. Calls `settled` after each step, without the lock.
fn walk_with<S: Session>(
    session: &S,
    shard: usize,
    mut step: impl FnMut(&mut Index<S::Storage>, &mut Bin<S::Page>) -> Walk,
    mut settled: impl FnMut(),
) -> u64 {
    let mut freed = 0;
    // A walk restarts if the entry at its cursor is removed, which a guest could cause
    // indefinitely. The number of steps is therefore bounded, and pages that remain are evicted
    // later.
    let limit = 64 + (session.used() + session.state().ssd()) / 8;
    for _ in 0..limit {
        let mut bin = Bin::new();
        let walk = session.with(shard, |index| step(index, &mut bin));
        bin.settle(session);
        settled();
        freed += bin.count() as u64;
        drop(bin);
        if walk == Walk::Done {
            break;
        }
        session.cond_resched();
    }
    freed
}

/// Returns the shards that task number `task` drains, if `tasks` tasks drain a session of `count`
/// shards.
pub const fn shards_of_task(task: usize, tasks: usize, count: usize) -> Range<usize> {
    task * count / tasks..(task + 1) * count / tasks
}

/// Frees all pages of some shards of a session. Several tasks may do this for one session. Returns
/// the number of pages.
pub fn drain<S: Session>(session: &S, shards: Range<usize>) -> u64 {
    let drain = |shard| {
        let mut cursor = Cursor::default();
        walk(session, shard, |index, bin| {
            let reason = Reason::Flush;
            let sink = |removed| bin.add(session, removed);
            index.sweep(&mut cursor, STEP, reason, |_| true, sink)
        })
    };
    shards.map(drain).sum()
}

/// Evicts all pages of a session that are on a device of the SSD tier, and queues notices of them
/// for the guest, whose page cache may have pages that stayed on the device: without a notice, they
/// would not be put again. Returns the number of pages.
pub fn drop_device<S: Session>(session: &S, device: usize) -> u64 {
    let drop = |shard| {
        let mut cursor = Cursor::default();
        // The pools and the keys of the pages of a step, which are reported without the lock.
        let pools = [const { Cell::new(0) }; Fresh::SIZE];
        let count = Cell::new(0);
        let fresh = RefCell::new(Fresh::new());
        let step = |index: &mut Index<S::Storage>, bin: &mut Bin<S::Page>| {
            let sink = |removed: Removed| {
                if let Some(pool) = pools.get(count.get()) {
                    pool.set(list::pool(removed.list()));
                    count.set(count.get() + 1);
                }
                fresh.borrow_mut().add(&removed);
                bin.add(session, removed);
            };
            let is_on = |upper| Place::device_of_upper(upper) == Some(device);
            index.sweep_handles(
                &mut cursor,
                Fresh::SIZE as u32,
                Reason::Eviction,
                is_on,
                sink,
            )
        };
        walk_with(session, shard, step, || {
            session.announce(fresh.borrow().as_slice());
            fresh.borrow_mut().clear();
            for same in pools[..count.replace(0)].chunk_by(|one, other| one == other) {
                let pages = same.len() as u64;
                session.tell_evicted(same[0].get(), TierKind::Ssd, pages, Cause::Device);
            }
        })
    };
    (0..session.shards()).map(drop).sum()
}

/// Frees all pages of a pool that is destroyed. Returns their number.
pub fn empty<S: Session>(session: &S, pool: u32) -> u64 {
    let empty = |shard| {
        walk(session, shard, |index, bin| {
            let mut left = STEP;
            for list in all_lists(pool) {
                let sink = |removed| bin.add(session, removed);
                left -= index.remove_oldest(list, left, Reason::Flush, sink);
            }
            match left {
                0 => Walk::More,
                _ => Walk::Done,
            }
        })
    };
    (0..session.shards()).map(empty).sum()
}

/// Moves the pages of a file to a pool, where they keep their class, until `effort` is used up.
pub fn migrate<S: Session>(session: &S, file: &FileKey, pool: u32, effort: &mut Effort) -> Part {
    let mut moved = 0;
    let now = session.now();
    let to = |list| same_class(list, pool);
    let work = Work::Migrate(*file, pool);
    let part = in_steps(session, work, effort, |index, cursor, _| {
        index.migrate(file, (to, now), cursor, STEP, |from, pages| {
            moved += u64::from(pages);
            let (mut target, mut source) = (Tally::new(), Tally::new());
            target.added(session, to(from), pages as usize);
            target.add(session);
            source.removed(session, from, pages as usize);
            source.subtract(session);
        })
    });
    Part {
        pages: moved,
        ..part
    }
}

/// Returns the counters of a pool in a tier, summed over all shards and classes.
pub fn counted<S: Session>(session: &S, pool: u32, tier: TierKind) -> List {
    let mut sum = List::default();
    let lists = match tier {
        TierKind::Memory => lists(pool),
        TierKind::Ssd => ssd_list(pool)..ssd_list(pool) + 1,
    };
    for shard in 0..session.shards() {
        session.with(shard, |index| {
            for list in lists.clone() {
                if let Some(list) = index.storage().lists().get(usize::from(list)) {
                    sum.merge(list);
                }
            }
        });
    }
    sum
}
