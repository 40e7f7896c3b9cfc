// SPDX-License-Identifier: GPL-2.0

//! Memory of a kernel, to find what was not given back.

use std::collections::HashMap;

use anyhow::{Context as _, Result, bail};
use ddlab::Machine;

/// What a kernel may hold more than before for reasons of its own, in KiB:
/// pages on lists of each processor, slabs partly filled.
const NOISE_KIB: u64 = 6 << 10;

/// `/proc/meminfo`.
pub(crate) struct Memory(HashMap<String, u64>);

impl Memory {
    /// As it is now.
    pub(crate) fn now(machine: &Machine) -> Result<Self> {
        let text = machine.read_text("/proc/meminfo")?;
        let line = |line: &str| {
            let (name, rest) = line.split_once(':')?;
            let number = rest.split_whitespace().next()?.parse().ok()?;
            Some((name.to_owned(), number))
        };
        Ok(Self(text.lines().filter_map(line).collect()))
    }

    /// A line of it, in KiB.
    pub(crate) fn kib(&self, name: &str) -> Result<u64> {
        let value = self.0.get(name).copied();
        value.with_context(|| format!("/proc/meminfo does not tell {name}"))
    }

    /// What the kernel itself holds and cannot drop: neither free, nor of
    /// programs, nor a cache.
    fn held(&self) -> Result<u64> {
        let mut held = self.kib("MemTotal")?;
        for other in [
            "MemFree",
            "Buffers",
            "Cached",
            "AnonPages",
            "SReclaimable",
            "KernelStack",
            "PageTables",
            "SecPageTables",
        ] {
            held = held.saturating_sub(self.kib(other)?);
        }
        Ok(held)
    }
}

/// What a kernel held at one moment, to be compared with later.
pub(crate) struct Baseline<'a> {
    machine: &'a Machine,
    held: u64,
}

impl<'a> Baseline<'a> {
    /// Takes it now.
    pub(crate) fn take(machine: &'a Machine) -> Result<Self> {
        machine.drop_caches(true)?;
        let held = Memory::now(machine)?.held()?;
        Ok(Self { machine, held })
    }

    /// KiB held more than then, beyond noise.
    pub(crate) fn growth_kib(&self) -> Result<u64> {
        // What was freed late (by RCU, by work queues) is given some time.
        let mut least = u64::MAX;
        for _ in 0..20 {
            self.machine.drop_caches(true)?;
            let held = Memory::now(self.machine)?.held()?;
            least = least.min(held.saturating_sub(self.held));
            if least <= NOISE_KIB {
                break;
            }
        }
        Ok(least.saturating_sub(NOISE_KIB))
    }

    /// Fails when memory was not given back.
    pub(crate) fn check(&self, after: &str) -> Result<()> {
        match self.growth_kib()? {
            0 => Ok(()),
            more => bail!(
                "{}: {more} KiB more than before are held after {after}",
                self.machine.name()
            ),
        }
    }
}
