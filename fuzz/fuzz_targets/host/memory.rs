// SPDX-License-Identifier: GPL-2.0-only

//! The memory of the host: frames that are allocated once and freed once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The first frame number, shortly before a change of the bits that the pages of a block share.
const FIRST: u64 = (1 << 32) - 1000;

/// Frames, by number. A number is never used twice.
pub(crate) struct Memory {
    next: Cell<u64>,
    live: RefCell<BTreeSet<u64>>,
    /// Frames that the host can spare.
    pub(crate) spare: Cell<u64>,
}

impl Memory {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self {
            next: Cell::new(FIRST),
            live: RefCell::new(BTreeSet::new()),
            spare: Cell::new(u64::MAX / 2),
        })
    }

    /// Returns the number of frames in use.
    pub(crate) fn used(&self) -> usize {
        self.live.borrow().len()
    }

    /// Allocates frames, as many as can be spared, or all of them if `anyway`. Returns their
    /// number.
    pub(crate) fn allocate(self: &Rc<Self>, places: &mut [Option<Frame>], anyway: bool) -> usize {
        for (at, place) in places.iter_mut().enumerate() {
            match self.spare.get().checked_sub(1) {
                Some(left) => self.spare.set(left),
                None if anyway => {}
                None => return at,
            }
            let number = self.next.replace(self.next.get() + 1);
            assert!(self.live.borrow_mut().insert(number));
            *place = Some(Frame {
                number,
                memory: self.clone(),
            });
        }
        places.len()
    }

    /// Takes back a frame that is owned by an index.
    pub(crate) fn frame(self: &Rc<Self>, number: u64) -> Frame {
        assert!(self.live.borrow().contains(&number), "a frame in use");
        Frame {
            number,
            memory: self.clone(),
        }
    }
}

/// A frame.
pub(crate) struct Frame {
    pub(crate) number: u64,
    memory: Rc<Memory>,
}

impl ddcore::host::carried::Page for Frame {
    fn handle(&self) -> u64 {
        self.number
    }

    fn keep(mut self) {
        // The number remains in use, and the index owns it now.
        self.number = 0;
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if self.number != 0 {
            let was_live = self.memory.live.borrow_mut().remove(&self.number);
            assert!(was_live, "a frame is freed once");
            self.memory.spare.set(self.memory.spare.get() + 1);
        }
    }
}
