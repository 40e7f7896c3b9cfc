// SPDX-License-Identifier: GPL-2.0-only

//! Hostile guests and VMMs: memory that never arrives, that belongs to a device, or that is in
//! swap; calls of ended sessions; hundreds of VMs. The host waits for none of them, and limits
//! their number.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use ddlab::{Command, Context, Machine, Running, Scenario, Target, wait};
use serde_json::Value;

use crate::{
    ddctl,
    stage::{HOST, Stage, refuses},
};

/// Tests one kind after the other.
pub(crate) const CALLS: Scenario = Scenario {
    name: "calls",
    about: "calls never wait for guest memory, stale calls change nothing, and VMs are limited",
    quick: true,
    run,
};

/// Capacity of the tier.
const CAPACITY_MIB: u64 = 24;
/// Maximum time of a call that does not wait, which is much less than that of one that waits.
const PROMPT: Duration = Duration::from_secs(10);
/// Number of VMs that try to register, and maximum number of registered ones.
const CROWD: u32 = 240;
const LIMIT: u32 = 200;
/// Swap of the host, in MiB.
const SWAP_MIB: u64 = 64;
/// Minimum kernel memory of a session in bytes: its table of pools and its queue of notices.
const SESSION: u64 = 64 << 10;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let lab = context.lab()?;
    let stage = Stage { lab };
    let host = stage.host();
    refuses(host, "default_weight=10001", "default_weight=10001")?;
    stage.load_host(CAPACITY_MIB)?;
    let sessions = sessions(host).context("calls of sessions that are over");
    let orphan = orphan(host).context("a VM whose VMM is gone");
    let device = device(host).context("frames of a device");
    let swapped = swapped(&stage).context("frames in swap");
    let absent = absent(&stage).context("frames that never come");
    if host.has_module(HOST)? {
        host.unload_module(HOST)?;
    }
    let crowd = crowd(&stage).context("many VMs");
    // All errors are reported, not only the first.
    let errors: Vec<String> = [
        sessions.err(),
        orphan.err(),
        device.err(),
        swapped.as_ref().err().map(|error| anyhow!("{error:#}")),
        absent.as_ref().err().map(|error| anyhow!("{error:#}")),
        crowd.err(),
    ]
    .into_iter()
    .flatten()
    .map(|error| format!("{error:#}"))
    .collect();
    ensure!(errors.is_empty(), "{}", errors.join("; "));
    let (swapped, unloading) = (swapped?, absent?);
    Ok(vec![
        swapped,
        Target::at_most(
            "calls: time to unload the module while frames never arrive",
            host.at_its_pace(5.0),
            unloading.as_secs_f64(),
            "s",
        ),
    ])
}

/// Starts mini VMs. Returns them with their first output.
fn mini(host: &Machine, part: &str, cgroup: Option<&str>) -> Result<(Running, Value)> {
    let words = "ddhelper mini".split(' ').chain(part.split(' '));
    let mut command = Command::new(words);
    if let Some(cgroup) = cgroup {
        command = command.cgroup(cgroup);
    }
    let mut running = host.spawn(&command)?;
    let start = Instant::now();
    let limit = Duration::from_secs_f64(host.at_its_pace(PROMPT.as_secs_f64()));
    let said = wait::until(part, || {
        let output = running.output()?;
        if let Some(line) = output.lines().find(|line| line.starts_with('{')) {
            return Ok(Some(serde_json::from_str(line)?));
        }
        let ended = running.poll()?;
        ensure!(ended.is_none(), "mini VMs ended: {ended:?} {output}");
        // A large number of VMs takes some time before the first call.
        let late = cgroup.is_none() && start.elapsed() > limit;
        ensure!(!late, "mini VMs wait for ever: {part}");
        Ok(None)
    })?;
    Ok((running, said))
}

/// Returns the output of a helper that ends by itself.
fn mini_once(host: &Machine, part: &str) -> Result<Value> {
    let (mut running, said) = mini(host, part, None)?;
    let exit = running.wait()?;
    ensure!(exit.success(), "{part}: {exit} {}", running.output()?);
    Ok(said)
}

fn sessions(host: &Machine) -> Result<()> {
    let said = mini_once(host, "sessions")?;
    ensure!(
        said["straggler"] == "Stale" && said["current"] == "Ok",
        "a call of an older session ended the current one: {said}"
    );
    ensure!(
        said["rolled_back"] == "Stale" && said["after"] == "Stale",
        "a session continues after a rollback: {said}"
    );
    Ok(())
}

/// A process that gets the process id of a VMM that has ended does not get the name of its VM.
fn orphan(host: &Machine) -> Result<()> {
    let said = mini_once(host, "orphan")?;
    let vms = ddctl::vms(host)?;
    let orphaned = vms.iter().all(|vm| vm.pid.is_none() && vm.name.is_none());
    ensure!(vms.len() == 1 && orphaned, "{vms:#?}");
    host.exec_ok(["kill", &said["heir"].to_string()])?;
    wait::until(
        "the VM is forgotten after the process that held it ended",
        || Ok(ddctl::vms(host)?.is_empty().then_some(())),
    )
}

fn device(host: &Machine) -> Result<()> {
    let said = mini_once(host, "device")?;
    ensure!(said["own"] == true, "{said}");
    ensure!(
        said["put"] == false && said["get"] == false,
        "the host accessed memory of a device: {said}"
    );
    Ok(())
}

/// Pages that are in swap are not stored, and a read from swap is left to their guest.
fn swapped(stage: &Stage<'_>) -> Result<Target> {
    let said = stage.with_swap(SWAP_MIB, || mini_once(stage.host(), "swapped"))?;
    eprintln!("    swapped: {said}");
    ensure!(said["resident"]["done"] == true, "{said}");
    ensure!(
        said["swapped"]["done"] == false,
        "pages in swap were read for a put: {said}"
    );
    let us = |what: &str| said[what]["us"].as_f64().context("a time");
    Ok(Target::at_most(
        "calls: duration of a put of pages in swap, relative to pages in memory",
        2.0,
        us("swapped")? / us("resident")?,
        "",
    ))
}

/// Frames never arrive, and the module can be unloaded nevertheless.
fn absent(stage: &Stage<'_>) -> Result<Duration> {
    let host = stage.host();
    let (attacker, said) = mini(host, "absent", None)?;
    ensure!(said["own"]["done"] == true, "{said}");
    ensure!(said["put"]["done"] == false, "{said}");
    ensure!(said["get"]["done"] == false, "{said}");
    ensure!(
        said["again"]["done"] == false,
        "pages are still stored although a get of them failed: {said}"
    );
    let vms = ddctl::vms(host)?;
    let stats = vms.first().context("the attacker is not registered")?.stats;
    ensure!(
        stats.put_refused_absent > 0 && stats.put_refused_fault == 0,
        "{stats:?}"
    );
    // Another VM is served as usual in the meantime.
    let said = mini_once(host, "sessions")?;
    ensure!(said["current"] == "Ok", "{said}");
    // The attacker continues to make calls.
    let start = Instant::now();
    host.unload_module(HOST)?;
    let took = start.elapsed();
    attacker.kill(9)?;
    Ok(took)
}

/// Starts more VMs than may register, in a host where new VMs have a weight, then in one where they
/// have none.
fn crowd(stage: &Stage<'_>) -> Result<()> {
    let host = stage.host();
    let capacity = format!("capacity_mib={CAPACITY_MIB}");
    host.cgroup("crowd", &[])?;
    host.load_module(HOST, &[&capacity, &format!("max_vms={LIMIT}")])?;
    let shown = host.read_text(&format!("/sys/module/{HOST}/parameters/max_vms"))?;
    ensure!(shown.trim() == LIMIT.to_string(), "sysfs shows {shown}");
    let (running, said) = mini(host, &format!("crowd {CROWD}"), Some("crowd"))?;
    ensure!(
        said["statuses"]["Ok"] == LIMIT && said["statuses"]["Denied"] == CROWD - LIMIT,
        "{LIMIT} VMs may register: {said}"
    );
    ensure!(said["stored"] == LIMIT, "{said}");
    let charged = said["charged"].as_u64().context("bytes")?;
    ensure!(
        charged >= u64::from(LIMIT) * SESSION,
        "the cgroup of {LIMIT} VMs is charged {charged} bytes"
    );
    let status = ddctl::host(host)?;
    ensure!(
        status.vms == LIMIT && status.counters.refused_limit == u64::from(CROWD - LIMIT),
        "{status:?}"
    );
    leave(host, running)?;
    host.unload_module(HOST)?;

    host.load_module(HOST, &[&capacity, "default_weight=0"])?;
    host.cgroup("victim", &[])?;
    let (victim, _) = mini(host, "absent", Some("victim"))?;
    let weigh = |vm: u32| ddctl::run(host, &format!("set-weight {vm} 100"));
    weigh(ddctl::vms(host)?.first().context("a victim")?.id)?;
    let entitled = || -> Result<u64> {
        let vms = ddctl::vms(host)?;
        Ok(vms.first().context("the victim")?.entitlement_pages)
    };
    let before = entitled()?;
    let (running, said) = mini(host, &format!("crowd {LIMIT}"), Some("crowd"))?;
    ensure!(
        said["statuses"]["Ok"] == LIMIT && said["stored"] == 0,
        "VMs without weight have pages taken: {said}"
    );
    let after = entitled()?;
    ensure!(
        before == after && after == ddctl::host(host)?.capacity_pages,
        "a crowd without weight took the victim's share: {before} pages became {after}"
    );
    leave(host, running)?;
    victim.kill(9)
}

/// Ends the VMs, and waits until the host has forgotten them.
fn leave(host: &Machine, running: Running) -> Result<()> {
    running.kill(9)?;
    wait::until("the crowd is forgotten", || {
        Ok((ddctl::host(host)?.vms <= 1).then_some(()))
    })
}
