// SPDX-License-Identifier: GPL-2.0-only

//! `ddhelper mini share` and `ddhelper mini pools`, whose VMs share the tier in steps.

use anyhow::{Result, ensure};
use ddlab::{Command, Machine, Running, wait};
use serde_json::Value;

use crate::ddctl;

/// The signal that begins a step of the helper.
const SIGUSR1: i32 = 10;

/// The helper whose VMs take the steps.
#[derive(Debug)]
pub(crate) struct Share<'a> {
    host: &'a Machine,
    running: Running,
}

impl<'a> Share<'a> {
    /// Starts VMs, each of which puts `pages`, and waits until they are idle. One of them puts
    /// `stream` pages in the next step. They run in a cgroup if one is given.
    pub(crate) fn start(
        host: &'a Machine,
        (vms, pages, stream): (u32, u64, u64),
        cgroup: Option<&str>,
    ) -> Result<Self> {
        let words = format!("share {vms} {pages} {stream}");
        Self::run(host, &words, cgroup, "idle")
    }

    /// Starts VMs with a number of pools each, puts `pages` pages into each pool, and waits until
    /// all are full.
    pub(crate) fn with_pools(
        host: &'a Machine,
        (vms, pools, pages): (u32, u32, u64),
    ) -> Result<Self> {
        Self::run(host, &format!("pools {vms} {pools} {pages}"), None, "full")
    }

    fn run(host: &'a Machine, words: &str, cgroup: Option<&str>, step: &str) -> Result<Self> {
        let command = Command::new(["ddhelper", "mini"].into_iter().chain(words.split(' ')));
        let command = match cgroup {
            Some(cgroup) => command.cgroup(cgroup),
            None => command,
        };
        let running = host.spawn(&command)?;
        let mut share = Self { host, running };
        share.await_step(step)?;
        Ok(share)
    }

    /// Begins the next step and waits until it is done. Returns the helper's output.
    pub(crate) fn go_on(&mut self, step: &str) -> Result<Value> {
        self.running.kill(SIGUSR1)?;
        self.await_step(step)
    }

    /// Kills the VMs and waits for their end.
    pub(crate) fn end(mut self) -> Result<()> {
        self.running.kill(9)?;
        self.running.wait().map(drop)
    }

    fn await_step(&mut self, step: &str) -> Result<Value> {
        let said = wait::until(step, || {
            let output = self.running.output()?;
            for line in output.lines().filter(|line| line.starts_with('{')) {
                let said: Value = serde_json::from_str(line)?;
                if said["step"] == step {
                    return Ok(Some(said));
                }
            }
            let ended = self.running.poll()?;
            ensure!(ended.is_none(), "mini VMs ended: {ended:?} {output}");
            Ok(None)
        })?;
        eprintln!("    {said}; {} pages", ddctl::host(self.host)?.used_pages);
        Ok(said)
    }
}
