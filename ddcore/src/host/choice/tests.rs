// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use crate::host::heap::tests::{add_vm, host, put_number};
use alloc::vec::Vec;

/// Puts `runs` runs into each VM, then chooses a VM for one eviction after the other without
/// evicting. Returns the numbers of the VMs.
fn chosen(runs: [u64; 2], count: usize) -> Vec<u32> {
    let host = host();
    add_vm(&host, 2);
    for (vm, runs) in runs.into_iter().enumerate() {
        (0..runs).for_each(|run| assert!(put_number(&host, vm, run) > 0));
    }
    let choose = |_| choose_batches(&host, &mut *host.lock(), 1)[0].take();
    let claims: Vec<_> = (0..count).filter_map(choose).collect();
    claims.iter().map(|vm: &Claim<_>| vm.number).collect()
}

#[test]
fn tasks_that_choose_at_the_same_time_divide_the_victims() {
    assert_eq!(chosen([3, 2], 6), [1, 1, 1, 2, 1, 2]);
}

#[test]
fn a_claim_ends_with_the_eviction() {
    let host = host();
    put_number(&host, 0, 0);
    let vm = host.vm_list.borrow().vms()[0].clone();
    {
        let _first = Claim::new(&*vm, 3);
        let _second = Claim::new(&*vm, 4);
        assert_eq!(vm.standing.claimed(), 7);
    }
    assert_eq!(vm.standing.claimed(), 0);
}
