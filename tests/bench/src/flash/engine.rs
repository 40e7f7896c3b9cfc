// SPDX-License-Identifier: GPL-2.0-only

//! The engine with a pool on the SSD tier: the index and the log of segments of `ddcore`, and the
//! checksums of the host module, above a file instead of bios.

use std::{fs::File, iter::once, os::unix::fs::FileExt as _, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use ddabi::{PAGE_SIZE, answer::Eviction, request::Run};
use ddcore::{
    host::{
        Session as _,
        heap::{Device, Host, Lock as _, Owner, Session, Tier, Vm},
        list::SSD_CLASS,
        run::{insert, take},
        session::shard_bits,
    },
    index::{Batch, Hasher, Removed},
    policy::{Order, Policy},
    ssd::place::Place,
};
use memmap2::MmapMut;
use twox_hash::XxHash64;

use super::{
    SEGMENT,
    store::{Bytes, Page, RUN, Store},
};
use crate::engine::{Frame, Spinlock};

/// Distinguishes the seeds of the pages of a file, as in the host module.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The owner of the engine. Pages are only places, whose data the [`Engine`] has.
struct Flash;

impl Owner for Flash {
    type Lock<T> = Spinlock<T>;
    type Page = Frame;
    type Session = Spinlock<Device>;
    type Vm = Vm<Self>;

    /// Not used: the number of shards is that of the host module for a guest with one vCPU.
    const SHARD_BITS: u32 = 0;

    /// Releases the place of a page that a newer one replaces.
    fn page(session: &Session<Self>, removed: Removed) -> Option<Frame> {
        let place = Place::of(removed.into_handle())?;
        session.own.lock().release(place.number);
        None
    }

    fn announce(_session: &Session<Self>, _notices: &[Eviction]) {}

    fn allocate(_host: &Host<Self>, _pages: &mut [Option<Frame>], _below_floor: bool) -> usize {
        0
    }

    fn spare(&self) -> u64 {
        0
    }

    fn milliseconds(&self) -> u64 {
        0
    }
}

/// A pool on a device that is a part of a file. Pages are only read when their segment is full, so
/// that it is in the file.
pub(super) struct Engine {
    session: Session<Flash>,
    batch: Batch,
    pool: u32,
    file: File,
    /// Position of the first place in the file.
    start: u64,
    /// The data of the segment that is being filled.
    open: MmapMut,
    /// Checksums of the pages, by place.
    sums: Vec<u32>,
    /// Pages that were read.
    read: MmapMut,
    bytes: Bytes,
}

impl Engine {
    /// Creates an engine for `bytes` bytes of a file from `start` on.
    pub(super) fn new(file: File, start: u64, bytes: u64) -> Result<Self> {
        let segments = bytes / (SEGMENT * PAGE_SIZE as u64);
        let device = Spinlock::new(Device::new(segments as u32, SEGMENT as u32));
        let hasher = Hasher::new(0x5eed_5eed_5eed_5eed);
        let tier = Arc::new(Tier::new(0));
        let mut session = Session::with_shards(shard_bits(1), tier, hasher, device);
        let pool = session.add_pool();
        session.set_pool(pool, 0, Order::of(Policy::DEFAULT));
        Ok(Self {
            session,
            batch: Batch::new(),
            pool,
            file,
            start,
            open: MmapMut::map_anon(SEGMENT as usize * PAGE_SIZE)?,
            sums: vec![0; (segments * SEGMENT) as usize],
            read: MmapMut::map_anon(RUN * PAGE_SIZE)?,
            bytes: Bytes::default(),
        })
    }

    fn run(&self, first: u64, pages: usize) -> Run {
        Run {
            index: first,
            pages: pages as u16,
            pool: self.pool,
            class: SSD_CLASS,
            ..Run::default()
        }
    }

    /// Returns a function for the checksums of the pages of a run, by their index.
    fn checksum(&self, run: &Run) -> impl Fn(u64, &[u8]) -> u32 + use<> {
        let file = self.session.hasher().file(&run.file);
        move |index, data| XxHash64::oneshot(file ^ index.wrapping_mul(SEED_STEP), data) as u32
    }

    fn position(&self, place: u64) -> u64 {
        self.start + place * PAGE_SIZE as u64
    }
}

impl Store for Engine {
    fn put(&mut self, first: u64, pages: &[Page]) -> Result<()> {
        let run = self.run(first, pages.len());
        let key = (0, self.pool);
        let filled = self.session.own.lock().fill(key, run.pages.into());
        let (places, stamp) = filled.context("no segment is free")?;
        ensure!(
            places.end - places.start == u64::from(run.pages),
            "a run does not fit into its segment"
        );
        let checksum = self.checksum(&run);
        let segment = places.start - places.start % SEGMENT;
        let at = (places.start - segment) as usize * PAGE_SIZE;
        let copies = self.open[at..].chunks_exact_mut(PAGE_SIZE);
        let sums = &mut self.sums[places.start as usize..];
        let mut handles = [0; RUN];
        for (at, (page, copy)) in pages.iter().zip(copies).enumerate() {
            copy.copy_from_slice(page);
            sums[at] = checksum(first + at as u64, copy);
            handles[at] = Device::handle(places.start + at as u64);
        }
        let (session, runs) = (&self.session, once((run, 0)));
        insert(session, &mut self.batch, runs, (&handles, stamp), |_| {});
        if places.end == segment + SEGMENT {
            let position = self.position(segment);
            self.file.write_all_at(&self.open, position)?;
            self.bytes.written += self.open.len() as u64;
        }
        Ok(())
    }

    fn get(&mut self, first: u64, pages: &mut [Page]) -> Result<()> {
        let run = self.run(first, pages.len());
        let mut places = [None; RUN];
        let found = |at: usize, removed: Removed| {
            places[at] = Place::of(removed.into_handle()).map(|place| place.number);
        };
        let count = take(&self.session, &mut self.batch, once((run, 0)), found);
        self.session.sub_used(&count);
        let checksum = self.checksum(&run);
        let mut at = 0;
        while at < pages.len() {
            let place = places[at].context("a page is missing")?;
            let neighbours = places[at..pages.len()].iter().zip(place..);
            let neighbours = neighbours.take_while(|(own, next)| **own == Some(*next));
            let count = neighbours.count();
            let position = self.position(place);
            let data = &mut self.read[..count * PAGE_SIZE];
            self.file.read_exact_at(data, position)?;
            self.bytes.read += data.len() as u64;
            let sums = &self.sums[place as usize..];
            let read = data.chunks_exact(PAGE_SIZE).zip(sums);
            for (page, (data, sum)) in pages[at..].iter_mut().zip(read) {
                ensure!(checksum(first + at as u64, data) == *sum, "a wrong page");
                page.copy_from_slice(data);
                at += 1;
            }
        }
        let mut device = self.session.own.lock();
        let places = places.into_iter().flatten();
        places.for_each(|place| device.release(place));
        Ok(())
    }

    fn bytes(&self) -> Bytes {
        self.bytes
    }
}
