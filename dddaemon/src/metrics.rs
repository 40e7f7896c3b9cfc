// SPDX-License-Identifier: GPL-2.0-only

//! Serves a page for Prometheus.

use crate::{accept, exposition::Page};
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{self, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};

/// Writes a report as metrics.
pub type Write<R> = fn(&R, &mut Page);

/// Path of the page.
const PATH: &str = "/metrics";

/// Maximum time of a scrape.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of concurrent scrapes.
const MAX_SCRAPES: usize = 4;

/// A connection that is being served.
struct Connection {
    task: JoinHandle<()>,
    /// Whether the scraper has sent its request.
    has_asked: Arc<AtomicBool>,
}

/// Serves the page until dropped.
pub async fn serve<R: Send + Sync + 'static>(
    listener: TcpListener,
    reports: watch::Receiver<Arc<R>>,
    write: Write<R>,
) {
    // Connections are ordered by age, the oldest first.
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // The process may be out of descriptors, for example, which can be temporary.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        connections.retain(|connection| !connection.task.is_finished());
        if connections.len() >= MAX_SCRAPES {
            // A connection without a request must not keep scrapers out.
            let is_idle = |one: &Connection| !one.has_asked.load(Ordering::Relaxed);
            match connections.iter().position(is_idle) {
                Some(at) => connections.remove(at).task.abort(),
                None => continue,
            }
        }
        let has_asked = Arc::new(AtomicBool::new(false));
        let answer = answer(stream, reports.clone(), write, Arc::clone(&has_asked));
        let task = tokio::spawn(async move {
            // The connection of a scraper that takes too long is closed.
            let _ = timeout(PATIENCE, answer).await;
        });
        connections.push(Connection { task, has_asked });
    }
}

async fn answer<R>(
    stream: TcpStream,
    reports: watch::Receiver<Arc<R>>,
    write: Write<R>,
    has_asked: Arc<AtomicBool>,
) {
    let service = service_fn(|request: Request<Incoming>| {
        has_asked.store(true, Ordering::Relaxed);
        let report = Arc::clone(&reports.borrow());
        async move { Ok::<_, Infallible>(respond(&request, &*report, write)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // An error of the connection concerns only the scraper.
    let _ = connection.await;
}

fn respond<R>(request: &Request<Incoming>, report: &R, write: Write<R>) -> Response<Full<Bytes>> {
    let accept = request.headers().get_all(header::ACCEPT).iter();
    let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
    let mut response = Response::default();
    match (request.uri().path(), request.method()) {
        (PATH, &Method::GET | &Method::HEAD) => {
            let format = accept::choose(&accept.join(","));
            let mut page = Page::new(format);
            write(report, &mut page);
            let kind = HeaderValue::from_static(format.media_type());
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            let vary = HeaderValue::from_static("accept");
            response.headers_mut().insert(header::VARY, vary);
            // The answer to HEAD has the length of this body, but not the body.
            *response.body_mut() = Full::new(page.finish().into());
        }
        (PATH, _) => {
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            let allow = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(header::ALLOW, allow);
        }
        _ => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn write(report: &u32, page: &mut Page) {
        page.counter("x_total", "X")
            .add(&Default::default(), *report);
    }

    /// Returns the server's answers to some requests.
    async fn answers<const N: usize>(requests: [&str; N]) -> [String; N] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sender = watch::Sender::new(Arc::new(7));
        let server = tokio::spawn(serve(listener, sender.subscribe(), write));
        let mut answers = [const { String::new() }; N];
        for (request, answer) in requests.iter().zip(&mut answers) {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("{request}\r\nHost: a\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            stream.read_to_string(answer).await.unwrap();
        }
        server.abort();
        answers
    }

    #[tokio::test]
    async fn the_format_is_what_the_scraper_accepts() {
        let [plain, open] = answers([
            "GET /metrics HTTP/1.1",
            "GET /metrics?x=1 HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0",
        ])
        .await;
        assert!(plain.starts_with("HTTP/1.1 200"), "{plain}");
        let kind = "content-type: text/plain; version=0.0.4; charset=utf-8\r\n";
        assert!(plain.contains(kind), "{plain}");
        assert!(plain.ends_with("\r\n# HELP x_total X\n# TYPE x_total counter\nx_total 7\n"));
        let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
        assert!(open.contains(kind), "{open}");
        assert!(
            open.ends_with("# TYPE x counter\nx_total 7\n# EOF\n"),
            "{open}"
        );
    }

    #[tokio::test]
    async fn idle_connections_do_not_keep_scrapers_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sender = watch::Sender::new(Arc::new(7));
        let server = tokio::spawn(serve(listener, sender.subscribe(), write));
        let mut idle = Vec::new();
        for _ in 0..2 * MAX_SCRAPES {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let mut scraper = TcpStream::connect(address).await.unwrap();
        let request = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
        scraper.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        scraper.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("\nx_total 7\n"), "{answer}");
        // The server has closed the oldest idle connection.
        let mut nothing = Vec::new();
        assert_eq!(idle[0].read_to_end(&mut nothing).await.unwrap(), 0);
        server.abort();
    }

    #[tokio::test]
    async fn other_methods_and_paths_are_distinguished() {
        let [head, get, post, other, below] = answers([
            "HEAD /metrics HTTP/1.1",
            "GET /metrics HTTP/1.1",
            "POST /metrics HTTP/1.1\r\nContent-Length: 0",
            "GET / HTTP/1.1",
            "HEAD /metrics/x HTTP/1.1",
        ])
        .await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.ends_with("\r\n\r\n"), "there is a body: {head}");
        let length = |answer: &str| {
            let line = answer
                .lines()
                .find(|line| line.starts_with("content-length: "));
            line.unwrap().to_owned()
        };
        assert_eq!(length(&head), length(&get));
        assert!(post.starts_with("HTTP/1.1 405"), "{post}");
        assert!(post.contains("allow: GET, HEAD\r\n"), "{post}");
        assert!(other.starts_with("HTTP/1.1 404"), "{other}");
        assert!(below.starts_with("HTTP/1.1 404"), "{below}");
    }
}
