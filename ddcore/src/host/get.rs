// SPDX-License-Identifier: GPL-2.0-only

//! Gets. The data of a page is copied without a lock, after the page was removed from the index. A
//! page of the SSD tier can also stay in the index, if the guest remembers that it does.

use super::carried::Carried;
use super::list::{self, is_ssd};
use super::room::{retire, Host};
use super::run::{self, discard, recount};
use super::session::{Count, Session};
use ddabi::request::{Run, MAX_RUNS};

/// State of the guest's frames of a run, which decides what a get does with the run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Frames {
    /// The frames can be written.
    Ready,
    /// The frames can be written, and the pages of the run stay in the SSD tier. [`load`] alone
    /// sets this.
    Retained,
    /// The frames are not needed yet, because the host is still reading the pages of the run.
    Reading,
    /// The frames must not be written, because changes of them would not be noticed.
    Tracked,
    /// Some of the frames are not in the host's memory, or are not ordinary memory.
    Absent,
    /// The frames must not be written, because the guest cannot be told that they were.
    Untold,
}

/// Result of a run of a get.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome<'a> {
    /// The pages were written into the guest's frames. `owners` are the lists that they were on.
    Given {
        /// The list of each page.
        owners: &'a [u16],
        /// Whether the pages stay in the SSD tier.
        is_retained: bool,
    },
    /// Some of the pages were not found, or could not be read or written.
    Missed,
    /// The pages were not looked up, because of the state of the frames.
    Refused(Frames),
    /// The guest has to repeat the get for this run.
    Deferred,
}

/// Interface by which a get accesses the memory of its guest and the SSD tier.
pub trait Target<P> {
    /// Returns whether the pages of a run that is about to be looked up may stay in the SSD tier.
    fn may_retain(&mut self, run: &Run) -> bool;

    /// Called for each run whose pages stay in the SSD tier, before they are read.
    fn retained(&mut self, run: &Run);

    /// Replaces pages of the SSD tier by pages of memory with their data. `runs` are all runs of
    /// the get with the positions of their pages in `pages`. Pages that cannot be read stay as they
    /// are. Called at most once, if the get has found pages of the SSD tier.
    fn fetch(&mut self, runs: impl Iterator<Item = (Run, usize)>, pages: &mut [Option<P>]);

    /// Writes a page into a frame of the guest. Returns whether it succeeded, which it does not for
    /// a page that is still in the SSD tier.
    fn write(&mut self, page: &P, gfn: u64) -> bool;

    /// Called with the result of each run, in the order of the runs.
    fn settled(&mut self, run: &Run, outcome: Outcome<'_>);
}

/// The pages that a get has found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Found {
    /// The numbers of pages that were taken out of the index.
    pub taken: Count,
    /// Whether pages of the SSD tier were found, including those that stay there.
    pub is_on_ssd: bool,
}

/// Returns runs to the guest, each as a whole or not at all. The pages of those that are looked up
/// leave the index in both cases, except runs of the SSD tier that stay there and were written.
/// `runs` has the runs with the positions of their pages, in this order, and `frames` the states of
/// their frames; runs of the SSD tier may stay there if `may_retain` is set.
///
/// Pages of a run whose frames cannot be written are discarded, because the guest has removed them
/// from its presence map, unless it cannot be told so.
#[inline(never)]
pub fn load<H: Host>(
    (host, session): (&H, &H::Session),
    runs: impl Iterator<Item = (Run, usize)> + Clone,
    (frames, may_retain): (&mut [Frames; MAX_RUNS], bool),
    carried: &mut Carried<H::Page>,
    target: &mut impl Target<H::Page>,
) -> Found {
    let mut is_on_ssd = may_retain && retain(session, runs.clone(), frames, carried, target);
    let ready = runs.clone().zip(&*frames);
    let ready = ready.filter_map(|(run, frames)| (*frames == Frames::Ready).then_some(run));
    let taken = take(session, ready, carried);
    is_on_ssd |= taken.ssd > 0;
    if is_on_ssd {
        target.fetch(runs.clone(), &mut carried.pages);
    }
    let mut end = 0;
    for ((run, position), frames) in runs.zip(frames.iter().copied()) {
        let placed = (&run, position);
        end = position + run.pages as usize;
        let write = |page: &H::Page, gfn| target.write(page, gfn);
        let is_given = match frames {
            Frames::Ready => give(session, placed, carried, write),
            Frames::Retained => give_shared(session, placed, carried, write),
            Frames::Tracked | Frames::Absent => {
                discard(session, &mut carried.batch, &run);
                false
            }
            Frames::Reading | Frames::Untold => false,
        };
        let outcome = match frames {
            Frames::Ready | Frames::Retained if is_given => Outcome::Given {
                owners: &carried.owners[position..end],
                is_retained: frames == Frames::Retained,
            },
            Frames::Ready | Frames::Retained => Outcome::Missed,
            Frames::Tracked | Frames::Absent | Frames::Untold => Outcome::Refused(frames),
            Frames::Reading => Outcome::Deferred,
        };
        target.settled(&run, outcome);
    }
    retire(host, &mut carried.pages[..end]);
    session.sub_used(&taken);
    Found { taken, is_on_ssd }
}

/// Finds the ready runs whose pages are all in the SSD tier and may stay there, and marks them in
/// `frames`. Their pages stay in the index, and `carried` has additional owners of them. Returns
/// whether there are such runs.
#[inline(never)]
fn retain<S: Session>(
    session: &S,
    runs: impl Iterator<Item = (Run, usize)>,
    frames: &mut [Frames; MAX_RUNS],
    carried: &mut Carried<S::Page>,
    target: &mut impl Target<S::Page>,
) -> bool {
    let mut has_some = false;
    let ready = frames.iter_mut().zip(runs);
    for (frames, (run, position)) in ready.filter(|(frames, _)| **frames == Frames::Ready) {
        // Pages of a pool that has left the SSD tier leave it when they are read.
        let can_be_there = session.ssd_share(run.pool) > 0 && session.places(run.pool) > 0;
        if can_be_there && target.may_retain(&run) && share(session, (&run, position), carried) {
            target.retained(&run);
            *frames = Frames::Retained;
            has_some = true;
        }
    }
    has_some
}

/// Takes the pages of some runs out of the index and stores them at their positions in `carried`.
/// Returns the numbers of pages, which the caller must report with [`Session::sub_used`] once the
/// pages are freed.
pub(super) fn take<S: Session>(
    session: &S,
    runs: impl Iterator<Item = (Run, usize)>,
    carried: &mut Carried<S::Page>,
) -> Count {
    let Carried {
        pages,
        owners,
        batch,
        ..
    } = carried;
    run::take(session, batch, runs, |at, removed| {
        owners[at] = removed.list();
        pages[at] = session.page(removed);
    })
}

/// Copies a run that was taken out of the index to the guest, as a whole or not at all. `write`
/// writes a page into a frame of the guest and returns whether it succeeded. If the run is not
/// copied, its pages count as flushed, because the guest has removed them from its presence map.
/// Returns whether the run was copied.
#[inline(never)]
fn give<S: Session>(
    session: &S,
    (run, position): (&Run, usize),
    carried: &mut Carried<S::Page>,
    write: impl FnMut(&S::Page, u64) -> bool,
) -> bool {
    let pages = &carried.pages[position..position + run.pages as usize];
    let is_given = copy(run, pages, write);
    if !is_given && pages.iter().any(Option::is_some) {
        let Carried {
            pages,
            owners,
            batch,
            ..
        } = carried;
        let owner = |at: usize| pages[at].is_some().then_some(owners[at]);
        recount(session, batch, (*run, position), owner, |list| {
            list.spoil_hits(1);
        });
    }
    is_given
}

/// Calls `write` with each page of a run and its frame in the guest, if all pages are there, until
/// it fails. Returns whether all pages were written.
#[inline]
fn copy<P>(run: &Run, pages: &[Option<P>], mut write: impl FnMut(&P, u64) -> bool) -> bool {
    pages.iter().all(Option::is_some)
        && (run.gfn..)
            .zip(pages)
            .all(|(gfn, page)| page.as_ref().is_some_and(|page| write(page, gfn)))
}

/// Stores additional owners of the pages of a run at their positions in `carried`, if the SSD tier
/// has all of them. The pages stay in the index. Returns whether it has all of them; otherwise
/// `carried` has none of them.
fn share<S: Session>(
    session: &S,
    (run, position): (&Run, usize),
    carried: &mut Carried<S::Page>,
) -> bool {
    let Carried {
        pages,
        owners,
        batch,
        ..
    } = carried;
    run::look(
        session,
        batch,
        core::iter::once((*run, position)),
        |at, held| {
            if is_ssd(held.list()) {
                owners[at] = held.list();
                pages[at] = session.share_page(held);
            }
        },
    );
    let pages = &mut pages[position..position + run.pages as usize];
    let has_all = pages.iter().all(Option::is_some);
    if !has_all {
        pages.fill_with(|| None);
    }
    has_all
}

/// Copies a run to the guest whose pages stayed in the index ([`share`]), as a whole or not at all.
/// `write` writes a page into a frame of the guest and returns whether it succeeded. If the run is
/// not copied, its pages are removed from the index. Returns whether the run was copied.
#[inline(never)]
fn give_shared<S: Session>(
    session: &S,
    (run, position): (&Run, usize),
    carried: &mut Carried<S::Page>,
    write: impl FnMut(&S::Page, u64) -> bool,
) -> bool {
    let Carried {
        pages,
        owners,
        batch,
        ..
    } = carried;
    let pages = &pages[position..position + run.pages as usize];
    let is_given = copy(run, pages, write);
    match is_given {
        true => recount(
            session,
            batch,
            (*run, position),
            |at| Some(owners[at]),
            |list| {
                list.hits_retained += 1;
            },
        ),
        false => _ = discard(session, batch, run),
    }
    is_given
}

/// Returns the number of pages of a run that were in the SSD tier. `owners` are their lists.
pub fn from_ssd(owners: &[u16]) -> u32 {
    owners.iter().filter(|owner| is_ssd(**owner)).count() as u32
}

/// Returns the number of pages of a run that did not belong to the pool of the run. `owners` are
/// their lists.
pub fn foreign(run: &Run, owners: &[u16]) -> u64 {
    let foreign = owners.iter();
    foreign
        .filter(|owner| list::pool(**owner) != run.pool)
        .count() as u64
}

#[cfg(test)]
mod tests;
