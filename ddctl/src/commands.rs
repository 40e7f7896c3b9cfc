// SPDX-License-Identifier: GPL-2.0

//! One file a verb.

pub(crate) mod container;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod flush;
pub(crate) mod mode;
pub(crate) mod policy;
pub(crate) mod set_capacity;
pub(crate) mod set_weight;
pub(crate) mod simulate;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod vm;

use crate::{cli::Command, error::Result, session::Session};

/// Runs a verb; answers the exit code.
pub(crate) fn run(session: &mut Session<'_>, command: &Command) -> Result<u8> {
    match command {
        Command::Container(verb) => container::run(session, verb)?,
        Command::Doctor(arguments) => return doctor::run(session, arguments),
        Command::Events(arguments) => events::run(session, arguments)?,
        Command::Flush(arguments) => flush::run(session, arguments)?,
        Command::Mode(arguments) => mode::run(session, arguments)?,
        Command::Policy(arguments) => policy::run(session, arguments)?,
        Command::SetCapacity(arguments) => set_capacity::run(session, arguments)?,
        Command::SetWeight(arguments) => set_weight::run(session, arguments)?,
        Command::Simulate(arguments) => simulate::run(session, arguments)?,
        Command::Stats(arguments) => stats::run(session, arguments)?,
        Command::Status(arguments) => status::run(session, arguments)?,
        Command::Vm(verb) => vm::run(session, verb)?,
    }
    Ok(0)
}
