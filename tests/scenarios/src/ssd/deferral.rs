// SPDX-License-Identifier: GPL-2.0-only

//! A reader that waits for a slow device of the SSD tier in its guest leaves the vCPU to other tasks.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, Context, FileSpec, Guest, Machine, Scenario, Target, Throttle};

use crate::{
    accounting, ddctl,
    ssd::{self, device::Device},
    stage::{self, Stage},
};

/// A reader and a task that computes share a vCPU, while readers wait in the host and in the guest.
pub(crate) const DEFERRAL: Scenario = Scenario {
    name: "deferral",
    about: "while a reader waits for a slow device, its vCPU runs other tasks",
    quick: true,
    run,
};

const DEVICE_MIB: u64 = 128;
const FILE: u64 = 32 << 20;
/// Time of a request of the device. Work of the guest takes tens of times longer than on hardware,
/// where this would be a disk of some milliseconds.
const DEVICE_US: u64 = 100_000;
/// Where the task that computes publishes how much it has done.
const DONE: &str = "/dev/shm/done";
/// The task that computes.
const COMPUTE: &str = "n=0; while :; do i=0; while [ $i -lt 500 ]; do i=$((i+1)); done; \
                       n=$((n+1)); echo $n > /dev/shm/done; done";

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let file = FileSpec::new("file", FILE, 1);
    let stage = Stage::set(context, 64)?;
    let host = stage.host();
    let device = Device::add_slow(host, DEVICE_MIB, DEVICE_US)?;
    ddctl::run(host, "ssd set --deadline 5000")?;
    let disk = stage.disk("data", vec![file.clone()])?;
    let guest = stage.guest_with("one", &disk, Throttle::NONE)?;
    stage::container(&guest, &file.path, "8M", 100)?;
    ssd::set_store(&guest, &file.path, "ssd")?;
    ddctl::run(&guest, "container set-policy file fifo")?;
    ssd::read(&guest, &file)?;

    let compute = guest.spawn(&Command::shell(COMPUTE))?;
    guest.shell(format!("until [ -s {DONE} ]; do sleep 0.1; done"))?;
    let alone = Pace::measure(&guest, || guest.exec_ok(["sleep", "3"]).map(drop))?;
    let way = |wait: &str| -> Result<Way> {
        ddctl::run(host, &format!("ssd set --wait {wait}"))?;
        let (deferred, before) = (deferred(host)?, device.stats(host)?);
        let pace = Pace::measure(&guest, || ssd::read(&guest, &file))?;
        let after = device.stats(host)?;
        ensure!(after.read_pages > before.read_pages, "{after:?}");
        ensure!(
            after.bad_checksums + after.read_errors + after.timeouts == 0,
            "{after:?}"
        );
        Ok(Way {
            pace,
            deferred: self::deferred(host)? - deferred,
        })
    };
    // Each way first and second, so that what changes with time concerns both.
    let (host_1, guest_1) = (way("host")?, way("guest")?);
    let (guest_2, host_2) = (way("guest")?, way("host")?);
    ensure!(
        host_1.deferred + host_2.deferred == 0,
        "gets were deferred that were to wait in the host"
    );
    for (name, way) in [
        ("host", &host_1),
        ("guest", &guest_1),
        ("guest", &guest_2),
        ("host", &host_2),
    ] {
        let Way { pace, deferred } = way;
        let (rate, seconds) = (pace.rate(), pace.seconds);
        eprintln!("    {name}: {seconds:.1} s, {rate:.0}/s, {deferred} deferred");
    }
    eprintln!("    alone: {:.0}/s", alone.rate());
    compute.kill(9)?;
    accounting::check(host)?;

    // A device is removed while reads are deferred.
    ddctl::run(host, "ssd set --wait guest")?;
    let sum = || Command::new(["sha256sum".to_owned(), "/mnt/file".to_owned()]).cgroup(&file.path);
    let right = guest.run_ok(&sum())?;
    let mut reading = guest.spawn(&sum())?;
    ddctl::run(host, &format!("ssd remove {}", device.path()))?;
    let exit = reading.wait()?;
    let read = reading.output()?;
    ensure!(exit.success() && read == right, "{exit}: {read}");
    device.forget(host)?;
    accounting::check(host)?;

    let mean = |one: &Way, two: &Way| (one.pace.rate() + two.pace.rate()) / 2.0;
    let (in_host, in_guest) = (mean(&host_1, &host_2), mean(&guest_1, &guest_2));
    Ok(vec![
        Target::at_least(
            "deferral: gets that were deferred",
            1.0,
            guest_1.deferred.min(guest_2.deferred) as f64,
            "",
        ),
        Target::at_least(
            "deferral: work of a task beside a reader that waits in the guest, by beside one that waits in the host",
            1.2,
            in_guest / in_host,
            "",
        ),
        Target::at_least(
            "deferral: of its work without a reader",
            50.0,
            in_guest / alone.rate() * 100.0,
            "%",
        ),
    ])
}

/// Gets during a read.
struct Way {
    pace: Pace,
    deferred: u64,
}

/// Work that a task has done, and the seconds that it took.
struct Pace {
    done: f64,
    seconds: f64,
}

impl Pace {
    fn measure(guest: &Guest, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        let look = || -> Result<(f64, f64)> {
            // The task empties the file before it writes to it.
            let text = guest.shell(format!(
                "until set -- $(cat {DONE} /proc/uptime); [ $# = 3 ]; do :; done; echo $1 $2"
            ))?;
            let mut words = text.split_whitespace().map(str::parse::<f64>);
            let mut next = || words.next().context("a number");
            Ok((next()??, next()??))
        };
        let (done, start) = look()?;
        work()?;
        let (done_after, end) = look()?;
        Ok(Self {
            done: done_after - done,
            seconds: end - start,
        })
    }

    /// Returns the work done in a second.
    fn rate(&self) -> f64 {
        self.done / self.seconds
    }
}

/// Returns the number of gets that the host has deferred.
fn deferred(host: &Machine) -> Result<u64> {
    Ok(ddctl::host(host)?.counters.gets_deferred)
}
