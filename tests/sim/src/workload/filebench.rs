// SPDX-License-Identifier: GPL-2.0

//! Filebench's profiles as the papers use them, in units of 16 KiB.
//!
//! `webserver`, `webproxy`, `varmail` and `videoserver` of Filebench 1.5 alpha: files of a gamma
//! distributed size around 16 KiB, which here are of whole units; flows as published. Sizes of the
//! sets are in [`crate::parameters`].

use super::{Step, Workload};
use crate::parameters::{
    ACTIVE_VIDEOS, MS, PASSIVE_VIDEOS, REPLACE, SERVE, STREAM, UNITS_PER_MIB, US, VIDEO_MIB,
};
use crate::random::Random;

/// A set of files: how many units each has.
#[derive(Clone, Debug)]
struct Files {
    first: u32,
    units: Vec<u8>,
}

impl Files {
    fn new(first: u32, mib: u64, random: &mut Random) -> Self {
        let mut units = Vec::new();
        let mut total = 0;
        while total < mib * UNITS_PER_MIB {
            // Up to the next unit: most files are one.
            let size = random.gamma(0.6).ceil().clamp(1.0, 8.0) as u8;
            total += u64::from(size);
            units.push(size);
        }
        Self { first, units }
    }

    fn pick(&self, random: &mut Random) -> (u32, u32) {
        let at = random.below(self.units.len() as u64) as usize;
        (self.first + at as u32, u32::from(self.units[at]))
    }
}

/// `webserver`: ten files read whole, then a log entry.
#[derive(Debug)]
pub struct Webserver {
    files: Files,
    served: u32,
    log: u32,
}

impl Webserver {
    /// A server of `mib` MiB of files.
    pub fn new(mib: u64, seed: u64) -> Self {
        Self {
            files: Files::new(1, mib, &mut Random::new(seed)),
            served: 0,
            log: 0,
        }
    }
}

impl Workload for Webserver {
    fn next(&mut self, _thread: usize, random: &mut Random, steps: &mut Vec<Step>) {
        let (file, units) = self.files.pick(random);
        steps.push(Step::Work(SERVE));
        steps.push(Step::read(file, 0, units));
        self.served += 1;
        if self.served % 10 == 0 {
            self.log = (self.log + 1) % 4096;
            steps.push(Step::write(0, self.log, 1));
        }
    }
}

/// `webproxy`: a file replaced, five read.
#[derive(Debug)]
pub struct Proxy {
    files: Files,
    turn: Vec<u32>,
}

impl Proxy {
    /// A proxy of `mib` MiB of files.
    pub fn new(mib: u64, seed: u64) -> Self {
        Self {
            files: Files::new(1, mib, &mut Random::new(seed)),
            turn: Vec::new(),
        }
    }
}

impl Workload for Proxy {
    fn next(&mut self, thread: usize, random: &mut Random, steps: &mut Vec<Step>) {
        self.turn.resize(self.turn.len().max(thread + 1), 0);
        let (file, units) = self.files.pick(random);
        steps.push(Step::Work(SERVE));
        if self.turn[thread] % 6 == 0 {
            steps.push(Step::Delete { file, units });
            steps.push(Step::write(file, 0, units));
        } else {
            steps.push(Step::read(file, 0, units));
        }
        self.turn[thread] += 1;
    }
}

/// `varmail`: a mail delivered, one read and marked, one read; deliveries and marks are synced.
#[derive(Debug)]
pub struct Mail {
    files: Files,
    turn: Vec<u32>,
}

impl Mail {
    /// A server of `mib` MiB of mail.
    pub fn new(mib: u64, seed: u64) -> Self {
        Self {
            files: Files::new(1, mib, &mut Random::new(seed)),
            turn: Vec::new(),
        }
    }
}

impl Workload for Mail {
    fn next(&mut self, thread: usize, random: &mut Random, steps: &mut Vec<Step>) {
        self.turn.resize(self.turn.len().max(thread + 1), 0);
        let (file, units) = self.files.pick(random);
        steps.push(Step::Work(200 * US));
        match self.turn[thread] % 3 {
            0 => {
                steps.push(Step::Delete { file, units });
                steps.push(Step::write(file, 0, units));
                steps.push(Step::Sync);
            }
            1 => {
                steps.push(Step::read(file, 0, units));
                steps.push(Step::write(file, units - 1, 1));
                steps.push(Step::Sync);
            }
            _ => steps.push(Step::read(file, 0, units)),
        }
        self.turn[thread] += 1;
    }
}

/// `videoserver`: streams read active videos from end to end; a writer replaces passive ones.
#[derive(Debug)]
pub struct Video {
    units: u32,
    /// Video and place of each stream.
    streams: Vec<(u32, u32)>,
    written: u32,
}

impl Video {
    /// A server of Filebench's 32 active videos.
    pub const fn new() -> Self {
        Self {
            units: (VIDEO_MIB * UNITS_PER_MIB) as u32,
            streams: Vec::new(),
            written: 0,
        }
    }
}

impl Default for Video {
    fn default() -> Self {
        Self::new()
    }
}

impl Workload for Video {
    fn next(&mut self, thread: usize, random: &mut Random, steps: &mut Vec<Step>) {
        // Thread 0 is the writer.
        if thread == 0 {
            let file = ACTIVE_VIDEOS + self.written % PASSIVE_VIDEOS;
            self.written += 1;
            let units = self.units;
            steps.push(Step::Delete { file, units });
            for first in (0..units).step_by(UNITS_PER_MIB as usize) {
                let count = (units - first).min(UNITS_PER_MIB as u32);
                steps.push(Step::write(file, first, count));
                // A writer that is not slowed down would fill the disk's queue.
                steps.push(Step::Wait(
                    REPLACE / u64::from(units.div_ceil(UNITS_PER_MIB as u32)),
                ));
            }
            return;
        }
        self.streams
            .resize(self.streams.len().max(thread + 1), (0, u32::MAX));
        let (video, at) = &mut self.streams[thread];
        if *at >= self.units {
            *video = random.below(u64::from(ACTIVE_VIDEOS)) as u32;
            *at = 0;
        }
        let count = (self.units - *at).min(UNITS_PER_MIB as u32);
        steps.push(Step::Work(STREAM));
        steps.push(Step::read(*video, *at, count));
        *at += count;
    }
}

/// Time a slow reader of videos waits between two reads of 1 MiB.
pub const PACE: u64 = 100 * MS;
