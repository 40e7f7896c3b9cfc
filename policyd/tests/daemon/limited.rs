// SPDX-License-Identifier: GPL-2.0-only

//! A daemon that has set a limit: its report, and the limit after the daemon was killed.

use assert_cmd::cargo::cargo_bin_cmd;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The limit, as `memory.max` has it.
const CEILING: &str = "1073741824";
const PATIENCE: Duration = Duration::from_secs(30);

/// A tree with one cgroup, whose limit a daemon sets.
struct Site {
    directory: TempDir,
    cgroup: PathBuf,
}

impl Site {
    fn new(name: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let cgroup = directory.path().join("cgroup").join(name);
        fs::create_dir_all(&cgroup).unwrap();
        for (name, text) in [
            ("memory.current", "1048576"),
            ("memory.stat", "anon 4096\nfile 8192\n"),
            ("memory.low", "0"),
            ("memory.high", "max"),
            ("memory.max", "max"),
        ] {
            fs::write(cgroup.join(name), text).unwrap();
        }
        let text = format!(
            "interval_s = 0.1\nstatus_socket = \"\"\ncgroup_root = \"{}\"\n[[container]]\n\
             name = \"{{}}\"\ncgroup = \"/*\"\nclass = \"gold\"\nmanage_memory = true\n\
             memory_ceiling = \"1G\"\n",
            directory.path().join("cgroup").display()
        );
        fs::write(directory.path().join("policyd.toml"), text).unwrap();
        Self { directory, cgroup }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the value of `memory.max`.
    fn limit(&self) -> String {
        fs::read_to_string(self.cgroup.join("memory.max")).unwrap()
    }

    /// Waits until the limit is in force.
    fn limited(&self) {
        let end = Instant::now() + PATIENCE;
        while self.limit() != CEILING {
            assert!(Instant::now() < end, "{}", self.limit());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn program() -> PathBuf {
    cargo_bin_cmd!("policyd").get_program().into()
}

/// A process that is killed at the end.
struct Daemon(Child);

impl Daemon {
    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Users choose the names of cgroups, and administrators read the journal on a terminal.
#[test]
fn names_in_the_journal_are_shown_as_they_are_spelt() {
    let site = Site::new("web\u{1b}[2J\u{9b}31m\u{202e}x\u{200b}");
    let said = site.path("said");
    let run = |words: &[&str]| {
        let mut command = Command::new(program());
        command
            .args(words)
            .arg(site.path("policyd.toml"))
            .env("RUNTIME_DIRECTORY", site.directory.path())
            .stdout(Stdio::null())
            .stderr(
                File::options()
                    .append(true)
                    .create(true)
                    .open(&said)
                    .unwrap(),
            );
        command
    };
    let mut daemon = Daemon(run(&["run", "--config"]).spawn().unwrap());
    site.limited();
    daemon.kill();
    let state = site.directory.path().to_str().unwrap();
    let restored = run(&["restore", "--state", state, "--config"]).status();
    assert!(restored.unwrap().success());
    assert_eq!(site.limit(), "max");
    let said = fs::read_to_string(&said).unwrap();
    for words in ["guest memory limits cgroup=", "limits are restored"] {
        assert!(said.contains(words), "{said}");
    }
    let hidden = |letter: &char| ddnl::is_hidden(*letter) && *letter != '\n';
    assert_eq!(said.chars().find(hidden), None, "{said:?}");
}

/// A daemon that is started by hand, or by another manager than systemd, gets no directory for its
/// state. Its limits are still undone after it was killed.
#[test]
fn limits_of_a_daemon_without_a_manager_are_undone() {
    // The daemon gets its own `/run`, because this machine may run another one.
    const SCRIPT: &str = r#"mount -t tmpfs none /run || exit
        "$0" run --config "$1" & echo $! > "$2"
        wait
        exec "$0" restore --config "$1""#;
    let site = Site::new("web");
    let number = site.path("number");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", SCRIPT])
        .arg(program())
        .args([site.path("policyd.toml"), number.clone()])
        .env_remove("RUNTIME_DIRECTORY")
        .stderr(Stdio::null());
    let mut shell = command.spawn().unwrap();
    site.limited();
    let number = fs::read_to_string(&number).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(number).unwrap(), Signal::KILL).unwrap();
    assert!(shell.wait().unwrap().success());
    assert_eq!(site.limit(), "max");
}
