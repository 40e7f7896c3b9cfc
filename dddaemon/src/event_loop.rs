// SPDX-License-Identifier: GPL-2.0-only

//! The loop of a daemon: one thread, signals as requests, and threads for calls that block.

use anyhow::{Context, Result};
use std::time::Duration;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// A request of the administrator to a running daemon.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// Read the configuration again.
    Reload,
    /// End.
    Stop,
}

/// Runs a task to its end, with at most `blocking_threads` threads for calls that block.
pub fn run<T>(blocking_threads: usize, task: impl Future<Output = Result<T>>) -> Result<T> {
    /// Maximum wait for blocking threads after the task has ended. One of them may be in a long
    /// call.
    const PATIENCE: Duration = Duration::from_secs(2);
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(blocking_threads)
        .build()
        .context("cannot start the event loop")?;
    let result = tokio.block_on(task);
    tokio.shutdown_timeout(PATIENCE);
    result
}

/// Forwards signals as requests: SIGHUP reloads, SIGINT and SIGTERM stop.
pub fn requests() -> Result<mpsc::Receiver<Request>> {
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
