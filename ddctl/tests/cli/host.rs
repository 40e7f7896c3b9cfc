// SPDX-License-Identifier: GPL-2.0-only

use crate::world::World;
use ddabi::{genl, ssd::Waiting};
use ddnl::{ConfigChange, Event, FlushTarget, Flushed};
use insta::assert_snapshot;

#[test]
fn status() {
    let world = World::host();
    assert_snapshot!(world.run("status"));
    assert_snapshot!("status_json", world.run("status --json"));
}

#[test]
fn vm_list() {
    let world = World::host();
    assert_snapshot!(world.run("vm list"));
    assert_snapshot!("vm_list_json", world.run("vm list --json"));
    world.host.with(|state| state.vms.clear());
    assert_snapshot!("vm_list_empty", world.run("vm list"));
}

#[test]
fn stats() {
    let world = World::host();
    assert_snapshot!(world.run("stats"));
    assert_snapshot!("stats_vm", world.run("stats web"));
    assert_snapshot!("stats_container", world.run("stats web/nginx"));
    assert_snapshot!("stats_container_json", world.run("stats web/nginx --json"));
    world.host.with(|state| {
        state.vms.clear();
        state.pools.clear();
    });
    assert_snapshot!("stats_empty", world.run("stats"));
}

/// The JSON has one structure for all targets.
#[test]
fn stats_json_has_one_shape() {
    let world = World::host();
    for (target, vms, containers) in [("", 3, 2), ("1", 1, 2), ("1/0", 1, 1)] {
        let out = world.outcome(&format!("stats --json {target}")).out;
        let json: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(json["vms"].as_array().unwrap().len(), vms, "{target}");
        let first = &json["vms"][0];
        assert_eq!(first["containers"].as_array().unwrap().len(), containers);
        assert_eq!(first["name"], "web");
        assert_eq!(first["containers"][0]["stats"]["puts"], 1_920 * 3);
    }
}

#[test]
fn set_weight_by_every_name() {
    let world = World::host();
    for (number, target) in [
        "1",
        "4001",
        "web",
        "6B0A5E44-1F0E-4B62-9D0C-0D9E6F6F0A11",
        "id:1",
        "pid:4001",
        "name:web",
        "uuid:6b0a5e44-1f0e-4b62-9d0c-0d9e6f6f0a11",
    ]
    .into_iter()
    .enumerate()
    {
        let weight = u32::try_from(number).unwrap() + 200;
        let outcome = world.outcome(&format!("set-weight {target} {weight}"));
        assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{target}");
        assert_eq!(world.host.with(|state| state.vms[0].weight), weight);
    }
}

#[test]
fn set_weight_of_many() {
    let world = World::host();
    assert_snapshot!(world.runs(&["set-weight web mail vm3 70", "set-weight web 0 --json"]));
    let weights = |world: &World| -> Vec<u32> {
        let vms = |state: &mut ddnl::fake::HostState| state.vms.clone();
        world.host.with(vms).iter().map(|vm| vm.weight).collect()
    };
    assert_eq!(weights(&world), [0, 70, 70]);
}

/// Changes before a failure are reported, as text and as JSON.
#[test]
fn set_weight_of_a_vm_that_has_ended() {
    let world = World::host();
    world.host.with(|state| state.gone = Some(2));
    assert_snapshot!(world.runs(&[
        "set-weight web mail vm3 70",
        "set-weight web mail vm3 80 --json",
        "set-weight mail web 90",
    ]));
    let weights = world.host.with(|state| state.vms.clone());
    let weights: Vec<u32> = weights.iter().map(|vm| vm.weight).collect();
    assert_eq!(weights, [80, 40, 0]);
}

#[test]
fn set_capacity() {
    let world = World::host();
    assert_snapshot!(world.runs(&[
        "set-capacity 2G",
        "set-capacity 25% --floor 512M",
        "set-capacity --batch 4M",
        "set-capacity 64M",
        "set-capacity 0 --floor 0 --json",
    ]));
    let status = world.host.with(|state| state.status.clone());
    assert_eq!((status.capacity, status.floor, status.batch), (0, 0, 1024));
}

#[test]
fn devices_of_the_ssd_tier() {
    let world = World::host();
    world.file("/dev/nvme0n1", "");
    world.file("/dev/nvme1n1", "\0\0data");
    assert_snapshot!(world.runs(&[
        "ssd list",
        "ssd add /dev/nvme0n1",
        "ssd add /dev/nvme1n1",
        "ssd add /dev/nvme1n1 --force --json",
        "ssd list",
        "ssd set --deadline 50",
        "ssd set --wait guest",
        "ssd set --index-memory 64M",
        "ssd set --index-memory none --json",
        "ssd set --wait auto --json",
        "ssd remove nvme9",
        "ssd remove 1",
        "ssd remove /dev/nvme0n1 --json",
        "ssd list --json",
        "set-weight web 70 --ssd 20",
        "set-weight web 70 --ssd 20 --json",
    ]));
    assert_eq!(world.host.with(|state| state.status.deadline), 50_000);
    let waiting = |wait: &str| {
        world.run(&format!("ssd set --wait {wait}"));
        world.host.with(|state| state.status.waiting)
    };
    assert_eq!(waiting("guest"), Waiting::Guest);
    assert_eq!(waiting("host"), Waiting::Host);
}

/// The module then changes all of them or none.
#[test]
fn settings_of_the_ssd_tier_are_changed_by_one_request() {
    let world = World::host();
    world.run("ssd set --deadline 50 --wait guest --retain on --index-memory 64M");
    let expected = ConfigChange {
        deadline: Some(50_000),
        waiting: Some(Waiting::Guest),
        retain: Some(true),
        index_limit: Some(64 << 8),
        ..ConfigChange::default()
    };
    let configured = world.host.with(|state| state.configured.clone());
    assert_eq!(configured, [expected]);
}

#[test]
fn a_device_is_gone_when_its_pages_are() {
    let world = World::host();
    world.file("/dev/nvme0n1", "");
    world.run("ssd add /dev/nvme0n1");
    let left = |left| ddnl::Flushed { evicted: 5, left };
    world.host.with(|state| state.flush_step = left(7));
    world.run("ssd remove /dev/nvme0n1");
    assert!(world.host.with(|state| state.devices.is_empty()));
}

#[test]
fn advise() {
    let world = World::host();
    assert_snapshot!(world.run("advise"));
}

#[test]
fn mode() {
    let world = World::host();
    assert_snapshot!(world.runs(&["mode", "mode fifo", "mode --json", "mode weighted"]));
}

#[test]
fn flush() {
    let world = World::host();
    assert_snapshot!(world.runs(&[
        "flush web",
        "flush web/nginx",
        "flush mail/default",
        "flush vm3/a/b",
        "flush --all --json",
    ]));
    let target = |vm, pool| FlushTarget { vm, pool };
    assert_eq!(
        world.host.with(|state| state.flushed.clone()),
        [
            target(Some(1), None),
            target(Some(1), Some(1)),
            target(Some(2), Some(0)),
            target(Some(3), Some(7)),
            target(None, None),
        ]
    );
}

/// The module drops a part of the pages in a command.
#[test]
fn a_flush_is_repeated_while_pages_are_left() {
    let world = World::host();
    let commands = |left| {
        world.host.with(|state| {
            state.flushed.clear();
            state.flush_step = Flushed { evicted: 5, left };
        });
        world.runs(&["flush web"]);
        world.host.with(|state| state.flushed.len())
    };
    assert_eq!([0, 7].map(commands), [1, 2]);
}

#[test]
fn events() {
    let world = World::host();
    let event = |kind: u32, pool: Option<u32>, name: &str| Event {
        kind,
        vm: Some(2),
        pid: Some(4002),
        pool,
        name: Some(name.into()),
    };
    let all = || {
        vec![
            event(genl::Event::VmCame as u32, None, ""),
            event(genl::Event::PoolCame as u32, Some(5), "ng\x1binx"),
            event(200, None, ""),
            event(genl::Event::VmWent as u32, None, ""),
        ]
    };
    world.events.replace(all());
    let text = world.run("events");
    world.events.replace(all());
    let json = world.run("events --json --count 2");
    assert_snapshot!(format!("{text}\n{json}"));
}
