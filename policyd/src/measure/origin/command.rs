// SPDX-License-Identifier: GPL-2.0-only

//! A program that tells figures.

use super::{ContainerName, leaf::Leaf};
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

/// Enters the cgroup whose file is `$0`, then becomes the program: there is no moment in which it
/// could start anything outside.
const ENTER: &str = r#"echo 0 > "$0" && exec "$@""#;

/// A process group and, where there may be one, a cgroup of its own, which end with this as a
/// whole. The group's number is that of its leader; as long as the leader is not waited for, no
/// other process can get it.
struct Group {
    leader: Option<Pid>,
    leaf: Option<Leaf>,
}

impl Group {
    fn of(child: &Child, leaf: Option<Leaf>) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let leader = id.and_then(Pid::from_raw);
        Self { leader, leaf }
    }

    fn kill(&mut self) {
        self.leaf = None;
        if let Some(leader) = self.leader {
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
pub(super) async fn run(
    command: &[String],
    container: &ContainerName,
    leaf: Option<Leaf>,
    page: &mut Search,
) -> Result<()> {
    let [program, arguments @ ..] = command else {
        bail!("no program");
    };
    let mut started = match &leaf {
        Some(leaf) => {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", ENTER]).arg(leaf.entrance()).arg(program);
            shell
        }
        None => Command::new(program),
    };
    started
        .args(arguments)
        .env("DD_CGROUP", &container.cgroup)
        .env("DD_CONTAINER", &container.name)
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
    // Is dropped before the child: until then it was not waited for.
    let mut group = Group::of(&child, leaf);
    let end = end_of(group.leader.context("it ended at once")?);
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
    group.leader = None;
    let status = child.wait().await?;
    if !status.success() {
        bail!("{program}: {status}");
    }
    Ok(())
}
