// SPDX-License-Identifier: GPL-2.0-only

//! Gets. The data of a page is copied without a lock, after the page was removed from the index.

use super::carried::Carried;
use super::list;
use super::run::{self, spoil};
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
    (run, place): (&Run, usize),
    carried: &mut Carried<S::Page>,
    mut write: impl FnMut(&S::Page, u64) -> bool,
) -> bool {
    let pages = &carried.pages[place..place + run.pages as usize];
    let is_given = pages.iter().all(Option::is_some)
        && (run.gfn..)
            .zip(pages)
            .all(|(gfn, page)| page.as_ref().is_some_and(|page| write(page, gfn)));
    if !is_given && pages.iter().any(Option::is_some) {
        let Carried {
            pages,
            owners,
            batch,
            ..
        } = carried;
        let owner = |at: usize| pages[at].is_some().then_some(owners[at]);
        spoil(session, batch, (*run, place), owner);
    }
    is_given
}

/// Returns the number of pages of a run that were taken out of the SSD tier.
pub fn from_ssd<P>((run, place): (&Run, usize), carried: &Carried<P>) -> u32 {
    let owners = carried.owners[place..place + run.pages as usize].iter();
    owners.filter(|owner| list::is_ssd(**owner)).count() as u32
}

/// Returns the number of pages of a run that did not belong to the pool of the run.
pub fn foreign<P>((run, place): (&Run, usize), carried: &Carried<P>) -> u64 {
    let owners = carried.owners[place..place + run.pages as usize].iter();
    let foreign = owners.filter(|owner| list::pool(**owner) != run.pool);
    foreign.count() as u64
}
