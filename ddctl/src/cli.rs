// SPDX-License-Identifier: GPL-2.0-only

//! The command line.

use crate::commands;
use clap::{Args, Parser, Subcommand};
use ddnl::Side;

/// Show and control DoubleDecker, the hypervisor page cache for KVM guests
///
/// On a host, ddctl shows and divides the cache between VMs; in a guest, it shows and divides
/// the VM's share between its containers. Both need CAP_NET_ADMIN.
#[derive(Debug, Parser)]
#[command(
    name = "ddctl",
    version,
    disable_help_subcommand = true,
    term_width = 80,
    after_help = AFTER_HELP
)]
pub(crate) struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// The verb.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  ddctl doctor              check what this machine lacks
  ddctl top                 watch VMs and containers
  ddctl stats --watch 2     print a table of them every two seconds
  ddctl set-weight web 200  set the weight of VM web

Exit codes:
  0 success, 1 failed check or other failure, 2 usage error,
  3 module not loaded, 4 no permission, 5 not found, 6 version mismatch,
  7 refused by the kernel";

/// Heading of the options that every command has.
const GLOBAL: &str = "Global options";

/// Options of every command.
#[derive(Args, Debug)]
pub(crate) struct Global {
    /// Print JSON
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// Use the host module if both modules are loaded
    #[arg(long, global = true, help_heading = GLOBAL, conflicts_with = "guest")]
    pub host: bool,
    /// Use the guest module if both modules are loaded
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub guest: bool,
}

impl Global {
    /// Returns the side that the user asked for, if any.
    pub(crate) fn side(&self) -> Option<Side> {
        match (self.host, self.guest) {
            (true, _) => Some(Side::Host),
            (_, true) => Some(Side::Guest),
            _ => None,
        }
    }
}

/// The verbs. The help text of a verb is the doc comment of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Status(commands::status::Arguments),
    /// Show VMs (host)
    #[command(subcommand, after_help = concat!("Examples:", "\n  ddctl vm list"))]
    Vm(commands::vm::Verb),
    SetWeight(commands::set_weight::Arguments),
    SetCapacity(commands::set_capacity::Arguments),
    /// Add, remove and show the devices of the SSD tier (host)
    #[command(subcommand, after_help = concat!("Examples:", "\n  ddctl ssd add /dev/nvme0n1p3", "\n  ddctl ssd list"))]
    Ssd(commands::ssd::Verb),
    Mode(commands::mode::Arguments),
    Stats(commands::stats::Arguments),
    Top(commands::top::Arguments),
    Flush(commands::flush::Arguments),
    Events(commands::events::Arguments),
    Advise(commands::advise::Arguments),
    Doctor(commands::doctor::Arguments),
    SupportBundle(commands::support_bundle::Arguments),
    Policy(commands::policy::Arguments),
    Schema(commands::schema::Arguments),
    Simulate(commands::simulate::Arguments),
    /// List, enrol and remove containers (guest)
    #[command(subcommand, after_help = concat!("Examples:", "\n  ddctl container list", "\n  ddctl container add /system.slice/nginx.service"))]
    Container(commands::container::Verb),
}
