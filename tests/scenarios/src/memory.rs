// SPDX-License-Identifier: GPL-2.0-only

//! The memory of a kernel, compared before and after work to find memory that was not freed.

use std::collections::HashMap;

use anyhow::{Context as _, Result, bail};
use ddlab::Machine;

/// Growth in KiB that a kernel may have for other reasons, such as partly filled slabs and page
/// tables.
const NOISE_KIB: u64 = 3 << 10;

const PAGE_KIB: u64 = 4;

/// Name under which the free pages on the processors' lists are counted.
const PER_CPU_FREE: &str = "PerCpuFree";

/// Growth of a single cache that is reported, in KiB.
const WORTH_TELLING_KIB: u64 = 128;

/// Amounts of memory by name, of `/proc/meminfo` or of caches.
pub(crate) struct Memory(HashMap<String, u64>);

impl Memory {
    /// Reads the current amounts.
    pub(crate) fn now(machine: &Machine) -> Result<Self> {
        let text = machine.read_text("/proc/meminfo")?;
        let line = |line: &str| {
            let (name, rest) = line.split_once(':')?;
            let number = rest.split_whitespace().next()?.parse().ok()?;
            Some((name.to_owned(), number))
        };
        let mut memory: HashMap<String, u64> = text.lines().filter_map(line).collect();
        // Each processor keeps some free pages that are not counted as free, together up to an
        // eighth of memory.
        let zones = machine.read_text("/proc/zoneinfo")?;
        let count = |line: &str| {
            line.trim()
                .strip_prefix("count:")?
                .trim()
                .parse::<u64>()
                .ok()
        };
        let pages: u64 = zones.lines().filter_map(count).sum();
        memory.insert(PER_CPU_FREE.to_owned(), pages * PAGE_KIB);
        Ok(Self(memory))
    }

    /// Returns the value of a line in KiB.
    pub(crate) fn kib(&self, name: &str) -> Result<u64> {
        let value = self.0.get(name).copied();
        value.with_context(|| format!("/proc/meminfo has no line `{name}`"))
    }

    /// Returns the free memory in KiB, including the processors' lists.
    pub(crate) fn free_kib(&self) -> Result<u64> {
        Ok(self.kib("MemFree")? + self.kib(PER_CPU_FREE)?)
    }

    /// Reads the caches of the kernel's slab allocator, in KiB.
    fn slabs(machine: &Machine) -> Result<Self> {
        let text = machine.read_text("/proc/slabinfo")?;
        let line = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let pages: u64 = fields.get(5)?.parse().ok()?;
            let slabs: u64 = fields.get(14)?.parse().ok()?;
            Some(((*fields.first()?).to_owned(), slabs * pages * PAGE_KIB))
        };
        Ok(Self(text.lines().filter_map(line).collect()))
    }

    /// Returns the growth of each since `before` as text, the largest first.
    fn growth_since(&self, before: &Self) -> String {
        let mut growth: Vec<(u64, &str)> = self
            .0
            .iter()
            .map(|(name, now)| {
                let before = before.0.get(name).copied().unwrap_or(0);
                (now.saturating_sub(before), name.as_str())
            })
            .filter(|(kib, _)| *kib >= WORTH_TELLING_KIB)
            .collect();
        growth.sort_unstable_by(|one, other| other.cmp(one));
        let growth: Vec<String> = growth
            .iter()
            .map(|(kib, name)| format!("{name} +{kib}"))
            .collect();
        growth.join(", ")
    }

    /// Returns the memory that the kernel itself has and cannot drop: neither free, nor of
    /// programs, nor a cache.
    fn held(&self) -> Result<u64> {
        let mut held = self.kib("MemTotal")?;
        for other in [
            "MemFree",
            PER_CPU_FREE,
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

/// Makes a kernel release its reserves: caches, and the free objects of slabs for allocations of
/// any size.
fn settle(machine: &Machine) -> Result<()> {
    machine.drop_caches(true)?;
    let shrink = "for cache in /sys/kernel/slab/kmalloc-*; do echo 1 > $cache/shrink; done";
    machine.shell(shrink).map(drop)
}

/// The memory of a kernel at one moment, for later comparison.
pub(crate) struct Baseline<'a> {
    machine: &'a Machine,
    memory: Memory,
    slabs: Memory,
}

impl<'a> Baseline<'a> {
    /// Returns the amounts at this moment.
    pub(crate) fn take(machine: &'a Machine) -> Result<Self> {
        settle(machine)?;
        Ok(Self {
            machine,
            memory: Memory::now(machine)?,
            slabs: Memory::slabs(machine)?,
        })
    }

    /// Returns the KiB that a kernel may need for its checks: freed memory in KASAN's quarantine,
    /// which is a 32nd of its memory, and notes about each object.
    pub(crate) fn checks_kib(&self) -> Result<u64> {
        match self.machine.checks_itself() {
            true => Ok(self.memory.kib("MemTotal")? / 32),
            false => Ok(0),
        }
    }

    /// Returns the growth in KiB since then, while the system is busy.
    pub(crate) fn grown_kib(&self) -> Result<u64> {
        let held = Memory::now(self.machine)?.held()?;
        Ok(held.saturating_sub(self.memory.held()?))
    }

    /// Returns the growth in KiB since then beyond noise, after all work has ended.
    pub(crate) fn growth_kib(&self) -> Result<u64> {
        // Memory that is freed late (by RCU or work queues) gets some time.
        let before = self.memory.held()?;
        let noise = NOISE_KIB + self.checks_kib()?;
        let mut least = u64::MAX;
        for _ in 0..20 {
            settle(self.machine)?;
            let held = Memory::now(self.machine)?.held()?;
            least = least.min(held.saturating_sub(before));
            if least <= noise {
                break;
            }
        }
        Ok(least.saturating_sub(noise))
    }

    /// Fails if memory was not given back.
    pub(crate) fn check(&self, after: &str) -> Result<()> {
        match self.growth_kib()? {
            0 => Ok(()),
            more => bail!(
                "{}: {more} KiB more than before, and than noise, are held after {after} \
                 (in KiB: {}; slabs: {})",
                self.machine.name(),
                Memory::now(self.machine)?.growth_since(&self.memory),
                Memory::slabs(self.machine)?.growth_since(&self.slabs),
            ),
        }
    }
}
