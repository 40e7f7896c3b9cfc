// SPDX-License-Identifier: GPL-2.0-only

//! A service manager for the tests of daemons, inside their process and outside of it, and checks
//! that both daemons have to pass.

use crate::service::Service;
use ddnl::schema::close;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::net::UnixDatagram,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A service manager in the daemon's process, which keeps the messages that it receives.
#[derive(Clone, Debug, Default)]
pub struct FakeService(Arc<Mutex<Vec<String>>>);

impl FakeService {
    /// Returns the messages that it has received so far.
    pub fn said(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service for FakeService {
    fn ready(&mut self) {
        self.status("ready");
    }

    fn reloading(&mut self) {
        self.status("reloading");
    }

    fn stopping(&mut self) {
        self.status("stopping");
    }

    fn status(&mut self, text: &str) {
        self.said().push(text.into());
    }

    fn alive(&mut self) {
        self.status("alive");
    }

    fn alive_every(&self) -> Option<Duration> {
        Some(Duration::from_millis(20))
    }
}

/// A substitute for the service manager, and the daemon that it started. The daemon is killed with
/// it.
#[derive(Debug)]
pub struct Manager {
    socket: UnixDatagram,
    /// The daemon.
    pub daemon: Child,
}

impl Manager {
    /// Starts `program run --config FILE` with `directory` as its runtime directory.
    ///
    /// # Panics
    ///
    /// Panics if the program cannot be started.
    pub fn start(program: &Path, file: &Path, directory: &Path) -> Self {
        let address = directory.join("notify");
        // An earlier daemon may have left its socket.
        let _ = fs::remove_file(&address);
        let socket = UnixDatagram::bind(&address).expect("a socket");
        let patience = Some(Duration::from_secs(60));
        socket.set_read_timeout(patience).expect("a timeout");
        let daemon = Command::new(program)
            .args(["run", "--config"])
            .arg(file)
            .env("NOTIFY_SOCKET", &address)
            .env("WATCHDOG_USEC", "100000")
            .env("RUNTIME_DIRECTORY", directory)
            .env_remove("WATCHDOG_PID")
            .stderr(Stdio::null())
            .spawn()
            .expect("the daemon starts");
        Self { socket, daemon }
    }

    /// Waits for a message that contains this line.
    ///
    /// # Panics
    ///
    /// Panics if the daemon is silent for a minute.
    pub fn wait_for(&self, line: &str) {
        let mut buffer = [0; 4096];
        loop {
            let length = self.socket.recv(&mut buffer).expect(line);
            let text = String::from_utf8_lossy(&buffer[..length]);
            if text.lines().any(|one| one.starts_with(line)) {
                return;
            }
        }
    }

    /// Returns the addresses of the network at which the daemon listens, as `/proc/net/tcp` has
    /// them: the bytes of the address from the last to the first, and the port, in hexadecimal.
    ///
    /// # Panics
    ///
    /// Panics if the daemon has ended.
    pub fn listens(&self) -> Vec<String> {
        const LISTENS: &str = "0A";
        let process = format!("/proc/{}", self.daemon.id());
        let files = fs::read_dir(format!("{process}/fd")).expect("a process");
        let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        let links: Vec<String> = links.map(|link| link.display().to_string()).collect();
        let mut addresses = Vec::new();
        for table in ["tcp", "tcp6"] {
            let table = fs::read_to_string(format!("{process}/net/{table}"));
            for line in table.unwrap_or_default().lines().skip(1) {
                let fields: Vec<&str> = line.split_whitespace().collect();
                let (address, state, inode) = (fields[1], fields[3], fields[9]);
                if state == LISTENS && links.contains(&format!("socket:[{inode}]")) {
                    addresses.push(address.to_owned());
                }
            }
        }
        addresses
    }

    /// Sends a signal to the daemon.
    ///
    /// # Panics
    ///
    /// Panics if the daemon has ended.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.daemon), signal).expect("a process");
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // An error means that the daemon has ended already.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Checks that a unit file has these lines, lets a remote Prometheus in with the address in the
/// daemon's file as the only setting, and exposes little as `systemd-analyze security` rates it.
/// The exposure is not checked where systemd is not installed.
///
/// # Panics
///
/// Panics if it does not.
pub fn assert_unit(path: &Path, lines: &[&str]) {
    let text = fs::read_to_string(path).expect("a unit");
    for line in lines {
        assert!(text.contains(line), "{line}");
    }
    let value = |key: &str| {
        let mut settings = text.lines().filter_map(|line| line.split_once('='));
        settings.find(|(name, _)| *name == key).map(|it| it.1)
    };
    let families = value("RestrictAddressFamilies").expect("families");
    for family in ["AF_INET", "AF_INET6"] {
        assert!(families.split(' ').any(|one| one == family), "{families}");
    }
    assert_eq!(value("PrivateNetwork"), Some("no"));
    for filter in [
        "IPAddressDeny",
        "SocketBindDeny",
        "RestrictNetworkInterfaces",
    ] {
        assert_eq!(value(filter), None, "{filter}");
    }
    let asked = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", "--threshold=25"])
        .arg(path)
        .output();
    let Ok(output) = asked else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
}

/// Checks that a daemon listens nowhere, unless its file has the key `metrics`, and then at this
/// address only, and that no other setting is needed. `start` starts it with a line in its file.
///
/// # Panics
///
/// Panics if it does not.
pub fn assert_page_is_asked_for(start: impl Fn(&str) -> Manager) {
    let port = TcpListener::bind("0.0.0.0:0").and_then(|free| free.local_addr());
    let port = port.expect("a port").port();
    // Each is another address of this machine, as that of a network card is.
    let asks = |address: &str| TcpStream::connect((address, port)).is_ok();
    for (metrics, wanted, is_open) in [
        (None, None, [false, false]),
        (Some("127.0.0.1"), Some("0100007F"), [true, false]),
        (Some("127.0.0.2"), Some("0200007F"), [false, true]),
        (Some("0.0.0.0"), Some("00000000"), [true, true]),
    ] {
        let line = metrics.map(|address| format!("metrics = \"{address}:{port}\"\n"));
        let manager = start(&line.unwrap_or_default());
        manager.wait_for("READY=1");
        // The daemon does its work, and not only its preparations.
        manager.wait_for("WATCHDOG=1");
        let wanted: Vec<String> = wanted
            .iter()
            .map(|address| format!("{address}:{port:04X}"))
            .collect();
        assert_eq!(manager.listens(), wanted, "with metrics = {metrics:?}");
        assert_eq!(
            ["127.0.0.1", "127.0.0.2"].map(asks),
            is_open,
            "with metrics = {metrics:?}"
        );
    }
}

/// Checks that a file in `docs` is the schema of a program, which `program schema` prints.
///
/// # Panics
///
/// Panics if it is not.
pub fn assert_recorded(document: &Value, program: &str) {
    let file = format!("docs/{program}.schema.json");
    let path = format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"));
    let kept = fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == format!("{document:#}\n"),
        "write the output of `{program} schema` into {file}"
    );
}

/// Checks that the output of a verb follows the schema of its program, which lists each field of
/// the output.
///
/// # Panics
///
/// Panics if it does not.
pub fn assert_follows(document: &Value, verb: &str, output: &Value) {
    let mut schema = document["verbs"][verb].clone();
    assert!(schema.is_object(), "no schema of `{verb}`");
    schema["$defs"] = document["$defs"].clone();
    close(&mut schema);
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let errors = validator.iter_errors(output);
    let errors: Vec<String> = errors
        .map(|error| format!("{error} at {}", error.instance_path))
        .collect();
    assert!(errors.is_empty(), "{verb}: {errors:#?}\n{output:#}");
    assert_eq!(output["schema_version"], document["version"], "{verb}");
}

/// Checks that the help of a program and of each of its verbs has examples, the first of which
/// calls it, and fits a terminal of 80 columns.
///
/// # Panics
///
/// Panics if it does not.
pub fn assert_help(mut program: clap::Command) {
    // Gives verbs the names with which they are called.
    program.build();
    let name = program.get_name().to_owned();
    let verbs = program.get_subcommands().map(|it| it.get_name().to_owned());
    let lines: Vec<String> = verbs.map(|verb| format!("{name} {verb}")).collect();
    for line in [&name].into_iter().chain(&lines) {
        let verb = line.split(' ').nth(1);
        let command = match verb {
            Some(verb) => program.find_subcommand_mut(verb).expect("a verb"),
            None => &mut program,
        };
        let help = command.render_long_help().to_string();
        let (_, examples) = help
            .split_once("\nExamples:\n")
            .unwrap_or_else(|| panic!("{line} has no examples: {help}"));
        assert!(examples.starts_with(&format!("  {line}")), "{help}");
        for text in help.lines() {
            assert!(text.chars().count() <= 80, "{line}: {text}");
        }
    }
}
