// SPDX-License-Identifier: GPL-2.0-only

//! `policyd`, the policy daemon of a guest.

#![forbid(unsafe_code)]

use anyhow::Result;
use dddaemon::{event_loop, failure, lock::Lock, log, service::Systemd, status};
use ddnl::{Kind, ProgramError};
use policyd::{
    cgroup_writer::CgroupWriter,
    check::{self, CheckReport},
    cli::{Cli, Command, DEFAULT_CONFIG, DEFAULT_STATE},
    config::Config,
    engine::Report,
    module::Kernel,
    runtime::{self, Paths, Runtime},
    schema,
};
use std::{
    io::{Write, stdout},
    path::Path,
    process::ExitCode,
};

fn main() -> ExitCode {
    let command = match failure::parse::<Cli>() {
        Ok(cli) => cli.command,
        Err(code) => return code,
    };
    let json = command.json();
    failure::report(perform(command), json)
}

fn perform(command: Command) -> Result<ExitCode> {
    match command {
        Command::Check {
            file,
            file_only,
            strict,
            json,
        } => return check(&file, file_only, strict, json),
        Command::DryRun {
            config,
            rounds,
            json,
        } => dry_run(&config, rounds, json)?,
        Command::Explain {
            container,
            socket,
            json,
        } => explain(container.as_deref(), &socket, json)?,
        Command::Restore { config, state } => restore(&config, &state)?,
        Command::Run { config } => run(&config)?,
        Command::Schema {} => writeln!(stdout(), "{:#}", schema::document())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn check(file: &Path, file_only: bool, strict: bool, json: bool) -> Result<ExitCode> {
    log::begin("warn");
    let config = runtime::load(file)?;
    let warnings = match file_only {
        true => Vec::new(),
        false => check::inspect(&config, &Paths::default().root)?,
    };
    for warning in &warnings {
        failure::warn(warning, json);
    }
    if !warnings.is_empty() && !json {
        eprintln!(
            "Hint: policyd enrols containers when they appear. If one of these runs now, compare \
             the file with its name in its runtime, or in the output of systemd-cgls"
        );
    }
    check::within_reach(&config)?;
    failure::print(&CheckReport::new(file, &config, warnings.len()), json)?;
    Ok(match strict && !warnings.is_empty() {
        true => Kind::Unmet.exit_code().into(),
        false => ExitCode::SUCCESS,
    })
}

fn explain(container: Option<&str>, socket: &Path, json: bool) -> Result<()> {
    let mut report: Report = status::read(socket, "policyd")?;
    if let Some(part) = container {
        report
            .containers
            .retain(|one| one.name.contains(part) || one.cgroup.contains(part));
        if report.containers.is_empty() {
            let message = format!("no container's name or cgroup contains `{part}`");
            let hint = "`policyd explain` shows all containers";
            return Err(ProgramError::new(Kind::NotFound, message).hint(hint).into());
        }
    }
    failure::print(&report, json)
}

fn dry_run(config: &Path, rounds: u32, json: bool) -> Result<()> {
    // Programs that ask for JSON read the standard error, too.
    log::begin(if json { "error" } else { "warn" });
    let paths = Paths {
        state: None,
        ..Paths::default()
    };
    let found = event_loop::run(runtime::BLOCKING_THREADS, async {
        let runtime = Runtime::new(config, Kernel::open().await, Systemd::default(), paths)?;
        runtime.dry_run(rounds).await
    })?;
    failure::print(&found, json)?;
    Ok(found.report.fulfilled()?)
}

fn restore(config: &Path, state: &Path) -> Result<()> {
    log::begin("info");
    // This fails if a daemon is running, because that daemon undoes its limits itself when it ends.
    let _lock = Lock::take(state, "policyd")?;
    // Limits are undone even if the configuration file has become invalid.
    let (root, wrong) = match runtime::load(config) {
        Ok(config) => (config.cgroup_root, None),
        Err(_) if is_absent_default(config) => (Config::default().cgroup_root, None),
        Err(error) => (Config::default().cgroup_root, Some(error)),
    };
    let paths = Paths {
        state: Some(state.into()),
        ..Paths::default()
    };
    CgroupWriter::new(&root, paths.journal().as_deref());
    match wrong {
        None => Ok(()),
        Some(error) => Err(error.context(format!("limits were undone in {}", root.display()))),
    }
}

/// Returns whether the user named no file and the default file does not exist.
fn is_absent_default(config: &Path) -> bool {
    config == Path::new(DEFAULT_CONFIG) && !config.exists()
}

fn run(config: &Path) -> Result<()> {
    log::begin("info");
    let mut paths = Paths::default();
    let state = paths.state.take().unwrap_or_else(|| DEFAULT_STATE.into());
    let lock = Lock::take(&state, "policyd")?;
    // Without the lock, the journal in this directory belongs to another daemon.
    paths.state = lock.is_some().then_some(state);
    event_loop::run(runtime::BLOCKING_THREADS, async {
        let requests = event_loop::requests()?;
        let (module, service) = (Kernel::open().await, Systemd::default());
        let runtime = Runtime::new(config, module, service, paths)?;
        runtime.run(requests).await
    })
}
