// SPDX-License-Identifier: GPL-2.0-only

//! The program that `cargo xtask figures` runs: `ddpapers figures`, `ddpapers group`, `ddpapers
//! policies`.

#![forbid(unsafe_code)]

use anyhow::Result;
use clap::{Parser, Subcommand};
use ddpapers::figure::{
    self,
    report::{self, Report},
};
use ddpapers::verdict::judge;
use ddsim::{goal, table, trace};
use std::io::Write as _;
use std::path::PathBuf;

/// Replays experiments and policies
#[derive(Debug, Parser)]
#[command(name = "ddpapers")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Write the papers' figures and a summary
    Figures {
        /// Folder for the output
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// A block trace as CSV, compressed or not
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
    },
    /// Print the numbers of one group of experiments
    Group {
        /// Name of the group
        #[arg(value_parser = figure::groups())]
        name: String,
    },
    /// Print the policy table
    Policies {
        /// A block trace as CSV, compressed or not
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
    },
}

fn main() -> Result<()> {
    match Cli::parse().verb {
        Verb::Figures { folder, trace } => {
            let trace = trace.map(|path| trace::read(&path)).transpose()?;
            report::write(&folder, &Report::run(trace.as_deref()))
        }
        Verb::Group { name } => numbers(&name),
        Verb::Policies { trace } => policies(trace),
    }
}

fn numbers(group: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for figure in figure::group(group) {
        let judgement = judge(&figure);
        let verdict = judgement.verdict.name();
        writeln!(out, "{}: {}: {verdict}", figure.name, figure.title)?;
        for row in &figure.compared {
            let paper = row.paper.map_or("-".into(), |paper| format!("{paper:.2}"));
            writeln!(
                out,
                "  {}: {:.2} {}, paper {paper}",
                row.what, row.ours, row.unit
            )?;
        }
        for off in judgement.off {
            writeln!(out, "  not as in the paper: {off}")?;
        }
        writeln!(out, "  {}", figure.note)?;
    }
    Ok(())
}

fn policies(trace: Option<PathBuf>) -> Result<()> {
    let trace = trace.map(|path| trace::read(&path)).transpose()?;
    let rows = table::rows(trace.as_deref());
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", table::markdown(&rows))?;
    for goal in goal::of_policies(&rows) {
        let met = if goal.met { "met" } else { "MISSED" };
        writeln!(
            out,
            "{}: {}, {}: {met}",
            goal.name, goal.target, goal.measured
        )?;
    }
    Ok(())
}
