// SPDX-License-Identifier: GPL-2.0-only

//! A host with a device, and how long segments are evicted.

use super::{evict_segment, reclaim, TRIES};
use crate::host::carried::{Carried, Page};
use crate::host::heap::{self, Device, Owner, Tier, Vm};
use crate::host::put::keep;
use crate::host::session::Session as _;
use crate::host::standing::Standing;
use crate::index::{Hasher, Held, Removed, PLACED};
use crate::policy::Order;
use crate::ssd::place::Place;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::{Cell, RefCell};
use core::iter;
use ddabi::answer::Eviction;
use ddabi::request::Run;

/// Number of places of a segment.
const SEGMENT: u16 = 4;

/// A host with a device.
#[derive(Default)]
pub(crate) struct Flash;

/// A frame, or a place of the device.
pub(crate) struct Owned(u64, Rc<RefCell<Device>>);

impl Owned {
    /// Returns whether this is a place.
    pub(crate) fn is_placed(&self) -> bool {
        self.0 & PLACED != 0
    }

    /// Returns a frame of the same host.
    pub(crate) fn frame(&self) -> Self {
        Self(1, self.1.clone())
    }
}

impl Page for Owned {
    fn handle(&self) -> u64 {
        self.0
    }

    fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(place) = Place::of(self.0) {
            self.1.borrow_mut().release(place.number);
        }
    }
}

impl Owner for Flash {
    type Lock<T> = RefCell<T>;
    type Page = Owned;
    type Session = Rc<RefCell<Device>>;
    type Vm = Vm<Self>;

    const SHARD_BITS: u32 = 1;

    fn page(session: &heap::Session<Self>, removed: Removed) -> Option<Owned> {
        Some(Owned(removed.into_handle(), session.own.clone()))
    }

    fn share_page(session: &heap::Session<Self>, held: Held<'_>) -> Option<Owned> {
        if let Some(place) = Place::of(held.handle()) {
            session.own.borrow_mut().hold(place.number);
        }
        Some(Owned(held.handle(), session.own.clone()))
    }

    fn put_on_ssd(
        session: &heap::Session<Self>,
        run: &Run,
        pages: &mut [Option<Owned>],
        _counted: usize,
    ) -> Option<(usize, u64)> {
        let filled = session
            .own
            .borrow_mut()
            .fill((0, run.pool), pages.len() as u32);
        let (places, stamp) = filled?;
        let count = (places.end - places.start) as usize;
        for (page, place) in pages.iter_mut().zip(places) {
            *page = Some(Owned(Device::handle(place), session.own.clone()));
        }
        Some((count, stamp))
    }

    fn close_segment(session: &heap::Session<Self>, pool: u32, stamp: Option<u64>) {
        session.own.borrow_mut().close((0, pool), stamp);
    }

    fn places(session: &heap::Session<Self>, pool: u32) -> u64 {
        session.own.borrow().places_of((0, pool))
    }

    fn ssd_share(_: &heap::Session<Self>, _pool: u32) -> u32 {
        1
    }

    fn vm_ssd_share(_: &heap::Session<Self>) -> u32 {
        1
    }

    fn announce(_: &heap::Session<Self>, _: &[Eviction]) {}

    fn milliseconds(&self) -> u64 {
        0
    }
}

/// Returns a host whose device has this number of segments, and its VM with one pool.
pub(crate) fn host(segments: u32) -> (heap::Host<Flash>, Arc<Vm<Flash>>) {
    let tier = Arc::new(Tier::new(1000));
    let device = Rc::new(RefCell::new(Device::new(segments, SEGMENT.into())));
    let mut session = heap::Session::new(tier.clone(), Hasher::new(1), device);
    let pool = session.add_pool();
    session.set_pool(pool, 1, Order::Aged);
    let host = heap::Host::new(tier, 0, Flash);
    let vm = host.add_vm(Vm {
        number: 1,
        share: 1,
        session,
        standing: Standing::new(),
    });
    (host, vm)
}

/// Stores a run of up to [`SEGMENT`] pages on the device if `is_on_ssd` is set, else in memory.
pub(crate) fn put(session: &heap::Session<Flash>, run: Run, is_on_ssd: bool) {
    let count = usize::from(run.pages);
    let mut carried = Carried::new();
    let pages = &mut carried.pages[..count];
    pages.fill_with(|| Some(Owned(1, session.own.clone())));
    let stamp = match is_on_ssd {
        true => {
            let (placed, stamp) = session.put_on_ssd(&run, pages, count).unwrap();
            assert_eq!(placed, count, "the run fits into a segment");
            stamp
        }
        false => {
            assert!(session.tier().reserve(run.pages.into()));
            session.stamp(run.pages.into())
        }
    };
    let class = if is_on_ssd {
        crate::host::list::SSD_CLASS
    } else {
        0
    };
    let run = iter::once((Run { class, ..run }, 0));
    assert_eq!(keep(session, run, &mut carried, stamp), count);
}

/// Returns a run that fills a segment.
fn segment(number: u64) -> Run {
    Run {
        index: number * u64::from(SEGMENT),
        pages: SEGMENT,
        ..Run::default()
    }
}

/// A device that needs free segments without end. If `is_blocked` is set, no segment becomes free.
struct Short {
    is_blocked: bool,
    evicted: Cell<usize>,
}

impl super::Device for Short {
    fn segment_size(&self) -> u32 {
        SEGMENT.into()
    }

    fn free(&self) -> usize {
        match self.is_blocked {
            true => 0,
            false => self.evicted.get(),
        }
    }

    fn is_short(&self) -> bool {
        true
    }

    fn evicted(&self) {
        self.evicted.set(self.evicted.get() + 1);
    }
}

/// Returns the number of segments of `segments` that are evicted for a device.
fn evicted(segments: u64, is_blocked: bool) -> usize {
    let (host, vm) = host(segments as u32);
    (0..segments).for_each(|number| put(&vm.session, segment(number), true));
    let device = Short {
        is_blocked,
        evicted: Cell::new(0),
    };
    reclaim(&host, &device);
    device.evicted.get()
}

/// Otherwise eviction would empty the tier for a device whose segments cannot become free, or stop
/// while it makes progress.
#[test]
fn eviction_goes_on_as_long_as_segments_become_free() {
    let segments = 2 * TRIES as u64;
    assert_eq!(evicted(segments, true), TRIES);
    assert_eq!(evicted(segments, false), segments as usize);
}

#[test]
fn segments_are_evicted_until_enough_are_free() {
    let (host, vm) = host(4);
    (0..4).for_each(|number| put(&vm.session, segment(number), true));
    let device = &*vm.session.own;
    reclaim(&host, device);
    // The device keeps two segments free. The oldest ones were evicted.
    assert_eq!(super::Device::free(device), 2);
    assert_eq!(vm.session.state().ssd(), 2 * u64::from(SEGMENT));
    assert_eq!(evict_segment(&host, SEGMENT.into()), Some((Some(3), 4)));
}

/// A pool whose only page was read again fills a segment without pages, which is closed.
#[test]
fn a_segment_without_pages_is_closed() {
    let (host, vm) = host(2);
    let run = Run {
        pages: 1,
        ..Run::default()
    };
    put(&vm.session, run, true);
    let mut batch = crate::index::Batch::new();
    crate::host::run::discard(&vm.session, &mut batch, &run);
    assert_eq!(vm.session.places(0), u64::from(SEGMENT));
    assert_eq!(evict_segment(&host, SEGMENT.into()), Some((None, 0)));
    assert_eq!(vm.session.places(0), 0);
    assert_eq!(evict_segment(&host, SEGMENT.into()), None);
}
