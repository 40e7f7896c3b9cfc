// SPDX-License-Identifier: GPL-2.0-only

//! The longest delay of the machine's most urgent task while a command runs.

use std::{
    fs::File,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use memmap2::{Advice, Mmap};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Interval between two reads of the clock.
const PERIOD: Duration = Duration::from_millis(1);

/// Runs a command on one processor. Returns the longest delay, in nanoseconds, of the wake-up of a
/// task that has the highest priority on that processor.
pub(crate) fn late(words: &[String]) -> Result<u128> {
    let [program, arguments @ ..] = words else {
        anyhow::bail!("there is no command");
    };
    let mut cpus = CpuSet::new();
    cpus.set(0);
    sched_setaffinity(None, &cpus)?;
    let done = Arc::new(AtomicBool::new(false));
    let watch = thread::spawn({
        let done = Arc::clone(&done);
        move || watch(&done)
    });
    let status = Command::new(program).args(arguments).status();
    done.store(true, Ordering::Relaxed);
    let worst = watch.join().expect("the thread does not panic")?;
    // The command may fail in its own way, such as a reclaim that finds less memory than requested.
    status.with_context(|| format!("cannot run {program}"))?;
    Ok(worst)
}

fn watch(done: &AtomicBool) -> Result<u128> {
    let first = libc::sched_param { sched_priority: 50 };
    // SAFETY: reads the parameters.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) } != 0 {
        return Err(std::io::Error::last_os_error()).context("sched_setscheduler");
    }
    let mut worst = Duration::ZERO;
    while !done.load(Ordering::Relaxed) {
        let start = Instant::now();
        thread::sleep(PERIOD);
        worst = worst.max(start.elapsed().saturating_sub(PERIOD));
    }
    Ok(worst.as_nanos())
}

/// Reads a file into the page cache in the largest possible folios.
pub(crate) fn huge(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    // SAFETY: no task writes to the file.
    let map = unsafe { Mmap::map(&file)? };
    map.advise(Advice::HugePage)?;
    let sum: u64 = map.iter().step_by(4096).map(|&byte| u64::from(byte)).sum();
    ensure!(sum > 0, "the file is empty");
    Ok(())
}
