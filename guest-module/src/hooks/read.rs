// SPDX-License-Identifier: GPL-2.0-only

//! Reads of pages that are not in the page cache (invariants 1 and 8).
//!
//! Pages that are in the map are requested from the host; the filesystem reads all others, in runs
//! that are as long as possible. Everything runs in process context with the folios locked, and
//! nothing is allocated.

use crate::counters::count;
use crate::ffi::cpu;
use crate::ffi::folio::Folio;
use crate::ffi::mapping::{mapping_flag, Mapping, MappingView};
use crate::ffi::readahead::Window;
use crate::ffi::tracepoints::{self, nanoseconds_since};
use crate::host::call::{parts, Deferral, MAX_CALL_PAGES};
use crate::pools::routes::Route;
use crate::state::State;
use core::iter::{from_fn, once};
use ddabi::hypercall::Operation;
use ddabi::key::FileKey;
use ddabi::request::{Run, MAX_PAGES};
use ddcore::presence::Claim;
use kernel::prelude::*;
use kernel::time::{Instant, Monotonic};

/// Maximum number of folios of a window that are planned together. One call has room for all of
/// them.
const MAX_FOLIOS: usize = 64;
/// Maximum number of pages of a window whose folios are planned in an array of this size.
const FEW_FOLIOS: u32 = 4;
/// Readahead window, in pages, of a sequential read that the host serves. A large window spreads
/// the cost of an exit over more pages.
const WIDE_WINDOW: u32 = 256;
/// Number of pages after a window that the map must have before the next window is widened.
const WIDEN_AFTER: u64 = 32;

/// Maximum number of times that a reader sleeps for pages that the host reads from an SSD. After
/// that its vCPU waits in the host.
const MAX_DEFERRALS: u32 = 8;
/// Upper bound of each such sleep in microseconds, whatever the host suggests.
const MAX_SLEEP_US: u32 = 100_000;

/// A folio of a window, and how it is read.
#[derive(Clone, Copy, Default)]
struct Planned {
    /// First page of the folio in the file.
    index: u64,
    /// First frame of the folio.
    gfn: u64,
    /// Number of pages of the folio.
    pages: u32,
    /// Number of its pages inside the file. Pages beyond the end of the file are zeroed.
    inside: u32,
    /// The host's number of the reader's pool.
    pool: u32,
    /// Whether the folio is requested from the host.
    ask: bool,
    /// Whether the host returned the folio.
    hit: bool,
    /// Whether the SSD tier may keep the folio. Its pages are leaving until the read ends.
    may_retain: bool,
    /// Whether the SSD tier has kept the folio.
    retained: bool,
}

impl Planned {
    fn run(&self, file: FileKey) -> Run {
        let Self {
            index,
            gfn,
            pool,
            inside,
            ..
        } = *self;
        Run {
            file,
            index,
            gfn,
            pool,
            // Folios with more than `MAX_PAGES` pages are not requested from the host.
            pages: inside as u16,
            class: 0,
            reserved: 0,
        }
    }
}

/// A file whose pages the host may hold.
struct Source {
    file: FileKey,
    inode: MappingView,
}

/// Returns the file of a mapping if its pages may be requested from the host.
fn source(state: &State, mapping: &Mapping<'_>) -> Option<Source> {
    state.channel.session()?;
    if !mapping.learn() {
        return None;
    }
    let inode = mapping.view();
    if inode.any(mapping_flag::FOREIGN | mapping_flag::SPECIAL) {
        return None;
    }
    let cacheable = || !mapping.may_become_dax();
    let filesystem = state
        .filesystems
        .find_or_add(inode.superblock(), cacheable)?;
    Some(Source {
        file: inode.key(filesystem),
        inode,
    })
}

/// Reads a window in place of the filesystem's `readahead`.
pub(crate) fn readahead(state: &State, window: &mut Window<'_>) {
    let source = window.mapping().and_then(|mapping| source(state, &mapping));
    let (start, pages) = window.rest();
    let Some(source) = source else {
        window.read(start, pages);
        window.consume(pages);
        return;
    };
    let mut all_hit = true;
    let mut route = None;
    loop {
        let (index, left) = window.rest();
        // Clearing the large plan takes longer than all else that a read of a page does here.
        let all = match left {
            0 => break,
            1..=FEW_FOLIOS => {
                let mut plan = [Planned::default(); FEW_FOLIOS as usize];
                read_part(state, &source, window, (index, left), &mut plan, &mut route)
            }
            _ => {
                let mut plan = [Planned::default(); MAX_FOLIOS];
                read_part(state, &source, window, (index, left), &mut plan, &mut route)
            }
        };
        let Some(all) = all else { return };
        all_hit &= all;
    }
    let next = start + u64::from(pages);
    let follow = all_hit && state.map.present_run(&source.file, next, WIDEN_AFTER) == WIDEN_AFTER;
    if follow {
        window.widen(WIDE_WINDOW);
    } else if !all_hit {
        window.widen(0);
    }
}

/// Reads the next folios of a window, as many as the plan has room for. Returns whether the host
/// had all of them, or `None` if the filesystem has read the whole window.
fn read_part(
    state: &State,
    source: &Source,
    window: &mut Window<'_>,
    (index, left): (u64, u32),
    plan: &mut [Planned],
    route: &mut Option<Route>,
) -> Option<bool> {
    let count = plan_window(state, source, window, (index, left), plan, route);
    let Some(plan) = plan.get_mut(..count).filter(|plan| !plan.is_empty()) else {
        // This cannot happen, because a window is full of folios. The filesystem reads the
        // remaining pages.
        window.read(index, left);
        window.consume(left);
        return None;
    };
    if plan.iter().any(|planned| planned.ask) {
        fetch(state, source.file, plan);
    }
    record_reads(state, &source.file, plan, *route);
    finish_reads(window, plan);
    Some(plan.iter().all(|planned| planned.hit))
}

/// Plans the next folios of a window and claims those that the host may hold. Returns their number.
fn plan_window(
    state: &State,
    source: &Source,
    window: &Window<'_>,
    (index, left): (u64, u32),
    plan: &mut [Planned],
    route: &mut Option<Route>,
) -> usize {
    let (mut count, mut seen, mut asked) = (0, 0, 0);
    while seen < left {
        let at = index + u64::from(seen);
        let Some(folio) = window.folio(at) else {
            break;
        };
        let pages = folio.view().pages;
        let Some(place) = plan
            .get_mut(count)
            .filter(|_| asked + pages <= MAX_CALL_PAGES || count == 0)
        else {
            break;
        };
        // All folios of a window are charged to the cgroup of the reader.
        let route = *route.get_or_insert_with(|| state.pools.read_route(&folio));
        *place = plan_folio(state, source, &folio, route.host);
        if place.ask {
            asked += pages;
        }
        count += 1;
        seen += pages;
    }
    count
}

/// Plans the read of one folio. If the host may have it, the claim clears its presence bits, so
/// that its pages are read either from the host or from the disk, never from both.
fn plan_folio(state: &State, source: &Source, folio: &Folio<'_>, pool: u32) -> Planned {
    let view = folio.view();
    let inside = source
        .inode
        .end
        .saturating_sub(view.index)
        .min(u64::from(view.pages)) as u32;
    let mut planned = Planned {
        index: view.index,
        gfn: view.pfn,
        pages: view.pages,
        inside,
        ..Planned::default()
    };
    let can_ask = view.is_fresh() && inside <= MAX_PAGES;
    planned.may_retain = can_ask && state.channel.retains();
    let claim = match planned.may_retain {
        true => state.map.claim_retained(&source.file, view.index, inside),
        false => state.map.claim(&source.file, view.index, inside),
    };
    match claim {
        Claim::Ask if can_ask => {
            planned.ask = true;
            planned.pool = pool;
            if inside < view.pages {
                folio.zero_tail(inside);
            }
        }
        Claim::Ask => flush_unneeded(state, source.file, &planned),
        Claim::Miss { present } => {
            count!(state, read_absent, planned.inside);
            if present > 0 {
                flush_unneeded(state, source.file, &planned);
            }
        }
    }
    if planned.ask {
        // The host does not wait for memory of the guest. Frames that it has swapped out must
        // therefore be made present before the call.
        folio.touch(inside);
    }
    planned
}

/// Queues a flush for pages that the host may hold but that no read will request.
fn flush_unneeded(state: &State, file: FileKey, planned: &Planned) {
    if planned.inside > 0 {
        let last = planned.index + u64::from(planned.inside) - 1;
        state.flushes.push_pages(file, planned.index, last);
    }
}

/// Requests all claimed folios of the plan from the host and marks the hits. The plan fits into one
/// call, or is a single larger folio; such a folio is a hit only if all its parts are.
fn fetch(state: &State, file: FileKey, plan: &mut [Planned]) {
    let claimed = || plan.iter().filter(|planned| planned.ask);
    let asked: u32 = claimed().map(|planned| planned.inside).sum();
    // All folios of a call are kept or none, because a request has one flag for all of them.
    let may_retain = claimed().all(|planned| planned.may_retain);
    let got = match state.channel.session() {
        None => GetResult::UNKNOWN,
        Some(session) if asked <= MAX_CALL_PAGES => {
            let runs = claimed().map(|planned| planned.run(file));
            get(state, session, runs, may_retain)
        }
        Some(session) => {
            let all = claimed().flat_map(|planned| parts(planned.run(file)));
            get_parts(state, session, all, may_retain)
        }
    };
    count!(state, get_asked, asked);
    for (n, planned) in plan.iter_mut().filter(|planned| planned.ask).enumerate() {
        planned.hit = got.hits & 1 << n != 0;
        planned.retained = got.retained & 1 << n != 0;
        let mut is_unneeded = got.unknown & 1 << n != 0;
        if planned.may_retain {
            is_unneeded |= end_claim(state, &file, planned);
        }
        if is_unneeded {
            flush_unneeded(state, file, planned);
        }
    }
    let hit = plan.iter().filter(|planned| planned.hit);
    let pages: u32 = hit.map(|planned| planned.inside).sum();
    count!(state, get_hits, pages);
    count!(state, get_misses, asked - pages);
}

/// Ends the claim of a folio that the SSD tier was allowed to keep: if it did, the pages are in the
/// map, except those whose content has changed since the claim. Returns whether there are such
/// pages, which the host can free.
fn end_claim(state: &State, file: &FileKey, planned: &Planned) -> bool {
    let Planned {
        index,
        inside,
        retained,
        ..
    } = *planned;
    let ended = state.map.finish_put(file, index, inside, retained);
    retained && ended.cancelled > 0
}

/// The result of a get, with a bit for each run.
struct GetResult {
    hits: u64,
    /// Runs that were hit, and that the SSD tier has kept.
    retained: u64,
    /// Runs whose pages the host may still have, because it did not answer or had no memory.
    unknown: u64,
}

impl GetResult {
    /// The result of a get that was not answered.
    const UNKNOWN: Self = Self {
        hits: 0,
        retained: 0,
        unknown: u64::MAX,
    };
}

/// Asks for at most [`MAX_FOLIOS`] runs, which the SSD tier `may_retain`, and sleeps while the host
/// reads some of them from an SSD.
fn get(
    state: &State,
    session: u64,
    runs: impl Iterator<Item = Run> + Clone,
    may_retain: bool,
) -> GetResult {
    let start = Instant::<Monotonic>::now();
    let mut got = GetResult::UNKNOWN;
    let mut deferral = None;
    for attempt in 0..=MAX_DEFERRALS {
        let options = Options {
            may_retain,
            may_defer: attempt < MAX_DEFERRALS,
            deferral,
        };
        let round = get_once(state, session, runs.clone(), got.unknown, options);
        let Some(round) = round else { break };
        got.hits |= round.hits;
        got.retained |= round.retained;
        got.unknown = round.unknown;
        deferral = round.deferral;
        let Some(deferral) = deferral.filter(|_| got.unknown != 0) else {
            break;
        };
        cpu::sleep_us(deferral.wait_us.min(MAX_SLEEP_US));
        if cpu::is_killed() {
            break;
        }
    }
    state.counters().got(start);
    got
}

/// Asks for the parts of one folio, one after the other. The folio is a hit only if all of them
/// are, and is kept only if all of them are.
fn get_parts(
    state: &State,
    session: u64,
    parts: impl Iterator<Item = Run>,
    may_retain: bool,
) -> GetResult {
    let (mut retained, mut dropped) = (0, 0);
    for part in parts {
        let got = get(state, session, once(part), may_retain);
        if got.hits == 0 {
            // The host may still have the parts that were not requested, or were kept.
            return GetResult::UNKNOWN;
        }
        retained |= got.retained;
        dropped |= !got.retained & 1;
    }
    GetResult {
        hits: 1,
        retained: retained & !dropped,
        unknown: retained & dropped,
    }
}

/// Options of a get.
struct Options {
    /// Whether pages may stay on their device.
    may_retain: bool,
    /// Whether the host may answer before the pages are read.
    may_defer: bool,
    /// The deferred get that the call continues.
    deferral: Option<Deferral>,
}

/// The result of a call, with a bit for each run.
struct Round {
    hits: u64,
    retained: u64,
    /// Runs that the host is reading from an SSD, which must be requested again. If the host did
    /// not answer, these are all requested runs.
    unknown: u64,
    deferral: Option<Deferral>,
}

/// Makes one call for those of at most [`MAX_FOLIOS`] runs whose bit is set in `open`.
fn get_once(
    state: &State,
    session: u64,
    runs: impl Iterator<Item = Run> + Clone,
    open: u64,
    options: Options,
) -> Option<Round> {
    let mut call = state.channel.begin()?;
    let start = Instant::<Monotonic>::now();
    let mut asked = 0u64;
    for (n, run) in runs.clone().enumerate().filter(|(n, _)| open & 1 << n != 0) {
        // The request has room for all folios that are planned together.
        call.push(&run);
        asked |= 1 << n;
    }
    if let Some(deferral) = options.deferral {
        call.resume(deferral);
    }
    if options.may_retain {
        call.allow_retaining();
    }
    // If no other task waits for the CPU, a second call costs more than it gains.
    if options.may_defer && state.channel.can_defer() && cpu::should_sleep() {
        call.allow_deferral();
    }
    count!(state, get_calls);
    let round = state.send(&mut call, Operation::Get, session).map(|_| {
        let is_answered = call.is_answered();
        let mut round = Round {
            hits: 0,
            retained: 0,
            unknown: if is_answered { 0 } else { asked },
            deferral: call.deferral(),
        };
        for (at, bit) in bits(asked).enumerate() {
            if call.succeeded(at) {
                round.hits |= bit;
            }
            if call.is_retained(at) {
                round.retained |= bit;
            }
            if is_answered && call.is_reading(at) {
                round.unknown |= bit;
            }
        }
        round
    });
    drop(call);
    if tracepoints::get_is_on() {
        let hits = round.as_ref().map_or(0, |round| round.hits);
        trace(runs, (asked, hits), nanoseconds_since(start));
    }
    round
}

/// Returns the bits that are set in a mask, from the lowest to the highest.
fn bits(mut mask: u64) -> impl Iterator<Item = u64> {
    from_fn(move || {
        let bit = mask & mask.wrapping_neg();
        mask ^= bit;
        (bit != 0).then_some(bit)
    })
}

/// Passes the tracepoint of a call for those of the runs whose bit is set in `asked`; `hits` has a
/// bit for each run that the host returned.
#[cold]
fn trace(runs: impl Iterator<Item = Run> + Clone, (asked, hits): (u64, u64), latency: u64) {
    let pages = |which: u64| -> u32 {
        let runs = runs.clone().enumerate();
        let runs = runs.filter(|(n, _)| which & 1 << n != 0);
        runs.map(|(_, run)| u32::from(run.pages)).sum()
    };
    let (asked_pages, hit_pages) = (pages(asked), pages(hits));
    let mut runs = runs.enumerate().filter(|(n, _)| asked & 1 << n != 0);
    if let Some((
        _,
        Run {
            pool, file, index, ..
        },
    )) = runs.next()
    {
        tracepoints::get(pool, file.inode, index, asked_pages, hit_pages, latency);
    }
}

/// Records the reads in the admission of the reader's pool, whether or not the host had the pages.
fn record_reads(state: &State, file: &FileKey, plan: &[Planned], route: Option<Route>) {
    let admission = route
        .filter(|route| route.caches)
        .and_then(|route| state.pools.admissions.get(route.slot));
    if let Some(admission) = admission {
        let runs = plan
            .iter()
            .map(|planned| (planned.index, planned.inside, planned.hit));
        admission.record_reads(file, runs);
    }
}

/// Ends the reads of the hits and lets the filesystem read the runs between them.
fn finish_reads(window: &mut Window<'_>, plan: &[Planned]) {
    let mut rest = plan;
    while let Some(first) = rest.first() {
        let same = rest
            .iter()
            .take_while(|planned| planned.hit == first.hit)
            .count();
        let (run, later) = rest.split_at(same);
        let pages = run.iter().map(|planned| planned.pages).sum();
        if first.hit {
            for planned in run {
                window.filled(planned.index);
            }
        } else {
            window.read(first.index, pages);
        }
        window.consume(pages);
        rest = later;
    }
}

/// Reads a folio in place of the filesystem's `read_folio`. Returns `true` if the host had it: the
/// folio is then up to date and unlocked. Otherwise it is untouched.
pub(crate) fn read_folio(state: &State, folio: Folio<'_>) -> bool {
    let Some(source) = folio.mapping().and_then(|mapping| source(state, &mapping)) else {
        return false;
    };
    let route = state.pools.read_route(&folio);
    let mut plan = [plan_folio(state, &source, &folio, route.host)];
    if plan[0].ask {
        fetch(state, source.file, &mut plan);
    }
    record_reads(state, &source.file, &plan, Some(route));
    if plan[0].hit {
        folio.end_read();
    }
    plan[0].hit
}
