// SPDX-License-Identifier: GPL-2.0-only

//! The commands of developers. `cargo xtask --help` lists the verbs.
//!
//! Each verb has a file (`bench`, `build`, `demo`, `dist`, `figures`, `integrations`, `kernel`,
//! `lint`, `matrix`, `monitoring`, `mutants`, `test`, `vm`), whose `run` returns whether it
//! succeeded. The other files are shared by verbs.
// The verbs.
mod bench;
mod build;
mod demo;
mod dist;
mod figures;
mod installed;
mod integrations;
mod kernel;
mod lint;
mod matrix;
mod monitoring;
mod mutants;
mod test;
mod vm;

// The files that verbs share.
mod cache;
mod checked;
mod chroot;
mod commit;
mod config;
mod emulator;
mod image;
mod initrd;
mod kubernetes;
mod mirror;
mod modules;
mod package;
mod patch;
mod progress;
mod release;
mod root;
mod selftests;
mod suite;
mod tidy;
mod tools;
mod tree;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Builds, tests and demonstrates DoubleDecker
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Bench(bench::Args),
    Build(build::Args),
    Demo(demo::Args),
    Dist(dist::Args),
    Figures(figures::Args),
    Integrations(integrations::Args),
    Kernel(kernel::Args),
    Lint(lint::Args),
    Matrix(matrix::Args),
    Monitoring(monitoring::Args),
    Mutants(mutants::Args),
    Test(test::Args),
    Vm(vm::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Bench(args) => bench::run(&args),
        Verb::Build(args) => build::run(&args),
        Verb::Demo(args) => demo::run(&args),
        Verb::Dist(args) => dist::run(&args),
        Verb::Figures(args) => figures::run(&args),
        Verb::Integrations(args) => integrations::run(&args),
        Verb::Kernel(args) => kernel::run(&args),
        Verb::Lint(args) => lint::run(&args),
        Verb::Matrix(args) => matrix::run(&args),
        Verb::Monitoring(args) => monitoring::run(&args),
        Verb::Mutants(args) => mutants::run(&args),
        Verb::Test(args) => test::run(&args),
        Verb::Vm(args) => vm::run(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
