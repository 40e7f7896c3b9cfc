// SPDX-License-Identifier: GPL-2.0-only

//! Tests of the loop, with real inotify on a directory in place of cgroupfs, and a module in
//! memory.

use dddaemon::{event_loop::Request, fake::FakeService};
use ddnl::{
    Result, Side,
    fake::{FakeGuest, Fault, GuestState},
};
use policyd::{
    engine::{Report, Verdict},
    module::{Change, GuestAccess},
    runtime::{Paths, Runtime},
};
use std::{
    collections::BTreeMap, fs, os::unix::fs::MetadataExt, path::PathBuf, sync::Arc, time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::UnixStream,
    sync::mpsc,
    time::{sleep, timeout},
};

/// A machine and the daemon's connections to it.
struct Bench {
    directory: TempDir,
    guest: FakeGuest,
    changes: mpsc::Sender<Change>,
    requests: mpsc::Sender<Request>,
    service: FakeService,
}

struct FakeModule {
    guest: FakeGuest,
    changes: mpsc::Receiver<Change>,
}

impl GuestAccess for FakeModule {
    type Control = FakeGuest;

    async fn connect(&mut self) -> Result<FakeGuest> {
        match self.guest.with(|state| state.fault) {
            Fault::Absent => Err(ddnl::Error::NotLoaded { side: Side::Guest }),
            _ => Ok(self.guest.clone()),
        }
    }

    async fn changed(&mut self) -> Change {
        match self.changes.recv().await {
            Some(change) => change,
            None => std::future::pending().await,
        }
    }
}

const WEB: &str = "[[container]]\nname = \"web\"\ncgroup = \"/a/web\"\nweight = 300\n";

impl Bench {
    /// Runs the daemon while `act` changes the machine, and then stops it.
    fn run<F: Future<Output = ()>>(file: &str, act: impl FnOnce(Arc<Self>) -> F) -> Arc<Self> {
        let (changes, changed) = mpsc::channel(8);
        let (requests, requested) = mpsc::channel(8);
        let bench = Arc::new(Self {
            directory: TempDir::new().unwrap(),
            guest: FakeGuest::default(),
            changes,
            requests,
            service: FakeService::default(),
        });
        bench
            .guest
            .with(|state| state.cgroups = Some(BTreeMap::new()));
        fs::create_dir(bench.cgroup("")).unwrap();
        fs::write(bench.cgroup("/cgroup.controllers"), "memory").unwrap();
        bench.write(file);
        let module = FakeModule {
            guest: bench.guest.clone(),
            changes: changed,
        };
        let service = bench.service.clone();
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        tokio.block_on(async {
            let daemon = Runtime::new(&bench.file(), module, service, bench.paths()).unwrap();
            let stop = bench.requests.clone();
            let acting = async {
                timeout(Duration::from_secs(15), act(Arc::clone(&bench)))
                    .await
                    .expect("what was waited for did not happen");
                stop.send(Request::Stop).await.unwrap();
            };
            let (result, ()) = tokio::join!(daemon.run(requested), acting);
            result.unwrap();
        });
        bench
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("policyd.toml")
    }

    fn paths(&self) -> Paths {
        let state = self.directory.path().join("state");
        let proc = self.directory.path().join("proc");
        for directory in [&state, &proc] {
            fs::create_dir(directory).unwrap();
        }
        Paths {
            proc,
            root: self.directory.path().into(),
            state: Some(state),
        }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("policyd.sock")
    }

    fn cgroup(&self, path: &str) -> PathBuf {
        self.directory.path().join(format!("cgroup{path}"))
    }

    /// Writes the configuration, with a short interval and the test's directory as the root.
    fn write(&self, containers: &str) {
        let root = self.cgroup("");
        let text = format!(
            "interval_s = 0.1\ncgroup_root = \"{}\"\nstatus_socket = \"{}\"\n{containers}",
            root.display(),
            self.socket().display()
        );
        fs::write(self.file(), text).unwrap();
    }

    /// Creates a cgroup both in the directory and in the module.
    fn make(&self, path: &str) {
        self.guest.with(|state| {
            let directory = self.cgroup(path);
            fs::create_dir(&directory).unwrap();
            let number = fs::metadata(&directory).unwrap().ino();
            state.cgroups.as_mut().unwrap().insert(path.into(), number);
        });
    }

    /// Removes a cgroup; its pool goes with it.
    fn remove(&self, path: &str) {
        self.guest.with(|state| {
            fs::remove_dir(self.cgroup(path)).unwrap();
            state.remove_cgroup(path);
        });
    }

    async fn until(&self, mut done: impl FnMut(&mut GuestState) -> bool) {
        while !self.guest.with(&mut done) {
            sleep(Duration::from_millis(2)).await;
        }
    }

    async fn until_enrolled(&self, path: &str, weight: u32) {
        self.until(|state| {
            let wanted =
                |pool: &ddnl::Pool| pool.cgroup.as_deref() == Some(path) && pool.weight == weight;
            state.pools.iter().any(wanted)
        })
        .await;
    }

    async fn until_said(&self, text: &str) {
        while !self.service.said().iter().any(|one| one == text) {
            sleep(Duration::from_millis(2)).await;
        }
    }

    fn pools(&self) -> usize {
        self.guest.with(|state| state.pools.len())
    }
}

#[test]
fn directories_of_runtimes_are_read_again() {
    let id = "3f".repeat(32);
    let cgroup = format!("/docker/{id}");
    let docker = "[[container]]\nname = \"web\"\ndocker = \"web\"\nweight = 70\n";
    Bench::run(docker, async |bench| {
        let state = bench
            .directory
            .path()
            .join("srv/docker/containers")
            .join(&id);
        fs::create_dir_all(&state).unwrap();
        fs::write(state.join("config.v2.json"), "{\"Name\": \"/web\"}").unwrap();
        bench.until_said("ready").await;
        bench.make("/docker");
        bench.make(&cgroup);
        bench.write(&format!("[runtimes]\ndocker = [\"/srv/docker\"]\n{docker}"));
        bench.requests.send(Request::Reload).await.unwrap();
        bench.until_enrolled(&cgroup, 70).await;
    });
}

#[test]
fn containers_are_followed() {
    let bench = Bench::run(WEB, async |bench| {
        bench.until_said("ready").await;
        // The child may be created before its parent is watched.
        bench.make("/a");
        bench.make("/a/web");
        bench.until_enrolled("/a/web", 300).await;
        bench.remove("/a/web");
        bench.make("/a/web");
        bench.until_enrolled("/a/web", 300).await;
        bench.until_said("1 of 1 containers enrolled").await;
    });
    assert_eq!(bench.pools(), 2, "the pools stay when the daemon stops");
    assert_eq!(bench.service.said().last().unwrap(), "stopping");
}

#[test]
fn the_module_may_be_loaded_late_and_unloaded() {
    Bench::run(WEB, async |bench| {
        bench.guest.with(|state| state.fault = Fault::Absent);
        bench.make("/a");
        bench.make("/a/web");
        let waiting = "waiting for the kernel module doubledecker_guest";
        bench.until_said(waiting).await;
        bench.guest.with(|state| state.fault = Fault::None);
        bench.changes.send(Change::Came).await.unwrap();
        bench.until_enrolled("/a/web", 300).await;
        bench.guest.with(GuestState::reload);
        bench.changes.send(Change::Session).await.unwrap();
        bench.until_enrolled("/a/web", 300).await;
    });
}

#[test]
fn a_new_file_is_applied_and_a_wrong_one_is_not() {
    let bench = Bench::run(WEB, async |bench| {
        bench.make("/a");
        bench.make("/a/web");
        bench.until_enrolled("/a/web", 300).await;
        bench.write(&WEB.replace("300", "30"));
        bench.requests.send(Request::Reload).await.unwrap();
        bench.until_enrolled("/a/web", 30).await;
        bench.service.said().clear();
        bench.write("nonsense = 1");
        bench.requests.send(Request::Reload).await.unwrap();
        bench.until_said("reloading").await;
        bench.until_said("ready").await;
        // The old file is still in force.
        bench.guest.with(|state| state.pools[1].weight = 5);
        bench.until_enrolled("/a/web", 30).await;
    });
    assert_eq!(bench.pools(), 2);
}

#[test]
fn another_root_is_watched_instead() {
    Bench::run(WEB, async |bench| {
        bench.make("/a");
        bench.make("/a/web");
        bench.until_enrolled("/a/web", 300).await;
        let text = fs::read_to_string(bench.file()).unwrap();
        let below = text.replace("/cgroup\"", "/cgroup/a\"");
        let below = below.replace("/a/web", "/web");
        fs::write(bench.file(), below).unwrap();
        bench.requests.send(Request::Reload).await.unwrap();
        // The module knows the cgroup by another path now.
        let ino = fs::metadata(bench.cgroup("/a/web")).unwrap().ino();
        bench.guest.with(|state| {
            state.pools.truncate(1);
            state.cgroups = Some(BTreeMap::from([("/web".into(), ino)]));
        });
        bench.until_enrolled("/web", 300).await;
    });
}

/// The port may be in use when the daemon starts.
#[test]
fn metrics_that_cannot_be_served_are_reported_and_tried_again() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let trouble = format!("no metrics at {address}: ");
    Bench::run(&format!("metrics = \"{address}\"\n{WEB}"), async |bench| {
        let status = format!("0 of 0 containers enrolled; {trouble}");
        while !bench
            .service
            .said()
            .iter()
            .any(|one| one.starts_with(&status))
        {
            sleep(Duration::from_millis(2)).await;
        }
        let stream = UnixStream::connect(bench.socket()).await.unwrap();
        let line = BufReader::new(stream).lines().next_line().await.unwrap();
        let report: Report = serde_json::from_str(&line.unwrap()).unwrap();
        assert!(report.not_open[0].starts_with(&trouble), "{report}");
        assert!(report.to_string().contains(&trouble), "{report}");
        drop(other);
        // The page is opened with the next change.
        bench.make("/a");
        bench.make("/a/web");
        bench.until_said("1 of 1 containers enrolled").await;
    });
}

#[test]
fn signs_of_life_are_given() {
    let bench = Bench::run("", async |bench| {
        bench.until_said("alive").await;
        bench.until_said("0 of 0 containers enrolled").await;
    });
    assert!(bench.service.said().contains(&"ready".to_owned()));
}

/// Makes a cgroup's files as the kernel would.
fn fill(bench: &Bench, path: &str, current: &str) {
    let directory = bench.cgroup(path);
    for (name, text) in [
        ("memory.current", current),
        ("memory.stat", "anon 1000\nfile 1000000000\n"),
        ("memory.pressure", "some avg10=0 avg60=0 avg300=0 total=0\n"),
        ("memory.low", "0\n"),
        ("memory.high", "max\n"),
        ("memory.max", "max\n"),
    ] {
        fs::write(directory.join(name), text).unwrap();
    }
}

#[test]
fn memory_is_limited_and_the_limit_is_undone() {
    let file = format!("{WEB}manage_memory = true\nmemory_ceiling = \"1G\"\n");
    let bench = Bench::run(&file, async |bench| {
        bench.make("/a");
        bench.make("/a/web");
        fill(&bench, "/a/web", "1000000000");
        let read = || fs::read_to_string(bench.cgroup("/a/web/memory.max")).unwrap();
        while read() != "1073741824" {
            sleep(Duration::from_millis(5)).await;
        }
        assert!(bench.directory.path().join("state/limits.json").exists());
    });
    let read = |name: &str| fs::read_to_string(bench.cgroup(&format!("/a/web/{name}"))).unwrap();
    assert_eq!(
        (read("memory.max"), read("memory.low")),
        // A file whose limit was never set is not rewritten.
        ("max".into(), "0\n".into())
    );
    assert!(!bench.directory.path().join("state/limits.json").exists());
}

/// The kernel refuses at first to restore a limit below the old root.
#[test]
fn a_limit_below_an_old_root_is_undone_late() {
    let file = format!("{WEB}manage_memory = true\nmemory_ceiling = \"1G\"\n");
    Bench::run(&file, async |bench| {
        bench.make("/a");
        bench.make("/a/web");
        fill(&bench, "/a/web", "1000000000");
        let max = bench.cgroup("/a/web/memory.max");
        let until = async |wanted: &str| {
            while !fs::read_to_string(&max).is_ok_and(|text| text == wanted) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        until("1073741824").await;
        fs::remove_file(&max).unwrap();
        fs::create_dir(&max).unwrap();
        let other = bench.directory.path().join("other");
        fs::create_dir(&other).unwrap();
        let text = fs::read_to_string(bench.file()).unwrap();
        let moved = text.replace(bench.cgroup("").to_str().unwrap(), other.to_str().unwrap());
        fs::write(bench.file(), moved).unwrap();
        bench.requests.send(Request::Reload).await.unwrap();
        bench.until_said("reloading").await;
        sleep(Duration::from_millis(100)).await;
        fs::remove_dir(&max).unwrap();
        fs::write(&max, "1073741824").unwrap();
        until("max").await;
        let journal = bench.directory.path().join("state/limits.json");
        while journal.exists() {
            sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn weights_by_hand_are_reported_too() {
    Bench::run(WEB, async |bench| {
        bench.until_said("ready").await;
        let stream = UnixStream::connect(bench.socket()).await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        bench.make("/a");
        bench.make("/a/web");
        // Nothing is measured here, so that reports follow from changes of pools.
        loop {
            let line = lines.next_line().await.unwrap().unwrap();
            let report: Report = serde_json::from_str(&line).unwrap();
            if report.module && report.containers.iter().any(|web| web.enrolled) {
                break;
            }
        }
    });
}

#[test]
fn the_state_is_reported() {
    let file = format!(
        "metrics = \"127.0.0.1:0\"\n{WEB}class = \"gold\"\n[container.target]\nthroughput = 5\n\
         source = {{ command = [\"/bin/sleep\", \"60\"] }}\n"
    );
    let bench = Bench::run(&file, async |bench| {
        bench.make("/a");
        bench.make("/a/web");
        fill(&bench, "/a/web", "4096");
        let stream = loop {
            match UnixStream::connect(bench.socket()).await {
                Ok(stream) => break stream,
                Err(_) => sleep(Duration::from_millis(5)).await,
            }
        };
        let mut lines = BufReader::new(stream).lines();
        loop {
            // Each measurement sends another line.
            let line = lines.next_line().await.unwrap().unwrap();
            let report: Report = serde_json::from_str(&line).unwrap();
            let [web] = &report.containers[..] else {
                continue;
            };
            assert_eq!((web.name.as_str(), web.class.as_str()), ("web", "gold"));
            if web.memory_bytes == 4096 {
                // The command hangs, which affects nothing else.
                assert_eq!(web.verdict, Verdict::Unmeasured);
                break;
            }
        }
    });
    assert!(!bench.socket().exists());
}
