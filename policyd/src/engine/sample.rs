// SPDX-License-Identifier: GPL-2.0-only

//! What is measured: one look at the machine and at all containers.

use super::{curve::Curve, memory::Limits};
use std::collections::BTreeMap;

/// One look at everything. Counters only rise, unless what counts them was made again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The VM.
    pub machine: Machine,
    /// Containers by the paths of their cgroups; those that could not be read are missing.
    pub containers: BTreeMap<String, Reading>,
    /// What `memory.low` says of the cgroups around containers whose memory is managed.
    pub lows: BTreeMap<String, u64>,
}

impl Reading {
    /// Returns the bytes that no reclaim of cache takes away: anonymous ones, and what is neither
    /// these nor cache.
    pub(super) fn fixed(&self) -> u64 {
        self.anon.max(self.current.saturating_sub(self.file))
    }

    /// Returns the bytes that no reclaim takes away, even where there is swap.
    pub(super) fn stuck(&self) -> u64 {
        let swappable = self.anon.saturating_sub(self.locked);
        self.fixed().saturating_sub(swappable)
    }
}

/// The VM's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Machine {
    /// Bytes there are.
    pub total: u64,
    /// Bytes that could be had without swapping.
    pub available: u64,
    /// Free bytes of swap.
    pub swap_free: u64,
    /// Microseconds in which some task waited for memory, counted up; absent without PSI.
    pub memory_us: Option<u64>,
    /// How often memory of the VM as a whole was reclaimed, counted up: not that of a container at a
    /// limit of its own. Absent if the kernel does not tell.
    pub reclaims: Option<u64>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Bytes charged to it.
    pub current: u64,
    /// Bytes of these that are anonymous.
    pub anon: u64,
    /// Anonymous bytes that cannot be swapped, for they are locked.
    pub locked: u64,
    /// Bytes that cache files and that the kernel can reclaim: locked ones are not among them. What
    /// is neither this nor anonymous (sockets, page tables, slab, stacks) no one can ask for.
    pub file: u64,
    /// What the files of its limits say, `u64::MAX` where that is no limit; absent if not read.
    pub limits: Limits,
    /// File pages that came back soon after they were reclaimed, counted up.
    pub refaults_file: u64,
    /// The same of anonymous pages.
    pub refaults_anon: u64,
    /// Microseconds in which some task of it waited for memory, counted up; absent without PSI.
    pub memory_us: Option<u64>,
    /// Microseconds in which all its tasks waited for memory at once, counted up.
    pub full_us: Option<u64>,
    /// As `memory_us`, for I/O.
    pub io_us: Option<u64>,
    /// What the application says, in the unit of its target; absent if it says nothing, or
    /// nothing new.
    pub application: Option<f64>,
    /// What the module estimates from a sample of keys, if it does.
    pub curve: Option<Curve>,
}
