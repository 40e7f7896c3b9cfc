// SPDX-License-Identifier: GPL-2.0-only

//! Policies of containers: the purpose of each, changes at run time, and accounts that balance with
//! every policy.

use anyhow::{Result, ensure};
use ddhelper::churn::Random;
use ddlab::{Context, Disk, FileSpec, Guest, ReadSpec, Scenario, Target, Throttle};

use crate::{
    accounting,
    ddctl::{self, GuestCounters},
    meter::Meter,
    stage::{self, Stage, pages, percent, ratio},
    work::{self, Load},
};

/// Reads a loop larger than the share, a scan beside a hot set, and changes between all policies
/// under load.
pub(crate) const POLICIES: Scenario = Scenario {
    name: "policies",
    about: "policies keep a part of a loop, protect a hot set from a scan, and change under load",
    quick: false,
    run,
};

/// Capacity of the tier, which is the reader's share.
const SHARE_MIB: u64 = 16;
/// Size of a loop that fits neither into the share nor into share and page cache together.
const LOOP: u64 = 40 << 20;
/// Size of the hot set, which fits into the share.
const HOT: u64 = 12 << 20;
/// Size of the scan in each round.
const SCAN: u64 = 16 << 20;
/// Number of rounds of hot set and scan. The first ones are not measured.
const ROUNDS: u64 = 6;
const FIRST_ROUNDS: u64 = 3;
/// The cgroup that reads.
const READER: &str = "reader";
const POLICIES_UNDER_LOAD: [&str; 7] = [
    "tinylfu",
    "adaptive",
    "s3",
    "mru",
    "workingset",
    "fifo",
    "adaptive",
];

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let stage = Stage::set(context, SHARE_MIB)?;
    // A tier with less than two free batches counts as full, so that a batch must be a small part
    // of this small tier.
    ddctl::run(stage.host(), "set-capacity --batch 128K")?;
    let mut files = work::files();
    files.extend([
        FileSpec::new("loop", LOOP, 3),
        FileSpec::new("hot", HOT, 4),
        FileSpec::new("scan", ROUNDS * SCAN, 5),
    ]);
    let disk = stage.disk("one", files)?;
    let guest = stage.guest_with("one", &disk, Throttle::NONE)?;
    narrow_readahead(&guest, &disk)?;
    ddctl::run(&guest, "container set-weight default 0")?;
    stage::container(&guest, READER, "8M", 100)?;

    let meter = Meter::new(&guest, &disk)?;
    let mut targets = loops(&guest, &meter)?;
    targets.extend(scans(&guest, &meter)?);
    targets.push(throttled(&guest, &meter)?);
    ddctl::run(&guest, &format!("container remove {READER}"))?;
    change_under_load(&guest)?;
    accounting::check(stage.host())?;
    Ok(targets)
}

/// A window of 8 MiB would be all the memory of the reader.
fn narrow_readahead(guest: &Guest, disk: &Disk) -> Result<()> {
    let block = stage::block_directory(guest, disk)?;
    guest.write_file(&format!("{block}/queue/read_ahead_kb"), "256")
}

/// Sets another policy, whose history is empty.
fn choose(guest: &Guest, policy: &str) -> Result<()> {
    ddctl::run(guest, &format!("container set-policy {READER} {policy}")).map(drop)
}

fn read(guest: &Guest, file: &str, offset: u64, len: u64) -> Result<()> {
    let spec = ReadSpec::new(format!("/mnt/{file}"));
    let spec = spec.range(offset, len).no_digest().cgroup(READER);
    guest.read(&spec).map(drop)
}

/// Reads the loop several times. Returns the counters without the first passes.
fn go_round(
    guest: &Guest,
    meter: &Meter<'_>,
    policy: &str,
    (first, then): (usize, usize),
) -> Result<Round> {
    choose(guest, policy)?;
    let pass = |_| {
        let measured = meter.measure(|| read(guest, "loop", 0, LOOP))?;
        Ok(measured.counters)
    };
    let passes: Vec<_> = (0..first + then).map(pass).collect::<Result<_>>()?;
    let by_pass = passes.iter().map(|pass| (pass.get_hits, pass.put_stored));
    let by_pass: Vec<_> = by_pass.collect();
    eprintln!("    policies: hits and puts of a loop by pass, {policy}: {by_pass:?}");
    let sum = |of: fn(&GuestCounters) -> u64| {
        let sum: u64 = passes[first..].iter().map(of).sum();
        percent(sum, then as u64 * pages(LOOP))
    };
    Ok(Round {
        hits: sum(|pass| pass.get_hits),
        vain: sum(|pass| pass.get_asked - pass.get_hits),
    })
}

/// Result of passes over a loop, in percent of its pages.
struct Round {
    /// Pages read from the host.
    hits: f64,
    /// Pages requested without a hit.
    vain: f64,
}

fn loops(guest: &Guest, meter: &Meter<'_>) -> Result<Vec<Target>> {
    let fifo = go_round(guest, meter, "fifo", (2, 2))?;
    let curve = ddctl::curve(guest, READER)?;
    let mru = go_round(guest, meter, "mru", (4, 4))?;
    // Pages rise by a class each time that they are seen again, three times in all, and all of them
    // are replaced each time. Later, puts in flight while the pool fills up make passes uneven:
    // single passes hit between 2 and 47 %, so that only the mean of many of them is meaningful.
    let adaptive = go_round(guest, meter, "adaptive", (7, 18))?;
    // Six tenths of the pages that fit into the share. Between 27 and 36 % were hit, less if many
    // puts are in flight when the guest learns that there is free room.
    let most_of_share = percent(SHARE_MIB << 20, LOOP) * 0.6;
    let hits = |policy: &str| format!("policies: reads of a loop from the host with {policy}");
    let most = curve.last().map_or(0, |point| point.hits);
    let steep = curve.iter().find(|point| 2 * point.hits >= most);
    let steep = steep.map_or(0.0, |point| point.pages as f64 / 256.0);
    let loop_mib = (LOOP >> 20) as f64;
    Ok(vec![
        // The guest itself keeps most of the pages for most of a round, and puts them shortly
        // before they are read. No read was a hit.
        Target::at_most(hits("fifo"), 2.0, fifo.hits, "%"),
        // All pages were put, and all of them were evicted before they were read again. None was
        // requested; a mutation that sends no notices makes it nearly all.
        Target::at_most(
            "policies: reads of a loop that request evicted pages",
            1.0,
            fifo.vain,
            "%",
        ),
        Target::at_least(hits("mru"), most_of_share, mru.hits, "%"),
        Target::at_least(hits("adaptive"), most_of_share, adaptive.hits, "%"),
        // The loop without the pages in the reader's own memory.
        Target::new(
            "policies: smallest share with hits of the loop, by its curve",
            format!("{:.0} to {:.0} MiB", loop_mib * 0.7, loop_mib * 1.1),
            format!("{steep:.1} MiB"),
            (loop_mib * 0.7..=loop_mib * 1.1).contains(&steep),
        ),
    ])
}

/// Reads hot set and scan in turn. Returns the counters of the later rounds.
fn hot_and_scan(guest: &Guest, meter: &Meter<'_>, policy: &str) -> Result<GuestCounters> {
    choose(guest, policy)?;
    let rounds = |rounds: std::ops::Range<u64>| {
        rounds.into_iter().try_for_each(|round| {
            read(guest, "hot", 0, HOT)?;
            read(guest, "scan", round * SCAN, SCAN)
        })
    };
    rounds(0..FIRST_ROUNDS)?;
    let measured = meter.measure(|| rounds(FIRST_ROUNDS..ROUNDS))?;
    Ok(measured.counters)
}

fn scans(guest: &Guest, meter: &Meter<'_>) -> Result<Vec<Target>> {
    let fifo = hot_and_scan(guest, meter, "fifo")?;
    let costs = |counted: &GuestCounters| ratio(counted.put_stored, counted.get_hits);
    let mut targets = Vec::new();
    for policy in ["tinylfu", "adaptive"] {
        let counted = hot_and_scan(guest, meter, policy)?;
        targets.push(Target::at_most(
            format!("policies: puts per hit beside a scan, {policy} relative to fifo"),
            // It was 7 % with both policies.
            20.0,
            costs(&counted) * 100.0 / costs(&fifo).max(f64::MIN_POSITIVE),
            "%",
        ));
        // The share has room for the hot set, which is read in each round. All of it was hit, and
        // some pages of the scan that were read ahead.
        let hot = (ROUNDS - FIRST_ROUNDS) * pages(HOT);
        let least = (hot * 3 / 4).max(fifo.get_hits);
        targets.push(Target::at_least(
            format!("policies: hits beside a scan with {policy}"),
            least as f64,
            counted.get_hits as f64,
            "",
        ));
        let refused = counted.put_skipped_policy + counted.put_skipped_throttle;
        ensure!(refused > 0, "{policy} refused nothing: {counted:?}");
    }
    Ok(targets)
}

/// Puts of pages that are never read again become rare with any policy. `s3` admits all pages, but
/// by the middle of this scan, twice its share was put without a hit.
fn throttled(guest: &Guest, meter: &Meter<'_>) -> Result<Target> {
    choose(guest, "s3")?;
    let all = ROUNDS * SCAN;
    let counted = meter.measure(|| read(guest, "scan", 0, all))?.counters;
    Ok(Target::at_least(
        "policies: pages of a scan that are not put, because puts had no hits",
        // A third of them in a run; none if the throttle is ignored.
        20.0,
        percent(counted.put_skipped_throttle, pages(all)),
        "%",
    ))
}

/// Changes from every policy to every other while pages move.
fn change_under_load(guest: &Guest) -> Result<()> {
    let load = Load::start(guest)?;
    ddctl::run(guest, "container add load --policy fifo")?;
    let mut rng = Random::new(7);
    for policy in POLICIES_UNDER_LOAD {
        ddctl::run(guest, &format!("container set-policy load {policy}"))?;
        work::some_calls(guest, &mut rng)?;
    }
    load.stop()
}
