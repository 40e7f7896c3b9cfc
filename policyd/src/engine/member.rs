// SPDX-License-Identifier: GPL-2.0-only

//! State of a container whose share the controller decides.

use super::{
    Time,
    character::{Character, Observer},
    curve::Curve,
    goal::{self, Goal},
    help::{Belief, Help, Snapshot},
    quantity::{Cost, Pages},
    rates::{Last, Rates},
    read_time::ReadTimes,
    response::Response,
    sample::Reading,
};
use crate::config::{Container, Figure};
use ddabi::pool::PoolStats;

/// State of a container.
#[derive(Debug, Default)]
pub(super) struct Member {
    last: Option<Last>,
    /// Rates since the previous measurement, if they are meaningful.
    pub(super) rates: Option<Rates>,
    observer: Observer,
    pub(super) goals: Vec<Goal>,
    /// The worst goal's cost at the last measurement, if all were measured.
    pub(super) cost: Option<Cost>,
    pub(super) response: Response,
    pub(super) curve: Option<Curve>,
    /// The pages of the memory tier that it held at the last measurement, and its entitlement.
    pub(super) used: Option<Pages>,
    entitled: Pages,
    /// Consecutive measurements in which it held less than its entitlement and did not grow.
    idle: u32,
    /// Consecutive measurements with an unchanged size.
    quiet: u32,
    /// The largest size that was found to be too small while it was unchanged. It is kept when
    /// other knowledge is discarded, so that a mistake is not repeated.
    missed: Option<Pages>,
    /// Refaults a second, averaged over some measurements.
    wanted: f64,
    /// The refaults that the store does not serve, as a function of the size. A cost of 0 is one a
    /// second.
    misses: Response,
    pub(super) reading: Reading,
    /// Times to read a page in each tier and from disk.
    pub(super) times: ReadTimes,
    help: Help,
    /// Set if its load is below its target, and it waits for nothing.
    pub(super) is_unasked: bool,
}

/// The size counts as changing if the logarithm of its ratio exceeds this.
const MOVING: f64 = 0.08;
/// A container that fills a smaller part of its share does not lack pages.
const FULL: f64 = 0.8;
/// Number of measurements after which it is concluded that a container does not lack pages.
const IDLE: u32 = 4;
/// Measurements with an unchanged size before it is held to be too small, because figures can come
/// late.
const QUIET: u32 = 2;
/// Cost from which on smaller sizes are tried again after some time.
const COMFORT: Cost = Cost(-0.1);
/// Factor by which the remembered size that was too small decays at each measurement with such a
/// cost.
const FORGET: f64 = 0.995;
/// The largest power by which costs fall with the size.
const STEEPEST: f64 = 1.5;
/// Factor by which a size exceeds the one that was too small.
const MORE: f64 = 1.03;
/// Misses a second that count as none.
const FEWEST: f64 = 0.1;
/// Pressure in percent of time that counts as none.
const NO_WAITING: f64 = 0.5;
/// Cost of a throughput that is not asked for: the target counts as just met.
const UNASKED: Cost = Cost(-0.05);
/// Weight of a measurement in averages.
const NEW: f64 = 0.25;

impl Member {
    /// Handles a measurement of the container and its pool.
    pub(super) fn observe(
        &mut self,
        now: Time,
        container: &Container,
        reading: &Reading,
        stats: Option<PoolStats>,
    ) {
        let next = Last::new(now, reading.clone(), stats);
        self.rates = self.last.as_ref().and_then(|last| last.rates(&next));
        self.last = Some(next);
        self.reading = reading.clone();
        if reading.curve.is_some() {
            self.curve.clone_from(&reading.curve);
        }
        self.goals = match &container.target {
            Some(target) => goal::of(target, reading, self.rates.as_ref()),
            None => Vec::new(),
        };
        self.cost = goal::worst(&self.goals);
        self.is_unasked = self.rates.as_ref().is_some_and(|rates| {
            self.cost > Some(Cost::TARGET)
                && goal::misses_only(&self.goals, Figure::Throughput)
                && waits_for_nothing(rates)
        });
        if self.is_unasked {
            self.cost = Some(UNASKED);
        }
        let before = self.used;
        self.used = stats.map(|stats| Pages(stats.memory_used() as f64).max(Pages(1.0)));
        let Some(rates) = &self.rates else { return };
        self.observer.observe(reading, rates);
        self.times.observe(rates);
        self.wanted += (rates.wanted - self.wanted) * NEW;
        let (Some(before), Some(used), Some(stats)) = (before, self.used, stats) else {
            return;
        };
        let moving = used.ln_over(before).abs() > MOVING;
        self.entitled = Pages(stats.entitlement as f64);
        let idle = used < self.entitled * FULL && !moving;
        self.idle = if idle { self.idle + 1 } else { 0 };
        self.quiet = if moving { 0 } else { self.quiet + 1 };
        let misses = Cost::of_times(rates.misses().max(FEWEST));
        self.misses.observe(midpoint(before, used), misses, moving);
        if let Some(cost) = self.cost {
            self.learn(before, used, cost, moving);
        }
    }

    /// Learns the cost of a size. Figures lag behind the store, so that they are attributed to the
    /// larger size while it shrinks.
    fn learn(&mut self, before: Pages, used: Pages, cost: Cost, moving: bool) {
        let size = if used < before {
            before
        } else {
            midpoint(before, used)
        };
        if self.response.observe(size, cost, moving) {
            self.missed = None;
        }
        if self.quiet < QUIET {
            return;
        }
        match &mut self.missed {
            missed if self.response.cost_at(size) > Cost::TARGET => {
                *missed = Some(missed.unwrap_or_default().max(used));
            }
            Some(missed) if cost < Cost::TARGET && used * MORE <= *missed => self.missed = None,
            // If the cost is lower than a size that is at most a little larger can explain, the
            // load has changed.
            Some(missed) if cost < COMFORT - Cost(STEEPEST * used.ln_over(*missed).max(0.0)) => {
                self.missed = None;
            }
            Some(missed) if cost < COMFORT => *missed = *missed * FORGET,
            _ => {}
        }
    }

    pub(super) const fn character(&self) -> Character {
        self.observer.character()
    }

    /// Returns whether a larger share can help.
    pub(super) fn store_helps(&self) -> bool {
        self.character() != Character::Anonymous
    }

    /// Returns whether it does not fill its share.
    pub(super) const fn is_saturated(&self) -> bool {
        self.idle >= IDLE
    }

    /// Returns whether its target is missed, by the last measurement and by the known costs of this
    /// size.
    pub(super) fn misses_target(&self) -> bool {
        match (self.cost, self.used) {
            (Some(cost), Some(used)) => {
                let known = !self.response.is_empty();
                cost > Cost::TARGET && (!known || self.response.cost_at(used) > Cost::TARGET)
            }
            (Some(cost), None) => cost > Cost::TARGET,
            _ => false,
        }
    }

    /// Returns whether its target is missed by the known costs of this size. A single measurement
    /// can err.
    pub(super) fn is_too_small(&self) -> bool {
        let known = self.used.filter(|_| !self.response.is_empty());
        let cost = known.map_or(self.cost, |used| Some(self.response.cost_at(used)));
        self.store_helps() && self.cost.is_some() && cost > Some(Cost::TARGET)
    }

    /// Returns refaults a second, averaged over some measurements.
    pub(super) const fn wanted(&self) -> f64 {
        self.wanted
    }

    /// Returns the expected misses a second at a size.
    pub(super) fn misses_at(&self, size: Pages) -> f64 {
        match &self.curve {
            Some(curve) => self.wanted * (1.0 - curve.hit_ratio(size)),
            None if self.misses.is_empty() => 0.0,
            None => self.misses.cost_at(size).times(),
        }
    }

    /// Returns the size to keep while no container misses a target: more than the one that was too
    /// small.
    pub(super) fn keeps(&self) -> Pages {
        self.missed.map_or(Pages::ZERO, |missed| missed * MORE)
    }

    /// Returns the size at which a cost is expected, or `has` if nothing is known.
    pub(super) fn size_for(&self, cost: Cost, has: Pages) -> Pages {
        // Costs that were measured at two sizes or more are preferred to the estimate.
        let seen = self.response.size_for(cost);
        let size = match (seen, self.size_by_curve(cost)) {
            (Some(seen), Some(curve)) if self.response.sizes() < 2 => curve.max(seen.min(has)),
            (Some(seen), _) => seen,
            (None, Some(curve)) => curve,
            (None, None) => has,
        };
        let most = if self.is_saturated() {
            // It would not fill a larger share. It gets a little more than it holds, in case it
            // begins to grow.
            self.used.unwrap_or(has) * 1.25
        } else {
            Pages(f64::INFINITY)
        };
        self.help.pages(&self.response, size.min(most))
    }

    /// Returns the size at which the curve reaches a cost, if the target is only a hit ratio.
    fn size_by_curve(&self, cost: Cost) -> Option<Pages> {
        let [goal] = self.goals.as_slice() else {
            return None;
        };
        let curve = self.curve.as_ref()?;
        let misses = (1.0 - goal.target) * cost.times();
        (goal.figure == Figure::HitRatio)
            .then(|| curve.size_for((1.0 - misses).clamp(0.0, 1.0)))
            .map(|size| size.unwrap_or(Pages(f64::INFINITY)))
    }

    /// Returns its entitlement.
    pub(super) const fn entitled(&self) -> Pages {
        self.entitled
    }

    pub(super) const fn belief(&self) -> Belief {
        self.help.belief
    }

    /// Finds out whether the store helps, given the VM's pages and the most that move in an
    /// interval. Returns whether the belief has changed.
    pub(super) fn doubt(&mut self, pages: Pages, step: Pages, contended: bool, turn: bool) -> bool {
        let Some(used) = self.used else { return false };
        let curve = self.curve.as_ref();
        let now = Snapshot {
            misses_target: self.is_too_small(),
            response: &self.response,
            entitled: self.entitled,
            used,
            pages,
            step,
            gain: &|size| curve.map_or(0.0, |curve| curve.gain(size, pages)),
            contended,
            turn,
        };
        self.help.observe(&now)
    }
}

/// Returns the geometric mean of two sizes.
fn midpoint(one: Pages, other: Pages) -> Pages {
    Pages(f64::midpoint(one.0, other.0))
}

/// Returns whether a container waits neither for its disk nor for memory, as far as the kernel
/// tells.
fn waits_for_nothing(rates: &Rates) -> bool {
    let waits = rates.io_pressure.is_none_or(|io| io > NO_WAITING)
        || rates
            .memory_pressure
            .is_some_and(|memory| memory > NO_WAITING);
    !waits && rates.misses() <= FEWEST
}

#[cfg(test)]
mod tests {
    mod waiting;

    use super::*;

    /// A smaller size that is too small as well adds nothing.
    #[test]
    fn the_largest_size_that_was_too_small_is_remembered() {
        let mut member = Member {
            quiet: QUIET,
            ..Member::default()
        };
        member.learn(Pages(100.0), Pages(100.0), Cost(0.3), false);
        let keeps = member.keeps();
        assert!(keeps > Pages(100.0), "{keeps:?}");
        member.learn(Pages(60.0), Pages(60.0), Cost(0.8), false);
        assert_eq!(member.keeps(), keeps);
        // It decays slowly while the target is met well.
        for _ in 0..3 {
            member.learn(Pages(150.0), Pages(150.0), COMFORT * 2.0, false);
        }
        assert!((keeps * 0.98..keeps).contains(&member.keeps()));
    }
}
