// SPDX-License-Identifier: GPL-2.0

//! `ddctl mode`.

use crate::{context::Context, error::Result, output::Frame};
use clap::{Args, ValueEnum};
use ddabi::genl::Mode;
use ddnl::{ConfigChange, reply::mode_word};
use serde_json::json;

/// Show or set how the memory tier is shared (host)
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// How to share; without it, the mode is only shown
    mode: Option<Choice>,
}

/// Modes by their names.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Choice {
    /// Two-level weights: VMs, then their containers
    Weighted,
    /// One global first-in first-out order without shares, for comparison
    Fifo,
}

pub(crate) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    let mut host = context.host("mode")?;
    let Some(choice) = arguments.mode else {
        let word = mode_word(host.status.mode);
        return Frame::done(word, json!({ "mode": word })).print(context);
    };
    let mode = match choice {
        Choice::Weighted => Mode::Weighted,
        Choice::Fifo => Mode::GlobalFifo,
    };
    host.control.configure(&ConfigChange {
        mode: Some(mode),
        ..ConfigChange::default()
    })?;
    let word = mode_word(mode);
    Frame::done(format!("Mode is now {word}"), json!({ "mode": word })).print(context)
}
