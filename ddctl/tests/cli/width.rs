// SPDX-License-Identifier: GPL-2.0-only

//! All tables fit a terminal of 80 columns, on machines with long names and large numbers, and no
//! part of a name is lost.

use crate::{policy, simulate, world::World};
use ddabi::{
    counters::{AdmissionCounters, CurvePoint},
    genl::LinkState,
    pool::{PoolStats, SsdAdmit, Store},
    ssd::{DeviceState, SsdStats},
};
use ddnl::{Device, Policy, Pool, Vm, fake};
use std::collections::BTreeSet;
use zerocopy::{FromBytes, KnownLayout};

/// Columns of a terminal of the usual size.
const COLUMNS: usize = 80;
/// A count that takes as many columns as any: `999.9G`.
const MANY: u64 = 999_900_000_000;
/// A size of as many columns as any: `1023.9G`.
const PAGES: u64 = (1 << 28) - 2561;
/// Names of VMs: by libvirt, by a cloud, and one with letters of two columns.
const VMS: [&str; 3] = [
    "production-db-eu-001",
    "instance-0000a7f3-8e21-4c6b-9d0e-55ab34cd12ef",
    "数据库服务器生产环境一号",
];
/// A container's cgroup and its name, as Kubernetes, Docker and systemd make them.
const CONTAINERS: [(&str, &str); 3] = [
    (
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0f3c5a52_8b1d_4e0a_9c3f_\
         6b0a5e441f0e.slice/cri-containerd-4f6e9b7c2d1a8e5f3b0c9d7e6a5f4c3b2d1e0f9a8b7c6d5e4f3a2b1c\
         0d9e8f7a.scope",
        "shop-frontend-deployment-6d4cf56db9-x7k2p/nginx-ingress-control",
    ),
    (
        "/system.slice/docker-4f6e9b7c2d1a8e5f3b0c9d7e6a5f4c3b2d1e0f9a8b7c6d5e4f3a2b1c0d9e8f7a.scope",
        "monitoring-prometheus-1",
    ),
    (
        "/system.slice/postgresql@17-main.service",
        "postgresql@17-main",
    ),
];
const DISK: &str =
    "/dev/disk/by-id/nvme-Samsung_SSD_990_PRO_with_Heatsink_4TB_S7KGNJ0W912345A-part3";

/// Returns counters that all have the same number.
fn all<T: FromBytes + KnownLayout>(number: u64) -> T {
    let words = vec![number; size_of::<T>() / size_of::<u64>()];
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
    T::read_from_bytes(&bytes).expect("counters are words")
}

fn stats(weight: u32) -> PoolStats {
    PoolStats {
        weight: weight.into(),
        used: PAGES,
        entitlement: PAGES,
        // Half of the requests were hits.
        gets: MANY,
        misses: 0,
        ..all(MANY)
    }
}

fn pools(vm: Option<u32>) -> Vec<Pool> {
    let numbered = (1020..).zip(CONTAINERS);
    let pool = |(id, (cgroup, name)): (u32, (&str, &str))| Pool {
        vm,
        weight: 10_000,
        ssd_weight: 10_000,
        store: Store::Hybrid,
        ssd_admit: SsdAdmit::Second,
        policy: Policy::Adaptive,
        cgroup_id: Some(1 << 40),
        cgroup: vm.is_none().then(|| cgroup.into()),
        admission: vm.is_none().then(|| AdmissionCounters {
            curve_error_permille: 1000,
            ..all(MANY)
        }),
        curve: vm.is_none().then(|| {
            let point = |n: u64| CurvePoint {
                pages: PAGES / 20 * n,
                hits: MANY / 20 * n,
            };
            (1..20).map(point).collect()
        }),
        ..fake::pool(0, id, name, stats(10_000))
    };
    numbered.map(pool).collect()
}

/// A host with large VMs and a failing disk.
fn host() -> World {
    let world = World::host();
    for (pid, name) in (4_194_000..).zip(VMS) {
        let command = format!("qemu-system-x86_64\0-name\0guest={name},debug-threads=on\0");
        world.file(&format!("/proc/{pid}/cmdline"), &command);
        let uid = "4294967294";
        let status = format!("Name:\tvmm\nPid:\t{pid}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n");
        world.file(&format!("/proc/{pid}/status"), &status);
    }
    world.host.with(|state| {
        let vm = |id: u32| Vm {
            id: 1000 + id,
            pid: 4_194_000 + id,
            weight: 10_000,
            ssd_weight: 10_000,
            used: PAGES,
            entitlement: PAGES,
            pools: 1024,
            stats: stats(10_000),
        };
        state.vms = (0..3).map(vm).collect();
        state.pools = (1000..1003).flat_map(|vm| pools(Some(vm))).collect();
        state.devices = [DeviceState::Suspect, DeviceState::Failed]
            .into_iter()
            .zip(0..)
            .map(|(device_state, id)| Device {
                id,
                path: DISK.into(),
                state: device_state,
                stats: SsdStats {
                    places: PAGES,
                    used: PAGES,
                    read_pages: PAGES,
                    written_pages: PAGES,
                    ..all(99_999)
                },
            })
            .collect();
        let status = &mut state.status;
        (status.capacity, status.used) = (PAGES, PAGES);
        (status.limit, status.floor) = (PAGES, PAGES);
        status.counters = all(MANY);
        status.vms = 1000;
    });
    world
}

/// A guest with containers of every runtime.
fn guest() -> World {
    let world = World::guest();
    world.guest.with(|state| {
        state.pools = pools(None);
        state.status.pools = 1024;
        state.status.counters = all(MANY);
    });
    let goals = [
        "throughput",
        "latency",
        "hit_ratio",
        "refault_rate",
        "memory_pressure",
        "io_pressure",
    ]
    .map(|figure| {
        format!("{{\"figure\":\"{figure}\",\"target\":999900000.5,\"measured\":999900000.5}}")
    });
    let verdicts = ["needs_memory", "best_effort", "not_helped"];
    let containers = CONTAINERS.iter().zip(verdicts).map(|((_, name), verdict)| {
        format!(
            "{{\"name\":\"{name}\",\"class\":\"priority 1000\",\"verdict\":\"{verdict}\",\
             \"share_bytes\":{size},\"need_bytes\":{size},\"goals\":[{}]}}",
            goals.join(","),
            size = PAGES << 12
        )
    });
    let containers: Vec<String> = containers.collect();
    let report = format!(
        "{{\"trouble\":\"the file {} cannot be read\",\"store_bytes\":{},\"feasible\":false,\
         \"containers\":[{}]}}",
        CONTAINERS[0].0,
        PAGES << 12,
        containers.join(",")
    );
    policy::daemon(&world, report.leak());
    world
}

/// The verbs that print one line or prose about what they did, events, or JSON.
const WITHOUT_TABLES: [&str; 15] = [
    "set-weight",
    "set-capacity",
    "ssd add",
    "ssd remove",
    "ssd set",
    "mode",
    "top",
    "flush",
    "events",
    "schema",
    "container add",
    "container remove",
    "container set-weight",
    "container set-policy",
    "container set-store",
];

/// Command lines of all other verbs.
const ON_HOSTS: [&str; 11] = [
    "status",
    "vm list",
    "vm list --watch --count 1",
    "ssd list",
    "stats",
    "stats --watch --count 2",
    "stats id:1001",
    "stats id:1001/1020",
    "advise",
    "doctor --host",
    "support-bundle /support.tar.gz",
];
const IN_GUESTS: [&str; 8] = [
    "status",
    "stats",
    "stats 1020",
    "stats --curve",
    "container list",
    "policy",
    "advise",
    "doctor --guest",
];

/// Columns that a text takes on a terminal.
fn columns(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

fn check(world: &World, line: &str) -> String {
    let outcome = world.outcome(line);
    assert!(outcome.code <= 1, "{line}: {}", outcome.err);
    for text in outcome.out.lines() {
        assert!(
            columns(text) <= COLUMNS,
            "{line}: {text}\nin\n{}",
            outcome.out
        );
    }
    outcome.out
}

/// Removes what separates the parts of a divided name.
fn joined(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn tables_fit() {
    let (host, guest) = (host(), guest());
    for line in ON_HOSTS {
        let text = check(&host, line);
        let wanted: &[&str] = match line {
            "vm list" | "stats" => &VMS,
            "ssd list" => &[DISK, "suspect", "1023.9G"],
            _ => &[],
        };
        for name in wanted {
            assert!(joined(&text).contains(name), "{line} lacks {name}:\n{text}");
        }
    }
    for line in IN_GUESTS {
        let text = check(&guest, line);
        for (cgroup, name) in CONTAINERS {
            let is_table = !["status", "stats 1020", "advise", "doctor --guest"].contains(&line);
            assert!(
                !is_table || text.contains(name),
                "{line} lacks {name}:\n{text}"
            );
            if line == "container list" {
                assert!(
                    joined(&text).contains(cgroup),
                    "{line} lacks {cgroup}:\n{text}"
                );
            }
        }
    }
    guest.guest.with(|state| {
        state.status.state = LinkState::Refused;
        state.pools.truncate(1);
    });
    for line in IN_GUESTS {
        check(&guest, line);
    }
    for line in ["doctor", "doctor --guest", "doctor --host"] {
        check(&World::new(), line);
    }
}

#[test]
fn tables_of_traces_fit() {
    let world = World::new();
    let path = "/srv/traces/alibaba-block-traces-2020/volume-0000417-of-production-cluster-a.csv";
    world.file(path, &simulate::looping(500));
    let text = check(&world, &format!("simulate {path}"));
    assert!(text.contains(path), "{text}");
}

/// A terminal of enough columns shows each row on one line.
#[test]
fn wide_terminals_have_whole_rows() {
    let (mut host, mut guest) = (host(), guest());
    host.columns = Some(400);
    guest.columns = Some(400);
    let is_whole = |world: &World, line: &str, rows: usize| {
        let out = world.outcome(line).out;
        assert_eq!(out.lines().count(), rows + 1, "{line}:\n{out}");
    };
    is_whole(&host, "vm list", 3);
    is_whole(&host, "stats", 3 * 4);
    is_whole(&host, "ssd list", 2);
    is_whole(&guest, "container list", 3);
    // A terminal may also be narrower, and break lines by itself.
    host.columns = Some(20);
    check(&host, "vm list");
}

/// Returns the verbs that are no groups of others.
fn verbs(command: &clap::Command, line: &str, all: &mut BTreeSet<String>) {
    let below: Vec<_> = command.get_subcommands().collect();
    if below.is_empty() {
        all.insert(line.into());
    }
    for verb in below {
        verbs(verb, format!("{line} {}", verb.get_name()).trim(), all);
    }
}

#[test]
fn every_verb_is_checked() {
    let mut all = BTreeSet::new();
    verbs(&ddctl::command(), "", &mut all);
    let lines = ON_HOSTS.iter().chain(&IN_GUESTS).chain(&["simulate"]);
    let lines: Vec<&str> = lines.chain(&WITHOUT_TABLES).copied().collect();
    for verb in all {
        let is_it = |line: &&&str| **line == verb || line.starts_with(&format!("{verb} "));
        assert!(
            lines.iter().any(|line| is_it(&line)),
            "no line runs `{verb}`"
        );
    }
}
