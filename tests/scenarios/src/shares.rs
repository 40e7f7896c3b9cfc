// SPDX-License-Identifier: GPL-2.0

//! Weights: who gets how much of a tier that everybody wants more of, and how
//! soon after somebody changed his mind.

mod curve;

use std::{fs, path::Path};

use anyhow::{Result, ensure};
use ddlab::{
    Accel, Command, Context, FileSpec, Guest, Machine, Running, Scenario, Target, Throttle, wait,
};

use crate::{
    books,
    ddctl::{self, Vm},
    stage::{self, Stage, percent},
};
use curve::{Curve, Peers, Share, deviation};

/// Two containers of one VM, then two VMs; 60:40, then 30:70.
pub(crate) const SHARES: Scenario = Scenario {
    name: "shares",
    about: "shares follow the weights of containers and of VMs; what is idle is lent",
    quick: false,
    run,
};

/// Capacity of the tier.
const CAPACITY_MIB: u64 = 48;
/// What each reader wants: more than the whole tier.
const WANTED: u64 = 64 << 20;
/// How far a share may be off, in percent of the entitlement.
const OFF: f64 = 3.0;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let dir = context.output_dir()?;
    let stage = Stage::set(context, CAPACITY_MIB)?;
    // A batch of the default size is a large part of a tier this small.
    ddctl::run(stage.host(), "set-capacity --batch 128K")?;

    let left = guest(&stage, "left", &["a", "b"])?;
    ddctl::run(&left, "container set-weight default 0")?;
    stage::container(&left, "a", "12M", 60)?;
    stage::container(&left, "b", "12M", 40)?;
    greedy(&left, &["a", "b"])?;
    let mut targets = Vec::new();
    let _a = read_for_ever(&left, "a")?;
    targets.push(lent(stage.host(), "container", |vms| {
        Ok(ddctl::vm(vms, "left")?.container("a")?.used_pages)
    })?);
    let _b = read_for_ever(&left, "b")?;
    targets.extend(follow(&dir, "containers", &stage, containers, || {
        ddctl::run(&left, "set-weight a 30")?;
        ddctl::run(&left, "set-weight b 70").map(drop)
    })?);

    let right = guest(&stage, "right", &["c"])?;
    right.cgroup("c", &[("memory.max", "12M")])?;
    greedy(&right, &["default"])?;
    ddctl::run(stage.host(), "set-weight left 60")?;
    ddctl::run(stage.host(), "set-weight right 40")?;
    targets.push(lent(stage.host(), "VM", |vms| {
        Ok(ddctl::vm(vms, "left")?.used_pages)
    })?);
    let _c = read_for_ever(&right, "c")?;
    targets.extend(follow(&dir, "VMs", &stage, vms, || {
        ddctl::run(stage.host(), "set-weight left 30")?;
        ddctl::run(stage.host(), "set-weight right 70").map(drop)
    })?);
    drop((_a, _b, _c));
    books::balance(stage.host())?;
    Ok(targets)
}

/// Has containers want all they can get: others leave room whenever that serves them better.
fn greedy(guest: &Guest, containers: &[&str]) -> Result<()> {
    containers.iter().try_for_each(|name| {
        ddctl::run(guest, &format!("container set-policy {name} fifo")).map(drop)
    })
}

/// A guest with a large file for each reader.
fn guest(stage: &Stage<'_>, name: &str, readers: &[&str]) -> Result<Guest> {
    let files = (1..).zip(readers);
    let files = files.map(|(seed, reader)| FileSpec::new(*reader, WANTED, seed));
    let disk = stage.disk(name, files.collect())?;
    stage.guest_with(name, &disk, Throttle::NONE)
}

/// Reads a file again and again, in the cgroup of its name.
fn read_for_ever(guest: &Guest, name: &str) -> Result<Running> {
    let read = format!("while :; do cat /mnt/{name} > /dev/null; done");
    guest.spawn(&Command::shell(read).cgroup(name))
}

/// A busy peer uses what an idle one does not.
fn lent(host: &Machine, who: &str, used: fn(&[Vm]) -> Result<u64>) -> Result<Target> {
    let capacity = ddctl::host(host)?.capacity_pages;
    let used = wait::until("the tier is full", || {
        let full = ddctl::host(host)?.used_pages * 100 >= capacity * 98;
        full.then(|| used(&ddctl::vms(host)?)).transpose()
    })?;
    Ok(Target::at_least(
        format!("shares: what a busy {who} uses of the tier beside an idle one"),
        95.0,
        percent(used, capacity),
        "%",
    ))
}

/// Under contention the shares are those of the weights, and after a change
/// soon those of the new ones.
fn follow(
    dir: &Path,
    who: &str,
    stage: &Stage<'_>,
    peers: Peers,
    change: impl FnOnce() -> Result<()>,
) -> Result<Vec<Target>> {
    let host = stage.host();
    // How many pages an emulator moves in a second is its machine's affair, not ours.
    let soon = match stage.lab.config().accel {
        Accel::Tcg => 6.0,
        _ => 2.0,
    };
    entitled(who, &peers(&ddctl::vms(host)?)?, [60, 40])?;
    wait::until(&format!("the {who} have their shares"), || {
        let off = deviation(&peers(&ddctl::vms(host)?)?);
        Ok((off <= OFF).then_some(()))
    })?;
    let [look, long, soon] = [2.0, 6.0, soon].map(|seconds| host.at_its_pace(seconds));
    let before = Curve::record(host, peers, look, || Ok(()))?;
    let after = Curve::record(host, peers, long, change)?;
    entitled(who, &peers(&ddctl::vms(host)?)?, [30, 70])?;
    let curves = before.table() + "changed\n" + &after.table();
    fs::write(dir.join(format!("{who}.curve")), curves)?;
    let settled = after.seconds_to_settle(OFF);
    let off = |weights: &str, curve: &Curve| {
        Target::at_most(
            format!("shares: {who} {weights}, off their entitlement"),
            OFF,
            deviation(&curve.mean(look)),
            "%",
        )
    };
    Ok(vec![
        off("60:40", &before),
        off("30:70", &after),
        Target::at_most(
            format!("shares: {who}, from the change to the new shares"),
            soon,
            settled.unwrap_or(f64::INFINITY),
            "s",
        ),
    ])
}

/// Weights are what was asked for, and entitlements are as they are, to the page.
fn entitled(who: &str, shares: &[Share], weights: [u32; 2]) -> Result<()> {
    let sum: u64 = weights.map(u64::from).iter().sum();
    let pages: u64 = shares.iter().map(|share| share.entitlement).sum();
    let fair = |(share, weight): (&Share, u32)| {
        let exact = pages * u64::from(weight) / sum;
        share.weight == weight && share.entitlement.abs_diff(exact) <= 1
    };
    ensure!(
        pages > 0 && shares.iter().zip(weights).all(fair),
        "of the {who} with weights {weights:?} these are entitled to something else: {shares:?}"
    );
    Ok(())
}

/// The containers of the first VM.
fn containers(vms: &[Vm]) -> Result<Vec<Share>> {
    let vm = ddctl::vm(vms, "left")?;
    let share = |name| {
        let container = vm.container(name)?;
        Ok(Share {
            weight: container.weight,
            entitlement: container.entitlement_pages,
            used: container.used_pages,
        })
    };
    ["a", "b"].into_iter().map(share).collect()
}

/// Both VMs.
fn vms(vms: &[Vm]) -> Result<Vec<Share>> {
    let share = |name| {
        let vm = ddctl::vm(vms, name)?;
        Ok(Share {
            weight: vm.weight,
            entitlement: vm.entitlement_pages,
            used: vm.used_pages,
        })
    };
    ["left", "right"].into_iter().map(share).collect()
}
