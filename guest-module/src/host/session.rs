// SPDX-License-Identifier: GPL-2.0-only

//! How the session with the host begins and ends. All functions run in process context.

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

/// The host, or this module, has no memory for a session. This is temporary and no refusal.
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
    // From here on hooks put and get pages.
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

/// Attaches the hooks. An attempt patches code on all CPUs, so that a failed one is repeated only
/// after minutes, and reported once for each error.
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

/// Puts the module into the state without a host: hooks are detached, so that the VM pays nothing
/// for the module. `was` is the [`LinkState`] before. Worker only.
pub(crate) fn without_host(state: &State, was: u32, failure: Failure) {
    detach(state);
    // Running out of memory is temporary and no refusal: the worker tries again.
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

/// Detaches the hooks, if they are attached, and empties what needs them.
fn detach(state: &State) {
    if state.attachment.take_attached() {
        let start = tracepoints::detach_is_on().then(Instant::<Monotonic>::now);
        hooks::remove();
        if let Some(start) = start {
            tracepoints::detach(nanoseconds_since(start));
        }
        // The hooks that would see these folios freed are detached, so that their puts are not
        // made.
        let dropped = |departure: &Departure| put::finish(state, departure, false);
        state.departures.clear(dropped);
        // No put is under way any more, and unmounts are not seen any more: both tables are
        // emptied.
        state.map.clear();
        state.filesystems.clear();
    }
}

/// Tells listeners on the netlink family about the session.
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
