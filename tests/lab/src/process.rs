// SPDX-License-Identifier: GPL-2.0-only

//! Child processes with a bounded life.

use std::{
    fs,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};
use ddagent::usage;
use rustix::process::{Pid, Signal, kill_process};

use crate::vitals::Emulator;

/// A child process that ends with its handle, and with this process however that ends.
///
/// The kernel sends the parent-death signal when the *thread* that started the child ends, so that
/// a separate thread owns the child.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    exit: Arc<Mutex<Option<ExitStatus>>>,
}

impl Process {
    /// Starts `argv` with both output streams going to `log`.
    ///
    /// # Errors
    ///
    /// Fails if `setpriv` cannot be run. A program that does not exist is seen as its end.
    pub fn start(argv: &[String], env: &[(String, String)], log: fs::File) -> Result<Self> {
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

    /// Returns how it ended, or `None` while it runs.
    ///
    /// # Panics
    ///
    /// Panics if a thread panicked with the lock, which none does.
    pub fn exit(&self) -> Option<ExitStatus> {
        *self.exit.lock().expect("no thread panics with this lock")
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

    /// Returns the time for which its threads have waited for a processor so far.
    pub(crate) fn waited(&self) -> Duration {
        usage::waited(self.pid.as_raw_nonzero().get())
    }

    /// Kills it.
    ///
    /// # Panics
    ///
    /// See [`Process::exit`].
    pub fn kill(&self) {
        // Under the lock, and before it is reaped, its process id cannot be reused.
        let exit = self.exit.lock().expect("no thread panics with this lock");
        if exit.is_none() {
            let _ = kill_process(self.pid, Signal::KILL);
        }
        drop(exit);
        self.wait(Duration::from_secs(10));
    }
}

impl Emulator for Process {
    fn work(&self) -> Duration {
        usage::time(self.pid.as_raw_nonzero().get())
    }

    fn end(&self) -> Option<String> {
        self.exit().map(|status| status.to_string())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn keep(mut child: Child, exit: &Mutex<Option<ExitStatus>>) {
    loop {
        let mut slot = exit.lock().expect("no thread panics with this lock");
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

#[cfg(test)]
mod tests {
    use super::*;

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
