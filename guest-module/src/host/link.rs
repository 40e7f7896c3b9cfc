// SPDX-License-Identifier: GPL-2.0

//! The session with the host: found, lost, found again.
//!
//! Only the worker begins and ends sessions. Hooks read the session lock-free; one that ends
//! while a call is on its way makes that call fail and nothing else.

use crate::counters::count;
use crate::ffi::hooks;
use crate::ffi::worker::Worker;
use crate::genl::send_event;
use crate::hooks::departures::Departure;
use crate::hooks::put;
use crate::host::call::Failure;
use crate::mutation::mutated;
use crate::number::Number;
use crate::state::State;
use ddabi::answer::HelloAnswer;
use ddabi::genl::{Attribute, Event, LinkState};
use ddabi::hypercall::{Operation, Status};
use ddabi::request::Hello;
use ddabi::PAGE_SIZE;
use ddcore::link::{Begun, Link as Lifeline};
use kernel::prelude::*;
use kernel::sync::atomic::{
    ordering::{Full, Relaxed},
    Atomic,
};
use kernel::time::{Instant, Monotonic};

/// Time until a kernel that did not let us attach is tried again; it doubles with each failure.
const FIRST_RETRY: u64 = MINUTE;
/// But is not longer than this.
const LAST_RETRY: u64 = 32 * MINUTE;

/// In nanoseconds.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// In nanoseconds.
pub(crate) const MINUTE: u64 = 60 * SECOND;

/// There is no memory for a session, at the host or here.
const NO_MEMORY: Failure = Failure::Refused(Status::NoMemory);

/// State of the session.
#[pin_data]
pub(crate) struct Link {
    /// The session, and whether hibernation keeps one from beginning.
    pub(crate) line: Lifeline<Number>,
    /// A [`LinkState`].
    pub(crate) state: Atomic<u32>,
    /// Our number at the host.
    vm: Atomic<u32>,
    /// Hooks are installed. Worker only.
    hooked: Atomic<bool>,
    /// What times of the worker are counted from.
    born: Instant<Monotonic>,
    /// When there was a sign of life, in nanoseconds, as below. Worker only.
    pub(crate) pinged: Atomic<u64>,
    /// When curves faded. Worker only.
    pub(crate) faded: Atomic<u64>,
    /// When pages of filesystems that are gone were looked for. Worker only.
    pub(crate) forgot: Atomic<u64>,
    /// When we could not attach; 0 if we could. Worker only.
    failed: Atomic<u64>,
    /// Time from then to the next try. Worker only.
    retry: Atomic<u64>,
    /// Why we could not, as it was last reported. Worker only.
    told: Atomic<i32>,
}

impl Link {
    /// Alone.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            line: Lifeline::new(),
            state: Atomic::new(LinkState::Alone as u32),
            vm: Atomic::new(0),
            hooked: Atomic::new(false),
            born: Instant::now(),
            pinged: Atomic::new(0),
            faded: Atomic::new(0),
            forgot: Atomic::new(0),
            failed: Atomic::new(0),
            retry: Atomic::new(0),
            told: Atomic::new(0),
        })
    }

    /// The session, if there is one. Any context.
    pub(crate) fn session(&self) -> Option<u64> {
        self.line.session()
    }

    /// The session turned out to be over; `false` if another one has begun since. Any context.
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

    /// Nanoseconds since the module was loaded; never zero.
    fn now(&self) -> u64 {
        self.born.elapsed().as_nanos().max(1) as u64
    }

    /// Whether `every` nanoseconds have passed since the time noted in `last`, which is noted
    /// anew then.
    pub(crate) fn is_due(&self, last: &Atomic<u64>, every: u64) -> bool {
        let now = self.now();
        let due = now.saturating_sub(last.load(Relaxed)) >= every;
        if due {
            last.store(now, Relaxed);
        }
        due
    }

    /// Whether the kernel did not let us attach, too short a time ago to try again.
    pub(crate) fn waits(&self) -> bool {
        let failed = self.failed.load(Relaxed);
        let passed = self.now().saturating_sub(failed);
        failed != 0 && passed < self.retry.load(Relaxed) && !mutated(c"attaches-at-every-look")
    }
}

/// Registers with the host and switches caching on.
pub(crate) fn begin(state: &State) -> Result<(), Failure> {
    state.buffers.restart();
    let answer = hello(state)?;
    if !state.link.hooked.load(Relaxed) {
        if let Err(failure) = attach(state) {
            goodbye(state, answer.session);
            return Err(failure);
        }
        state.link.hooked.store(true, Relaxed);
        if hooks::settle().is_err() {
            goodbye(state, answer.session);
            kernel::pr_warn_once!("files take long to change: nothing is cached until they have\n");
            return Err(Failure::NoHost);
        }
    }
    count!(state, sessions);
    state.link.vm.store(answer.vm, Relaxed);
    state.pools.enrol_all(state, answer.session);
    // From here on hooks put and get.
    match state.link.line.begin(answer.session) {
        Begun::Lasts => {}
        Begun::Refused => {
            goodbye(state, answer.session);
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
    let link = &state.link;
    let Err(failure) = hooks::install() else {
        link.failed.store(0, Relaxed);
        link.told.store(0, Relaxed);
        return Ok(());
    };
    if failure.error == ENOMEM {
        return Err(NO_MEMORY);
    }
    let again = link.failed.load(Relaxed) != 0;
    let retry = match link.retry.load(Relaxed) {
        last if again => last.saturating_mul(2).min(LAST_RETRY),
        _ => FIRST_RETRY,
    };
    link.retry.store(retry, Relaxed);
    link.failed.store(link.now(), Relaxed);
    let error = failure.error.to_errno();
    if link.told.xchg(error, Full) != error || mutated(c"attaches-at-every-look") {
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

fn hello(state: &State) -> Result<HelloAnswer, Failure> {
    let mut call = state.buffers.begin().ok_or(Failure::NoHost)?;
    let hello = Hello {
        page_size: PAGE_SIZE as u32,
        ..Hello::default()
    };
    call.push(&hello);
    state.try_send(&mut call, Operation::Hello, 0)?;
    // Without an answer page (a migration is under way) there is no session yet.
    call.body::<HelloAnswer>()
        .filter(|answer| answer.session != 0)
        .ok_or(Failure::NoHost)
}

fn goodbye(state: &State, session: u64) {
    if let Some(mut call) = state.buffers.begin() {
        state.send(&mut call, Operation::Goodbye, session);
    }
}

/// There is no host for us: no hooks, no costs.
pub(crate) fn alone(state: &State, was: u32, failure: Failure) {
    if !mutated(c"hooks-without-host") {
        unhook(state);
    }
    // Who is short of memory may have some at the next try.
    let refused = failure != Failure::NoHost && failure != NO_MEMORY;
    let now = if refused {
        LinkState::Refused
    } else {
        LinkState::Alone
    };
    state.link.state.store(now as u32, Relaxed);
    if was == LinkState::Attached as u32 {
        pr_info!("lost the host, nothing is cached until it comes back\n");
        tell(Event::HostLost);
    }
    if refused && failure != Failure::Unattached && was != LinkState::Refused as u32 {
        pr_warn!(
            "the host refuses us ({:?}): compare the versions of both modules\n",
            failure
        );
    }
}

fn unhook(state: &State) {
    if state.link.hooked.xchg(false, Full) {
        hooks::remove();
        // The hooks that would see the noted folios freed are gone: their puts are over.
        if !mutated(c"departures-kept") {
            let dropped = |departure: &Departure| put::settle(state, departure, false);
            state.departures.clear(dropped);
        }
        // Puts that were on their way have ended, and unmounts are not seen any more.
        state.map.clear();
        state.filesystems.clear();
    }
}

pub(crate) fn tell(event: Event) {
    send_event(&[(Attribute::Event, event as u32)], &[]);
}

/// The module goes: gives everything back.
pub(crate) fn leave(state: &State) {
    let session = state.link.line.end();
    unhook(state);
    if let Some(session) = session {
        goodbye(state, session);
    }
}

/// Hibernation begins (everything is dropped, invariant 13) or is over. Process context.
pub(crate) fn pause(state: &State, pause: bool) {
    if mutated(c"hibernates-full") {
        return;
    }
    if !pause {
        state.link.line.resume();
    } else if let Some(session) = state.link.line.pause() {
        goodbye(state, session);
    }
    // The worker clears the map, or registers again.
    Worker::kick();
}

/// Drops everything the host holds for us, by beginning a new session.
pub(crate) fn drop_all(state: &State) {
    if let Some(session) = state.link.session() {
        state.link.lose(session);
        Worker::kick();
    }
}
