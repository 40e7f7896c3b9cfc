// SPDX-License-Identifier: GPL-2.0-only

//! A device that flips bits, reports errors, loses writes, or does not answer. Guests get the right
//! content from their own disks, and wait no longer than the deadline.

use std::time::Instant;

use anyhow::{Result, ensure};
use ddlab::{Context, FileSpec, Guest, Scenario, Target, Throttle, wait};

use super::{counted, faulty::Faulty, read, set_store};
use crate::{
    accounting, ddctl,
    stage::{self, Stage, percent},
};

/// A container on a device that fails in several ways, one after the other.
pub(crate) const FAULTS: Scenario = Scenario {
    name: "ssd-faults",
    about: "flipped bits, errors, lost writes and stalls of a device cost misses, never wrong data",
    quick: false,
    run,
};

const FILE: u64 = 24 << 20;
/// Milliseconds of a stall, many times the deadline.
const STALL_MS: u64 = 5000;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    Faulty::allow_console(context);
    let file = FileSpec::new("file", FILE, 1);
    let stage = Stage::set(context, 64)?;
    let host = stage.host();
    let faulty = Faulty::add(host)?;
    ddctl::run(host, "ssd set --deadline 1000")?;
    let disk = stage.disk("data", vec![file.clone()])?;
    let guest = stage.guest_with("one", &disk, Throttle::NONE)?;
    stage::container(&guest, &file.path, "8M", 100)?;
    set_store(&guest, &file.path, "ssd")?;
    ddctl::run(&guest, "container set-policy file fifo")?;
    read(&guest, &file)?;

    // A byte of each request changes on its way to the host.
    faulty.fail("corrupt_bio_byte 100 r 7 0")?;
    let (before, requests) = (faulty.stats()?, faulty.read_requests()?);
    read(&guest, &file)?;
    let flipped = faulty.read_requests()? - requests;
    let caught = faulty.stats()?.bad_checksums - before.bad_checksums;
    faulty.heal()?;
    ensure!(flipped > 0, "nothing was read from the device");

    // Writes are reported as done, although they are dropped.
    faulty.fail("drop_writes")?;
    read(&guest, &file)?;
    wait::until_still("writing", || Ok(faulty.stats()?.written_pages))?;
    faulty.heal()?;
    let before = faulty.stats()?;
    read(&guest, &file)?;
    let lost = faulty.stats()?.bad_checksums - before.bad_checksums;

    // Reads are reported as failed.
    read(&guest, &file)?;
    wait::until_still("writing", || Ok(faulty.stats()?.written_pages))?;
    faulty.fail("error_reads")?;
    let before = faulty.stats()?;
    read(&guest, &file)?;
    ensure!(faulty.stats()?.read_errors > before.read_errors);
    ensure!(faulty.state()? == "suspect");
    faulty.heal()?;
    faulty.recover(&guest, &file)?;

    // Reads are not answered in time.
    wait::until_still("writing", || Ok(faulty.stats()?.written_pages))?;
    ddctl::run(host, "ssd set --deadline 20")?;
    faulty.turn_into(&format!("delay {{}} {STALL_MS} {{}} 0"))?;
    let (before, start) = (faulty.stats()?, Instant::now());
    read(&guest, &file)?;
    let stalled = start.elapsed();
    ensure!(faulty.stats()?.timeouts > before.timeouts);
    // Abandoned requests end some time later.
    faulty.heal()?;
    ddctl::run(host, "ssd set --deadline 1000")?;
    faulty.recover(&guest, &file)?;
    promote(&faulty, &guest, &file)?;

    // Writes are reported as failed.
    faulty.fail("error_writes")?;
    wait::until("the device has failed", || {
        read(&guest, &file)?;
        Ok((faulty.state()? == "failed").then_some(()))
    })?;
    ensure!(faulty.stats()?.write_errors > 0);
    read(&guest, &file)?;
    faulty.heal()?;
    faulty.remove()?;
    read(&guest, &file)?;
    accounting::check(host)?;
    faulty.forget()?;
    Ok(vec![
        // One flip in 256 changes nothing.
        Target::at_least(
            "ssd-faults: detected requests, of those with a flipped byte",
            98.0,
            percent(caught, flipped),
            "%",
        )
        .detail(format!("of {flipped}")),
        Target::at_most(
            "ssd-faults: damaged pages per request with a flipped byte",
            100.0,
            percent(caught, flipped),
            "%",
        ),
        Target::at_least(
            "ssd-faults: lost writes that were detected",
            // Half of the least of three runs.
            960.0,
            lost as f64,
            "pages",
        ),
        Target::at_most(
            "ssd-faults: time to read a file whose device does not answer",
            STALL_MS as f64 / 1000.0,
            stalled.as_secs_f64(),
            "s",
        ),
    ])
}

/// Promotion fails while the device does not answer. It is tried again afterwards, although the
/// guest reads nothing.
fn promote(faulty: &Faulty<'_>, guest: &Guest, file: &FileSpec) -> Result<()> {
    let host = faulty.host;
    // Pages that are not written yet are promoted without the device.
    read(guest, file)?;
    wait::until_still("writing", || Ok(faulty.stats()?.written_pages))?;
    let before = (counted(host, &file.path)?, faulty.stats()?);
    let half = (FILE >> 12) / 2;
    ensure!(
        before.0.ssd_used > half,
        "the device has too few pages: {before:?}"
    );
    ddctl::run(host, "ssd set --deadline 20")?;
    faulty.turn_into(&format!("delay {{}} {STALL_MS} {{}} 0"))?;
    set_store(guest, &file.path, "hybrid")?;
    ddctl::run(host, "set-capacity 64M")?;
    wait::until("a promotion has failed", || {
        Ok((faulty.stats()?.timeouts > before.1.timeouts).then_some(()))
    })?;
    faulty.heal()?;
    ddctl::run(host, "ssd set --deadline 1000")?;
    wait::until("the pages of an idle guest are promoted", || {
        let stats = counted(host, &file.path)?;
        let all = stats.promoted > before.0.promoted && stats.ssd_used == 0;
        Ok(all.then_some(()))
    })?;
    set_store(guest, &file.path, "ssd")?;
    read(guest, file)
}
