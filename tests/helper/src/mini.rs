// SPDX-License-Identifier: GPL-2.0-only

//! VMs whose guest only makes hypercalls that this program composes, with kinds of memory that the
//! VMMs of the tests do not give to guests.

mod memory;
mod part;
mod share;
mod vm;

use anyhow::Result;
use clap::Subcommand;

/// Tests with mini VMs. Each prints its result as a line of JSON.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Part {
    /// Put and get with frames that a userfaultfd withholds, repeatedly until killed
    Absent,
    /// Put and get with frames of a device
    Device,
    /// Put frames that are in memory, then the same frames in swap
    Swapped,
    /// Make calls of ended sessions
    Sessions,
    /// Register a VM, pass it to another process, and end
    Orphan,
    /// Register many VMs, each of which puts a page, and wait until killed
    Crowd {
        /// Number of VMs
        vms: u32,
    },
    /// Registers many VMs that share the tier, in steps that SIGUSR1 begins
    Share {
        /// Number of VMs
        vms: u32,
        /// Pages that each VM puts at first, and again when all are busy
        pages: u64,
        /// Pages that one VM puts alone
        stream: u64,
    },
    /// Registers VMs with many pools, fills these, and waits until SIGUSR1
    Pools {
        /// Number of VMs
        vms: u32,
        /// Number of pools of each VM
        pools: u32,
        /// Pages that are put into each pool
        pages: u64,
    },
}

/// Runs a test.
pub(crate) fn mini(part: &Part) -> Result<()> {
    match part {
        Part::Absent => part::absent(),
        Part::Device => part::device(),
        Part::Swapped => part::swapped(),
        Part::Sessions => part::sessions(),
        Part::Orphan => part::orphan(),
        Part::Crowd { vms } => part::crowd(*vms),
        Part::Share { vms, pages, stream } => share::share(*vms, *pages, *stream),
        Part::Pools { vms, pools, pages } => share::pools(*vms, *pools, *pages),
    }
}
