// SPDX-License-Identifier: GPL-2.0-only

//! Measurements of the engine: beside its peers (`cargo xtask bench engine`), with many VMs
//! ([`scale`]), and of the SSD tier's part of it ([`flash`]).
//!
//! - [`mix`]: the operations; [`cache`]: the interface; [`engine`], [`peer`]: the caches;
//! - [`contest`]: the cases; [`measure`]: one of them, with [`frames`] if data is copied, and the
//!   [`memory`] that it takes;
//! - [`victims`]: the time to choose a victim; [`curve`]: the costs of curves;
//! - [`verdict`]: the promises; [`outcome`]: the report.

mod cache;
mod contest;
mod curve;
mod engine;
mod flash;
mod frames;
mod measure;
mod memory;
mod mix;
mod outcome;
mod peer;
mod report;
mod scale;
mod verdict;
mod victims;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// Measures the engine
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Debug, clap::Subcommand)]
enum Subject {
    Engine(contest::Args),
    Flash(flash::Args),
    Scale(scale::Args),
}

fn main() -> Result<ExitCode> {
    match Args::parse().subject {
        Subject::Engine(args) => contest::main(&args),
        Subject::Flash(args) => flash::run(&args),
        Subject::Scale(args) => scale::run(&args),
    }
}
