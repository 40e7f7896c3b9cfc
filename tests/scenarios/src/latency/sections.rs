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
/// Maximum additional section in million instructions: a folio of 512 pages that leaves by
/// `remove_mapping` is put with interrupts off, in four calls; a call is made with preemption off.
const MOST: [(Tracer, &str, f64); 2] = [
    (Tracer("irqsoff"), "interrupts", 8.0),
    (Tracer("preemptoff"), "preemption", 8.0),
];

/// A tracer of the kernel, by its name.
#[derive(Clone, Copy)]
struct Tracer(&'static str);

fn run(context: &mut Context) -> Result<Vec<Target>> {
    stage::counting_instructions(context, measure)
}

fn measure(stage: &Stage<'_>) -> Result<Vec<Target>> {
    let guest = prepare(stage)?;
    let site = Site { guest: &guest };
    let known = guest.read_text(&format!("{TRACING}/available_tracers"))?;
    for (Tracer(name), ..) in MOST {
        ensure!(
            known.split_whitespace().any(|tracer| tracer == name),
            "this kernel has no tracer {name}; run the scenario with --kernel hardened"
        );
    }
    let alone = longest(&site, false)?;
    enroll(&guest)?;
    let with = longest(&site, true)?;
    let pairs = alone.iter().zip(&with);
    Ok(pairs
        .map(|(alone, with)| {
            Target::at_most(
                format!(
                    "sections: million instructions that {} is off for longer while {}",
                    with.what, with.work
                ),
                with.most,
                (with.ms - alone.ms).max(0.0),
                "",
            )
        })
        .collect())
}

/// The longest section during a work.
struct Longest {
    what: &'static str,
    work: &'static str,
    most: f64,
    /// Milliseconds, in each of which the machine executes a million instructions. Of all
    /// repetitions this is the smallest, because other sections occur now and then.
    ms: f64,
}

fn longest(site: &Site<'_>, with: bool) -> Result<Vec<Longest>> {
    let works = [
        ("large folios are reclaimed", site.reclaim()),
        (
            "large folios are dropped",
            "sh -c 'echo 1 > /proc/sys/vm/drop_caches'".to_owned(),
        ),
        (
            "large folios are read back",
            "ddhelper huge /mnt/large".to_owned(),
        ),
        (
            "a file with pages in many chunks is truncated",
            "truncate -s 0 /mnt/sparse".to_owned(),
        ),
    ];
    let mut all = Vec::new();
    for (tracer, what, most) in MOST {
        for (index, (work, line)) in works.iter().enumerate() {
            let mut ms = f64::INFINITY;
            for _ in 0..ROUNDS {
                match index {
                    0 | 1 => site.grow()?,
                    2 => {
                        site.grow()?;
                        site.run(&format!("{} || true", site.reclaim()))?;
                    }
                    _ => {
                        site.scatter(with)?;
                    }
                }
                let (section, place) = tracer.watch(site, line)?;
                eprintln!("    {what} off, with the module: {with}; {work}: {section} ms, {place}");
                ms = ms.min(section);
            }
            all.push(Longest {
                what,
                work,
                most,
                ms,
            });
        }
    }
    Ok(all)
}

impl Tracer {
    /// Runs a command. Returns the milliseconds of the longest section, and where it began and
    /// ended.
    fn watch(self, site: &Site<'_>, line: &str) -> Result<(f64, String)> {
        let guest = site.guest;
        let set = |file: &str, value: &str| guest.write_file(&format!("{TRACING}/{file}"), value);
        set("current_tracer", self.0)?;
        set("options/function-trace", "0")?;
        set("tracing_max_latency", "0")?;
        set("tracing_on", "1")?;
        site.run(&format!("{line} || true"))?;
        set("tracing_on", "0")?;
        let found = Self::read(guest);
        set("current_tracer", "nop")?;
        found
    }

    fn read(guest: &Machine) -> Result<(f64, String)> {
        let text = guest.read_text(&format!("{TRACING}/tracing_max_latency"))?;
        let us: f64 = text.trim().parse()?;
        let trace = guest.read_text(&format!("{TRACING}/trace"))?;
        let places = trace
            .lines()
            .filter_map(|line| line.split_once("=> ")?.1.split_once(": "));
        let places: Vec<_> = places
            .map(|(what, place)| format!("{what} {}", place.trim()))
            .collect();
        Ok((us / 1e3, places.join(", ")))
    }
}
