// SPDX-License-Identifier: GPL-2.0-only

//! Publishes the daemon's state on a socket and on a metrics page.

use crate::{
    metrics::{self, Write},
    status::{self, Socket},
};
use serde::Serialize;
use std::{future::pending, net::SocketAddr, path::Path, sync::Arc, time::Duration};
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
    socket: Option<Socket>,
    page: Option<(SocketAddr, JoinHandle<()>)>,
    troubles: Vec<String>,
}

impl<R: Default + Serialize + Send + Sync + 'static> Show<R> {
    /// Creates a state without socket and page. `write` writes the page.
    pub fn new(write: Write<R>) -> Self {
        Self {
            reports: watch::Sender::new(Arc::default()),
            write,
            socket: None,
            page: None,
            troubles: Vec::new(),
        }
    }

    /// Opens the socket and the page if the configuration has them and they are not open yet. If
    /// one of them cannot be opened, this is logged once, and the daemon continues without it until
    /// the next call, because the reason may be temporary: an address that the network does not
    /// have yet, or a port that another program uses.
    pub async fn open(&mut self, socket: Option<&Path>, metrics: Option<SocketAddr>) {
        let mut troubles = Vec::new();
        if self.socket.as_ref().map(Socket::path) != socket {
            self.socket = None;
            if let Some(path) = socket {
                match Socket::open(path) {
                    Ok(socket) => self.socket = Some(socket),
                    Err(error) => {
                        troubles.push(format!("no status socket at {}: {error}", path.display()));
                    }
                }
            }
        }
        if self.page.as_ref().map(|(address, _)| *address) != metrics {
            self.close_page();
            if let Some(address) = metrics {
                match TcpListener::bind(address).await {
                    Ok(listener) => {
                        info!("metrics at http://{address}/metrics");
                        let page = metrics::serve(listener, self.reports.subscribe(), self.write);
                        self.page = Some((address, tokio::spawn(page)));
                    }
                    Err(error) => troubles.push(format!("no metrics at {address}: {error}")),
                }
            }
        }
        for trouble in &troubles {
            if !self.troubles.contains(trouble) {
                warn!("{trouble}");
            }
        }
        self.troubles = troubles;
    }

    /// Returns why the socket or the page could not be opened.
    pub fn troubles(&self) -> &[String] {
        &self.troubles
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
        if let Some((_, page)) = self.page.take() {
            page.abort();
        }
    }
}

impl<R> Drop for Show<R> {
    fn drop(&mut self) {
        self.close_page();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::Page;
    use std::fs;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    fn page(report: &u32, page: &mut Page) {
        page.gauge("x", "X").add(&Default::default(), *report);
    }

    /// The address may be missing, or in use, when the machine boots.
    #[tokio::test]
    async fn a_page_that_could_not_be_opened_is_opened_later() {
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = other.local_addr().unwrap();
        let mut show = Show::new(page);
        for _ in 0..2 {
            show.open(None, Some(address)).await;
            let trouble = format!("no metrics at {address}: ");
            assert_eq!(show.troubles().len(), 1);
            assert!(show.troubles()[0].starts_with(&trouble));
        }
        drop(other);
        show.open(None, Some(address)).await;
        assert!(show.troubles().is_empty());
        show.publish(|| 7);
        let scrape = async || {
            let mut stream = TcpStream::connect(address).await?;
            let request = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.map(|_| answer)
        };
        assert!(scrape().await.unwrap().ends_with("\nx 7\n"));
        // The page stays open.
        show.open(None, Some(address)).await;
        assert!(show.troubles().is_empty());
        assert!(scrape().await.unwrap().ends_with("\nx 7\n"));
    }

    #[tokio::test]
    async fn a_socket_that_could_not_be_opened_is_opened_later() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("sock");
        fs::create_dir(&path).unwrap();
        let mut show = Show::new(page);
        show.open(Some(&path), None).await;
        assert_eq!(show.troubles().len(), 1);
        fs::remove_dir(&path).unwrap();
        show.open(Some(&path), None).await;
        assert!(show.troubles().is_empty() && path.exists());
        show.open(None, None).await;
        assert!(!path.exists());
    }
}
