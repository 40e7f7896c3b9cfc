// SPDX-License-Identifier: GPL-2.0-only

//! Data for copying: frames of the host, and pages of a guest.

use ddabi::PAGE_SIZE;

/// Number of frames of the host. More would only take memory, because these already exceed any
/// processor cache.
const HOST: usize = 1 << 15;

/// Number of pages of a guest.
const GUEST: usize = 1 << 13;

type Page = [u8; PAGE_SIZE];

/// The memory of a host and of one guest.
pub(crate) struct Frames {
    host: Vec<Box<Page>>,
    guest: Vec<Box<Page>>,
    next: usize,
}

impl Frames {
    /// Allocates the memory, with all pages present.
    pub(crate) fn new() -> Self {
        let page = |fill: usize| Box::new([fill as u8; PAGE_SIZE]);
        Self {
            host: (0..HOST).map(page).collect(),
            guest: (0..GUEST).map(page).collect(),
            next: 0,
        }
    }

    /// Copies pages of the guest into consecutive frames.
    pub(crate) fn take_in(&mut self, first: u64, pages: u32) {
        for frame in first..first + u64::from(pages) {
            let at = self.turn();
            *self.host[frame as usize % HOST] = *self.guest[at];
        }
    }

    /// Copies frames into the guest.
    pub(crate) fn give_out(&mut self, frames: &[u64]) {
        for frame in frames {
            let at = self.turn();
            *self.guest[at] = *self.host[*frame as usize % HOST];
        }
    }

    fn turn(&mut self) -> usize {
        self.next = (self.next + 1) % GUEST;
        self.next
    }
}
