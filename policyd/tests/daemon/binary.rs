// SPDX-License-Identifier: GPL-2.0-only

//! Tests of the program: exit codes, signals, and messages to a service manager.

use assert_cmd::cargo::{cargo_bin, cargo_bin_cmd};
use dddaemon::fake::{self, Manager};
use insta::assert_snapshot;
use rustix::process::Signal;
use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

#[test]
fn a_missing_file_is_reported() {
    let mut command = cargo_bin_cmd!("policyd");
    let output = command.args(["check", "/does/not/exist.toml"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("cannot read /does/not/exist.toml"), "{text}");
}

#[test]
fn usage_errors_exit_with_2() {
    cargo_bin_cmd!("policyd").arg("frobnicate").assert().code(2);
}

/// Starts the daemon with these containers, below the directory `cgroup`.
fn start(directory: &Path, containers: &str) -> Manager {
    let file = directory.join("policyd.toml");
    let root = directory.join("cgroup");
    fs::create_dir_all(&root).unwrap();
    let socket = directory.join("policyd.sock");
    let text = format!(
        "cgroup_root = \"{}\"\nstatus_socket = \"{}\"\n{containers}",
        root.display(),
        socket.display()
    );
    fs::write(&file, text).unwrap();
    Manager::start(cargo_bin!("policyd"), &file, directory)
}

/// Returns the daemon's peak of anonymous memory in MiB. Pages of the program are not counted.
fn memory_mib(manager: &Manager) -> f64 {
    let path = format!("/proc/{}/status", manager.daemon.id());
    let status = fs::read_to_string(path).unwrap();
    let kib = |key: &str| -> f64 {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let number = line.unwrap().split_whitespace().next().unwrap();
        number.parse().unwrap()
    };
    (kib("VmHWM:") - kib("RssFile:")) / 1024.0
}

#[test]
fn it_talks_to_its_manager() {
    let directory = TempDir::new().unwrap();
    let mut manager = start(directory.path(), "");
    manager.wait_for("READY=1");
    manager.wait_for("WATCHDOG=1");
    manager.signal(Signal::HUP);
    manager.wait_for("RELOADING=1");
    manager.wait_for("READY=1");
    manager.signal(Signal::TERM);
    manager.wait_for("STOPPING=1");
    assert_eq!(manager.daemon.wait().unwrap().code(), Some(0));
}

/// The file that the packages install has no address.
#[test]
fn the_page_is_served_where_the_file_says() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/policyd.toml");
    let example = fs::read_to_string(example).unwrap();
    let directory = TempDir::new().unwrap();
    fake::assert_page_is_asked_for(|line| start(directory.path(), &format!("{line}{example}")));
}

/// The unit starts the program, and has the privileges that it needs.
#[test]
fn the_unit_is_sound() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/doubledecker-policyd.service");
    let lines = [
        "Type=notify",
        "WatchdogSec=",
        "CapabilityBoundingSet=CAP_NET_ADMIN",
        "RestrictAddressFamilies=AF_NETLINK AF_UNIX AF_INET AF_INET6",
        "ExecReload=",
        // A command of the file that uses too much memory does not end the daemon.
        "OOMPolicy=continue",
        // A command that forks without end does not end the daemon either: commands run in a cgroup
        // of their own, which has limits.
        "Delegate=memory pids\nDelegateSubgroup=daemon",
        // Commands share what the daemon leaves of these.
        "MemoryMax=384M",
        "TasksMax=128",
    ];
    fake::assert_unit(Path::new(unit), &lines);
}

#[test]
fn a_dry_run_changes_nothing() {
    let directory = TempDir::new().unwrap();
    let web = directory.path().join("cgroup/web");
    fs::create_dir_all(&web).unwrap();
    for (name, text) in [
        ("memory.current", "1048576"),
        ("memory.stat", "anon 4096\nfile 8192\n"),
        ("memory.low", "0"),
        ("memory.high", "max"),
        ("memory.max", "max"),
    ] {
        fs::write(web.join(name), text).unwrap();
    }
    let file = directory.path().join("policyd.toml");
    let text = format!(
        "interval_s = 0.1\ncgroup_root = \"{}\"\n[[container]]\nname = \"web\"\n\
         cgroup = \"/web\"\nclass = \"gold\"\nmanage_memory = true\nmemory_ceiling = \"1G\"\n\
         target = {{ hit_ratio = 0.5 }}\n",
        directory.path().join("cgroup").display()
    );
    fs::write(&file, text).unwrap();
    let mut command = cargo_bin_cmd!("policyd");
    command.args(["dry-run", "--config"]).arg(&file);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_snapshot!(String::from_utf8(output.stdout).unwrap());
    assert_eq!(fs::read_to_string(web.join("memory.max")).unwrap(), "max");
}

/// A program that tries a file reads from the exit code whether the VM suffices for it.
#[test]
fn a_dry_run_fails_if_a_target_cannot_be_met() {
    let directory = TempDir::new().unwrap();
    let figure = directory.path().join("figure");
    fs::write(&figure, "10\n").unwrap();
    for name in ["web", "db"] {
        let cgroup = directory.path().join("cgroup").join(name);
        fs::create_dir_all(&cgroup).unwrap();
        fs::write(cgroup.join("memory.current"), "1048576").unwrap();
        fs::write(cgroup.join("memory.stat"), "anon 4096\nfile 1044480\n").unwrap();
    }
    let container = |name: &str, more: &str, target: u32| {
        format!(
            "[[container]]\nname = \"{name}\"\ncgroup = \"/{name}\"\n{more}[container.target]\n\
             throughput = {target}\nsource = {{ file = \"{}\", kind = \"gauge\" }}\n",
            figure.display()
        )
    };
    let file = directory.path().join("policyd.toml");
    let head = format!(
        "interval_s = 0.1\ncgroup_root = \"{}\"\n",
        directory.path().join("cgroup").display()
    );
    let uncached = "store = \"none\"\n";
    let managed = "store = \"none\"\nmanage_memory = true\n";
    for (more, web, code, error) in [
        (
            "",
            1000,
            3,
            "Error: container `web` (/web): target missed: this VM has no share of a host's store\n",
        ),
        (
            uncached,
            1000,
            3,
            "Error: container `web` (/web): target missed: only guest memory can help it, and \
             policyd never changes that without `manage_memory = true`\n",
        ),
        (managed, 1000, 0, ""),
        (uncached, 9, 0, ""),
        ("", 9, 0, ""),
    ] {
        let text = format!(
            "{head}{}{}",
            container("web", more, web),
            container("db", "", 5)
        );
        fs::write(&file, text).unwrap();
        let mut command = cargo_bin_cmd!("policyd");
        command.args(["dry-run", "--config"]).arg(&file);
        let output = command.output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        // The log has warnings about the machine.
        let told: String = told
            .split_inclusive('\n')
            .filter(|line| !line.starts_with(" WARN "))
            .collect();
        assert_eq!((output.status.code(), told.as_str()), (Some(code), error));
        let mut command = cargo_bin_cmd!("policyd");
        command.args(["dry-run", "--json", "--config"]).arg(&file);
        let json = command.output().unwrap();
        assert_eq!(json.status.code(), Some(code));
        if code == 0 {
            assert!(json.stderr.is_empty(), "{json:?}");
        } else {
            let told: serde_json::Value = serde_json::from_slice(&json.stderr).unwrap();
            let message = error.trim_start_matches("Error: ").trim_end();
            assert_eq!(told["error"]["message"], message);
            assert_eq!(told["error"]["kind"], "unmet");
        }
        let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(report["report"]["containers"][1]["name"], "web");
        // The report comes before the error.
        let report = String::from_utf8(output.stdout).unwrap();
        assert!(report.contains("web  (silver, /web)"), "{report}");
    }
}

#[test]
fn the_version_is_that_of_the_modules() {
    let version = format!("policyd {}\n", ddabi::VERSION);
    let mut command = cargo_bin_cmd!("policyd");
    command.arg("--version").assert().success().stdout(version);
}

/// Runs policyd, which must fail, and returns its message.
fn failure(command: &[&str], file: &Path, more: &[&OsStr]) -> String {
    let mut policyd = cargo_bin_cmd!("policyd");
    let output = policyd.args(command).arg(file).args(more).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_dry_run_without_cgroups_fails() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("policyd.toml");
    fs::write(&file, "cgroup_root = \"/does/not/exist\"\n").unwrap();
    let text = failure(&["dry-run", "--config"], &file, &[]);
    let error = "Error: there are no cgroups in /does/not/exist";
    assert!(text.contains(error), "{text}");
}

/// Limits are undone as far as possible without the file.
#[test]
fn restore_works_without_a_readable_file() {
    let state = TempDir::new().unwrap();
    let more = ["--state".as_ref(), state.path().as_os_str()];
    let file = Path::new("/does/not/exist");
    let text = failure(&["restore", "--config"], file, &more);
    let error = "limits were undone in /sys/fs/cgroup: cannot read /does/not/exist";
    assert!(text.contains(error), "{text}");
}

#[test]
fn explain_without_a_daemon_fails() {
    let mut command = cargo_bin_cmd!("policyd");
    let output = command
        .args(["explain", "--socket", "/does/not/exist"])
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(5));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        text,
        "Error: cannot ask /does/not/exist; does policyd run?: No such file or directory (os error \
         2)\nHint: `systemctl status doubledecker-policyd` shows whether it runs\n"
    );
}

/// A program that reads JSON gets the error as JSON, too.
#[test]
fn errors_are_json_on_request() {
    let error = |arguments: &[&str]| -> serde_json::Value {
        let output = cargo_bin_cmd!("policyd").args(arguments).output().unwrap();
        assert!(output.stdout.is_empty(), "{output:?}");
        let line: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
        let code = output.status.code().map(i64::from);
        assert_eq!(line["error"]["exit_code"].as_i64(), code);
        assert_eq!(line["schema_version"], 1);
        line["error"].clone()
    };
    let told = error(&["explain", "--json", "--socket", "/does/not/exist"]);
    assert_eq!(told["kind"], "not-found");
    let message = told["message"].as_str().unwrap();
    assert!(message.starts_with("cannot ask /does/not/exist; does policyd run?"));
    let told = error(&["dry-run", "--json", "--config", "/does/not/exist"]);
    assert_eq!(
        (&told["kind"], &told["exit_code"]),
        (&"failed".into(), &1.into())
    );
    let told = error(&["explain", "--json", "--soket", "/x"]);
    assert_eq!(
        (&told["kind"], &told["exit_code"]),
        (&"usage".into(), &2.into())
    );
    assert!(told["hint"].as_str().unwrap().contains("--help"));
}

#[test]
fn every_help_has_examples_and_fits() {
    fake::assert_help(policyd::cli::command());
}

/// Cgroups that a user creates below a delegated one cost hardly any memory.
#[test]
fn a_forest_of_cgroups_is_not_kept() {
    const DEEPEST: usize = 4000;
    let directory = TempDir::new().unwrap();
    let user = "cgroup/user.slice/user-1000.slice/user@1000.service";
    for chain in 0..6 {
        let mut path = directory.path().join(user).join(chain.to_string());
        fs::create_dir_all(&path).unwrap();
        while path.as_os_str().len() < DEEPEST {
            path.push("a");
            fs::create_dir(&path).unwrap();
        }
    }
    let containers = "[[container]]\nname = \"web\"\ndocker = \"web\"\n\
                      [[container]]\nname = \"{}\"\nunit = \"*\"\n\
                      [[container]]\nname = \"deep {}\"\ncgroup = \"/user.slice/**/x\"\n";
    let manager = start(directory.path(), containers);
    manager.wait_for("READY=1");
    manager.wait_for("WATCHDOG=1");
    let mib = memory_mib(&manager);
    assert!(mib < 20.0, "{mib} MiB");
}

/// Tenants whose exporters answer without end, or garbage.
#[test]
fn exporters_do_not_fill_the_memory() {
    const LENGTH: usize = 4 << 20;
    let directory = TempDir::new().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let mut containers = String::from("interval_s = 1\n");
    for at in 0..20 {
        let cgroup = directory.path().join(format!("cgroup/c{at}"));
        fs::create_dir_all(&cgroup).unwrap();
        fs::write(cgroup.join("memory.current"), "4096\n").unwrap();
        fs::write(cgroup.join("memory.stat"), "anon 0\nfile 4096\n").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                asked.fetch_add(1, Ordering::SeqCst);
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1024]);
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(&vec![0xff; LENGTH]);
            }
        });
        containers.push_str(&format!(
            "[[container]]\nname = \"c{at}\"\ncgroup = \"/c{at}\"\n[container.target]\n\
             throughput = 5\nsource = {{ http = \"http://{address}/\", metric = \"a\" }}\n"
        ));
    }
    let manager = start(directory.path(), &containers);
    manager.wait_for("READY=1");
    let end = Instant::now() + Duration::from_secs(60);
    while asked.load(Ordering::SeqCst) < 40 {
        assert!(Instant::now() < end, "{asked:?}");
        // The daemon would block if the manager did not read its messages.
        manager.wait_for("WATCHDOG=1");
    }
    let mib = memory_mib(&manager);
    assert!(mib < 32.0, "{mib} MiB");
}

#[test]
fn one_daemon_is_enough() {
    let directory = TempDir::new().unwrap();
    let manager = start(directory.path(), "");
    manager.wait_for("READY=1");
    let second = cargo_bin_cmd!("policyd")
        .args(["run", "--config"])
        .arg(directory.path().join("policyd.toml"))
        .env("RUNTIME_DIRECTORY", directory.path())
        .timeout(Duration::from_secs(5))
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let text = String::from_utf8(second.stderr).unwrap();
    assert!(text.contains("another policyd runs"), "{text}");
    assert!(directory.path().join("policyd.sock").exists());
    // `policyd restore` is refused as well, because the running daemon undoes its limits itself.
    let restore = cargo_bin_cmd!("policyd")
        .args(["restore", "--config"])
        .arg(directory.path().join("policyd.toml"))
        .arg("--state")
        .arg(directory.path())
        .output()
        .unwrap();
    assert_eq!(restore.status.code(), Some(1));
    drop(manager);
    let mut again = start(directory.path(), "");
    again.wait_for("READY=1");
    again.signal(Signal::TERM);
    assert_eq!(again.daemon.wait().unwrap().code(), Some(0));
}

/// The creator of a cgroup can choose characters that control a terminal, or hide others.
#[test]
fn names_are_shown_as_they_are_spelt() {
    let directory = TempDir::new().unwrap();
    let wild = directory
        .path()
        .join("cgroup/web\u{1b}[2J\u{202e}x\u{200b}");
    fs::create_dir_all(&wild).unwrap();
    fs::write(wild.join("memory.current"), "1048576").unwrap();
    fs::write(wild.join("memory.stat"), "anon 4096\n").unwrap();
    let file = directory.path().join("policyd.toml");
    let text = format!(
        "interval_s = 0.1\ncgroup_root = \"{}\"\n[[container]]\nname = \"{{}}\"\n\
         cgroup = \"/web*\"\nclass = \"gold\"\n",
        directory.path().join("cgroup").display()
    );
    fs::write(&file, text).unwrap();
    for more in [&["--json"][..], &[]] {
        let mut command = cargo_bin_cmd!("policyd");
        command.args(["dry-run", "--config"]).arg(&file).args(more);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("web"), "{text}");
        let hidden = |letter: &char| "\u{1b}\u{202e}\u{200b}".contains(*letter);
        assert_eq!(text.chars().find(hidden), None, "{text:?}");
    }
}

/// Returns the first line of a daemon's log, which ends in a pipe. `is_journal` tells whether the
/// pipe counts as the journal's stream.
fn first_line(is_journal: bool) -> String {
    let directory = TempDir::new().unwrap();
    let root = directory.path().display();
    let file = directory.path().join("policyd.toml");
    let text = format!("cgroup_root = \"{root}\"\nstatus_socket = \"\"\n");
    fs::write(&file, text).unwrap();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let stat = rustix::fs::fstat(&writer).unwrap();
    let inode = stat.st_ino + u64::from(!is_journal);
    let mut daemon = Command::new(cargo_bin!("policyd"))
        .args(["run", "--config"])
        .arg(&file)
        .env("JOURNAL_STREAM", format!("{}:{inode}", stat.st_dev))
        .env("RUNTIME_DIRECTORY", directory.path())
        .env_remove("RUST_LOG")
        .stderr(writer)
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(fs::File::from(reader))
        .read_line(&mut line)
        .unwrap();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    line
}

#[test]
fn lines_for_the_journal_have_priorities() {
    let line = first_line(true);
    assert!(
        line.starts_with("<4> WARN ") || line.starts_with("<6> INFO "),
        "{line}"
    );
    let line = first_line(false);
    assert!(
        line.starts_with(" WARN ") || line.starts_with(" INFO "),
        "{line}"
    );
}
