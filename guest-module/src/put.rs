// SPDX-License-Identifier: GPL-2.0

//! Pages that leave the page cache (invariants 3, 4, 7 and 9).
//!
//! Runs with interrupts off, mostly with `i_pages` locked, inside reclaim: nothing here sleeps or
//! allocates.

use crate::counters::count;
use crate::departures::{Departure, FOLIOS};
use crate::ffi::{mapping_flag, Folio, FolioView, MappingView};
use crate::guest::Guest;
use crate::mutation::mutated;
use ddabi::hypercall::Operation;
use ddabi::request::{Run, MAX_PAGES};
use ddcore::policy::{Refusal, Verdict};
use ddcore::presence::Refused;
use kernel::time::{Instant, Monotonic};

/// A folio was removed from its mapping. `reclaimed`: by reclaim proper, which frees it with a
/// batch of the same task.
pub(crate) fn folio_removed(guest: &Guest, folio: &Folio<'_>, reclaimed: bool) {
    let Some(mapping) = folio.mapping() else {
        return;
    };
    let Some(filesystem) = guest.filesystems.find(mapping.superblock()) else {
        return;
    };
    let inode = mapping.view();
    let file = inode.key(filesystem);
    let view = folio.view();
    let last = view.index + u64::from(view.pages) - 1;

    let Some(pages) = offered(guest, &inode, &view) else {
        guest.content_changed(&file, view.index, last);
        return;
    };
    if pages < view.pages {
        guest.content_changed(&file, view.index + u64::from(pages), last);
    }
    let Some(route) = guest.pools.of(folio) else {
        count!(guest, put_skipped_off, pages);
        guest.content_changed(&file, view.index, last);
        return;
    };
    let run = (view.index, pages);
    let verdict = guest
        .judges
        .offered(route.seat, &file, run, view.is_refaulted());
    let class = match verdict {
        Verdict::Put(class) => class,
        Verdict::Refuse(why) => {
            match why {
                Refusal::Policy => count!(guest, put_skipped_policy, pages),
                Refusal::Throttle => count!(guest, put_skipped_throttle, pages),
            }
            // As for content that changes: no older copy may be found later.
            guest.content_changed(&file, view.index, last);
            return;
        }
    };
    match guest.map.begin_put(&file, view.index, pages) {
        Ok(()) => {}
        Err(refused) => {
            match refused {
                Refused::Busy => count!(guest, put_skipped_busy, pages),
                Refused::Full => {
                    count!(guest, put_skipped_map, pages);
                    guest.map_is_full();
                }
            }
            return;
        }
    }
    let run = Run {
        file,
        index: view.index,
        gfn: view.pfn,
        pool: route.host,
        // The largest folio has 512.
        pages: pages as u16,
        class: class.number() as u8,
        reserved: 0,
    };
    let departure = Departure {
        folio: folio.address(),
        run,
    };
    // A direct write that began since then did not find the pages in the map.
    if mapping.in_direct_io()
        && !mutated(c"puts-beside-direct-io")
        && !mutated(c"direct-io-looked-at-once")
    {
        count!(guest, put_skipped_io, pages);
        guest.map.invalidate(&file, view.index, last);
        settle(guest, &departure, false);
    } else if !reclaimed {
        // The folio gets its reference back before it is freed: now or never.
        put(guest, &[departure]);
    } else if !guest.departures.note(departure) {
        count!(guest, put_skipped_lane, pages);
        settle(guest, &departure, false);
    }
}

/// How many pages of the folio, from its first on, may be put; `None` if none may.
fn offered(guest: &Guest, inode: &MappingView, view: &FolioView) -> Option<u32> {
    if !view.is_frozen() || inode.any(mapping_flag::EXITING) || guest.link.session().is_none() {
        return None;
    }
    if inode.any(mapping_flag::FOREIGN | mapping_flag::SPECIAL) {
        count!(guest, put_skipped_mapping, view.pages);
        return None;
    }
    let direct = inode.any(mapping_flag::DIRECT) && !mutated(c"puts-beside-direct-io");
    if direct || inode.any(mapping_flag::ERROR) {
        count!(guest, put_skipped_io, view.pages);
        return None;
    }
    let inside = inode
        .end
        .saturating_sub(view.index)
        .min(u64::from(view.pages)) as u32;
    let valid = view.is_valid() || mutated(c"puts-what-is-not-valid");
    if !valid || inside == 0 {
        count!(guest, put_skipped_page, view.pages);
        return None;
    }
    Some(inside)
}

/// A batch of folios is freed: those that this task removed are put before.
pub(crate) fn folios_freed<'a, I>(guest: &Guest, folios: impl Fn() -> I)
where
    I: Iterator<Item = Folio<'a>>,
{
    guest.departures.leave(
        || folios().map(|folio| folio.address()),
        |departures| put(guest, departures),
    );
}

/// Puts the departures, in as few calls as fit.
fn put(guest: &Guest, departures: &[Departure]) {
    let mut rest = departures;
    while !rest.is_empty() {
        let mut pages = 0;
        let fitting = rest
            .iter()
            .take_while(|departure| {
                pages += u32::from(departure.run.pages);
                pages <= MAX_PAGES
            })
            .count()
            // A folio larger than a request does not exist: the largest has 512 pages.
            .max(1);
        let (now, later) = rest.split_at(fitting);
        put_once(guest, now);
        rest = later;
    }
}

fn put_once(guest: &Guest, departures: &[Departure]) {
    let runs = departures.iter().map(|departure| &departure.run);
    let pages = runs.map(|run| u32::from(run.pages)).sum();
    count!(guest, put_offered, pages);
    let mut stored = [false; FOLIOS];
    if let (Some(session), Some(mut call)) = (guest.link.session(), guest.caller.begin()) {
        let start = Instant::<Monotonic>::now();
        let fitting = departures.iter().all(|departure| call.push(&departure.run));
        count!(guest, put_calls);
        if let Some(outcome) = guest
            .send(&mut call, Operation::Put, session)
            .filter(|_| fitting)
        {
            let all = !outcome.answered && outcome.pages == pages;
            for (n, stored) in stored.iter_mut().enumerate() {
                *stored = all || call.succeeded(n) || mutated(c"put-unconfirmed");
            }
        }
        guest.counters.put(start);
    }
    for (departure, stored) in departures.iter().zip(stored) {
        settle(guest, departure, stored);
    }
}

/// The put of a departure is over.
fn settle(guest: &Guest, departure: &Departure, stored: bool) {
    let (file, index) = (departure.file(), departure.run.index);
    let pages = u32::from(departure.run.pages);
    let finished = guest.map.finish_put(file, index, pages, stored);
    if stored && finished.cancelled > 0 && mutated(c"put-overtakes") {
        let _ = guest.map.begin_put(file, index, pages);
        guest.map.finish_put(file, index, pages, true);
        return;
    }
    count!(guest, put_stored, finished.present);
    if !stored {
        count!(guest, put_refused, pages);
    } else if finished.cancelled > 0 {
        guest
            .flushes
            .pages(*file, index, index + u64::from(pages) - 1);
    }
}
