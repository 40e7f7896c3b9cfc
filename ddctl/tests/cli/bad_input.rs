// SPDX-License-Identifier: GPL-2.0-only

//! Tests of invalid input: the message is clear, the exit code is right, and nothing is changed.

use crate::world::World;
use ddabi::ABI_VERSION;
use ddnl::fake::Fault;
use insta::assert_snapshot;

/// Command lines that must change nothing on a host.
const HOST_LINES: [&str; 6] = [
    "status",
    "vm list",
    "set-weight web 1",
    "set-capacity 1G",
    "mode fifo",
    "flush --all",
];

const GUEST_LINES: [&str; 6] = [
    "status",
    "stats",
    "set-weight nginx 1",
    "container add /x",
    "container remove nginx",
    "flush --all",
];

fn with_fault(fault: Fault) -> String {
    let host = World::host();
    host.host.with(|state| state.fault = fault);
    let guest = World::guest();
    guest.guest.with(|state| state.fault = fault);
    let text = format!(
        "{}\n{}",
        host.answers(&HOST_LINES),
        guest.answers(&GUEST_LINES)
    );
    host.host.with(|state| {
        assert_eq!(state.vms[0].weight, 60);
        assert_eq!(state.status.capacity, 1 << 18);
        assert!(state.flushed.is_empty());
    });
    guest.guest.with(|state| {
        assert_eq!((state.pools.len(), state.pools[1].weight), (3, 300));
        assert!(state.flushed.is_empty());
    });
    text
}

#[test]
fn no_module() {
    assert_snapshot!(with_fault(Fault::Absent));
}

#[test]
fn no_permission() {
    assert_snapshot!(with_fault(Fault::Forbidden));
}

#[test]
fn older_and_newer_modules() {
    let ours = u32::from(ABI_VERSION);
    assert_snapshot!("older_module", with_fault(Fault::Version(ours - 1)));
    assert_snapshot!("newer_module", with_fault(Fault::Version(ours + 1)));
    assert_snapshot!("other_layout", with_fault(Fault::Layout));
}

#[test]
fn the_kernel_refuses() {
    let world = World::host();
    world.host.with(|state| state.fault = Fault::Refusing(16));
    assert_snapshot!(world.runs(&HOST_LINES[2..]));
}

#[test]
fn the_wrong_side() {
    let guest = World::guest();
    let host = World::host();
    let text = [
        guest.runs(&["vm list", "set-capacity 1G", "mode"]),
        host.runs(&[
            "container list",
            "container add /x",
            "set-weight web/nginx 5",
        ]),
    ];
    assert_snapshot!(text.join("\n"));
}

#[test]
fn unknown_vms_and_containers() {
    let world = World::host();
    assert_snapshot!(world.runs(&[
        "set-weight nobody 5",
        "set-weight web nobody 5",
        "set-weight id:9 5",
        "stats nobody",
        "stats web/nobody",
        "flush nobody/x",
        "flush web/",
    ]));
    assert_eq!(world.host.with(|state| state.vms[0].weight), 60);
    let guest = World::guest();
    assert_snapshot!(
        "unknown_containers",
        guest.runs(&[
            "set-weight nginx nobody 5",
            "stats nobody",
            "flush nobody",
            "container remove nobody",
            "container remove default",
        ])
    );
    assert_eq!(guest.guest.with(|state| state.pools[1].weight), 300);
}

#[test]
fn a_name_of_two() {
    let world = World::host();
    world.file("/proc/4002/cmdline", "qemu\0-name\0web\0");
    world
        .host
        .with(|state| state.pools[0].name = "nginx".into());
    assert_snapshot!(world.runs(&["set-weight web 5", "stats 1/nginx", "set-weight id:2 5"]));
}

#[test]
fn no_vms_at_all() {
    let world = World::host();
    world.host.with(|state| state.vms.clear());
    assert_snapshot!(world.run("set-weight web 5"));
}

#[test]
fn wrong_words() {
    let world = World::host();
    assert_snapshot!(world.runs(&[
        "set-weight web 10001",
        "set-weight web -1",
        "set-weight web half",
        "set-weight 5",
        "set-weight web",
        "set-capacity",
        "set-capacity 12",
        "set-capacity 12X",
        "set-capacity 101%",
        "set-capacity 9G",
        "set-capacity 1M --floor 2M",
        "set-capacity --batch 1",
        "set-capacity --batch 0",
        "mode lifo",
        "flush",
        "flush web --all",
        "stats --watch=0",
        "stats --count 3",
        "events --count 0",
        "frobnicate",
    ]));
    world.host.with(|state| {
        assert_eq!(state.status.capacity, 1 << 18);
        assert!(state.flushed.is_empty());
    });
}

#[test]
fn containers_the_module_cannot_have() {
    let world = World::guest();
    let long = format!("container add /x --name {}", "n".repeat(65));
    assert_snapshot!(world.runs(&[
        "container add /system.slice/nginx.service --weight 10001",
        "container add /",
        &long,
        "container add",
    ]));
    world.guest.with(|state| state.cgroups = Some([].into()));
    assert_snapshot!("no_such_cgroup", world.run("container add /nowhere"));
    assert_eq!(world.guest.with(|state| state.pools.len()), 3);
}
