// SPDX-License-Identifier: GPL-2.0-only

//! The command line.

use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;

/// Returns the definition of the command line, for man pages and completions.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Manage the cache and the memory of a guest's containers as configured
#[derive(Debug, Parser)]
#[command(
    name = "policyd",
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
  policyd check    report errors in the file, and what the machine lacks
  policyd dry-run  show what the daemon would change
  policyd explain  show which targets are missed, and the reasons

Exit codes:
  0 success, 1 errors in the file or other failure, 2 usage error,
  3 the machine is not ready for the file (check), or a target or a floor of the
  file cannot be met (check, dry-run), 4 no permission,
  5 daemon not running, or no such container (explain),
  6 the daemon has another version (explain)";

const RUN: &str = "\
Examples:
  policyd run
  policyd run --config ./policyd.toml";

const CHECK: &str = "\
Examples:
  policyd check
  policyd check --strict
  policyd check --file-only ./policyd.toml
  policyd check --json";

const EXPLAIN: &str = "\
Examples:
  policyd explain
  policyd explain web
  policyd explain --json";

const DRY_RUN: &str = "\
Examples:
  policyd dry-run
  policyd dry-run --config ./policyd.toml --rounds 12
  policyd dry-run --json";

const RESTORE: &str = "\
Examples:
  policyd restore";

const SCHEMA: &str = "\
Examples:
  policyd schema > policyd.schema.json";

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon: apply the configuration to containers until stopped
    #[command(after_help = RUN)]
    Run {
        /// Configuration file
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// Check a configuration file, and whether this machine has what the file selects
    #[command(after_help = CHECK)]
    Check {
        /// Configuration file
        #[arg(value_name = "FILE", default_value = DEFAULT_CONFIG)]
        file: PathBuf,
        /// Check only the file, on a machine other than the guest
        #[arg(long, conflicts_with = "strict")]
        file_only: bool,
        /// Fail if there is a warning, for example about a container that is not there now
        #[arg(long)]
        strict: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the share and the need of each container, and which targets cannot be met
    #[command(after_help = EXPLAIN)]
    Explain {
        /// Show only containers whose name or cgroup contains this text
        #[arg(value_name = "CONTAINER")]
        container: Option<String>,
        /// Status socket of the running daemon
        #[arg(long, value_name = "SOCKET", default_value = DEFAULT_SOCKET)]
        socket: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure, decide and print what would be changed, without changing anything
    #[command(after_help = DRY_RUN)]
    DryRun {
        /// Configuration file
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// Number of measurements
        #[arg(long, value_name = "COUNT", default_value_t = 3)]
        rounds: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Undo the limits of guest memory that a crashed daemon left behind
    #[command(after_help = RESTORE)]
    Restore {
        /// Configuration file
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// The daemon's runtime directory
        #[arg(long, value_name = "DIRECTORY", default_value = DEFAULT_STATE)]
        state: PathBuf,
    },
    /// Print the JSON schema of what --json prints
    #[command(after_help = SCHEMA)]
    Schema {},
}

impl Command {
    /// Returns whether the user asks for JSON.
    pub fn json(&self) -> bool {
        match self {
            Self::Check { json, .. } | Self::Explain { json, .. } | Self::DryRun { json, .. } => {
                *json
            }
            Self::Run { .. } | Self::Restore { .. } | Self::Schema {} => false,
        }
    }
}

/// Default path of the configuration file.
pub const DEFAULT_CONFIG: &str = "/etc/doubledecker/policyd.toml";
/// Default path of the daemon's status socket.
pub const DEFAULT_SOCKET: &str = "/run/doubledecker/policyd.sock";
/// Default directory of the state that a later daemon needs.
pub const DEFAULT_STATE: &str = "/run/doubledecker";
