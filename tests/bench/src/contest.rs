// SPDX-License-Identifier: GPL-2.0

//! The cases, and who takes part in them.

use crate::{
    cache::{Cache, Nothing},
    curve,
    engine::Engine,
    measure::{Case, Sample, measure},
    mix::Mix,
    outcome::Outcome,
    peer::{Foyer, Lru, Moka, Objects, Quick},
    verdict, victims,
};

/// Resident pages; `--quick` leaves the last one out.
pub(crate) const SIZES: [u64; 3] = [1 << 16, 1 << 20, 1 << 24];

/// Makes an empty cache for so many pages.
type Make = fn(u64) -> Box<dyn Cache>;

/// The engine's name.
pub(crate) const ENGINE: &str = "engine";

/// The name of what does nothing but copy.
pub(crate) const NOTHING: &str = "memcpy";

/// The caches in general use; the engine is compared with the fastest of them.
pub(crate) const PEERS: [&str; 4] = ["foyer", "lru", "moka", "quick_cache"];

const CACHES: [(&str, Make); 6] = [
    (ENGINE, |pages| Box::new(Engine::new(pages))),
    ("foyer", |pages| Box::new(Foyer::new(pages))),
    ("lru", |pages| Box::new(Lru::new(pages))),
    ("moka", |pages| Box::new(Moka::new(pages))),
    ("quick_cache", |pages| Box::new(Quick::new(pages))),
    ("objects", |pages| Box::new(Objects::new(pages))),
];

/// What to measure.
pub(crate) struct Choice {
    /// These mixes.
    pub(crate) mixes: Vec<Mix>,
    /// At these sizes.
    pub(crate) sizes: Vec<u64>,
    /// These caches; all if there are none.
    pub(crate) caches: Vec<String>,
    /// Only one guest, without copying.
    pub(crate) lean: bool,
    /// In so many rounds.
    pub(crate) rounds: usize,
}

impl Choice {
    fn is_chosen(&self, cache: &str) -> bool {
        self.caches.is_empty() || self.caches.iter().any(|chosen| chosen == cache)
    }
}

/// Measures what was chosen.
pub(crate) fn run(choice: &Choice) -> Outcome {
    let mut samples = Vec::new();
    for pages in &choice.sizes {
        for mix in &choice.mixes {
            samples.extend(at_size(*mix, *pages, choice));
        }
    }
    let (victim_ns, curve_ns) = (victims::measure(), curve::measure());
    Outcome {
        targets: verdict::targets(&samples, victim_ns, curve_ns),
        victim_ns,
        curve_ns,
        samples,
    }
}

/// Everybody under one mix at one size, one after the other.
fn at_size(mix: Mix, pages: u64, choice: &Choice) -> Vec<Sample> {
    let mut samples = Vec::new();
    let guests = if choice.lean { 1..=1 } else { 1..=2 };
    let chosen = CACHES.iter().filter(|(cache, _)| choice.is_chosen(cache));
    for (cache, make) in chosen.copied() {
        for threads in guests.clone() {
            // Who is not the engine is measured with two guests only where that is quick.
            if threads == 2 && cache != ENGINE && pages > SIZES[1] {
                continue;
            }
            let case = Case {
                cache,
                mix,
                pages,
                threads,
                copies: false,
            };
            samples.push(one(case, make, choice.rounds));
        }
    }
    if choice.lean {
        return samples;
    }
    for (cache, make) in [CACHES[0], (NOTHING, |_| Box::new(Nothing::default()))] {
        let case = Case {
            cache,
            mix,
            pages,
            threads: 1,
            copies: true,
        };
        samples.push(one(case, make, choice.rounds));
    }
    samples
}

fn one(case: Case, make: Make, rounds: usize) -> Sample {
    // Those that evict are full; the others have room for what is on its way.
    let cache = make(
        case.pages
            + if case.mix.overflows() {
                0
            } else {
                case.pages / 8
            },
    );
    let sample = measure(case, &*cache, rounds);
    let Case {
        cache,
        mix,
        pages,
        threads,
        copies,
    } = &sample.case;
    eprintln!(
        "{:10} {pages:>8} pages, {threads} threads{}: {cache:11} {:7.1} ns, fastest {:.1}",
        mix.name(),
        if *copies { ", copies" } else { "" },
        sample.median_ns,
        sample.fastest_ns,
    );
    sample
}
