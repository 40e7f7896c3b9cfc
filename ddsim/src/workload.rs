// SPDX-License-Identifier: GPL-2.0-only

//! The workloads of containers: streams of pages for replays, and steps of threads for the machine.

pub mod filebench;
pub mod generated;
pub mod keyvalue;
pub mod synthetic;

use crate::random::Random;

/// Marks a "file" that is the memory of a process, which is swapped and never cached by the host.
pub const ANONYMOUS: u32 = 1 << 31;

/// A part of an operation. Positions and lengths are in units.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Reads a run.
    Read {
        /// The file.
        file: u32,
        /// First unit.
        first: u32,
        /// Number of units.
        units: u32,
    },
    /// Writes a run, which reaches the disk later.
    Write {
        /// The file.
        file: u32,
        /// First unit.
        first: u32,
        /// Number of units.
        units: u32,
    },
    /// Deletes a file.
    Delete {
        /// The file.
        file: u32,
        /// Size of the file in units.
        units: u32,
    },
    /// Waits until the journal is on disk.
    Sync,
    /// Uses a processor for this number of nanoseconds.
    Work(u64),
    /// Sleeps for this number of nanoseconds.
    Wait(u64),
}

impl Step {
    /// Returns a read.
    pub const fn read(file: u32, first: u32, units: u32) -> Self {
        Self::Read { file, first, units }
    }

    /// Returns a write.
    pub const fn write(file: u32, first: u32, units: u32) -> Self {
        Self::Write { file, first, units }
    }
}

/// Generates the operations of threads, each of which completes an operation before it begins the
/// next.
pub trait Workload {
    /// Appends the steps of the next operation of a thread.
    fn next(&mut self, thread: usize, random: &mut Random, steps: &mut Vec<Step>);
}
