// SPDX-License-Identifier: GPL-2.0-only

//! The host's SSD, as the time that reads and writes of the SSD tier take.

use super::queue::Queue;
use crate::host::SsdTraffic;
use crate::parameters::{SSD_REQUESTS, SsdSpeed, UNIT_PAGES};

/// An SSD for all VMs. A read waits for the device and is waited for by the vCPU; a write is
/// queued, and the vCPU that asked for it waits only while the queue is full.
#[derive(Debug)]
pub(super) struct Ssd {
    speed: SsdSpeed,
    queue: Queue,
    /// What the tier had written and read when it was looked at last.
    seen: SsdTraffic,
}

impl Ssd {
    pub(super) fn new(speed: SsdSpeed) -> Self {
        Self {
            speed,
            queue: Queue::default(),
            seen: SsdTraffic::default(),
        }
    }

    /// Reads a unit for a vCPU that asks for it at `from`, and returns when it has it. The device's
    /// time is reserved now, so that requests are queued in the order of the simulated time.
    pub(super) fn read(&mut self, now: u64, from: u64) -> u64 {
        let ends = self.queue.read(now, self.speed.transfer);
        from.max(ends - self.speed.transfer) + self.speed.access
    }

    /// Queues what the tier has written and moved since the last call. Returns for how long a vCPU
    /// that wrote waits.
    pub(super) fn follow(&mut self, now: u64, traffic: SsdTraffic) -> u64 {
        let moved = traffic.moved - self.seen.moved;
        if moved > 0 {
            self.queue.read(now, moved * self.speed.transfer);
        }
        let written = traffic.written - self.seen.written;
        self.seen = traffic;
        if written == 0 {
            return 0;
        }
        let done = self.queue.write(now, written * self.speed.transfer);
        let queue = SSD_REQUESTS * self.speed.transfer / UNIT_PAGES;
        done.saturating_sub(now + queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::SATA;

    #[test]
    fn reads_take_the_access_and_share_the_bandwidth() {
        let mut ssd = Ssd::new(SATA);
        assert_eq!(ssd.read(0, 0), SATA.access);
        // A thousand units at once are bound by the bandwidth.
        let last = (0..1_000).map(|_| ssd.read(0, 0)).max();
        assert_eq!(last, Some(1_000 * SATA.transfer + SATA.access));
        // A vCPU that asks later waits less.
        let mut ssd = Ssd::new(SATA);
        ssd.read(0, 0);
        assert_eq!(ssd.read(0, SATA.access), 2 * SATA.access);
    }

    #[test]
    fn writers_wait_for_a_full_queue_only() {
        let mut ssd = Ssd::new(SATA);
        let wrote = |units| SsdTraffic {
            written: units,
            moved: 0,
        };
        let queue = SSD_REQUESTS / UNIT_PAGES;
        assert_eq!(ssd.follow(0, wrote(queue)), 0);
        assert_eq!(ssd.follow(0, wrote(queue)), 0);
        assert_eq!(ssd.follow(0, wrote(queue + 10)), 10 * SATA.transfer);
        // Reads get two thirds of the time while writes are queued.
        let read = SATA.transfer * 3 / 2 - SATA.transfer + SATA.access;
        assert_eq!(ssd.read(0, 0), read);
    }

    #[test]
    fn pages_that_move_occupy_the_device() {
        let mut ssd = Ssd::new(SATA);
        let moved = SsdTraffic {
            written: 0,
            moved: 100,
        };
        assert_eq!(ssd.follow(0, moved), 0);
        assert_eq!(ssd.read(0, 0), 100 * SATA.transfer + SATA.access);
    }
}
