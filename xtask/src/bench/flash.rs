// SPDX-License-Identifier: GPL-2.0-only

//! `bench flash`: compares the SSD tier's engine with foyer's block engine.

use anyhow::Result;

/// Compare the processor time of the SSD tier's engine with that of foyer's block engine, on this
/// machine and without virtual machines
///
/// Takes about five minutes, most of it to compile foyer, and 2 GiB of memory. Writes
/// target/bench-flash/result.json.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Folder for the file, in memory or on an SSD
    #[arg(long, default_value = "/dev/shm")]
    folder: String,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<bool> {
    let mut words = vec!["flash", "--folder", &args.folder];
    if args.json {
        words.push("--json");
    }
    super::measure("bench-flash", "foyer", &words)
}
