// SPDX-License-Identifier: GPL-2.0-only

//! Runs a program that prints figures.

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

/// Size of the buffer for output.
const BUFFER: usize = 4 << 10;

/// Interval at which it is checked whether a program has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Variables that systemd sets for the daemon, and that are not passed on.
const OURS: [&str; 6] = [
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// Enters the cgroup whose file is `$0` and then becomes the program, so that the program cannot
/// start anything outside of the cgroup.
const ENTER: &str = r#"echo 0 > "$0" && exec "$@""#;

/// A process group and, where possible, a cgroup of its own. All their processes are killed when
/// this is dropped. The group has the id of its leader, and no other process can get that id until
/// the leader has been waited for.
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
            // There may be no process left.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until a child has ended, without reaping it.
async fn end_of(child: Pid) {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while let Ok(None) = waitid(WaitId::Pid(child), look) {
        sleep(LOOK).await;
    }
}

/// Runs a program and reads its output. All processes that it started end with it, and when the
/// future is dropped.
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
    // This is dropped before the child, which is not reaped until then.
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
                // Its remaining processes would keep the output open.
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
