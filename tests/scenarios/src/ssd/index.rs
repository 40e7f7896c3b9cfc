// SPDX-License-Identifier: GPL-2.0-only

//! The limit of the memory of the index: near it, the oldest pages leave the SSD tier.

use anyhow::{Result, ensure};
use ddlab::{FileSpec, Guest, Machine, wait};

use super::{counted, device::Device, read};
use crate::{accounting, ddctl};

/// The device is full of pages of `file`.
pub(super) fn is_limited(
    host: &Machine,
    guest: &Guest,
    device: &Device,
    file: &FileSpec,
) -> Result<()> {
    let name = &file.path;
    let index = || Ok::<_, anyhow::Error>(ddctl::host(host)?.counters.index_bytes);
    let (all, before) = (counted(host, name)?, index()?);
    let limit = before / 4 * 3;
    ddctl::run(host, &format!("ssd set --index-memory {limit}B"))?;
    wait::until("the index is below its limit", || {
        Ok((index()? <= limit).then_some(()))
    })?;
    let fewer = counted(host, name)?;
    ensure!(
        fewer.ssd_used < all.ssd_used && fewer.ssd_used > 0,
        "of {} pages {} are left while the index may take {limit} of {before} bytes",
        all.ssd_used,
        fewer.ssd_used
    );
    let evicted = device.stats(host)?;
    read(guest, file)?;
    read(guest, file)?;
    let (after, used) = (counted(host, name)?, index()?);
    ensure!(
        used <= limit + limit / 8,
        "the index takes {used} bytes, and its limit is {limit}"
    );
    ensure!(after.ssd_puts > fewer.ssd_puts, "{after:?}");
    device.stats(host)?.check_reads()?;
    accounting::check(host)?;

    ddctl::run(host, "ssd set --index-memory none")?;
    read(guest, file)?;
    read(guest, file)?;
    let (again, full) = (counted(host, name)?, device.stats(host)?);
    ensure!(
        again.ssd_used > after.ssd_used && full.free_segments < evicted.free_segments,
        "the device is not filled without a limit: {again:?}"
    );
    accounting::check(host).map(drop)
}
