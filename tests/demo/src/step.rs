// SPDX-License-Identifier: GPL-2.0-only

//! Telling the person who waits what is going on.

use std::time::Instant;

use anyhow::Result;

/// Runs a step that takes a while, saying so before and after.
pub(crate) fn step<T>(what: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("{what} ...");
    let start = Instant::now();
    let done = run();
    let end = if done.is_ok() { "done" } else { "FAILED" };
    eprintln!("{what}: {end} ({:.1} s)", start.elapsed().as_secs_f64());
    done
}
