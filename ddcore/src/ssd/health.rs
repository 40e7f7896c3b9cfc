// SPDX-License-Identifier: GPL-2.0-only

//! The time that a read of a device may take, and the detection of slow devices.
//!
//! A vCPU waits for a read. When the time is over, its guest reads its own disk instead. A device
//! that was too slow several times in a row is suspected: its reads fail at once, except for one
//! from time to time that tests whether the device has recovered.

use crate::number::Number;

/// A read may take this many times the average.
const PATIENCE: u64 = 8;

/// Minimum of the time in microseconds that a read may take, unless the administrator allows less.
const MIN_US: u64 = 1000;

/// The last read contributes one part in this many to the average.
const MEMORY: u64 = 16;

/// Number of consecutive failed reads after which a device is suspected.
const STRIKES: u64 = 3;

/// Number of successful reads after which a suspected device is trusted again.
const PROBES: u64 = 3;

/// Time between two reads of a suspected device, in milliseconds.
const PAUSE_MS: u64 = 1000;

/// The health of a device. Processors share it without a lock; an update that is lost to a
/// concurrent one is harmless.
#[derive(Debug)]
pub struct Health<N> {
    /// The average time of a read in microseconds, multiplied by [`MEMORY`].
    average: N,
    /// Number of consecutive failed reads.
    strikes: N,
    /// Number of successful reads that a suspected device still needs; 0 if it is trusted.
    suspicion: N,
    /// Time at which the next read of a suspected device may begin, in milliseconds.
    next: N,
}

impl<N: Number> Health<N> {
    /// Creates the health of a device that is trusted.
    pub fn new() -> Self {
        Self {
            average: N::new(0),
            strikes: N::new(0),
            suspicion: N::new(0),
            next: N::new(0),
        }
    }

    /// Returns whether the device is suspected.
    pub fn is_suspected(&self) -> bool {
        self.suspicion.load() > 0
    }

    /// Returns the time in microseconds that a read may take, at most `deadline`, or `None` if the
    /// device must not be read now. `now` is the time in milliseconds.
    pub fn limit(&self, deadline: u64, now: u64) -> Option<u64> {
        if self.is_suspected() {
            let next = self.next.load();
            if now < next || self.next.replace(next, now + PAUSE_MS).is_err() {
                return None;
            }
        }
        match self.average_us() {
            0 => Some(deadline),
            average => Some((average * PATIENCE).max(MIN_US).min(deadline)),
        }
    }

    /// Returns the average time of a read in microseconds, or 0 before the first read.
    pub fn average_us(&self) -> u64 {
        self.average.load() / MEMORY
    }

    /// Records a read that took `us` microseconds.
    pub fn succeeded(&self, us: u64) {
        let average = self.average.load();
        let next = match average {
            0 => us * MEMORY,
            _ => average - average / MEMORY + us,
        };
        self.average.swap(next.max(1));
        self.strikes.swap(0);
        let suspicion = self.suspicion.load();
        if suspicion > 0 {
            let _ = self.suspicion.replace(suspicion, suspicion - 1);
        }
    }

    /// Records a read that failed or took too long, at `now` in milliseconds. Returns whether the
    /// device has become suspected.
    pub fn failed(&self, now: u64) -> bool {
        self.strikes.add(1);
        if self.strikes.load() < STRIKES && !self.is_suspected() {
            return false;
        }
        self.next.swap(now + PAUSE_MS);
        self.suspicion.swap(PROBES) == 0
    }
}

impl<N: Number> Default for Health<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::tests::Plain;

    const MAX_US: u64 = 20_000;

    #[test]
    fn the_limit_follows_the_average() {
        let health = Health::<Plain>::new();
        assert_eq!(health.limit(MAX_US, 0), Some(MAX_US));
        for _ in 0..200 {
            health.succeeded(500);
        }
        let limit = health.limit(MAX_US, 0).unwrap();
        assert!((3900..=4100).contains(&limit), "{limit}");
        for _ in 0..200 {
            health.succeeded(10);
        }
        assert_eq!(health.limit(MAX_US, 0), Some(MIN_US));
        assert_eq!(health.limit(100, 0), Some(100));
        for _ in 0..200 {
            health.succeeded(10_000);
        }
        assert_eq!(health.limit(MAX_US, 0), Some(MAX_US));
    }

    #[test]
    fn a_slow_device_is_left_alone_until_it_has_recovered() {
        let health = Health::<Plain>::new();
        health.succeeded(100);
        assert!(!health.failed(0) && !health.failed(0));
        health.succeeded(100);
        assert!(!health.failed(0) && !health.failed(0) && health.failed(0));
        assert!(health.is_suspected());
        assert_eq!(health.limit(MAX_US, 999), None);
        assert!(health.limit(MAX_US, 1000).is_some());
        // Only one read is allowed in this period.
        assert_eq!(health.limit(MAX_US, 1000), None);
        assert!(!health.failed(1000));
        assert_eq!(health.limit(MAX_US, 1999), None);
        for time in [2000, 3000, 4000] {
            assert!(health.limit(MAX_US, time).is_some());
            assert!(health.is_suspected());
            health.succeeded(100);
        }
        assert!(!health.is_suspected());
        assert!(health.limit(MAX_US, 4000).is_some());
    }
}
