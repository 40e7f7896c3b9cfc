// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl ssd`.

use crate::{
    context::Context,
    error::{Error, Kind, Result},
    eviction,
    output::{Frame, Table},
    report::{DeviceReport, DevicesReport, SsdSettingsReport},
    value,
};
use clap::{Args, Subcommand, ValueEnum};
use ddabi::{PAGE_SIZE, ssd::Waiting};
use ddconf::size::{Size, show_pages};
use ddnl::{
    ConfigChange, Device,
    reply::{device_state_word, waiting_word},
};
use std::{fs::File, io::Read as _, path::Path};

/// Bytes at the beginning of a device that show whether it is in use: labels of partition tables,
/// file systems and volumes are there.
const HEAD: usize = 1 << 20;

/// Add, remove and show the devices of the SSD tier (host)
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Add(AddArguments),
    Remove(RemoveArguments),
    List(ListArguments),
    Set(SetArguments),
}

/// Add a block device to the SSD tier
///
/// The content of the device is lost, and the device must not be in use. Cached pages cannot be
/// read any more after the device is removed, or after a reboot, but they are not erased: encrypt
/// the device if that matters.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl ssd add /dev/nvme0n1p3",
))]
pub(crate) struct AddArguments {
    /// Path of the block device
    #[arg(value_name = "DEVICE")]
    path: String,
    /// Add the device even if it contains data
    #[arg(long)]
    force: bool,
}

/// Remove a device from the SSD tier
///
/// The pages that are cached on the device are dropped. No data is lost: the next read of a dropped
/// page comes from the guest's own disk.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl ssd remove /dev/nvme0n1p3",
    "\n  ddctl ssd remove 0",
))]
pub(crate) struct RemoveArguments {
    /// Path of the block device, or its number in `ddctl ssd list`
    #[arg(value_name = "DEVICE")]
    device: String,
}

/// List the devices of the SSD tier
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl ssd list",
    "\n  ddctl ssd list --json",
))]
pub(crate) struct ListArguments {}

/// Change settings of the SSD tier, or of one of its devices
///
/// The deadline and the place where readers wait apply to all devices, and a write budget to one
/// device.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl ssd set --deadline 50",
    "\n  ddctl ssd set --wait host",
))]
pub(crate) struct SetArguments {
    /// Path of the block device, or its number in `ddctl ssd list`
    #[arg(required_unless_present_any = ["deadline", "wait"], requires = "write_budget")]
    device: Option<String>,
    /// Longest time in milliseconds that a guest waits for a device before it reads its own disk
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    deadline: Option<u32>,
    /// Where a reader waits for a device
    #[arg(long, value_name = "WHERE")]
    wait: Option<Wait>,
    /// Limit of writes to the device: bytes a second, like 20M; drive writes a day, like 1dwpd; or
    /// `none`
    ///
    /// An SSD wears out by writes. Pages beyond the budget are evicted instead of being written.
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "device")]
    write_budget: Option<Rate>,
}

/// Where a reader waits for a device.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Wait {
    /// In the guest if a read takes 200 microseconds or more on average, in the host otherwise
    Auto,
    /// In the host, where its vCPU runs no other task
    Host,
    /// In the guest, where its vCPU runs other tasks; the read costs a second call
    Guest,
}

/// Limit of writes to a device.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rate {
    Unlimited,
    /// Bytes in a second.
    Bytes(u64),
    /// Times its size in a day.
    Size(f64),
}

impl Rate {
    /// Returns the pages that may be written to a device of so many pages in a second; 0 means no
    /// limit.
    fn pages(self, places: u64) -> u64 {
        const DAY: f64 = 86_400.0;
        match self {
            Self::Unlimited => 0,
            Self::Bytes(bytes) => (bytes / PAGE_SIZE as u64).max(1),
            Self::Size(times) => ((places as f64 * times / DAY) as u64).max(1),
        }
    }
}

fn rate(text: &str) -> std::result::Result<Rate, String> {
    const WRONG: &str = "write it like 20M, 0.5dwpd or none";
    if text == "none" {
        return Ok(Rate::Unlimited);
    }
    if let Some(times) = text.strip_suffix("dwpd") {
        let times = times.trim().parse().ok();
        let times = times.filter(|times: &f64| times.is_finite() && *times > 0.0);
        return times.map(Rate::Size).ok_or_else(|| WRONG.into());
    }
    match value::size(text.trim_end_matches("/s"))? {
        Size::Bytes(bytes) if bytes > 0 => Ok(Rate::Bytes(bytes)),
        _ => Err(WRONG.into()),
    }
}

pub(crate) fn run(context: &mut Context<'_>, verb: &Verb) -> Result<()> {
    match verb {
        Verb::Add(arguments) => add(context, arguments),
        Verb::Remove(arguments) => remove(context, arguments),
        Verb::List(_) => list(context),
        Verb::Set(arguments) => set(context, arguments),
    }
}

fn add(context: &mut Context<'_>, arguments: &AddArguments) -> Result<()> {
    let mut host = context.host("ssd add")?;
    let path = &arguments.path;
    if !arguments.force && has_data(&context.system.file(path))? {
        return Err(Error::new(
            Kind::Usage,
            format!("{path} contains data, which would be lost"),
        )
        .hint(format!(
            "run `ddctl ssd add --force {path}` if they are not needed"
        )));
    }
    let id = host.control.add_device(path)?;
    let text = format!("Added {path} to the SSD tier as device {id}");
    let report = DeviceReport {
        device: id,
        path: path.clone(),
    };
    Frame::done(text, &report).print(context)
}

/// Returns whether the beginning of a device is not all zeroes.
fn has_data(path: &Path) -> Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD as u64).read_to_end(&mut head)?;
    Ok(head.iter().any(|byte| *byte != 0))
}

fn remove(context: &mut Context<'_>, arguments: &RemoveArguments) -> Result<()> {
    let mut host = context.host("ssd remove")?;
    let devices = host.control.devices()?;
    let device = find(&devices, &arguments.device)?;
    eviction::remove_device(context.system, &mut *host.control, device.id)?;
    let text = format!("Removed {} from the SSD tier", device.path);
    let report = DeviceReport {
        device: device.id,
        path: device.path.clone(),
    };
    Frame::done(text, &report).print(context)
}

fn find<'a>(devices: &'a [Device], name: &str) -> Result<&'a Device> {
    let is_it = |device: &&Device| device.path == name || device.id.to_string() == name;
    devices.iter().find(is_it).ok_or_else(|| {
        Error::new(
            Kind::NotFound,
            format!("the SSD tier has no device `{name}`"),
        )
        .hint("run `ddctl ssd list` to see its devices")
    })
}

fn list(context: &mut Context<'_>) -> Result<()> {
    let mut host = context.host("ssd list")?;
    let devices = host.control.devices()?;
    let columns = [
        "ID", "DEVICE", "STATE", "SIZE", "USED", "READ", "WRITTEN", "ERRORS",
    ];
    let mut table = Table::new(3, &columns);
    for device in &devices {
        let stats = &device.stats;
        let errors = stats.read_errors + stats.timeouts + stats.bad_checksums + stats.write_errors;
        table.row([
            device.id.to_string(),
            device.path.clone(),
            device_state_word(device.state).into(),
            show_pages(stats.places),
            show_pages(stats.used),
            show_pages(stats.read_pages),
            show_pages(stats.written_pages),
            errors.to_string(),
        ]);
    }
    let text = if devices.is_empty() {
        "The SSD tier has no device; `ddctl ssd add DEVICE` adds one\n".into()
    } else {
        table.text()
    };
    Frame::new(text, &DevicesReport { devices }).print(context)
}

fn set(context: &mut Context<'_>, arguments: &SetArguments) -> Result<()> {
    let mut host = context.host("ssd set")?;
    let (mut text, mut report) = (String::new(), SsdSettingsReport::default());
    if let (Some(name), Some(rate)) = (&arguments.device, arguments.write_budget) {
        let devices = host.control.devices()?;
        let device = find(&devices, name)?;
        let pages = rate.pages(device.stats.places);
        host.control.set_write_budget(device.id, pages)?;
        text += &match pages {
            0 => format!("Writes to {} are not limited\n", device.path),
            _ => format!(
                "Writes to {} are limited to {} a second\n",
                device.path,
                show_pages(pages)
            ),
        };
        report.device = Some(device.id);
        report.write_budget_pages = Some(pages);
    }
    if let Some(wait) = arguments.wait {
        let (waiting, words) = match wait {
            Wait::Auto => (Waiting::Automatic, "in guests if devices are slow"),
            Wait::Host => (Waiting::Host, "in the host"),
            Wait::Guest => (Waiting::Guest, "in guests"),
        };
        host.control.configure(&ConfigChange {
            waiting: Some(waiting),
            ..ConfigChange::default()
        })?;
        text += &format!("Readers wait for devices {words}\n");
        report.waiting = Some(waiting_word(waiting));
    }
    if let Some(deadline) = arguments.deadline {
        host.control.configure(&ConfigChange {
            deadline: Some(deadline * 1000),
            ..ConfigChange::default()
        })?;
        text += &format!("Guests wait for a device for up to {deadline} ms\n");
        report.deadline_ms = Some(deadline);
    }
    Frame::new(text, &report).print(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        const MIB: u64 = 1 << 20;
        assert_eq!(rate("none"), Ok(Rate::Unlimited));
        assert_eq!(rate("20M"), Ok(Rate::Bytes(20 * MIB)));
        assert_eq!(rate("20M/s"), Ok(Rate::Bytes(20 * MIB)));
        assert_eq!(rate("1dwpd"), Ok(Rate::Size(1.0)));
        assert_eq!(rate("0.5 dwpd"), Ok(Rate::Size(0.5)));
        for wrong in ["0", "-1dwpd", "dwpd", "25%", "fast", "nandwpd"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Rate::Unlimited.pages(1000), 0);
        assert_eq!(Rate::Bytes(20 * MIB).pages(1000), 5120);
        assert_eq!(Rate::Bytes(1).pages(1000), 1);
        // 1 TiB a day.
        assert_eq!(Rate::Size(1.0).pages(1 << 28), 3106);
    }
}
