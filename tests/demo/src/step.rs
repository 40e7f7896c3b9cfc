// SPDX-License-Identifier: GPL-2.0-only

//! Progress messages.

use std::time::Instant;

use anyhow::Result;

/// Runs a step that takes some time, with a message before and after.
pub(crate) fn step<T>(what: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("{what} ...");
    let start = Instant::now();
    let done = run();
    let end = if done.is_ok() { "done" } else { "FAILED" };
    eprintln!("{what}: {end} ({:.1} s)", start.elapsed().as_secs_f64());
    done
}
