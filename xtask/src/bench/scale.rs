// SPDX-License-Identifier: GPL-2.0-only

//! `bench scale`: measures the host's engine with many VMs and pools.

use anyhow::Result;

use super::instructions;

/// Measure the host's engine with 1 to 1000 VMs of 1 to 100 pools, without virtual machines
///
/// Takes about five minutes and 4 GiB of memory. Writes target/bench-scale/result.json.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Pages of the tier
    #[arg(long, default_value_t = 1 << 22)]
    pages: u64,
    /// Count instructions in an emulated machine (4 Mi pages), whose number is the same on any
    /// machine; writes target/bench-scale/instructions.json
    #[arg(long, conflicts_with = "pages")]
    instructions: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<bool> {
    let pages = args.pages.to_string();
    let mut words = vec!["scale", "--pages", &pages];
    if args.json {
        words.push("--json");
    }
    if args.instructions {
        words.extend(["--rounds", "1"]);
        return instructions::count("bench-scale", &words);
    }
    super::measure("bench-scale", "", &words)
}
