// SPDX-License-Identifier: GPL-2.0-only

//! Work that keeps both modules busy.

use anyhow::{Result, ensure};
use ddhelper::churn::Random;
use ddlab::{Command, FileSpec, Guest, Machine, Running, wait};

use crate::ddctl;

/// Returns the files that the work needs on a disk mounted at `/mnt`.
pub(crate) fn files() -> Vec<FileSpec> {
    let mut files = ddlab::content::small_files("tree", 500, 6000, 1);
    files.push(FileSpec::new("large", 24 << 20, 2));
    files
}

/// Waits for a random number of calls, so that the moment is random.
pub(crate) fn some_calls(guest: &Machine, rng: &mut Random) -> Result<()> {
    let calls = ddctl::counters(guest)?.calls + rng.within(1, 300);
    wait::until("the guest has made some calls", || {
        Ok((ddctl::counters(guest)?.calls >= calls).then_some(()))
    })
}

/// Work that keeps pages moving in both directions.
pub(crate) struct Load(Vec<Running>);

impl Load {
    pub(crate) fn start(guest: &Guest) -> Result<Self> {
        // The memory of the container. With less of it, the pages that one reclaimer works on are
        // at times all that another one could reclaim.
        guest.cgroup("load", &[("memory.max", "16M")])?;
        let works = [
            "cat /mnt/large > /dev/null",
            "cat /mnt/tree/*/* > /dev/null",
            "head -c 300000 /mnt/large > /mnt/written; cat /mnt/written > /dev/null; \
             truncate -s 100000 /mnt/written; cat /mnt/written > /dev/null; rm /mnt/written",
            "echo 1 > /proc/sys/vm/drop_caches",
        ];
        let start = |work| {
            let forever = format!("while :; do {work}; done");
            guest.spawn(&Command::shell(forever).cgroup("load"))
        };
        works
            .into_iter()
            .map(start)
            .collect::<Result<_>>()
            .map(Self)
    }

    /// Ends the work. No part of it may have ended before.
    pub(crate) fn stop(self) -> Result<()> {
        for mut work in self.0 {
            ensure!(work.poll()?.is_none(), "work ended: {}", work.output()?);
            work.kill(9)?;
            work.wait()?;
        }
        Ok(())
    }
}
