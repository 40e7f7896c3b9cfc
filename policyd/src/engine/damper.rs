// SPDX-License-Identifier: GPL-2.0

//! From wanted shares to weights, without haste and without trembling.
//!
//! Shares rest until there is a reason to move. A target is missed that other shares would serve
//! better: then no more moves than that needs. Or for some time the best shares were far away: then
//! all move there. Once moving they move on until they are close, at most one step an interval.

use super::fair::Fair;
use crate::config::Priority;
use std::collections::BTreeMap;

/// Sum of the weights that are given out, the default pool's included.
pub(super) const WEIGHT_SUM: u32 = 10_000;

/// Shares in force, by container.
#[derive(Clone, Debug, Default)]
pub(super) struct Damper {
    shares: BTreeMap<String, f64>,
    moving: Option<Reason>,
    /// Intervals in a row in which the best shares were far away.
    far: u32,
    /// What newcomers got in this interval, as a part of everything.
    entered: f64,
}

/// Why shares move.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reason {
    /// A target is missed.
    Missed,
    /// Other shares would be better.
    Better,
}

/// Where shares should move, as parts of everything; of the same containers.
pub(super) struct Wanted {
    /// What serves the targets with the least change.
    pub(super) least: BTreeMap<String, f64>,
    /// What is best altogether.
    pub(super) best: BTreeMap<String, f64>,
}

/// A missed target is a reason to move if it gains this much of its share.
const GAIN: f64 = 0.02;
/// Far away, as a part of everything.
const FAR: f64 = 0.10;
/// So long they must be far away if no target is missed.
const PATIENCE: u32 = 3;
/// Close, as a part of everything.
const CLOSE: f64 = 0.005;

impl Damper {
    /// The shares in force.
    pub(super) fn shares(&self) -> &BTreeMap<String, f64> {
        &self.shares
    }

    /// Adopts weights that are in force already, so that a start changes nothing at first.
    pub(super) fn adopt(&mut self, shares: BTreeMap<String, f64>) {
        self.shares = normal(shares);
    }

    /// Whether these are the containers that have shares.
    pub(super) fn has(&self, wanted: &BTreeMap<String, Fair>) -> bool {
        self.shares.len() == wanted.len() && wanted.keys().all(|key| self.shares.contains_key(key))
    }

    /// An interval begins: newcomers may get something again.
    pub(super) const fn begin_interval(&mut self) {
        self.entered = 0.0;
    }

    /// Takes in that containers came or went.
    ///
    /// Containers that left leave their shares to the others, in proportion. Newcomers together
    /// get at most `step` of everything in an interval, however many they are and in however many
    /// calls they come; what more they should have they get from later steps. Those present give
    /// it from what exceeds their fair parts, the lowest class first.
    pub(super) fn fit(&mut self, fair: &BTreeMap<String, Fair>, step: f64) {
        self.shares.retain(|key, _| fair.contains_key(key));
        let first = self.shares.is_empty();
        self.shares = normal(std::mem::take(&mut self.shares));
        let sum: f64 = fair.values().map(|fair| fair.part).sum();
        let equal = 1.0 / fair.len().max(1) as f64;
        let part = |fair: &Fair| if sum > 0.0 { fair.part / sum } else { equal };
        let new: Vec<(&String, f64)> = fair
            .iter()
            .filter(|(key, _)| !self.shares.contains_key(*key))
            .map(|(key, fair)| (key, part(fair)))
            .collect();
        let wanted: f64 = new.iter().map(|(_, part)| part).sum();
        if wanted <= 0.0 {
            for (key, _) in new {
                self.shares.insert(key.clone(), 0.0);
            }
            return;
        }
        let come = match first {
            true => wanted,
            false => wanted.min((step - self.entered).max(0.0)),
        };
        if !first {
            self.entered += come;
            self.make_room(come, fair, part);
        }
        for (key, part) in new {
            self.shares.insert(key.clone(), part * come / wanted);
        }
    }

    /// Takes `come` from the shares that exceed what is fair, the lowest class first.
    fn make_room(&mut self, come: f64, fair: &BTreeMap<String, Fair>, part: impl Fn(&Fair) -> f64) {
        let mut classes: Vec<Priority> = fair.values().map(|fair| fair.class).collect();
        classes.sort_unstable();
        classes.dedup();
        let mut left = come;
        for class in classes {
            let over = |key: &String, share: f64| match &fair[key] {
                one if one.class == class => (share - part(one)).max(0.0),
                _ => 0.0,
            };
            let all: f64 = self
                .shares
                .iter()
                .map(|(key, share)| over(key, *share))
                .sum();
            if all <= 0.0 {
                continue;
            }
            let taken = left.min(all);
            for (key, share) in &mut self.shares {
                *share -= over(key, *share) * taken / all;
            }
            left -= taken;
        }
    }

    /// Moves towards wanted shares, at most `step` of everything. Those of `urgent` miss their
    /// targets. Answers whether anything moved.
    pub(super) fn step(
        &mut self,
        wanted: Wanted,
        urgent: impl Fn(&str) -> bool,
        step: f64,
    ) -> bool {
        let (least, best) = (normal(wanted.least), normal(wanted.best));
        let share = |key: &str| self.shares.get(key).copied().unwrap_or(0.0);
        let farthest = |wanted: &BTreeMap<String, f64>| {
            let ways = wanted
                .iter()
                .map(|(key, wanted)| (wanted - share(key)).abs());
            ways.fold(0.0, f64::max)
        };
        let gains = least.iter().any(|(key, wanted)| {
            let now = share(key);
            urgent(key) && wanted - now > (now * GAIN).max(1.0 / f64::from(WEIGHT_SUM))
        });
        // With many containers each may be near, and all together far.
        let ways = best.iter().map(|(key, best)| (best - share(key)).abs());
        self.far = if ways.sum::<f64>() / 2.0 > FAR {
            self.far + 1
        } else {
            0
        };
        self.moving = match self.moving {
            _ if gains => Some(Reason::Missed),
            Some(Reason::Missed) if farthest(&least) > CLOSE => Some(Reason::Missed),
            Some(Reason::Better) if farthest(&best) > CLOSE => Some(Reason::Better),
            _ if self.far >= PATIENCE => Some(Reason::Better),
            _ => None,
        };
        let wanted = match self.moving {
            Some(Reason::Missed) => least,
            Some(Reason::Better) => best,
            None => return false,
        };
        let farthest = farthest(&wanted);
        if farthest <= 0.0 {
            return false;
        }
        let part = (step / farthest).min(1.0);
        for (key, wanted) in wanted {
            let share = self.shares.entry(key).or_insert(0.0);
            *share += (wanted - *share) * part;
        }
        true
    }

    /// Returns whole weights whose sum is [`WEIGHT_SUM`]: the shares are parts of `budget`, others
    /// have `fixed` parts of everything. Only a fixed part of nothing is nothing.
    pub(super) fn weights(
        &self,
        budget: f64,
        fixed: BTreeMap<String, f64>,
    ) -> BTreeMap<String, u32> {
        let ours = self
            .shares
            .iter()
            .map(|(key, share)| (key.clone(), share * budget));
        let sum = f64::from(WEIGHT_SUM);
        let mut weights: Vec<(String, u32, f64)> = normal(ours.chain(fixed).collect())
            .into_iter()
            .map(|(key, part)| {
                let exact = part * sum;
                // A weight of zero means no store at all; that is only the file's to say.
                let least = u32::from(part > 0.0 || self.shares.contains_key(&key));
                let whole = (exact as u32).clamp(least, WEIGHT_SUM);
                (key, whole, exact - f64::from(whole))
            })
            .collect();
        let given: i64 = weights.iter().map(|one| i64::from(one.1)).sum();
        let mut off = i64::from(WEIGHT_SUM) - given;
        // Largest remainder: those that lost most in rounding get the rest; what the smallest got
        // too much the largest give.
        weights.sort_by(|a, b| b.2.total_cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
        for one in weights.iter_mut().filter(|one| one.1 > 0) {
            if off > 0 {
                one.1 += 1;
                off -= 1;
            }
        }
        weights.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        while off < 0 {
            let before = off;
            for one in weights.iter_mut().filter(|one| one.1 > 1) {
                if off < 0 {
                    one.1 -= 1;
                    off += 1;
                }
            }
            if off == before {
                break;
            }
        }
        weights
            .into_iter()
            .map(|(key, weight, _)| (key, weight))
            .collect()
    }
}

/// Shares whose sum is one.
fn normal(mut shares: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let sum: f64 = shares.values().sum();
    let equal = 1.0 / shares.len().max(1) as f64;
    for share in shares.values_mut() {
        *share = if sum > 0.0 { *share / sum } else { equal };
    }
    shares
}

#[cfg(test)]
mod tests {
    mod bounds;

    use super::*;
    use proptest::prelude::*;

    fn shares(shares: &[f64]) -> BTreeMap<String, f64> {
        let entry = |(at, share): (usize, &f64)| (format!("/{at}"), *share);
        shares.iter().enumerate().map(entry).collect()
    }

    fn fair(parts: &[f64]) -> BTreeMap<String, Fair> {
        let class = Priority::SILVER;
        let entry = |(key, part)| (key, Fair { part, class });
        shares(parts).into_iter().map(entry).collect()
    }

    fn damper(start: &[f64]) -> Damper {
        let mut damper = Damper::default();
        damper.adopt(shares(start));
        damper
    }

    fn wanted(given: &[f64]) -> Wanted {
        Wanted {
            least: shares(given),
            best: shares(given),
        }
    }

    #[test]
    fn steps_are_bounded_and_end() {
        let mut damper = damper(&[0.1, 0.9]);
        let mut steps = 0;
        loop {
            let before = damper.shares()["/0"];
            if !damper.step(wanted(&[0.8, 0.2]), |key| key == "/0", 0.15) {
                break;
            }
            assert!(damper.shares()["/0"] - before <= 0.15 + 1e-9);
            steps += 1;
        }
        assert_eq!(steps, 5);
        assert!((damper.shares()["/0"] - 0.8).abs() < 0.01);
    }

    #[test]
    fn small_wishes_move_nothing() {
        let mut damper = damper(&[0.5, 0.5]);
        for _ in 0..20 {
            assert!(!damper.step(wanted(&[0.55, 0.45]), |_| false, 0.15));
        }
        for round in 0..3 {
            let moved = damper.step(wanted(&[0.8, 0.2]), |_| false, 0.15);
            assert_eq!(moved, round == 2);
        }
    }

    #[test]
    fn who_stays_keeps_proportions() {
        let mut damper = damper(&[0.6, 0.3, 0.1]);
        damper.fit(&fair(&[1.0, 1.0]), 0.5);
        assert!((damper.shares()["/0"] / damper.shares()["/1"] - 2.0).abs() < 1e-9);
        damper.fit(&fair(&[1.0, 1.0, 2.0]), 0.5);
        assert!((damper.shares()["/2"] - 0.5).abs() < 1e-9);
    }

    #[test]
    fn newcomers_get_one_step_however_they_come() {
        let mut damper = damper(&[0.95, 0.05]);
        let mut parts = vec![1.0, 1.0];
        for _ in 0..100 {
            parts.push(1.0);
            damper.fit(&fair(&parts), 0.2);
        }
        assert!((damper.shares()["/0"] - 0.75).abs() < 1e-9);
        // The next interval lets in others.
        damper.begin_interval();
        parts.push(1.0);
        damper.fit(&fair(&parts), 0.2);
        assert!(damper.shares()["/0"] < 0.75);
        // Containers that end and start again move nothing more than that.
        for _ in 0..100 {
            damper.fit(&fair(&[1.0]), 0.2);
            damper.fit(&fair(&[1.0, 1.0]), 0.2);
        }
        assert!(damper.shares()["/0"] >= 0.8 - 1e-9);
    }

    #[test]
    fn lower_classes_make_room_first() {
        let mut damper = damper(&[0.6, 0.4]);
        let class = |class, part| Fair { class, part };
        let mut all: BTreeMap<String, Fair> = BTreeMap::new();
        all.insert("/0".into(), class(Priority::GOLD, 1.0));
        all.insert("/1".into(), class(Priority::BRONZE, 1.0));
        all.insert("/2".into(), class(Priority::BRONZE, 1.0));
        damper.fit(&all, 0.1);
        // The bronze one has 0.4 - 1/3 more than is fair; gold gives the rest.
        assert!((damper.shares()["/1"] - 1.0 / 3.0).abs() < 1e-9);
        assert!((damper.shares()["/0"] - (0.6 - 0.1 + 0.4 - 1.0 / 3.0)).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn weights_have_one_sum(given in prop::collection::vec(0.0..1.0f64, 1..1023)) {
            let weights = damper(&given).weights(1.0, BTreeMap::new());
            prop_assert_eq!(weights.len(), given.len());
            prop_assert_eq!(weights.values().sum::<u32>(), WEIGHT_SUM);
            prop_assert!(weights.values().all(|weight| (1..=WEIGHT_SUM).contains(weight)));
        }
    }
}
