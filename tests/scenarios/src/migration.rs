// SPDX-License-Identifier: GPL-2.0-only

//! A tortured guest moves between two hosts while it runs. The other host does not know it, so that
//! the guest registers there again; the host that it left frees all its pages (invariants 10, 11
//! and 20). ddhostd runs on both hosts with the same file, and gives the guest its weight at each
//! of them (`docs/users/ddhostd.md`).
//!
//! The hosts are two machines, each with its own kernel, modules, daemon and clock. In common they
//! have the disks of the guest and the serial port through which its VMM sends it. There is no
//! libvirt, which would keep a VM's name and uuid: the scenario starts both VMMs with the same
//! ones.

mod weights;

use std::{thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use ddlab::{
    Context, Guest, GuestConfig, Lab, LabConfig, Running, Scenario, Target, Throttle, wait,
};

use crate::{
    accounting, ddctl, ddhostd,
    events::{self, Events},
    stage::{Stage, attached},
    torture::{FEW, Storm},
    vmm::Vmm,
};
use weights::Looks;

/// Runs by name only, because it needs two hosts at the same time.
pub(crate) const MIGRATION: Scenario = Scenario {
    name: "migration",
    about: "a tortured guest is migrated between two hosts, live, and its weight follows",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 24;
/// Number of moves; one in the short form.
const MOVES: usize = 4;
/// Number of reads that must have been compared, less than half of those seen.
const MIN_READS: u64 = 15_000;
/// Maximum time in seconds from the signal that ends the old VMM until its pages are freed. They
/// were free 0.05 s after that VMM's end.
const MAX_S: f64 = 0.5;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let moves = if context.quick() { 1 } else { MOVES };
    let config = LabConfig {
        wired: true,
        ..context.lab_config()
    };
    let dir = context.output_dir()?.join("other");
    let first = context.fresh_lab(config)?;
    let other = first.boot_beside(dir)?;
    let targets = measure([first, &other].map(|lab| Stage { lab }), moves);
    // The first one is the runner's to conclude.
    other.conclude(targets, &[])
}

fn measure(hosts: [Stage<'_>; 2], moves: usize) -> Result<Vec<Target>> {
    let mut daemons: Vec<Running> = Vec::new();
    for host in &hosts {
        host.load_host(CAPACITY_MIB)?;
        daemons.push(weights::daemon(host.host())?);
    }
    let [home, other] = &hosts;
    let mut looks = Looks::default();
    looks.at_stranger(other.host())?;
    let disks = home.blank_disks(FEW.map(|site| site.name()), 512)?;
    let config = weights::guest().vcpus(2).memory_mib(384);
    let config = config.disks(&disks, Throttle::NONE);
    let mut guest = home.guest(&config)?;
    looks.at_guest(home.host())?;
    let mut storm = Storm::start(&guest, &FEW, u64::MAX)?;
    Storm::some_hits(&guest)?;
    let (mut slowest, mut held) = (Duration::ZERO, 0);
    let events = hosts.iter().map(|host| Events::follow(host.host()));
    let events: Vec<Events<'_>> = events.collect::<Result<_>>()?;
    for number in 0..moves {
        let [from, to] = [number, number + 1].map(|number| hosts[number % hosts.len()].lab);
        let left;
        let told = &events[number % hosts.len()];
        weights::set_for_now(from.host())?;
        (guest, left) = migrate((from, told), to, guest, &config, &mut looks)?;
        storm = storm.moved(&guest);
        slowest = slowest.max(left.took);
        held += left.pages;
        Storm::some_hits(&guest).context("after a migration")?;
    }
    drop(events);
    let least = MIN_READS * moves as u64 / MOVES as u64;
    // On a fast machine the guest moves before it has read that much.
    Storm::hits(&guest, 2 * least)?;
    storm.stop(&guest)?;
    let mut targets = Vec::from(storm.verdict("migration", least)?);
    for host in &hosts {
        accounting::check(host.host())?;
    }
    drop(guest);
    daemons.iter_mut().try_for_each(ddhostd::stop)?;
    let freed = Target::at_most(
        "migration: time until a host has freed the pages of a guest that left",
        home.host().at_its_pace(MAX_S),
        slowest.as_secs_f64(),
        "s",
    );
    targets.push(freed.detail(format!("of {moves}")));
    // The files of a storm may be deleted at the moment of a move.
    targets.push(Target::some(
        "migration: pages that hosts held when the guest had left them",
        held,
    ));
    targets.push(looks.target());
    Ok(targets)
}

/// What a guest leaves at a host.
struct Left {
    pages: u64,
    /// How long the host kept them after the signal that ended the VMM there, by its own clock.
    took: Duration,
}

/// Moves the running guest, and waits for its weight at the new host while the old one keeps
/// another.
fn migrate(
    (from, events): (&Lab, &Events<'_>),
    to: &Lab,
    guest: Guest,
    config: &GuestConfig,
    looks: &mut Looks,
) -> Result<(Guest, Left)> {
    let before = ddctl::counters(&guest)?.sessions;
    let number = attached(&guest)?;
    let vmm = Vmm::new(from.host(), &guest);
    let incoming = format!("exec:ddhelper receive {}", to.wire()?);
    let config = config.clone().vmm_arg("-incoming").vmm_arg(incoming);
    let outgoing = format!("exec:cat > {}", from.wire()?);
    let arrived = thread::scope(|scope| {
        // The guest's agent answers once the guest has arrived.
        let arriving = scope.spawn(|| to.start_guest(&config));
        vmm.migrate(&outgoing)?;
        arriving.join().expect("the thread does not panic")
    })?;
    looks.at_guest(to.host()).context("after a migration")?;
    weights::is_for_now(from.host()).context("after a migration")?;
    let pages = ddctl::host(from.host())?.used_pages;
    let signalled = events::clock(from.host())?;
    guest.kill(9)?;
    let took = events.went(number, signalled)?;
    wait::until("the old host has forgotten the VM", || {
        let host = ddctl::host(from.host())?;
        Ok((host.vms == 0 && host.used_pages == 0).then_some(()))
    })?;
    attached(&arrived)?;
    let after = ddctl::counters(&arrived)?.sessions;
    ensure!(after > before, "the guest continued its old session");
    Ok((arrived, Left { pages, took }))
}
