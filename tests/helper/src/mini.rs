// SPDX-License-Identifier: GPL-2.0-only

//! VMs whose guest does nothing but make the hypercalls that this program composes, with memory
//! of kinds that no VMM of the tests gives its guests.

mod memory;
mod part;
mod share;
mod vm;

use anyhow::Result;
use clap::Subcommand;

/// What mini VMs are to show; each prints what came of it as a line of JSON.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Part {
    /// Puts and gets with frames that a userfaultfd withholds, again and again until killed
    Absent,
    /// Puts and gets with frames that are a device's
    Device,
    /// Puts of frames that are in memory, and of the same frames in swap
    Swapped,
    /// Calls of sessions that are over
    Sessions,
    /// Registers a VM, leaves it to another process, and ends
    Orphan,
    /// Registers many VMs at a time, each of which puts a page; then waits until killed
    Crowd {
        /// How many
        vms: u32,
    },
    /// Registers many VMs that share the tier, in steps that SIGUSR1 begins
    Share {
        /// How many
        vms: u32,
        /// Pages that each puts at first, and again when all are busy
        pages: u64,
        /// Pages that one puts alone
        stream: u64,
    },
}

/// Does a part.
pub(crate) fn mini(part: &Part) -> Result<()> {
    match part {
        Part::Absent => part::absent(),
        Part::Device => part::device(),
        Part::Swapped => part::swapped(),
        Part::Sessions => part::sessions(),
        Part::Orphan => part::orphan(),
        Part::Crowd { vms } => part::crowd(*vms),
        Part::Share { vms, pages, stream } => share::share(*vms, *pages, *stream),
    }
}
