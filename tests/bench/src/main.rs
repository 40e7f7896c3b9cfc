// SPDX-License-Identifier: GPL-2.0

//! The engine beside its peers, by the clock: `cargo xtask bench engine`.
//!
//! - [`mix`]: what is asked; [`cache`]: of whom; [`engine`], [`peer`]: the caches;
//! - [`contest`]: which cases there are; [`measure`]: one of them, with [`frames`] if data is copied,
//!   and [`memory`] that it takes;
//! - [`victims`]: how long it takes to choose a victim; [`curve`]: what curves cost;
//! - [`verdict`]: the promises; [`outcome`]: the report.

mod cache;
mod contest;
mod curve;
mod engine;
mod frames;
mod measure;
mod memory;
mod mix;
mod outcome;
mod peer;
mod verdict;
mod victims;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Parser;

/// Measures the engine beside its peers
#[derive(Debug, Parser)]
struct Args {
    /// Leave the largest size out
    #[arg(long)]
    quick: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Only these mixes
    #[arg(long = "mix", value_enum)]
    mixes: Vec<mix::Mix>,
    /// Only these caches
    #[arg(long = "cache")]
    caches: Vec<String>,
    /// Only these sizes, in pages
    #[arg(long = "pages")]
    pages: Vec<u64>,
    /// Only one guest, and nothing copied
    #[arg(long)]
    lean: bool,
    /// Rounds of each case, after one that does not count
    #[arg(long, default_value_t = measure::ROUNDS)]
    rounds: usize,
    /// Folder for the result
    #[arg(long, default_value = "target/bench-engine")]
    out: PathBuf,
}

impl Args {
    fn choice(&self) -> contest::Choice {
        let mut mixes = self.mixes.clone();
        if mixes.is_empty() {
            mixes.extend(mix::Mix::ALL);
        }
        let mut sizes = contest::SIZES.to_vec();
        if self.quick {
            sizes.pop();
        }
        if !self.pages.is_empty() {
            sizes.retain(|pages| self.pages.contains(pages));
        }
        contest::Choice {
            mixes,
            sizes,
            caches: self.caches.clone(),
            lean: self.lean,
            rounds: self.rounds,
        }
    }
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let outcome = contest::run(&args.choice());
    ddlab::report::write_json(&args.out.join("result.json"), &outcome)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcome)?);
    } else {
        println!("{}", outcome.summary());
    }
    // A machine that counts instructions has figures of its own, and promises of none.
    Ok(
        match args.lean || ddlab::report::all_met(&outcome.targets) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        },
    )
}
