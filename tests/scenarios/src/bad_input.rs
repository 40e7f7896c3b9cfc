// SPDX-License-Identifier: GPL-2.0-only

//! Impossible requests are refused with a message and an exit code of their own, and change
//! nothing.

use anyhow::{Result, ensure};
use ddlab::{Context, Guest, Machine, Scenario, Target, wait};

use crate::{
    ddctl,
    hostile::fuzzer::{self, Fuzzer, NUMBERS},
    stage::{self, GUEST, HOST, Stage},
};

/// Tries wrong arguments, users, machines and moments.
pub(crate) const BAD_INPUT: Scenario = Scenario {
    name: "bad-input",
    about: "impossible requests are refused with a clear message, and change nothing",
    quick: true,
    run,
};

/// Exit codes of `ddctl`.
mod code {
    pub(super) const USAGE: i32 = 2;
    pub(super) const NO_MODULE: i32 = 3;
    pub(super) const PERMISSION: i32 = 4;
    pub(super) const NOT_FOUND: i32 = 5;
    pub(super) const REFUSED: i32 = 7;
}

/// A command, its exit code, and a word of its message.
type Case = (&'static str, i32, &'static str);

const WITHOUT_MODULE: [Case; 4] = [
    ("ddctl status", code::NO_MODULE, "doctor"),
    ("ddctl stats", code::NO_MODULE, "doctor"),
    ("ddctl set-capacity 64M", code::NO_MODULE, "modprobe"),
    ("ddctl container add /", code::NO_MODULE, "modprobe"),
];

const AT_HOST: [Case; 13] = [
    ("ddctl set-weight one 10001", code::USAGE, "10000"),
    ("ddctl set-weight one -1", code::USAGE, "-1"),
    ("ddctl set-weight one/a 10", code::USAGE, "in VM one"),
    ("ddctl set-weight nobody 10", code::NOT_FOUND, "one"),
    ("ddctl stats one/nobody", code::NOT_FOUND, "nobody"),
    ("ddctl flush nobody", code::NOT_FOUND, "nobody"),
    ("ddctl flush", code::USAGE, "VM[/CONTAINER]"),
    ("ddctl set-capacity 64", code::USAGE, "unit"),
    ("ddctl set-capacity 100T", code::USAGE, "memory"),
    ("ddctl set-capacity 64M --floor 65M", code::USAGE, "floor"),
    ("ddctl set-capacity --batch 1G", code::REFUSED, "batch"),
    ("ddctl mode lru", code::USAGE, "fifo"),
    (UNPRIVILEGED, code::PERMISSION, "CAP_NET_ADMIN"),
];

const IN_GUEST: [Case; 9] = [
    ("ddctl container add nowhere", code::NOT_FOUND, "cgroup"),
    ("ddctl container add a", code::REFUSED, "already"),
    ("ddctl container add a --weight 10001", code::USAGE, "10000"),
    ("ddctl container add a --store tape", code::USAGE, "tape"),
    ("ddctl container remove default", code::REFUSED, "default"),
    ("ddctl container remove b", code::NOT_FOUND, "there are"),
    ("ddctl container set-weight a 10001", code::USAGE, "10000"),
    ("ddctl set-weight b 10", code::NOT_FOUND, "there are"),
    (UNPRIVILEGED, code::PERMISSION, "CAP_NET_ADMIN"),
];

const UNPRIVILEGED: &str =
    "setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all ddctl status";

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let lab = context.lab()?;
    let stage = Stage { lab };
    let host = lab.host();
    refused(host, &WITHOUT_MODULE)?;
    let guest = lab.start_guest(&fuzzer::guest("one"))?;
    refused(&guest, &WITHOUT_MODULE)?;
    wrong_machine(host, &guest)?;
    // A capacity above the machine's memory is refused.
    stage::refuses(host, "capacity_mib=999999", "above the memory")?;

    stage.load_host(64)?;
    ensure!(stage.load_host(64).is_err(), "the module was loaded twice");
    stage::attach(&guest)?;
    stage::container(&guest, "a", "8M", 100)?;
    let before = state(host, &guest)?;
    refused(host, &AT_HOST)?;
    refused(&guest, &IN_GUEST)?;
    let after = state(host, &guest)?;
    ensure!(before == after, "{before:?} became {after:?}");
    user_mode(host, &guest)?;
    wrong_moment(&stage, &guest)?;
    wrong_session(&guest)?;
    Ok(Vec::new())
}

fn refused(machine: &Machine, cases: &[Case]) -> Result<()> {
    for (command, code, word) in cases {
        let output = machine.exec(command.split(' '))?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.exit.code == Some(*code) && words.contains(word),
            "{}: {command} ended with {:?} instead of {code} and {word:?}: {words}",
            machine.name(),
            output.exit,
        );
    }
    Ok(())
}

/// Returns all state that may not change.
fn state(host: &Machine, guest: &Machine) -> Result<impl PartialEq + std::fmt::Debug> {
    let tier = ddctl::host(host)?;
    let vms = ddctl::vms(host)?;
    let weights: Vec<(u32, u32)> = vms.iter().map(|vm| (vm.id, vm.weight)).collect();
    let containers = ddctl::containers(guest)?;
    let containers: Vec<_> = containers
        .into_iter()
        .map(|one| (one.id, one.name, one.weight))
        .collect();
    Ok((
        tier.capacity_pages,
        tier.floor_pages,
        tier.batch_pages,
        tier.mode,
        weights,
        containers,
    ))
}

/// Each module refuses the machine that the other one is for.
fn wrong_machine(host: &Machine, guest: &Machine) -> Result<()> {
    ensure!(
        guest.load_module(HOST, &[]).is_err() && !guest.has_module(HOST)?,
        "the host module was loaded where there is no KVM"
    );
    if host.load_module(GUEST, &[]).is_ok() {
        // L1 is a KVM guest itself, whose host does not have the module.
        ensure!(ddctl::guest(host)?.state == "alone");
        return host.unload_module(GUEST);
    }
    let log = host.exec_ok(["dmesg"])?;
    ensure!(
        log.contains("not running under KVM"),
        "the log does not have the reason:\n{log}"
    );
    Ok(())
}

/// A program in the guest makes the module's hypercall, and an unknown one.
fn user_mode(host: &Machine, guest: &Machine) -> Result<()> {
    let before = ddctl::host(host)?.counters;
    for number in ["1684275201", "1684275202"] {
        let answer = guest.exec_ok(["ddhelper", "vmcall", number])?;
        let answer: i64 = answer.trim().parse()?;
        ensure!(answer < 0, "hypercall {number} returned {answer}");
    }
    let counted = ddctl::host(host)?.counters - before;
    ensure!(counted.refused_user == 1, "{counted:?}");
    Ok(())
}

/// Modules are unloaded while they are in use.
fn wrong_moment(stage: &Stage<'_>, guest: &Guest) -> Result<()> {
    stage.host().unload_module(HOST)?;
    stage::alone(guest)?;
    // Containers are kept for the next host.
    ddctl::run(guest, "set-weight a 30")?;
    stage.load_host(64)?;
    stage::attached(guest)?;
    let vms = ddctl::vms(stage.host())?;
    let weight = ddctl::vm(&vms, "one")?.container("a")?.weight;
    ensure!(
        weight == 30,
        "the container has weight {weight} at the new host"
    );
    guest.unload_module(GUEST)?;
    wait::until("the host has dropped the guest's pages", || {
        Ok((ddctl::host(stage.host())?.used_pages == 0).then_some(()))
    })
}

/// A kernel uses sessions that never existed, and numbers that are too high, too low or repeated.
fn wrong_session(guest: &Guest) -> Result<()> {
    let fuzzer = Fuzzer::start(guest, NUMBERS, 5)?;
    fuzzer.sends()?;
    let tally = fuzzer.tally()?;
    fuzzer.stop()?;
    ensure!(
        tally.let_in == 0 && tally.stale > 0 && tally.ok > 0 && tally.unknown == 0,
        "{tally:?}"
    );
    Ok(())
}
