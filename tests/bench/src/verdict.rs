// SPDX-License-Identifier: GPL-2.0-only

//! The promises. Each compares figures of one run, because only these were measured under the same
//! conditions.

use ddlab::report::Target;

use crate::{
    contest::{ENGINE, NOTHING, PEERS, SIZES},
    measure::Sample,
    mix::Mix,
};

/// Returns all promises for which there are figures.
pub(crate) fn targets(samples: &[Sample], victim_ns: f64, curve_ns: f64) -> Vec<Target> {
    let figures = Figures(samples);
    let mut targets = Vec::new();
    // A put of a part finds its block, so that parts gain less than whole runs.
    for (mix, share) in [
        (Mix::Random, 3.0),
        (Mix::Runs, 8.0),
        (Mix::Unaligned, 6.0),
        (Mix::Parts, 4.0),
    ] {
        for pages in SIZES {
            targets.extend(figures.beside_peers(mix, pages, share));
        }
    }
    for (mix, growth) in [(Mix::Random, 3.5), (Mix::Runs, 2.0)] {
        targets.extend(figures.growth(mix, growth));
    }
    for mix in Mix::ALL {
        for pages in SIZES {
            targets.extend(figures.copying(mix, pages));
        }
    }
    for mix in [Mix::Random, Mix::Runs] {
        for pages in SIZES {
            targets.extend(figures.threads(mix, pages));
        }
    }
    let engine = samples.iter().filter(|sample| sample.case.cache == ENGINE);
    let bytes = engine.map(|sample| sample.bytes_per_page);
    if let Some(most) = bytes.reduce(f64::max) {
        let name = "index of a page, worst mix";
        targets.push(Target::at_most(name, 64.0, most, "bytes"));
    }
    let name = "victim among 1000 VMs and 100 containers, arithmetic only";
    targets.push(Target::at_most(name, 10.0, victim_ns / 1000.0, "us"));
    targets.extend(figures.curve(curve_ns));
    targets
}

struct Figures<'a>(&'a [Sample]);

impl Figures<'_> {
    fn sample(
        &self,
        cache: &str,
        (mix, pages): (Mix, u64),
        (threads, copies): (u64, bool),
    ) -> Option<&Sample> {
        let is_it = |sample: &&Sample| {
            let case = &sample.case;
            (case.cache, case.mix, case.pages) == (cache, mix, pages)
                && (case.threads, case.copies) == (threads, copies)
        };
        self.0.iter().find(is_it)
    }

    fn engine(&self, mix: Mix, pages: u64) -> Option<&Sample> {
        self.sample(ENGINE, (mix, pages), (1, false))
    }

    fn beside_peers(&self, mix: Mix, pages: u64, share: f64) -> Option<Target> {
        let peers = PEERS.iter();
        let peers = peers.filter_map(|peer| self.sample(peer, (mix, pages), (1, false)));
        let fastest = peers.min_by(|one, other| one.median_ns.total_cmp(&other.median_ns))?;
        let name = format!("{}, {}: the fastest peer takes", mix.name(), size(pages));
        let times = ratio(fastest, self.engine(mix, pages)?);
        Some(Target::at_least(name, share, times, "times as long"))
    }

    fn growth(&self, mix: Mix, most: f64) -> Option<Target> {
        let [small, .., large] = SIZES;
        // Sizes are not measured in turns.
        let times = self.engine(mix, large)?.median_ns / self.engine(mix, small)?.median_ns;
        let name = format!("{}: {} beside {}", mix.name(), size(large), size(small));
        Some(Target::at_most(name, most, times, "times"))
    }

    fn copying(&self, mix: Mix, pages: u64) -> Option<Target> {
        let engine = self.sample(ENGINE, (mix, pages), (1, true))?;
        let copies = self.sample(NOTHING, (mix, pages), (1, true))?;
        if mix.overflows() {
            // Misses copy nothing, so that the two cases did different work.
            return None;
        }
        let name = format!(
            "{}, {}: copies and all beside the copies",
            mix.name(),
            size(pages)
        );
        Some(Target::at_most(name, 1.3, ratio(engine, copies), "times"))
    }

    /// The comparison is with single pages and copying, the most that a page costs without the
    /// call.
    fn curve(&self, curve_ns: f64) -> Option<Target> {
        let pair = self.sample(ENGINE, (Mix::Random, SIZES[0]), (1, true))?;
        let name = "curve of a container, beside put and get";
        Some(Target::at_most(
            name,
            1.0,
            100.0 * curve_ns / pair.median_ns,
            "%",
        ))
    }

    fn threads(&self, mix: Mix, pages: u64) -> Option<Target> {
        let two = self.sample(ENGINE, (mix, pages), (2, false))?;
        let name = format!("{}, {}: two guests beside one", mix.name(), size(pages));
        let times = ratio(self.engine(mix, pages)?, two);
        Some(Target::at_least(name, 1.8, times, "times"))
    }
}

/// Returns how many times as long one case takes as the other: the median over the rounds, each of
/// which measured both.
fn ratio(one: &Sample, other: &Sample) -> f64 {
    let pairs = one.rounds_ns.iter().zip(&other.rounds_ns);
    let mut ratios: Vec<f64> = pairs.map(|(one, other)| one / other).collect();
    middle(&mut ratios)
}

/// Sorts figures. Returns their median.
pub(crate) fn middle(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn size(pages: u64) -> String {
    match pages {
        0..0x10_0000 => format!("{} Ki pages", pages >> 10),
        _ => format!("{} Mi pages", pages >> 20),
    }
}
