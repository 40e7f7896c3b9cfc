// SPDX-License-Identifier: GPL-2.0-only

//! Command line of DoubleDecker, as a library so that tests can run every verb against modules
//! in memory. See `docs/users/ddctl.md` for verbs, JSON and exit codes.

#![forbid(unsafe_code)]

mod advice;
mod cli;
mod commands;
mod completion;
mod context;
mod error;
mod eviction;
mod number;
mod output;
mod paragraph;
mod report;
mod save;
mod schema;
mod system;
mod table;
mod target;
mod top;
mod value;
mod watch;
mod word;

pub use completion::completing;
pub use error::{Error, Kind};
pub use system::{Machine, System};
pub use top::{Effect, Monitor};

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
    let arguments = watch::join_pause(arguments);
    let cli = match cli::Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(refusal) => return explain(&refusal, wants_json(&arguments), out, err),
    };
    let json = cli.global.json;
    let mut context = Context::new(system, out, err, json, cli.global.side());
    let result = commands::run(&mut context, &cli.command).and_then(|code| {
        context.out.flush()?;
        Ok(code)
    });
    match result {
        Ok(code) => code,
        Err(error) => error.report(err, json),
    }
}

/// Returns whether a command line that cannot be parsed requests JSON.
fn wants_json(arguments: &[OsString]) -> bool {
    let options = arguments.iter().take_while(|argument| *argument != "--");
    options.into_iter().any(|argument| argument == "--json")
}

/// Prints clap's help or usage error, and returns the exit code.
fn explain(refusal: &clap::Error, json: bool, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let text = refusal.render();
    if refusal.use_stderr() && json {
        Error::usage(&text.to_string()).report(err, json)
    } else if refusal.use_stderr() {
        // An error of standard error itself cannot be reported.
        let _ = write!(err, "{text}");
        Kind::Usage.exit_code()
    } else {
        match write!(out, "{text}").and_then(|()| out.flush()) {
            Ok(()) => 0,
            Err(error) => Error::from(error).report(err, json),
        }
    }
}
