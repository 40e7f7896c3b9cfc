// SPDX-License-Identifier: GPL-2.0-only

//! Publishes the daemon's state on a socket and on a metrics page.

use crate::{
    metrics::{self, Write},
    status::{self, Socket},
};
use serde::Serialize;
use std::{
    future::pending,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, UnixStream},
    sync::watch,
    task::JoinHandle,
};
use tracing::{info, warn};

/// The socket and the page; either may be missing.
#[derive(Debug)]
pub struct Show<R> {
    reports: watch::Sender<Arc<R>>,
    write: Write<R>,
    path: Option<PathBuf>,
    socket: Option<Socket>,
    address: Option<SocketAddr>,
    page: Option<JoinHandle<()>>,
}

impl<R: Default + Serialize + Send + Sync + 'static> Show<R> {
    /// Creates a state without socket and page. `write` writes the page.
    pub fn new(write: Write<R>) -> Self {
        Self {
            reports: watch::Sender::new(Arc::default()),
            write,
            path: None,
            socket: None,
            address: None,
            page: None,
        }
    }

    /// Opens the socket and the page if the configuration has them. If one of them cannot be
    /// opened, this is logged, and the daemon continues without it.
    pub async fn open(&mut self, socket: Option<&Path>, metrics: Option<SocketAddr>) {
        if self.path.as_deref() != socket {
            self.path = socket.map(Into::into);
            self.socket = None;
            if let Some(path) = &self.path {
                match Socket::open(path) {
                    Ok(socket) => self.socket = Some(socket),
                    Err(error) => warn!("no status socket at {}: {error}", path.display()),
                }
            }
        }
        if self.address != metrics {
            self.address = metrics;
            self.close_page();
            if let Some(address) = self.address {
                match TcpListener::bind(address).await {
                    Ok(listener) => {
                        info!("metrics at http://{address}/metrics");
                        let page = metrics::serve(listener, self.reports.subscribe(), self.write);
                        self.page = Some(tokio::spawn(page));
                    }
                    Err(error) => warn!("no metrics at {address}: {error}"),
                }
            }
        }
    }

    /// Waits for a reader of the socket. No reader is lost if the future is dropped.
    pub async fn reader(&self) -> UnixStream {
        let Some(socket) = &self.socket else {
            return pending().await;
        };
        loop {
            match socket.reader().await {
                Ok(stream) => return stream,
                // The process may be out of descriptors, for example, which can be temporary.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Serves a reader, beginning with the current report.
    pub fn serve(&self, stream: UnixStream, report: impl FnOnce() -> R) {
        self.reports.send_replace(Arc::new(report()));
        status::serve(stream, &self.reports);
    }

    /// Publishes a report to all readers.
    pub fn publish(&self, report: impl FnOnce() -> R) {
        if self.reports.receiver_count() > 0 {
            self.reports.send_replace(Arc::new(report()));
        }
    }
}

impl<R> Show<R> {
    fn close_page(&mut self) {
        if let Some(page) = self.page.take() {
            page.abort();
        }
    }
}

impl<R> Drop for Show<R> {
    fn drop(&mut self) {
        self.close_page();
    }
}
