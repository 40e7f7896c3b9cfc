// SPDX-License-Identifier: GPL-2.0-only

//! Commands for the devices of the SSD tier.

use crate::ffi::queue::is_dying;
use crate::genl::{Args, Message};
use crate::ssd::device::{open_count, Device};
use crate::state::Host;
use ddabi::genl::Attribute;
use kernel::prelude::*;
use kernel::time::delay::fsleep;
use kernel::time::Delta;
use zerocopy::IntoBytes;

/// The command that removes a device waits until the device is closed. It checks this at intervals
/// of [`PAUSE`], at most [`MAX_PAUSES`] times.
const PAUSE: Delta = Delta::from_millis(1);
const MAX_PAUSES: u32 = 1000;

/// The largest write budget, in pages per second.
const MAX_WRITE_BUDGET: u64 = 1_000_000_000;

pub(super) fn add(host: &Host, args: &Args, reply: &mut Message) -> Result {
    let path = args
        .path()
        .ok_or_else(|| reply.explain(c"the attribute path is required", EINVAL))?;
    let _control = host.ssd.control.lock();
    let added = host.ssd.add(|number| Device::open_path(number, path));
    let number = added.map_err(|error| {
        let reason = match error {
            EBUSY => c"the device is in use",
            ENOTBLK => c"this is not a block device",
            ERANGE => c"the logical blocks of the device are larger than a page (4 KiB)",
            ENOSPC => c"the device is too small, or there are 16 devices",
            _ => return error,
        };
        reply.explain(reason, error)
    })?;
    reply.put_u32(Attribute::Device, number)
}

/// Drops the pages of a device in the background. The caller repeats the command until none are
/// left.
pub(super) fn remove(host: &Host, args: &Args, reply: &mut Message) -> Result {
    let _control = host.ssd.control.lock();
    let number = args
        .device()
        .ok_or_else(|| reply.explain(c"the attribute device is required", EINVAL))?;
    let number = number as usize;
    let device = host
        .ssd
        .device(number)
        .ok_or_else(|| reply.explain(c"there is no such device", ENOENT))?;
    device.begin_removal(&host.ssd);
    if !device.is_unused() {
        device.drop_pages(&host.ssd);
        // At least one remains as long as the device is in use, for example by reads.
        return reply.put_u64(Attribute::Left, device.live().max(1));
    }
    drop(device);
    let open = open_count();
    host.ssd.forget(number);
    // A task that has just done its work on the device may still have a reference. The caller
    // expects that the device is closed, so that other programs can open it.
    let mut pauses = 0;
    while open_count() >= open && pauses < MAX_PAUSES && !is_dying() {
        fsleep(PAUSE);
        pauses += 1;
    }
    reply.put_u64(Attribute::Left, 0)
}

pub(super) fn set(host: &Host, args: &Args, reply: &mut Message) -> Result {
    let (Some(number), Some(pages)) = (args.device(), args.write_budget()) else {
        return Err(reply.explain(
            c"the attributes device and write-budget are required",
            EINVAL,
        ));
    };
    if pages > MAX_WRITE_BUDGET {
        return Err(reply.explain(
            c"the write budget is more than 10^9 pages in a second",
            ERANGE,
        ));
    }
    let device = host
        .ssd
        .device(number as usize)
        .ok_or_else(|| reply.explain(c"there is no such device", ENOENT))?;
    device.set_write_budget(pages);
    Ok(())
}

pub(super) fn list(host: &Host, cursor: &mut u64, message: &mut Message) -> Result<bool> {
    let Some(device) = host.ssd.next_device(*cursor as usize) else {
        return Ok(false);
    };
    message.put_u32(Attribute::Device, device.number as u32)?;
    message.put_str(Attribute::Path, device.path())?;
    message.put_u32(Attribute::DeviceState, device.state() as u32)?;
    message.put_bytes(Attribute::SsdStats, device.stats().as_bytes())?;
    *cursor = device.number as u64 + 1;
    Ok(true)
}
