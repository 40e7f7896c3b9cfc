// SPDX-License-Identifier: GPL-2.0-only

//! Visits of all VMs, for statistics and for commands of an administrator.
//!
//! Evictions wait for the lock of the list of VMs. A visit holds it only while it looks for the
//! next VM, whose place is found by its number, and never while it works on a VM.

use super::cause::Cause;
use super::evict::evict_all;
use super::room::{Host, Vm, VmList};
use core::iter;

/// Maximum number of pages that a command evicts. A module that registers a generic netlink family
/// waits for running commands, and all other users of generic netlink wait for that module.
pub const COMMAND_PAGES: u64 = 1 << 14;

/// Returns the VMs with a number of at least `from`, in the order of their numbers. VMs may join
/// and leave during the visit, and some of them may have no session.
pub fn vms<H: Host>(host: &H, from: u32) -> impl Iterator<Item = <H::VmList as VmList>::Ref> + '_ {
    let mut next = Some(from);
    iter::from_fn(move || {
        let from = next?;
        let mut vm_list = host.lock();
        let vms = vm_list.parts().vms;
        let place = vms.partition_point(|vm| vm.number() < from);
        let vm = vms.get(place)?.clone();
        next = vm.number().checked_add(1);
        Some(vm)
    })
}

/// Evicts up to [`COMMAND_PAGES`] pages of all VMs, from one VM after the other. Returns their
/// number.
pub fn evict_for_command<H: Host>(host: &H, cause: Cause) -> u64 {
    let mut evicted = 0;
    for vm in vms(host, 0) {
        if let Some(session) = vm.session() {
            evicted += evict_all(&*session, COMMAND_PAGES - evicted, cause);
        }
        if evicted == COMMAND_PAGES {
            break;
        }
    }
    evicted
}

#[cfg(test)]
mod tests;
