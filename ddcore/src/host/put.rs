// SPDX-License-Identifier: GPL-2.0-only

//! Puts. Room in the memory tier is reserved, and pages are allocated, for a call as a whole. The
//! data of a page is copied without a lock, before the page enters the index.

use super::carried::{Carried, Page, MAX_PAGES_OF_CALL};
use super::list::SSD_CLASS;
use super::room::Vm as _;
use super::room::{draw, fill, make_room, retire, Host, Origin};
use super::run::{discard, insert};
use super::session::{Session, TierKind};
use crate::index::Batch;
use crate::request::Runs;
use crate::speculation::part;
use ddabi::request::{Run, MAX_PAGES, MAX_RUNS};

/// Reason for which a run was not stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// The VM or the pool has weight zero, or the pool has no store.
    Off,
    /// The pages would go to the SSD tier, and the pool's
    /// [`SsdAdmit`](ddabi::pool::SsdAdmit) does not admit them.
    Unproven,
    /// The host had no memory, or no room could be made in the memory tier.
    Memory,
    /// The pages would go to the SSD tier, and no device takes them: there is none that works and
    /// keeps up, its write budget is used up, or no segment could be freed.
    Device,
    /// The guest's frame is not memory that can be read.
    Fault,
    /// The guest's frame is not in the host's memory (for example swapped out).
    Absent,
}

/// Interface by which a put accesses the memory of its guest.
pub trait Source<P> {
    /// Copies the data of a run into `pages`, which has as many elements as the run has pages.
    fn copy(&mut self, run: &Run, pages: &mut [Option<P>]) -> Result<(), Refusal>;

    /// Called with the result of each run, in the order of the runs.
    fn settled(&mut self, run: &Run, result: Result<(), Refusal>);
}

/// Room reserved in the tier. The unused part is released when this is dropped.
struct Room<'a, H: Host> {
    host: &'a H,
    pages: u64,
}

impl<'a, H: Host> Room<'a, H> {
    /// Reserves room for `pages` pages, for fewer if the limit is smaller, or for none if eviction
    /// frees too few.
    fn reserve(origin: &Origin<'a, H>, pages: u64) -> Self {
        Self {
            host: origin.host,
            pages: make_room(origin, pages),
        }
    }
}

impl<H: Host> Drop for Room<'_, H> {
    fn drop(&mut self) {
        self.host.tier().release(self.pages);
    }
}

/// Stores runs, each as a whole or not at all. Older copies of their pages are removed in both
/// cases (invariant 3). Returns the number of pages that were stored.
#[inline(never)]
pub fn store<H: Host>(
    origin: &Origin<'_, H>,
    runs: &Runs<'_>,
    carried: &mut Carried<H::Page>,
    source: &mut impl Source<H::Page>,
) -> u64 {
    let session = origin.session;
    let mut results: [Result<(), Refusal>; MAX_RUNS] = [Err(Refusal::Off); MAX_RUNS];
    let mut tiers = [None; MAX_RUNS];
    let wanted = choose_tiers(origin, runs, &mut tiers);
    if wanted > 0 {
        let results = &mut results;
        store_in_memory(origin, (runs, &tiers, wanted), carried, source, results);
    }
    for ((result, tier), run) in results.iter_mut().zip(&tiers).zip(runs.iter()) {
        if *tier == Some(TierKind::Ssd) {
            *result = match session.ssd_admit(run.pool).admits(run.class) {
                true => store_on_ssd(origin, &run, carried, source),
                false => Err(Refusal::Unproven),
            };
        }
    }
    let mut stored = 0;
    for (&result, run) in results.iter().zip(runs.iter()) {
        match result {
            Ok(()) => stored += u64::from(run.pages),
            // A part of the run, or an older copy, may be in the index.
            Err(_) => _ = discard(session, &mut carried.batch, &run),
        }
        source.settled(&run, result);
    }
    stored
}

/// Returns the tier for a run: the memory tier if the VM and the pool have weight there, else the
/// SSD tier if both have weight there, else `None`.
#[inline]
fn tier<H: Host>(origin: &Origin<'_, H>, run: &Run) -> Option<TierKind> {
    let (vm, session) = (origin.vm, origin.session);
    if vm.share() > 0 && session.share(run.pool) > 0 {
        return Some(TierKind::Memory);
    }
    (vm.ssd_share() > 0 && session.ssd_share(run.pool) > 0).then_some(TierKind::Ssd)
}

/// Writes the tier for each run. Returns the number of pages for the memory tier.
///
/// The weights are read once for consecutive runs of a pool, so that a call treats them alike even
/// if the weights change in the meantime.
fn choose_tiers<H: Host>(
    origin: &Origin<'_, H>,
    runs: &Runs<'_>,
    tiers: &mut [Option<TierKind>; MAX_RUNS],
) -> u64 {
    let mut last = None;
    let mut wanted = 0;
    for (chosen, run) in tiers.iter_mut().zip(runs.iter()) {
        *chosen = match last {
            Some((pool, tier)) if pool == run.pool => tier,
            _ => tier(origin, &run),
        };
        last = Some((run.pool, *chosen));
        if *chosen == Some(TierKind::Memory) {
            wanted += u64::from(run.pages);
        }
    }
    wanted
}

/// Stores the runs for the memory tier, which have `wanted` pages, and writes their results.
#[inline(never)]
fn store_in_memory<H: Host>(
    origin: &Origin<'_, H>,
    (runs, tiers, wanted): (&Runs<'_>, &[Option<TierKind>; MAX_RUNS], u64),
    carried: &mut Carried<H::Page>,
    source: &mut impl Source<H::Page>,
    results: &mut [Result<(), Refusal>; MAX_RUNS],
) {
    let session = origin.session;
    let mut room = Room::reserve(origin, wanted);
    let reserved = room.pages as usize;
    let got = fill(origin, &mut carried.pages[..reserved]);
    let stamp = session.stamp(wanted);
    let mut next = 0;
    for (at, run) in runs.iter().enumerate().take(MAX_RUNS) {
        let part = part(next, run.pages as usize, MAX_PAGES as usize);
        carried.starts[at] = part.start as u16;
        if tiers[at] != Some(TierKind::Memory) {
            continue;
        }
        results[at] = if part.end > got {
            Err(Refusal::Memory)
        } else {
            next = part.end;
            source.copy(&run, &mut carried.pages[part])
        };
    }
    let Carried {
        pages,
        handles,
        batch,
        starts,
        ..
    } = carried;
    let filled = runs.iter().zip(results.iter().zip(starts.iter()));
    let filled = filled.filter_map(|(run, (result, start))| {
        Some((run, usize::from(result.ok().map(|()| *start)?)))
    });
    room.pages -= insert_pages(session, batch, filled, (pages, handles), stamp) as u64;
    for ((result, start), run) in results.iter_mut().zip(starts).zip(runs.iter()) {
        let start = usize::from(*start);
        let rest = &pages[start..start + run.pages as usize];
        if result.is_ok() && rest.iter().any(Option::is_some) {
            *result = Err(Refusal::Memory);
        }
    }
    retire(origin.host, &mut pages[..reserved]);
}

/// Stores a run in the SSD tier. Its pages stay in the host's memory until they are written.
#[inline(never)]
fn store_on_ssd<H: Host>(
    origin: &Origin<'_, H>,
    run: &Run,
    carried: &mut Carried<H::Page>,
    source: &mut impl Source<H::Page>,
) -> Result<(), Refusal> {
    let session = origin.session;
    let pages = run.pages as usize;
    let mut result = match draw(origin.host, &mut carried.pages[..pages], false) == pages {
        true => source.copy(run, &mut carried.pages[..pages]),
        false => Err(Refusal::Memory),
    };
    let mut done = 0;
    while result.is_ok() && done < pages {
        let rest = Run {
            index: run.index + done as u64,
            pages: (pages - done) as u16,
            class: SSD_CLASS,
            ..*run
        };
        // A run that the write budget does not permit must not use up a part of it.
        let counted = if done == 0 { pages } else { 0 };
        let placed = session.put_on_ssd(&rest, &mut carried.pages[done..pages], counted);
        let kept = placed.is_some_and(|(count, stamp)| {
            let part = Run {
                pages: count as u16,
                ..rest
            };
            let at = done;
            done += count;
            keep(session, core::iter::once((part, at)), carried, stamp) == count
        });
        if !kept {
            let why = placed.map_or(Refusal::Device, |_| Refusal::Memory);
            result = Err(why);
        }
    }
    retire(origin.host, &mut carried.pages[..pages]);
    result
}

/// Inserts the carried pages of runs into the index. Room for them in the tier must have been
/// reserved. Pages that were inserted are no longer carried. Returns their number.
#[inline(never)]
pub(super) fn keep<S: Session>(
    session: &S,
    runs: impl Iterator<Item = (Run, usize)>,
    carried: &mut Carried<S::Page>,
    stamp: u64,
) -> usize
where
    S::Page: Page,
{
    let Carried {
        pages,
        handles,
        batch,
        ..
    } = carried;
    insert_pages(session, batch, runs, (pages, handles), stamp)
}

/// Does what [`keep`] does, with the parts of [`Carried`].
#[inline]
fn insert_pages<S: Session>(
    session: &S,
    batch: &mut Batch,
    runs: impl Iterator<Item = (Run, usize)>,
    (pages, handles): (
        &mut [Option<S::Page>; MAX_PAGES_OF_CALL],
        &mut [u64; MAX_PAGES_OF_CALL],
    ),
    stamp: u64,
) -> usize
where
    S::Page: Page,
{
    let first = pages.iter().position(Option::is_some).unwrap_or(0);
    for (handle, page) in handles[first..].iter_mut().zip(&pages[first..]) {
        let Some(page) = page else { break };
        *handle = page.handle();
    }
    insert(session, batch, runs, (&handles[..], stamp), |part| {
        for page in &mut pages[part.position()..part.position() + part.pages()] {
            if let Some(page) = page.take() {
                page.keep();
            }
        }
    })
}

#[cfg(test)]
mod tests;
