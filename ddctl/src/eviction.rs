// SPDX-License-Identifier: GPL-2.0

//! Waiting for evictions: the module evicts a part of the pages in a command, or all of them in the
//! background, so that no other user of generic netlink waits for it.

use crate::error::Result;
use ddnl::{FlushTarget, HostControl};
use std::{thread, time::Duration};

/// Time between two looks at the module, which sends no event about evictions.
const PAUSE: Duration = Duration::from_millis(20);

/// Drops the pages that a target holds now. The pages that guests put meanwhile may stay.
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

/// Waits until the host holds no more pages than its limit.
pub(crate) fn until_within_limit(host: &mut dyn HostControl) -> Result<()> {
    loop {
        let status = host.status()?;
        if status.used <= status.limit {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
}

/// Waits until a VM without weight holds no page. Returns early if the VM ends or gets a weight.
pub(crate) fn until_empty(host: &mut dyn HostControl, vm: u32) -> Result<()> {
    loop {
        let vms = host.vms()?;
        let holds = |other: &&ddnl::Vm| other.id == vm && other.weight == 0 && other.used > 0;
        if !vms.iter().any(|other| holds(&other)) {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
}
