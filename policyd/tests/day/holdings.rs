// SPDX-License-Identifier: GPL-2.0-only

//! Resources that a process holds.

use std::{
    fs,
    time::{Duration, Instant},
};

/// The amounts of resources.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Holdings {
    /// Anonymous memory in KiB.
    pub(crate) memory_kib: usize,
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    /// Children, and processes that these left behind.
    pub(crate) processes: usize,
    /// Bytes of the journal of limits.
    pub(crate) journal: usize,
}

/// Returns a number of seconds for which only commands of this process sleep.
pub(crate) fn long() -> u32 {
    9_000_000 + std::process::id()
}

/// Returns the number of sleeping commands.
fn sleepers() -> usize {
    let wanted = format!("sleep\0{}\0", long());
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.map(|one| fs::read(one.path().join("cmdline")));
    lines
        .filter(|line| line.as_ref().is_ok_and(|line| line == wanted.as_bytes()))
        .count()
}

impl Holdings {
    /// Returns the resources of this process.
    pub(crate) fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            number.unwrap().parse().unwrap()
        };
        let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
        let children = tasks.map(|task| fs::read_to_string(task.path().join("children")));
        // A task that has ended in the meantime has none.
        let children = children.map(|line| line.unwrap_or_default().split(' ').count() - 1);
        Self {
            memory_kib: field("RssAnon:"),
            descriptors: fs::read_dir("/proc/self/fd").unwrap().count(),
            threads: field("Threads:"),
            processes: children.sum::<usize>() + sleepers(),
            journal: 0,
        }
    }

    /// Waits until the resources are as few as in `first`, or for ten seconds, and returns them.
    pub(crate) async fn settled(first: &Self) -> Self {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let now = Self::now();
            let over = now.processes == 0 && now.descriptors <= first.descriptors + 16;
            if over || Instant::now() > end {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns the maximum of each amount.
    pub(crate) fn most(all: &[Self]) -> Self {
        all.iter().fold(Self::default(), |most, one| Self {
            memory_kib: most.memory_kib.max(one.memory_kib),
            descriptors: most.descriptors.max(one.descriptors),
            threads: most.threads.max(one.threads),
            processes: most.processes.max(one.processes),
            journal: most.journal.max(one.journal),
        })
    }
}
