// SPDX-License-Identifier: GPL-2.0-only

//! Rounds of a cache: all pages are put, and then got in another order.

use std::time::Duration;

use anyhow::{Result, ensure};
use cpu_time::ProcessTime;
use ddabi::PAGE_SIZE;
use rand::{RngCore as _, SeedableRng as _, seq::SliceRandom as _};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use super::store::{Bytes, Page, RUN, Store};

/// Number of pages of the guest, which exceed the processor's caches.
const GUEST: usize = 8192;

/// Names of the courses, with the number of neighbouring pages of each put and get.
pub(super) const SHAPES: [(&str, usize); 2] = [("runs", RUN), ("single", 1)];

/// The results of a cache.
#[derive(Debug, Serialize)]
pub(super) struct Sample {
    pub(super) cache: &'static str,
    pub(super) shape: &'static str,
    /// Each round, in order: nanoseconds of processor time of the whole process for a page put.
    pub(super) put_ns: Vec<f64>,
    /// The same for a page got.
    pub(super) get_ns: Vec<f64>,
    /// Bytes written for each page put.
    pub(super) written: f64,
    /// Bytes read for each page got.
    pub(super) read: f64,
}

/// A cache that is being measured.
pub(super) struct Course<'a> {
    cache: &'static str,
    shape: (&'static str, usize),
    store: &'a mut dyn Store,
    pages: u64,
    guest: Vec<Page>,
    begun: Bytes,
    times: Vec<(f64, f64)>,
}

impl<'a> Course<'a> {
    pub(super) fn new(
        cache: &'static str,
        store: &'a mut dyn Store,
        shape: (&'static str, usize),
        pages: u64,
    ) -> Self {
        let mut guest = vec![[0; PAGE_SIZE]; GUEST];
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        guest.iter_mut().for_each(|page| rng.fill_bytes(page));
        Self {
            cache,
            shape,
            store,
            pages,
            guest,
            begun: Bytes::default(),
            times: Vec::new(),
        }
    }

    /// Forgets the rounds so far, because they were for warming up.
    pub(super) fn begin(&mut self) {
        self.times.clear();
        self.begun = self.store.bytes();
    }

    /// Runs a round. Rounds with the same number have the same order in all caches.
    pub(super) fn play(&mut self, round: u64) -> Result<()> {
        let mut rng = Pcg64Mcg::seed_from_u64(round);
        let size = self.shape.1;
        let mut firsts: Vec<u64> = (0..self.pages).step_by(size).collect();
        firsts.shuffle(&mut rng);
        let start = ProcessTime::now();
        for (turn, first) in firsts.iter().enumerate() {
            let pages = of_guest(&mut self.guest, turn, size);
            for (number, page) in (*first..).zip(&mut *pages) {
                page[..8].copy_from_slice(&number.to_le_bytes());
            }
            self.store.put(*first, pages)?;
        }
        self.store.settle()?;
        let put = start.elapsed();
        firsts.shuffle(&mut rng);
        let start = ProcessTime::now();
        for (turn, first) in firsts.iter().enumerate() {
            let pages = of_guest(&mut self.guest, turn, size);
            self.store.get(*first, pages)?;
            let mut numbers = (*first..).map(u64::to_le_bytes).zip(pages);
            let is_right = numbers.all(|(number, page)| page[..8] == number);
            ensure!(is_right, "{} returned another page", self.cache);
        }
        let get = start.elapsed();
        let each = |time: Duration| time.as_nanos() as f64 / self.pages as f64;
        self.times.push((each(put), each(get)));
        Ok(())
    }

    /// Returns the results.
    pub(super) fn end(self) -> Sample {
        let bytes = self.store.bytes();
        let each = |bytes: u64| bytes as f64 / (self.times.len() as u64 * self.pages) as f64;
        Sample {
            cache: self.cache,
            shape: self.shape.0,
            written: each(bytes.written - self.begun.written),
            read: each(bytes.read - self.begun.read),
            put_ns: self.times.iter().map(|(put, _)| *put).collect(),
            get_ns: self.times.iter().map(|(_, get)| *get).collect(),
        }
    }
}

/// Returns the pages of the guest for a call.
fn of_guest(guest: &mut [Page], turn: usize, size: usize) -> &mut [Page] {
    let at = turn * size % GUEST;
    &mut guest[at..at + size]
}
