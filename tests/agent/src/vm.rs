// SPDX-License-Identifier: GPL-2.0-only

//! VMs of this machine: their processes, consoles and agents.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use ddagent::{
    protocol::{Command, Message, Request, VmSpec},
    usage,
};

use crate::{
    job::{self, Job, lock},
    port::Outbox,
};

/// All VMs ever started, by name. A name may be used again.
#[derive(Debug)]
pub(crate) struct Vms {
    outbox: Outbox,
    by_name: Mutex<HashMap<String, Vm>>,
}

#[derive(Clone, Debug)]
struct Vm {
    job: Arc<Job>,
    requests: Sender<Request>,
}

impl Vms {
    pub(crate) fn new(outbox: Outbox) -> Self {
        Self {
            outbox,
            by_name: Mutex::default(),
        }
    }

    /// Starts a VM.
    pub(crate) fn start(&self, spec: &VmSpec) -> Result<()> {
        let mut by_name = lock(&self.by_name);
        if by_name
            .get(&spec.name)
            .is_some_and(|vm| vm.job.exit().is_none())
        {
            anyhow::bail!("VM {} still runs", spec.name);
        }
        fs::create_dir_all(&spec.dir).with_context(|| format!("cannot create {}", spec.dir))?;
        for stale in [&spec.console, &spec.agent] {
            // Usually the file does not exist.
            let _ = fs::remove_file(stale);
        }
        let command = Command {
            argv: spec.argv.clone(),
            cgroup: spec.cgroup.clone(),
            ..Command::default()
        };
        let log = format!("{}/vmm.log", spec.dir);
        let job = job::background(&command, &log)?;
        let (requests, theirs) = mpsc::channel();
        let attendant = Attendant {
            spec: spec.clone(),
            log,
            job: Arc::clone(&job),
            outbox: self.outbox.clone(),
        };
        attendant.start(theirs)?;
        by_name.insert(spec.name.clone(), Vm { job, requests });
        Ok(())
    }

    /// Returns the process of a VM.
    pub(crate) fn job(&self, name: &str) -> Result<Arc<Job>> {
        let by_name = lock(&self.by_name);
        let vm = by_name.get(name).with_context(|| format!("no VM {name}"))?;
        Ok(Arc::clone(&vm.job))
    }

    /// Forwards a request to a VM's agent. A request to a VM that has ended gets no answer except
    /// the message of its end, which follows its last output.
    pub(crate) fn relay(&self, name: &str, request: Request) -> Result<()> {
        let vm = lock(&self.by_name).get(name).cloned();
        let vm = vm.with_context(|| format!("no VM {name}"))?;
        let sent = vm.requests.send(request);
        if sent.is_err() && vm.job.exit().is_none() {
            anyhow::bail!("VM {name} runs, but its agent cannot be reached");
        }
        Ok(())
    }

    /// Returns the processor time that each running VM has used so far, in milliseconds.
    pub(crate) fn cpu_ms(&self) -> BTreeMap<String, u64> {
        lock(&self.by_name)
            .iter()
            .filter(|(_, vm)| vm.job.exit().is_none())
            .map(|(name, vm)| (name.clone(), usage::time(vm.job.pid()).as_millis()))
            .map(|(name, spent)| (name, u64::try_from(spent).unwrap_or(u64::MAX)))
            .collect()
    }
}

/// The three threads for a VM, which end with it.
#[derive(Clone)]
struct Attendant {
    spec: VmSpec,
    log: String,
    job: Arc<Job>,
    outbox: Outbox,
}

impl Attendant {
    fn start(self, requests: Receiver<Request>) -> Result<()> {
        let relay = self.clone();
        let name = |role: &str| format!("{role}-{}", self.spec.name);
        thread::Builder::new()
            .name(name("relay"))
            .spawn(move || relay.relay(&requests))?;
        thread::Builder::new()
            .name(name("console"))
            .spawn(move || self.watch())?;
        Ok(())
    }

    /// Streams the console and the VMM's own output, and reports the VM's end after its last
    /// output.
    fn watch(self) {
        let mut files = [&self.spec.console, &self.log].map(|path| (path, None));
        loop {
            let exit = self.job.exit();
            for (path, file) in &mut files {
                if file.is_none() {
                    *file = File::open(path).ok();
                }
                if let Some(file) = file {
                    self.stream(file);
                }
            }
            if let Some(exit) = exit {
                self.outbox.send(&Message::VmExit {
                    vm: self.spec.name.clone(),
                    exit,
                });
                return;
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    fn stream(&self, file: &mut File) {
        let mut data = Vec::new();
        while let Ok(1..) = file.take(1 << 16).read_to_end(&mut data) {
            self.outbox.send(&Message::Console {
                vm: self.spec.name.clone(),
                data: std::mem::take(&mut data),
            });
        }
    }

    fn relay(&self, requests: &Receiver<Request>) {
        let Some(mut stream) = self.connect() else {
            return;
        };
        let Ok(incoming) = stream.try_clone() else {
            return;
        };
        let replies = self.clone();
        let started = thread::Builder::new()
            .name(format!("replies-{}", self.spec.name))
            .spawn(move || replies.replies(incoming));
        if started.is_err() {
            return;
        }
        // The loop ends when the VM's name is used again, or its socket is gone.
        while let Ok(request) = requests.recv() {
            let Ok(mut line) = serde_json::to_vec(&request) else {
                continue;
            };
            line.push(b'\n');
            if stream.write_all(&line).is_err() {
                return;
            }
        }
    }

    fn connect(&self) -> Option<UnixStream> {
        while self.job.exit().is_none() {
            if let Ok(stream) = UnixStream::connect(&self.spec.agent) {
                return Some(stream);
            }
            thread::sleep(Duration::from_millis(20));
        }
        None
    }

    fn replies(&self, stream: UnixStream) {
        for line in BufReader::new(stream).split(b'\n') {
            let Ok(line) = line else { return };
            let message = match serde_json::from_slice(&line) {
                Ok(Message::Heartbeat { uptime_ms, .. }) => Message::Heartbeat {
                    vm: Some(self.spec.name.clone()),
                    uptime_ms,
                    vms_cpu_ms: BTreeMap::new(),
                },
                Ok(message @ Message::Reply { .. }) => message,
                // The guest is under test, so that other messages from it are not accepted.
                Ok(_) | Err(_) => continue,
            };
            self.outbox.send(&message);
        }
    }
}
