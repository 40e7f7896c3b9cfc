// SPDX-License-Identifier: GPL-2.0-only

//! The promises. Each compares figures of one run, because only these were measured under the same
//! conditions.

use ddlab::{median, report::Target};

use crate::{
    contest::{Choice, ENGINE, NOTHING, PEERS, SIZES},
    measure::Sample,
    mix::Mix,
};

/// Returns the promises about the chosen cases. A figure of a chosen case that is absent misses its
/// promise.
pub(crate) fn targets(
    choice: &Choice,
    samples: &[Sample],
    victim_ns: f64,
    curve_ns: f64,
) -> Vec<Target> {
    let figures = Figures { choice, samples };
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
    if choice.is_chosen(ENGINE) {
        let engine = samples.iter().filter(|sample| sample.case.cache == ENGINE);
        let most = engine.map(|sample| sample.bytes_per_page).reduce(f64::max);
        let name = "index of a page, worst mix";
        targets.push(Target::at_most(name, 64.0, most, "bytes"));
    }
    let name = "victim among 1000 VMs and 100 containers, arithmetic only";
    targets.push(Target::at_most(name, 10.0, victim_ns / 1000.0, "us"));
    targets.extend(figures.curve(curve_ns));
    targets
}

struct Figures<'a> {
    choice: &'a Choice,
    samples: &'a [Sample],
}

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
        self.samples.iter().find(is_it)
    }

    fn engine(&self, mix: Mix, pages: u64) -> Option<&Sample> {
        self.sample(ENGINE, (mix, pages), (1, false))
    }

    /// Returns whether the engine is measured with this mix at this size.
    fn has_engine(&self, mix: Mix, pages: u64) -> bool {
        self.choice.includes(mix, pages) && self.choice.is_chosen(ENGINE)
    }

    /// Returns the target beside the chosen peers, or `None` if the engine or all peers are left
    /// out. A chosen peer that is absent might have been the fastest.
    fn beside_peers(&self, mix: Mix, pages: u64, share: f64) -> Option<Target> {
        let chosen = PEERS.iter().filter(|peer| self.choice.is_chosen(peer));
        let peers = chosen.map(|peer| self.sample(peer, (mix, pages), (1, false)));
        let peers: Vec<Option<&Sample>> = peers.collect();
        if !self.has_engine(mix, pages) || peers.is_empty() {
            return None;
        }
        let measured: Option<Vec<&Sample>> = peers.into_iter().collect();
        let fastest = measured.and_then(|peers| {
            let all = peers.into_iter();
            all.min_by(|one, other| one.median_ns.total_cmp(&other.median_ns))
        });
        let name = format!("{}, {}: the fastest peer takes", mix.name(), size(pages));
        let times = fastest.zip(self.engine(mix, pages));
        let times = times.map(|(fastest, engine)| ratio(fastest, engine));
        Some(Target::at_least(name, share, times, "times as long"))
    }

    fn growth(&self, mix: Mix, limit: f64) -> Option<Target> {
        let [small, .., large] = SIZES;
        if ![small, large]
            .iter()
            .all(|pages| self.has_engine(mix, *pages))
        {
            return None;
        }
        // Sizes are not measured in turns.
        let times = self.engine(mix, large).zip(self.engine(mix, small));
        let times = times.map(|(large, small)| large.median_ns / small.median_ns);
        let name = format!("{}: {} beside {}", mix.name(), size(large), size(small));
        Some(Target::at_most(name, limit, times, "times"))
    }

    fn copying(&self, mix: Mix, pages: u64) -> Option<Target> {
        // Misses copy nothing, so that the two cases did different work.
        if mix.overflows() || self.choice.lean || !self.choice.includes(mix, pages) {
            return None;
        }
        let engine = self.sample(ENGINE, (mix, pages), (1, true));
        let copies = self.sample(NOTHING, (mix, pages), (1, true));
        let times = engine.zip(copies);
        let times = times.map(|(engine, copies)| ratio(engine, copies));
        let name = format!(
            "{}, {}: copies and all beside the copies",
            mix.name(),
            size(pages)
        );
        Some(Target::at_most(name, 1.3, times, "times"))
    }

    /// The comparison is with single pages and copying, the most that a page costs without the
    /// call.
    fn curve(&self, curve_ns: f64) -> Option<Target> {
        if self.choice.lean || !self.choice.includes(Mix::Random, SIZES[0]) {
            return None;
        }
        let pair = self.sample(ENGINE, (Mix::Random, SIZES[0]), (1, true));
        let part = pair.map(|pair| 100.0 * curve_ns / pair.median_ns);
        let name = "curve of a container, beside put and get";
        Some(Target::at_most(name, 1.0, part, "%"))
    }

    fn threads(&self, mix: Mix, pages: u64) -> Option<Target> {
        if self.choice.lean || !self.has_engine(mix, pages) {
            return None;
        }
        let two = self.sample(ENGINE, (mix, pages), (2, false));
        let name = format!("{}, {}: two guests beside one", mix.name(), size(pages));
        let times = self.engine(mix, pages).zip(two);
        let times = times.map(|(one, two)| ratio(one, two));
        Some(Target::at_least(name, 1.8, times, "times"))
    }
}

/// Returns how many times as long one case takes as the other: the median over the rounds, each of
/// which measured both.
fn ratio(one: &Sample, other: &Sample) -> f64 {
    let pairs = one.rounds_ns.iter().zip(&other.rounds_ns);
    median(pairs.map(|(one, other)| one / other)).expect("there are rounds")
}

fn size(pages: u64) -> String {
    match pages {
        0..0x10_0000 => format!("{} Ki pages", pages >> 10),
        _ => format!("{} Mi pages", pages >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Case;

    fn choice(mixes: &[Mix], caches: &[&str], lean: bool) -> Choice {
        Choice {
            mixes: mixes.to_vec(),
            sizes: SIZES.to_vec(),
            caches: caches.iter().map(|&cache| cache.to_owned()).collect(),
            lean,
            rounds: 1,
        }
    }

    fn sample(cache: &'static str, pages: u64, (threads, copies): (u64, bool)) -> Sample {
        Sample {
            case: Case {
                cache,
                mix: Mix::Random,
                pages,
                threads,
                copies,
            },
            rounds_ns: vec![1.0],
            median_ns: 1.0,
            fastest_ns: 1.0,
            slowest_ns: 1.0,
            hit_percent: 100.0,
            bytes_per_page: 40.0,
        }
    }

    /// Returns how many targets there are, and how many of them are missed because nothing was
    /// measured.
    fn absent(choice: &Choice, samples: &[Sample]) -> (usize, usize) {
        let targets = targets(choice, samples, 1.0, 0.001);
        let absent = targets.iter().filter(|one| one.measured == "not measured");
        (targets.len(), absent.filter(|one| !one.met).count())
    }

    #[test]
    fn absent_figures_of_chosen_cases_are_missed() {
        // Beside peers 4 mixes, growth 2, copies 6 mixes, two guests 2 mixes, each but growth at
        // three sizes; the index, the victim, which is always measured, and the curve.
        let all = choice(&Mix::ALL, &[], false);
        assert_eq!(absent(&all, &[]), (41, 40));
        // Peers at three sizes, growth, and the index; no second guest and no copies.
        let lean = choice(&[Mix::Random], &[], true);
        assert_eq!(absent(&lean, &[]), (6, 5));
        let one = choice(&[Mix::Random], &["lru"], false);
        assert_eq!(absent(&one, &[]), (5, 4), "copies and the curve");
    }

    #[test]
    fn a_chosen_peer_that_is_absent_is_missed() {
        let two = choice(&[Mix::Random], &[ENGINE, "lru", "moka"], true);
        let mut samples = Vec::new();
        for pages in SIZES {
            samples.extend([ENGINE, "lru"].map(|cache| sample(cache, pages, (1, false))));
        }
        assert_eq!(absent(&two, &samples), (6, 3));
        samples.extend(SIZES.map(|pages| sample("moka", pages, (1, false))));
        assert_eq!(absent(&two, &samples), (6, 0));
    }
}
