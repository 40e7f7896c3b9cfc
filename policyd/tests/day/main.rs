// SPDX-License-Identifier: GPL-2.0-only

//! A day of the whole daemon in a separate process. Its memory, descriptors, threads and processes
//! do not grow, and nothing is left behind. Simulated time passes as soon as the daemon is idle;
//! directories, announcements, sources and limits are real.

mod holdings;

use dddaemon::{event_loop::Request, service::Service};
use ddnl::{
    Result, Side,
    fake::{FakeGuest, Fault, GuestState},
};
use holdings::Holdings;
use policyd::{
    module::{Change, GuestAccess},
    runtime::{BLOCKING_THREADS, Paths, Runtime},
};
use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    thread,
    time::Duration,
};
use tempfile::TempDir;
use tokio::{net::UnixStream, sync::mpsc, time::sleep};

const HOURS: u64 = 24;
const MINUTES: u64 = 60;
const MINUTE: Duration = Duration::from_secs(60);
/// Maximum number of containers at a time.
const MAX_CONTAINERS: usize = 8;
/// Hours after which every kind of state has been held at least once.
const BEGIN: u64 = 4;
/// Files of limits, and their values before policyd writes to them.
const LIMITS: [(&str, &str); 3] = [
    ("memory.low", "0\n"),
    ("memory.high", "max\n"),
    ("memory.max", "max\n"),
];

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

/// A service manager that ignores all messages.
struct Alone;

impl Service for Alone {
    fn ready(&mut self) {}
    fn reloading(&mut self) {}
    fn stopping(&mut self) {}
    fn status(&mut self, _: &str) {}
    fn alive(&mut self) {}

    fn alive_every(&self) -> Option<Duration> {
        None
    }
}

/// A machine with a running daemon.
struct Site {
    directory: TempDir,
    guest: FakeGuest,
    changes: mpsc::Sender<Change>,
    requests: mpsc::Sender<Request>,
    /// The address of an exporter.
    exporter: SocketAddr,
    live: Vec<String>,
    /// Names that were given to containers.
    names: usize,
    /// Readers of the status that stay for some time.
    readers: Vec<UnixStream>,
    random: u64,
}

/// An exporter of which every fourth answer is garbage.
fn exporter() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 1024]);
            let page = match number % 4 {
                0 => "\u{1b}ops".to_owned(),
                _ => format!("ops {number}\n"),
            };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", page.len());
            let _ = stream.write_all((head + &page).as_bytes());
        }
    });
    address
}

impl Site {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn cgroup(&self, cgroup: &str) -> PathBuf {
        self.path("cgroup").join(&cgroup[1..])
    }

    /// Returns a pseudo-random number below `most`.
    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as usize % bound
    }

    /// Writes one of the files of containers.
    fn configure(&self, number: usize) {
        let target = |source: &str| {
            format!("target = {{ throughput = 50, source = {{ {source}, timeout_s = 50 }} }}\n")
        };
        let container = |glob: &str, more: &str| {
            format!(
                "[[container]]\nname = \"c {{}}\"\ncgroup = \"/c/{glob}\"\nclass = \"gold\"\n\
                 manage_memory = true\nmemory_ceiling = \"1G\"\n{more}"
            )
        };
        let containers = match number {
            0 => [
                "[reclaim]\n[offload]\n".to_owned(),
                container("*[0-4]", &target("file = \"/proc/uptime\"")),
                container(
                    "*[5-8]",
                    &target(&format!(
                        "http = \"http://{}/\", metric = \"ops\"",
                        self.exporter
                    )),
                ),
                container(
                    "*",
                    &target(&format!(
                        "command = [\"/bin/sh\", \"-c\", \"sleep {} & echo 5\"]",
                        holdings::long()
                    )),
                ),
            ]
            .concat(),
            1 => "[[container]]\nname = \"b {}\"\ncgroup = \"/c/*[02468]\"\nclass = \"bronze\"\n\
                  manage_memory = true\n[[container]]\nname = \"c {}\"\ncgroup = \"/c/*\"\n\
                  target = { refault_rate = 10, io_pressure = 5 }\n"
                .into(),
            2 => "[[container]]\nname = \"by hand {}\"\ncgroup = \"/c/*\"\n".into(),
            _ => String::new(),
        };
        let text = format!(
            "interval_s = 60\ncgroup_root = \"{}\"\nstatus_socket = \"{}\"\n{containers}",
            self.path("cgroup").display(),
            self.path("socket").display()
        );
        fs::write(self.path("policyd.toml"), text).unwrap();
    }

    fn come(&mut self) {
        let cgroup = format!("/c/{}", self.names);
        self.names += 1;
        let directory = self.cgroup(&cgroup);
        self.guest.with(|state| {
            fs::create_dir(&directory).unwrap();
            let number = fs::metadata(&directory).unwrap().ino();
            let cgroups = state.cgroups.as_mut().unwrap();
            cgroups.insert(cgroup.clone(), number);
        });
        for (name, says) in LIMITS {
            fs::write(directory.join(name), says).unwrap();
        }
        fs::write(directory.join("memory.reclaim"), "").unwrap();
        fs::write(directory.join("memory.current"), "209715200\n").unwrap();
        self.live.push(cgroup);
    }

    fn go(&mut self) {
        let at = self.below(self.live.len());
        let cgroup = self.live.swap_remove(at);
        let directory = self.cgroup(&cgroup);
        self.guest.with(|state| {
            fs::remove_dir_all(directory).unwrap();
            state.remove_cgroup(&cgroup);
        });
    }

    /// Advances the counters. Memory is short for the first quarter of each hour.
    fn work(&mut self, minute: u64) {
        let short = minute % MINUTES < MINUTES / 4;
        let available = if short { 200_000 } else { 3_000_000 };
        let memory =
            format!("MemTotal: 4000000 kB\nMemAvailable: {available} kB\nSwapFree: 9 kB\n");
        fs::write(self.path("proc/meminfo"), memory).unwrap();
        for cgroup in self.live.clone() {
            let refaults = minute * (1 + self.below(1000) as u64);
            let stat = format!(
                "anon 41943040\nfile 167772160\nshmem 0\nworkingset_refault_file {refaults}\n"
            );
            let directory = self.cgroup(&cgroup);
            fs::write(directory.join("memory.stat"), stat).unwrap();
            let stall = format!("some avg10=0 total={}\n", minute * 1_000_000);
            fs::write(directory.join("io.pressure"), stall).unwrap();
        }
        self.guest.with(|state| {
            for pool in &mut state.pools {
                let stats = pool.stats.get_or_insert_default();
                stats.entitlement = u64::from(pool.weight) * 26;
                stats.used = stats.entitlement;
                stats.gets += 100;
            }
        });
    }

    /// Causes the events of a minute.
    async fn disturb(&mut self) {
        match self.below(100) {
            0..4 => {
                let file = self.below(3);
                self.configure(file);
                self.requests.send(Request::Reload).await.unwrap();
            }
            4..6 => {
                self.guest.with(GuestState::reload);
                self.changes.send(Change::Went).await.unwrap();
                self.changes.send(Change::Came).await.unwrap();
            }
            6 => self.changes.send(Change::Session).await.unwrap(),
            7..12 => {
                let reader = UnixStream::connect(self.path("socket")).await;
                self.readers.push(reader.unwrap());
            }
            12..17 => self.readers.truncate(3),
            17..20 => {
                // A burst of cgroups that are removed as soon as they are created.
                for number in 0..100 {
                    let directory = self.cgroup(&format!("/c/burst-{number}"));
                    fs::create_dir(&directory).unwrap();
                    fs::remove_dir(&directory).unwrap();
                }
            }
            _ => {}
        }
    }

    /// Runs a day. Returns the resources at the end of each hour.
    async fn live(&mut self) -> Vec<Holdings> {
        let mut hours = Vec::new();
        for minute in 0..HOURS * MINUTES {
            let few = self.live.len() < MAX_CONTAINERS / 2;
            if few || (self.live.len() < MAX_CONTAINERS && self.below(2) == 0) {
                self.come();
            } else {
                self.go();
            }
            self.work(minute);
            self.disturb().await;
            sleep(MINUTE).await;
            // The daemon holds most resources while memory is short.
            if minute % MINUTES == MINUTES / 4 - 1 {
                let mut held = Holdings::now();
                held.journal = fs::metadata(self.path("state/limits.json"))
                    .map_or(0, |journal| journal.len() as usize);
                hours.push(held);
            }
        }
        hours
    }
}

#[test]
fn a_day_leaves_nothing_behind() {
    let (changes, changed) = mpsc::channel(8);
    let (requests, requested) = mpsc::channel(8);
    let mut site = Site {
        directory: TempDir::new().unwrap(),
        guest: FakeGuest::default(),
        changes,
        requests,
        exporter: exporter(),
        live: Vec::new(),
        names: 0,
        readers: Vec::new(),
        random: 0x9E37_79B9_7F4A_7C15,
    };
    site.guest
        .with(|state| state.cgroups = Some(BTreeMap::new()));
    for name in ["cgroup/c", "proc", "state"] {
        fs::create_dir_all(site.path(name)).unwrap();
    }
    fs::write(site.path("cgroup/cgroup.controllers"), "memory").unwrap();
    site.configure(0);
    let module = FakeModule {
        guest: site.guest.clone(),
        changes: changed,
    };
    let paths = Paths {
        proc: site.path("proc"),
        root: site.path(""),
        state: Some(site.path("state")),
    };
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        // Otherwise the number of threads would depend on how busy the machine is.
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .unwrap();
    let before = Holdings::now();
    let hours = tokio.block_on(async {
        let daemon = Runtime::new(&site.path("policyd.toml"), module, Alone, paths).unwrap();
        let day = async {
            let hours = site.live().await;
            site.readers.clear();
            site.configure(3);
            site.requests.send(Request::Reload).await.unwrap();
            sleep(10 * MINUTE).await;
            // Processes that commands leave behind are killed a little after the commands end, in
            // real time.
            let after = Holdings::settled(&before).await;
            site.requests.send(Request::Stop).await.unwrap();
            (hours, after)
        };
        let (result, (hours, after)) = tokio::join!(daemon.run(requested), day);
        result.unwrap();
        assert!(after.processes == 0, "{after:?}");
        assert!(after.descriptors <= before.descriptors + 16, "{after:?}");
        hours
    });
    assert!(site.names > 700, "{}", site.names);
    let limited = hours.iter().filter(|hour| hour.journal > 0).count();
    assert!(limited > 4, "hardly anything was limited: {hours:#?}");
    let (first, rest) = hours.split_at(BEGIN as usize);
    let first = Holdings::most(first);
    let rest = Holdings::most(rest);
    // The amounts vary, but do not grow from hour to hour.
    assert!(rest.memory_kib <= first.memory_kib + 2048, "{hours:#?}");
    assert!(rest.descriptors <= first.descriptors + 32, "{hours:#?}");
    let threads = before.threads + BLOCKING_THREADS;
    assert!(rest.threads <= threads, "{before:?} {hours:#?}");
    assert!(rest.processes <= 32, "{hours:#?}");
    assert!(rest.journal <= 8 << 10, "{hours:#?}");
    // Only the default pool exists, and limits have their original values.
    assert_eq!(site.guest.with(|state| state.pools.len()), 1);
    assert!(!site.path("state/limits.json").exists());
    for cgroup in &site.live {
        for (name, says) in LIMITS {
            let file = site.cgroup(cgroup).join(name);
            assert_eq!(fs::read_to_string(file).unwrap().trim(), says.trim());
        }
    }
}
