// SPDX-License-Identifier: GPL-2.0-only

//! The profile `videoserver`.

use crate::parameters::{ACTIVE_VIDEOS, PASSIVE_VIDEOS, REPLACE, SECOND, STREAM, UNITS_PER_MIB};
use crate::random::Random;
use crate::workload::{Step, Workload};

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
