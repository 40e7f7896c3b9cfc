// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl` on a synthetic host of three VMs: `cargo run --example top -- DIRECTORY top` shows
//! `ddctl top` without a module. Files in the directory steer the host.

#[path = "../tests/top/feed.rs"]
#[allow(dead_code, reason = "the counters are for tests")]
mod feed;

use std::{
    env,
    io::{stderr, stdout},
    path::PathBuf,
    process::ExitCode,
};

fn main() -> ExitCode {
    let mut arguments = env::args_os();
    let program = arguments.next();
    let root = arguments.next().map_or_else(env::temp_dir, PathBuf::from);
    let system = feed::SyntheticHost::new(root, vec![2, 2, 1]);
    let arguments = program.into_iter().chain(arguments);
    ddctl::run(arguments, &system, &mut stdout(), &mut stderr()).into()
}
