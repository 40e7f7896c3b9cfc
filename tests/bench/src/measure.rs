// SPDX-License-Identifier: GPL-2.0

//! One case: a cache of a size under a mix, for one or two guests.

use std::{sync::Barrier, thread};

use cpu_time::ThreadTime;
use serde::Serialize;

use crate::{
    cache::Cache,
    frames::Frames,
    mix::{Driver, Mix, Schedule, Verb},
};

/// Rounds that are measured, if nothing else is asked for. The first of them warms up and does not
/// count.
pub(crate) const ROUNDS: usize = 8;

/// Pages that each guest puts in a round.
const PAGES: u64 = 1 << 17;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Case {
    /// The cache.
    pub(crate) cache: &'static str,
    /// The mix.
    pub(crate) mix: Mix,
    /// Pages in the cache.
    pub(crate) pages: u64,
    /// Guests, each with a thread.
    pub(crate) threads: u64,
    /// Whether data is copied.
    pub(crate) copies: bool,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sample {
    /// What was measured.
    #[serde(flatten)]
    pub(crate) case: Case,
    /// Median over the rounds: nanoseconds for a page put and a page got (or dropped), all guests
    /// together, by the processor time of the guest that took longest: on a machine that does
    /// other things too, the clock on the wall says little.
    pub(crate) median_ns: f64,
    /// The fastest round.
    pub(crate) fastest_ns: f64,
    /// The slowest round.
    pub(crate) slowest_ns: f64,
    /// Pages found, of pages asked for, in per cent.
    pub(crate) hit_percent: f64,
    /// Bytes of index for each page kept, if the cache can tell.
    pub(crate) index_bytes: Option<f64>,
}

/// Runs a case on an empty cache, in so many rounds, of which there are at least two.
pub(crate) fn measure(case: Case, cache: &dyn Cache, rounds: usize) -> Sample {
    let lanes = case.threads;
    let mut guests: Vec<Guest> = (0..lanes)
        .map(|lane| Guest::new(&case, lane, lanes))
        .collect();
    for guest in &mut guests {
        let fill = guest.driver.fill(case.pages / lanes);
        guest.play(&fill, cache);
    }
    let mut times = Vec::new();
    for round in 0..rounds.max(2) {
        let time = play_together(&mut guests, cache);
        if round > 0 {
            times.push(time / (PAGES * lanes) as f64);
        } else {
            guests.iter_mut().for_each(|guest| guest.asked = 0);
            guests.iter_mut().for_each(|guest| guest.found = 0);
        }
    }
    times.sort_by(f64::total_cmp);
    let sum = |count: fn(&Guest) -> usize| guests.iter().map(count).sum::<usize>();
    Sample {
        median_ns: times[times.len() / 2],
        fastest_ns: times[0],
        slowest_ns: times[times.len() - 1],
        hit_percent: 100.0 * sum(|guest| guest.found) as f64 / sum(|guest| guest.asked) as f64,
        index_bytes: cache
            .index_bytes()
            .map(|bytes| bytes as f64 / case.pages as f64),
        case,
    }
}

/// Plays a round of each guest at the same time; says how many nanoseconds of processor time that
/// took who took longest.
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
