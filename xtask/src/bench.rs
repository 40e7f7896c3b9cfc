// SPDX-License-Identifier: GPL-2.0-only

//! `bench`: measures costs, and compares them with alternatives.

mod engine;
mod host;
mod instructions;
mod policyd;
mod scale;

use anyhow::Result;
use clap::Subcommand;

/// Measure costs and compare them with alternatives
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Debug, Subcommand)]
enum Subject {
    Engine(engine::Args),
    Host(host::Args),
    Policyd(policyd::Args),
    Scale(scale::Args),
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    match &args.subject {
        Subject::Engine(args) => engine::run(args),
        Subject::Host(args) => host::run(args),
        Subject::Policyd(args) => policyd::run(args),
        Subject::Scale(args) => scale::run(args),
    }
}
