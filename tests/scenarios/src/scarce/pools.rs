// SPDX-License-Identifier: GPL-2.0-only

//! Many small pools lose pages in proportion when the host runs short.

use anyhow::{Result, ensure};
use ddlab::{Machine, Target, wait};

use super::containers;
use crate::{
    accounting,
    ddctl::{self, Vm},
    hog::Hog,
    share::Share,
    stage::ratio,
};

/// VMs, pools of each VM, and pages of each pool.
const VMS: u32 = 3;
const POOLS: u32 = 60;
const PAGES: u64 = 512;
const ALL: u64 = VMS as u64 * POOLS as u64 * PAGES;

/// Fills pools of equal weights with mini VMs, and takes memory from the host until the tier has
/// given two fifths of their pages. No other VM may hold pages for longer than it takes to forget
/// it.
pub(super) fn lose_alike(host: &Machine) -> Result<Target> {
    wait::until("the tier is empty and has its capacity", || {
        let status = ddctl::host(host)?;
        let is_whole = status.limit_pages == status.capacity_pages;
        Ok((status.vms == 0 && status.used_pages == 0 && is_whole).then_some(()))
    })?;
    let filled = Share::with_pools(host, (VMS, POOLS, PAGES))?;
    let before = pages(&accounting::check(host)?);
    ensure!(
        before == vec![PAGES; (VMS * POOLS) as usize],
        "the pools are not full: {before:?}"
    );
    let hog = Hog::start(host, Hog::HOST_FLOOR_KIB)?;
    hog.until(|| Ok(ddctl::host(host)?.used_pages < ALL / 5 * 3))?;
    let after = pages(&accounting::check(host)?);
    drop(hog);
    filled.end()?;
    let lost = after.iter().map(|left| PAGES.saturating_sub(*left));
    let (most, least) = (lost.clone().max(), lost.min());
    eprintln!("    scarce: pools of {PAGES} pages lost {least:?} to {most:?}");
    Ok(Target::at_most(
        "scarce: pages that a host short of memory takes from 180 equal pools, most by least",
        2.0,
        ratio(most.unwrap_or(0), least.unwrap_or(0)),
        "",
    ))
}

/// Returns the numbers of pages of all pools that were filled.
fn pages(vms: &[Vm]) -> Vec<u64> {
    vms.iter().flat_map(containers).collect()
}
