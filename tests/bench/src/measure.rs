// SPDX-License-Identifier: GPL-2.0-only

//! One case: a cache of one size with a mix, for one or two guests.

use std::{sync::Barrier, thread};

use cpu_time::ThreadTime;
use ddlab::median;
use serde::Serialize;

use crate::{
    cache::Cache,
    frames::Frames,
    memory,
    mix::{Driver, Mix, Schedule, Verb},
};

/// Default number of measured rounds, which follow one for warming up.
pub(crate) const ROUNDS: usize = 9;

/// Number of pages that each guest puts in a round.
const PAGES: u64 = 1 << 17;

/// A case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Case {
    pub(crate) cache: &'static str,
    pub(crate) mix: Mix,
    /// Pages in the cache.
    pub(crate) pages: u64,
    /// Guests, each with a thread.
    pub(crate) threads: u64,
    /// Whether data is copied.
    pub(crate) copies: bool,
}

/// The results of a case.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sample {
    #[serde(flatten)]
    pub(crate) case: Case,
    /// Each round, in order: nanoseconds for a page put and a page got (or dropped), all guests
    /// together. It is the processor time of the guest that took longest, because the time of the
    /// clock says little on a machine with other load. Rounds of the same number were run one after
    /// the other for all caches of a group.
    pub(crate) rounds_ns: Vec<f64>,
    /// Median of the rounds.
    pub(crate) median_ns: f64,
    /// The fastest round.
    pub(crate) fastest_ns: f64,
    /// The slowest round.
    pub(crate) slowest_ns: f64,
    /// Hits in percent of the requested pages.
    pub(crate) hit_percent: f64,
    /// Bytes of memory that the cache had allocated when it was full, for each stored page.
    pub(crate) bytes_per_page: f64,
}

/// A case that is being measured, whose cache is full.
pub(crate) struct RunningCase {
    case: Case,
    cache: Box<dyn Cache>,
    guests: Vec<Guest>,
    times: Vec<f64>,
    bytes: u64,
}

impl RunningCase {
    /// Makes a cache and fills it.
    pub(crate) fn begin(case: Case, make: impl FnOnce() -> Box<dyn Cache>) -> Self {
        let lanes = case.threads;
        let mut guests: Vec<Guest> = (0..lanes)
            .map(|lane| Guest::new(&case, lane, lanes))
            .collect();
        let fills: Vec<Schedule> = guests
            .iter_mut()
            .map(|guest| guest.driver.fill(case.pages / lanes))
            .collect();
        let before = memory::allocated();
        let cache = make();
        for (guest, fill) in guests.iter_mut().zip(&fills) {
            guest.play(fill, &*cache);
        }
        Self {
            bytes: memory::allocated().saturating_sub(before),
            case,
            cache,
            guests,
            times: Vec::new(),
        }
    }

    /// Runs a round for warming up.
    pub(crate) fn warm_up(&mut self) {
        play_together(&mut self.guests, &*self.cache);
        for guest in &mut self.guests {
            (guest.asked, guest.found) = (0, 0);
        }
    }

    /// Runs a measured round.
    pub(crate) fn play(&mut self) {
        let time = play_together(&mut self.guests, &*self.cache);
        self.times.push(time / (PAGES * self.case.threads) as f64);
    }

    /// Returns the results, after at least one round.
    pub(crate) fn end(self) -> Sample {
        let mut sorted = self.times.clone();
        sorted.sort_by(f64::total_cmp);
        let sum = |count: fn(&Guest) -> usize| self.guests.iter().map(count).sum::<usize>();
        Sample {
            median_ns: median(sorted.iter().copied()).expect("there are rounds"),
            fastest_ns: sorted[0],
            slowest_ns: sorted[sorted.len() - 1],
            rounds_ns: self.times,
            hit_percent: 100.0 * sum(|guest| guest.found) as f64 / sum(|guest| guest.asked) as f64,
            bytes_per_page: self.bytes as f64 / self.case.pages as f64,
            case: self.case,
        }
    }
}

/// Runs a round of all guests at the same time. Returns the processor time of the guest that took
/// longest, in nanoseconds.
fn play_together(guests: &mut [Guest], cache: &dyn Cache) -> f64 {
    let schedules: Vec<Schedule> = guests
        .iter_mut()
        .map(|guest| guest.driver.steady(PAGES))
        .collect();
    let barrier = Barrier::new(guests.len());
    let times = thread::scope(|scope| {
        let threads: Vec<_> = guests
            .iter_mut()
            .zip(&schedules)
            .map(|(guest, schedule)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let start = ThreadTime::now();
                    guest.play(schedule, cache);
                    start.elapsed().as_nanos() as f64
                })
            })
            .collect();
        let times = threads.into_iter().map(|thread| thread.join());
        times.collect::<Result<Vec<f64>, _>>()
    });
    let times = times.expect("a guest that does not panic");
    times.into_iter().fold(0.0, f64::max)
}

struct Guest {
    driver: Driver,
    frames: Option<Frames>,
    found: usize,
    asked: usize,
    next_frame: u64,
    got: Vec<u64>,
}

impl Guest {
    fn new(case: &Case, lane: u64, lanes: u64) -> Self {
        Self {
            driver: Driver::new(case.mix, case.pages, lane, lanes),
            frames: case.copies.then(Frames::new),
            found: 0,
            asked: 0,
            next_frame: 1,
            got: Vec::with_capacity(64),
        }
    }

    fn play(&mut self, schedule: &Schedule, cache: &dyn Cache) {
        for (verb, runs) in schedule.batches() {
            let pages: u32 = runs.iter().map(|run| run.pages).sum();
            match verb {
                Verb::Put => {
                    if let Some(frames) = &mut self.frames {
                        frames.take_in(self.next_frame, pages);
                    }
                    cache.put(runs, self.next_frame);
                    self.next_frame += u64::from(pages);
                }
                Verb::Get => {
                    self.got.clear();
                    cache.get(runs, &mut self.got);
                    if let Some(frames) = &mut self.frames {
                        frames.give_out(&self.got);
                    }
                    self.found += self.got.len();
                    self.asked += pages as usize;
                }
                Verb::Flush => {
                    self.found += cache.flush(runs);
                    self.asked += pages as usize;
                }
            }
        }
    }
}
