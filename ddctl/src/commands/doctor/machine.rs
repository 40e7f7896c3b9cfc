// SPDX-License-Identifier: GPL-2.0-only

//! Checks of the machine: capabilities, KVM on a host, cgroups in a guest.

use super::Examination;
use crate::system::System;
use ddnl::Side;

pub(super) fn examine(examination: &mut Examination<'_>) {
    permission(examination);
    match examination.side {
        Side::Guest => {
            cgroups(examination);
            virtual_machine(examination);
        }
        Side::Host => kvm(examination),
    }
}

/// Returns whether this machine is a VM of KVM.
pub(super) fn is_kvm_guest(system: &dyn System) -> bool {
    system.hypervisors().iter().any(|one| one == KVM)
}

/// The signature of KVM in CPUID, by which the guest's kernel knows it.
const KVM: &str = "KVMKVMKVM";

fn permission(examination: &mut Examination<'_>) {
    /// Bit of the capability in the kernel's masks.
    const CAP_NET_ADMIN: u32 = 12;
    let status = examination.read("/proc/self/status");
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default();
    let map = examination.read("/proc/self/uid_map");
    let initial = map.split_whitespace().eq(["0", "0", "4294967295"]);
    if mask & (1 << CAP_NET_ADMIN) == 0 {
        examination.fail(
            "permission",
            "CAP_NET_ADMIN is missing: the modules refuse all requests",
            "run as root",
        );
    } else if !initial {
        examination.fail(
            "permission",
            "in a user namespace: the modules accept requests from the initial one only",
            "run ddctl outside of the container",
        );
    } else {
        examination.ok("permission", "CAP_NET_ADMIN in the initial user namespace");
    }
}

/// Returns the module of KVM for the processor of this machine that is loaded.
pub(super) fn loaded_kvm(examination: &Examination<'_>) -> Option<&'static str> {
    let is_loaded = |module: &&str| examination.exists(&format!("/sys/module/{module}"));
    ["kvm_amd", "kvm_intel"].into_iter().find(is_loaded)
}

fn kvm(examination: &mut Examination<'_>) {
    match (examination.exists("/dev/kvm"), loaded_kvm(examination)) {
        (true, Some(vendor)) => examination.ok("kvm", format!("{vendor} is loaded")),
        (true, None) => examination.warn(
            "kvm",
            "/dev/kvm exists, but neither kvm_amd nor kvm_intel is loaded",
            "only AMD and Intel processors are supported",
        ),
        (false, _) => examination.fail(
            "kvm",
            "/dev/kvm does not exist",
            "load kvm_amd or kvm_intel, and enable virtualisation in the firmware",
        ),
    }
}

fn cgroups(examination: &mut Examination<'_>) {
    let controllers = examination.read("/sys/fs/cgroup/cgroup.controllers");
    let memory = controllers.split_whitespace().any(|one| one == "memory");
    if memory {
        examination.ok("cgroup", "version 2 with the memory controller");
    } else if controllers.is_empty() {
        examination.fail(
            "cgroup",
            "cgroup version 2 is not mounted at /sys/fs/cgroup",
            "boot with systemd.unified_cgroup_hierarchy=1, or mount -t cgroup2 none /sys/fs/cgroup",
        );
    } else {
        examination.fail(
            "cgroup",
            "cgroup version 2 has no memory controller",
            "boot without cgroup_disable=memory, and without cgroup version 1 for memory",
        );
    }
}

fn virtual_machine(examination: &mut Examination<'_>) {
    let advice = "load the guest module in VMs of a KVM host that runs doubledecker_host";
    let hypervisors = examination.system.hypervisors();
    if is_kvm_guest(examination.system) {
        examination.ok("machine", format!("a VM of KVM (CPUID has {KVM})"));
    } else if hypervisors.is_empty() {
        examination.warn("machine", "not a VM (CPUID has no hypervisor)", advice);
    } else {
        let found = hypervisors.join(", ");
        let message = format!("not a VM of KVM (CPUID has {found} instead of {KVM})");
        examination.warn("machine", message, advice);
    }
}
