// SPDX-License-Identifier: GPL-2.0-only

//! Time for which KVM keeps a vCPU for a hypercall, with the memory of its VM in place and in swap.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Machine, Target};

use super::{LARGE, Site};
use crate::{
    ddctl,
    stage::{self, Stage},
    triggers::{ExitCounts, Exits},
};

/// The cgroup of the VMM.
pub(super) const VMM: &str = "vmm";
/// Swap of the host, in MiB.
const SWAP_MIB: u64 = 512;
/// Memory that is reclaimed from the VMM, all that it has.
const OUT_MIB: u64 = 512;
/// Maximum length of an exit in million instructions. A put of 128 pages copies 512 KiB.
const MAX_MS: f64 = 3.0;

/// Reclaims pages and reads them back, first with the VM's memory in place.
pub(super) fn exits(stage: &Stage<'_>, site: &Site<'_>) -> Result<[Target; 2]> {
    let host = stage.host();
    let resident = around(host, site, "in place", || Ok(()))?;
    let swapped = stage.with_swap(SWAP_MIB, || {
        around(host, site, "in swap", || push_out(host))
    })?;
    let longest = |what: &str, seen: ExitCounts| {
        Target::at_most(
            format!("latency: million instructions of the longest hypercall, memory {what}"),
            MAX_MS,
            seen.longest_us as f64 / 1e3,
            "",
        )
    };
    Ok([longest("in place", resident), longest("in swap", swapped)])
}

/// Reclaims and reads back the guest's pages of a file once, after `before`.
fn around(
    host: &Machine,
    site: &Site<'_>,
    what: &str,
    before: impl FnOnce() -> Result<()>,
) -> Result<ExitCounts> {
    site.grow()?;
    before()?;
    let vms = ddctl::vms(host)?;
    let stats = vms.first().context("the guest is not registered")?.stats;
    let watch = Exits::watch(host)?;
    site.run(&format!("{} || true", site.reclaim()))?;
    site.run("ddhelper huge /mnt/large")?;
    let seen = watch.end()?;
    let vms = ddctl::vms(host)?;
    let counted = vms.first().context("the guest is not registered")?.stats - stats;
    eprintln!("    memory {what}: {seen:?}, {counted:?}");
    ensure!(seen.count > 0, "no hypercall was seen");
    ensure!(
        what == "in place" || counted.put_refused_absent > 0,
        "all pages were in memory: {counted:?}"
    );
    Ok(seen)
}

/// Swaps out a part of the VM's memory.
fn push_out(host: &Machine) -> Result<()> {
    let cgroup = format!("/sys/fs/cgroup/{VMM}");
    // The kernel swaps out as much as it can; the amount is checked below.
    stage::reclaim(host, VMM, &format!("{OUT_MIB}M"))?;
    let bytes: u64 = host
        .read_text(&format!("{cgroup}/memory.swap.current"))?
        .trim()
        .parse()?;
    ensure!(bytes > LARGE, "only {bytes} bytes are in swap");
    Ok(())
}
