// SPDX-License-Identifier: GPL-2.0-only

//! A disk that offers more than those of the VMM.

use anyhow::Result;
use ddlab::{Guest, wait};

/// The kernel's own SCSI disk in memory, with atomic writes of any block, and with `WRITE SAME`
/// that unmaps, by which it discards blocks and fills them with zeros.
const MODULE: &str = "scsi_debug dev_size_mb=96 delay=0 atomic_wr=1 atomic_wr_align=1 \
                      atomic_wr_gran=1 lbpws=1 lbpu=1 lbprz=1";

/// Makes the disk and returns its device. A machine has one such disk at most.
pub(super) fn disk(guest: &Guest) -> Result<String> {
    guest.exec_ok(["modprobe", "sd_mod"])?;
    guest.exec_ok("modprobe".split(' ').chain(MODULE.split_whitespace()))?;
    wait::until("the SCSI disk is there", || {
        let there = guest.exec(["test", "-b", "/dev/sda"])?;
        Ok(there.exit.success().then(|| "/dev/sda".to_owned()))
    })
}
