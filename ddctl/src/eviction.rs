// SPDX-License-Identifier: GPL-2.0-only

//! Waiting for evictions: the module evicts a part of the pages in a command, or all of them in the
//! background, so that no other user of generic netlink waits for it.

use crate::{
    error::{Error, Kind, Result},
    system::System,
};
use ddconf::size::show_pages;
use ddnl::{FlushTarget, HostControl};
use std::time::Duration;

/// Time between two looks at the module, which sends no event about evictions.
const PAUSE: Duration = Duration::from_millis(20);

/// Time in which the module evicts at least a page, unless something is wrong with it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Drops the pages that a target holds now. Pages that guests put at the same time may stay.
pub(crate) fn flush(host: &mut dyn HostControl, target: FlushTarget) -> Result<()> {
    let first = host.flush(target)?;
    let mut left = first.left;
    while left > 0 {
        let step = host.flush(target)?;
        if step.evicted == 0 {
            break;
        }
        left = left.saturating_sub(step.evicted).min(step.left);
    }
    Ok(())
}

/// Takes a device out of the SSD tier, and waits until it is gone.
pub(crate) fn remove_device(
    system: &dyn System,
    host: &mut dyn HostControl,
    device: u32,
) -> Result<()> {
    until_gone(system, || Ok(host.remove_device(device)?))
}

/// Waits until the host holds no more pages than its limit.
pub(crate) fn until_within_limit(system: &dyn System, host: &mut dyn HostControl) -> Result<()> {
    until_gone(system, || {
        let status = host.status()?;
        Ok(status.used.saturating_sub(status.limit))
    })
}

/// Waits until a VM without weight holds no page. Returns early if the VM ends or gets a weight.
pub(crate) fn until_empty(system: &dyn System, host: &mut dyn HostControl, vm: u32) -> Result<()> {
    until_gone(system, || {
        let vms = host.vms()?;
        let vm = vms.iter().find(|other| other.id == vm && other.weight == 0);
        Ok(vm.map_or(0, |vm| vm.used))
    })
}

/// Waits until `left` returns 0. Fails if the number stops falling.
fn until_gone(system: &dyn System, mut left: impl FnMut() -> Result<u64>) -> Result<()> {
    let (mut least, mut since) = (u64::MAX, system.uptime());
    loop {
        let pages = left()?;
        if pages == 0 {
            return Ok(());
        }
        if pages < least {
            (least, since) = (pages, system.uptime());
        }
        if system.uptime().saturating_sub(since) > PATIENCE {
            let error = format!(
                "the setting is changed, but {} are not evicted",
                show_pages(pages)
            );
            return Err(Error::new(Kind::Failed, error)
                .hint("look at the kernel log of this host, and report this as a bug"));
        }
        system.sleep(PAUSE);
    }
}
