// SPDX-License-Identifier: GPL-2.0-only

//! Runs of pages, spread over the shards of an index.

use super::bin::Bin;
use super::list::list;
use super::session::{Count, Session};
use super::tally::Tally;
use crate::index::{Batch, Group, Held, List, Part, Reason, Removed, Storage};
use core::cell::Cell;
use ddabi::key::PageKey;
use ddabi::request::Run;

/// Sorts the pages of runs by shard, a batch at a time, and calls `work` with the parts of each
/// shard.
///
/// Each run is paired with the position of its first page among the caller's pages. The batch must
/// be empty, and is empty afterwards. The caller provides it because it is too large for a kernel
/// stack.
#[inline]
pub fn by_shard<S: Session>(
    session: &S,
    batch: &mut Batch,
    runs: impl Iterator<Item = (Run, usize)>,
    mut work: impl FnMut(usize, &Group<'_>),
) {
    let mut work = |batch: &mut Batch| {
        batch.by_shard(session.shard_bits(), |shard, group| work(shard, &group));
    };
    for (run, position) in runs {
        let pages = run.pages as usize;
        let mut done = 0;
        loop {
            let first = PageKey {
                file: run.file,
                index: run.index + done as u64,
            };
            let at = (position + done, list(run.pool, run.class));
            done += batch.add(session.hasher(), &first, pages - done, at);
            if done == pages {
                break;
            }
            work(batch);
        }
    }
    work(batch);
}

/// Inserts runs into the index. `handles` has one handle for each page, by position, and `kept` is
/// called for each part that was inserted. Parts are not inserted if there is no memory for the
/// index. The caller must have reserved room in the tier for all pages. Returns the number of pages
/// that were inserted.
///
/// Older copies of the pages are removed, unless there is no memory for the index.
#[inline(never)]
pub fn insert<S: Session>(
    session: &S,
    batch: &mut Batch,
    runs: impl Iterator<Item = (Run, usize)>,
    (handles, stamp): (&[u64], u64),
    mut kept: impl FnMut(&Part),
) -> usize {
    let mut total = 0;
    by_shard(session, batch, runs, |shard, group| {
        // Most puts replace no page. The bin is created only when it is needed, because creating
        // and dropping it takes time.
        let mut bin = None;
        let mut stored = Count::default();
        let tally = Cell::new(Tally::new());
        let _ = session.with_room(shard, group.len(), |index| {
            let keep = |part: &Part| {
                kept(part);
                let mut counted = tally.take();
                counted.added(session, part.list(), part.pages());
                tally.set(counted);
            };
            let older = |_, removed| {
                // This put may have added the page itself, which has to be counted first.
                let mut counted = tally.take();
                counted.add(session);
                tally.set(counted);
                bin.get_or_insert_with(Bin::new).add(session, removed);
            };
            index.insert(group, stamp, handles, older, keep);
            stored = tally.take().add(session);
            session.add_used(&stored, index);
        });
        total += stored.total();
        if let Some(bin) = &mut bin {
            bin.settle(session);
        }
    });
    total
}

/// Takes the pages of some runs out of the index, and calls `found` with the position of each page
/// and the page. Returns the numbers of pages, which the caller must report with
/// [`Session::sub_used`] once the pages are freed.
#[inline(never)]
pub fn take<S: Session>(
    session: &S,
    batch: &mut Batch,
    runs: impl Iterator<Item = (Run, usize)>,
    mut found: impl FnMut(usize, Removed),
) -> Count {
    let mut count = Count::default();
    if session.is_empty() {
        return count;
    }
    by_shard(session, batch, runs, |shard, group| {
        session.with(shard, |index| {
            let mut tally = Tally::new();
            index.take(group, Reason::Hit, |position, removed| {
                tally.removed(session, removed.list(), 1);
                found(position, removed);
            });
            let left = tally.subtract(session);
            count.memory += left.memory;
            count.ssd += left.ssd;
        });
    });
    count
}

/// Calls `held` with the position of each page of some runs that the index has, and the page, which
/// stays in the index. `held` is called under the lock of the shard.
#[inline(never)]
pub fn look<S: Session>(
    session: &S,
    batch: &mut Batch,
    runs: impl Iterator<Item = (Run, usize)>,
    mut held: impl FnMut(usize, Held<'_>),
) {
    by_shard(session, batch, runs, |shard, group| {
        session.with(shard, |index| index.look(group, &mut held));
    });
}

/// Removes the pages of a run from the index and frees them. Returns their number.
#[inline(never)]
pub fn discard<S: Session>(session: &S, batch: &mut Batch, run: &Run) -> usize {
    let mut freed = 0;
    by_shard(
        session,
        batch,
        core::iter::once((*run, 0)),
        |shard, group| {
            let mut bin = Bin::new();
            session.with(shard, |index| {
                index.take(group, Reason::Flush, |_, removed| bin.add(session, removed));
            });
            bin.settle(session);
            freed += bin.count();
        },
    );
    freed
}

/// Corrects counters: calls `count` once for each page of a run, with the counters of its list.
/// `owner` maps the position of a page to the list to which the page belonged, or to `None` if its
/// counters are correct.
pub fn recount<S: Session>(
    session: &S,
    batch: &mut Batch,
    run: (Run, usize),
    owner: impl Fn(usize) -> Option<u16>,
    count: impl Fn(&mut List),
) {
    by_shard(session, batch, core::iter::once(run), |shard, group| {
        session.with(shard, |index| {
            let positions = |part: &Part| part.position()..part.position() + part.pages();
            for owner in group.parts().flat_map(positions).filter_map(&owner) {
                let lists = index.storage_mut().lists_mut();
                if let Some(list) = lists.get_mut(usize::from(owner)) {
                    count(list);
                }
            }
        });
    });
}
