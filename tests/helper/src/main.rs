// SPDX-License-Identifier: GPL-2.0-only

//! The program: one verb for each thing scenarios need done inside a machine.

mod ask;
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
mod torture;
mod unrest;
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

/// Does what the scenarios need done inside their machines
#[derive(Debug, Parser)]
#[command(name = "ddhelper")]
enum Verb {
    /// Do the steps of a churn; print what its reads saw, one JSON object a line
    Churn(ChurnArguments),
    /// Try one rule of the cache; print how many bytes were wrong after it
    Rule(RuleArguments),
    /// Change and compare files beside other processes that do the same
    Torture(TortureArguments),
    /// Make what tells the processes of a torture what its files must hold
    TortureModels {
        /// Directory to make; of tmpfs
        dir: PathBuf,
        /// How many files there can be
        files: u32,
    },
    /// Drop caches, reclaim, freeze and unmount beside a torture, until killed
    TortureDisturb(DisturbArguments),
    /// Ask a service at a pace and publish how many answers came, until killed
    Ask(AskArguments),
    /// Give one command (JSON) to a VMM and print its answer
    Qmp {
        /// Its socket
        socket: PathBuf,
        /// The command
        command: String,
    },
    /// Copy what comes from a device to standard output, until nobody reads that
    Receive {
        /// The device
        device: PathBuf,
    },
    /// Run a command; print how many nanoseconds a task that goes before all others waited for its
    /// processor meanwhile, at the worst
    Late {
        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        argv: Vec<String>,
    },
    /// Have the page cache hold a file in folios as large as there are
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
        /// For when this one crashes, in the memory set aside for that
        #[arg(long)]
        on_crash: bool,
    },
    /// Start it, past firmware and VMM
    KexecStart,
    /// Run a program one of whose allocations fails; print what came of it as JSON
    Starve(StarveArguments),
    /// Become such a program
    #[command(hide = true)]
    Starved(StarveArguments),
    /// Run VMs whose guest does nothing but make hypercalls
    #[command(subcommand)]
    Mini(mini::Part),
    /// Make a hypercall from user mode and print what it returned
    Vmcall {
        /// Its number
        number: u64,
        /// How often; what it returned must be the same each time
        #[arg(long, default_value_t = 1)]
        times: u32,
    },
}

/// A program and which of its allocations fails.
#[derive(Debug, clap::Args)]
struct StarveArguments {
    /// Counted from 1
    nth: u32,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    argv: Vec<String>,
}

/// What a churn works on.
#[derive(Debug, clap::Args)]
struct ChurnArguments {
    /// The plan as JSON
    #[arg(long, value_parser = plan)]
    plan: Plan,
    /// Device of the filesystem
    #[arg(long)]
    device: String,
    /// Where it is mounted
    #[arg(long)]
    mount: PathBuf,
    /// Its type
    #[arg(long)]
    fstype: String,
    /// Cgroup (path below the mount) this program runs in: pages of it are
    /// reclaimed all the time
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
                ensure!(other == answer, "first it returned {answer}, then {other}");
            }
            println!("{answer}");
            Ok(())
        }
    }
}
