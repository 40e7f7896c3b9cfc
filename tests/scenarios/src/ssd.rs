// SPDX-License-Identifier: GPL-2.0-only

//! Containers whose pages are kept on a device of the host: pages that are read back are right, the
//! oldest ones are evicted when the device is full, and a device that fails, stalls or is removed
//! only causes misses.

pub(crate) mod deferral;
pub(crate) mod device;
mod endurance;
pub(crate) mod faults;
pub(crate) mod faulty;
mod fio;
pub(crate) mod hybrid;
mod index;
mod peers;
mod retained;
pub(crate) mod tiers;
mod way;

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, Context, FileSpec, Guest, Machine, ReadSpec, Scenario, Target, Throttle};

use crate::{
    accounting,
    ddctl::{self, PoolStats},
    ssd::device::Device,
    stage::{self, Stage, percent, ratio},
};

/// Two containers of a guest, one in memory and one on a device.
pub(crate) const SSD: Scenario = Scenario {
    name: "ssd",
    about: "pages on devices stay right, the oldest leave first, and failures only cause misses",
    quick: true,
    run,
};

/// The device, and files of which one fits and one does not.
const DEVICE_MIB: u64 = 96;
const SMALL: u64 = 32 << 20;
const LARGE: u64 = 192 << 20;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let files = [
        FileSpec::new("small", SMALL, 1),
        FileSpec::new("large", LARGE, 2),
        FileSpec::new("other", SMALL, 3),
    ];
    // The kernel's message about a device that was removed.
    context.allow_console("I/O error");
    let stage = Stage::set(context, 64)?;
    let host = stage.host();
    let device = Device::add(host, DEVICE_MIB)?;
    // An emulated host may be slow for other reasons than its device.
    ddctl::run(host, "ssd set --deadline 5000")?;
    let disk = stage.disk("data", files.to_vec())?;
    let guest = stage.guest_with("one", &disk, Throttle::NONE)?;
    for file in &files {
        stage::container(&guest, &file.path, "8M", 100)?;
    }
    for name in ["small", "large"] {
        set_store(&guest, name, "ssd")?;
    }
    // The default policy would keep the present pages.
    ddctl::run(&guest, "container set-policy large fifo")?;
    let [small, large, other] = &files;

    // All pages of a file that fits are read back from the device, each of them once.
    read(&guest, small)?;
    let before = device.stats(host)?;
    read(&guest, small)?;
    let asked = counted(host, "small")?;
    let after = device.stats(host)?;
    after.check_reads()?;
    let from_device = after.read_pages - before.read_pages;
    ensure!(from_device > 0, "no page came from the device: {after:?}");
    accounting::check(host)?;

    let kept = retained::check(host, &guest, &device, small)?;

    // Of a file that does not fit, the device keeps the pages that were put last.
    read(&guest, large)?;
    let stats = counted(host, "large")?;
    ensure!(stats.ssd_evictions > 0, "nothing was evicted: {stats:?}");
    let full = device.stats(host)?;
    let in_use = percent(full.segments - full.free_segments, full.segments);
    read(&guest, large)?;
    accounting::check(host)?;

    index::is_limited(host, &guest, &device, large)?;
    let stats = device.stats(host)?;
    let (written, discarded) = (stats.written_pages, stats.discarded_pages);
    let puts = counted(host, "small")?.ssd_puts + counted(host, "large")?.ssd_puts;

    // The container in memory has no page on the device.
    read(&guest, other)?;
    read(&guest, other)?;
    let stats = counted(host, "other")?;
    ensure!(stats.ssd_puts == 0 && stats.hits > 0, "{stats:?}");

    // A container that moves to memory gets its pages from the device once more.
    read(&guest, small)?;
    set_store(&guest, "small", "mem")?;
    let before = counted(host, "small")?;
    read(&guest, small)?;
    let after = counted(host, "small")?;
    ensure!(
        after.ssd_hits > before.ssd_hits && after.ssd_puts == before.ssd_puts,
        "{after:?}"
    );
    set_store(&guest, "small", "ssd")?;

    // Pages of a removed device are misses, and are read from the guest's own disk.
    read(&guest, small)?;
    device.power_off(host)?;
    read(&guest, small)?;
    read(&guest, small)?;
    ddctl::run(host, &format!("ssd remove {}", device.path()))?;
    read(&guest, small)?;
    accounting::check(host)?;
    device.forget(host)?;

    // A device is removed while a guest reads.
    let device = Device::add(host, DEVICE_MIB)?;
    read(&guest, large)?;
    let sum = ["sha256sum", "/mnt/large"].map(str::to_owned);
    let sum = || Command::new(sum.clone()).cgroup(&large.path);
    let right = guest.run_ok(&sum())?;
    let mut reading = guest.spawn(&sum())?;
    ddctl::run(host, &format!("ssd remove {}", device.path()))?;
    let exit = reading.wait()?;
    let read_sum = reading.output()?;
    ensure!(exit.success() && read_sum == right, "{exit}: {read_sum}");
    device.forget(host)?;
    ensure!(
        counted(host, "large")?.ssd_used == 0,
        "there are pages of a device that was removed"
    );
    read(&guest, large)?;
    accounting::check(host)?;
    let mut targets = vec![
        Target::at_least(
            "ssd: requested pages that came from the SSD tier",
            99.0,
            percent(asked.ssd_hits, asked.gets),
            "%",
        ),
        Target::at_most(
            "ssd: pages written to the device per page put",
            1.0,
            ratio(written, puts),
            "",
        ),
        Target::some("ssd: pages of free segments that were discarded", discarded),
        Target::at_least("ssd: segments in use on a full device", 90.0, in_use, "%"),
    ];
    targets.extend(kept);
    Ok(targets)
}

/// Reads a file in its container, whose memory is much smaller than the file.
fn read(guest: &Guest, file: &FileSpec) -> Result<()> {
    let path = format!("/mnt/{}", file.path);
    stage::read(guest, &ReadSpec::new(path).cgroup(&file.path), file)
}

fn set_store(guest: &Guest, name: &str, store: &str) -> Result<()> {
    ddctl::run(guest, &format!("container set-store {name} {store}")).map(drop)
}

/// Returns what the host has counted for a container.
fn counted(host: &Machine, name: &str) -> Result<PoolStats> {
    let vms = ddctl::vms(host)?;
    let vm = vms.first().context("a VM")?;
    vm.container(name)?.stats.context("statistics")
}
