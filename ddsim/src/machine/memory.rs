// SPDX-License-Identifier: GPL-2.0-only

//! The memory of a VM, which its containers share, with the controls of cgroup v2.

use super::Machine;
use super::container::Running;
use crate::pagecache::{Reclaimed, Refaults};
use crate::parameters::{SECOND, SWAPPINESS, SWAPPINESS_SUM, UNITS_PER_MIB};
use crate::random::Random;

/// Memory of a VM.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    units: usize,
    random: Random,
}

/// Memory use of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Units in use.
    pub used: usize,
    /// Units in use that belong to process memory.
    pub anonymous: usize,
    /// Units that were read again after they had been reclaimed.
    pub refaults: Refaults,
}

impl Machine {
    /// Puts all containers into one VM, in which they share `mib` MiB. If they use more, units are
    /// reclaimed from the containers in proportion to their sizes (`shrink_node_memcgs` of Linux).
    pub fn share_memory(&mut self, mib: u64) {
        self.shared = Some(Shared {
            units: (mib * UNITS_PER_MIB) as usize,
            random: Random::new(7),
        });
    }

    /// Protects `low` units of a container (`memory.low`) and limits it to `high` units
    /// (`memory.high`), beginning at this second.
    pub fn limit(&mut self, second: u64, container: usize, low: usize, high: usize) {
        self.containers[container].protected = low;
        self.containers[container].cache.set_limit(high);
        // The time of this reclaim is charged to the daemon and not to the container.
        while let Some(reclaimed) = self.containers[container].cache.reclaim() {
            self.evict(second * SECOND, container, reclaimed);
        }
    }

    /// Returns the memory use of a container.
    pub fn usage(&self, container: usize) -> Usage {
        let cache = &self.containers[container].cache;
        Usage {
            used: cache.used(),
            anonymous: cache.anonymous(),
            refaults: cache.refaults(),
        }
    }

    /// Reclaims a unit if the shared memory is full. Returns the unit with the number of its
    /// container.
    pub(super) fn reclaim_shared(&mut self) -> Option<(usize, Reclaimed)> {
        let shared = self.shared.as_mut()?;
        let caches = self.containers.iter().map(|running| &running.cache);
        if caches.map(|cache| cache.used()).sum::<usize>() <= shared.units {
            return None;
        }
        let mut scans: Vec<u64> = self.containers.iter().map(Running::scan).collect();
        if scans.iter().all(|scan| *scan == 0) {
            // Protection is only best effort, so that protected units are reclaimed if there are no
            // others.
            let unprotected = self.containers.iter().map(|running| running.scan_above(0));
            scans = unprotected.collect();
        }
        let mut at = shared.random.below(scans.iter().sum::<u64>().max(1));
        let victim = scans.iter().position(|scan| {
            let inside = at < *scan;
            at = at.saturating_sub(*scan);
            inside
        })?;
        let reclaimed = self.containers[victim].cache.shrink()?;
        Some((victim, reclaimed))
    }
}

impl Running {
    fn scan(&self) -> u64 {
        self.scan_above(self.protected)
    }

    /// Returns the scan rate of a container relative to others. Process memory, which can only be
    /// swapped, counts less.
    fn scan_above(&self, protected: usize) -> u64 {
        let (used, anonymous) = (self.cache.used() as u64, self.cache.anonymous() as u64);
        let open = used.saturating_sub(protected as u64);
        let files = used - anonymous;
        let weighed = SWAPPINESS * anonymous + (SWAPPINESS_SUM - SWAPPINESS) * files;
        // A container that does not exceed its protection is not scanned.
        (weighed * open).checked_div(used).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use crate::host::Mode;
    use crate::machine::{Container, Machine};
    use crate::parameters::{MS, UNITS_PER_MIB};
    use crate::workload::keyvalue::KeyValue;
    use ddcore::policy::Policy;

    /// Returns a VM of 16 MiB with two containers: a key-value store in memory and one in files, of
    /// 16 MiB each.
    fn vm() -> Machine {
        let mut machine = Machine::new(16, Mode::Weighted);
        let vm = machine.host().add_vm(100);
        for workload in [
            KeyValue::in_memory(16, MS, 1),
            KeyValue::of_files(16, MS, 2),
        ] {
            machine.add(Container {
                vm,
                limit_mib: 16,
                weight: 50,
                policy: Policy::Fifo,
                processors: 1,
                threads: 4,
                start_s: 0,
                workload: Box::new(workload),
            });
        }
        machine.share_memory(16);
        machine
    }

    #[test]
    fn memory_is_shared_and_never_exceeded() {
        let mut machine = vm();
        machine.run(60);
        let [memory, files] = [0, 1].map(|at| machine.usage(at));
        assert_eq!(memory.used + files.used, 16 * UNITS_PER_MIB as usize);
        assert_eq!((memory.anonymous, files.anonymous), (memory.used, 0));
        // The kernel prefers dropping file pages to swapping, so that file pages are read again
        // much more often.
        let (swapped, dropped) = (memory.refaults.anonymous, files.refaults.files);
        assert!(dropped > 2 * swapped, "{memory:?} {files:?}");
        assert!(memory.refaults.anonymous > 0 && memory.refaults.files == 0);
        assert!(files.refaults.files > 0 && files.refaults.anonymous == 0);
    }

    #[test]
    fn protected_memory_stays_and_limits_hold_at_once() {
        let mut machine = vm();
        let all = 16 * UNITS_PER_MIB as usize;
        machine.limit(0, 1, 12 * UNITS_PER_MIB as usize, all);
        machine.run(120);
        let most = machine.usage(1).used;
        assert!(most >= 12 * UNITS_PER_MIB as usize - 1, "{most}");
        machine.limit(120, 1, 0, 2 * UNITS_PER_MIB as usize);
        assert_eq!(machine.usage(1).used, 2 * UNITS_PER_MIB as usize);
        // Its pages are put to the store, and the other container can use its memory.
        assert!(machine.held_mib(1) > 1.0);
        machine.run(180);
        assert!(machine.usage(0).used > all - most, "{most}");
    }
}
