// SPDX-License-Identifier: GPL-2.0-only

//! Where the daemon shows its state: the socket and the metrics page.

use crate::{
    config::Config,
    engine::Report,
    metrics,
    status::{self, Socket},
};
use std::{future::pending, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, UnixStream},
    sync::watch,
    task::JoinHandle,
};
use tracing::{info, warn};

/// The socket and the page; either may be missing.
pub(super) struct Show {
    reports: watch::Sender<Arc<Report>>,
    path: Option<PathBuf>,
    socket: Option<Socket>,
    address: Option<SocketAddr>,
    page: Option<JoinHandle<()>>,
}

impl Default for Show {
    fn default() -> Self {
        Self {
            reports: watch::Sender::new(Arc::default()),
            path: None,
            socket: None,
            address: None,
            page: None,
        }
    }
}

impl Show {
    /// Shows things where the file wants it; what cannot be opened is told, and done without.
    pub(super) async fn open(&mut self, config: &Config) {
        if self.path != config.status_socket {
            self.path.clone_from(&config.status_socket);
            self.socket = None;
            if let Some(path) = &self.path {
                match Socket::open(path) {
                    Ok(socket) => self.socket = Some(socket),
                    Err(error) => warn!("no status socket at {}: {error}", path.display()),
                }
            }
        }
        if self.address != config.metrics {
            self.address = config.metrics;
            self.close_page();
            if let Some(address) = self.address {
                match TcpListener::bind(address).await {
                    Ok(listener) => {
                        info!("metrics at http://{address}/metrics");
                        let page = metrics::serve(listener, self.reports.subscribe());
                        self.page = Some(tokio::spawn(page));
                    }
                    Err(error) => warn!("no metrics at {address}: {error}"),
                }
            }
        }
    }

    /// Waits for a reader of the socket. No reader is lost if the future is dropped.
    pub(super) async fn reader(&self) -> UnixStream {
        let Some(socket) = &self.socket else {
            return pending().await;
        };
        loop {
            match socket.reader().await {
                Ok(stream) => return stream,
                // Out of descriptors, for example: it may get better.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Serves a reader, beginning with the present report.
    pub(super) fn serve(&self, stream: UnixStream, report: impl FnOnce() -> Report) {
        self.reports.send_replace(Arc::new(report()));
        status::serve(stream, &self.reports);
    }

    /// There is news for those who are connected.
    pub(super) fn publish(&self, report: impl FnOnce() -> Report) {
        if self.reports.receiver_count() > 0 {
            self.reports.send_replace(Arc::new(report()));
        }
    }

    fn close_page(&mut self) {
        if let Some(page) = self.page.take() {
            page.abort();
        }
    }
}

impl Drop for Show {
    fn drop(&mut self) {
        self.close_page();
    }
}
