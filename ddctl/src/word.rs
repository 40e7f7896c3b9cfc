// SPDX-License-Identifier: GPL-2.0-only

//! Words of a command line that name a VM, a container or a device.
//!
//! Users choose names, and a name may contain characters that a shell executes. Such a name is
//! neither offered as a candidate nor printed in a command; the number takes its place.

use crate::target::{NamedVm, find_pool, find_vm, pool_name};
use ddnl::{Device, Pool};

/// Returns whether a shell takes a word as it is, and ddctl does not take it for an option.
pub(crate) fn is_plain(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "@_.:/+-".contains(letter);
    !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain)
}

/// Returns a word that names this VM and no other one: its name, or `id:` and its number.
pub(crate) fn of_vm(vms: &[NamedVm], vm: &NamedVm) -> String {
    let label = vm.label();
    let is_it = |found: &NamedVm| found.vm.id == vm.vm.id;
    // A slash separates the VM from a container.
    let is_plain = is_plain(&label) && !label.contains('/');
    match is_plain && find_vm(vms, &label).is_ok_and(is_it) {
        true => label,
        false => format!("id:{}", vm.vm.id),
    }
}

/// Returns a word that names this container and no other one of the same VM: its name or its
/// number.
pub(crate) fn of_pool(pools: &[Pool], pool: &Pool) -> String {
    let name = pool_name(pool);
    let is_it = |found: &Pool| found.id == pool.id;
    match is_plain(&name) && find_pool(pools, &name).is_ok_and(is_it) {
        true => name,
        false => pool.id.to_string(),
    }
}

/// Returns a word that names a device of the SSD tier: its path or its number.
pub(crate) fn of_device(device: &Device) -> String {
    match is_plain(&device.path) {
        true => device.path.clone(),
        false => device.id.to_string(),
    }
}
