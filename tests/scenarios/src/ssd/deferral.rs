// SPDX-License-Identifier: GPL-2.0-only

//! A reader that waits for a slow device of the SSD tier in its guest leaves the vCPU to other
//! tasks.

use anyhow::{Result, bail, ensure};
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

    let compute = guest.spawn(&Command::shell("while :; do :; done"))?;
    let pace = |work: &dyn Fn() -> Result<()>| Pace::measure(&guest, compute.pid(), work);
    let alone = pace(&|| guest.exec_ok(["sleep", "3"]).map(drop))?;
    let way = |wait: &str| -> Result<Way> {
        ddctl::run(host, &format!("ssd set --wait {wait}"))?;
        let (deferred, before) = (deferred(host)?, device.stats(host)?);
        let pace = pace(&|| ssd::read(&guest, &file))?;
        let after = device.stats(host)?;
        ensure!(after.read_pages > before.read_pages, "{after:?}");
        after.check_reads()?;
        Ok(Way {
            pace,
            deferred: self::deferred(host)? - deferred,
        })
    };
    // Each of the two ways is measured once as the first and once as the second one, so that
    // changes over time affect both.
    let (host_1, guest_1) = (way("host")?, way("guest")?);
    let (guest_2, host_2) = (way("guest")?, way("host")?);
    ensure!(
        host_1.deferred + host_2.deferred == 0,
        "gets were deferred although readers wait in the host"
    );
    for (name, way) in [
        ("host", &host_1),
        ("guest", &guest_1),
        ("guest", &guest_2),
        ("host", &host_2),
    ] {
        let Way { pace, deferred } = way;
        let (rate, seconds) = (pace.rate(), pace.seconds);
        eprintln!("    {name}: {seconds:.1} s, {rate:.2} of the vCPU, {deferred} deferred");
    }
    eprintln!("    alone: {:.2} of the vCPU", alone.rate());
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
        Target::some(
            "deferral: gets that were deferred",
            guest_1.deferred.min(guest_2.deferred),
        ),
        Target::at_least(
            "deferral: work of a task beside a reader that waits in the guest, relative to one that waits in the host",
            1.2,
            in_guest / in_host,
            "",
        ),
        Target::at_least(
            "deferral: work of the task, relative to its work without a reader",
            50.0,
            in_guest / alone.rate() * 100.0,
            "%",
        ),
    ])
}

/// The gets during a read, and the work of the task beside it.
struct Way {
    pace: Pace,
    deferred: u64,
}

/// Time that a task has run on the vCPU of its guest, and the time that passed, both by the clock
/// of the guest, so that the speed of the machine at that moment affects both.
struct Pace {
    run: f64,
    seconds: f64,
}

impl Pace {
    fn measure(guest: &Guest, task: i32, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        let look = || -> Result<(f64, f64)> {
            let text = guest.shell(format!("cat /proc/{task}/schedstat /proc/uptime"))?;
            let words: Vec<f64> = text
                .split_whitespace()
                .map(str::parse)
                .collect::<Result<_, _>>()?;
            // The time on the CPU in nanoseconds comes first, then two other numbers.
            let [run, _, _, uptime, _] = words[..] else {
                bail!("{text}");
            };
            Ok((run / 1e9, uptime))
        };
        let (run, start) = look()?;
        work()?;
        let (run_after, end) = look()?;
        Ok(Self {
            run: run_after - run,
            seconds: end - start,
        })
    }

    /// Returns the part of the time that the task has run.
    fn rate(&self) -> f64 {
        self.run / self.seconds
    }
}

/// Returns the number of gets that the host has deferred.
fn deferred(host: &Machine) -> Result<u64> {
    Ok(ddctl::host(host)?.counters.gets_deferred)
}
