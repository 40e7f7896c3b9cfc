// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use crate::host::heap::tests::{add_vm, host, is_any_held, numbers_read, put_number};
use crate::host::Session as _;
use alloc::vec::Vec;

const VMS: u32 = 1000;

/// An administrator of a large host lists its VMs while they evict. A search that began at the
/// first VM each time would look at half a million of them, and evictions would wait for it.
#[test]
fn a_visit_of_all_vms_looks_at_few_of_them_at_a_time() {
    let host = host();
    (2..=VMS).for_each(|number| add_vm(&host, number));
    let mut seen = Vec::new();
    let mut before = numbers_read();
    for vm in vms(&host, 0) {
        assert!(
            !is_any_held(),
            "evictions wait while VM {} is visited",
            vm.number
        );
        let read = numbers_read() - before;
        // A binary search, and the number of the VM itself.
        assert!(read <= VMS.ilog2() + 3, "{read} VMs were looked at");
        seen.push(vm.number);
        before = numbers_read();
    }
    assert_eq!(seen, (1..=VMS).collect::<Vec<_>>());
    assert_eq!(vms(&host, 400).next().map(|vm| vm.number), Some(400));
}

/// Numbers wrap around, so that the last VM can have the largest one.
#[test]
fn a_visit_ends_behind_the_largest_number() {
    let host = host();
    let mut visit = vms(&host, 0);
    assert_eq!(visit.next().map(|vm| vm.number), Some(1));
    add_vm(&host, u32::MAX);
    assert_eq!(visit.next().map(|vm| vm.number), Some(u32::MAX));
    assert!(visit.next().is_none());
}

/// Other users of generic netlink wait for a command, which therefore evicts a part of the pages of
/// a large tier. The caller repeats it.
#[test]
fn a_command_evicts_a_bounded_number_of_pages() {
    let host = host();
    // The bound is reached within the pages of a VM.
    let runs = COMMAND_PAGES / 16 + 100;
    host.tier.set_capacity(2 * COMMAND_PAGES);
    host.tier.set_floor(2 * COMMAND_PAGES);
    add_vm(&host, 2);
    add_vm(&host, 3);
    for vm in 0..3 {
        for number in 0..runs {
            assert!(put_number(&host, vm, number) > 0);
        }
    }
    let all = host.tier.used();
    assert!(all > COMMAND_PAGES && all < 2 * COMMAND_PAGES);
    let command = || evict_for_command(&host, Cause::Command);
    assert_eq!(command(), COMMAND_PAGES);
    assert_eq!(host.tier.used(), all - COMMAND_PAGES);
    assert_eq!([command(), command()], [all - COMMAND_PAGES, 0]);
    assert!(vms(&host, 0).all(|vm| vm.session.used() == 0));
}
