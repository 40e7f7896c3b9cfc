// SPDX-License-Identifier: GPL-2.0

//! The session with the host: found, lost, found again.

use crate::counters::count;
use crate::ffi::hooks;
use crate::ffi::worker::Worker;
use crate::genl::send_event;
use crate::hooks::departures::Departure;
use crate::hooks::put;
use crate::host::call::Failure;
use crate::mutation::mutated;
use crate::state::State;
use ddabi::genl::{Attribute, Event, LinkState};
use ddabi::hypercall::Status;
use ddcore::link::Begun;
use kernel::prelude::*;

/// There is no memory for a session, at the host or here.
const NO_MEMORY: Failure = Failure::Refused(Status::NoMemory);

/// Registers with the host and switches caching on.
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
            kernel::pr_warn_once!("files take long to change: nothing is cached until they have\n");
            return Err(Failure::NoHost);
        }
    }
    count!(state, sessions);
    channel.set_vm(answer.vm);
    state.pools.enrol_all(channel, answer.session);
    // From here on hooks put and get.
    match channel.link().begin(answer.session) {
        Begun::Lasts => {}
        Begun::Refused => {
            channel.goodbye(answer.session);
            return Err(Failure::NoHost);
        }
        Begun::Ended => return Err(Failure::NoHost),
    }
    pr_info!("registered with the host as vm {}\n", answer.vm);
    Ok(())
}

/// Attaches to the kernel. Trying it patches code on all CPUs, so that the next try after a failure
/// is minutes away, and users are told once.
fn attach(state: &State) -> Result<(), Failure> {
    let Err(failure) = hooks::install() else {
        state.attachment.succeeded();
        return Ok(());
    };
    if failure.error == ENOMEM {
        return Err(NO_MEMORY);
    }
    if state.attachment.failed(state.schedule.now(), failure.error) {
        pr_err!(
            "cannot attach to {}: {} ({:?}): nothing is cached; tried again after a minute, then \
             less often\n",
            failure.function,
            failure.why,
            failure.error
        );
    }
    Err(Failure::Unattached)
}

/// There is no host for us: no hooks, no costs.
pub(crate) fn without_host(state: &State, was: u32, failure: Failure) {
    if !mutated(c"hooks-without-host") {
        detach(state);
    }
    // Who is short of memory may have some at the next try.
    let refused = failure != Failure::NoHost && failure != NO_MEMORY;
    let now = if refused {
        LinkState::Refused
    } else {
        LinkState::Alone
    };
    state.channel.set_state(now);
    if was == LinkState::Attached as u32 {
        pr_info!("lost the host, nothing is cached until it comes back\n");
        send_link_event(Event::HostLost);
    }
    if refused && failure != Failure::Unattached && was != LinkState::Refused as u32 {
        pr_warn!(
            "the host refuses us ({:?}): compare the versions of both modules\n",
            failure
        );
    }
}

fn detach(state: &State) {
    if state.attachment.take_attached() {
        hooks::remove();
        // The hooks that would see the noted folios freed are gone: their puts are over.
        if !mutated(c"departures-kept") {
            let dropped = |departure: &Departure| put::finish(state, departure, false);
            state.departures.clear(dropped);
        }
        // Puts that were on their way have ended, and unmounts are not seen any more.
        state.map.clear();
        state.filesystems.clear();
    }
}

pub(crate) fn send_link_event(event: Event) {
    send_event(&[(Attribute::Event, event as u32)], &[]);
}

/// The module goes: gives everything back.
pub(crate) fn shut_down(state: &State) {
    let session = state.channel.link().end();
    detach(state);
    if let Some(session) = session {
        state.channel.goodbye(session);
    }
}

/// Hibernation begins (everything is dropped, invariant 13) or is over. Process context.
pub(crate) fn set_paused(state: &State, pause: bool) {
    if mutated(c"hibernates-full") {
        return;
    }
    if !pause {
        state.channel.link().resume();
    } else if let Some(session) = state.channel.link().pause() {
        state.channel.goodbye(session);
    }
    // The worker clears the map, or registers again.
    Worker::kick();
}
