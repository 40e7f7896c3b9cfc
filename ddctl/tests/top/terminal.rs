// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl top` on a pseudo-terminal, with a terminal emulator that keeps the screen.
//!
//! The program is the example `top`: ddctl on a synthetic host of three VMs and five containers.

use pty_process::{
    Size,
    blocking::{Command, Pty, open},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    env, fs,
    io::{Read, Write},
    path::PathBuf,
    process::{Child, ExitStatus},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Time after which the test fails if the screen is not as expected.
const PATIENCE: Duration = Duration::from_secs(30);

struct Session {
    root: TempDir,
    pty: Arc<Pty>,
    child: Child,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
}

impl Session {
    fn start() -> Self {
        let root = TempDir::new().unwrap();
        for (pid, name) in [(4001, "web"), (4002, "mail"), (4003, "db")] {
            let directory = root.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("cmdline"), format!("qemu\0-name\0{name}\0")).unwrap();
        }
        let (pty, terminal) = open().unwrap();
        pty.resize(Size::new(24, 80)).unwrap();
        let child = Command::new(program())
            .arg(root.path())
            .args(["top", "--interval", "0.1"])
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .spawn(terminal)
            .unwrap();
        let pty = Arc::new(pty);
        let (sender, output) = channel();
        let reader = pty.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A read fails when the program has closed the terminal.
            while let Ok(count @ 1..) = (&*reader).read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            root,
            pty,
            child,
            output,
            screen: vt100::Parser::new(24, 80, 0),
        }
    }

    fn keys(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    fn resize(&mut self, rows: u16, columns: u16) {
        self.screen.screen_mut().set_size(rows, columns);
        self.pty.resize(Size::new(rows, columns)).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Follows the output until the screen is as wanted, and returns it.
    fn until(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = self.screen.screen().contents();
            if wanted(&text) {
                return text;
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.screen.process(&bytes),
                Err(error) => panic!("{error}: the screen does not show {what}:\n{text}"),
            }
        }
    }

    fn shows(&mut self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    /// Waits for the end, checks that the terminal was restored, and returns the exit status.
    fn end(mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.screen.process(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the program does not end"),
            }
        }
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen(), "{}", screen.contents());
        assert!(!screen.hide_cursor());
        self.child.wait().unwrap()
    }
}

/// Returns the path of the example, which cargo builds beside the tests.
fn program() -> PathBuf {
    let test = env::current_exe().unwrap();
    let target = test.ancestors().nth(2).unwrap();
    let program = target.join("examples/top");
    assert!(
        program.exists(),
        "run `cargo build --package ddctl --example top`"
    );
    program
}

/// Returns the names in the rows from top to bottom.
fn names(screen: &str) -> Vec<&str> {
    let rows = screen.lines().skip_while(|line| !line.contains("HITS/S"));
    let rows = rows.skip(1).take_while(|line| !line.starts_with(' '));
    rows.map_while(|line| line.split_whitespace().next())
        .collect()
}

#[test]
fn a_session() {
    let mut session = Session::start();
    // The program writes a frame in pieces, so the test waits for all of them.
    session.until("the VMs", |screen| {
        screen.contains("3 VMs, 5 containers") && names(screen) == ["db", "mail", "web"]
    });
    assert!(session.screen.screen().alternate_screen());
    // Rates and sparklines are shown from the second reading on.
    session.until("a sparkline", |screen| {
        screen.contains('█') && screen.contains("▇")
    });
    session.keys("N");
    session.shows("NAME▲");
    session.keys("i");
    session.until("the other order", |screen| {
        screen.contains("NAME▼") && names(screen) == ["web", "mail", "db"]
    });
    session.keys("/ma");
    session.until("the filter", |screen| {
        screen.contains("Filter: ma") && names(screen) == ["mail"]
    });
    session.keys("\r\r");
    session.until("the containers", |screen| {
        screen.contains("Containers of VM mail (id 2)") && screen.contains("app-1")
    });
    // A VM that goes while its containers are shown.
    fs::write(session.file("gone-2"), "").unwrap();
    session.until("the other VMs", |screen| {
        screen.contains("VM mail has gone") && names(screen) == ["web", "db"]
    });
    // Larger and smaller terminals.
    session.resize(30, 120);
    session.until("the wide terminal", |screen| {
        let is_wide = screen.lines().any(|line| line.chars().count() > 110);
        screen.lines().count() == 30 && screen.contains("CONT") && is_wide
    });
    session.resize(10, 40);
    session.until("the narrow terminal", |screen| {
        !screen.contains("ENTITLED") && screen.contains("q quit") && names(screen).len() == 2
    });
    session.resize(24, 80);
    session.shows("ENTITLED");
    // The module is unloaded and loaded again.
    fs::write(session.file("unloaded"), "").unwrap();
    session.shows("doubledecker_host is not loaded; trying again");
    fs::remove_file(session.file("unloaded")).unwrap();
    session.until("new numbers", |screen| !screen.contains("not loaded"));
    session.keys("q");
    assert_eq!(session.end().code(), Some(0));
}

#[test]
fn an_interrupt_restores_the_terminal() {
    let mut session = Session::start();
    session.shows("3 VMs");
    session.keys("\u{3}");
    assert_eq!(session.end().code(), Some(0));
}

/// A signal ends the program as if it had no handler, after the terminal is restored.
#[test]
fn a_signal_restores_the_terminal() {
    use std::os::unix::process::ExitStatusExt as _;
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut session = Session::start();
        session.shows("3 VMs");
        let pid = Pid::from_child(&session.child);
        kill_process(pid, signal).unwrap();
        assert_eq!(session.end().signal(), Some(signal.as_raw()));
    }
}

/// A panic restores the terminal, and its message is on it.
#[test]
fn a_panic_restores_the_terminal() {
    let mut session = Session::start();
    session.shows("3 VMs");
    fs::write(session.file("panic"), "").unwrap();
    assert_eq!(session.end().code(), Some(101));
}
