// SPDX-License-Identifier: GPL-2.0-only

//! The operations on a cache: a guest with a small page cache reads pages, and reclaims those that
//! it read some time ago.
//!
//! A [`Driver`] is deterministic and independent of the cache. Its units are read and reclaimed as
//! a whole: a page, a run of 32 pages, or a small file.

use std::collections::VecDeque;

use clap::ValueEnum;
use ddabi::key::{FileKey, PageKey, mix};
use rand::{Rng as _, SeedableRng as _};
use rand_distr::{Distribution as _, Zipf};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

/// Number of pages of a batch.
pub(crate) const BATCH: u32 = 32;

/// Number of pages between a read and the reclaim of the page.
const GUEST: usize = 8192;

/// The kinds of units.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mix {
    /// Single pages, each far from any other, which share nothing in an index
    Random,
    /// Aligned runs of 32 pages
    Runs,
    /// Runs of 20 pages that begin anywhere in a block
    Unaligned,
    /// Parts of four pages of long runs: a read finds a part of a block, and a put completes one
    Parts,
    /// Single pages of dense files by Zipf's law, with misses and evictions
    Zipf,
    /// Repeated passes over more than the cache holds, without any hit
    Scan,
    /// Whole files of one to eight pages
    SmallFile,
    /// Half of the pages in runs, a third in small files, the rest single
    Mixed,
}

impl Mix {
    /// All mixes.
    pub(crate) const ALL: [Self; 8] = [
        Self::Random,
        Self::Runs,
        Self::Unaligned,
        Self::Parts,
        Self::Zipf,
        Self::Scan,
        Self::SmallFile,
        Self::Mixed,
    ];

    /// Returns its name in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Runs => "runs",
            Self::Unaligned => "unaligned",
            Self::Parts => "parts",
            Self::Zipf => "zipf",
            Self::Scan => "scan",
            Self::SmallFile => "small-file",
            Self::Mixed => "mixed",
        }
    }

    /// Returns whether the cache must be full, so that puts evict.
    pub(crate) const fn overflows(self) -> bool {
        matches!(self, Self::Scan | Self::Zipf)
    }

    /// Returns the unit with a number.
    const fn unit(self, number: u64) -> Run {
        match self {
            Self::Random => single(number),
            Self::Runs => run_of_32(number),
            Self::Unaligned => page(6 << 20 | number >> 12, (number & 0xfff) * 23 + 5, 20),
            Self::Parts => page(7 << 20 | number >> 13, (number & 0x1fff) * 4, 4),
            Self::Zipf => page(1 << 20 | number >> 14, number & 0x3fff, 1),
            Self::Scan => page(2 << 20, number * BATCH as u64, BATCH),
            Self::SmallFile => small_file(number),
            Self::Mixed => match number % 74 {
                // Of 74 units there are 5 runs of 32 pages, 21 files of 4.5 pages on average, and
                // 48 single pages.
                0..5 => run_of_32(number),
                5..26 => small_file(number),
                _ => single(number),
            },
        }
    }
}

const fn single(number: u64) -> Run {
    // This is a bijection, so that units of neighbouring numbers are not neighbours; each is in a
    // separate block.
    let scattered = mix(number) >> 28;
    page(3 << 20 | number & 0xff, scattered & !0x3f | 5, 1)
}

const fn run_of_32(number: u64) -> Run {
    page(4 << 20 | number >> 12, (number & 0xfff) * 64, 32)
}

const fn small_file(number: u64) -> Run {
    page(5 << 32 | number, 0, 1 + (mix(number) & 7) as u32)
}

const fn page(inode: u64, index: u64, pages: u32) -> Run {
    let file = FileKey {
        inode,
        filesystem: 1,
        generation: 1,
    };
    Run {
        key: PageKey { file, index },
        pages,
    }
}

/// Consecutive pages of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Key of the first page.
    pub(crate) key: PageKey,
    /// Number of pages.
    pub(crate) pages: u32,
}

impl Run {
    /// Returns the keys of its pages.
    pub(crate) fn keys(&self) -> impl Iterator<Item = PageKey> + use<> {
        let Self { key, pages } = *self;
        (key.index..key.index + u64::from(pages)).map(move |index| PageKey { index, ..key })
    }
}

/// The operation of a batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verb {
    /// Take pages out and read them.
    Get,
    /// Store pages.
    Put,
    /// Drop pages.
    Flush,
}

/// Batches of operations, chosen in advance so that the choice is not measured.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    runs: Vec<Run>,
    batches: Vec<(Verb, std::ops::Range<usize>)>,
    /// Number of pages that are put.
    pub(crate) put: u64,
}

impl Schedule {
    /// Returns the batches, in order.
    pub(crate) fn batches(&self) -> impl Iterator<Item = (Verb, &[Run])> {
        self.batches
            .iter()
            .map(|(verb, range)| (*verb, &self.runs[range.clone()]))
    }

    fn add(&mut self, verb: Verb, units: impl IntoIterator<Item = Run>) {
        let start = self.runs.len();
        self.runs.extend(units);
        self.batches.push((verb, start..self.runs.len()));
    }
}

/// A guest, which chooses the operations on the cache.
#[derive(Debug)]
pub(crate) struct Driver {
    mix: Mix,
    rng: Pcg64Mcg,
    zipf: Zipf<f64>,
    /// Numbers of this guest's units are `lane` modulo `lanes`.
    lane: u64,
    lanes: u64,
    /// Units in the cache, for mixes that do not overflow it.
    resident: Vec<u64>,
    /// Units in the guest, oldest first.
    guest: VecDeque<(u64, u32)>,
    guest_pages: usize,
    universe: u64,
    next: u64,
}

impl Driver {
    /// Creates guest number `lane` of `lanes`, which together have `pages` in the cache.
    pub(crate) fn new(mix: Mix, pages: u64, lane: u64, lanes: u64) -> Self {
        let universe = (pages * 2 / lanes).max(1);
        Self {
            mix,
            rng: Pcg64Mcg::seed_from_u64(lane + 1),
            zipf: Zipf::new(universe as f64, 0.9).expect("a law with an exponent above zero"),
            lane,
            lanes,
            resident: Vec::new(),
            guest: VecDeque::new(),
            guest_pages: 0,
            universe,
            next: 0,
        }
    }

    /// Returns puts that fill the cache with `pages` of this guest.
    pub(crate) fn fill(&mut self, pages: u64) -> Schedule {
        let mut schedule = Schedule::default();
        let mut total = 0;
        while total < pages {
            let mut batch = Vec::new();
            let mut size = 0;
            while size < BATCH {
                let unit = self.run(self.next);
                if !self.mix.overflows() {
                    self.resident.push(self.next);
                }
                self.next += 1;
                size += unit.pages;
                batch.push(unit);
            }
            total += u64::from(size);
            schedule.add(Verb::Put, batch);
        }
        schedule.put = total;
        schedule
    }

    /// Returns reads and reclaims of about `pages` pages each. One read in eight is a flush
    /// instead.
    pub(crate) fn steady(&mut self, pages: u64) -> Schedule {
        let mut schedule = Schedule::default();
        while schedule.put < pages {
            let batch = self.read();
            let verb = match self.rng.random_range(0..8) {
                0 if !self.mix.overflows() => Verb::Flush,
                _ => Verb::Get,
            };
            schedule.add(verb, batch);
            while self.guest_pages > GUEST {
                let batch = self.reclaim();
                schedule.put += batch.iter().map(|run| u64::from(run.pages)).sum::<u64>();
                schedule.add(Verb::Put, batch);
            }
        }
        schedule
    }

    fn read(&mut self) -> Vec<Run> {
        let mut batch = Vec::new();
        let mut size = 0;
        while size < BATCH {
            let number = self.pick();
            let unit = self.run(number);
            size += unit.pages;
            self.guest.push_back((number, unit.pages));
            self.guest_pages += unit.pages as usize;
            batch.push(unit);
        }
        batch
    }

    fn pick(&mut self) -> u64 {
        match self.mix {
            Mix::Zipf => {
                let rank = self.zipf.sample(&mut self.rng) as u64 - 1;
                // Popular pages are not neighbours.
                rank.wrapping_mul(0x9e37_79b1) % self.universe
            }
            Mix::Scan => {
                self.next = (self.next + 1) % (self.universe / u64::from(BATCH)).max(1);
                self.next
            }
            _ => {
                let at = self.rng.random_range(0..self.resident.len());
                self.resident.swap_remove(at)
            }
        }
    }

    fn reclaim(&mut self) -> Vec<Run> {
        let mut batch = Vec::new();
        let mut size = 0;
        while size < BATCH {
            let Some((number, pages)) = self.guest.pop_front() else {
                break;
            };
            self.guest_pages -= pages as usize;
            size += pages;
            if !self.mix.overflows() {
                self.resident.push(number);
            }
            batch.push(self.run(number));
        }
        batch
    }

    fn run(&self, number: u64) -> Run {
        self.mix.unit(number * self.lanes + self.lane)
    }
}
