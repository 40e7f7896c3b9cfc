// SPDX-License-Identifier: GPL-2.0

//! `ddsim figures`, `ddsim policies`: what `cargo xtask figures` runs.

#![forbid(unsafe_code)]

use anyhow::Result;
use clap::{Parser, Subcommand};
use ddsim::{figure, table, trace};
use std::io::Write as _;
use std::path::PathBuf;

/// Replays experiments and policies
#[derive(Debug, Parser)]
#[command(name = "ddsim")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Write the papers' figures and a summary
    Figures {
        /// Where to
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Print the policy table
    Policies {
        /// A block trace as CSV, packed or not
        #[arg(long, value_name = "FILE", env = "DDSIM_TRACE")]
        trace: Option<PathBuf>,
    },
}

fn main() -> Result<()> {
    match Cli::parse().verb {
        Verb::Figures { folder } => figure::report::write(&folder, &figure::all()),
        Verb::Policies { trace } => policies(trace),
    }
}

fn policies(trace: Option<PathBuf>) -> Result<()> {
    let mut loads = Vec::new();
    if let Some(path) = trace {
        let stream = trace::read(&path)?;
        let sizes = [(5, 5), (5, 20), (5, 40)];
        loads.extend(table::of_trace("trace", &stream, &sizes, true));
        loads.extend(table::of_trace(
            "trace with writes",
            &stream,
            &[(5, 20)],
            false,
        ));
    }
    loads.extend(table::synthetic());
    let rows: Vec<table::Row> = loads.iter().map(table::row).collect();
    write!(std::io::stdout().lock(), "{}", table::markdown(&rows))?;
    Ok(())
}
