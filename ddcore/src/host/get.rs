// SPDX-License-Identifier: GPL-2.0-only

//! Gets. The data of a page is copied without a lock, after the page was removed from the index. A
//! page of the SSD tier can also stay in the index ([`share`]), if the guest remembers that it
//! does.

use super::carried::Carried;
use super::list::{self, is_ssd};
use super::run::{self, discard, recount};
use super::session::{Count, Session};
use ddabi::request::Run;

/// Takes the pages of some runs out of the index and stores them at their positions in `carried`.
/// Returns the numbers of pages, which the caller must report with [`Session::sub_used`] once the
/// pages are freed.
pub fn take<S: Session>(
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
pub fn give<S: Session>(
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
pub fn share<S: Session>(
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
pub fn give_shared<S: Session>(
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

/// Returns the number of pages of a run that were in the SSD tier.
pub fn from_ssd<P>((run, position): (&Run, usize), carried: &Carried<P>) -> u32 {
    let owners = carried.owners[position..position + run.pages as usize].iter();
    owners.filter(|owner| is_ssd(**owner)).count() as u32
}

/// Returns the number of pages of a run that did not belong to the pool of the run.
pub fn foreign<P>((run, position): (&Run, usize), carried: &Carried<P>) -> u64 {
    let owners = carried.owners[position..position + run.pages as usize].iter();
    let foreign = owners.filter(|owner| list::pool(**owner) != run.pool);
    foreign.count() as u64
}
