// SPDX-License-Identifier: GPL-2.0

//! The session with the host: found, lost, found again.
//!
//! Only the worker begins and ends sessions. Hooks read the session lock-free; one that ends
//! while a call is on its way makes that call fail and nothing else.

use crate::call::Failure;
use crate::counters::count;
use crate::ffi::{self, Delay};
use crate::genl::send_event;
use crate::guest::Guest;
use crate::mutation::mutated;
use crate::number::Number;
use ddabi::answer::HelloAnswer;
use ddabi::genl::{Attribute, Event, LinkState};
use ddabi::hypercall::{Operation, Status};
use ddabi::request::{FlushRange, Hello, MAX_RUNS};
use ddabi::PAGE_SIZE;
use ddcore::link::{Begun, Link as Lifeline};
use kernel::prelude::*;
use kernel::sync::atomic::{
    ordering::{Full, Relaxed},
    Atomic,
};

/// Pause between looks for a host.
const LOOK_MS: Delay = 2_000;
/// Pause between housekeeping runs with a host.
const KEEP_MS: Delay = 500;
/// Housekeeping runs between signs of life.
const PING_EVERY: u32 = 6;
/// Housekeeping runs after which the past of the curves counts for half: five minutes.
const FADE_EVERY: u32 = 600;

/// There is no memory for a session, at the host or here.
const NO_MEMORY: Failure = Failure::Refused(Status::NoMemory);

/// State of the session.
#[pin_data]
pub(crate) struct Link {
    /// The session, and whether hibernation keeps one from beginning.
    line: Lifeline<Number>,
    /// A [`LinkState`].
    state: Atomic<u32>,
    /// Our number at the host.
    vm: Atomic<u32>,
    /// Hooks are installed. Worker only.
    hooked: Atomic<bool>,
    /// Housekeeping runs so far. Worker only.
    runs: Atomic<u32>,
}

impl Link {
    /// Alone.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            line: Lifeline::new(),
            state: Atomic::new(LinkState::Alone as u32),
            vm: Atomic::new(0),
            hooked: Atomic::new(false),
            runs: Atomic::new(0),
        })
    }

    /// The session, if there is one. Any context.
    pub(crate) fn session(&self) -> Option<u64> {
        self.line.session()
    }

    /// The session turned out to be over; `false` if another one began meanwhile. Any context.
    pub(crate) fn lose(&self, session: u64) -> bool {
        self.line.lose(session)
    }

    /// The state as users see it.
    pub(crate) fn state(&self) -> u32 {
        self.state.load(Relaxed)
    }

    /// Our number at the host, 0 if never registered.
    pub(crate) fn vm(&self) -> u32 {
        self.vm.load(Relaxed)
    }
}

/// The worker's job: looks for a host, or keeps house. Milliseconds until the next time.
pub(crate) fn tick(guest: &Guest) -> Delay {
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
    if guest.link.line.is_paused() {
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

/// Registers with the host and switches caching on.
fn begin(guest: &Guest) -> Result<(), Failure> {
    guest.caller.restart();
    let answer = hello(guest)?;
    if !guest.link.hooked.load(Relaxed) {
        if let Err(failure) = ffi::install_hooks() {
            goodbye(guest, answer.session);
            if failure.error == ENOMEM {
                return Err(NO_MEMORY);
            }
            pr_err!(
                "cannot attach to {}: {} ({:?}): nothing is cached\n",
                failure.function,
                failure.why,
                failure.error
            );
            return Err(Failure::Refused(Status::Unsupported));
        }
        guest.link.hooked.store(true, Relaxed);
    }
    count!(guest, sessions);
    guest.link.vm.store(answer.vm, Relaxed);
    guest.pools.enrol_all(guest, answer.session);
    // From here on hooks put and get.
    match guest.link.line.begin(answer.session) {
        Begun::Lasts => {}
        Begun::Refused => {
            goodbye(guest, answer.session);
            return Err(Failure::NoHost);
        }
        Begun::Ended => return Err(Failure::NoHost),
    }
    pr_info!("registered with the host as vm {}\n", answer.vm);
    Ok(())
}

fn hello(guest: &Guest) -> Result<HelloAnswer, Failure> {
    let mut call = guest.caller.begin().ok_or(Failure::NoHost)?;
    let hello = Hello {
        page_size: PAGE_SIZE as u32,
        ..Hello::default()
    };
    call.push(&hello);
    guest.try_send(&mut call, Operation::Hello, 0)?;
    // Without an answer page (a migration is under way) there is no session yet.
    call.body::<HelloAnswer>()
        .filter(|answer| answer.session != 0)
        .ok_or(Failure::NoHost)
}

fn goodbye(guest: &Guest, session: u64) {
    if let Some(mut call) = guest.caller.begin() {
        guest.send(&mut call, Operation::Goodbye, session);
    }
}

/// There is no host for us: no hooks, no costs.
fn alone(guest: &Guest, was: u32, failure: Failure) {
    if !mutated(c"hooks-without-host") {
        unhook(guest);
    }
    // Who is short of memory may have some at the next try.
    let refused = failure != Failure::NoHost && failure != NO_MEMORY;
    let state = if refused {
        LinkState::Refused
    } else {
        LinkState::Alone
    };
    guest.link.state.store(state as u32, Relaxed);
    if was == LinkState::Attached as u32 {
        pr_info!("lost the host, nothing is cached until it comes back\n");
        tell(Event::HostLost);
    }
    if refused && was != LinkState::Refused as u32 {
        pr_warn!(
            "the host refuses us ({:?}): compare the versions of both modules\n",
            failure
        );
    }
}

fn unhook(guest: &Guest) {
    if guest.link.hooked.xchg(false, Full) {
        ffi::remove_hooks();
        // Puts that were on their way have ended, and unmounts are not seen any more.
        guest.map.clear();
        guest.filesystems.clear();
    }
}

fn tell(event: Event) {
    send_event(&[(Attribute::Event, event as u32)], &[]);
}

/// Housekeeping with a host.
fn keep(guest: &Guest) {
    guest.pools.reap(guest);
    if let Some(session) = guest.link.session() {
        guest.pools.enrol_rest(guest, session);
    }
    let made = guest
        .map
        .make_room(|file, first, last| guest.flushes.pages(file, first, last));
    if made.is_err() {
        // No memory: puts are refused until the next try.
        kernel::pr_warn_once!("no memory for the presence map\n");
    }
    while flush(guest) {}
    let runs = guest.link.runs.fetch_add(1, Relaxed);
    if runs % FADE_EVERY == FADE_EVERY - 1 {
        guest.judges.fade();
    }
    if runs % PING_EVERY == 0 {
        if let (Some(session), Some(mut call)) = (guest.link.session(), guest.caller.begin()) {
            guest.send(&mut call, Operation::Ping, session);
        }
    }
}

/// Sends one request of flushes; whether there may be more.
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
    guest.send(&mut call, Operation::Flush, session).is_some() && count == ranges.len()
}

/// The module goes: gives everything back.
pub(crate) fn leave(guest: &Guest) {
    let session = guest.link.line.end();
    unhook(guest);
    if let Some(session) = session {
        goodbye(guest, session);
    }
}

/// Hibernation begins (everything is dropped, invariant 13) or is over. Process context.
pub(crate) fn pause(guest: &Guest, pause: bool) {
    if mutated(c"hibernates-full") {
        return;
    }
    if !pause {
        guest.link.line.resume();
    } else if let Some(session) = guest.link.line.pause() {
        goodbye(guest, session);
    }
    // The worker clears the map, or registers anew.
    ffi::Worker::kick();
}

/// Drops everything the host holds for us, by beginning a new session.
pub(crate) fn drop_all(guest: &Guest) {
    if let Some(session) = guest.link.session() {
        guest.link.lose(session);
        ffi::Worker::kick();
    }
}
