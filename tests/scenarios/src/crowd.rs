// SPDX-License-Identifier: GPL-2.0-only

//! 200 VMs share a tier: idle VMs keep their entitlement, busy ones get equal amounts, and a host
//! that is short of memory takes pages from each in proportion.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use ddlab::{Context, Machine, Scenario, Target, wait};

use crate::{
    accounting, ddctl,
    share::Share,
    stage::{Stage, ratio},
};

/// Runs mini VMs in a host with a tier of which each is entitled to half a megabyte.
pub(crate) const CROWD: Scenario = Scenario {
    name: "crowd",
    about: "200 VMs share a tier: idle ones keep pages, and reclaim takes from all in proportion",
    quick: false,
    run,
};

const VMS: u32 = 200;
/// Capacity of the tier. Each VM is entitled to 122 pages.
const CAPACITY_MIB: u64 = 96;
const CAPACITY: u64 = CAPACITY_MIB << 8;
/// Number of pages that each VM puts at first, and again later.
const PAGES: u64 = 96;
/// Pages that one VM puts alone.
const STREAM: u64 = CAPACITY;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let stage = Stage::set(context, CAPACITY_MIB)?;
    let host = stage.host();
    // A batch is a quarter of an entitlement. On a host of the usual size it is less than that.
    ddctl::run(host, "set-capacity --floor 48M --batch 128K")?;
    let mut crowd = Share::start(host, (VMS, PAGES, STREAM), None)?;
    let idle = used(host)?;
    crowd.go_on("streamed")?;
    let beside_stream = used(host)?;
    let lost = |(before, after): (&u64, &u64)| before.saturating_sub(*after);
    let most_lost = idle.iter().zip(&beside_stream).skip(1).map(lost).max();
    let full = ddctl::host(host)?.used_pages;
    ensure!(
        full >= CAPACITY - CAPACITY / 32,
        "{full} pages beside a stream of {STREAM}"
    );

    crowd.go_on("busy")?;
    let busy = used(host)?;
    // This makes the kernel ask for as much as it can, down to the floor.
    host.write_file("/proc/sys/vm/drop_caches", "2")?;
    let short = used(host)?;
    let taken = busy.iter().zip(&short).map(lost).min();
    ensure!(
        taken.is_some_and(|pages| pages > 0),
        "a VM lost no page: {busy:?} {short:?}"
    );

    let asked = crowd.go_on("asked")?;
    ensure!(asked["wrong"] == 0, "VMs got wrong pages: {asked}");
    let hits = asked["hits"].as_u64().context("hits")?;
    accounting::check(host)?;

    // The kernel takes seconds to end 200 VMs.
    crowd.end()?;
    let start = Instant::now();
    wait::until("the VMs are forgotten", || {
        let status = ddctl::host(host)?;
        Ok((status.vms == 0 && status.used_pages == 0).then_some(()))
    })?;
    let ended = start.elapsed();
    Ok(vec![
        Target::none(
            "crowd: pages that an idle VM lost to a streaming VM",
            most_lost.context("idle VMs")?,
        ),
        Target::at_most(
            "crowd: pages of the largest busy VM, relative to the smallest",
            2.0,
            spread(&busy),
            "",
        ),
        Target::at_most(
            // The amount depends on the pages that a VM has at that moment, which differ by a
            // batch.
            "crowd: pages left to VMs by a host short of memory, largest relative to smallest",
            // It was 1.05 in three runs.
            1.2,
            spread(&short),
            "",
        ),
        Target::at_least(
            "crowd: pages that VMs read back afterwards, all content right",
            // The bound is the floor, less the pages that a last batch took beyond it.
            (CAPACITY / 2) as f64 * 0.95,
            hits as f64,
            "",
        ),
        Target::at_most(
            "crowd: time until 200 VMs that have ended are forgotten",
            // It was at most 0.04 s; the machines of tests differ by a factor of three.
            host.at_its_pace(0.3),
            ended.as_secs_f64(),
            "s",
        ),
    ])
}

/// Returns the number of pages of each VM, in the order of registration.
fn used(host: &Machine) -> Result<Vec<u64>> {
    let mut vms = ddctl::vms(host)?;
    ensure!(vms.len() == VMS as usize, "{} VMs", vms.len());
    vms.sort_by_key(|vm| vm.id);
    Ok(vms.iter().map(|vm| vm.used_pages).collect())
}

fn spread(pages: &[u64]) -> f64 {
    let most = pages.iter().max().copied().unwrap_or(0);
    let least = pages.iter().min().copied().unwrap_or(0);
    ratio(most, least)
}
