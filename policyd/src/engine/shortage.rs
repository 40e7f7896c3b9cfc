// SPDX-License-Identifier: GPL-2.0-only

//! Finds out by how much the VM is short of memory.

use super::{Time, sample::Machine};
use crate::config::Config;

/// State of the VM's memory.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    machine: Option<(Time, Machine)>,
    /// Bytes of available memory that are page cache of containers that take part in reclaim.
    cache: u64,
    /// Memory pressure (PSI some) without that of policyd's own jobs, in percent of time.
    pressure: Option<f64>,
    /// Whether the kernel has reclaimed memory of the VM as a whole since the last measurement, as
    /// far as is known.
    reclaims: bool,
}

/// If more than this multiple of the wanted memory is available, pressure does not count as a
/// shortage of the VM.
const LITTLE: u64 = 3;

impl Shortage {
    /// Returns the memory pressure of the VM in percent of time, if known.
    pub(super) const fn pressure(&self) -> Option<f64> {
        self.pressure
    }

    pub(super) fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref().map(|(_, machine)| machine)
    }

    /// Handles a measurement of the machine. `own` is the time since the last one in which jobs of
    /// policyd ran.
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

    /// Sets the bytes of page cache of containers that take part in reclaim.
    pub(super) const fn set_cache(&mut self, bytes: u64) {
        self.cache = bytes;
    }

    /// Returns the bytes to reclaim now. Page cache of containers does not count as available,
    /// because the kernel would choose the container to reclaim it from.
    pub(super) fn bytes(&self, config: &Config) -> u64 {
        let Some(machine) = self.machine().filter(|_| config.reclaim.enabled) else {
            return 0;
        };
        let wanted = (machine.total as f64 * config.reclaim.free) as u64;
        let left = machine.available.saturating_sub(self.cache);
        let short = wanted.saturating_sub(left);
        // Tasks of a container at its own limit wait for memory as well, and memory that others
        // give would not help them. The VM is short only if the kernel reclaims from all cgroups,
        // and little is left.
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
