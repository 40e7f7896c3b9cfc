// SPDX-License-Identifier: GPL-2.0-only

//! The longest sections with interrupts or preemption off in a guest, as the kernel's own tracers
//! find them.

use anyhow::{Result, ensure};
use ddlab::{Context, Machine, Scenario, Target};

use super::{Site, enroll, prepare};
use crate::stage::{self, Stage};

/// Large folios are reclaimed, dropped and read back, and a file with scattered pages is truncated.
/// The machines' clocks count instructions.
pub(crate) const SECTIONS: Scenario = Scenario {
    name: "sections",
    about: "interrupts are off for the pages of one folio at most (needs --kernel hardened)",
    quick: false,
    run,
};

const TRACING: &str = "/sys/kernel/tracing";
/// Number of repetitions of each work.
const ROUNDS: u32 = 3;
/// The kernel's tracers, and what is off in the sections that they find.
const TRACERS: [(&str, &str); 2] = [("irqsoff", "interrupts"), ("preemptoff", "preemption")];

/// Work in the guest, during which sections are measured.
struct Work {
    name: &'static str,
    /// Brings the files into the state that the work needs.
    prepare: fn(&Site<'_>, bool) -> Result<()>,
    line: fn(&Site<'_>) -> String,
    /// Bounds of the additional sections in million instructions, for each tracer. Calls are made
    /// with preemption off, and the longest of them is a flush. Interrupts are off only in calls
    /// for a folio that leaves by `remove_mapping`: four calls for 512 pages.
    limit: [f64; 2],
}

static WORKS: [Work; 4] = [
    Work {
        name: "large folios are reclaimed",
        prepare: |site, _| site.grow(),
        line: |site| site.reclaim(),
        limit: [0.5, 1.0],
    },
    Work {
        name: "large folios are dropped",
        prepare: |site, _| site.grow(),
        line: |_| "sh -c 'echo 1 > /proc/sys/vm/drop_caches'".into(),
        limit: [2.5, 2.5],
    },
    Work {
        name: "large folios are read back",
        prepare: |site, _| {
            site.grow()?;
            site.run(&format!("{} || true", site.reclaim())).map(drop)
        },
        line: |_| "ddhelper huge /mnt/large".into(),
        limit: [0.5, 1.0],
    },
    Work {
        name: "a file with pages in many chunks is truncated",
        prepare: |site, with| site.scatter(with).map(drop),
        line: |_| "truncate -s 0 /mnt/sparse".into(),
        limit: [0.5, 2.5],
    },
];

fn run(context: &mut Context) -> Result<Vec<Target>> {
    stage::counting_instructions(context, measure)
}

fn measure(stage: &Stage<'_>) -> Result<Vec<Target>> {
    let guest = prepare(stage)?;
    let site = Site { guest: &guest };
    let known = guest.read_text(&format!("{TRACING}/available_tracers"))?;
    for (tracer, _) in TRACERS {
        ensure!(
            known.split_whitespace().any(|one| one == tracer),
            "this kernel has no tracer {tracer}; run the scenario with --kernel hardened"
        );
    }
    let alone = longest(&site, false)?;
    enroll(&guest)?;
    let with = longest(&site, true)?;
    let target = |(case, (alone, with)): (Case, (f64, f64))| {
        Target::at_most(
            format!(
                "sections: additional million instructions with {} off while {}",
                case.off, case.work.name
            ),
            case.limit,
            (with - alone).max(0.0),
            "",
        )
    };
    let pairs = alone.into_iter().zip(with);
    Ok(cases().zip(pairs).map(target).collect())
}

/// A work that a tracer watches.
struct Case {
    tracer: &'static str,
    /// Interrupts or preemption.
    off: &'static str,
    work: &'static Work,
    /// Bound of the additional section in million instructions.
    limit: f64,
}

/// Returns all cases, in the order in which they are measured.
fn cases() -> impl Iterator<Item = Case> {
    TRACERS.iter().enumerate().flat_map(|(at, &(tracer, off))| {
        WORKS.iter().map(move |work| Case {
            tracer,
            off,
            work,
            limit: work.limit[at],
        })
    })
}

/// Returns the milliseconds of the longest section in each case. In each millisecond the machine
/// executes a million instructions. Of all repetitions the smallest result counts, because other
/// sections occur now and then.
fn longest(site: &Site<'_>, with: bool) -> Result<Vec<f64>> {
    let measure = |Case {
                       tracer, off, work, ..
                   }: Case| {
        let mut least = f64::INFINITY;
        for _ in 0..ROUNDS {
            (work.prepare)(site, with)?;
            let (ms, place) = watch(tracer, site, &(work.line)(site))?;
            let name = work.name;
            eprintln!("    {off} off, with the module: {with}; {name}: {ms} ms, {place}");
            least = least.min(ms);
        }
        Ok(least)
    };
    cases().map(measure).collect()
}

/// Runs a command. Returns the milliseconds of the longest section that the tracer found, and where
/// it began and ended.
fn watch(tracer: &str, site: &Site<'_>, line: &str) -> Result<(f64, String)> {
    let guest = site.guest;
    let set = |file: &str, value: &str| guest.write_file(&format!("{TRACING}/{file}"), value);
    set("current_tracer", tracer)?;
    set("options/function-trace", "0")?;
    set("tracing_max_latency", "0")?;
    set("tracing_on", "1")?;
    site.run(&format!("{line} || true"))?;
    set("tracing_on", "0")?;
    let found = found(guest);
    set("current_tracer", "nop")?;
    found
}

fn found(guest: &Machine) -> Result<(f64, String)> {
    let text = guest.read_text(&format!("{TRACING}/tracing_max_latency"))?;
    let us: f64 = text.trim().parse()?;
    let trace = guest.read_text(&format!("{TRACING}/trace"))?;
    let places = trace
        .lines()
        .filter_map(|line| line.split_once("=> ")?.1.split_once(": "))
        .map(|(what, place)| format!("{what} {}", place.trim()))
        .collect::<Vec<_>>();
    Ok((us / 1e3, places.join(", ")))
}
