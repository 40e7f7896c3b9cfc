// SPDX-License-Identifier: GPL-2.0-only

//! Child processes. PID 1 also has to reap orphans.

use std::{
    collections::HashMap,
    fs,
    io::Write as _,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result};
use ddagent::protocol::{self, Exit, Output};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, wait, waitid,
};

use crate::{SELF, system};

/// All children. One thread reaps them under this lock, and spawning holds it too. The reaper can
/// therefore take neither an unregistered child nor one that std reaps itself after a failed exec.
static CHILDREN: Mutex<Option<HashMap<i32, Arc<Job>>>> = Mutex::new(None);
/// Signalled when there is a first child.
static SPAWNED: Condvar = Condvar::new();

/// A running or ended child.
#[derive(Debug)]
pub(crate) struct Job {
    pid: Pid,
    exit: Mutex<Option<Exit>>,
    ended: Condvar,
}

impl Job {
    /// Returns its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Returns how it ended, or `None` while it runs.
    pub(crate) fn exit(&self) -> Option<Exit> {
        *lock(&self.exit)
    }

    /// Waits for its end.
    pub(crate) fn wait(&self) -> Exit {
        let mut exit = lock(&self.exit);
        loop {
            match *exit {
                Some(exit) => return exit,
                None => exit = self.ended.wait(exit).unwrap_or_else(|e| e.into_inner()),
            }
        }
    }

    /// Sends a signal to its process group, unless it has ended, because its number may be in use
    /// again then.
    pub(crate) fn signal(&self, signal: i32) -> Result<()> {
        let signal = Signal::from_named_raw(signal).context("no such signal")?;
        let exit = lock(&self.exit);
        if exit.is_none() {
            kill_process_group(self.pid, signal)
                .or_else(|_| kill_process(self.pid, signal))
                .context("cannot signal")?;
        }
        Ok(())
    }
}

/// Starts the reaping thread.
pub(crate) fn start_reaper() -> Result<()> {
    *lock(&CHILDREN) = Some(HashMap::new());
    thread::Builder::new()
        .name("reaper".to_owned())
        .spawn(reap)?;
    Ok(())
}

/// Runs a program to its end.
pub(crate) fn exec(command: &protocol::Command) -> Result<Output> {
    let start = Instant::now();
    let mut form = form(command)?;
    form.stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (mut child, job) = spawn(&mut form)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = thread::scope(|scope| {
        scope.spawn(move || {
            // A program need not read its input.
            stdin.map(|mut pipe| pipe.write_all(&command.stdin))
        });
        let stdout = scope.spawn(move || drain(stdout));
        let stderr = drain(stderr);
        (stdout.join().unwrap_or_default(), stderr)
    });
    Ok(Output {
        exit: job.wait(),
        stdout,
        stderr,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Starts a program whose output goes to a file.
pub(crate) fn background(command: &protocol::Command, output: &str) -> Result<Arc<Job>> {
    let log = fs::File::create(output).with_context(|| format!("cannot create {output}"))?;
    let mut form = form(command)?;
    form.stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    spawn(&mut form).map(|(_, job)| job)
}

fn form(command: &protocol::Command) -> Result<Command> {
    let mut words: Vec<&str> = command.argv.iter().map(String::as_str).collect();
    if let Some(group) = &command.cgroup {
        words.splice(0..0, [SELF, "enter", group]);
    }
    let (program, arguments) = words.split_first().context("no program given")?;
    let mut form = Command::new(program);
    form.args(arguments)
        .env_clear()
        .envs(system::environment())
        .envs(&command.env)
        .process_group(0);
    if let Some(dir) = &command.cwd {
        form.current_dir(dir);
    }
    Ok(form)
}

fn spawn(form: &mut Command) -> Result<(Child, Arc<Job>)> {
    let mut children = lock(&CHILDREN);
    let child = form
        .spawn()
        .with_context(|| format!("cannot run {:?}", form.get_program()))?;
    let job = Arc::new(Job {
        pid: Pid::from_child(&child),
        exit: Mutex::new(None),
        ended: Condvar::new(),
    });
    if let Some(children) = children.as_mut() {
        children.insert(job.pid(), Arc::clone(&job));
    }
    SPAWNED.notify_all();
    Ok((child, job))
}

fn reap() {
    loop {
        // This only waits; the child is looked up under the lock.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let waited = waitid(WaitId::All, options);
        let mut children = lock(&CHILDREN);
        if waited.is_err() {
            // There are no children, unless one was started since.
            let idle = |children: &mut Option<HashMap<i32, Arc<Job>>>| {
                children.as_ref().is_none_or(HashMap::is_empty)
            };
            drop(SPAWNED.wait_while(children, idle));
            continue;
        }
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let job = children
                .as_mut()
                .and_then(|children| children.remove(&pid.as_raw_nonzero().get()));
            if let Some(job) = job {
                let status = ExitStatus::from_raw(status.as_raw());
                *lock(&job.exit) = Some(Exit {
                    code: status.code(),
                    signal: status.signal(),
                });
                job.ended.notify_all();
            }
        }
    }
}

fn drain(pipe: Option<impl std::io::Read>) -> Vec<u8> {
    let mut data = Vec::new();
    if let Some(mut pipe) = pipe {
        // Output before an error is kept.
        let _ = pipe.read_to_end(&mut data);
    }
    data
}

/// Locks a mutex, even if a thread panicked while it held the lock, because it left no worse data
/// than a failed request.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
