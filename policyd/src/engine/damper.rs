// SPDX-License-Identifier: GPL-2.0-only

//! Moves shares towards the wanted ones by bounded steps and without oscillation, and converts them
//! to weights.
//!
//! Shares rest until one of two conditions holds. If a container misses its target and other shares
//! would bring it closer, only as much is moved as that container needs. If the best shares have
//! differed much from the present ones for some time, all shares move to the best ones. Shares that
//! have begun to move continue, by at most one step per interval, until they are close to their
//! goal.

use super::{fair::Fair, quantity::Share};
use crate::config::Priority;
use std::collections::BTreeMap;

/// The sum of all decided weights, including that of the default pool.
pub(super) const WEIGHT_SUM: u32 = 10_000;

/// Shares by container. Their sum is the whole that is divided.
pub(super) type Shares = BTreeMap<String, Share>;

/// Shares in force, by container.
#[derive(Clone, Debug, Default)]
pub(super) struct Damper {
    shares: Shares,
    moving: Option<Reason>,
    /// Consecutive intervals in which the best shares were far away.
    far: u32,
    /// The sum of shares that newcomers got in this interval.
    entered: Share,
}

/// A reason to move shares.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reason {
    /// A target is missed.
    Missed,
    /// Other shares would be better.
    Better,
}

/// The shares to move to, of the same containers.
pub(super) struct Wanted {
    /// The shares that serve the targets with the least change.
    pub(super) least: Shares,
    /// The best shares.
    pub(super) best: Shares,
}

/// A missed target is a reason to move if its share grows by at least this part.
const GAIN: f64 = 0.02;
/// The smallest gain, which is that of one unit of weight.
const MIN_GAIN: Share = Share(1.0 / WEIGHT_SUM as f64);
/// Distance from which on shares are far away, as a part of the whole.
const FAR: Share = Share(0.10);
/// Intervals for which shares must be far away if no target is missed.
const PATIENCE: u32 = 3;
/// Distance up to which shares are close, as a part of the whole.
const CLOSE: Share = Share(0.005);

impl Damper {
    /// Returns the shares in force.
    pub(super) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Returns the share of a container, which is zero for an unknown one.
    pub(super) fn share(&self, key: &str) -> Share {
        self.shares.get(key).copied().unwrap_or_default()
    }

    /// Adopts weights that are in force already, so that a restart changes nothing at first.
    pub(super) fn adopt(&mut self, weights: BTreeMap<String, f64>) {
        self.shares = in_proportion(weights);
    }

    /// Returns whether exactly these containers have shares.
    pub(super) fn has(&self, wanted: &BTreeMap<String, Fair>) -> bool {
        self.shares.len() == wanted.len() && wanted.keys().all(|key| self.shares.contains_key(key))
    }

    /// Begins an interval, in which newcomers can get shares again.
    pub(super) const fn begin_interval(&mut self) {
        self.entered = Share::ZERO;
    }

    /// Adapts the shares after containers came or went.
    ///
    /// The shares of containers that left are divided among the others in proportion. All newcomers
    /// together get at most `step` of the whole in an interval, no matter how many there are and
    /// how many calls add them; later steps raise them to their full shares. The containers present
    /// give up what exceeds their fair parts, the lowest class first.
    pub(super) fn fit(&mut self, fair: &BTreeMap<String, Fair>, step: Share) {
        self.shares.retain(|key, _| fair.contains_key(key));
        let is_first = self.shares.is_empty();
        self.shares = normal(std::mem::take(&mut self.shares));
        let fair = parts_of_one(fair);
        let new = || {
            let entries = fair.iter();
            entries.filter(|(key, _)| !self.shares.contains_key(key.as_str()))
        };
        let wanted: Share = new().map(|(_, fair)| fair.part).sum();
        let new: Shares = new().map(|(key, fair)| (key.clone(), fair.part)).collect();
        if wanted <= Share::ZERO {
            let nothing = new.into_keys().map(|key| (key, Share::ZERO));
            self.shares.extend(nothing);
            return;
        }
        let mut come = wanted;
        if !is_first {
            come = wanted.min((step - self.entered).max(Share::ZERO));
            self.entered += come;
            self.make_room(come, &fair);
        }
        let entered = |(key, part): (String, Share)| (key, Share(part.0 * come.0 / wanted.0));
        self.shares.extend(new.into_iter().map(entered));
    }

    /// Takes `come` from the shares that exceed the fair parts, the lowest class first.
    fn make_room(&mut self, come: Share, fair: &BTreeMap<String, Fair>) {
        let mut classes: Vec<Priority> = fair.values().map(|fair| fair.class).collect();
        classes.sort_unstable();
        classes.dedup();
        let mut left = come;
        for class in classes {
            let over = |key: &String, share: Share| match &fair[key] {
                one if one.class == class => (share - one.part).max(Share::ZERO),
                _ => Share::ZERO,
            };
            let entries = self.shares.iter();
            let all: Share = entries.map(|(key, share)| over(key, *share)).sum();
            if all <= Share::ZERO {
                continue;
            }
            let taken = left.min(all);
            for (key, share) in &mut self.shares {
                *share -= Share(over(key, *share).0 * taken.0 / all.0);
            }
            left -= taken;
        }
    }

    /// Moves towards wanted shares by at most `step` of the whole. `urgent` tells whether a
    /// container misses its target. Returns whether anything moved.
    pub(super) fn step(
        &mut self,
        wanted: Wanted,
        urgent: impl Fn(&str) -> bool,
        step: Share,
    ) -> bool {
        self.moving = self.reason(&wanted, urgent);
        let wanted = match self.moving {
            Some(Reason::Missed) => wanted.least,
            Some(Reason::Better) => wanted.best,
            None => return false,
        };
        let farthest = self.farthest(&wanted);
        if farthest <= Share::ZERO {
            return false;
        }
        let part = (step / farthest).min(1.0);
        for (key, wanted) in wanted {
            let share = self.shares.entry(key).or_default();
            *share += (wanted - *share) * part;
        }
        true
    }

    /// Returns the reason to move shares in this interval, if there is one.
    fn reason(&mut self, wanted: &Wanted, urgent: impl Fn(&str) -> bool) -> Option<Reason> {
        let gains = wanted.least.iter().any(|(key, wanted)| {
            let now = self.share(key);
            urgent(key) && *wanted - now > (now * GAIN).max(MIN_GAIN)
        });
        // With many containers, each can be near while the sum of the distances is large.
        let ways: Share = self.ways(&wanted.best).sum();
        self.far = if ways / 2.0 > FAR { self.far + 1 } else { 0 };
        match self.moving {
            _ if gains => Some(Reason::Missed),
            Some(Reason::Missed) if self.farthest(&wanted.least) > CLOSE => Some(Reason::Missed),
            Some(Reason::Better) if self.farthest(&wanted.best) > CLOSE => Some(Reason::Better),
            _ if self.far >= PATIENCE => Some(Reason::Better),
            _ => None,
        }
    }

    /// Returns the distance of each share from the wanted one.
    fn ways(&self, wanted: &Shares) -> impl Iterator<Item = Share> {
        let way = |(key, wanted): (&String, &Share)| Share((*wanted - self.share(key)).0.abs());
        wanted.iter().map(way)
    }

    /// Returns the largest distance of a share from the wanted one.
    fn farthest(&self, wanted: &Shares) -> Share {
        self.ways(wanted).fold(Share::ZERO, Share::max)
    }

    /// Returns integer weights whose sum is [`WEIGHT_SUM`]. The shares are parts of `budget`, and
    /// others have `fixed` parts of the whole. The weight is 0 only for a fixed part of 0.
    pub(super) fn weights(&self, budget: Share, fixed: Shares) -> BTreeMap<String, u32> {
        let entries = self.shares.iter();
        let ours = entries.map(|(key, share)| (key.clone(), *share * budget));
        let rounded = normal(ours.chain(fixed).collect())
            .into_iter()
            .map(|(key, part)| {
                // With weight 0 nothing is cached, which only the file may decide.
                let is_some = part > Share::ZERO || self.shares.contains_key(&key);
                Rounded::of(key, part, u32::from(is_some))
            })
            .collect();
        let weights = with_sum(rounded).into_iter();
        weights.map(|one| (one.key, one.weight)).collect()
    }
}

/// A share that was rounded to a weight.
struct Rounded {
    key: String,
    weight: u32,
    /// The part that rounding removed.
    lost: f64,
}

impl Rounded {
    /// Rounds down, but not below `least`.
    fn of(key: String, part: Share, least: u32) -> Self {
        let exact = part.0 * f64::from(WEIGHT_SUM);
        let weight = (exact as u32).clamp(least, WEIGHT_SUM);
        Self {
            key,
            weight,
            lost: exact - f64::from(weight),
        }
    }
}

/// Makes the sum of the weights [`WEIGHT_SUM`] by the method of largest remainders. Missing units
/// go to the weights that lost most by rounding down. Surplus units, which rounding up the smallest
/// weights has added, are taken from the largest weights.
fn with_sum(mut weights: Vec<Rounded>) -> Vec<Rounded> {
    let given: i64 = weights.iter().map(|one| i64::from(one.weight)).sum();
    let mut off = i64::from(WEIGHT_SUM) - given;
    weights.sort_by(|a, b| b.lost.total_cmp(&a.lost).then_with(|| a.key.cmp(&b.key)));
    for one in weights.iter_mut().filter(|one| one.weight > 0) {
        if off > 0 {
            one.weight += 1;
            off -= 1;
        }
    }
    weights.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.key.cmp(&b.key)));
    while off < 0 {
        let before = off;
        for one in weights.iter_mut().filter(|one| one.weight > 1) {
            if off < 0 {
                one.weight -= 1;
                off += 1;
            }
        }
        if off == before {
            break;
        }
    }
    weights
}

/// Returns the fair parts, scaled so that their sum is 1.
fn parts_of_one(fair: &BTreeMap<String, Fair>) -> BTreeMap<String, Fair> {
    let parts = fair.iter().map(|(key, fair)| (key.clone(), fair.part));
    let scaled = normal(parts.collect()).into_iter().zip(fair.values());
    let entry = |((key, part), fair): ((String, Share), &Fair)| {
        let class = fair.class;
        (key, Fair { part, class })
    };
    scaled.map(entry).collect()
}

/// Scales shares so that their sum is 1.
fn normal(shares: Shares) -> Shares {
    let parts = shares.into_iter();
    in_proportion(parts.map(|(key, share)| (key, share.0)).collect())
}

/// Returns shares in proportion to weights or sizes, and equal ones if all of these are 0.
pub(super) fn in_proportion(parts: BTreeMap<String, f64>) -> Shares {
    let sum: f64 = parts.values().sum();
    let equal = 1.0 / parts.len().max(1) as f64;
    let share = |part: f64| Share(if sum > 0.0 { part / sum } else { equal });
    let parts = parts.into_iter();
    parts.map(|(key, part)| (key, share(part))).collect()
}

#[cfg(test)]
mod tests {
    mod bounds;

    use super::*;
    use proptest::prelude::*;

    fn parts(parts: &[f64]) -> BTreeMap<String, f64> {
        let entry = |(at, part): (usize, &f64)| (format!("/{at}"), *part);
        parts.iter().enumerate().map(entry).collect()
    }

    fn fair(given: &[f64]) -> BTreeMap<String, Fair> {
        let class = Priority::SILVER;
        let entry = |(key, part)| {
            let part = Share(part);
            (key, Fair { part, class })
        };
        parts(given).into_iter().map(entry).collect()
    }

    fn damper(start: &[f64]) -> Damper {
        let mut damper = Damper::default();
        damper.adopt(parts(start));
        damper
    }

    fn wanted(given: &[f64]) -> Wanted {
        Wanted {
            least: in_proportion(parts(given)),
            best: in_proportion(parts(given)),
        }
    }

    #[test]
    fn steps_are_bounded_and_end() {
        let mut damper = damper(&[0.1, 0.9]);
        let mut steps = 0;
        loop {
            let before = damper.share("/0").0;
            if !damper.step(wanted(&[0.8, 0.2]), |key| key == "/0", Share(0.15)) {
                break;
            }
            assert!(damper.share("/0").0 - before <= 0.15 + 1e-9);
            steps += 1;
        }
        assert_eq!(steps, 5);
        assert!((damper.share("/0").0 - 0.8).abs() < 0.01);
    }

    #[test]
    fn small_differences_move_no_shares() {
        let mut damper = damper(&[0.5, 0.5]);
        for _ in 0..20 {
            assert!(!damper.step(wanted(&[0.55, 0.45]), |_| false, Share(0.15)));
        }
        for round in 0..3 {
            let moved = damper.step(wanted(&[0.8, 0.2]), |_| false, Share(0.15));
            assert_eq!(moved, round == 2);
        }
    }

    #[test]
    fn remaining_containers_keep_proportions() {
        let mut damper = damper(&[0.6, 0.3, 0.1]);
        damper.fit(&fair(&[1.0, 1.0]), Share(0.5));
        assert!((damper.share("/0").0 / damper.share("/1").0 - 2.0).abs() < 1e-9);
        damper.fit(&fair(&[1.0, 1.0, 2.0]), Share(0.5));
        assert!((damper.share("/2").0 - 0.5).abs() < 1e-9);
    }

    #[test]
    fn newcomers_get_one_step_however_they_come() {
        let mut damper = damper(&[0.95, 0.05]);
        let mut parts = vec![1.0, 1.0];
        for _ in 0..100 {
            parts.push(1.0);
            damper.fit(&fair(&parts), Share(0.2));
        }
        assert!((damper.share("/0").0 - 0.75).abs() < 1e-9);
        // The next interval admits others.
        damper.begin_interval();
        parts.push(1.0);
        damper.fit(&fair(&parts), Share(0.2));
        assert!(damper.share("/0").0 < 0.75);
        // Containers that end and start again move no more than that.
        for _ in 0..100 {
            damper.fit(&fair(&[1.0]), Share(0.2));
            damper.fit(&fair(&[1.0, 1.0]), Share(0.2));
        }
        assert!(damper.share("/0").0 >= 0.8 - 1e-9);
    }

    #[test]
    fn lower_classes_make_room_first() {
        let mut damper = damper(&[0.6, 0.4]);
        let class = |class, part| Fair {
            class,
            part: Share(part),
        };
        let mut all: BTreeMap<String, Fair> = BTreeMap::new();
        all.insert("/0".into(), class(Priority::GOLD, 1.0));
        all.insert("/1".into(), class(Priority::BRONZE, 1.0));
        all.insert("/2".into(), class(Priority::BRONZE, 1.0));
        damper.fit(&all, Share(0.1));
        // The bronze container has 0.4 - 1/3 more than its fair part; gold gives the rest.
        assert!((damper.share("/1").0 - 1.0 / 3.0).abs() < 1e-9);
        assert!((damper.share("/0").0 - (0.6 - 0.1 + 0.4 - 1.0 / 3.0)).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn weights_have_one_sum(given in prop::collection::vec(0.0..1.0f64, 1..1023)) {
            let weights = damper(&given).weights(Share::ALL, Shares::new());
            prop_assert_eq!(weights.len(), given.len());
            prop_assert_eq!(weights.values().sum::<u32>(), WEIGHT_SUM);
            prop_assert!(weights.values().all(|weight| (1..=WEIGHT_SUM).contains(weight)));
        }
    }
}
