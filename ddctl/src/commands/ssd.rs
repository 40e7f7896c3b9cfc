// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl ssd`.

use crate::{
    context::Context,
    error::{Error, Kind, Result},
    eviction, number,
    output::{Frame, printable},
    report::{DeviceReport, DevicesReport, SsdSettingsReport},
    save,
    system::System,
    table::Table,
};
use clap::{Args, Subcommand, ValueEnum};
use ddabi::ssd::Waiting;
use ddconf::size::show_pages;
use ddnl::{
    ConfigChange, Device, HostControl,
    reply::{device_state_word, waiting_word},
};
use ddvm::{
    Config, Editor, config,
    document::Document,
    ssd::{self, DEADLINES, IndexMemory, Rate},
    tier,
};
use serde::Serialize;
use std::path::PathBuf;

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
    "\n  ddctl ssd add /dev/nvme0n1p3 --write-budget 0.5dwpd",
    "\n  ddctl ssd add /dev/disk/by-id/nvme-eui.0025388b710116a1 --save",
))]
pub(crate) struct AddArguments {
    /// Path of the block device
    #[arg(value_name = "DEVICE")]
    path: String,
    /// Add the device even if it contains data
    #[arg(long)]
    force: bool,
    /// Limit of writes to the device, as for `ddctl ssd set`; without it, writes are not limited
    #[arg(long, value_name = "RATE", value_parser = rate)]
    write_budget: Option<Rate>,
    /// Make the device permanent: write it into /etc/doubledecker/host.toml for ddhostd
    #[arg(long, conflicts_with = "force")]
    save: bool,
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
    /// Remove it from /etc/doubledecker/host.toml as well
    #[arg(long)]
    save: bool,
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
/// The deadline, --wait, --retain and --index-memory apply to all devices, and a write budget to
/// one device.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl ssd set --deadline 50",
    "\n  ddctl ssd set --wait host",
    "\n  ddctl ssd set --index-memory 4G --save",
    "\n  ddctl ssd set /dev/nvme0n1p3 --write-budget 0.5dwpd --save",
))]
pub(crate) struct SetArguments {
    /// Path of the block device, or its number in `ddctl ssd list`
    #[arg(required_unless_present_any = ["deadline", "wait", "retain", "index_memory"], requires = "write_budget")]
    device: Option<String>,
    /// Longest time in milliseconds that a guest waits for a device before it reads its own disk
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(i64::from(*DEADLINES.start())..=i64::from(*DEADLINES.end())))]
    deadline: Option<u32>,
    /// Where a reader waits for a device
    #[arg(long, value_name = "WHERE")]
    wait: Option<Wait>,
    /// Whether a page that a guest reads stays on the device
    ///
    /// A page that stays need not be written again when it leaves the guest's page cache unchanged,
    /// but it takes a place on the device while the guest has it in the page cache.
    #[arg(long, value_name = "WHETHER")]
    retain: Option<Retain>,
    /// Memory that the index may take before pages leave the SSD tier, or `none`
    ///
    /// The index of both tiers is in this machine's memory, beside the capacity of the memory tier.
    /// Near the limit, the oldest pages leave the SSD tier; beyond it, no pages enter it.
    #[arg(long, value_name = "SIZE", value_parser = index_memory)]
    index_memory: Option<IndexMemory>,
    /// Limit of writes to the device: bytes a second, like 20M; drive writes a day, like 1dwpd; or
    /// `none`
    ///
    /// Writes wear out an SSD. Pages beyond the budget are evicted or refused instead of written.
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "device")]
    write_budget: Option<Rate>,
    /// Make the settings permanent: write them into /etc/doubledecker/host.toml for ddhostd
    #[arg(long)]
    save: bool,
}

/// Where a reader waits for a device.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Wait {
    /// In the guest if a read takes 200 microseconds or more on average, in the host otherwise
    Auto,
    /// In the host; the vCPU runs no other task of the guest until the read ends
    Host,
    /// In the guest; the vCPU runs other tasks, but the read takes a second call
    Guest,
}

/// Whether a page that a guest reads stays on its device.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Retain {
    /// The page stays until its content changes, or until it is evicted
    On,
    /// The page leaves the device
    Off,
}

impl Wait {
    fn waiting(self) -> Waiting {
        match self {
            Self::Auto => Waiting::Automatic,
            Self::Host => Waiting::Host,
            Self::Guest => Waiting::Guest,
        }
    }
}

fn rate(text: &str) -> std::result::Result<Rate, String> {
    text.parse()
}

fn index_memory(text: &str) -> std::result::Result<IndexMemory, String> {
    text.parse()
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
    if !arguments.force && ssd::has_data(&context.system.file(path))? {
        return Err(Error::new(
            Kind::Usage,
            format!("{path} contains data, which would be lost"),
        )
        .hint(if_not_needed(arguments)));
    }
    let system = context.system;
    let editor = edit(context, arguments.save, |editor| {
        editor.change(|file| file.set_device(path, is_it(system, path), arguments.write_budget))
    })?;
    let id = host.control.add_device(path)?;
    let mut text = format!("Added {path} to the SSD tier as device {id}\n");
    let budget = match arguments.write_budget {
        None => None,
        Some(rate) => match limit_new(&mut *host.control, id, rate) {
            Ok(pages) => Some(pages),
            // A device that was to have a limit must not be written without one.
            Err(error) => {
                eviction::remove_device(system, &mut *host.control, id)?;
                return Err(error.hint("the device was not added"));
            }
        },
    };
    text += &budget.map_or_else(String::new, |pages| limited(path, pages));
    finish(context, editor, text, |saved| DeviceReport {
        device: id,
        path: path.clone(),
        write_budget_pages: budget,
        saved,
    })
}

/// Sets the write budget of a device that was just added. Returns it in pages a second.
fn limit_new(control: &mut dyn HostControl, id: u32, rate: Rate) -> Result<u64> {
    let devices = control.devices()?;
    let pages = rate.pages(find(&devices, &id.to_string())?.stats.places);
    control.set_write_budget(id, pages)?;
    Ok(pages)
}

/// Returns the message about a write budget in pages a second, where 0 means no limit.
fn limited(path: &str, pages: u64) -> String {
    match pages {
        0 => format!("Writes to {path} are not limited\n"),
        _ => format!(
            "Writes to {path} are limited to {} a second\n",
            show_pages(pages)
        ),
    }
}

fn if_not_needed(arguments: &AddArguments) -> String {
    let path = &arguments.path;
    match arguments.save {
        false => format!("run `ddctl ssd add --force {path}` if they are not needed"),
        // ddhostd refuses the device after a reboot, too.
        true => format!("run `dd if=/dev/zero of={path} bs=1M count=1` if they are not needed"),
    }
}

fn remove(context: &mut Context<'_>, arguments: &RemoveArguments) -> Result<()> {
    let mut host = context.host("ssd remove")?;
    let devices = host.control.devices()?;
    let device = find(&devices, &arguments.device)?;
    let system = context.system;
    let mut was_listed = false;
    let editor = edit(context, arguments.save, |editor| {
        was_listed = editor.change(|file| file.remove_device(is_it(system, &device.path)))?;
        Ok(())
    })?;
    eviction::remove_device(system, &mut *host.control, device.id)?;
    let mut text = format!("Removed {} from the SSD tier\n", device.path);
    let file = config::PATH;
    if !arguments.save && is_listed(system, &device.path) {
        text += &format!(
            "ddhostd adds it again when it restarts, because {file} lists it; `--save` removes it \
             there as well\n"
        );
    }
    // A file that does not list the device is not changed.
    let editor = editor.filter(|_| was_listed);
    if arguments.save && !was_listed {
        text += &format!("{file} does not list it, and is not changed\n");
    }
    finish(context, editor, text, |saved| DeviceReport {
        device: device.id,
        path: device.path.clone(),
        write_budget_pages: None,
        saved,
    })
}

/// Returns whether the file of the host lists a device.
fn is_listed(system: &dyn System, path: &str) -> bool {
    // ddhostd adds no device if the file is missing or wrong.
    let config = Config::load_for_any(&system.file(config::PATH));
    let is_it = is_it(system, path);
    config.is_ok_and(|config| config.ssd.devices.iter().any(|listed| is_it(&listed.path)))
}

/// Changes the file of the host in memory, if that is wanted.
fn edit<'a>(
    context: &Context<'_>,
    is_wanted: bool,
    change: impl FnOnce(&mut Editor<'a>) -> std::result::Result<(), String>,
) -> Result<Option<Editor<'a>>> {
    if !is_wanted {
        return Ok(None);
    }
    let mut editor = save::open(context.system)?;
    change(&mut editor)
        .map_err(|error| Error::new(Kind::Failed, error).hint("nothing was changed"))?;
    Ok(Some(editor))
}

/// Returns whether a path leads to a device, by any of its names.
fn is_it<'a>(system: &'a dyn System, path: &'a str) -> impl Fn(&str) -> bool + 'a {
    move |other| ssd::is_same(&system.file(other), &system.file(path))
}

/// Writes the file, and prints what the command did, also if the file cannot be written. `report`
/// gets the path of the file if it was written.
fn finish<R: Serialize>(
    context: &mut Context<'_>,
    editor: Option<Editor<'_>>,
    mut text: String,
    report: impl FnOnce(Option<PathBuf>) -> R,
) -> Result<()> {
    let mut path = None;
    let mut result = Ok(());
    match editor.map(|editor| save::finish(context.system, editor)) {
        None => {}
        Some(Ok(saved)) => {
            text += &format!("{}\n", saved.text());
            path = Some(saved.path());
        }
        Some(Err(error)) => result = Err(error),
    }
    Frame::new(text, &report(path)).print(context)?;
    result
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
            printable(&device.path),
            device_state_word(device.state).into(),
            number::size(stats.places),
            number::size(stats.used),
            number::size(stats.read_pages),
            number::size(stats.written_pages),
            errors.to_string(),
        ]);
    }
    let text = if devices.is_empty() {
        "The SSD tier has no device; `ddctl ssd add DEVICE` adds one\n".into()
    } else {
        table.text(context.columns())
    };
    Frame::new(text, &DevicesReport { devices }).print(context)
}

fn set(context: &mut Context<'_>, arguments: &SetArguments) -> Result<()> {
    let mut host = context.host("ssd set")?;
    let (mut text, mut report) = (String::new(), SsdSettingsReport::default());
    let devices = host.control.devices()?;
    let device = match &arguments.device {
        Some(name) => Some(find(&devices, name)?),
        None => None,
    };
    let budget = device.zip(arguments.write_budget);
    let system = context.system;
    let index_limit = match arguments.index_memory {
        Some(limit) => Some(limit.pages(tier::memory(&system.file("/proc/meminfo"))?)),
        None => None,
    };
    let changed = ConfigChange {
        waiting: arguments.wait.map(Wait::waiting),
        retain: arguments.retain.map(|retain| retain == Retain::On),
        index_limit,
        deadline: arguments.deadline.map(|ms| ms * 1000),
        ..ConfigChange::default()
    };
    let change = |file: &mut Document| {
        if let Some((device, rate)) = budget {
            let path = &device.path;
            file.set_device(path, is_it(system, path), Some(rate))?;
        }
        if let Some(waiting) = changed.waiting {
            file.set_wait(waiting)?;
        }
        if let Some(retain) = changed.retain {
            file.set_retain(retain)?;
        }
        if let Some(limit) = arguments.index_memory {
            file.set_index_memory(limit)?;
        }
        match arguments.deadline {
            Some(deadline) => file.set_deadline(deadline),
            None => Ok(()),
        }
    };
    let editor = edit(context, arguments.save, |editor| editor.change(change))?;
    // In one request, so that the module changes all of them or none.
    if changed != ConfigChange::default() {
        host.control.configure(&changed)?;
    }
    if let Some((device, rate)) = budget {
        let pages = rate.pages(device.stats.places);
        host.control.set_write_budget(device.id, pages)?;
        text += &limited(&device.path, pages);
        report.device = Some(device.id);
        report.write_budget_pages = Some(pages);
    }
    if let Some(wait) = arguments.wait {
        text += match wait {
            Wait::Auto => "Readers wait for devices in guests if devices are slow\n",
            Wait::Host => "Readers wait for devices in the host\n",
            Wait::Guest => "Readers wait for devices in guests\n",
        };
        report.waiting = Some(waiting_word(wait.waiting()));
    }
    if let Some(retain) = changed.retain {
        text += match retain {
            true => "Pages that guests read stay on the devices\n",
            false => "Pages that guests read leave the devices\n",
        };
        report.retain = Some(retain);
    }
    if let Some(pages) = index_limit {
        text += &match pages {
            0 => "The memory of the index is not limited\n".to_owned(),
            _ => format!(
                "Pages leave the SSD tier when the index takes {}\n",
                show_pages(pages)
            ),
        };
        report.index_limit_pages = Some(pages);
    }
    if let Some(deadline) = arguments.deadline {
        text += &format!("Guests wait for a device for up to {deadline} ms\n");
        report.deadline_ms = Some(deadline);
    }
    finish(context, editor, text, |saved| SsdSettingsReport {
        saved,
        ..report
    })
}
