// SPDX-License-Identifier: GPL-2.0-only

//! Serves a page for Prometheus.

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, fmt, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::timeout,
};

/// Writes a report in the text format of OpenMetrics.
pub type Page<R> = fn(&R) -> Result<String, fmt::Error>;

/// How long a scrape may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most scrapes at once.
const MOST_SCRAPES: usize = 4;

/// Serves the page until dropped.
pub async fn serve<R: Send + Sync + 'static>(
    listener: TcpListener,
    reports: watch::Receiver<Arc<R>>,
    page: Page<R>,
) {
    let free = Arc::new(Semaphore::new(MOST_SCRAPES));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, for example: it may get better.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if let Ok(permit) = Arc::clone(&free).try_acquire_owned() {
            let reports = reports.clone();
            tokio::spawn(async move {
                // Those who take too long are hung up on.
                let _ = timeout(PATIENCE, answer(stream, reports, page)).await;
                drop(permit);
            });
        }
    }
}

async fn answer<R>(stream: TcpStream, reports: watch::Receiver<Arc<R>>, page: Page<R>) {
    let service = service_fn(|request: Request<Incoming>| {
        let report = Arc::clone(&reports.borrow());
        async move { Ok::<_, Infallible>(respond(&request, &*report, page)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // What goes wrong is the scraper's affair.
    let _ = connection.await;
}

fn respond<R>(request: &Request<Incoming>, report: &R, page: Page<R>) -> Response<Full<Bytes>> {
    let mut response = Response::default();
    if request.method() != Method::GET || request.uri().path() != "/metrics" {
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    match page(report) {
        Ok(page) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            let kind = header::HeaderValue::from_static(kind);
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            *response.body_mut() = Full::new(page.into());
        }
        Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
    }
    response
}
