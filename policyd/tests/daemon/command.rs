// SPDX-License-Identifier: GPL-2.0-only

//! Tests of commands, and of the processes that they leave behind.

use crate::source::{figure_by, figure_of};
use policyd::measure::Origins;
use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Returns a number of seconds for which no other process of this machine sleeps.
fn seconds(of: u32) -> u32 {
    of * 100_000 + std::process::id() % 100_000
}

/// Returns the number of processes that sleep for `seconds`.
fn sleepers(seconds: u32) -> usize {
    let wanted = format!("sleep\0{seconds}\0");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|one| {
            fs::read(one.path().join("cmdline")).is_ok_and(|line| line == wanted.as_bytes())
        })
        .count()
}

/// Waits for at most a second until no process sleeps for `seconds`. Returns the number of those
/// left.
fn left(seconds: u32) -> usize {
    let end = Instant::now() + Duration::from_secs(1);
    while sleepers(seconds) > 0 && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    sleepers(seconds)
}

/// Processes that a command started end with it.
#[test]
fn nothing_is_left_of_a_command_that_hangs() {
    let seconds = seconds(1);
    let source = format!(
        "command = [\"/bin/sh\", \"-c\", \"sleep {seconds} | cat\"], timeout_s = 0.05, \
         every_s = 0.1"
    );
    assert_eq!(figure_of(&source, "web"), None);
    assert_eq!(left(seconds), 0);
    // The answer of a command counts although it leaves a process behind.
    let source =
        format!("command = [\"/bin/sh\", \"-c\", \"sleep {seconds} & echo 5\"], timeout_s = 10");
    assert_eq!(figure_of(&source, "web"), Some(5.0));
    assert_eq!(left(seconds), 0);
}

/// A service's cgroup, as systemd delegates it.
struct Service {
    base: PathBuf,
    proc: TempDir,
    root: PathBuf,
}

impl Service {
    /// Creates it in the first mounted hierarchy of cgroup v2.
    fn new() -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let fields = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>());
        let root = fields.filter(|fields| fields[2] == "cgroup2");
        let root = root.map(|fields| PathBuf::from(fields[1])).next();
        let root = root.expect("this test needs cgroup v2");
        let name = format!("policyd-test-{}", std::process::id());
        let base = root.join(&name);
        fs::create_dir(&base).expect("this test needs to make cgroups");
        let proc = TempDir::new().unwrap();
        fs::create_dir(proc.path().join("self")).unwrap();
        let own = format!("7:pids:/x\n0::/{name}/daemon\n");
        fs::write(proc.path().join("self/cgroup"), own).unwrap();
        Self { base, proc, root }
    }

    fn origins(&self) -> Origins {
        Origins::new(self.proc.path(), &self.root)
    }

    /// Returns the number of commands' cgroups.
    fn commands(&self) -> usize {
        let entries = fs::read_dir(&self.base).unwrap().flatten();
        entries
            .filter(|entry| entry.file_type().unwrap().is_dir())
            .count()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let entries = fs::read_dir(&self.base).unwrap().flatten();
        for entry in entries.filter(|entry| entry.file_type().unwrap().is_dir()) {
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(&self.base);
    }
}

/// A process that leaves its process group and its parent stays in the cgroup.
#[test]
fn nothing_escapes_from_a_cgroup() {
    let service = Service::new();
    let stale = service.base.join("command-0");
    fs::create_dir_all(stale.join("below")).unwrap();
    let seconds = seconds(2);
    let escape = format!("setsid sh -c 'sleep {seconds} & exit' > /dev/null");
    let source = format!("command = [\"/bin/sh\", \"-c\", \"{escape}; echo 6\"], timeout_s = 10");
    assert_eq!(figure_by(service.origins(), &source, "web"), Some(6.0));
    assert_eq!(left(seconds), 0);
    let source = format!(
        "command = [\"/bin/sh\", \"-c\", \"{escape}; sleep {seconds}\"], timeout_s = 0.2, \
         every_s = 0.3"
    );
    assert_eq!(figure_by(service.origins(), &source, "web"), None);
    assert_eq!(left(seconds), 0);
    // A cgroup that could not be removed at once is removed before the next command, and by the
    // next daemon.
    let source = "command = [\"/bin/echo\", \"8\"]";
    assert_eq!(figure_by(service.origins(), source, "web"), Some(8.0));
    assert!(service.commands() <= 1, "{}", service.commands());
    let wrong = "command = [\"/does/not/exist\"]";
    assert_eq!(figure_by(service.origins(), wrong, "web"), None);
}
