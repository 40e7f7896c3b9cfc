// SPDX-License-Identifier: GPL-2.0-only

//! Command line of DoubleDecker.

#![forbid(unsafe_code)]

use clap_complete::CompleteEnv;
use std::{
    io::{stderr, stdout},
    process::ExitCode,
};

fn main() -> ExitCode {
    // Ends the program if a shell asks for candidates.
    CompleteEnv::with_factory(|| ddctl::completing(&ddctl::Machine, std::env::args_os()))
        .complete();
    let code = ddctl::run(
        std::env::args_os(),
        &ddctl::Machine,
        &mut stdout().lock(),
        &mut stderr(),
    );
    ExitCode::from(code)
}
