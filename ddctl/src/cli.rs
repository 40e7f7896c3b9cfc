// SPDX-License-Identifier: GPL-2.0

//! The command line.

use crate::{commands, size::Size};
use clap::{Args, Parser, Subcommand};
use ddabi::pool::MAX_WEIGHT;
use ddcore::policy::Policy;

/// Show and control DoubleDecker, the hypervisor page cache for KVM guests
///
/// On a host, ddctl shows and divides the cache between VMs; in a guest, it shows and divides
/// the VM's share between its containers. Both need CAP_NET_ADMIN.
#[derive(Debug, Parser)]
#[command(
    name = "ddctl",
    version,
    disable_help_subcommand = true,
    term_width = 100,
    after_help = EXIT_CODES
)]
pub(crate) struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed check or other failure, 2 usage, 3 no \
                          module, 4 no permission, 5 not found, 6 version mismatch, 7 refused \
                          by the kernel";

/// Options of every command.
#[derive(Args, Debug)]
pub(crate) struct Global {
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Talk to the host module, where both are loaded
    #[arg(long, global = true, conflicts_with = "guest")]
    pub host: bool,
    /// Talk to the guest module, where both are loaded
    #[arg(long, global = true)]
    pub guest: bool,
}

/// What to do. Verbs without a line here are described at their arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Status(commands::status::Arguments),
    /// Show VMs (host)
    #[command(subcommand)]
    Vm(commands::vm::Verb),
    SetWeight(commands::set_weight::Arguments),
    SetCapacity(commands::set_capacity::Arguments),
    Mode(commands::mode::Arguments),
    Stats(commands::stats::Arguments),
    Flush(commands::flush::Arguments),
    Events(commands::events::Arguments),
    Doctor(commands::doctor::Arguments),
    Policy(commands::policy::Arguments),
    Simulate(commands::simulate::Arguments),
    /// List, enrol and remove containers (guest)
    #[command(subcommand)]
    Container(commands::container::Verb),
}

/// Showing the same again and again.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Watch {
    /// Show again every SECONDS [default: 1]
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = seconds
    )]
    pub watch: Option<f64>,
    /// Stop after COUNT times
    #[arg(long, value_name = "COUNT", requires = "watch", value_parser = count)]
    pub count: Option<u64>,
}

/// A weight, 0 to 10000.
pub(crate) fn weight(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|weight| *weight <= MAX_WEIGHT);
    number.ok_or_else(|| format!("a weight is a whole number from 0 to {MAX_WEIGHT}"))
}

/// A policy by its name.
pub(crate) fn policy(text: &str) -> Result<Policy, String> {
    let names = || Policy::ALL.map(Policy::name).join(", ");
    Policy::from_name(text).ok_or_else(|| format!("the policies are {}", names()))
}

/// How many times, at least once.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|count| *count > 0);
    number.ok_or_else(|| "a count is a whole number from 1".into())
}

/// A size, such as `512M`.
pub(crate) fn size(text: &str) -> Result<Size, String> {
    text.parse()
}

fn seconds(text: &str) -> Result<f64, String> {
    const LONGEST: f64 = 86_400.0;
    match text.parse() {
        Ok(seconds) if (0.1..=LONGEST).contains(&seconds) => Ok(seconds),
        _ => Err(format!("seconds between 0.1 and {LONGEST} are possible")),
    }
}
