// SPDX-License-Identifier: GPL-2.0-only

//! Evicted pages that the next puts fill.

use super::{Lock, Owner};
use crate::host::carried::Page as _;
use crate::host::room;
use crate::index::PLACED;
use alloc::vec::Vec;

/// A bounded stock.
pub struct Stock<O: Owner> {
    pages: O::Lock<Vec<O::Page>>,
    max_pages: usize,
}

impl<O: Owner> Stock<O> {
    /// Creates an empty stock of at most `max_pages` pages.
    pub(super) fn new(max_pages: usize) -> Self {
        Self {
            pages: O::Lock::new(Vec::new()),
            max_pages,
        }
    }
}

impl<O: Owner> room::Stock<O::Page> for Stock<O> {
    fn len(&self) -> u64 {
        self.pages.lock().len() as u64
    }

    fn add(&self, pages: &mut [Option<O::Page>]) {
        let mut stock = self.pages.lock();
        let room = self.max_pages - stock.len();
        // Places of the SSD tier are no memory that puts could fill.
        let is_frame = |page: &mut O::Page| page.handle() & PLACED == 0;
        let frames = pages.iter_mut().filter_map(|page| page.take_if(is_frame));
        stock.extend(frames.take(room));
    }

    fn take(&self, places: &mut [Option<O::Page>]) -> usize {
        let mut stock = self.pages.lock();
        let count = stock.len().min(places.len());
        for place in &mut places[..count] {
            *place = stock.pop();
        }
        count
    }

    fn give_back(&self, pages: u64, is_wanted: impl Fn(&O::Page) -> bool) -> u64 {
        let mut given = 0;
        self.pages.lock().retain(|page| {
            let stays = given == pages || !is_wanted(page);
            given += u64::from(!stays);
            stays
        });
        given
    }
}
