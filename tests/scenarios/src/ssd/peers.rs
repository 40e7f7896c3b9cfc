// SPDX-License-Identifier: GPL-2.0-only

//! The SSD tier, dm-cache and bcache on the same device, with the same load of a guest.
//!
//! dm-cache and bcache cache the disk of the guest in the host, where they see what the page cache
//! of the guest does not have.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, Disk, Guest, GuestConfig, Machine, Target};

use super::{counted, device::Device, fio::Report, way::Way};
use crate::{
    ddctl,
    stage::{self, Stage, percent, ratio},
};

/// Flash for cached data, and beside it for what a cache stores about itself.
pub(super) const FLASH_MIB: u64 = 24;
pub(super) const META_MIB: u64 = 8;
/// Time of a request.
const REQUEST_US: u64 = 500;
/// The guest's file, and the memory of its reader.
const FILE_MIB: u64 = 64;
const LIMIT: &str = "28M";
const READER: &str = "reader";
/// Number of reads until the caches are warm, and of those that are counted.
const READS: u64 = 60_000;
/// The file is read by Zipf's law with this exponent.
const SKEW: &str = "1.1";

/// What a cache was asked for, and what it wrote.
#[derive(Clone, Copy, Debug)]
struct Cost {
    hits: u64,
    lookups: u64,
    /// Sectors written to flash.
    sectors: u64,
}

impl Cost {
    fn hit_ratio(&self) -> f64 {
        percent(self.hits, self.lookups)
    }
}

/// Measures the ways one after the other, and returns the targets.
pub(super) fn compare(stage: &Stage<'_>) -> Result<Vec<Target>> {
    let disk = stage.blank_disk("data", 2 * FILE_MIB)?;
    let cost = |way: Way| -> Result<Cost> {
        let cost = measure(stage, &disk, way).with_context(|| format!("{way:?}"))?;
        eprintln!(
            "    {way:?}: {:.1} % of {} look-ups hit, {} MiB written to flash",
            cost.hit_ratio(),
            cost.lookups,
            cost.sectors >> 11
        );
        Ok(cost)
    };
    let peers = [cost(Way::DmCache)?, cost(Way::Bcache)?];
    let [tier, proven] = [cost(Way::Tier)?, cost(Way::Proven)?];
    let retained = cost(Way::Retained)?;
    let better = peers
        .into_iter()
        .max_by(|one, two| one.hit_ratio().total_cmp(&two.hit_ratio()))
        .context("a peer")?;
    let better_than = "by that of the better of dm-cache and bcache";
    Ok(vec![
        Target::at_least(
            format!("tiers: hit ratio, {better_than}"),
            1.0,
            tier.hit_ratio() / better.hit_ratio(),
            "",
        ),
        Target::at_most(
            format!("tiers: flash written for a hit, {better_than}"),
            1.0,
            ratio(tier.sectors, tier.hits) / ratio(better.sectors, better.hits),
            "",
        ),
        Target::at_least(
            format!("tiers: hit ratio if pages stay on flash, {better_than}"),
            1.0,
            retained.hit_ratio() / better.hit_ratio(),
            "",
        ),
        Target::at_most(
            format!("tiers: flash written if pages stay there, {better_than}"),
            0.5,
            ratio(retained.sectors, better.sectors),
            "",
        ),
        Target::at_most(
            format!("tiers: flash written if only pages that leave again are, {better_than}"),
            0.5,
            ratio(proven.sectors, better.sectors),
            "",
        ),
    ])
}

fn measure(stage: &Stage<'_>, disk: &Disk, way: Way) -> Result<Cost> {
    let host = stage.host();
    let flash = Device::make(host, FLASH_MIB + META_MIB, REQUEST_US)?;
    let path = way.start(host, &flash, &disk.path_in_host())?;
    let config = ["-drive", "-device"]
        .into_iter()
        .zip([
            format!("if=none,id=own,file={path},format=raw,cache=none"),
            "virtio-blk-pci,drive=own,serial=own".to_owned(),
        ])
        .fold(GuestConfig::new("peer"), |config, (option, value)| {
            config.vmm_arg(option).vmm_arg(value)
        });
    let guest = stage.lab.start_guest(&config)?;
    guest.exec_ok(["mkfs.ext4", "-q", "-O", "^has_journal", "/dev/dd/own"])?;
    guest.mount("/dev/dd/own", "/mnt", "ext4", "noatime")?;
    guest.shell(format!(
        "dd if=/dev/urandom of=/mnt/file bs=1M count={FILE_MIB} status=none; sync"
    ))?;
    guest.drop_caches(false)?;
    guest.cgroup(READER, &[("memory.max", LIMIT)])?;
    if let Some(admits) = way.admits() {
        stage::attach(&guest)?;
        let add = format!("container add {READER} --store ssd --ssd-admit {admits}");
        ddctl::run(&guest, &add)?;
    }
    load(&guest, 1)?;
    let looked_up = || way.looked_up(host, || counted(host, READER), &guest);
    let sectors = || statistic(host, &flash, WRITTEN_SECTORS);
    let (before, written) = (looked_up()?, sectors()?);
    load(&guest, 2)?;
    let after = looked_up()?;
    let cost = Cost {
        hits: after.hits - before.hits,
        lookups: after.lookups() - before.lookups(),
        sectors: sectors()? - written,
    };
    drop(guest);
    way.end(host)?;
    Device::end(host)?;
    ensure!(cost.lookups > READS / 10, "{cost:?}");
    Ok(cost)
}

/// Reads pages of the file through the page cache.
fn load(guest: &Guest, seed: u64) -> Result<()> {
    let line = format!(
        "fio --name=load --filename=/mnt/file --readonly --rw=randread --bs=4k --ioengine=psync --thread \
         --random_distribution=zipf:{SKEW} --norandommap --randseed={seed} --size={FILE_MIB}m \
         --io_size={}k --invalidate=0 --output-format=json",
        READS * 4
    );
    let output = guest.run_ok(&Command::shell(line).cgroup(READER))?;
    let done = Report::of(&output)?.reads()?;
    ensure!(done == READS, "fio read {done} pages instead of {READS}");
    Ok(())
}

/// Fields of the statistics of a block device, counted from 0.
pub(super) const READS_ENDED: usize = 0;
const WRITTEN_SECTORS: usize = 6;

/// Returns a field of the statistics of a block device.
pub(super) fn statistic(machine: &Machine, device: &str, at: usize) -> Result<u64> {
    let text = machine.shell(format!(
        "cat /sys/class/block/$(basename $(readlink -f {device}))/stat"
    ))?;
    let word = text.split_whitespace().nth(at);
    Ok(word.context("the statistics of a device")?.parse()?)
}
