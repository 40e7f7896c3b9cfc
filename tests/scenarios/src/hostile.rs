// SPDX-License-Identifier: GPL-2.0-only

//! The kernel of a guest sends the host everything that a guest can send, while another guest
//! works. The host must keep working, and the other guest must keep its data and the share of its
//! weight.

pub(crate) mod fuzzer;
mod moving;
mod share;
mod tenants;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use ddlab::{
    Context, FileSpec, Guest, GuestConfig, Machine, ReadSpec, Scenario, Target, Throttle, wait,
};

use crate::{
    accounting,
    ddctl::{self, HostCounters},
    hotplug::{self, Usage},
    memory::Baseline,
    ssd::device::Device,
    stage::{self, GUEST, HOST, Stage, percent},
};
use fuzzer::{EVERYTHING, Fuzzer, ORDERS, Tally};
use share::{BESIDE_PUTS, Shares};

/// Sends up to a million requests: first valid ones, to put pressure on the victim, then all kinds.
pub(crate) const HOSTILE: Scenario = Scenario {
    name: "hostile",
    about: "a host survives all that a guest sends, and other guests keep their data and shares",
    quick: false,
    run,
};

/// Requests of a round. The first round has valid ones only.
const ROUND: u64 = 50_000;
/// Number of rounds that follow, a million requests in total, if the machine is fast enough.
const ROUNDS: u64 = 19;
/// Number of rounds that are made on any machine.
const MIN_ROUNDS: u64 = 2;
/// No round begins after this time.
const TIME: Duration = Duration::from_secs(240);
/// Longest time for a round.
const LIMIT: Duration = Duration::from_secs(280);

/// Time between two looks at the host.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// Number of requests that must be answered, half of the slowest run's, and the same for the short
/// form.
const MIN_REQUESTS: [f64; 2] = [320_000.0, 100_000.0];
/// Number of passes of the victim over its file in that time, half of the slowest run's as well.
const MIN_PASSES: [f64; 2] = [10.0, 2.0];

const CAPACITY_MIB: u64 = 48;
/// Size of the device, whose content is in the host's memory.
const DEVICE_MIB: u64 = 12;
/// Size of the victim's file, which is larger than the tier.
const WANTED: u64 = 64 << 20;
/// Weights of the victim and of its peer.
const WEIGHTS: [u32; 2] = [300, 100];
const READER: &str = "reader";

/// Memory for a VM's sessions, pools and calls in addition to the tier.
const BESIDE_KIB: u64 = 3 << 10;
/// The same for a VM with the maximum number of pools.
const WITH_POOLS_KIB: u64 = 6 << 10;

/// Calls from user mode.
const USER_CALLS: u64 = 20_000;

/// `-KVM_EPERM`
const REFUSED: &str = "-1";

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let short = context.quick();
    let lab = context.lab()?;
    let stage = Stage { lab };
    let host = stage.host();
    let file = FileSpec::new("large", WANTED, 1);
    let disk = stage.disk("victim", vec![file.clone()])?;
    // A slow disk leaves processor time to the attacker.
    let config = GuestConfig::new("victim").disk(&disk, Throttle::CLOUD);
    let victim = lab.start_guest(&config)?;
    victim.mount(&disk.path_in_guest(), "/mnt", "ext4", "noatime")?;
    let config = hotplug::with_dimm_slot(fuzzer::guest("hostile"), Usage::Nothing);
    let hostile = lab.start_guest(&config)?;
    // The first load allocates memory that a kernel never gives back, such as the first module's
    // symbols.
    stage.load_host(CAPACITY_MIB)?;
    host.unload_module(HOST)?;
    let before = Baseline::take(host)?;

    stage.load_host(CAPACITY_MIB)?;
    // A batch of the default size is a large part of such a small tier.
    ddctl::run(host, "set-capacity --batch 128K")?;
    // Some pools of the attacker are on a device, or in both tiers.
    let device = Device::add(host, DEVICE_MIB)?;
    ddctl::run(host, "ssd set --wait guest --retain on")?;
    stage::attach(&victim)?;
    stage::container(&victim, READER, "16M", 100)?;
    let attack = Attack {
        stage,
        before: &before,
        victim: Victim {
            guest: &victim,
            digest: file.digest(),
        },
        hostile: &hostile,
        rounds: if short { 1 } else { ROUNDS },
    };
    let mut targets = attack.run()?;
    targets.extend(tenants::attack(&attack)?);
    targets.extend(moving::attack(&attack, &hostile)?);
    user_mode(host, &hostile)?;
    let stats = device.stats(host)?;
    eprintln!("    {stats:?}");
    let damaged = Target::none(
        "hostile: pages that the device returned damaged",
        stats.bad_checksums,
    );
    targets.push(damaged.detail(format!("of {}", stats.read_pages)));
    let deferred = ddctl::host(host)?.counters.gets_deferred;
    // A quarter of the smaller figure of two runs. Whether a get is deferred depends on the time
    // that the device takes, so that one of them is enough.
    for (name, least, count) in [
        ("pages written to the device", 30_000, stats.written_pages),
        ("pages that came from the device", 380, stats.read_pages),
        ("gets that were deferred", 1, deferred),
    ] {
        let (least, count) = (f64::from(least), count as f64);
        targets.push(Target::at_least(
            format!("hostile: {name}"),
            (least / host.at_its_pace(1.0)).ceil(),
            count,
            "",
        ));
    }
    unload(&stage, &victim, &hostile)?;
    device.forget(host)?;
    before.check("the attack of a guest")?;
    die(&stage, hostile)?;
    host.unload_module(HOST)?;
    before.check("an attacking guest was killed")?;
    Ok(targets)
}

/// The attacked host, the victim and the attacker.
struct Attack<'a> {
    stage: Stage<'a>,
    before: &'a Baseline<'a>,
    victim: Victim<'a>,
    hostile: &'a Machine,
    /// Number of rounds with all kinds of requests, each with another seed.
    rounds: u64,
}

/// Maxima seen during the attack.
#[derive(Default)]
struct Peak {
    used: u64,
    index_bytes: u64,
    held_kib: u64,
}

impl Attack<'_> {
    fn run(&self) -> Result<Vec<Target>> {
        let host = self.stage.host();
        let start = Instant::now();
        let counters = ddctl::host(host)?.counters;
        let mut peak = Peak::default();
        let mut shares = Shares::default();
        let (tallies, passes) = self.victim.beside(|| {
            let mut tallies = vec![self.send(ORDERS, 1, ROUND, &mut peak, &mut || {
                shares.look(&ddctl::vms(host)?)?;
                Ok(shares.are_enough())
            })?];
            let begun = Instant::now();
            for round in 0..self.rounds {
                if round >= MIN_ROUNDS && begun.elapsed() > TIME {
                    break;
                }
                let seed = 11 + round;
                tallies.push(self.send(EVERYTHING, seed, ROUND, &mut peak, &mut || Ok(true))?);
            }
            Ok(tallies)
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let counted = ddctl::host(host)?.counters - counters;
        self.victim.check()?;
        accounting::check(host)?;
        let sum = |count: fn(&Tally) -> u64| tallies.iter().map(count).sum::<u64>();
        let form = usize::from(self.rounds == 1);
        eprintln!("    {seconds:.0} s, {passes} passes: {counted:?}");
        let mut targets = vec![
            Target::at_least(
                "hostile: requests answered",
                (MIN_REQUESTS[form] / host.at_its_pace(1.0)).round(),
                sum(|tally| tally.sent) as f64,
                "",
            ),
            Target::none(
                "hostile: answers with an undocumented status",
                sum(|tally| tally.unknown),
            ),
            Target::none(
                "hostile: pages returned with other content than was put",
                sum(|tally| tally.foreign),
            )
            .detail(format!("of {}", sum(|tally| tally.given))),
            Target::none(
                "hostile: requests executed with an impossible session or number",
                sum(|tally| tally.let_in),
            ),
            Target::at_least(
                "hostile: passes of the victim over its file, all content right",
                (MIN_PASSES[form] / host.at_its_pace(1.0)).ceil(),
                passes as f64,
                "",
            ),
        ];
        targets.extend(shares.targets("hostile", BESIDE_PUTS));
        targets.extend(self.caps("all kinds", &peak, BESIDE_KIB)?);
        // The first round has valid requests only.
        let of_all_kinds = tallies[1..].iter().map(|tally| tally.sent).sum();
        targets.extend(refusals(&counted, of_all_kinds));
        Ok(targets)
    }

    /// Sends at least this number of requests, until enough was seen, and examines the host in
    /// between.
    fn send(
        &self,
        mode: u64,
        seed: u64,
        requests: u64,
        peak: &mut Peak,
        look: &mut impl FnMut() -> Result<bool>,
    ) -> Result<Tally> {
        let host = self.stage.host();
        let fuzzer = Fuzzer::start(self.hostile, mode, seed)?;
        if mode == ORDERS {
            weigh(host).with_context(|| format!("{:?}", fuzzer.tally()))?;
        }
        let start = Instant::now();
        let (mut last, mut enough) = (None::<Instant>, false);
        wait::until("the requests are sent", || {
            // Each look at the host takes processor time from the machines under test, so that
            // looks are rare.
            if last.is_none_or(|last| last.elapsed() > BETWEEN_LOOKS) {
                let status = ddctl::host(host)?;
                peak.used = peak.used.max(status.used_pages);
                peak.index_bytes = peak.index_bytes.max(status.counters.index_bytes);
                peak.held_kib = peak.held_kib.max(self.before.grown_kib()?);
                enough = look()?;
                last = Some(Instant::now());
            }
            let over = (enough && fuzzer.sent()? >= requests) || start.elapsed() > LIMIT;
            Ok(over.then_some(()))
        })?;
        let tally = fuzzer.tally()?;
        eprintln!("    {:.0} s: {tally:?}", start.elapsed().as_secs_f64());
        fuzzer.stop()?;
        Ok(tally)
    }

    /// Returns the bounds of the host's memory for a kind of attack, including the attacker's pools
    /// and calls.
    fn caps(&self, kind: &str, peak: &Peak, attacker_kib: u64) -> Result<Vec<Target>> {
        let capacity = ddctl::host(self.stage.host())?.capacity_pages;
        // One slot in sixteen may be unused, and each shard of a VM may have some more.
        let index = capacity * 64 * 17 / 16 + (1 << 20);
        let kept = BESIDE_KIB + attacker_kib + self.before.checks_kib()?;
        // The content of the device, and as many pages that wait until they are written.
        let on_device = 2 * (DEVICE_MIB << 10);
        let held = capacity * 4 + (index >> 10) + on_device + kept;
        Ok(vec![
            Target::at_most(
                format!("hostile: {kind}: most pages in the tier"),
                capacity as f64,
                peak.used as f64,
                "",
            ),
            Target::at_most(
                format!("hostile: {kind}: most memory of the index"),
                index as f64 / 1024.0,
                peak.index_bytes as f64 / 1024.0,
                "KiB",
            ),
            Target::at_most(
                format!("hostile: {kind}: largest growth of the host's memory"),
                held as f64 / 1024.0,
                peak.held_kib as f64 / 1024.0,
                "MiB",
            ),
        ])
    }
}

/// Sets the weights of the VMs when both have registered.
fn weigh(host: &Machine) -> Result<()> {
    wait::until("the hostile guest is registered", || {
        Ok(ddctl::vm(&ddctl::vms(host)?, "hostile").ok().map(drop))
    })?;
    let [victim, hostile] = WEIGHTS;
    ddctl::run(host, &format!("set-weight victim {victim}"))?;
    ddctl::run(host, &format!("set-weight hostile {hostile}")).map(drop)
}

/// Returns targets for the counters of refusals, one for each reason, in percent of the requests of
/// all kinds. The bounds are less than half of what was seen in each of four runs.
fn refusals(counted: &HostCounters, requests: u64) -> Vec<Target> {
    let reasons = [
        ("malformed", counted.refused_invalid, 3.0),
        (
            "of another version, or unknown",
            counted.refused_unsupported,
            0.05,
        ),
        ("of an unknown session", counted.refused_session, 0.05),
        ("as rolled back", counted.refused_rollback, 0.05),
        ("as overtaken", counted.retries, 0.05),
        ("unreadable", counted.refused_fault, 0.05),
    ];
    let target = |(reason, count, least): (&str, u64, f64)| {
        let name = format!("hostile: refused: {reason}, of the requests of all kinds");
        Target::at_least(name, least, percent(count, requests), "%")
            .detail(format!("{count} of {requests}"))
    };
    reasons.into_iter().map(target).collect()
}

/// A guest that works.
struct Victim<'a> {
    guest: &'a Machine,
    digest: String,
}

impl Victim<'_> {
    /// Reads the file and compares its content.
    fn check(&self) -> Result<()> {
        let spec = ReadSpec::new("/mnt/large").cgroup(READER);
        let sum = self.guest.read(&spec)?;
        ensure!(
            sum.digest.as_deref() == Some(self.digest.as_str()),
            "the victim read other content than that of its disk: {sum:?}"
        );
        Ok(())
    }

    /// Reads repeatedly while `something` runs. Returns its result and the number of passes.
    fn beside<T>(&self, something: impl FnOnce() -> Result<T>) -> Result<(T, u64)> {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let mut passes = 0;
                while !stop.load(Ordering::Relaxed) {
                    self.check()?;
                    passes += 1;
                }
                Ok(passes)
            });
            let done = something();
            stop.store(true, Ordering::Relaxed);
            let passes: Result<u64> = reading
                .join()
                .map_err(|_| anyhow!("the reading thread panicked"))?;
            Ok((done?, passes?))
        })
    }
}

/// Programs in the guest make the module's hypercall repeatedly. They get KVM's answer with and
/// without the module, and the call has no other effect.
fn user_mode(host: &Machine, guest: &Machine) -> Result<()> {
    let before = ddctl::host(host)?.counters;
    call_from_user_mode(guest)?;
    let counted = ddctl::host(host)?.counters - before;
    ensure!(
        counted.refused_user == USER_CALLS
            && counted.refused_invalid == 0
            && counted.refused_session == 0,
        "{counted:?}"
    );
    Ok(())
}

fn call_from_user_mode(guest: &Machine) -> Result<()> {
    let number = ddabi::hypercall::NUMBER.to_string();
    let times = USER_CALLS.to_string();
    let answer = guest.exec_ok(["ddhelper", "vmcall", &number, "--times", &times])?;
    ensure!(
        answer.trim() == REFUSED,
        "a hypercall from user mode returned {answer}"
    );
    Ok(())
}

/// The host module is unloaded during an attack. No call is answered afterwards.
fn unload(stage: &Stage<'_>, victim: &Machine, hostile: &Machine) -> Result<()> {
    let fuzzer = Fuzzer::start(hostile, EVERYTHING, 3)?;
    fuzzer.sends()?;
    stage.host().unload_module(HOST)?;
    wait::until("the hostile guest gets no answer", || {
        Ok((fuzzer.tally()?.unknown > 0).then_some(()))
    })?;
    fuzzer.stop()?;
    call_from_user_mode(hostile)?;
    victim.unload_module(GUEST)
}

/// The attacker is killed during its attack, and the host forgets it.
fn die(stage: &Stage<'_>, hostile: Guest) -> Result<()> {
    stage.load_host(CAPACITY_MIB)?;
    let fuzzer = Fuzzer::start(&hostile, EVERYTHING, 4)?;
    fuzzer.sends()?;
    hostile.kill(9)?;
    wait::until("the host has forgotten the dead VM", || {
        let status = ddctl::host(stage.host())?;
        let held = status.used_pages + status.counters.index_bytes;
        Ok((status.vms == 0 && held == 0).then_some(()))
    })
}
