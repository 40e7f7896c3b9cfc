// SPDX-License-Identifier: GPL-2.0-only

//! An attacker whose memory is plugged in and unplugged while its requests name frames of it.

use std::time::Instant;

use anyhow::Result;
use ddlab::{Guest, Target, wait};

use super::{Attack, fuzzer::Fuzzer};
use crate::{accounting, ddctl, hotplug::DimmSlot, stage::ratio};

/// Number of times that memory is unplugged.
const TIMES: u64 = 12;
/// Minimum number of requests between two changes.
const BETWEEN: u64 = 500;
/// Pages for each request that must have been moved, refused on the way in, and refused on the way
/// out: less than a third of the least figures of three runs. Of the latter there are few, because
/// most gets ask for pages that the host does not have.
const MOVED: [f64; 3] = [0.5, 2.0, 0.01];
/// Number of passes of the victim over its file; there were six or more.
const MIN_PASSES: f64 = 3.0;

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
    let pages = [tally.moved, refused, counted.dirty_tracked];
    let names = [
        format!("hostile: pages to and from memory that was unplugged {TIMES} times"),
        "hostile: refused: pages from unplugged memory".to_owned(),
        "hostile: refused: pages to unplugged memory".to_owned(),
    ];
    let mut targets = Vec::new();
    for ((name, pages), least) in names.into_iter().zip(pages).zip(MOVED) {
        let target = Target::at_least(name, least, ratio(pages, tally.sent), "for each request");
        targets.push(target.detail(format!("{pages} of {} requests", tally.sent)));
    }
    targets.extend([
        Target::none(
            "hostile: moving memory: answers with an undocumented status",
            tally.unknown,
        ),
        Target::none(
            "hostile: moving memory: pages returned with other content than was put",
            tally.foreign,
        )
        .detail(format!("of {}", tally.given)),
        Target::at_least(
            "hostile: moving memory: passes of the victim over its file, all content right",
            (MIN_PASSES / host.at_its_pace(1.0)).ceil(),
            passes as f64,
            "",
        ),
    ]);
    Ok(targets)
}

/// Waits until it has sent some more requests, which shows that no call is stuck.
fn sends(fuzzer: &Fuzzer<'_>) -> Result<()> {
    let wanted = fuzzer.sent()? + BETWEEN;
    wait::until("the module has sent more requests", || {
        Ok((fuzzer.sent()? >= wanted).then_some(()))
    })
}
