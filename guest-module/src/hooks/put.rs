// SPDX-License-Identifier: GPL-2.0-only

//! Pages that leave the page cache (invariants 3, 4, 7 and 9).
//!
//! Folios are removed with interrupts off and `i_pages` locked, and freed inside reclaim. Nothing
//! in this file sleeps or allocates.

use crate::counters::count;
use crate::ffi::change::Change;
use crate::ffi::folio::{Folio, FolioView};
use crate::ffi::mapping::{mapping_flag, MappingView};
use crate::ffi::tracepoints::{self, nanoseconds_since};
use crate::hooks::departures::Departure;
use crate::host::call::{parts, MAX_CALL_PAGES};
use crate::pools::routes::Route;
use crate::state::State;
use ddabi::hypercall::Operation;
use ddabi::key::FileKey;
use ddabi::request::Run;
use ddcore::policy::{Class, Refusal, Verdict};
use ddcore::presence::Refused;
use kernel::time::{Instant, Monotonic};

/// Handles the removal of a folio from its mapping: records a put, or clears the bits of its pages.
/// `reclaimed` is set if shrink_folio_list() removed the folio, so that the same task frees it in a
/// batch. Interrupts are off and `i_pages` is locked.
pub(crate) fn folio_removed(state: &State, folio: &Folio<'_>, reclaimed: bool) {
    let Some(mapping) = folio.mapping() else {
        return;
    };
    let Some(filesystem) = state.filesystems.find(mapping.superblock()) else {
        return;
    };
    let inode = mapping.view();
    let file = inode.key(filesystem);
    let view = folio.view();
    let last = view.index + u64::from(view.pages) - 1;

    let Some(pages) = putable(state, &inode, &view) else {
        state.content_changed(&file, (view.index, last), Change::Removed);
        return;
    };
    if pages < view.pages {
        let behind = (view.index + u64::from(pages), last);
        state.content_changed(&file, behind, Change::Removed);
    }
    if state.channel.retains() && state.map.peek(&file, view.index, pages) {
        // A page that is present and in the page cache was kept by the SSD tier when it was read,
        // and has not changed since, so that nothing has to be put. The policy is only told that it
        // leaves.
        let _ = decide(state, folio, &file, &view, pages);
        count!(state, put_retained, pages);
        return;
    }
    let Some((route, class)) = admit(state, folio, &file, &view, pages) else {
        // The bits are cleared as for a change of content, so that a later read finds no older
        // copy.
        state.content_changed(&file, (view.index, last), Change::Removed);
        return;
    };
    match state.map.begin_put(&file, view.index, pages) {
        Ok(()) => {}
        Err(refused) => {
            match refused {
                Refused::Busy => count!(state, put_skipped_busy, pages),
                Refused::Full => {
                    count!(state, put_skipped_map, pages);
                    state.request_map_room();
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
        // A folio has at most 512 pages (`PMD_SIZE`).
        pages: pages as u16,
        class: class.number() as u8,
        reserved: 0,
    };
    let departure = Departure {
        folio: folio.address(),
        run,
    };
    // A direct write that began after the check in putable() did not find these pages in the map,
    // so that they are checked again here.
    if mapping.in_direct_io() {
        count!(state, put_skipped_io, pages);
        state.map.invalidate(&file, view.index, last, || ());
        finish(state, &departure, false);
    } else if !reclaimed {
        // Outside shrink_folio_list() the folio is not freed in a batch that is hooked, so that it
        // is put now.
        put(state, |number| (number == 0).then_some(departure));
    } else if !state.departures.note(departure) {
        count!(state, put_skipped_slots, pages);
        finish(state, &departure, false);
    }
}

/// Records in the history of its pool that a folio leaves the page cache. Returns the route of the
/// folio and the verdict of the pool's policy; `None` if no pool takes it.
fn decide(
    state: &State,
    folio: &Folio<'_>,
    file: &FileKey,
    view: &FolioView,
    pages: u32,
) -> Option<(Route, Verdict)> {
    let route = state.pools.put_route(folio)?;
    let run = (view.index, pages);
    let verdict = state
        .pools
        .admissions
        .decide(route.slot, file, run, view.is_refaulted());
    Some((route, verdict))
}

/// Returns the route of a folio and the class of its first `pages` pages; `None` if its pool does
/// not take them. Counts the reason of a refusal.
fn admit(
    state: &State,
    folio: &Folio<'_>,
    file: &FileKey,
    view: &FolioView,
    pages: u32,
) -> Option<(Route, Class)> {
    let Some((route, verdict)) = decide(state, folio, file, view, pages) else {
        count!(state, put_skipped_off, pages);
        return None;
    };
    match verdict {
        Verdict::Put(class) => Some((route, class)),
        Verdict::Refuse(why) => {
            match why {
                Refusal::Policy => count!(state, put_skipped_policy, pages),
                Refusal::Throttle => count!(state, put_skipped_throttle, pages),
            }
            None
        }
    }
}

/// Returns how many pages of the folio, from its first one on, may be put; `None` if none may.
/// Counts the reason of a refusal.
fn putable(state: &State, inode: &MappingView, view: &FolioView) -> Option<u32> {
    if !view.is_frozen() || inode.any(mapping_flag::EXITING) || state.channel.session().is_none() {
        return None;
    }
    if inode.any(mapping_flag::FOREIGN | mapping_flag::SPECIAL) {
        count!(state, put_skipped_mapping, view.pages);
        return None;
    }
    if inode.any(mapping_flag::DIRECT | mapping_flag::ERROR) {
        count!(state, put_skipped_io, view.pages);
        return None;
    }
    let inside = inode
        .end
        .saturating_sub(view.index)
        .min(u64::from(view.pages)) as u32;
    if !view.is_valid() || inside == 0 {
        count!(state, put_skipped_page, view.pages);
        return None;
    }
    Some(inside)
}

/// Puts those folios of a batch that the running task removed, before the batch is freed. May run
/// in any context, but puts nothing in an interrupt.
pub(crate) fn folios_freed<'a, I>(state: &State, folios: impl Fn() -> I)
where
    I: Iterator<Item = Folio<'a>>,
{
    state.departures.with_freed(
        || folios().map(|folio| folio.address()),
        |freed| put(state, |number| freed.get(number)),
    );
}

/// Iterates over departures, each split into parts that fit into a call.
#[derive(Clone)]
struct Parts<F> {
    departure: F,
    number: usize,
    /// Parts of departure `number` that were returned already.
    done: usize,
}

impl<F: Fn(usize) -> Option<Departure>> Iterator for Parts<F> {
    type Item = Departure;

    fn next(&mut self) -> Option<Departure> {
        let departure = (self.departure)(self.number)?;
        let mut parts = parts(departure.run).skip(self.done);
        let run = parts.next()?;
        self.done += 1;
        if parts.next().is_none() {
            self.number += 1;
            self.done = 0;
        }
        Some(Departure { run, ..departure })
    }
}

/// Puts departures in calls of at most [`MAX_CALL_PAGES`] pages. Interrupts and other tasks may run
/// between two calls, unless the caller has disabled them.
fn put(state: &State, departure: impl Fn(usize) -> Option<Departure> + Copy) {
    let mut rest = Parts {
        departure,
        number: 0,
        done: 0,
    };
    while rest.clone().next().is_some() {
        let Sent {
            count,
            stored,
            is_unknown,
        } = put_call(state, rest.clone());
        for (n, part) in rest.by_ref().take(count).enumerate() {
            finish(state, &part, stored & 1 << n != 0);
            if is_unknown {
                flush(state, &part);
            }
        }
    }
}

/// The result of a call.
struct Sent {
    /// Number of parts in it.
    count: usize,
    /// A bit for each part that is set if the host stored it.
    stored: u64,
    /// Whether the host stored some of the pages and did not say which. They count as not stored,
    /// and have to be flushed, because no read would ask for them.
    is_unknown: bool,
}

/// Puts as many of the parts as fit into one call, at least one.
fn put_call(state: &State, parts: impl Iterator<Item = Departure>) -> Sent {
    let (session, mut call) = (state.channel.session(), state.channel.begin());
    let (mut count, mut pages) = (0, 0);
    let (mut first, mut sizes) = (Run::default(), [0; u64::BITS as usize]);
    let is_traced = tracepoints::put_is_on();
    for part in parts {
        let more = u32::from(part.run.pages);
        // The request has room for all of them, because a task has no more departures than a batch
        // has folios.
        if count > 0 && (pages + more > MAX_CALL_PAGES || count == u64::BITS as usize) {
            break;
        }
        if let Some(call) = &mut call {
            call.push(&part.run);
        }
        if is_traced {
            if count == 0 {
                first = part.run;
            }
            sizes[count] = part.run.pages;
        }
        count += 1;
        pages += more;
    }
    count!(state, put_offered, pages);
    let (mut stored, mut is_unknown) = (0, false);
    if let (Some(session), Some(mut call)) = (session, call) {
        let start = Instant::<Monotonic>::now();
        count!(state, put_calls);
        if let Some(outcome) = state.send(&mut call, Operation::Put, session) {
            let all = !outcome.answered && outcome.pages == pages;
            is_unknown = !outcome.answered && !all && outcome.pages > 0;
            for n in 0..count {
                if all || call.succeeded(n) {
                    stored |= 1 << n;
                }
            }
        }
        drop(call);
        state.counters().put(start);
        if is_traced {
            let latency = nanoseconds_since(start);
            let is_stored = |n: &usize| stored & 1 << *n != 0;
            let kept = (0..count).filter(is_stored).map(|n| u32::from(sizes[n]));
            let Run {
                pool, file, index, ..
            } = first;
            tracepoints::put(pool, file.inode, index, pages, kept.sum(), latency);
        }
    }
    Sent {
        count,
        stored,
        is_unknown,
    }
}

/// Ends the put of a departure, or of a part of it: sets the bits of pages that the host has
/// `stored`. Pages that changed during the put are flushed from the host instead.
pub(crate) fn finish(state: &State, departure: &Departure, stored: bool) {
    let (file, index) = (departure.file(), departure.run.index);
    let pages = u32::from(departure.run.pages);
    let finished = state.map.finish_put(file, index, pages, stored);
    count!(state, put_stored, finished.present);
    if !stored {
        count!(state, put_refused, pages);
    } else if finished.cancelled > 0 {
        flush(state, departure);
    }
}

/// Flushes the pages of a departure, or of a part of it, from the host.
fn flush(state: &State, departure: &Departure) {
    let Run { index, pages, .. } = departure.run;
    let last = index + u64::from(pages) - 1;
    state.flushes.push_pages(*departure.file(), index, last);
}
