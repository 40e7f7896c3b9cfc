// SPDX-License-Identifier: GPL-2.0-only

//! `ddhostd`, the daemon of a host.

#![forbid(unsafe_code)]

use anyhow::Result;
use dddaemon::{event_loop, failure, lock::Lock, log, service::Systemd, status};
use ddhostd::{
    check::CheckReport,
    cli::{Cli, Command},
    dry_run,
    module::Kernel,
    report::Report,
    runtime::{Paths, Runtime},
    schema,
};
use ddnl::blocking;
use ddvm::Config;
use std::{
    io::{Write, stdout},
    path::Path,
    process::ExitCode,
};

/// Where the daemon keeps its lock and its socket.
const STATE: &str = "/run/doubledecker";

/// Threads for calls that block. VMMs are asked by other threads.
const BLOCKING_THREADS: usize = 2;

fn main() -> ExitCode {
    let command = match failure::parse::<Cli>() {
        Ok(cli) => cli.command,
        Err(code) => return code,
    };
    let json = command.json();
    let result = match command {
        Command::Check { config, json } => check(&config, json),
        Command::DryRun { config, json } => dry_run(&config, json),
        Command::Run { config } => run(&config),
        Command::Status { socket, json } => show(&socket, json),
        Command::Schema {} => schema(),
    };
    failure::report(result, json)
}

fn check(file: &Path, json: bool) -> Result<ExitCode> {
    let paths = Paths::default();
    let config = paths.load(file)?;
    paths.check_devices(&config)?;
    let warnings = warn(&paths, &config, json);
    failure::print(&CheckReport::new(file, &config, warnings), json)?;
    Ok(ExitCode::SUCCESS)
}

/// Reports the warnings about a file, and returns their number.
fn warn(paths: &Paths, config: &Config, json: bool) -> usize {
    let warnings = paths.warnings(config);
    for warning in &warnings {
        failure::warn(warning, json);
    }
    warnings.len()
}

fn schema() -> Result<ExitCode> {
    writeln!(stdout(), "{:#}", schema::document())?;
    Ok(ExitCode::SUCCESS)
}

fn dry_run(file: &Path, json: bool) -> Result<ExitCode> {
    let paths = Paths::default();
    let config = paths.load(file)?;
    let mut host = blocking::HostClient::open()?;
    let changes = dry_run::run(&config, &mut host, &paths)?;
    warn(&paths, &config, json);
    failure::print(&changes, json)?;
    Ok(ExitCode::SUCCESS)
}

fn show(socket: &Path, json: bool) -> Result<ExitCode> {
    let report: Report = status::read(socket, "ddhostd")?;
    failure::print(&report, json)?;
    Ok(match report.healthy {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn run(config: &Path) -> Result<ExitCode> {
    log::begin("info");
    // The manager names the directories it made for the daemon.
    let state = std::env::var_os("RUNTIME_DIRECTORY");
    let state = state.and_then(|all| std::env::split_paths(&all).next());
    let _lock = Lock::take(&state.unwrap_or_else(|| STATE.into()), "ddhostd")?;
    event_loop::run(BLOCKING_THREADS, async {
        let requests = event_loop::requests()?;
        let (module, service) = (Kernel::open().await, Systemd::default());
        let runtime = Runtime::new(config, module, service, Paths::default())?;
        runtime.run(requests).await
    })?;
    Ok(ExitCode::SUCCESS)
}
