// SPDX-License-Identifier: GPL-2.0-only

//! The profiles of Filebench that the papers use, in units of 16 KiB.
//!
//! These are `webserver`, `webproxy`, `varmail` and `videoserver` of Filebench 1.5 alpha. File
//! sizes are gamma distributed with a mean of 16 KiB and rounded up to whole units; flows are as
//! published. Each call of `next` returns one of Filebench's reads or writes with the operations
//! that lead to it. The sizes of the file sets are in [`crate::parameters`].

use super::{Step, Workload};
use crate::parameters::{
    ACTIVE_VIDEOS, PASSIVE_VIDEOS, REPLACE, SECOND, SERVE, STREAM, UNITS_PER_MIB, US,
};
use crate::random::Random;

/// A set of files, with the size of each in units.
#[derive(Clone, Debug)]
struct Files {
    first: u32,
    units: Vec<u8>,
    /// Number of files that are still to be created.
    unmade: usize,
}

impl Files {
    fn new(first: u32, mib: u64, random: &mut Random) -> Self {
        let mut units = Vec::new();
        let mut total = 0;
        while total < mib * UNITS_PER_MIB {
            // Sizes are rounded up to whole units; most files have one.
            let size = random.gamma(0.6).ceil().clamp(1.0, 8.0) as u8;
            total += u64::from(size);
            units.push(size);
        }
        Self {
            first,
            units,
            unmade: 0,
        }
    }

    fn pick(&self, random: &mut Random) -> (u32, u32) {
        let at = random.below(self.units.len() as u64) as usize;
        (self.first + at as u32, u32::from(self.units[at]))
    }

    /// Creates all files before any of them is used (Filebench's `prealloc`).
    fn make_first(&mut self) {
        self.unmade = self.units.len();
    }

    /// Creates some of the missing files. Returns whether any were missing. Only the first thread
    /// creates files; the others wait.
    fn make(&mut self, thread: usize, steps: &mut Vec<Step>) -> bool {
        if self.unmade == 0 {
            return false;
        }
        if thread > 0 {
            steps.push(Step::Wait(SECOND));
            return true;
        }
        let next = self.units.len() - self.unmade;
        let files = (self.first..).zip(&self.units).skip(next).take(MADE);
        steps.extend(files.map(|(file, units)| Step::write(file, 0, u32::from(*units))));
        self.unmade = self.unmade.saturating_sub(MADE);
        true
    }
}

/// Number of files that are created at a time.
const MADE: usize = 16;

/// `webserver`: reads ten whole files, then writes a log entry.
#[derive(Debug)]
pub struct Webserver {
    files: Files,
    served: u32,
    log: u32,
}

impl Webserver {
    /// Creates a server of `mib` MiB of files.
    pub fn new(mib: u64, seed: u64) -> Self {
        Self {
            files: Files::new(1, mib, &mut Random::new(seed)),
            served: 0,
            log: 0,
        }
    }

    /// Creates all files before the first operation.
    #[must_use]
    pub fn made_first(mut self) -> Self {
        self.files.make_first();
        self
    }
}

impl Workload for Webserver {
    fn next(&mut self, thread: usize, random: &mut Random, steps: &mut Vec<Step>) {
        if self.files.make(thread, steps) {
            return;
        }
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

/// `webproxy`: replaces a file and reads five.
#[derive(Debug)]
pub struct Proxy {
    files: Files,
    turn: Vec<u32>,
}

impl Proxy {
    /// Creates a proxy of `mib` MiB of files.
    pub fn new(mib: u64, seed: u64) -> Self {
        Self {
            files: Files::new(1, mib, &mut Random::new(seed)),
            turn: Vec::new(),
        }
    }

    /// Creates all files before the first operation.
    #[must_use]
    pub fn made_first(mut self) -> Self {
        self.files.make_first();
        self
    }
}

impl Workload for Proxy {
    fn next(&mut self, thread: usize, random: &mut Random, steps: &mut Vec<Step>) {
        if self.files.make(thread, steps) {
            return;
        }
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

/// `varmail`: delivers a mail, reads a mail and marks it, and reads another mail. Deliveries and
/// marks are synced.
#[derive(Debug)]
pub struct Mail {
    files: Files,
    /// The next operation of each thread, and the mail that the thread used last.
    threads: Vec<(u32, (u32, u32))>,
}

impl Mail {
    /// Creates a server of `mib` MiB of mail.
    pub fn new(mib: u64, seed: u64) -> Self {
        Self {
            files: Files::new(1, mib, &mut Random::new(seed)),
            threads: Vec::new(),
        }
    }

    /// Creates all files before the first operation.
    #[must_use]
    pub fn made_first(mut self) -> Self {
        self.files.make_first();
        self
    }
}

impl Workload for Mail {
    fn next(&mut self, thread: usize, random: &mut Random, steps: &mut Vec<Step>) {
        if self.files.make(thread, steps) {
            return;
        }
        let threads = self.threads.len().max(thread + 1);
        self.threads.resize(threads, (0, (0, 0)));
        let (turn, last) = &mut self.threads[thread];
        if *turn % 4 != 2 {
            *last = self.files.pick(random);
        }
        let (file, units) = *last;
        steps.push(Step::Work(150 * US));
        match *turn % 4 {
            0 => {
                steps.push(Step::Delete { file, units });
                steps.push(Step::write(file, 0, units));
                steps.push(Step::Sync);
            }
            2 => {
                steps.push(Step::write(file, units - 1, 1));
                steps.push(Step::Sync);
            }
            _ => steps.push(Step::read(file, 0, units)),
        }
        *turn += 1;
    }
}

/// `videoserver`: streams read active videos from end to end, and a writer replaces passive ones.
#[derive(Debug)]
pub struct Video {
    units: u32,
    /// Units of a read.
    read: u32,
    /// Time between two reads of a stream.
    pace: u64,
    /// Whether each stream reads the same video repeatedly.
    endless: bool,
    /// Number of videos that the writer still has to create.
    unmade: u32,
    /// Video and position of each stream.
    streams: Vec<(u32, u32)>,
    written: u32,
}

impl Video {
    /// Creates a server of Filebench's 32 active videos of `mib` MiB. Streams read as fast as
    /// possible, and choose another video at the end of each.
    pub const fn new(mib: u64) -> Self {
        Self {
            units: (mib * UNITS_PER_MIB) as u32,
            read: UNITS_PER_MIB as u32,
            pace: 0,
            endless: false,
            unmade: 0,
            streams: Vec::new(),
            written: 0,
        }
    }

    /// Creates a server whose streams read at a fixed rate, after the writer has created all videos
    /// as Filebench does before a run.
    pub const fn paced(mib: u64, pace: u64) -> Self {
        let mut video = Self::new(mib);
        video.pace = pace;
        video.unmade = ACTIVE_VIDEOS;
        video
    }

    /// Creates a server as in Filebench. All active videos and half of the passive ones are created
    /// first. Then each stream opens one video and repeatedly reads it in parts of 256 KiB.
    pub const fn endless(mib: u64) -> Self {
        let mut video = Self::new(mib);
        video.read /= 4;
        video.endless = true;
        video.unmade = ACTIVE_VIDEOS + PASSIVE_VIDEOS / 2;
        video
    }

    fn replace(&mut self, steps: &mut Vec<Step>) {
        let units = self.units;
        let (file, pause) = if self.unmade > 0 {
            self.unmade -= 1;
            (self.unmade, 0)
        } else {
            self.written += 1;
            let parts = u64::from(units.div_ceil(UNITS_PER_MIB as u32));
            let file = ACTIVE_VIDEOS + self.written % PASSIVE_VIDEOS;
            steps.push(Step::Delete { file, units });
            (file, REPLACE / parts)
        };
        for first in (0..units).step_by(UNITS_PER_MIB as usize) {
            let count = (units - first).min(UNITS_PER_MIB as u32);
            steps.push(Step::write(file, first, count));
            steps.push(Step::Wait(pause));
        }
    }
}

impl Workload for Video {
    fn next(&mut self, thread: usize, random: &mut Random, steps: &mut Vec<Step>) {
        // Thread 0 is the writer.
        if thread == 0 {
            self.replace(steps);
            return;
        }
        if self.unmade > 0 {
            steps.push(Step::Wait(SECOND));
            return;
        }
        let streams = self.streams.len().max(thread + 1);
        self.streams.resize(streams, (0, u32::MAX));
        let (video, at) = &mut self.streams[thread];
        if *at >= self.units {
            *video = match self.endless {
                true => thread as u32 % ACTIVE_VIDEOS,
                false => random.below(u64::from(ACTIVE_VIDEOS)) as u32,
            };
            *at = 0;
        }
        let count = (self.units - *at).min(self.read);
        steps.push(Step::Wait(self.pace));
        steps.push(Step::Work(STREAM * u64::from(count) / UNITS_PER_MIB));
        steps.push(Step::read(*video, *at, count));
        *at += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_made_once_before_any_is_served() {
        let mut server = Webserver::new(4, 1).made_first();
        let (mut random, mut steps) = (Random::new(1), Vec::new());
        server.next(1, &mut random, &mut steps);
        assert_eq!(steps, [Step::Wait(SECOND)]);
        let mut made = Vec::new();
        loop {
            steps.clear();
            server.next(0, &mut random, &mut steps);
            if steps.contains(&Step::Work(SERVE)) {
                break;
            }
            made.append(&mut steps);
        }
        let units = |step: &Step| match step {
            Step::Write { units, .. } => *units,
            other => panic!("{other:?}"),
        };
        assert!(made.iter().map(units).sum::<u32>() >= 4 * UNITS_PER_MIB as u32);
        let files = made.len();
        made.sort_by_key(|step| format!("{step:?}"));
        made.dedup();
        assert_eq!((made.len(), server.files.units.len()), (files, files));
    }
}
