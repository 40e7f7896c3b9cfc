// SPDX-License-Identifier: GPL-2.0-only

//! The queue of a device.

/// Requests that a device serves in the order of their arrival. Reads have priority over writes for
/// which no thread waits, as in Linux' deadline scheduler.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Time at which all queued reads will be done.
    reads: u64,
    /// Time at which all queued writes will be done.
    writes: u64,
}

impl Queue {
    /// Queues a read and returns when it is done. While writes are queued, reads get two thirds of
    /// the device's time.
    pub(super) fn read(&mut self, now: u64, time: u64) -> u64 {
        let time = match self.writes > now {
            true => time * 3 / 2,
            false => time,
        };
        self.reads = self.reads.max(now) + time;
        self.reads
    }

    /// Queues a write and returns when it is done. While reads are queued, writes get one third of
    /// the device's time.
    pub(super) fn write(&mut self, now: u64, time: u64) -> u64 {
        let time = match self.reads > now {
            true => time * 3,
            false => time,
        };
        self.writes = self.writes.max(now) + time;
        self.writes
    }

    /// Returns when all queued writes will be done.
    pub(super) const fn written_at(&self) -> u64 {
        self.writes
    }
}
