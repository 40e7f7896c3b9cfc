// SPDX-License-Identifier: GPL-2.0-only

//! The memory of the host and its device. Each frame and each place is allocated once, and freed
//! once when its last owner is dropped.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use ddcore::host::heap::{Device, PoolKey};
use ddcore::index::PLACED;
use ddcore::ssd::place::Place;

/// The first frame number, shortly before a change of the high bits that the pages of a block
/// share.
const FIRST: u64 = (1 << 32) - 1000;

/// Number of segments of the device, and of their places. They are few, so that segments are
/// evicted.
const SEGMENTS: u32 = 12;
const SEGMENT: u32 = 16;

/// Frames and places, by handle. The number of a frame is never reused.
pub(crate) struct Memory {
    next: Cell<u64>,
    live: RefCell<BTreeMap<u64, State>>,
    /// Frames that the host can spare.
    pub(crate) spare: Cell<u64>,
    pub(crate) device: RefCell<Device>,
    /// Handles of pages that are being moved, with the handles that replace them.
    moving: RefCell<BTreeMap<u64, u64>>,
    /// One in this number of pages that are read from the device is lost; 0 means that no page is
    /// lost.
    pub(crate) damage: Cell<u64>,
    reads: Cell<u64>,
}

/// A frame or a place that has owners.
struct State {
    owners: u32,
    /// The number of the frame in which the data was put, which identifies the data.
    data: u64,
}

impl Memory {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self {
            next: Cell::new(FIRST),
            live: RefCell::default(),
            spare: Cell::new(u64::MAX / 2),
            device: RefCell::new(Device::new(SEGMENTS, SEGMENT)),
            moving: RefCell::default(),
            damage: Cell::new(0),
            reads: Cell::new(0),
        })
    }

    /// Returns the number of frames in use.
    pub(crate) fn used(&self) -> usize {
        self.live.borrow().range(..PLACED).count()
    }

    /// Allocates frames: as many as the host can spare, or all of them if `anyway` is set. Returns
    /// their number.
    pub(crate) fn allocate(self: &Rc<Self>, places: &mut [Option<Frame>], anyway: bool) -> usize {
        for (at, place) in places.iter_mut().enumerate() {
            match self.spare.get().checked_sub(1) {
                Some(left) => self.spare.set(left),
                None if anyway => {}
                None => return at,
            }
            let number = self.next.replace(self.next.get() + 1);
            *place = Some(self.begin(number, number));
        }
        places.len()
    }

    /// Creates a frame or a place with data.
    fn begin(self: &Rc<Self>, number: u64, data: u64) -> Frame {
        let state = State { owners: 1, data };
        assert!(self.live.borrow_mut().insert(number, state).is_none());
        Frame {
            number,
            memory: self.clone(),
        }
    }

    /// Returns the owner of a frame or a place whose handle was in an index.
    pub(crate) fn frame(self: &Rc<Self>, number: u64) -> Frame {
        assert!(self.is_live(number), "a frame or a place in use");
        Frame {
            number,
            memory: self.clone(),
        }
    }

    /// Adds another owner of a frame or a place, and returns it.
    pub(crate) fn share(self: &Rc<Self>, number: u64) -> Frame {
        if let Some(place) = Place::of(number) {
            self.device.borrow_mut().hold(place.number);
        }
        let mut live = self.live.borrow_mut();
        live.get_mut(&number).expect("it is in use").owners += 1;
        drop(live);
        self.frame(number)
    }

    /// Returns whether a frame or a place has an owner.
    pub(crate) fn is_live(&self, number: u64) -> bool {
        self.live.borrow().contains_key(&number)
    }

    /// Records that the data of a page was copied into a frame, which may have contained other data
    /// before.
    pub(crate) fn fill(&self, number: u64) {
        let mut live = self.live.borrow_mut();
        live.get_mut(&number).expect("a frame in use").data = number;
    }

    /// Returns the data of a frame or a place.
    pub(crate) fn data(&self, number: u64) -> u64 {
        self.live.borrow()[&number].data
    }

    /// Returns the new handle of a page that is being moved.
    pub(crate) fn moved(&self, number: u64) -> Option<u64> {
        self.moving.borrow_mut().remove(&number)
    }

    /// Moves pages of a pool to places. Returns their number and the stamp of their segment. For
    /// each page that is in no index yet, `put` is called with its position in the run, its frame
    /// and its new handle.
    pub(crate) fn place(
        self: &Rc<Self>,
        pool: PoolKey,
        pages: &mut [Option<Frame>],
        put: impl Fn(usize, u64, u64),
    ) -> Option<(usize, u64)> {
        let filled = self.device.borrow_mut().fill(pool, pages.len() as u32);
        let (places, stamp) = filled?;
        let count = (places.end - places.start) as usize;
        assert!((1..=pages.len()).contains(&count));
        for (at, (page, place)) in pages.iter_mut().zip(places).enumerate() {
            let old = page.take().expect("a page for each place");
            let new = self.begin(Device::handle(place), self.data(old.number));
            if self.live.borrow()[&old.number].owners > 1 {
                self.moving.borrow_mut().insert(old.number, new.number);
            } else {
                put(at, old.number, new.number);
            }
            *page = Some(new);
        }
        Some((count, stamp))
    }

    /// Reads pages from places into new frames. Returns whether there are frames for them.
    pub(crate) fn read(self: &Rc<Self>, pages: &mut [Option<Frame>]) -> bool {
        let mut frames: Vec<Option<Frame>> = pages.iter().map(|_| None).collect();
        if self.allocate(&mut frames, false) < pages.len() {
            return false;
        }
        for frame in &mut frames {
            self.reads.set(self.reads.get() + 1);
            let damage = self.damage.get();
            if damage > 0 && self.reads.get().is_multiple_of(damage) {
                *frame = None;
            }
        }
        // Pages after the first lost one are moved in the next step.
        let first_lost = frames.iter().position(Option::is_none);
        let moving = first_lost.unwrap_or(frames.len());
        for (at, (page, frame)) in pages.iter_mut().zip(frames).enumerate() {
            let old = page.take().expect("a page for each place");
            if let Some(frame) = &frame {
                let data = self.data(old.number);
                let mut live = self.live.borrow_mut();
                live.get_mut(&frame.number).expect("a new frame").data = data;
                if at < moving {
                    self.moving.borrow_mut().insert(old.number, frame.number);
                }
            }
            *page = frame;
        }
        true
    }

    fn release(&self, number: u64) {
        let mut live = self.live.borrow_mut();
        let state = live.get_mut(&number).expect("it is freed once");
        state.owners -= 1;
        let is_last = state.owners == 0;
        if is_last {
            live.remove(&number);
            // The page is not moved.
            self.moving.borrow_mut().retain(|_, next| *next != number);
        }
        match Place::of(number) {
            Some(place) => self.device.borrow_mut().release(place.number),
            None if is_last => self.spare.set(self.spare.get() + 1),
            None => {}
        }
    }
}

/// An owner of a frame, or of a place of the device.
pub(crate) struct Frame {
    pub(crate) number: u64,
    memory: Rc<Memory>,
}

impl Frame {
    /// Returns whether this is a place of the device.
    pub(crate) fn is_placed(&self) -> bool {
        self.number & PLACED != 0
    }
}

impl ddcore::host::carried::Page for Frame {
    fn handle(&self) -> u64 {
        self.number
    }

    fn keep(mut self) {
        // The number remains in use, because the index owns it now.
        self.number = 0;
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if self.number != 0 {
            self.memory.release(self.number);
        }
    }
}
