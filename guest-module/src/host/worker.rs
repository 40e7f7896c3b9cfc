// SPDX-License-Identifier: GPL-2.0-only

//! The background job, which looks for a host, and does housekeeping while there is a session. It
//! runs in process context.

use crate::counters::count;
use crate::ffi::change::Change;
use crate::ffi::cpu;
use crate::ffi::worker::Delay;
use crate::host::schedule::{MINUTE, SECOND};
use crate::host::session::{register, send_link_event, without_host};
use crate::state::State;
use ddabi::genl::{Event, LinkState};
use ddabi::hypercall::Operation;
use ddabi::key::FileKey;
use ddabi::request::{FlushRange, MAX_RUNS};
use ddcore::flush_queue::retain_needed;
use kernel::prelude::*;

/// Milliseconds between two attempts to register.
const SEARCH_MS: Delay = 2_000;
/// Milliseconds between two rounds of housekeeping.
const HOUSEKEEPING_MS: Delay = 500;
/// Time between two pings. A ping delivers eviction notices to a VM that neither puts nor gets, and
/// detects that the host module was unloaded.
const PING_INTERVAL: u64 = 3 * SECOND;
/// Time after which the counters of the curves are halved, so that they follow the load.
const FADE_INTERVAL: u64 = 5 * MINUTE;
/// Shortest time between two searches for pages of unmounted filesystems. Each search visits the
/// whole map, and covers all filesystems that were unmounted since the last one.
const FORGET_INTERVAL: u64 = 10 * SECOND;
/// Number of ranges of a flush request.
const FLUSH_RANGES: usize = MAX_RUNS / 4;
/// Maximum number of flush requests in a round, which bounds the round whatever the host answers.
const MAX_FLUSH_CALLS: usize = 4096;

/// Runs one round: registers with a host, or does housekeeping. Returns the milliseconds until the
/// next round.
pub(crate) fn run(state: &State) -> Delay {
    // Cgroups are removed without a host, too.
    state.pools.remove_dead(&state.channel);
    if state.channel.session().is_some() {
        keep_house(state);
    }
    if state.channel.session().is_some() {
        return HOUSEKEEPING_MS;
    }
    // Without a session, nothing in the map is valid.
    let was = state.channel.state();
    if was == LinkState::Attached as u32 {
        state.map.clear();
        state.flushes.clear();
    }
    if state.channel.link().is_paused() || state.attachment.waits(state.schedule.now()) {
        return SEARCH_MS;
    }
    match register(state) {
        Ok(()) => {
            let event = if was == LinkState::Attached as u32 {
                Event::Rollback
            } else {
                Event::HostFound
            };
            state.channel.set_state(LinkState::Attached);
            send_link_event(event);
            HOUSEKEEPING_MS
        }
        Err(failure) => {
            without_host(state, was, failure);
            SEARCH_MS
        }
    }
}

/// Does the periodic work of a session: creates missing pools, extends the map, sends flushes,
/// forgets pages, and pings the host.
fn keep_house(state: &State) {
    let (channel, schedule) = (&state.channel, &state.schedule);
    if let Some(session) = state.channel.session() {
        state.pools.enrol_rest(channel, session);
    }
    let made = state
        .map
        .make_room(|file, first, last| state.flushes.push_pages(file, first, last));
    if made.is_err() {
        // Puts that need room are refused until a later round finds memory.
        kernel::pr_warn_once!(
            "no memory for the presence map: pages that need room in it are not cached\n"
        );
    }
    for _ in 0..MAX_FLUSH_CALLS {
        if !send_flushes(state) {
            break;
        }
        cpu::cond_resched();
    }
    state.forgotten(state.map.forget_outdated(), Change::Outdated);
    let forgets = schedule.is_due(&schedule.last_forget, FORGET_INTERVAL);
    if forgets && state.filesystems.take_gone() > 0 {
        let is_gone = |number| state.filesystems.is_gone(number);
        let cleared = state.map.forget_filesystems(is_gone);
        state.forgotten(cleared, Change::Unmounted);
    }
    if schedule.is_due(&schedule.last_fade, FADE_INTERVAL) {
        state.pools.admissions.fade();
    }
    if schedule.is_due(&schedule.last_ping, PING_INTERVAL) {
        if let (Some(session), Some(mut call)) = (channel.session(), channel.begin()) {
            state.send(&mut call, Operation::Ping, session);
        }
    }
}

/// Sends one request with flushes. Returns whether there may be more of them: if the host has not
/// finished these, or if the queue had as many as a request takes.
fn send_flushes(state: &State) -> bool {
    let mut ranges = [FlushRange::default(); FLUSH_RANGES];
    let Some(session) = state.channel.session() else {
        return false;
    };
    let count = state.flushes.take(&mut ranges);
    let are_present = |file: &FileKey, index, pages| state.map.peek(file, index, pages);
    let needed = retain_needed(&mut ranges[..count], are_present);
    let more = match needed {
        0 => count == FLUSH_RANGES,
        _ => send_ranges(state, session, &ranges[..needed])
            .is_some_and(|is_unfinished| is_unfinished || count == FLUSH_RANGES),
    };
    state.flushes.set_sent();
    more
}

/// Sends some ranges, and queues those again that the host has not finished. Returns whether there
/// are any, or `None` if the call failed.
fn send_ranges(state: &State, session: u64, ranges: &[FlushRange]) -> Option<bool> {
    let mut call = state.channel.begin()?;
    for range in ranges {
        call.push(range);
    }
    count!(state, flush_calls);
    state.send(&mut call, Operation::Flush, session)?;
    if call.is_unfinished() {
        let left = (0..ranges.len()).filter(|n| !call.succeeded(*n));
        state.flushes.put_back(left.map(|n| ranges[n]));
    }
    Some(call.is_unfinished())
}
