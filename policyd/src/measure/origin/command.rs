// SPDX-License-Identifier: GPL-2.0

//! A program that tells figures.

use super::Subject;
use crate::measure::exposition::Search;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::{process::Stdio, time::Duration};
use tokio::{
    io::AsyncReadExt,
    process::{Child, Command},
    time::sleep,
};

/// What is read of an output at once.
const BUFFER: usize = 4 << 10;

/// How often it is looked whether a program ended.
const LOOK: Duration = Duration::from_millis(10);

/// What our manager tells us is no affair of theirs.
const OURS: [&str; 6] = [
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// A process group of its own, which ends with this as a whole. Its number is that of its leader;
/// as long as the leader is not waited for, nobody else can get it.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let leader = id.and_then(Pid::from_raw);
        Self(leader)
    }

    fn kill(&self) {
        if let Some(leader) = self.0 {
            // Those who ended already are no trouble.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until a child ended, and leaves it to be waited for.
async fn end_of(child: Pid) {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while let Ok(None) = waitid(WaitId::Pid(child), look) {
        sleep(LOOK).await;
    }
}

/// Runs a program and reads its output. Whatever it started ends with it, and with the future.
pub(super) async fn run(command: &[String], subject: &Subject, page: &mut Search) -> Result<()> {
    let [program, arguments @ ..] = command else {
        bail!("no program");
    };
    let mut started = Command::new(program);
    started
        .args(arguments)
        .env("DD_CGROUP", &subject.cgroup)
        .env("DD_CONTAINER", &subject.name)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    for variable in OURS {
        started.env_remove(variable);
    }
    let mut child = started
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    // Is dropped before the child: until then nobody has waited for it.
    let mut group = Group::of(&child);
    let end = end_of(group.0.context("it ended at once")?);
    tokio::pin!(end);
    let mut ended = false;
    if let Some(mut output) = child.stdout.take() {
        let mut buffer = [0; BUFFER];
        loop {
            tokio::select! {
                read = output.read(&mut buffer) => match read? {
                    0 => break,
                    length => page.feed(&buffer[..length]).context(program.clone())?,
                },
                // What it left behind would keep the output open.
                () = &mut end, if !ended => {
                    ended = true;
                    group.kill();
                }
            }
        }
    }
    if !ended {
        end.await;
        group.kill();
    }
    group.0 = None;
    let status = child.wait().await?;
    if !status.success() {
        bail!("{program}: {status}");
    }
    Ok(())
}
