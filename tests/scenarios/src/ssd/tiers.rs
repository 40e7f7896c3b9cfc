// SPDX-License-Identifier: GPL-2.0-only

//! The SSD tier beside its bare device, and beside other caches on the same device.

use anyhow::{Context as _, Result, ensure};
use ddlab::{
    Command, Context, FileSpec, Guest, GuestConfig, Machine, Scenario, Target, Throttle, wait,
};

use super::{counted, device::Device, fio::Report, peers, read, set_store};
use crate::{
    accounting, ddctl,
    stage::{self, Stage, percent, ratio},
};

/// Reads of a guest and sequential writes, then the load of [`peers`].
pub(crate) const TIERS: Scenario = Scenario {
    name: "tiers",
    about: "the SSD tier costs little more than its device, and writes less than other caches",
    quick: false,
    run,
};

const DEVICE_MIB: u64 = 128;
const FILE: &str = "file";
const LEN: u64 = 64 << 20;
/// A file of twice the size of the device, so that no page is read from it before it is evicted.
const LONG: &str = "long";
const LONG_LEN: u64 = (2 * DEVICE_MIB) << 20;
/// Time of a request. A guest in an emulated host takes a millisecond or two of processor time for
/// a read, hundreds of times as much as on hardware, so that 32 readers wait for its processors as
/// well. That time is measured with a device that answers at once.
const REQUEST_US: u64 = 100_000;
/// Number of reads that wait for the device at a time, and the reads of a measurement.
const DEPTHS: [(u64, u64); 3] = [(1, 48), (8, 256), (32, 1024)];
/// Speed of the device to which pages are written, below that of the readers whose pages leave.
const MIB_PER_S: u64 = 1;
/// Number of pages whose writes are timed.
const WRITTEN: u64 = 8 << 8;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let file = FileSpec::new(FILE, LEN, 1);
    let stage = Stage::set(context, 16)?;
    let host = stage.host();
    let long = FileSpec::new(LONG, LONG_LEN, 2);
    let disk = stage.disk("data", vec![file.clone(), long])?;
    let config = GuestConfig::new("one").vcpus(2).disk(&disk, Throttle::NONE);
    let guest = stage.guest(&config)?;
    guest.mount(&disk.path_in_guest(), "/mnt", "ext4", "noatime")?;
    // The programs that read take more memory than the container will have during the writes.
    stage::container(&guest, FILE, "128M", 100)?;
    ddctl::run(&guest, &format!("container set-policy {FILE} fifo"))?;
    set_store(&guest, FILE, "ssd")?;
    let site = Site {
        stage: &stage,
        host,
        guest: &guest,
        file: &file,
    };
    let mut targets = site.reads()?;
    targets.push(site.writes()?);
    accounting::check(host)?;
    drop(guest);
    targets.extend(peers::compare(&stage)?);
    Ok(targets)
}

struct Site<'a> {
    stage: &'a Stage<'a>,
    host: &'a Machine,
    guest: &'a Guest,
    file: &'a FileSpec,
}

impl Site<'_> {
    /// Compares reads of pages that are on the device with direct reads of the device. The direct
    /// reads are measured before and after the others.
    fn reads(&self) -> Result<Vec<Target>> {
        let host = self.host;
        let at_once = self.reads_from(Device::add_slow(host, DEVICE_MIB, 1)?)?;
        let bare = || DEPTHS.map(|(depth, reads)| bare_read(host, depth, reads));
        let path = Device::make(host, DEVICE_MIB, REQUEST_US)?;
        let before = bare();
        let device = Device::add_path(host, path)?;
        let of_tier = self.reads_from(device)?;
        Device::make(host, DEVICE_MIB, REQUEST_US)?;
        let after = bare();
        Device::end(host)?;
        let mut targets = Vec::new();
        for (at, (before, after)) in before.into_iter().zip(after).enumerate() {
            let (depth, _) = DEPTHS[at];
            let (own, us, bare) = (at_once[at], of_tier[at], (before? + after?) / 2.0);
            eprintln!(
                "    depth {depth}: {us:.0} us from the tier, {own:.0} us if its device takes no \
                 time, {bare:.0} us from the device"
            );
            targets.push(Target::at_most(
                format!("tiers: time of a read, by that of device and guest, depth {depth}"),
                1.15,
                us / (bare + own),
                "",
            ));
        }
        Ok(targets)
    }

    /// Returns the mean times in microseconds of reads of pages that are on a device, which is
    /// removed afterwards.
    fn reads_from(&self, device: Device) -> Result<Vec<f64>> {
        let Self { host, guest, .. } = self;
        ddctl::run(host, "ssd set --deadline 5000 --wait guest")?;
        let mut times = Vec::new();
        for (depth, reads) in DEPTHS {
            // All pages of the file go to the device.
            read(guest, self.file)?;
            guest.drop_caches(false)?;
            let was = counted(host, FILE)?;
            times.push(self.tier_read(depth, reads)?);
            let now = counted(host, FILE)? - was;
            ensure!(
                percent(now.ssd_hits, reads) >= 99.0,
                "{} of {reads} pages came from the device: {now:?}",
                now.ssd_hits
            );
        }
        device.stats(host)?.check_reads()?;
        ddctl::run(host, &format!("ssd remove {}", device.path()))?;
        device.forget(host)?;
        Ok(times)
    }

    /// Returns the mean time in microseconds of reads by as many tasks of the guest as `depth`.
    /// Each page is read at most once.
    fn tier_read(&self, depth: u64, reads: u64) -> Result<f64> {
        let part = LEN / depth;
        let own = reads / depth;
        let line = format!(
            "fio --name=tier --filename=/mnt/{FILE} --readonly --rw=randread --bs=4k \
             --ioengine=psync --thread --numjobs={depth} --size={part} --offset_increment={part} \
             --number_ios={own} --invalidate=0 --group_reporting --output-format=json"
        );
        let output = self.guest.run_ok(&Command::shell(line).cgroup(FILE))?;
        Report::of(&output)?.read_us()
    }

    /// Compares the writes of the tier, while more pages leave the guest than it can write, with
    /// sequential writes to its device.
    fn writes(&self) -> Result<Target> {
        let Self { host, guest, .. } = self;
        let disk = self.stage.blank_disk("flash", DEVICE_MIB)?;
        let throttle = Throttle {
            bytes_per_s: Some(MIB_PER_S << 20),
            ..Throttle::NONE
        };
        self.stage.lab.throttle(&disk, throttle)?;
        let path = disk.path_in_host();
        let line = format!(
            "fio --name=bare --filename={path} --direct=1 --rw=write --bs=1m --ioengine=io_uring \
             --iodepth=4 --time_based --ramp_time=4 --runtime=8 --output-format=json"
        );
        let bare = Report::of(&host.shell(line)?)?.write_mib_per_s()?;
        let device = Device::add_used_path(host, path)?;
        guest.write_file(&format!("/sys/fs/cgroup/{FILE}/memory.max"), "8M")?;
        let reading = "/run/reading";
        let script = format!("while test -e {reading}; do cat /mnt/{LONG} > /dev/null; done");
        guest.exec_ok(["touch", reading])?;
        let mut reader = guest.spawn(&Command::shell(script).cgroup(FILE))?;
        let written = || -> Result<(u64, f64)> {
            let pages = device.stats(host)?.written_pages;
            let uptime = host.read_text("/proc/uptime")?;
            let seconds = uptime.split(' ').next().context("the uptime")?;
            Ok((pages, seconds.parse()?))
        };
        // Pages wait in memory until the device can be written, and are refused once too many wait.
        let refused = || Ok::<_, anyhow::Error>(counted(host, FILE)?.put_refused_device);
        let none = refused()?;
        wait::until("more pages leave the guest than the device takes", || {
            Ok((refused()? > none).then_some(()))
        })?;
        // Pages are counted when their write has ended, many at a time.
        let reach = |pages: u64| {
            wait::until("the tier has written pages", || {
                let (now, at) = written()?;
                Ok((now >= pages).then_some((now, at)))
            })
        };
        let (first, start) = reach(written()?.0 + 1)?;
        let (last, end) = reach(first + WRITTEN)?;
        guest.exec_ok(["rm", reading])?;
        reader.wait()?;
        let of_tier = ratio(last - first, 256) / (end - start);
        eprintln!("    writes: {of_tier:.2} MiB/s of the tier, {bare:.2} MiB/s of the device");
        ddctl::run(host, &format!("ssd remove {}", device.path()))?;
        self.stage.lab.throttle(&disk, Throttle::NONE)?;
        Ok(Target::at_least(
            "tiers: speed of the tier's writes, by sequential ones to its device",
            90.0,
            of_tier / bare * 100.0,
            "%",
        ))
    }
}

/// Returns the mean time in microseconds of direct reads of a device that is not in the tier.
fn bare_read(host: &Machine, depth: u64, reads: u64) -> Result<f64> {
    let line = format!(
        "fio --name=bare --filename=/dev/nullb0 --readonly --direct=1 --rw=randread --bs=4k \
         --ioengine=io_uring --iodepth={depth} --number_ios={reads} --output-format=json"
    );
    Report::of(&host.shell(line)?)?.read_us()
}
