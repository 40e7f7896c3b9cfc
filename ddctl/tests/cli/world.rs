// SPDX-License-Identifier: GPL-2.0-only

//! A machine in memory, and two examples: a busy host and a busy guest.

use ddabi::{
    counters::{AdmissionCounters, CurvePoint, GuestCounters, HostCounters},
    pool::PoolStats,
};
use ddctl::System;
use ddnl::{
    Event, EventSource, GuestControl, HostControl, Policy, Pool, Result, Side, Vm,
    fake::{self, FakeEvents, FakeGuest, FakeHost, Fault, GuestState, HostState},
};
use rustix::process::Pid;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    path::PathBuf,
    rc::Rc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;

/// A machine in memory. Files are under a directory of its own.
pub(crate) struct World {
    pub host: FakeHost,
    pub guest: FakeGuest,
    pub events: RefCell<Vec<Event>>,
    pub root: TempDir,
    pub terminal: bool,
    /// The number of columns of the terminal.
    pub columns: Option<u16>,
    /// Environment variables.
    pub variables: BTreeMap<&'static str, &'static str>,
    /// Called when a verb waits.
    pub meanwhile: RefCell<Box<dyn FnMut()>>,
    /// The difference between the time of day and its initial setting.
    pub step: Rc<Cell<Duration>>,
    /// Signatures of hypervisors.
    pub hypervisors: Vec<String>,
    /// Called with the process that gets SIGHUP.
    pub hang_up: RefCell<Box<dyn FnMut(Pid)>>,
    clock: Cell<SystemTime>,
}

impl World {
    /// A machine without modules, with 8 GiB of memory.
    pub(crate) fn new() -> Self {
        let absent = |fault: &mut Fault| *fault = Fault::Absent;
        let world = Self {
            host: FakeHost::default(),
            guest: FakeGuest::default(),
            events: RefCell::default(),
            root: TempDir::new().unwrap(),
            terminal: false,
            columns: None,
            variables: BTreeMap::new(),
            meanwhile: RefCell::new(Box::new(|| {})),
            step: Rc::default(),
            hypervisors: Vec::new(),
            hang_up: RefCell::new(Box::new(|_| panic!("no daemon is there"))),
            clock: Cell::new(UNIX_EPOCH + Duration::from_secs(1_800_000_000)),
        };
        world.host.with(|state| absent(&mut state.fault));
        world.guest.with(|state| absent(&mut state.fault));
        world.file(
            "/proc/meminfo",
            "MemTotal:        8388608 kB\nMemFree: 1 kB\n",
        );
        world
    }

    /// A host with three VMs.
    pub(crate) fn host() -> Self {
        let world = Self::new();
        world.host.with(|state| *state = busy_host());
        let qemu = "qemu-system-x86_64\0-name\0guest=web,debug-threads=on\0-uuid\0\
                    6b0a5e44-1f0e-4b62-9d0c-0d9e6f6f0a11\0";
        world.file("/proc/4001/cmdline", qemu);
        world.file("/proc/4002/cmdline", "/usr/bin/firecracker\0--id\0mail\0");
        for (pid, uid) in [(4001, 107), (4002, 1000)] {
            let status = format!("Name:\tvmm\nPid:\t{pid}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n");
            world.file(&format!("/proc/{pid}/status"), &status);
        }
        world
    }

    /// A guest with two containers.
    pub(crate) fn guest() -> Self {
        let world = Self::new();
        world.guest.with(|state| *state = busy_guest());
        world
    }

    /// Writes a file.
    pub(crate) fn file(&self, path: &str, text: &str) {
        let path = System::file(self, path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Returns the path of a file of this machine.
    pub(crate) fn file_path(&self, path: &str) -> PathBuf {
        System::file(self, path)
    }

    /// Runs a command line. Returns its output and its exit code as text, in which each array of
    /// numbers has one line.
    pub(crate) fn run(&self, line: &str) -> String {
        let outcome = self.outcome(line);
        let mut text = format!("$ ddctl {line}\n{}", joined(&outcome.out));
        for line in outcome.err.lines() {
            text.push_str(&format!("! {line}\n"));
        }
        text.push_str(&format!("= {}\n", outcome.code));
        text
    }

    /// Runs a command line. Returns the parts of its result.
    pub(crate) fn outcome(&self, line: &str) -> Outcome {
        let arguments = std::iter::once("ddctl").chain(line.split_whitespace());
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = ddctl::run(arguments.map(Into::into), self, &mut out, &mut err);
        Outcome {
            out: String::from_utf8(out).unwrap(),
            err: String::from_utf8(err).unwrap(),
            code,
        }
    }

    /// Runs several command lines. Returns each answer once, below all lines that it was given to.
    pub(crate) fn answers(&self, lines: &[&str]) -> String {
        let mut answers: Vec<(String, String)> = Vec::new();
        for line in lines {
            let run = self.run(line);
            let (asked, answer) = run.split_once('\n').unwrap();
            match answers.iter_mut().find(|(_, same)| same == answer) {
                Some((lines, _)) => *lines += &format!("{asked}\n"),
                None => answers.push((format!("{asked}\n"), answer.into())),
            }
        }
        let answers = answers.into_iter().map(|(lines, answer)| lines + &answer);
        answers.collect::<Vec<_>>().join("\n")
    }

    /// Runs several command lines.
    pub(crate) fn runs(&self, lines: &[&str]) -> String {
        let runs: Vec<String> = lines.iter().map(|line| self.run(line)).collect();
        runs.join("\n")
    }
}

/// Joins the lines of arrays of numbers in formatted JSON.
fn joined(json: &str) -> String {
    let is_number = |line: &&str| line.trim_end_matches(',').parse::<f64>().is_ok();
    let mut text = String::new();
    let mut lines = json.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let mut numbers = Vec::new();
        if line.ends_with("[\n") {
            while let Some(number) = lines.next_if(|next| is_number(&next.trim())) {
                numbers.push(number.trim());
            }
        }
        match numbers.is_empty() {
            true => text += line,
            false => {
                let end = lines.next().unwrap_or_default().trim_start();
                text += &format!("{}{}{end}", line.trim_end(), numbers.join(" "));
            }
        }
    }
    text
}

/// The result of a run.
pub(crate) struct Outcome {
    pub out: String,
    pub err: String,
    pub code: u8,
}

impl System for World {
    fn host(&self) -> Result<Box<dyn HostControl>> {
        match self.host.with(|state| state.fault) {
            Fault::Absent => Err(ddnl::Error::NotLoaded { side: Side::Host }),
            _ => Ok(Box::new(self.host.clone())),
        }
    }

    fn guest(&self) -> Result<Box<dyn GuestControl>> {
        match self.guest.with(|state| state.fault) {
            Fault::Absent => Err(ddnl::Error::NotLoaded { side: Side::Guest }),
            _ => Ok(Box::new(self.guest.clone())),
        }
    }

    fn events(&self, _: Side) -> Result<Box<dyn EventSource>> {
        Ok(Box::new(FakeEvents::new(self.events.take())))
    }

    fn file(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn now(&self) -> SystemTime {
        self.clock.get() + self.step.get()
    }

    fn uptime(&self) -> Duration {
        self.clock.get().duration_since(UNIX_EPOCH).unwrap()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.set(self.clock.get() + duration);
        (self.meanwhile.borrow_mut())();
    }

    fn hang_up(&self, pid: Pid) -> io::Result<()> {
        (self.hang_up.borrow_mut())(pid);
        Ok(())
    }

    fn hypervisors(&self) -> Vec<String> {
        self.hypervisors.clone()
    }

    fn terminal(&self) -> bool {
        self.terminal
    }

    fn columns(&self) -> Option<u16> {
        self.columns
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).map(Into::into)
    }
}

fn busy_host() -> HostState {
    let mut state = HostState::default();
    let vm = |id: u32, weight: u32, used: u64| Vm {
        ssd_weight: weight,
        id,
        pid: 4000 + id,
        weight,
        used,
        entitlement: 0,
        pools: 2,
        stats: stats(weight, used),
    };
    state.vms = vec![vm(1, 60, 81_920), vm(2, 40, 40_000), vm(3, 0, 0)];
    state.pools = vec![
        pool(Some(1), 0, "default", 100, 1_920),
        pool(Some(1), 1, "nginx", 300, 80_000),
        pool(Some(2), 0, "", 100, 40_000),
        pool(Some(3), 0, "default", 100, 0),
        pool(Some(3), 7, "a/b", 10_000, 0),
    ];
    for vm in &mut state.vms {
        vm.entitlement = state.status.limit * u64::from(vm.weight) / 100;
        entitle(
            state.pools.iter_mut().filter(|pool| pool.vm == Some(vm.id)),
            vm.entitlement,
        );
    }
    state.status.used = 121_920;
    state.status.floor = 32_768;
    state.status.counters = HostCounters {
        calls: 123_456,
        refused_invalid: 3,
        refused_unsupported: 1,
        evicted: 70_000,
        index_bytes: 7_900_000,
        ..HostCounters::default()
    };
    state
}

fn busy_guest() -> GuestState {
    let mut state = GuestState::default();
    state.status.counters = GuestCounters {
        calls: 5_000,
        put_offered: 40_000,
        put_stored: 39_000,
        put_skipped_page: 700,
        put_skipped_off: 300,
        read_absent: 1_000_000,
        get_asked: 30_000,
        get_hits: 29_500,
        map_files: 321,
        map_pages: 9_500,
        map_bytes: 100_000,
        ..GuestCounters::default()
    };
    let enrolled = |id: u32, name: &str, weight: u32, used: u64| Pool {
        cgroup_id: Some(900 + u64::from(id)),
        cgroup: Some(format!("/system.slice/{name}.service")),
        policy: Policy::Tinylfu,
        ssd_admit: ddabi::pool::SsdAdmit::All,
        admission: Some(AdmissionCounters {
            offered: used * 4,
            refused_policy: used - used / 10,
            refused_throttle: used / 10,
            reads: used * 5,
            history_bytes: 300_000,
            curve_error_permille: 20,
            ..AdmissionCounters::default()
        }),
        curve: Some(
            (1..20)
                .map(|n| CurvePoint {
                    pages: n * used / 10,
                    hits: used * 3 - used * 3 / n,
                })
                .collect(),
        ),
        ..pool(None, id, name, weight, used)
    };
    state.pools.extend([
        enrolled(1, "nginx", 300, 9_000),
        enrolled(2, "postgres", 100, 500),
    ]);
    entitle(state.pools.iter_mut(), 1 << 17);
    state
}

/// Divides what a VM is entitled to among its containers by their weights.
fn entitle<'a>(pools: impl Iterator<Item = &'a mut Pool>, pages: u64) {
    let pools: Vec<_> = pools.collect();
    let all: u64 = pools.iter().map(|pool| u64::from(pool.weight)).sum();
    for pool in pools {
        if let Some(stats) = &mut pool.stats {
            stats.entitlement = pages * u64::from(pool.weight) / all;
        }
    }
}

/// A pool in use.
pub(crate) fn pool(vm: Option<u32>, id: u32, name: &str, weight: u32, used: u64) -> Pool {
    Pool {
        vm,
        weight,
        ssd_weight: weight,
        ..fake::pool(0, id, name, stats(weight, used))
    }
}

fn stats(weight: u32, used: u64) -> PoolStats {
    let mut stats = PoolStats {
        weight: weight.into(),
        used,
        puts: used * 3,
        put_refused_off: used / 1000,
        gets: used * 2,
        hits: used + used / 2,
        misses: used / 2,
        evictions: used / 2,
        get_batches: used / 50,
        put_batches: used / 20,
        ..PoolStats::default()
    };
    if used > 0 {
        stats.get_latency[15] = used / 50;
        stats.get_latency[21] = 1;
        stats.put_latency[12] = used / 20;
    }
    stats
}
