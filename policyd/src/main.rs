// SPDX-License-Identifier: GPL-2.0-only

//! `policyd`, the policy daemon of a guest.

#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use clap::Parser;
use ddnl::printable_json;
use policyd::{
    cli::{Cli, Command, DEFAULT_CONFIG, DEFAULT_STATE},
    config::Config,
    hands::Hands,
    lock::Lock,
    log,
    module::Kernel,
    runtime::{self, Places, Request, Runtime},
    service::Systemd,
    status,
};
use std::{
    io::{self, Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// Threads for calls that block in the kernel: reclaim, and reads of applications' files.
const BLOCKING_THREADS: usize = 8;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Check { file } => check(&file),
        Command::DryRun {
            config,
            rounds,
            json,
        } => dry_run(&config, rounds, json),
        Command::Explain {
            container,
            socket,
            json,
        } => explain(container.as_deref(), &socket, json),
        Command::Restore { config, state } => restore(&config, &state),
        Command::Run { config } => run(&config),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed our output, which is no failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

fn check(file: &Path) -> Result<()> {
    let config = runtime::load(file)?;
    let containers = config.containers.len();
    writeln!(stdout(), "{}: OK, {containers} containers", file.display())?;
    Ok(())
}

fn explain(container: Option<&str>, socket: &Path, json: bool) -> Result<()> {
    let mut report = status::read(socket)?;
    if let Some(part) = container {
        report
            .containers
            .retain(|one| one.name.contains(part) || one.cgroup.contains(part));
        if report.containers.is_empty() {
            bail!("no container's name or cgroup contains `{part}`");
        }
    }
    if json {
        let json = serde_json::to_string_pretty(&report)?;
        writeln!(stdout(), "{}", printable_json(&json))?;
    } else {
        write!(stdout(), "{report}")?;
    }
    Ok(())
}

fn dry_run(config: &Path, rounds: u32, json: bool) -> Result<()> {
    log::begin("warn");
    let places = Places {
        state: None,
        ..Places::default()
    };
    let (changes, report) = in_loop(async {
        let runtime = Runtime::new(config, Kernel::open().await, Systemd::default(), places)?;
        runtime.rehearse(rounds).await
    })?;
    let mut out = stdout();
    if json {
        let all = serde_json::json!({ "changes": changes, "report": report });
        let json = serde_json::to_string_pretty(&all)?;
        writeln!(out, "{}", printable_json(&json))?;
        return Ok(());
    }
    match changes.len() {
        0 => writeln!(out, "nothing would be changed")?,
        _ => writeln!(out, "these changes would be made:")?,
    }
    for change in changes {
        writeln!(out, "  {change}")?;
    }
    write!(out, "\n{report}")?;
    Ok(())
}

fn restore(config: &Path, state: &Path) -> Result<()> {
    log::begin("info");
    // Fails if a daemon is running, which undoes its limits itself when it ends.
    let _lock = Lock::take(state)?;
    // Limits are undone even if the configuration file has become invalid.
    let (root, wrong) = match runtime::load(config) {
        Ok(config) => (config.cgroup_root, None),
        Err(_) if is_absent_default(config) => (Config::default().cgroup_root, None),
        Err(error) => (Config::default().cgroup_root, Some(error)),
    };
    let places = Places {
        state: Some(state.into()),
        ..Places::default()
    };
    Hands::new(&root, places.journal().as_deref());
    match wrong {
        None => Ok(()),
        Some(error) => Err(error.context(format!("limits were undone in {}", root.display()))),
    }
}

/// Whether there is no file, and none was asked for.
fn is_absent_default(config: &Path) -> bool {
    config == Path::new(DEFAULT_CONFIG) && !config.exists()
}

fn run(config: &Path) -> Result<()> {
    log::begin("info");
    let mut places = Places::default();
    let state = places.state.take().unwrap_or_else(|| DEFAULT_STATE.into());
    let lock = Lock::take(&state)?;
    // Without the lock another daemon keeps the journal of limits in this directory.
    places.state = lock.is_some().then_some(state);
    in_loop(async {
        let requests = listen()?;
        let (module, service) = (Kernel::open().await, Systemd::default());
        let runtime = Runtime::new(config, module, service, places)?;
        runtime.run(requests).await
    })
}

fn in_loop<T>(task: impl Future<Output = Result<T>>) -> Result<T> {
    /// The longest wait for blocking threads at the end. One of them may be in a long reclaim.
    const PATIENCE: Duration = Duration::from_secs(2);
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .context("cannot start the event loop")?;
    let result = tokio.block_on(task);
    tokio.shutdown_timeout(PATIENCE);
    result
}

/// Forwards signals as requests to the daemon's loop.
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
