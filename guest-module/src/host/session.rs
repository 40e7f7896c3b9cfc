// SPDX-License-Identifier: GPL-2.0-only

//! Beginning and end of the session with the host. All functions run in process context.

use crate::counters::count;
use crate::ffi::hooks;
use crate::ffi::tracepoints::{self, nanoseconds_since};
use crate::ffi::worker::Worker;
use crate::genl::send_event;
use crate::hooks::departures::Departure;
use crate::hooks::put;
use crate::host::call::Failure;
use crate::state::State;
use ddabi::genl::{Attribute, Event, LinkState};
use ddabi::hypercall::Status;
use ddcore::link::Begun;
use kernel::prelude::*;
use kernel::time::{Instant, Monotonic};

/// The host, or this module, has no memory for a session. This is temporary, and not a refusal.
const NO_MEMORY: Failure = Failure::Refused(Status::NoMemory);

/// Registers with the host, attaches the hooks, creates the pools and switches caching on. Worker
/// only.
pub(crate) fn register(state: &State) -> Result<(), Failure> {
    let channel = &state.channel;
    let answer = channel.hello()?;
    if !state.attachment.is_attached() {
        if let Err(failure) = attach(state) {
            channel.goodbye(answer.session);
            return Err(failure);
        }
        state.attachment.set_attached();
        if hooks::settle().is_err() {
            channel.goodbye(answer.session);
            kernel::pr_warn_once!(
                "a change of a file that began before the module was loaded takes long: nothing is \
                 cached until it has ended\n"
            );
            return Err(Failure::NoHost);
        }
    }
    count!(state, sessions);
    channel.note(&answer);
    state.pools.enrol_all(channel, answer.session);
    // When the session has begun, hooks put and get pages.
    match channel.link().begin(answer.session) {
        Begun::Lasts if tracepoints::session_begin_is_on() => {
            tracepoints::session_begin(answer.vm, state.pools.count());
        }
        Begun::Lasts => {}
        Begun::Refused => {
            channel.goodbye(answer.session);
            return Err(Failure::NoHost);
        }
        Begun::Ended => return Err(Failure::NoHost),
    }
    pr_info!("registered with the host as VM {}\n", answer.vm);
    Ok(())
}

/// Attaches the hooks. Because an attempt patches code on all CPUs, a failed one is repeated only
/// after minutes. Each error is reported once.
fn attach(state: &State) -> Result<(), Failure> {
    let start = tracepoints::attach_is_on().then(Instant::<Monotonic>::now);
    let installed = hooks::install();
    if let Some(start) = start {
        let error = installed.as_ref().err();
        let error = error.map_or(0, |failure| failure.error.to_errno());
        tracepoints::attach(error, nanoseconds_since(start));
    }
    let Err(failure) = installed else {
        state.attachment.succeeded();
        return Ok(());
    };
    if failure.error == ENOMEM {
        return Err(NO_MEMORY);
    }
    if state.attachment.failed(state.schedule.now(), failure.error) {
        pr_err!(
            "cannot attach to {}: {} ({:?}): nothing is cached; the module tries again after a \
             minute, then less often\n",
            failure.function,
            failure.why,
            failure.error
        );
    }
    Err(Failure::Unattached)
}

/// Puts the module into the state without a host. Hooks are detached, so that the module costs the
/// VM nothing. `was` is the previous [`LinkState`]. Worker only.
pub(crate) fn without_host(state: &State, was: u32, failure: Failure) {
    detach(state);
    // Lack of memory is temporary, and not a refusal: the worker tries again.
    let refused = failure != Failure::NoHost && failure != NO_MEMORY;
    let now = if refused {
        LinkState::Refused
    } else {
        LinkState::Alone
    };
    state.channel.set_state(now);
    if was == LinkState::Attached as u32 {
        pr_info!("the host does not answer any more: nothing is cached until it does\n");
        send_link_event(Event::HostLost);
    }
    if refused && failure != Failure::Unattached && was != LinkState::Refused as u32 {
        pr_warn!(
            "the host refuses this VM ({:?}): compare the versions of both modules\n",
            failure
        );
    }
}

/// Detaches the hooks, if they are attached, and empties the tables that depend on them.
fn detach(state: &State) {
    if state.attachment.take_attached() {
        let start = tracepoints::detach_is_on().then(Instant::<Monotonic>::now);
        hooks::remove();
        if let Some(start) = start {
            tracepoints::detach(nanoseconds_since(start));
        }
        // The hook that would notice the freeing of these folios is detached, so that they are not
        // put.
        let dropped = |departure: &Departure| put::finish(state, departure, false);
        state.departures.clear(dropped);
        // Both tables are emptied, because no put is in flight and the hooks no longer report
        // unmounts.
        state.map.clear();
        state.filesystems.clear();
    }
}

/// Notifies listeners of the netlink family about the session.
pub(crate) fn send_link_event(event: Event) {
    send_event(&[(Attribute::Event, event as u32)], &[]);
}

/// Ends the session and detaches the hooks, because the module is being unloaded.
pub(crate) fn shut_down(state: &State) {
    let session = state.channel.link().end();
    if session.is_some() {
        state.channel.trace_end(c"unload");
    }
    detach(state);
    if let Some(session) = session {
        state.channel.goodbye(session);
    }
}

/// Ends the session because hibernation or a reboot begins (invariant 13), or allows sessions
/// again.
pub(crate) fn set_paused(state: &State, pause: bool) {
    if !pause {
        state.channel.link().resume();
    } else if let Some(session) = state.channel.link().pause() {
        state.channel.trace_end(c"pause");
        state.channel.goodbye(session);
    }
    // The worker clears the map of the ended session, or begins a new one.
    Worker::kick();
}
