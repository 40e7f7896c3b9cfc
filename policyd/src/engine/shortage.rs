// SPDX-License-Identifier: GPL-2.0-only

//! Whether the VM is short of memory, and by how much.

use super::{Time, sample::Machine};
use crate::config::Config;

/// What is known of the VM's memory.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    machine: Option<(Time, Machine)>,
    /// Bytes of available memory that cache files of those who take part in reclaim.
    cache: u64,
    /// Percent of time in which a task of the VM waited for memory, other than for our jobs.
    pressure: Option<f64>,
    /// Whether the kernel reclaimed memory of the VM as a whole since the last look, as far as is
    /// known.
    reclaims: bool,
}

/// So many times what shall be available is enough for pressure to be no shortage of the VM.
const LITTLE: u64 = 3;

impl Shortage {
    /// Memory pressure of the VM in percent, if known.
    pub(super) const fn pressure(&self) -> Option<f64> {
        self.pressure
    }

    pub(super) fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref().map(|(_, machine)| machine)
    }

    /// Takes in a look at the machine; for so long since the last one jobs of ours ran.
    pub(super) fn observe(&mut self, now: Time, machine: &Machine, own: Time) {
        self.pressure = self.machine.and_then(|(then, was)| {
            let time = now.checked_sub(then)?.as_secs_f64();
            let more = machine.memory_us?.checked_sub(was.memory_us?)?;
            let others = (more as f64 / 1e6 - own.as_secs_f64()).max(0.0);
            (time > 0.0).then(|| (others / time * 100.0).min(100.0))
        });
        self.reclaims = self.machine.is_none_or(|(_, was)| {
            let counts = was.reclaims.zip(machine.reclaims);
            counts.is_none_or(|(was, is)| was != is)
        });
        self.machine = Some((now, *machine));
    }

    /// Takes in how many bytes cache files of containers which take part in reclaim.
    pub(super) const fn set_cache(&mut self, bytes: u64) {
        self.cache = bytes;
    }

    /// Bytes to reclaim now. What is available only because the kernel would take it from
    /// a container's cache is not: then the kernel would choose from whose.
    pub(super) fn bytes(&self, config: &Config) -> u64 {
        let Some(machine) = self.machine().filter(|_| config.reclaim.enabled) else {
            return 0;
        };
        let wanted = (machine.total as f64 * config.reclaim.free) as u64;
        let left = machine.available.saturating_sub(self.cache);
        let short = wanted.saturating_sub(left);
        // A container at a limit of its own waits for memory too, and nothing that others give
        // would help it. It is the VM that is short where the kernel reclaims from all, and little
        // is left.
        let little = left < wanted.saturating_mul(LITTLE);
        let waits = self
            .pressure
            .is_some_and(|now| now >= config.reclaim.pressure);
        if waits && little && self.reclaims {
            short.max(config.reclaim.chunk)
        } else {
            short
        }
    }
}
