// SPDX-License-Identifier: GPL-2.0

//! Child processes with a bounded life.

use std::{
    fs,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};

/// A child that dies with its handle, and with this process however that ends.
///
/// The kernel sends the parent-death signal when the *thread* that started the
/// child ends, so a thread of its own keeps it.
#[derive(Debug)]
pub(crate) struct Process {
    pid: Pid,
    exit: Arc<Mutex<Option<ExitStatus>>>,
}

impl Process {
    /// Starts `argv` with its output (both streams) going to `log`.
    pub(crate) fn start(argv: &[String], env: &[(String, String)], log: fs::File) -> Result<Self> {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .args(argv)
            .envs(env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let exit = Arc::new(Mutex::new(None));
        let (started, pid) = mpsc::channel();
        let theirs = Arc::clone(&exit);
        thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || match command.spawn() {
                Ok(child) => {
                    let _ = started.send(Ok(Pid::from_child(&child)));
                    keep(child, &theirs);
                }
                Err(error) => drop(started.send(Err(error))),
            })?;
        let pid = pid
            .recv()
            .map_err(|_| anyhow!("the keeper thread died"))?
            .context("cannot run setpriv; install util-linux")?;
        Ok(Self { pid, exit })
    }

    /// How it ended; none while it runs.
    pub(crate) fn exit(&self) -> Option<ExitStatus> {
        *self.exit.lock().expect("no panic holds this lock")
    }

    /// Waits for its end, at most `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            let exit = self.exit();
            if exit.is_some() || start.elapsed() >= limit {
                return exit;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it now.
    pub(crate) fn kill(&self) {
        // Under the lock, and before it is reaped, the number is its own.
        let exit = self.exit.lock().expect("no panic holds this lock");
        if exit.is_none() {
            let _ = kill_process(self.pid, Signal::KILL);
        }
        drop(exit);
        self.wait(Duration::from_secs(10));
    }

    /// Processor time used so far, in clock ticks.
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid.as_raw_nonzero()))
            .unwrap_or_default();
        cpu_ticks(&stat)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn keep(mut child: Child, exit: &Mutex<Option<ExitStatus>>) {
    loop {
        let mut slot = exit.lock().expect("no panic holds this lock");
        match child.try_wait() {
            Ok(None) => {}
            Ok(status) => {
                *slot = status;
                return;
            }
            Err(_) => {
                *slot = Some(ExitStatus::default());
                return;
            }
        }
        drop(slot);
        thread::sleep(Duration::from_millis(20));
    }
}

/// User and system time in `/proc/<pid>/stat`. The name, in parentheses, may
/// hold anything.
fn cpu_ticks(stat: &str) -> u64 {
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let number = |at: usize| {
        let field = after_name.split(' ').nth(at)?;
        field.parse::<u64>().ok()
    };
    number(11).unwrap_or(0) + number(12).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_odd_names() {
        let stat = "1 (a) b) S 1 1 1 0 -1 4194560 1 2 3 4 70 5 0 0 20 0 1 0 3";
        assert_eq!(cpu_ticks(stat), 75);
        assert_eq!(cpu_ticks(""), 0);
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let log = tempfile::tempfile().unwrap();
        let argv = ["sleep", "1000"].map(str::to_owned);
        let process = Process::start(&argv, &[], log).unwrap();
        assert!(process.exit().is_none());
        process.kill();
        assert!(process.exit().is_some());
    }
}
