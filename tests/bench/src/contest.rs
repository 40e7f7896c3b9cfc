// SPDX-License-Identifier: GPL-2.0-only

//! The cases and their participants.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;

use crate::{
    cache::{Cache, Nothing},
    curve,
    engine::Engine,
    measure::{Case, ROUNDS, RunningCase, Sample},
    mix::Mix,
    outcome::Outcome,
    peer::{Foyer, Lru, Moka, Objects, Quick},
    report, verdict, victims,
};

/// Numbers of resident pages. `--quick` leaves out the last one.
pub(crate) const SIZES: [u64; 3] = [1 << 16, 1 << 20, 1 << 24];

/// Makes an empty cache for a number of pages, which this number of threads use.
type Make = fn(u64, u64) -> Box<dyn Cache>;

/// The engine's name.
pub(crate) const ENGINE: &str = "engine";

/// The name of the case that only copies.
pub(crate) const NOTHING: &str = "memcpy";

/// Caches in general use. The engine is compared with the fastest of them.
pub(crate) const PEERS: [&str; 4] = ["foyer", "lru", "moka", "quick_cache"];

const CACHES: [(&str, Make); 6] = [
    (ENGINE, |pages, threads| {
        Box::new(Engine::new(pages, threads))
    }),
    ("foyer", |pages, _| Box::new(Foyer::new(pages))),
    ("lru", |pages, _| Box::new(Lru::new(pages))),
    ("moka", |pages, _| Box::new(Moka::new(pages))),
    ("quick_cache", |pages, _| Box::new(Quick::new(pages))),
    ("objects", |pages, _| Box::new(Objects::new(pages))),
];

/// Measures the engine and its peers
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Leave the largest size out
    #[arg(long)]
    quick: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Only these mixes
    #[arg(long = "mix", value_enum)]
    mixes: Vec<Mix>,
    /// Only these caches
    #[arg(long = "cache")]
    caches: Vec<String>,
    /// Only these sizes, in pages
    #[arg(long = "pages")]
    pages: Vec<u64>,
    /// Only one guest, and nothing copied
    #[arg(long)]
    lean: bool,
    /// Rounds of each case, after one for warming up
    #[arg(long, default_value_t = ROUNDS)]
    rounds: usize,
    /// Folder for the result
    #[arg(long, default_value = "target/bench-engine")]
    out: PathBuf,
}

impl Args {
    fn choice(&self) -> Choice {
        let mut mixes = self.mixes.clone();
        if mixes.is_empty() {
            mixes.extend(Mix::ALL);
        }
        let mut sizes = SIZES.to_vec();
        if self.quick {
            sizes.pop();
        }
        if !self.pages.is_empty() {
            sizes.retain(|pages| self.pages.contains(pages));
        }
        Choice {
            mixes,
            sizes,
            caches: self.caches.clone(),
            lean: self.lean,
            rounds: self.rounds,
        }
    }
}

/// Measures what the arguments select, and reports it.
pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let outcome = run(&args.choice());
    report::show(&args.out, args.json, &outcome, || outcome.summary())?;
    // A machine that counts instructions has other figures, for which there are no promises.
    let is_met = args.lean || ddlab::report::all_met(&outcome.targets);
    Ok(report::exit(is_met))
}

/// The cases that the arguments select.
pub(crate) struct Choice {
    /// These mixes.
    pub(crate) mixes: Vec<Mix>,
    /// At these sizes.
    pub(crate) sizes: Vec<u64>,
    /// These caches, or all if empty.
    pub(crate) caches: Vec<String>,
    /// Only one guest, without copying.
    pub(crate) lean: bool,
    /// Number of rounds, after one for warming up.
    pub(crate) rounds: usize,
}

impl Choice {
    /// Returns whether a mix is measured at a size.
    pub(crate) fn includes(&self, mix: Mix, pages: u64) -> bool {
        self.mixes.contains(&mix) && self.sizes.contains(&pages)
    }

    /// Returns whether a cache is measured. Copying is always measured with the engine.
    pub(crate) fn is_chosen(&self, cache: &str) -> bool {
        self.caches.is_empty() || self.caches.iter().any(|chosen| chosen == cache)
    }
}

/// Measures the selection.
fn run(choice: &Choice) -> Outcome {
    let mut samples = Vec::new();
    for pages in &choice.sizes {
        for mix in &choice.mixes {
            samples.extend(at_size(*mix, *pages, choice));
        }
    }
    let (victim_ns, curve_ns) = (victims::measure(), curve::measure());
    Outcome {
        targets: verdict::targets(choice, &samples, victim_ns, curve_ns),
        victim_ns,
        curve_ns,
        samples,
    }
}

/// Measures all caches with one mix at one size.
fn at_size(mix: Mix, pages: u64, choice: &Choice) -> Vec<Sample> {
    let case = |cache, threads, copies| Case {
        cache,
        mix,
        pages,
        threads,
        copies,
    };
    let chosen = || CACHES.iter().filter(|(cache, _)| choice.is_chosen(cache));
    let alone = chosen().map(|(cache, make)| (case(cache, 1, false), *make));
    let mut groups = vec![alone.collect::<Vec<_>>()];
    if !choice.lean {
        // Two guests are compared with one of the same cache; peers are included only where that is
        // quick.
        for (cache, make) in chosen() {
            let is_engine = *cache == ENGINE;
            if is_engine {
                groups[0].push((case(cache, 2, false), *make));
            } else if pages <= SIZES[1] {
                groups.push(vec![(case(cache, 2, false), *make)]);
            }
        }
        let nothing: Make = |_, _| Box::new(Nothing::default());
        let copying = [CACHES[0], (NOTHING, nothing)];
        groups.push(
            copying
                .map(|(cache, make)| (case(cache, 1, true), make))
                .into(),
        );
    }
    let groups = groups.into_iter();
    groups.flat_map(|group| together(group, choice)).collect()
}

/// Runs the rounds of the caches of a group alternately, each time in reverse order, so that other
/// load of the machine affects all of them equally.
fn together(group: Vec<(Case, Make)>, choice: &Choice) -> Vec<Sample> {
    let begin = |(case, make): (Case, Make)| {
        // Caches that evict are full; the others have room for the pages under way.
        let spare = if case.mix.overflows() {
            0
        } else {
            case.pages / 8
        };
        let room = case.pages + spare;
        let threads = case.threads;
        RunningCase::begin(case, || make(room, threads))
    };
    let mut courses: Vec<RunningCase> = group.into_iter().map(begin).collect();
    courses.iter_mut().for_each(RunningCase::warm_up);
    for round in 0..choice.rounds.max(1) {
        if round % 2 == 0 {
            courses.iter_mut().for_each(RunningCase::play);
        } else {
            courses.iter_mut().rev().for_each(RunningCase::play);
        }
    }
    let samples: Vec<Sample> = courses.into_iter().map(RunningCase::end).collect();
    samples.iter().for_each(show);
    samples
}

fn show(sample: &Sample) {
    let Case {
        cache,
        mix,
        pages,
        threads,
        copies,
    } = &sample.case;
    eprintln!(
        "{:10} {pages:>8} pages, {threads} threads{}: {cache:11} {:7.1} ns, fastest {:.1}; \
         {:.0} bytes a page",
        mix.name(),
        if *copies { ", copies" } else { "" },
        sample.median_ns,
        sample.fastest_ns,
        sample.bytes_per_page,
    );
}
