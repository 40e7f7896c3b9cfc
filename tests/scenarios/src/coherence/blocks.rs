// SPDX-License-Identifier: GPL-2.0

//! Writes of single blocks to pages that are at the host.

use anyhow::{Context as _, Result};
use ddlab::{Command, Machine, wait};

use crate::{ddctl, filesystem::Filesystem};

/// Pages written to.
const PAGES: u64 = 64;

/// Bytes that are wrong after one block of each page was written while the host
/// held the page, and the page left the page cache before it was read again.
/// With blocks smaller than a page, it was not up to date all the while.
pub(super) fn wrong_bytes(guest: &Machine, site: &Filesystem) -> Result<u64> {
    let name = site.name;
    let inside = |line: String| guest.run_ok(&Command::shell(line).cgroup(name));
    let len = PAGES * 4096;
    // On tmpfs, and of no container: these cannot be reclaimed.
    guest.shell(format!(
        "yes old | head -c {len} > /run/want; yes new | head -c 1024 > /run/new"
    ))?;
    inside(format!("cp /run/want /{name}/blocks; sync /{name}/blocks"))?;
    // A filesystem is cached from its first read on.
    reclaim(guest, name)?;
    inside(format!("cmp /run/want /{name}/blocks"))?;
    let before = ddctl::counters(guest)?.put_stored;
    reclaim(guest, name)?;
    wait::until("the pages are at the host", || {
        let stored = ddctl::counters(guest)?.put_stored - before;
        Ok((stored >= PAGES).then_some(()))
    })?;
    inside(format!(
        "for page in $(seq 0 {}); do for file in /run/want /{name}/blocks; do \
         dd if=/run/new of=$file bs=1k seek=$((page * 4 + page % 4)) conv=notrunc status=none; \
         done; done; sync /{name}/blocks",
        PAGES - 1
    ))?;
    reclaim(guest, name)?;
    let different = inside(format!("cmp -l /run/want /{name}/blocks | wc -l"))?;
    inside(format!("rm /run/want /run/new /{name}/blocks"))?;
    different.trim().parse().context("cmp | wc")
}

/// Reclaims until the container has nothing more in the page cache that can be.
fn reclaim(guest: &Machine, name: &str) -> Result<()> {
    wait::until_still("the page cache", || {
        // It fails when there is less than it was to reclaim.
        let stat = guest.shell(format!(
            "cd /sys/fs/cgroup/{name}; echo 8M > memory.reclaim 2> /dev/null || true; \
             cat memory.stat"
        ))?;
        let file = stat.lines().find(|line| line.starts_with("file "));
        Ok(file.map(str::to_owned))
    })
    .map(drop)
}
