// SPDX-License-Identifier: GPL-2.0-only

//! Command line of DoubleDecker, as a library so that tests can run every verb against modules
//! in memory. See `docs/ddctl.md` for verbs, JSON and exit codes.

#![forbid(unsafe_code)]

mod cli;
mod commands;
mod context;
mod error;
mod eviction;
mod output;
mod save;
mod system;
mod target;
mod value;
mod watch;

pub use error::{Error, Kind};
pub use system::{Machine, System};

use clap::{CommandFactory, Parser};
use context::Context;
use std::{ffi::OsString, io::Write};

/// Returns the definition of the command line, for man pages and completions.
pub fn command() -> clap::Command {
    cli::Cli::command()
}

/// Runs one command and returns the exit code.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    system: &dyn System,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let cli = match cli::Cli::try_parse_from(watch::join_pause(arguments)) {
        Ok(cli) => cli,
        Err(refusal) => return explain(&refusal, out, err),
    };
    let mut context = Context::new(system, out, err, cli.global.json, cli.global.side());
    let result = commands::run(&mut context, &cli.command).and_then(|code| {
        context.out.flush()?;
        Ok(code)
    });
    match result {
        Ok(code) => code,
        Err(error) => error.report(err),
    }
}

/// Prints clap's help or usage error, and returns the exit code.
fn explain(refusal: &clap::Error, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let text = refusal.render();
    if refusal.use_stderr() {
        // An error of standard error itself cannot be reported.
        let _ = write!(err, "{text}");
        Kind::Usage.exit_code()
    } else {
        match write!(out, "{text}").and_then(|()| out.flush()) {
            Ok(()) => 0,
            Err(error) => Error::from(error).report(err),
        }
    }
}
