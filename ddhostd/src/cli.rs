// SPDX-License-Identifier: GPL-2.0-only

//! The command line.

use clap::{CommandFactory, Parser, Subcommand};
use ddvm::config;
use std::path::PathBuf;

/// Returns the definition of the command line, for man pages and completions.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Keep the weights of a host's VMs, the sizes of its memory tier and the devices of its SSD tier
#[derive(Debug, Parser)]
#[command(
    name = "ddhostd",
    version,
    disable_help_subcommand = true,
    term_width = 80,
    after_help = AFTER_HELP
)]
pub struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  ddhostd check    report errors in the file
  ddhostd dry-run  show what the daemon would change
  ddhostd status   show which settings are in force

Exit codes:
  0 success, 1 errors in the file, a setting that is not in force, or other
  failure, 2 usage error,
  3 module not loaded, 4 no permission, 5 daemon not running,
  6 version mismatch, 7 refused by the kernel";

const RUN: &str = "\
Examples:
  ddhostd run
  ddhostd run --config ./host.toml";

const CHECK: &str = "\
Examples:
  ddhostd check
  ddhostd check --config ./host.toml
  ddhostd check --json";

const DRY_RUN: &str = "\
Examples:
  ddhostd dry-run
  ddhostd dry-run --config ./host.toml
  ddhostd dry-run --json";

const STATUS: &str = "\
Examples:
  ddhostd status
  ddhostd status --json";

const SCHEMA: &str = "\
Examples:
  ddhostd schema > ddhostd.schema.json";

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon: give VMs their weights as they register, until stopped
    #[command(after_help = RUN)]
    Run {
        /// Configuration file
        #[arg(long, value_name = "FILE", default_value = config::PATH)]
        config: PathBuf,
    },
    /// Check a configuration file and print its errors with line and column
    #[command(after_help = CHECK)]
    Check {
        /// Configuration file
        #[arg(long, value_name = "FILE", default_value = config::PATH)]
        config: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the entry that matches each registered VM, and what would be changed
    #[command(after_help = DRY_RUN)]
    DryRun {
        /// Configuration file
        #[arg(long, value_name = "FILE", default_value = config::PATH)]
        config: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the state of the running daemon; exits with 1 if a setting is not in force
    #[command(after_help = STATUS)]
    Status {
        /// Status socket of the daemon
        #[arg(long, value_name = "SOCKET", default_value = config::SOCKET)]
        socket: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON schema of what --json prints
    #[command(after_help = SCHEMA)]
    Schema {},
}

impl Command {
    /// Returns whether the user asks for JSON.
    pub fn json(&self) -> bool {
        match self {
            Self::Check { json, .. } | Self::DryRun { json, .. } | Self::Status { json, .. } => {
                *json
            }
            Self::Run { .. } | Self::Schema {} => false,
        }
    }
}
