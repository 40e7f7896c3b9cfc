// SPDX-License-Identifier: GPL-2.0-only

//! Command line of DoubleDecker.

#![forbid(unsafe_code)]

use std::{
    io::{stderr, stdout},
    process::ExitCode,
};

fn main() -> ExitCode {
    let code = ddctl::run(
        std::env::args_os(),
        &ddctl::Machine,
        &mut stdout().lock(),
        &mut stderr(),
    );
    ExitCode::from(code)
}
