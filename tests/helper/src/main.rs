// SPDX-License-Identifier: GPL-2.0-only

//! The program, with a verb for each operation that scenarios need inside a machine.

mod ask;
mod disturbances;
mod files;
mod ioctl;
mod kexec;
mod late;
mod mini;
mod queue;
mod receive;
mod rules;
mod run;
mod starve;
mod swap_file;
mod torture;
mod vmcall;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use ddagent::qmp;
use ddhelper::churn::Plan;

use crate::{
    ask::AskArguments,
    rules::RuleArguments,
    torture::{DisturbArguments, TortureArguments},
};

/// Executes operations of the scenarios inside their machines
#[derive(Debug, Parser)]
#[command(name = "ddhelper")]
enum Verb {
    /// Execute the steps of a churn; print the results of its reads, one JSON object a line
    Churn(ChurnArguments),
    /// Test one rule of the cache; print how many bytes were wrong
    Rule(RuleArguments),
    /// Change and compare files beside other processes that do the same
    Torture(TortureArguments),
    /// Make the models with the expected content of a torture's files
    TortureModels {
        /// Directory to make, on tmpfs
        dir: PathBuf,
        /// Maximum number of files
        files: u32,
    },
    /// Drop caches, reclaim, freeze and unmount beside a torture, until killed
    TortureDisturb(DisturbArguments),
    /// Ask a service at a steady rate and publish the number of answers, until killed
    Ask(AskArguments),
    /// Give one command (JSON) to a VMM and print its answer
    Qmp {
        /// Its socket
        socket: PathBuf,
        /// The command
        command: String,
    },
    /// Copy the data from a device to standard output, until its reader is gone
    Receive {
        /// The device
        device: PathBuf,
    },
    /// Run a command; print the longest delay, in nanoseconds, of a task with the highest priority
    /// on the processor
    Late {
        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        argv: Vec<String>,
    },
    /// Read a file into the page cache in the largest possible folios
    Huge {
        /// The file
        path: PathBuf,
    },
    /// Load another kernel, to be started with this one's command line
    KexecLoad {
        /// Its image
        kernel: PathBuf,
        /// Its initial filesystem
        initrd: PathBuf,
        /// For the case that this one crashes, in the memory reserved for that
        #[arg(long)]
        on_crash: bool,
    },
    /// Start the loaded kernel, without firmware and VMM
    KexecStart,
    /// Run a program of which one allocation fails; print the result as JSON
    Starve(StarveArguments),
    /// Execute a program of which one allocation fails in place of this one
    #[command(hide = true)]
    Starved(StarveArguments),
    /// Run VMs whose guest does nothing but make hypercalls
    #[command(subcommand)]
    Mini(mini::Part),
    /// Make a hypercall from user mode and print its result
    Vmcall {
        /// Its number
        number: u64,
        /// Number of calls, which must all return the same
        #[arg(long, default_value_t = 1)]
        times: u32,
    },
}

/// A program and the number of the failing allocation.
#[derive(Debug, clap::Args)]
struct StarveArguments {
    /// Counted from 1
    nth: u32,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    argv: Vec<String>,
}

/// The filesystem of a churn.
#[derive(Debug, clap::Args)]
struct ChurnArguments {
    /// The plan as JSON
    #[arg(long, value_parser = plan)]
    plan: Plan,
    /// Device of the filesystem
    #[arg(long)]
    device: String,
    /// Mount point
    #[arg(long)]
    mount: PathBuf,
    /// Its type
    #[arg(long)]
    fstype: String,
    /// Cgroup (path below the mount) of this program, from which pages are reclaimed all the time
    #[arg(long)]
    cgroup: String,
}

fn plan(text: &str) -> Result<Plan, serde_json::Error> {
    serde_json::from_str(text)
}

fn main() -> Result<()> {
    match Verb::parse() {
        Verb::Churn(arguments) => run::churn(&arguments),
        Verb::Rule(arguments) => rules::rule(&arguments),
        Verb::Torture(arguments) => torture::torture(&arguments),
        Verb::TortureModels { dir, files } => torture::models(&dir, files),
        Verb::TortureDisturb(arguments) => torture::disturb(&arguments),
        Verb::Ask(arguments) => match ask::ask(&arguments)? {},
        Verb::Qmp { socket, command } => {
            let answer = qmp::command(&socket, &command)
                .with_context(|| format!("cannot ask {}", socket.display()))?;
            println!("{answer}");
            Ok(())
        }
        Verb::Receive { device } => receive::receive(&device),
        Verb::Late { argv } => {
            println!("{}", late::late(&argv)?);
            Ok(())
        }
        Verb::Huge { path } => late::huge(&path),
        Verb::KexecLoad {
            kernel,
            initrd,
            on_crash,
        } => kexec::load(&kernel, &initrd, on_crash),
        Verb::KexecStart => kexec::start(),
        Verb::Starve(StarveArguments { nth, argv }) => starve::starve(nth, &argv),
        Verb::Starved(StarveArguments { nth, argv }) => starve::starved(nth, &argv),
        Verb::Mini(part) => mini::mini(&part),
        Verb::Vmcall { number, times } => {
            let answer = vmcall::vmcall(number);
            for _ in 1..times {
                let other = vmcall::vmcall(number);
                ensure!(
                    other == answer,
                    "calls with the same arguments returned {answer} and {other}"
                );
            }
            println!("{answer}");
            Ok(())
        }
    }
}
