// SPDX-License-Identifier: GPL-2.0-only

//! The end of each benchmark: its result as a file, on the screen, and as an exit code.

use std::{path::Path, process::ExitCode};

use anyhow::Result;
use serde::Serialize;

/// Writes an outcome into a folder, and prints it: as JSON, or as its `summary`.
pub(crate) fn show<T: Serialize>(
    out: &Path,
    json: bool,
    outcome: &T,
    summary: impl FnOnce() -> String,
) -> Result<()> {
    ddlab::report::write_json(&out.join("result.json"), outcome)?;
    match json {
        true => println!("{}", serde_json::to_string_pretty(outcome)?),
        false => println!("{}", summary()),
    }
    Ok(())
}

/// Returns the exit code of a benchmark that has met its targets, or has not.
pub(crate) fn exit(is_met: bool) -> ExitCode {
    match is_met {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
