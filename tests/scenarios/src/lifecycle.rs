// SPDX-License-Identifier: GPL-2.0-only

//! A guest is paused, restored from a snapshot, moved to another VMM and hibernated, and its
//! modules and its host module are reloaded, during a torture. No old page may be read (invariants
//! 10 to 13).

use anyhow::{Context as _, Result, ensure};
use ddhelper::FREEZING;
use ddlab::{Command, Context, Guest, GuestConfig, Machine, Scenario, Target, wait};
use serde_json::json;

use crate::{
    accounting, ddctl,
    stage::{self, GUEST, HOST, Stage, attached},
    torture::{FEW, Storm, add_containers},
    vmm::{self, Vmm},
};

/// Repeats each event twice, except migration and hibernation.
pub(crate) const LIFECYCLE: Scenario = Scenario {
    name: "lifecycle",
    about: "a tortured guest is paused, rolled back, migrated, hibernates; modules are reloaded",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 24;
/// Number of rounds before the guest moves; one in the short form.
const ROUNDS: u32 = 2;
/// Number of reads that must have been compared, a third of the smallest number seen.
const MIN_READS: u64 = 20_000;

/// The disk for the guest's memory during hibernation.
const SWAP: &str = "swap";

fn disks() -> [&'static str; 3] {
    let [one, other] = FEW.map(|site| site.name());
    [one, other, SWAP]
}

/// Returns the path in L1 of the image of a disk, which also contains snapshots.
fn image(disk: &str) -> String {
    format!("/run/dd/{disk}.qcow2")
}

fn config(host: &Machine, name: &str) -> GuestConfig {
    // Half of the memory must hold the hibernation image, in which kernels with checks have much
    // data.
    let memory_mib = if host.checks_itself() { 1024 } else { 384 };
    let mut config = GuestConfig::new(name).vcpus(2).memory_mib(memory_mib);
    for name in disks() {
        let file = image(name);
        config = config
            .vmm_arg("-blockdev")
            .vmm_arg(format!(
                "driver=qcow2,node-name={name},discard=unmap,file.driver=file,\
                 file.locking=off,file.filename={file}"
            ))
            .vmm_arg("-device")
            .vmm_arg(format!("virtio-blk-pci,drive={name},serial={name}"));
    }
    config
}

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let rounds = if context.quick() { 1 } else { ROUNDS };
    let stage = Stage::set(context, CAPACITY_MIB)?;
    for disk in disks() {
        vmm::make_image(stage.host(), &image(disk), 384 << 20)?;
    }
    let guest = stage.guest(&config(stage.host(), "one"))?;
    let storm = Storm::start(&guest, &FEW, u64::MAX)?;
    let vmm = Vmm::new(stage.host(), &guest);
    for round in 1..=rounds {
        Storm::some_hits(&guest)?;
        vmm.ask(&json!({"execute": "stop"}))?;
        vmm.ask(&json!({"execute": "cont"}))?;

        Storm::some_hits(&guest).context("after a pause")?;
        roll_back(&vmm, &guest, round).context("the guest is rolled back")?;

        Storm::some_hits(&guest).context("after a rollback")?;
        guest.unload_module(GUEST)?;
        stage::attach(&guest)?;
        add_containers(&guest)?;

        Storm::some_hits(&guest).context("after the guest module was reloaded")?;
        stage.host().unload_module(HOST)?;
        stage.load_host(CAPACITY_MIB)?;
        attached(&guest)?;
    }
    Storm::some_hits(&guest).context("after the host module was reloaded")?;
    let moved = migrate(&stage, &vmm).context("the guest is migrated")?;
    drop(guest);
    attached(&moved)?;
    Storm::some_hits(&moved).context("after a migration")?;
    let awake = hibernate(&stage, moved).context("the guest hibernates")?;
    Storm::some_hits(&awake).context("after hibernation")?;

    let storm = storm.moved(&awake);
    storm.stop(&awake)?;
    let least = MIN_READS * u64::from(rounds) / u64::from(ROUNDS);
    let targets = storm.verdict("lifecycle", least)?;
    accounting::check(stage.host())?;
    Ok(targets.into())
}

/// Restores guest and disks to their state of some hundred pages ago. The guest must detect that
/// its session has ended.
fn roll_back(vmm: &Vmm<'_>, guest: &Guest, round: u32) -> Result<()> {
    let devices = FEW.map(|site| site.name());
    let arguments = json!({
        "tag": format!("round-{round}"), "vmstate": devices[0], "devices": devices
    });
    vmm.job("snapshot-save", &arguments)?;
    let before = ddctl::counters(guest)?.stale;
    Storm::some_hits(guest)?;
    vmm.job("snapshot-load", &arguments)?;
    wait::until("the guest noticed", || {
        Ok((ddctl::counters(guest)?.stale > before).then_some(()))
    })?;
    attached(guest).map(drop)
}

/// Moves the running guest to another VMM.
fn migrate(stage: &Stage<'_>, vmm: &Vmm<'_>) -> Result<Guest> {
    let socket = "/run/dd/migration";
    let config = config(stage.host(), "two")
        .vmm_arg("-incoming")
        .vmm_arg(format!("unix:{socket}"));
    std::thread::scope(|scope| {
        // The guest's agent answers once the guest has arrived.
        let arriving = scope.spawn(|| stage.lab.start_guest(&config));
        wait::until("the other VMM listens", || {
            let there = stage.host().exec(["test", "-S", socket])?;
            Ok(there.exit.success().then_some(()))
        })?;
        vmm.migrate(&format!("unix:{socket}"))?;
        arriving.join().expect("the thread does not panic")
    })
}

/// Makes the guest write its memory to a disk and switch itself off, and resumes it. It must have
/// ended its session before (invariant 13): it wakes up without a session, and its calls are never
/// answered *Stale*.
fn hibernate(stage: &Stage<'_>, mut guest: Guest) -> Result<Guest> {
    let before = ddctl::counters(&guest)?.stale;
    let swap = format!("/dev/dd/{SWAP}");
    guest.exec_ok(["mkswap", &swap])?;
    guest.exec_ok(["swapon", &swap])?;
    // The image is made as small as possible, because it must fit into the remaining memory. The
    // kernel may give up nevertheless if memory is short at that moment.
    let sleep = format!(
        "echo shutdown > /sys/power/disk
        echo 0 > /sys/power/image_size
        until flock {FREEZING} sh -c 'echo disk > /sys/power/state'; do sleep 0.2; done"
    );
    let _falling_asleep = guest.spawn(&Command::shell(sleep))?;
    guest.wait()?;
    let config = config(stage.host(), "three").kernel_arg(format!("dd.resume={SWAP}"));
    let awake = stage.lab.start_guest(&config)?;
    attached(&awake)?;
    let stale = ddctl::counters(&awake)?.stale;
    ensure!(stale == before, "it slept with a session");
    Ok(awake)
}
