// SPDX-License-Identifier: GPL-2.0-only

//! A host with two NUMA nodes: VMs whose pages are on a node that is short of memory lose pages,
//! and the others do not.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Context, LabConfig, Machine, Scenario, Target};

use crate::{
    accounting, ddctl,
    share::Share,
    stage::{self, Stage, ratio},
};

/// Runs a mini VM on each of two nodes.
pub(crate) const NODES: Scenario = Scenario {
    name: "nodes",
    about: "a NUMA node that is short of memory takes pages of the VMs there, and of no others",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 1024;
/// Number of pages that each VM puts at first, 192 MiB.
const PAGES: u64 = 48 << 10;
/// Number of pages that the first VM puts when its node has no free memory.
const MORE: u64 = 4096;
/// Number of pages that the node with the first VM takes from the tier.
const WANTED: u64 = 8192;
/// Huge pages that are taken from the node at a time, 16 MiB.
const STEP: u64 = 8;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let config = LabConfig {
        nodes: 2,
        ..context.lab_config()
    };
    stage::in_own_lab(context, config, measure)
}

fn measure(stage: &Stage<'_>) -> Result<Vec<Target>> {
    stage.load_host(CAPACITY_MIB)?;
    let host = stage.host();
    let mut vms = Vec::new();
    for node in 0..2 {
        vms.push(start(host, node)?);
    }
    let full = used(host)?;
    ensure!(full == [PAGES; 2], "{full:?} pages");

    // Huge pages of the first node are taken until the tier has given enough.
    let pool = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages";
    let mut huge = free_kib(host, 0)? / 2048;
    let short = loop {
        host.write_file(pool, huge.to_string())?;
        let now = used(host)?;
        if full.iter().sum::<u64>() - now.iter().sum::<u64>() >= WANTED {
            break now;
        }
        let got: u64 = host.read_text(pool)?.trim().parse()?;
        ensure!(
            got + 4 * STEP >= huge,
            "the kernel gave {got} of {huge} huge pages, and the tier lost too little: {now:?}"
        );
        huge += STEP;
    };
    let lost = [full[0] - short[0], full[1] - short[1]];
    eprintln!("    lost by the VM on the short node, and by the other: {lost:?}");

    // The VMM of the first VM may only use this node, and the tier is not full.
    let [first, _] = &mut vms[..] else {
        unreachable!("two VMs were started")
    };
    first.go_on("streamed")?;
    let after = used(host)?;
    eprintln!("    pages before and after a put without memory: {short:?}, {after:?}");
    accounting::check(host)?;
    host.write_file(pool, "0")?;
    for vm in vms {
        vm.end()?;
    }
    Ok(vec![
        Target::at_most(
            "nodes: pages lost per page that the short node gained",
            1.3,
            ratio(lost[0] + lost[1], lost[0]),
            "",
        ),
        // The shrinker has lowered the limit of the tier, so that a batch or two may be evicted by
        // weight until it rises again.
        Target::at_most(
            "nodes: pages of 4096 that a VM lost to puts of a VM that may not use its node",
            1024.0,
            short[1].saturating_sub(after[1]) as f64,
            "",
        ),
    ])
}

/// Starts a VM that may use one node only, and whose pages are there.
fn start(host: &Machine, node: u32) -> Result<Share<'_>> {
    let group = format!("node{node}");
    let bound = node.to_string();
    let set = [("cpuset.cpus", &*bound), ("cpuset.mems", &*bound)];
    host.cgroup(&group, &set)?;
    let before = free_kib(host, node)?;
    let vm = Share::start(host, (1, PAGES, MORE), Some(&group))?;
    let taken = before.saturating_sub(free_kib(host, node)?);
    // Other memory of the node is freed at the same time.
    ensure!(taken >= PAGES * 3, "node {node} gave only {taken} KiB");
    Ok(vm)
}

/// Returns the pages of the VM on each node.
fn used(host: &Machine) -> Result<[u64; 2]> {
    let mut vms = ddctl::vms(host)?;
    vms.sort_by_key(|vm| vm.id);
    let pages: Vec<u64> = vms.iter().map(|vm| vm.used_pages).collect();
    pages.try_into().ok().context("two VMs")
}

/// Returns the free memory of a node.
fn free_kib(host: &Machine, node: u32) -> Result<u64> {
    let text = host.read_text(&format!("/sys/devices/system/node/node{node}/meminfo"))?;
    let line = text.lines().find(|line| line.contains("MemFree:"));
    let amount = line.and_then(|line| line.split_whitespace().nth(3));
    amount.context("MemFree")?.parse().context("MemFree")
}
