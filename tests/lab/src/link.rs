// SPDX-License-Identifier: GPL-2.0-only

//! The connection to L1's agent: requests out, replies and events in.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Error, Result, anyhow, bail};
use ddagent::protocol::{Answer, Message, Op, Request};

use crate::vitals::Vitals;

/// Result of a request: an answer, the agent's refusal, or the end of the machine.
#[derive(Debug)]
enum Reply {
    Answer(Answer),
    Refusal(String),
    Gone(String),
}

/// Requests under way, with their machine and the channel for the reply.
type Pending = Arc<Mutex<HashMap<u64, (Option<String>, Sender<Reply>)>>>;

/// Connection shared by all machines of a lab.
#[derive(Debug)]
pub(crate) struct Link {
    writer: Mutex<UnixStream>,
    pending: Pending,
    next: AtomicU64,
    pub(crate) vitals: Arc<Vitals>,
    /// Patches of `tests/mutations` with which loaded modules are built.
    mutations: Mutex<Vec<&'static str>>,
}

impl Link {
    /// Connects to the emulator's end of the agent port.
    pub(crate) fn connect(socket: &Path, vitals: Arc<Vitals>) -> Result<Self> {
        let stream = dial(socket, &vitals)?;
        let pending = Pending::default();
        let reader = Reader {
            pending: Arc::clone(&pending),
            vitals: Arc::clone(&vitals),
        };
        let theirs = stream.try_clone()?;
        thread::Builder::new()
            .name("agent-link".to_owned())
            .spawn(move || reader.run(theirs))?;
        Ok(Self {
            writer: Mutex::new(stream),
            pending,
            next: AtomicU64::new(1),
            vitals,
            mutations: Mutex::default(),
        })
    }

    /// Sets the patches of modules that are loaded from now on.
    pub(crate) fn mutate(&self, mutations: Vec<&'static str>) {
        *self
            .mutations
            .lock()
            .expect("no thread panics with this lock") = mutations;
    }

    /// Returns the patches of modules that are loaded now.
    pub(crate) fn mutations(&self) -> Vec<&'static str> {
        let mutations = self.mutations.lock();
        mutations.expect("no thread panics with this lock").clone()
    }

    /// Sends a request and waits for its answer while `target` lives, at most `limit` on Debian's
    /// kernel.
    pub(crate) fn call(&self, target: Option<&str>, op: Op, limit: Duration) -> Result<Answer> {
        let limit = limit.saturating_mul(self.vitals.pace);
        let replies = self.send(target, op)?;
        let start = Instant::now();
        loop {
            match replies.recv_timeout(Duration::from_millis(500)) {
                Ok(Reply::Answer(answer)) => return Ok(answer),
                Ok(Reply::Refusal(text)) => bail!(text),
                Ok(Reply::Gone(text)) => return Err(self.gone(target, text)),
                Err(RecvTimeoutError::Disconnected) => bail!("the agent's answer was lost"),
                Err(RecvTimeoutError::Timeout) => self.vitals.check(target)?,
            }
            if start.elapsed() > limit {
                bail!("no answer within {} s", limit.as_secs());
            }
        }
    }

    /// Returns the error for a machine that does not answer any more. Its process may still be
    /// ending.
    fn gone(&self, target: Option<&str>, text: String) -> Error {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(5) {
            if let Err(error) = self.vitals.check(target) {
                return error;
            }
            thread::sleep(Duration::from_millis(50));
        }
        Error::msg(text)
    }

    /// Sends a request without waiting for an answer.
    pub(crate) fn tell(&self, target: Option<&str>, op: Op) -> Result<()> {
        self.send(target, op).map(drop)
    }

    fn send(&self, target: Option<&str>, op: Op) -> Result<Receiver<Reply>> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (to, replies) = mpsc::channel();
        self.pending
            .lock()
            .expect("no thread panics with this lock")
            .insert(id, (target.map(str::to_owned), to));
        let request = Request {
            id,
            target: target.map(str::to_owned),
            op,
        };
        let mut line = serde_json::to_string(&request)?;
        line.push('\n');
        let sent = self
            .writer
            .lock()
            .expect("no thread panics with this lock")
            .write_all(line.as_bytes());
        sent.map_err(|error| self.gone(target, format!("L1's agent is gone: {error}")))?;
        Ok(replies)
    }
}

/// Connects to the emulator, which needs a moment to make its socket.
fn dial(socket: &Path, vitals: &Vitals) -> Result<UnixStream> {
    let start = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(_) if start.elapsed() < Duration::from_secs(60) => vitals.check(None)?,
            Err(error) => {
                return Err(anyhow!(error).context("the emulator did not make its agent socket"));
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The receiving half.
struct Reader {
    pending: Pending,
    vitals: Arc<Vitals>,
}

impl Reader {
    fn run(self, stream: UnixStream) {
        for line in BufReader::new(stream).split(b'\n') {
            let Ok(line) = line else { break };
            // A line that a dying machine cut off is dropped; its caller gets the error of the
            // death.
            if let Ok(message) = serde_json::from_slice(&line) {
                self.take(message);
            }
        }
        self.fail(|_| true, "the connection to L1's agent ended");
    }

    fn take(&self, message: Message) {
        match message {
            Message::Reply { id, result } => {
                let waiting = self
                    .pending
                    .lock()
                    .expect("no thread panics with this lock")
                    .remove(&id);
                if let Some((_, to)) = waiting {
                    // The caller may have given up.
                    let _ = to.send(match result {
                        Ok(answer) => Reply::Answer(answer),
                        Err(text) => Reply::Refusal(text),
                    });
                }
            }
            Message::Console { vm, data } => self.vitals.console(&vm, &data),
            Message::Heartbeat { vm, vms_cpu_ms, .. } => {
                for (vm, ms) in vms_cpu_ms {
                    self.vitals.work(&vm, Duration::from_millis(ms));
                }
                self.vitals.heartbeat(vm.as_deref());
            }
            Message::VmExit { vm, exit } => {
                self.vitals.exited(&vm, exit);
                let text = format!("guest {vm} ended ({exit})");
                self.fail(|target| target == Some(vm.as_str()), &text);
            }
        }
    }

    fn fail(&self, which: impl Fn(Option<&str>) -> bool, text: &str) {
        let mut pending = self
            .pending
            .lock()
            .expect("no thread panics with this lock");
        pending.retain(|_, (target, to)| {
            let hit = which(target.as_deref());
            if hit {
                let _ = to.send(Reply::Gone(text.to_owned()));
            }
            !hit
        });
    }
}
