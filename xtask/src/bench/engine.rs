// SPDX-License-Identifier: GPL-2.0-only

//! `bench engine`: compares the index with general-purpose caches.

use anyhow::Result;

use super::instructions;

/// Compare the index with general-purpose caches, on this machine and without virtual machines
///
/// Takes about a quarter of an hour and 16 GiB of memory, with `--quick` three minutes and 2 GiB.
/// Writes target/bench-engine/result.json.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Leave the largest size (16 Mi pages) out
    #[arg(long)]
    quick: bool,
    /// Count instructions in an emulated machine (64 Ki pages), whose number is the same on any
    /// machine; writes target/bench-engine/instructions.json
    #[arg(long, conflicts_with = "quick")]
    instructions: bool,
    /// Only this mix (may be given more than once): random, runs, unaligned, parts, zipf, scan,
    /// small-file, mixed
    #[arg(long = "mix")]
    mixes: Vec<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<bool> {
    let mut words = vec!["engine"];
    for mix in &args.mixes {
        words.extend(["--mix", mix]);
    }
    if args.json {
        words.push("--json");
    }
    if args.instructions {
        words.extend(["--lean", "--pages", "65536"]);
        return instructions::count("bench-engine", &words);
    }
    if args.quick {
        words.push("--quick");
    }
    super::measure("bench-engine", "", &words)
}
