// SPDX-License-Identifier: GPL-2.0-only

use crate::world::World;
use ddabi::genl::LinkState;
use ddnl::fake::Fault;
use insta::assert_snapshot;
use std::io::Write;

const CONFIG: &str = "CONFIG_MODULES=y\nCONFIG_RUST=y\nCONFIG_DYNAMIC_FTRACE_WITH_ARGS=y\n\
                      CONFIG_KPROBES=y\nCONFIG_KVM=m\nCONFIG_MEMCG=y\nCONFIG_CGROUPS=y\n# CONFIG_X is not set\n";

const FUNCTIONS: &str = "____kvm_emulate_hypercall [kvm]\nkvm_arch_pre_destroy_vm [kvm]\n\
                         __filemap_remove_folio\n__folio_mark_dirty\n\
                         delete_from_page_cache_batch\nfilemap_dirty_folio\n\
                         free_unref_folios\ngeneric_shutdown_super\n\
                         invalidate_inode_pages2_range\niomap_iter\niomap_swapfile_activate\n\
                         truncate_inode_pages_range\next4_readahead\next4_read_folio\n\
                         ext4_swap_extents\next4_write_inline_data_end\n";

/// Writes the files of a machine on which all checks pass, on either side.
fn healthy(world: &World) {
    world.file("/proc/sys/kernel/osrelease", "7.2.12+deb13-cloud-amd64\n");
    world.file("/proc/sys/kernel/ftrace_enabled", "1\n");
    world.file("/lib/modules/7.2.12+deb13-cloud-amd64/config", CONFIG);
    world.file("/sys/kernel/tracing/available_filter_functions", FUNCTIONS);
    world.file(
        "/proc/self/status",
        "Name:\tddctl\nCapEff:\t000001ffffffffff\n",
    );
    world.file("/proc/self/uid_map", "         0          0 4294967295\n");
    world.file(
        "/proc/mounts",
        "/dev/vda1 / ext4 rw 0 0\nproc /proc proc rw 0 0\n",
    );
    world.file("/sys/fs/cgroup/cgroup.controllers", "cpu io memory pids\n");
}

fn healthy_host() -> World {
    let world = World::host();
    healthy(&world);
    world.file("/dev/kvm", "");
    world.file("/sys/module/kvm_amd/refcnt", "1");
    world
        .host
        .with(|state| state.status.counters.refused_unsupported = 0);
    world
}

fn healthy_guest() -> World {
    let mut world = World::guest();
    healthy(&world);
    world.hypervisors = vec!["Microsoft Hv".into(), "KVMKVMKVM".into()];
    world
}

#[test]
fn all_is_well() {
    let text = [healthy_host().run("doctor"), healthy_guest().run("doctor")];
    assert_snapshot!(text.join("\n"));
    assert_snapshot!("doctor_json", healthy_host().run("doctor --json"));
}

/// No file exists.
#[test]
fn an_empty_machine() {
    let world = World::new();
    assert_snapshot!(world.run("doctor"));
    assert_snapshot!("an_empty_guest", world.run("doctor --guest"));
}

/// A machine without modules is recognised by its hardware.
#[test]
fn sides_by_looks() {
    let world = healthy_guest();
    world.guest.with(|state| state.fault = Fault::Absent);
    let out = world.outcome("doctor").out;
    assert!(
        out.contains("As a guest:") && !out.contains("As a host:"),
        "{out}"
    );
    world.file("/dev/kvm", "");
    let out = world.outcome("doctor").out;
    assert!(
        out.contains("As a guest:") && out.contains("As a host:"),
        "{out}"
    );
}

#[test]
fn a_sick_host() {
    let world = healthy_host();
    world.file("/proc/sys/kernel/osrelease", "7.20.0\n");
    world.file("/boot/config-7.20.0", "CONFIG_MODULES=y\nCONFIG_KVM=y\n");
    world.file("/proc/sys/kernel/ftrace_enabled", "0\n");
    world.file(
        "/sys/kernel/tracing/available_filter_functions",
        "vfs_read\n",
    );
    world.file("/sys/module/module/parameters/sig_enforce", "Y\n");
    world.file("/proc/self/status", "CapEff:\t0000000000000000\n");
    world.host.with(|state| {
        state.status.capacity = 0;
        state.status.counters.refused_unsupported = 12;
    });
    assert_snapshot!(world.run("doctor"));
}

#[test]
fn a_sick_guest() {
    let mut world = healthy_guest();
    world.hypervisors = vec!["VMwareVMware".into()];
    world.file("/proc/self/uid_map", "0 100000 65536\n");
    world.file("/proc/mounts", "/dev/vda1 / btrfs rw 0 0\n");
    world.file("/sys/fs/cgroup/cgroup.controllers", "cpu io pids\n");
    world.file(
        "/sys/kernel/security/lockdown",
        "none [integrity] confidentiality\n",
    );
    world
        .guest
        .with(|state| state.status.state = LinkState::Refused);
    assert_snapshot!(world.run("doctor"));
}

/// A module that was loaded before signatures were enforced may be refused the next time.
#[test]
fn signatures_matter_unless_that_of_the_module_was_accepted() {
    let world = healthy_host();
    world.file("/sys/module/module/parameters/sig_enforce", "Y\n");
    for (taint, verdict) in [("O", "ok"), ("OE", "warn")] {
        world.file("/sys/module/doubledecker_host/taint", &format!("{taint}\n"));
        let out = world.outcome("doctor").out;
        assert!(out.contains(&format!("{verdict:<4}  signatures")), "{out}");
    }
}

/// Livepatches matter where they replace what the modules divert.
#[test]
fn livepatched_functions() {
    let (host, guest) = (healthy_host(), healthy_guest());
    host.file(
        "/sys/kernel/livepatch/fix/kvm/____kvm_emulate_hypercall,1/x",
        "",
    );
    for place in [
        "vmlinux/truncate_inode_pages_range,1",
        "vmlinux/free_unref_folios,1",
        "ext4/ext4_readahead,1",
    ] {
        guest.file(&format!("/sys/kernel/livepatch/fix/{place}/x"), "");
    }
    assert_snapshot!([host.run("doctor"), guest.run("doctor")].join("\n"));
}

#[test]
fn kernels_with_preempt_rt() {
    for (world, side) in [(healthy_host(), "host"), (healthy_guest(), "guest")] {
        let plain = "#1 SMP PREEMPT_DYNAMIC Debian 7.2.12-1";
        world.file("/proc/sys/kernel/version", plain);
        assert!(!world.run("doctor").contains("PREEMPT"), "{side}");
        let realtime = "#1 SMP PREEMPT_RT Debian 7.2.12-1";
        world.file("/proc/sys/kernel/version", realtime);
        let text = world.run("doctor");
        assert!(text.contains("FAIL  realtime"), "{side}: {text}");
    }
}

#[test]
fn modules_of_other_versions() {
    let world = healthy_guest();
    let mut texts = Vec::new();
    for fault in [
        Fault::Version(0),
        Fault::Version(7),
        Fault::Layout,
        Fault::Forbidden,
    ] {
        world.guest.with(|state| state.fault = fault);
        let text = world.run("doctor");
        let module: Vec<&str> = text
            .lines()
            .skip_while(|line| !line.contains("module "))
            .collect();
        texts.push(module.join("\n"));
    }
    assert_snapshot!(texts.join("\n\n"));
}

/// The advice on loading the module depends on whether it is installed.
#[test]
fn a_module_that_is_not_loaded() {
    let world = healthy_guest();
    world.guest.with(|state| state.fault = Fault::Absent);
    let advice = |world: &World| {
        let text = world.outcome("doctor --guest").out;
        let lines = text
            .lines()
            .skip_while(|line| !line.contains("FAIL  module"));
        // The advice may have several lines, and the next check begins with its result.
        let lines = lines
            .skip(1)
            .take_while(|line| line.starts_with(&" ".repeat(20)));
        let lines: Vec<&str> = lines.map(str::trim).collect();
        lines.join(" ")
    };
    assert_eq!(
        advice(&world),
        "-> it is not installed for this kernel: install the package doubledecker-guest-dkms, or \
         build it, and run `modprobe doubledecker_guest`"
    );
    let list =
        "kernel/fs/ext4/ext4.ko: kernel/lib/crc16.ko\nupdates/dkms/doubledecker_guest.ko.xz:\n";
    world.file("/lib/modules/7.2.12+deb13-cloud-amd64/modules.dep", list);
    assert_eq!(advice(&world), "-> run `modprobe doubledecker_guest`");
}

/// The check passes for all kernels that the modules are tested with, and for no other.
#[test]
fn kernels_that_are_tested() {
    for (release, verdict) in [
        ("7.2.12+deb13-cloud-amd64", "  ok    kernel"),
        ("7.3-rc4-cloud-amd64", "  ok    kernel"),
        ("7.3~rc4-cloud-amd64", "  ok    kernel"),
        ("7.30.1", "  warn  kernel"),
        ("6.12.1", "  warn  kernel"),
    ] {
        let world = healthy_host();
        world.file("/proc/sys/kernel/osrelease", release);
        let text = world.outcome("doctor").out;
        assert!(text.contains(verdict), "{release}: {text}");
    }
}

/// Kernels that contain their configuration in compressed form, and machines without tracefs.
#[test]
fn other_places_to_look() {
    let world = healthy_guest();
    let packed = ddctl::System::file(&world, "/proc/config.gz");
    let file = std::fs::File::create(packed).unwrap();
    let mut packer = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    packer.write_all(b"CONFIG_MODULES=y\n").unwrap();
    packer.finish().unwrap();
    let functions = ddctl::System::file(&world, "/sys/kernel/tracing/available_filter_functions");
    std::fs::remove_file(functions).unwrap();
    let kallsyms: String = FUNCTIONS
        .lines()
        .filter(|line| !line.contains("free_unref_folios"))
        .map(|line| format!("0000000000000000 T {line}\n"))
        .collect();
    world.file("/proc/kallsyms", &kallsyms);
    assert_snapshot!(world.run("doctor"));
}
