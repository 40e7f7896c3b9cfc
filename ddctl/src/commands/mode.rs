// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl mode`.

use crate::{context::Context, error::Result, output::Frame, report::ModeReport};
use clap::{Args, ValueEnum};
use ddabi::genl::Mode;
use ddnl::{ConfigChange, reply::mode_word};

/// Show or set how the memory tier is shared (host)
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl mode",
    "\n  ddctl mode fifo",
))]
pub(crate) struct Arguments {
    /// The new mode; without it, the current mode is shown
    mode: Option<ModeChoice>,
}

/// The modes, by the names on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeChoice {
    /// By weights at two levels: VMs, then their containers
    Weighted,
    /// First in, first out over all VMs, without shares, for comparison
    Fifo,
}

pub(crate) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    let mut host = context.host("mode")?;
    let Some(choice) = arguments.mode else {
        let word = mode_word(host.status.mode);
        return Frame::done(word, &ModeReport { mode: word }).print(context);
    };
    let mode = match choice {
        ModeChoice::Weighted => Mode::Weighted,
        ModeChoice::Fifo => Mode::GlobalFifo,
    };
    host.control.configure(&ConfigChange {
        mode: Some(mode),
        ..ConfigChange::default()
    })?;
    let word = mode_word(mode);
    Frame::done(format!("Mode is now {word}"), &ModeReport { mode: word }).print(context)
}
