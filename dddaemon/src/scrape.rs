// SPDX-License-Identifier: GPL-2.0-only

//! Reads a page with Prometheus' own programs, for tests. The environment names them: `PROMTOOL`
//! and `PROMETHEUS`.

use crate::{
    catalogue,
    exposition::Format,
    metrics::{self, Write},
};
use std::{
    env, fs,
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, sync::watch};

/// Maximum time for Prometheus to start and to scrape.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the linter's complaints about a page.
pub fn complaints<R>(report: &R, write: Write<R>) -> String {
    let page = catalogue::text(report, write, Format::Text);
    let mut linter = program("PROMTOOL")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs");
    let mut stdin = linter.stdin.take().expect("a pipe");
    stdin.write_all(page.as_bytes()).expect("promtool reads");
    drop(stdin);
    let output = linter.wait_with_output().expect("promtool ends");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && text.is_empty() {
        text = output.status.to_string();
    }
    text
}

/// Serves a page, lets Prometheus scrape it with its default settings, and returns the first result
/// of a query that is not empty. `directory` is an empty directory, in which the log is left.
pub async fn answer<R>(report: R, write: Write<R>, query: &str, directory: &Path) -> String
where
    R: Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let page = listener.local_addr().expect("a port");
    let reports = watch::Sender::new(Arc::new(report));
    let server = tokio::spawn(metrics::serve(listener, reports.subscribe(), write));
    let port = free_port();
    let query = query.to_owned();
    let directory = directory.to_owned();
    let asking = tokio::task::spawn_blocking(move || {
        let config = format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: page\n    \
             static_configs:\n      - targets: [\"{page}\"]\n"
        );
        fs::write(directory.join("prometheus.yml"), config).expect("a directory");
        let _prometheus = Prometheus::start(&directory, port);
        ask(&query, port)
    });
    let answer = asking.await.expect("Prometheus answers");
    server.abort();
    answer
}

fn program(name: &str) -> Command {
    let path = env::var_os(name).unwrap_or_else(|| panic!("{name} is the path of a program"));
    Command::new(path)
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("a port").port()
}

/// A Prometheus, which is killed with this.
struct Prometheus(Child);

impl Prometheus {
    fn start(directory: &Path, port: u16) -> Self {
        let log = fs::File::create(directory.join("log")).expect("a directory");
        let argument =
            |name: &str, path: &str| format!("--{name}={}", directory.join(path).display());
        let child = program("PROMETHEUS")
            .arg(argument("config.file", "prometheus.yml"))
            .arg(argument("storage.tsdb.path", "data"))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stderr(log)
            .spawn()
            .expect("prometheus runs");
        Self(child)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // An error means that Prometheus has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ask(query: &str, port: u16) -> String {
    let start = Instant::now();
    loop {
        let output = program("PROMTOOL")
            .args([
                "query",
                "instant",
                &format!("http://127.0.0.1:{port}"),
                query,
            ])
            .output()
            .expect("promtool runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && !text.trim().is_empty() {
            return text;
        }
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(start.elapsed() < PATIENCE, "no answer: {text}{why}");
        thread::sleep(Duration::from_millis(500));
    }
}
