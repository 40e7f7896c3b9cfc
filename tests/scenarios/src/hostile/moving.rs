// SPDX-License-Identifier: GPL-2.0-only

//! An attacker whose memory is plugged in and unplugged while its requests name frames of it.

use std::time::Instant;

use anyhow::Result;
use ddlab::{Guest, Target, wait};

use super::{Attack, fuzzer::Fuzzer};
use crate::{accounting, ddctl, hotplug::DimmSlot};

/// Number of times that memory is unplugged.
const TIMES: u64 = 12;
/// Minimum number of requests between two changes.
const BETWEEN: u64 = 500;

/// Unplugs memory and plugs it in again, at any instruction of the host.
pub(super) fn attack(attack: &Attack<'_>, hostile: &Guest) -> Result<Vec<Target>> {
    let host = attack.stage.host();
    let slot = DimmSlot::new(host, hostile);
    let before = ddctl::host(host)?.counters;
    let start = Instant::now();
    let ((tally, refused), passes) = attack.victim.beside(|| {
        let fuzzer = Fuzzer::start_moving(hostile, slot.plug()?, 5)?;
        for _ in 0..TIMES {
            sends(&fuzzer)?;
            slot.unplug()?;
            sends(&fuzzer)?;
            slot.plug()?;
        }
        let vms = ddctl::vms(host)?;
        let refused = ddctl::vm(&vms, "hostile")?.stats.put_refused_fault;
        let tally = fuzzer.tally()?;
        fuzzer.stop()?;
        slot.unplug()?;
        Ok((tally, refused))
    })?;
    let counted = ddctl::host(host)?.counters - before;
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("    {seconds:.0} s of moving memory, {passes} passes: {tally:?} {counted:?}");
    accounting::check(host)?;
    attack.victim.check()?;
    Ok(vec![
        Target::some(
            format!("hostile: pages to and from memory that was unplugged {TIMES} times"),
            tally.moved,
        ),
        Target::some("hostile: refused: pages from unplugged memory", refused),
        Target::some(
            "hostile: refused: pages to unplugged memory",
            counted.dirty_tracked,
        ),
        Target::none(
            "hostile: moving memory: answers with an undocumented status",
            tally.unknown,
        ),
        Target::none(
            "hostile: moving memory: pages returned with other content than was put",
            tally.foreign,
        )
        .detail(format!("of {}", tally.given)),
        Target::some(
            "hostile: moving memory: passes of the victim over its file, all content right",
            passes,
        ),
    ])
}

/// Waits until it has sent some more requests, which shows that no call is stuck.
fn sends(fuzzer: &Fuzzer<'_>) -> Result<()> {
    let wanted = fuzzer.sent()? + BETWEEN;
    wait::until("the module has sent more requests", || {
        Ok((fuzzer.sent()? >= wanted).then_some(()))
    })
}
