// SPDX-License-Identifier: GPL-2.0

//! Policy daemon of a guest.

#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use policyd::{
    module::Kernel,
    runtime::{self, Request, Runtime},
    service::Systemd,
};
use std::{
    io::{IsTerminal, stderr},
    path::PathBuf,
    process::ExitCode,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};
use tracing_subscriber::EnvFilter;

/// Keep a guest's containers enrolled with DoubleDecker as a file describes them
#[derive(Debug, Parser)]
#[command(
    name = "policyd",
    version,
    disable_help_subcommand = true,
    term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Follow containers and apply the configuration until stopped
    Run {
        /// Configuration file
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// Check a configuration file and say what is wrong in which line
    Check {
        /// Configuration file
        #[arg(value_name = "FILE", default_value = DEFAULT_CONFIG)]
        file: PathBuf,
    },
}

const DEFAULT_CONFIG: &str = "/etc/doubledecker/policyd.toml";

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Check { file } => check(&file),
        Command::Run { config } => run(&config),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check(file: &std::path::Path) -> Result<()> {
    let config = runtime::load(file)?;
    let containers = config.containers.len();
    println!("{}: right, {containers} containers", file.display());
    Ok(())
}

fn run(config: &std::path::Path) -> Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        // The journal has the time.
        .without_time()
        .with_target(false)
        .init();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")?
        .block_on(async {
            let requests = listen()?;
            let runtime = Runtime::new(config, Kernel::open().await, Systemd::default())?;
            runtime.run(requests).await
        })
}

/// Turns signals into requests.
fn listen() -> Result<mpsc::Receiver<Request>> {
    let (sender, receiver) = mpsc::channel(8);
    for (kind, request) in [
        (SignalKind::hangup(), Request::Reload),
        (SignalKind::interrupt(), Request::Stop),
        (SignalKind::terminate(), Request::Stop),
    ] {
        let mut signals = signal(kind).context("cannot listen for signals")?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if sender.send(request).await.is_err() {
                    break;
                }
            }
        });
    }
    Ok(receiver)
}
