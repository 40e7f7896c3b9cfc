// SPDX-License-Identifier: GPL-2.0-only

//! A measurement of the machine and of all containers.

use super::{curve::Curve, memory::Limits};
use std::collections::BTreeMap;

/// A measurement. Counters only rise, unless their cgroup or module was created again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The VM.
    pub machine: Machine,
    /// Containers by the paths of their cgroups. Those that could not be read are missing.
    pub containers: BTreeMap<String, Reading>,
    /// The `memory.low` of the ancestors of containers with managed memory.
    pub lows: BTreeMap<String, u64>,
}

impl Reading {
    /// Returns the bytes that reclaim of page cache does not take: anonymous ones, and those that
    /// are neither anonymous nor page cache.
    pub(super) fn fixed(&self) -> u64 {
        self.anon.max(self.current.saturating_sub(self.file))
    }

    /// Returns the bytes that cannot be reclaimed, even with swap.
    pub(super) fn stuck(&self) -> u64 {
        let swappable = self.anon.saturating_sub(self.locked);
        self.fixed().saturating_sub(swappable)
    }
}

/// The VM's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Machine {
    /// Total bytes.
    pub total: u64,
    /// Bytes that are available without swapping.
    pub available: u64,
    /// Free bytes of swap.
    pub swap_free: u64,
    /// Microseconds in which some task waited for memory (a counter); absent without PSI.
    pub memory_us: Option<u64>,
    /// Number of times that memory of the VM as a whole was reclaimed (a counter). Reclaim at the
    /// limit of a container is not included. Absent if the kernel does not report it.
    pub reclaims: Option<u64>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Bytes charged to it.
    pub current: u64,
    /// Bytes of these that are anonymous.
    pub anon: u64,
    /// Anonymous bytes that are locked, so that they cannot be swapped.
    pub locked: u64,
    /// Bytes of page cache that the kernel can reclaim, without locked ones. Memory that is neither
    /// page cache nor anonymous (sockets, page tables, slab, stacks) cannot be reclaimed on
    /// request.
    pub file: u64,
    /// The values of its limits, in which `u64::MAX` stands for no limit; absent if they were not
    /// read.
    pub limits: Limits,
    /// Refaults of file pages (a counter).
    pub refaults_file: u64,
    /// Refaults of anonymous pages (a counter).
    pub refaults_anon: u64,
    /// Microseconds in which some of its tasks waited for memory (a counter); absent without PSI.
    pub memory_us: Option<u64>,
    /// Microseconds in which all its tasks waited for memory at once (a counter).
    pub full_us: Option<u64>,
    /// Like `memory_us`, for I/O.
    pub io_us: Option<u64>,
    /// The application's figure, in the unit of its target; absent if there is none, or no new one.
    pub application: Option<f64>,
    /// The hit-ratio curve that the module has estimated from samples, if it has.
    pub curve: Option<Curve>,
}
