// SPDX-License-Identifier: GPL-2.0-only

//! `ddhostd`, the daemon of a host.

#![forbid(unsafe_code)]

use anyhow::Result;
use dddaemon::{
    event_loop,
    failure::{self, Kind},
    lock::Lock,
    log,
    service::Systemd,
    status,
};
use ddhostd::{
    cli::{Cli, Command},
    dry_run,
    module::Kernel,
    report::Report,
    runtime::{Places, Runtime},
};
use ddnl::{blocking, printable_json};
use ddvm::Config;
use serde::Serialize;
use std::{
    fmt::Display,
    io::{self, Write, stdout},
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
        Command::Check { config } => check(&config),
        Command::DryRun { config, json } => dry_run(&config, json),
        Command::Run { config } => run(&config),
        Command::Status { socket, json } => show(&socket, json),
    };
    failure::report(result, json, kind)
}

/// Returns the kind of an error, which is the one that `ddctl` has for it.
fn kind(error: &anyhow::Error) -> Kind {
    use ddnl::Error;
    if let Some(error) = error.downcast_ref::<Error>() {
        return match error {
            Error::NotLoaded { .. } => Kind::NoModule,
            Error::Permission { .. } => Kind::Permission,
            Error::NotFound { .. } => Kind::NotFound,
            Error::Layout { .. } | Error::Unknown { .. } | Error::Version { .. } => Kind::Version,
            Error::Refused { .. } => Kind::Refused,
            _ => Kind::Failed,
        };
    }
    let cause = error
        .chain()
        .find_map(|one| one.downcast_ref::<io::Error>());
    match cause.map(io::Error::kind) {
        Some(io::ErrorKind::PermissionDenied) => Kind::Permission,
        Some(io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => Kind::NotFound,
        _ => Kind::Failed,
    }
}

fn check(file: &Path) -> Result<ExitCode> {
    let places = Places::default();
    let config = places.load(file)?;
    places.check_devices(&config)?;
    warn(&places, &config, false);
    let entries = match config.entries.len() {
        1 => "1 entry".into(),
        entries => format!("{entries} entries"),
    };
    let devices = match config.ssd.devices.len() {
        0 => String::new(),
        1 => ", 1 device".into(),
        devices => format!(", {devices} devices"),
    };
    writeln!(stdout(), "{}: OK, {entries}{devices}", file.display())?;
    Ok(ExitCode::SUCCESS)
}

fn warn(places: &Places, config: &Config, json: bool) {
    for warning in places.warnings(config) {
        failure::warn(&warning, json);
    }
}

fn dry_run(file: &Path, json: bool) -> Result<ExitCode> {
    let places = Places::default();
    let config = places.load(file)?;
    let mut host = blocking::HostClient::open()?;
    let changes = dry_run::run(&config, &mut host, &places)?;
    warn(&places, &config, json);
    print(&changes, json)?;
    Ok(ExitCode::SUCCESS)
}

fn show(socket: &Path, json: bool) -> Result<ExitCode> {
    let report: Report = status::read(socket, "ddhostd")?;
    print(&report, json)?;
    Ok(match report.healthy {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn print(it: &(impl Display + Serialize), json: bool) -> Result<()> {
    if json {
        let json = serde_json::to_string_pretty(it)?;
        writeln!(stdout(), "{}", printable_json(&json))?;
    } else {
        write!(stdout(), "{it}")?;
    }
    Ok(())
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
        let runtime = Runtime::new(config, module, service, Places::default())?;
        runtime.run(requests).await
    })?;
    Ok(ExitCode::SUCCESS)
}
