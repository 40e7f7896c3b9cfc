// SPDX-License-Identifier: GPL-2.0-only

//! The verbs of ddctl, one file for each.

pub(crate) mod advise;
pub(crate) mod container;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod flush;
pub(crate) mod mode;
pub(crate) mod policy;
pub(crate) mod schema;
pub(crate) mod set_capacity;
pub(crate) mod set_weight;
pub(crate) mod simulate;
pub(crate) mod ssd;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod support_bundle;
pub(crate) mod top;
pub(crate) mod vm;

use crate::{cli::Command, context::Context, error::Result};

/// Runs a verb and returns the exit code.
pub(crate) fn run(context: &mut Context<'_>, command: &Command) -> Result<u8> {
    match command {
        Command::Advise(arguments) => advise::run(context, arguments)?,
        Command::Container(verb) => container::run(context, verb)?,
        Command::Doctor(arguments) => return doctor::run(context, arguments),
        Command::Events(arguments) => events::run(context, arguments)?,
        Command::Flush(arguments) => flush::run(context, arguments)?,
        Command::Mode(arguments) => mode::run(context, arguments)?,
        Command::Policy(arguments) => policy::run(context, arguments)?,
        Command::Schema(arguments) => schema::run(context, arguments)?,
        Command::SetCapacity(arguments) => set_capacity::run(context, arguments)?,
        Command::SetWeight(arguments) => set_weight::run(context, arguments)?,
        Command::Simulate(arguments) => simulate::run(context, arguments)?,
        Command::Ssd(verb) => ssd::run(context, verb)?,
        Command::Stats(arguments) => stats::run(context, arguments)?,
        Command::Status(arguments) => status::run(context, arguments)?,
        Command::SupportBundle(arguments) => support_bundle::run(context, arguments)?,
        Command::Top(arguments) => top::run(context, arguments)?,
        Command::Vm(verb) => vm::run(context, verb)?,
    }
    Ok(0)
}
