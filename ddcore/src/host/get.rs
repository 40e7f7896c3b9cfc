// SPDX-License-Identifier: GPL-2.0

//! Pages on their way out. Data is copied after a page has left the index, and therefore without a
//! lock.

use super::carried::Carried;
use super::list;
use super::run::{self, spoil};
use super::session::Session;
use ddabi::request::Run;

/// Takes out what is kept of some runs, to the places of their pages. Returns the number of pages,
/// which the caller must report with [`Session::went`] once they are freed.
pub fn take<S: Session>(
    session: &S,
    runs: impl Iterator<Item = (Run, usize)>,
    carried: &mut Carried<S::Page>,
) -> usize {
    let Carried {
        pages,
        owners,
        batch,
        ..
    } = carried;
    run::take(session, batch, runs, |at, removed| {
        owners[at] = removed.pool();
        pages[at] = session.page(removed);
    })
}

/// Gives a run that was taken out to its guest, all of it or nothing: `write` writes a page into a
/// frame of the guest and returns whether it could. If something is missing, the pages count as
/// flushed: the guest no longer knows them. Returns whether the run was given.
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

/// Returns how many pages of a run that was given were of other pools than the run's.
pub fn foreign<P>((run, place): (&Run, usize), carried: &Carried<P>) -> u64 {
    let owners = carried.owners[place..place + run.pages as usize].iter();
    let foreign = owners.filter(|owner| list::pool(**owner) != run.pool);
    foreign.count() as u64
}
