// SPDX-License-Identifier: GPL-2.0-only

//! The owner of the engine: its clocks, its device, and the state of registrations.

use super::frame::{Frame, SharedDevice};
use ddabi::answer::Eviction;
use ddabi::request::Run;
use ddcore::host::heap::{self, Owner, Session};
use ddcore::index::{Held, Removed};
use ddcore::ssd::place::Place;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A clock that is advanced by puts.
#[derive(Debug)]
pub(super) struct Clock {
    puts: Cell<u64>,
    /// Pages put between two ticks.
    pub(super) tick: u64,
}

impl Clock {
    pub(super) const fn new(tick: u64) -> Self {
        Self {
            puts: Cell::new(0),
            tick,
        }
    }

    fn now(&self) -> u64 {
        self.puts.get() / self.tick
    }
}

/// The state of a host, as the owner of the engine.
pub(super) struct Engine {
    /// The clock of all VMs while the tier is not divided between them.
    pub(super) clock: Rc<Clock>,
    pub(super) device: SharedDevice,
    /// Pages that were read from the device to be moved.
    pub(super) moved: Rc<Cell<u64>>,
    /// The time in nanoseconds.
    pub(super) time: Cell<u64>,
}

/// The state of a registration.
pub(super) struct Registration {
    pub(super) clock: Rc<Clock>,
    pub(super) device: SharedDevice,
    pub(super) moved: Rc<Cell<u64>>,
    pub(super) number: u64,
    /// Weight of the VM in the SSD tier.
    pub(super) ssd_weight: Cell<u32>,
    /// Weights of its pools in the SSD tier.
    pub(super) ssd_weights: RefCell<Vec<u32>>,
}

impl Registration {
    fn frame(&self, handle: u64) -> Frame {
        let place = Place::of(handle);
        Frame(place.map(|place| (place.number, self.device.clone())))
    }
}

impl Owner for Engine {
    type Lock<T> = RefCell<T>;
    type Page = Frame;
    type Session = Registration;
    type Vm = Vm;

    const SHARD_BITS: u32 = 0;

    fn page(session: &Session<Self>, removed: Removed) -> Option<Frame> {
        Some(session.own.frame(removed.into_handle()))
    }

    fn share_page(session: &Session<Self>, held: Held<'_>) -> Option<Frame> {
        let frame = session.own.frame(held.handle());
        if let Some((place, device)) = &frame.0 {
            device.borrow_mut().hold(*place);
        }
        Some(frame)
    }

    fn put_on_ssd(
        session: &Session<Self>,
        run: &Run,
        pages: &mut [Option<Frame>],
        _counted: usize,
    ) -> Option<(usize, u64)> {
        let own = &session.own;
        let pool = (own.number, run.pool);
        let filled = own.device.borrow_mut().fill(pool, pages.len() as u32);
        let (places, stamp) = filled?;
        let count = (places.end - places.start) as usize;
        for (page, place) in pages.iter_mut().zip(places) {
            *page = Some(Frame(Some((place, own.device.clone()))));
        }
        Some((count, stamp))
    }

    fn read_from_ssd(session: &Session<Self>, _run: &Run, pages: &mut [Option<Frame>]) -> bool {
        let moved = &session.own.moved;
        moved.set(moved.get() + pages.len() as u64);
        pages.fill_with(|| Some(Frame(None)));
        true
    }

    fn close_segment(session: &Session<Self>, pool: u32, stamp: Option<u64>) {
        let own = &session.own;
        let mut device = own.device.borrow_mut();
        device.close((own.number, pool), stamp);
    }

    fn places(session: &Session<Self>, pool: u32) -> u64 {
        let own = &session.own;
        own.device.borrow().places_of((own.number, pool))
    }

    fn ssd_share(session: &Session<Self>, pool: u32) -> u32 {
        let weights = session.own.ssd_weights.borrow();
        weights.get(pool as usize).copied().unwrap_or(0)
    }

    fn vm_ssd_share(session: &Session<Self>) -> u32 {
        session.own.ssd_weight.get()
    }

    fn ssd_pages(host: &heap::Host<Self>) -> u64 {
        host.own.device.borrow().places()
    }

    fn announce(_session: &Session<Self>, _notices: &[Eviction]) {}

    fn now(session: &Session<Self>) -> u64 {
        session.own.clock.now()
    }

    fn stamp(session: &Session<Self>, pages: u64) -> u64 {
        let clock = &session.own.clock;
        clock.puts.set(clock.puts.get() + pages);
        clock.now()
    }

    fn milliseconds(&self) -> u64 {
        self.time.get() / 1_000_000
    }

    fn common_time(host: &heap::Host<Self>) -> u64 {
        host.own.clock.now()
    }

    fn batch_time(host: &heap::Host<Self>) -> u64 {
        (host.tier.batch() / host.own.clock.tick).max(1)
    }
}

pub(super) type Vm = heap::Vm<Engine>;
