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
    term_width = 100,
    after_help = EXIT_CODES
)]
pub struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 success, 1 wrong file, unhealthy daemon or other failure, \
                          2 usage error, 3 module not loaded, 4 no permission, 5 daemon not \
                          running, 6 version mismatch, 7 refused by the kernel";

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon: give VMs their weights as they register, until stopped
    Run {
        /// Configuration file
        #[arg(long, value_name = "FILE", default_value = config::PATH)]
        config: PathBuf,
    },
    /// Check a configuration file and print its problems with their places
    Check {
        /// Configuration file
        #[arg(long, value_name = "FILE", default_value = config::PATH)]
        config: PathBuf,
    },
    /// Print the entry that matches each registered VM, and what would be changed
    DryRun {
        /// Configuration file
        #[arg(long, value_name = "FILE", default_value = config::PATH)]
        config: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the state of the running daemon; exits with 1 if a setting is not in force
    Status {
        /// Status socket of the daemon
        #[arg(long, value_name = "SOCKET", default_value = config::SOCKET)]
        socket: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Command {
    /// Returns whether the user asks for JSON.
    pub fn json(&self) -> bool {
        match self {
            Self::DryRun { json, .. } | Self::Status { json, .. } => *json,
            Self::Run { .. } | Self::Check { .. } => false,
        }
    }
}
