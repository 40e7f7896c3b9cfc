// SPDX-License-Identifier: GPL-2.0-only

//! Tests of applications that answer, answer garbage, hang, and exit.

use anyhow::Result;
use policyd::{
    config::{Config, Origin},
    measure::{Ask, ContainerName, Meter, Origins, Search},
};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    runtime::{Builder, Runtime},
    time::Instant,
};

/// Starts a server that calls `act` with each connection.
fn server(act: impl Fn(std::net::TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            act(stream.unwrap());
        }
    });
    address
}

fn answer(mut stream: std::net::TcpStream, page: &[u8]) {
    let mut request = [0; 1024];
    let _ = stream.read(&mut request);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", page.len());
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(page);
}

/// Asks applications, and counts the questions that began and those that ended.
#[derive(Clone)]
struct Counted {
    origins: Origins,
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Counted {
    fn new(origins: Origins) -> Self {
        Self {
            origins,
            begun: Arc::default(),
            ended: Arc::default(),
        }
    }
}

/// Counts the end of a question when it is dropped, which includes questions that take too long.
struct Ended(Arc<AtomicUsize>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Ask for Counted {
    async fn ask(
        &self,
        origin: &Origin,
        container: &ContainerName,
        page: &mut Search,
    ) -> Result<()> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let _ended = Ended(Arc::clone(&self.ended));
        self.origins.ask(origin, container, page).await
    }
}

/// Returns the figure of a container's application; `None` if it was asked and had none.
fn figure(source: &str) -> Option<f64> {
    figure_of(source, "web")
}

/// Like [`figure`], for a container with this name.
pub(crate) fn figure_of(source: &str, name: &str) -> Option<f64> {
    figure_by(nowhere(), source, name)
}

/// Origins of a machine that delegates no cgroup.
fn nowhere() -> Origins {
    Origins::new(Path::new("/nowhere"), Path::new("/nowhere"))
}

/// Like [`figure_of`], with these origins.
pub(crate) fn figure_by(origins: Origins, source: &str, name: &str) -> Option<f64> {
    const MAX_WAIT: Duration = Duration::from_secs(60);
    let clock = runtime().build().unwrap();
    look(&clock, origins, source, name, |asked, began, figure| {
        let was_asked = asked.ended.load(Ordering::SeqCst) > 0;
        assert!(was_asked || began.elapsed() < MAX_WAIT, "it was not asked");
        was_asked || figure.is_some()
    })
}

/// Returns whether a container of this name is not asked about for many intervals. The clock is
/// paused and goes on when no task can, so that this neither takes their time nor depends on it.
pub(crate) fn is_never_asked(source: &str, name: &str) -> bool {
    const LONG: Duration = Duration::from_secs(10);
    let mut begun = 0;
    let clock = runtime().start_paused(true).build().unwrap();
    look(&clock, nowhere(), source, name, |asked, began, _| {
        begun = asked.begun.load(Ordering::SeqCst);
        begun > 0 || began.elapsed() > LONG
    });
    begun == 0
}

/// A runtime with its own clock.
fn runtime() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    builder
}

/// Measures a container repeatedly until `is_enough`. Returns the last figure. A measurement is a
/// synchronous call, so it cannot wait for the application.
fn look(
    clock: &Runtime,
    origins: Origins,
    source: &str,
    name: &str,
    mut is_enough: impl FnMut(&Counted, Instant, Option<f64>) -> bool,
) -> Option<f64> {
    let root = TempDir::new().unwrap();
    let web = root.path().join("web");
    fs::create_dir(&web).unwrap();
    fs::write(web.join("memory.current"), "1").unwrap();
    fs::write(web.join("memory.stat"), "").unwrap();
    let config = Config::parse(&format!(
        "[[container]]\nname = \"web\"\ncgroup = \"/web\"\n\
         [container.target]\nthroughput = 9\nsource = {{ {source} }}\n"
    ));
    let config = config.unwrap();
    clock.block_on(async {
        let asked = Counted::new(origins);
        let mut meter = Meter::new(Path::new("/nowhere"), asked.clone());
        let interval = Duration::from_millis(50);
        let began = Instant::now();
        let mut enough = false;
        loop {
            let containers = [("/web", name, &config.containers[0])];
            let sample = meter.measure(root.path(), interval, containers.into_iter());
            let figure = sample.containers["/web"].application;
            if enough {
                return figure;
            }
            // Measures once more, to see the result of the last answer.
            enough = is_enough(&asked, began, figure);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
}

#[test]
fn pages_are_asked_for() {
    let address = server(|stream| answer(stream, b"# TYPE up gauge\nup{a=\"b\"} 12\n"));
    let source = format!("http = \"http://{address}/metrics\", metric = \"up\"");
    assert_eq!(figure(&source), Some(12.0));
}

#[test]
fn programs_and_files_are_asked() {
    assert_eq!(
        figure("command = [\"/bin/echo\", \"7.5\", \"{}\"]"),
        Some(7.5)
    );
    assert_eq!(figure("command = [\"/bin/false\"]"), None);
    assert_eq!(figure("command = [\"/does/not/exist\"]"), None);
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("web.prom");
    fs::write(&path, "ops 3\n").unwrap();
    let name = directory.path().display();
    let source = format!("file = \"{name}/{{}}.prom\", metric = \"ops\"");
    assert_eq!(figure(&source), Some(3.0));
    assert_eq!(figure(&format!("file = \"{name}\"")), None);
}

#[test]
fn hanging_sources_delay_no_others() {
    let hangs = server(|stream| {
        thread::sleep(Duration::from_secs(5));
        drop(stream);
    });
    let slow = "timeout_s = 0.05";
    let source = format!("http = \"http://{hangs}/\", metric = \"up\", {slow}");
    assert_eq!(figure(&source), None);
    let source = format!("command = [\"/bin/sleep\", \"60\"], {slow}");
    assert_eq!(figure(&source), None);
}

#[test]
fn garbage_survives() {
    for page in [
        &b"\xff\xfe\x00up 1"[..],
        b"",
        b"up\nup{\nup{a=\"\nup x\nup NaN\nup -1\n",
        b"<html>up 3</html>",
    ] {
        let address = server(move |stream| answer(stream, page));
        let source = format!("http = \"http://{address}/\", metric = \"up\"");
        assert_eq!(figure(&source), None, "{page:?}");
    }
    let lies = server(|mut stream| drop(stream.write_all(b"SSH-2.0-OpenSSH\r\n")));
    let source = format!("http = \"http://{lies}/\", metric = \"up\"");
    assert_eq!(figure(&source), None);
    let nobody = "http = \"http://127.0.0.1:1/\", metric = \"up\"";
    assert_eq!(figure(nobody), None);
}

/// A thousand sources are polled by a connection each, but only a few of these are open at a time.
#[test]
fn few_are_asked_at_a_time() {
    let open = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&open);
    let held = Mutex::new(Vec::new());
    let address = server(move |stream| {
        count.fetch_add(1, Ordering::SeqCst);
        held.lock().unwrap().push(stream);
    });
    let containers: String = (0..300)
        .map(|at| {
            format!(
                "[[container]]\nname = \"c{at}\"\ncgroup = \"/c{at}\"\n[container.target]\n\
                 throughput = 5\nsource = {{ http = \"http://{address}/\", metric = \"a\" }}\n"
            )
        })
        .collect();
    let config = Config::parse(&containers).unwrap();
    let paths: Vec<String> = (0..300).map(|at| format!("/c{at}")).collect();
    let containers = paths.iter().zip(&config.containers);
    let containers = containers.map(|(path, one)| (path.as_str(), one.name.as_str(), one));
    runtime().build().unwrap().block_on(async {
        let mut meter = Meter::new(Path::new("/nowhere"), nowhere());
        meter.measure(Path::new("/nowhere"), Duration::from_secs(1), containers);
        // No answer comes before the time limit of two seconds.
        tokio::time::sleep(Duration::from_millis(1500)).await;
    });
    let open = open.load(Ordering::SeqCst);
    assert!((1..=16).contains(&open), "{open}");
}

/// Other users can replace the file at a path between a check and its use.
#[test]
fn only_regular_files_are_read() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    let figure = |name: &str| figure(&format!("file = \"{}\"", path(name).display()));
    fs::write(path("figure"), "8\n").unwrap();
    assert_eq!(figure("figure"), Some(8.0));
    std::os::unix::fs::symlink(path("figure"), path("link")).unwrap();
    assert_eq!(figure("link"), None);
    let made = Command::new("mkfifo").arg(path("pipe")).status().unwrap();
    assert!(made.success());
    assert_eq!(figure("pipe"), None);
}
