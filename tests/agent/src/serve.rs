// SPDX-License-Identifier: GPL-2.0-only

//! Serving the harness's requests.

use std::{
    collections::HashMap,
    fs::{self, OpenOptions},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use ddagent::protocol::{Answer, Command, Message, Op, Request, Sum};
use rustix::mount::MountFlags;

use crate::{
    SELF, boot, cgroup,
    job::{self, Job, lock},
    port::{self, Outbox},
    read, system,
    vm::Vms,
};

/// Serves until the harness has gone or requests the end.
pub(crate) fn serve() -> Result<()> {
    system::prepare()?;
    job::start_reaper()?;
    let (mut inbox, outbox) = port::open()?;
    let agent = Arc::new(Agent {
        vms: Vms::new(outbox.clone()),
        jobs: Mutex::default(),
        outbox,
    });
    let heart = Arc::clone(&agent);
    thread::Builder::new()
        .name("heartbeat".to_owned())
        .spawn(move || heart.beat())?;
    while let Some(line) = inbox.line() {
        if let Ok(request) = serde_json::from_slice(&line) {
            agent.accept(request);
        }
    }
    system::power_off()
}

#[derive(Debug)]
struct Agent {
    vms: Vms,
    jobs: Mutex<HashMap<u64, Arc<Job>>>,
    outbox: Outbox,
}

impl Agent {
    fn beat(&self) {
        loop {
            self.outbox.send(&Message::Heartbeat {
                vm: None,
                uptime_ms: uptime_ms(),
                vms_cpu_ms: self.vms.cpu_ms(),
            });
            thread::sleep(Duration::from_secs(1));
        }
    }

    /// Forwards a request, or executes it in a separate thread.
    fn accept(self: &Arc<Self>, mut request: Request) {
        let id = request.id;
        if let Some(vm) = request.target.take() {
            if let Err(error) = self.vms.relay(&vm, request) {
                self.reply(id, Err(error));
            }
            return;
        }
        let agent = Arc::clone(self);
        let started = thread::Builder::new()
            .name(format!("request-{id}"))
            .spawn(move || {
                let result = agent.perform(request.op);
                agent.reply(id, result);
            });
        if let Err(error) = started {
            self.reply(id, Err(error.into()));
        }
    }

    fn reply(&self, id: u64, result: Result<Answer>) {
        self.outbox.send(&Message::Reply {
            id,
            result: result.map_err(|error| format!("{error:#}")),
        });
    }

    fn perform(&self, op: Op) -> Result<Answer> {
        match op {
            Op::Cgroup { path, set } => cgroup::create(&path, &set).map(|()| Answer::Done),
            Op::Read(ref read) => match read.cgroup.clone() {
                Some(group) => read_in(&group, &op).map(Answer::Sum),
                None => read::file(read).map(Answer::Sum),
            },
            Op::Exec(command) => job::exec(&command).map(Answer::Output),
            Op::Kill { handle, signal } => {
                self.job(handle)?.signal(signal)?;
                Ok(Answer::Done)
            }
            Op::KillVm { name, signal } => {
                self.vms.job(&name)?.signal(signal)?;
                Ok(Answer::Done)
            }
            Op::Mount {
                source,
                target,
                fstype,
                options,
            } => mount(&source, &target, &fstype, &options),
            Op::Ping => Ok(Answer::Done),
            Op::Poll { handle } => Ok(Answer::State(self.job(handle)?.exit())),
            Op::Poweroff => system::power_off(),
            Op::ReadFile {
                path,
                offset,
                limit,
            } => read_file(&path, offset, limit),
            Op::ReadTree {
                ref path,
                digest,
                ref cgroup,
            } => match cgroup {
                Some(group) => read_in(group, &op).map(Answer::Sum),
                None => read::tree(path, digest).map(Answer::Sum),
            },
            Op::Spawn { command, output } => self.spawn(&command, &output),
            Op::StartVm(spec) => self.vms.start(&spec).map(|()| Answer::Done),
            Op::VmAlive { name } => Ok(Answer::State(self.vms.job(&name)?.exit())),
            Op::Wait { handle } => Ok(Answer::State(Some(self.job(handle)?.wait()))),
            Op::WaitVm { name } => Ok(Answer::State(Some(self.vms.job(&name)?.wait()))),
            Op::WriteFile { path, data, append } => write_file(&path, &data, append),
        }
    }

    fn spawn(&self, command: &Command, output: &str) -> Result<Answer> {
        let job = job::background(command, output)?;
        let pid = job.pid();
        let mut jobs = lock(&self.jobs);
        let handle = jobs.len() as u64;
        jobs.insert(handle, job);
        Ok(Answer::Spawned { handle, pid })
    }

    fn job(&self, handle: u64) -> Result<Arc<Job>> {
        let jobs = lock(&self.jobs);
        let job = jobs.get(&handle).context("no such background program")?;
        Ok(Arc::clone(job))
    }
}

/// Reads in a child process, so that its cgroup is charged.
fn read_in(group: &str, op: &Op) -> Result<Sum> {
    let output = job::exec(&Command {
        argv: vec![
            SELF.to_owned(),
            "read".to_owned(),
            serde_json::to_string(op)?,
        ],
        cgroup: Some(group.to_owned()),
        ..Command::default()
    })?;
    if !output.exit.success() {
        bail!(
            "the reader failed ({:?}): {}",
            output.exit,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn mount(source: &str, target: &str, fstype: &str, options: &str) -> Result<Answer> {
    let mut flags = MountFlags::empty();
    let mut data = Vec::new();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option {
            "bind" => flags |= MountFlags::BIND,
            "noatime" => flags |= MountFlags::NOATIME,
            "ro" => flags |= MountFlags::RDONLY,
            "rw" => {}
            other => data.push(other),
        }
    }
    boot::plain_mount(source, target, fstype, flags, &data.join(","))?;
    Ok(Answer::Done)
}

fn read_file(path: &str, offset: u64, limit: u64) -> Result<Answer> {
    let read = || {
        let mut file = fs::File::open(path)?;
        if offset > 0 {
            file.seek(SeekFrom::Start(offset))?;
        }
        let mut data = Vec::new();
        file.take(limit).read_to_end(&mut data)?;
        Ok::<_, std::io::Error>(data)
    };
    let data = read().with_context(|| format!("cannot read {path}"))?;
    Ok(Answer::Bytes { data })
}

fn write_file(path: &str, data: &[u8], append: bool) -> Result<Answer> {
    // The data is written at once, because files of /sys and /proc interpret each write separately.
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(!append)
        .append(append)
        .open(path)
        .and_then(|mut file| file.write_all(data))
        .with_context(|| format!("cannot write {path}"))?;
    Ok(Answer::Done)
}

fn uptime_ms() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds: f64 = text
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0.0);
    std::time::Duration::try_from_secs_f64(seconds).map_or(0, |uptime| {
        uptime.as_millis().try_into().unwrap_or(u64::MAX)
    })
}
