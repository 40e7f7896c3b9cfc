// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use crate::target::NamedVm;
use ddabi::{
    counters::{AdmissionCounters, CurvePoint},
    pool::Store,
    ssd::{DeviceState, SsdStats},
};
use ddnl::{
    Device, GuestControl as _, HostControl as _, Policy, Pool, Vm,
    fake::{FakeGuest, FakeHost},
};
use ddvm::vmm::Vmm;
use std::process::Command;

fn vm(id: u32, stats: PoolStats) -> NamedVm {
    NamedVm {
        vm: Vm {
            id,
            pid: 1,
            weight: 100,
            ssd_weight: 100,
            used: stats.used,
            entitlement: 10_000,
            pools: 1,
            stats,
        },
        vmm: Vmm::default(),
    }
}

fn of_host(capacity: u64, used: u64, vms: &[NamedVm]) -> AdviceReport {
    let mut status = FakeHost::default().status().unwrap();
    (status.capacity, status.limit, status.used) = (capacity, capacity, used);
    let devices = &[];
    host(&HostView {
        status: &status,
        vms,
        devices,
    })
}

/// Returns the commands of all advice.
fn commands(report: &AdviceReport) -> Vec<&str> {
    let all = report.advice.iter();
    all.flat_map(|advice| advice.commands.iter().map(String::as_str))
        .collect()
}

#[test]
fn few_pages_are_no_reason() {
    let few = PoolStats {
        puts: ENOUGH - 1,
        evictions: ENOUGH - 1,
        put_refused_memory: ENOUGH - 1,
        used: 10_000,
        ..PoolStats::default()
    };
    let report = of_host(10_000, 10_000, &[vm(1, few)]);
    assert!(report.advice.is_empty(), "{report:?}");
    assert!(report.unknown[0].contains("too few pages"), "{report:?}");
}

#[test]
fn a_full_tier_and_a_full_vm_get_more() {
    let busy = PoolStats {
        puts: 100_000,
        evictions: 50_000,
        gets: 50_000,
        used: 9_500,
        ..PoolStats::default()
    };
    let report = of_host(10_240, 10_000, &[vm(1, busy)]);
    assert_eq!(
        commands(&report),
        ["ddctl set-capacity 50M", "ddctl set-weight vm1 200"]
    );
}

/// Returns the counters of a VM that reads each page once.
fn scan() -> PoolStats {
    PoolStats {
        puts: 100_000,
        evictions: 90_000,
        gets: 1_000,
        used: 5_000,
        ..PoolStats::default()
    }
}

#[test]
fn a_vm_without_hits_gets_less() {
    let report = of_host(100_000, 60_000, &[vm(7, scan())]);
    assert_eq!(commands(&report), ["ddctl set-weight vm7 50"]);
}

/// Runs a command in a shell with a ddctl that prints its arguments, one a line.
fn arguments(command: &str) -> String {
    let script = format!("ddctl() {{ printf '%s\\n' \"$@\"; }}\n{command}\n");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// A user of /dev/kvm and the administrator of a guest choose names that a shell would execute.
#[test]
fn names_are_not_executed() {
    for name in [
        "a$(echo b)",
        "-x",
        "8",
        "a/b",
        "id:8",
        "x;y",
        "a b",
        "",
        "web",
    ] {
        let mut one = vm(7, scan());
        one.vmm.name = Some(name.into());
        let other = vm(8, PoolStats::default());
        let report = of_host(100_000, 60_000, &[one, other]);
        let word = if name == "web" { "web" } else { "id:7" };
        let commands = commands(&report);
        assert_eq!(commands.len(), 1, "{name}: {report:?}");
        let wanted = format!("set-weight\n{word}\n50\n");
        assert_eq!(arguments(commands[0]), wanted, "{name}");
    }
    let mut pool = container(7, 5_000, &[(5_000, 10)]);
    pool.name = "x;y".into();
    let report = of_guest(&[pool]);
    assert_eq!(commands(&report), ["ddctl container set-store 7 none"]);
}

#[test]
fn unused_shares_are_left_alone() {
    let idle = PoolStats {
        puts: 2_000,
        used: 1_000,
        ..PoolStats::default()
    };
    let report = of_host(100_000, 1_000, &[vm(1, idle)]);
    assert!(commands(&report).is_empty(), "{report:?}");
    assert_eq!(report.advice.len(), 2, "{report:?}");
}

fn container(id: u32, entitlement: u64, curve: &[(u64, u64)]) -> Pool {
    let point = |(pages, hits): &(u64, u64)| CurvePoint {
        pages: *pages,
        hits: *hits,
    };
    Pool {
        vm: None,
        id,
        name: format!("c{id}"),
        cgroup_id: None,
        cgroup: None,
        weight: 100,
        ssd_weight: 100,
        store: Store::Memory,
        policy: Policy::DEFAULT,
        ssd_admit: ddabi::pool::SsdAdmit::All,
        admission: Some(AdmissionCounters {
            reads: 10_000,
            curve_error_permille: 15,
            ..AdmissionCounters::default()
        }),
        curve: Some(curve.iter().map(point).collect()),
        stats: Some(PoolStats {
            entitlement,
            used: entitlement,
            ..PoolStats::default()
        }),
    }
}

fn of_guest(pools: &[Pool]) -> AdviceReport {
    let status = FakeGuest::default().status().unwrap();
    guest(&status, pools)
}

/// One container has hits only with nearly all pages, and the other one needs few pages.
#[test]
fn weights_follow_from_curves() {
    let small = container(1, 5_000, &[(500, 8_000)]);
    let large = container(2, 5_000, &[(8_000, 9_000)]);
    let report = of_guest(&[small, large]);
    let commands = commands(&report);
    let weight = |name: &str| -> u32 {
        let line = commands.iter().find(|line| line.contains(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(weight("c2") >= 800 && weight("c1") >= 50, "{commands:?}");
    assert!(report.advice[0].finding.contains("40 %"), "{report:?}");
    assert!(report.advice[0].effect.contains("85 %"), "{report:?}");
}

#[test]
fn good_weights_stay() {
    let report = of_guest(&[
        container(1, 5_000, &[(5_000, 8_000)]),
        container(2, 5_000, &[(5_000, 9_000)]),
    ]);
    assert!(report.advice.is_empty(), "{report:?}");
}

#[test]
fn a_larger_share_is_left_to_the_host() {
    let report = of_guest(&[container(1, 5_000, &[(5_000, 2_000), (9_000, 9_000)])]);
    assert_eq!(report.advice.len(), 1, "{report:?}");
    assert!(report.advice[0].commands.is_empty(), "{report:?}");
    assert!(
        report.advice[0]
            .effect
            .contains("90 % of the reads instead of 20 %")
    );
}

#[test]
fn a_container_without_possible_hits_need_not_store() {
    let report = of_guest(&[container(1, 5_000, &[(5_000, 10)])]);
    assert_eq!(commands(&report), ["ddctl container set-store c1 none"]);
}

#[test]
fn without_a_curve_nothing_is_promised() {
    let mut pool = container(1, 5_000, &[]);
    let report = of_guest(std::slice::from_ref(&pool));
    assert!(
        report.advice.is_empty() && report.unknown.len() == 1,
        "{report:?}"
    );
    pool.policy = Policy::Fifo;
    pool.stats = Some(PoolStats {
        puts: 50_000,
        gets: 5_000,
        ..PoolStats::default()
    });
    let report = of_guest(&[pool]);
    assert_eq!(
        commands(&report),
        ["ddctl container set-policy c1 adaptive"]
    );
}

#[test]
fn refusals_are_reported_by_reason() {
    let refused = PoolStats {
        puts: 10_000,
        put_refused_memory: 2_000,
        put_refused_absent: 3_000,
        used: 10_000,
        ..PoolStats::default()
    };
    let report = of_host(100_000, 60_000, &[vm(1, refused)]);
    let findings: Vec<&str> = report
        .advice
        .iter()
        .map(|one| one.finding.as_str())
        .collect();
    assert!(findings[0].contains("no memory for 13 %"), "{findings:?}");
    assert!(findings[1].contains("20 %"), "{findings:?}");
}

/// What the host can spare at one moment may be nothing.
#[test]
fn a_shortage_does_not_set_the_capacity() {
    let mut status = FakeHost::default().status().unwrap();
    (status.capacity, status.limit) = (262_144, 300);
    let report = host(&HostView {
        status: &status,
        vms: &[],
        devices: &[],
    });
    assert!(
        report.advice[0].finding.contains("short of memory now"),
        "{report:?}"
    );
    assert!(commands(&report).is_empty(), "{report:?}");
}

/// A suspected device recovers by itself; only one that has failed is taken out.
#[test]
fn only_failed_devices_are_removed() {
    let status = FakeHost::default().status().unwrap();
    let device = |id, state| Device {
        id,
        path: format!("/dev/sd{id}"),
        state,
        stats: SsdStats::default(),
    };
    let devices = [
        device(0, DeviceState::Active),
        device(1, DeviceState::Suspect),
        device(2, DeviceState::Failed),
        device(3, DeviceState::Leaving),
    ];
    let report = host(&HostView {
        status: &status,
        vms: &[],
        devices: &devices,
    });
    let of_devices = report
        .advice
        .iter()
        .filter(|one| one.finding.contains("/dev/sd"));
    assert_eq!(of_devices.count(), 2, "{report:?}");
    assert_eq!(
        commands(&report),
        ["ddctl ssd remove /dev/sd2"],
        "{report:?}"
    );
}
