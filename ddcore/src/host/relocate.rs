// SPDX-License-Identifier: GPL-2.0-only

//! Demotion of pages to the SSD tier, and their promotion to the memory tier (section 3.3 of the
//! paper; the thesis calls the tiers L1 and L2).
//!
//! A step moves up to 16 consecutive pages. Their data is copied without a lock. Afterwards they
//! are moved only if the index still has the same pages, so that a demoted page never replaces a
//! newer version of it ([`Stretch`]). A page is in exactly one tier at any time.
//!
//! The class of a page, which its list tells, decides whether it may be demoted ([`SsdAdmit`]).

use super::bin::Bin;
use super::carried::Page;
use super::cause::Cause;
use super::evict::{from_shard, Freed, TURN};
use super::list::{self, list, ssd_list, victim, SSD_CLASS};
use super::notice::Fresh;
use super::room::Stock;
use super::session::{Count, Session, TierKind};
use super::tally::Tally;
use crate::index::{End, Index, Reason, Stretch, BLOCK_PAGES};
use crate::number::Number;
use ddabi::pool::SsdAdmit;
use ddabi::request::Run;

/// Pages that are being moved to another tier.
struct Step<P> {
    stretch: Stretch,
    /// Additional owners of the pages. They prevent the reuse of frames and places, so that no
    /// other page gets one of their handles before the step ends.
    _owned: [Option<P>; BLOCK_PAGES],
    /// The pages in the target tier. Before their data is copied, these are additional owners, too.
    pages: [Option<P>; BLOCK_PAGES],
}

impl<P: Page> Step<P> {
    /// Looks up pages of a list of a shard: at most `max_pages`, and at most those of one block.
    /// Returns `None` if there are none, or if they cannot be shared.
    fn begin<S: Session<Page = P>>(
        session: &S,
        shard: usize,
        max_pages: u64,
        choose: impl FnOnce(&Index<S::Storage>) -> Option<(u16, End)>,
    ) -> Option<Self> {
        let (mut owned, mut pages) = ([const { None }; BLOCK_PAGES], [const { None }; BLOCK_PAGES]);
        let mut all = true;
        let max_pages = max_pages.min(BLOCK_PAGES as u64) as usize;
        let stretch = session.with(shard, |index| {
            let (list, end) = choose(index)?;
            index.stretch(list, end, max_pages, |at, held| {
                (owned[at], pages[at]) = (session.share_page(held), session.share_page(held));
                all &= owned[at].is_some() && pages[at].is_some();
            })
        })?;
        all.then_some(Self {
            stretch,
            _owned: owned,
            pages,
        })
    }

    /// Returns a run of the pages for a class of a pool.
    fn run(&self, pool: u32, class: u8) -> Run {
        Run {
            file: self.stretch.first().file,
            index: self.stretch.first().index,
            pages: self.stretch.handles().len() as u16,
            pool,
            class,
            ..Run::default()
        }
    }

    /// Returns the pages that are to be moved.
    fn pages(&mut self) -> &mut [Option<P>] {
        &mut self.pages[..self.stretch.handles().len()]
    }

    /// Moves the pages to another list, if the index still has them. Returns their number. If the
    /// list belongs to the memory tier, the caller must have reserved room for them.
    fn finish<S: Session<Page = P>>(
        mut self,
        session: &S,
        shard: usize,
        (to, stamp): (u16, u64),
    ) -> u64 {
        let count = self.stretch.handles().len();
        let mut handles = [0; BLOCK_PAGES];
        for (handle, page) in handles.iter_mut().zip(&self.pages[..count]) {
            let Some(page) = page else { return 0 };
            *handle = page.handle();
        }
        let mut bin = Bin::new();
        let moved = session.with_room(shard, BLOCK_PAGES, |index| {
            let handles = &handles[..count];
            let sink = |removed| bin.add(session, removed);
            if !index.relocate(&self.stretch, (to, stamp), handles, sink) {
                return 0;
            }
            for page in &mut self.pages[..count] {
                if let Some(page) = page.take() {
                    page.keep();
                }
            }
            let (mut tally, mut stored) = (Tally::new(), Count::default());
            tally.added(session, to, count);
            tally.add(session);
            stored.add(to, count);
            session.add_used(&stored, index);
            count as u64
        });
        bin.settle(session);
        moved.unwrap_or(0)
    }
}

/// Moves up to `pages` pages of a pool from the memory tier to the SSD tier, beginning with those
/// that would be evicted next. Those that may not go to the SSD tier are evicted for `cause`, and
/// added to `stock` if it is given. Ends early if the SSD tier accepts no more pages now. Returns
/// the numbers of pages.
///
/// Does not wait for I/O, because the data stays in memory until it is written.
#[inline(never)]
pub fn demote<S>(
    session: &S,
    (pool, cause): (u32, Cause),
    pages: u64,
    stock: Option<&impl Stock<S::Page>>,
) -> Freed
where
    S: Session<Page: Page>,
{
    let Some(order) = session.order(pool) else {
        return Freed::default();
    };
    let admit = session.ssd_admit(pool);
    let now = session.now();
    let mut evicted = 0;
    let all = in_turns(session, pages, |shard, max_pages| {
        if admit != SsdAdmit::All {
            // The class is chosen once for each turn, as for an eviction.
            let mut chosen = None;
            let got = from_shard(session, shard, max_pages.min(TURN), stock, |index| {
                if chosen.is_none_or(|list| list::used(index, list..list + 1) == 0) {
                    let class = victim(index, pool, order, now)?;
                    chosen = (!admit.admits(class)).then_some(list(pool, class));
                }
                Some((chosen?, BLOCK_PAGES as u32))
            });
            if got > 0 {
                evicted += got;
                return Some(got);
            }
        }
        let step = Step::begin(session, shard, max_pages, |index| {
            let class = victim(index, pool, order, now)?;
            let is_admitted = admit.admits(class);
            is_admitted.then_some((list(pool, class), End::Oldest))
        });
        let Some(mut step) = step else {
            return Some(0);
        };
        let run = step.run(pool, SSD_CLASS);
        let pages = step.pages();
        let counted = pages.len();
        let (placed, stamp) = session.put_on_ssd(&run, pages, counted)?;
        step.stretch.truncate(placed);
        Some(step.finish(session, shard, (ssd_list(pool), stamp)))
    });
    let demoted = all - evicted;
    if evicted > 0 {
        session.state().reading.expire();
        session.tell_evicted(pool, TierKind::Memory, evicted, cause);
        session.tell_unproven(pool, evicted);
    }
    if demoted > 0 {
        session.tell_relocated(pool, TierKind::Ssd, demoted);
    }
    Freed { evicted, demoted }
}

/// The pages that left the SSD tier by a promotion.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Promoted {
    /// Number of pages that were moved to the memory tier.
    pub moved: u64,
    /// Number of pages whose data was lost or damaged, so that they were evicted.
    pub lost: u64,
}

/// Moves up to `pages` pages of a pool from the SSD tier to the memory tier, the newest first. The
/// caller must have reserved room for them. Pages that cannot be read now stay where they are.
/// `node` returns the NUMA node of a page of memory, if there are several.
///
/// Waits for the reads.
#[inline(never)]
pub fn promote<S>(
    session: &S,
    pool: u32,
    pages: u64,
    node: impl Fn(&S::Page) -> Option<usize>,
) -> Promoted
where
    S: Session<Page: Page>,
{
    // The SSD tier does not keep the classes of pages. This is the least that they can have had, so
    // that they are demoted again when they have to leave memory.
    let class = session.ssd_admit(pool).least_class();
    let mut lost_pages = 0;
    let all = in_turns(session, pages, |shard, max_pages| {
        let step = Step::begin(session, shard, max_pages, |_| {
            Some((ssd_list(pool), End::Newest))
        });
        let Some(mut step) = step else {
            return Some(0);
        };
        let run = step.run(pool, class);
        if !session.read_from_ssd(&run, step.pages()) {
            return Some(0);
        }
        let lost = step.pages().iter().position(Option::is_none);
        match lost {
            // This step moves the pages before the first lost one. Later steps process the others.
            Some(pages) if pages > 0 => step.stretch.truncate(pages),
            Some(_) => {
                // A device that cannot read one page reads none of its request, so that reading
                // the other lost pages again one by one would count as many errors.
                let is_lost = |page: &&Option<_>| page.is_none();
                let lost = step.pages().iter().take_while(is_lost).count();
                step.stretch.truncate(lost);
                let dropped = drop_lost(session, (shard, pool), &step.stretch);
                lost_pages += dropped;
                return Some(dropped);
            }
            None => {}
        }
        let stamp = session.stamp(run.pages.into());
        let first = step.pages().first().and_then(Option::as_ref);
        let node = first.and_then(&node);
        let moved = step.finish(session, shard, (list(pool, class), stamp));
        if let Some(node) = node {
            session.state().nodes.note(node, moved, || session.used());
        }
        Some(moved)
    });
    let moved = all - lost_pages;
    if moved > 0 {
        session.tell_relocated(pool, TierKind::Memory, moved);
    }
    Promoted {
        moved,
        lost: lost_pages,
    }
}

/// Evicts pages of a pool whose data is lost or damaged. Returns their number.
fn drop_lost<S: Session>(session: &S, (shard, pool): (usize, u32), stretch: &Stretch) -> u64 {
    let (mut bin, mut fresh) = (Bin::new(), Fresh::new());
    session.with(shard, |index| {
        index.remove_stretch(stretch, Reason::Eviction, |removed| {
            fresh.add(&removed);
            bin.add(session, removed);
        });
    });
    bin.settle(session);
    session.announce(fresh.as_slice());
    let count = bin.count() as u64;
    if count > 0 {
        session.tell_evicted(pool, TierKind::Ssd, count, Cause::Damage);
    }
    count
}

/// Calls `step` for one shard after the other, with the maximum number of pages to move, until
/// `pages` pages are moved, no shard has any, or `step` returns `None`. `step` returns the number
/// of pages that it moved or evicted. Returns the sum.
fn in_turns<S: Session>(
    session: &S,
    pages: u64,
    mut step: impl FnMut(usize, u64) -> Option<u64>,
) -> u64 {
    let next_shard = &session.state().next_shard;
    let mut turn = next_shard.load();
    let (mut moved, mut idle) = (0, 0);
    while moved < pages && idle < session.shards() && !session.is_leaving() {
        let shard = turn as usize % session.shards();
        turn = turn.wrapping_add(1);
        let Some(got) = step(shard, pages - moved) else {
            break;
        };
        moved += got;
        idle = if got == 0 { idle + 1 } else { 0 };
        session.cond_resched();
    }
    next_shard.swap(turn);
    moved
}

#[cfg(test)]
mod tests;
