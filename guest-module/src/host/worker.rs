// SPDX-License-Identifier: GPL-2.0

//! The background job: looks for a host, and keeps house while there is one.

use crate::counters::count;
use crate::ffi::cpu;
use crate::ffi::worker::Delay;
use crate::guest::Guest;
use crate::host::link::{alone, begin, tell, MINUTE, SECOND};
use crate::mutation::mutated;
use ddabi::genl::{Event, LinkState};
use ddabi::hypercall::Operation;
use ddabi::request::{FlushRange, MAX_RUNS};
use kernel::prelude::*;
use kernel::sync::atomic::ordering::Relaxed;

/// Pause between looks for a host.
const LOOK_MS: Delay = 2_000;
/// Pause between housekeeping runs with a host.
const KEEP_MS: Delay = 500;
/// Time between signs of life.
const PING: u64 = 3 * SECOND;
/// Time after which the past of the curves counts for half.
const FADE: u64 = 5 * MINUTE;
/// Least time between two looks for pages of filesystems that are gone: each looks at the whole
/// map, and takes care of all of them.
const FORGET: u64 = 10 * SECOND;
/// Flush requests in a round of the worker at most, whatever the host answers.
const FLUSHES: usize = 4096;

/// One round of the worker: registers with a host, or does housekeeping. Returns the milliseconds
/// until the next round.
pub(crate) fn tick(guest: &Guest) -> Delay {
    // Containers come and go without a host, too.
    if guest.link.session().is_some() || !mutated(c"reaps-with-host-only") {
        guest.pools.reap(guest);
    }
    if guest.link.session().is_some() {
        keep(guest);
    }
    if guest.link.session().is_some() {
        return KEEP_MS;
    }
    // Never attached, or just lost: nothing in the map is valid.
    let was = guest.link.state();
    if was == LinkState::Attached as u32 {
        guest.map.clear();
        guest.flushes.clear();
    }
    if guest.link.line.is_paused() || guest.link.waits() {
        return LOOK_MS;
    }
    match begin(guest) {
        Ok(()) => {
            let event = if was == LinkState::Attached as u32 {
                Event::Rollback
            } else {
                Event::HostFound
            };
            guest.link.state.store(LinkState::Attached as u32, Relaxed);
            tell(event);
            KEEP_MS
        }
        Err(failure) => {
            alone(guest, was, failure);
            LOOK_MS
        }
    }
}

/// Housekeeping with a host.
fn keep(guest: &Guest) {
    let link = &guest.link;
    if let Some(session) = guest.link.session() {
        guest.pools.enrol_rest(guest, session);
    }
    let made = guest
        .map
        .make_room(|file, first, last| guest.flushes.pages(file, first, last));
    if made.is_err() {
        // Puts that need room are refused until memory was found in a later round.
        kernel::pr_warn_once!("no memory for the presence map\n");
    }
    for _ in 0..FLUSHES {
        if !flush(guest) {
            break;
        }
        cpu::breathe();
    }
    let outdated = guest.map.forget_outdated();
    count!(guest, invalidated, outdated);
    let forgets = link.is_due(&link.forgot, FORGET) && !mutated(c"unmounted-kept");
    if forgets && guest.filesystems.take_gone() > 0 {
        let is_gone = |number| guest.filesystems.is_gone(number);
        let cleared = guest.map.forget_filesystems(is_gone);
        count!(guest, invalidated, cleared);
    }
    if link.is_due(&link.faded, FADE) {
        guest.judges.fade();
    }
    if link.is_due(&link.pinged, PING) || mutated(c"worker-unpaced") {
        if let (Some(session), Some(mut call)) = (link.session(), guest.caller.begin()) {
            guest.send(&mut call, Operation::Ping, session);
        }
    }
}

/// Sends one request of flushes; returns whether there may be more.
fn flush(guest: &Guest) -> bool {
    if mutated(c"host-trusted") {
        guest.flushes.clear();
    }
    let mut ranges = [FlushRange::default(); MAX_RUNS / 4];
    let Some(session) = guest.link.session() else {
        return false;
    };
    let count = guest.flushes.take(&mut ranges);
    if count == 0 {
        return false;
    }
    let Some(mut call) = guest.caller.begin() else {
        return false;
    };
    for range in &ranges[..count] {
        call.push(range);
    }
    count!(guest, flush_calls);
    if guest.send(&mut call, Operation::Flush, session).is_none() {
        return false;
    }
    if !call.is_unfinished() {
        return count == ranges.len();
    }
    let left = (0..count).rev().filter(|n| !call.succeeded(*n));
    guest.flushes.put_back(left.map(|n| ranges[n]));
    true
}
