// SPDX-License-Identifier: GPL-2.0-only

//! What is known of one container whose share is decided.

use super::{
    Time,
    character::{Character, Observer},
    curve::Curve,
    goal::{self, Goal},
    help::{Belief, Help, Look},
    quantity::{Cost, Pages},
    rates::{Last, Rates},
    read_time::ReadTimes,
    response::Response,
    sample::Reading,
};
use crate::config::{Container, Figure};
use ddabi::pool::PoolStats;

/// What is known of one container.
#[derive(Debug, Default)]
pub(super) struct Member {
    last: Option<Last>,
    /// Since the look before; absent if that says nothing.
    pub(super) rates: Option<Rates>,
    observer: Observer,
    pub(super) goals: Vec<Goal>,
    /// The worst goal's cost at the last look, if all were measured.
    pub(super) cost: Option<Cost>,
    pub(super) response: Response,
    pub(super) curve: Option<Curve>,
    /// What it held of the memory tier, and was entitled to, at the last look.
    pub(super) used: Option<Pages>,
    entitled: Pages,
    /// Looks in a row in which it held less than it may, and did not fill up.
    idle: u32,
    /// Looks in a row at rest.
    quiet: u32,
    /// The largest size that was seen at rest to be too small. Outlives what is known otherwise, so
    /// that a mistake is not made again and again.
    missed: Option<Pages>,
    /// Pages a second that come back, over some looks.
    wanted: f64,
    /// How many of them the store does not give, over the size: a cost of 0 is one a second.
    misses: Response,
    pub(super) reading: Reading,
    /// What pages cost in each tier and on disk.
    pub(super) times: ReadTimes,
    help: Help,
    /// Less is asked of it than its target, and it waits for nothing.
    pub(super) is_unasked: bool,
}

/// The size changes if it differs by more than this, as a logarithm.
const MOVING: f64 = 0.08;
/// A store filled less than this is not what it lacks.
const FULL: f64 = 0.8;
/// So long before it is believed.
const IDLE: u32 = 4;
/// So long at rest before a size is held to be too small: figures may come late.
const QUIET: u32 = 2;
/// Far enough below its target to try smaller sizes again, in time.
const COMFORT: Cost = Cost(-0.1);
/// What is left of a size that was too small after another look in comfort.
const FORGET: f64 = 0.995;
/// The power by which costs fall with size, at most.
const STEEPEST: f64 = 1.5;
/// A little more than what was too small.
const MORE: f64 = 1.03;
/// Misses a second that are none.
const FEWEST: f64 = 0.1;
/// Percent of time in which a task waits, that are none.
const NO_WAITING: f64 = 0.5;
/// What a throughput counts for that is not asked for: met, by not much.
const UNASKED: Cost = Cost(-0.05);
/// Weight of a look in averages.
const NEW: f64 = 0.25;

impl Member {
    /// Takes in a look at the container and its pool.
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

    /// Takes in what a size costs. Figures lag behind the store: on the way down the larger size is
    /// taken for what gave them.
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
            // So much better than there a size not so much larger can only be if the load changed.
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

    /// Whether a larger store can help.
    pub(super) fn store_helps(&self) -> bool {
        self.character() != Character::Anonymous
    }

    /// Whether it does not fill the store it may have.
    pub(super) const fn is_saturated(&self) -> bool {
        self.idle >= IDLE
    }

    /// Whether its target is missed, by the last look and by what is known of this size.
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

    /// Whether its target is missed by what is known of this size: one look may err.
    pub(super) fn is_too_small(&self) -> bool {
        let known = self.used.filter(|_| !self.response.is_empty());
        let cost = known.map_or(self.cost, |used| Some(self.response.cost_at(used)));
        self.store_helps() && self.cost.is_some() && cost > Some(Cost::TARGET)
    }

    /// Pages a second that come back, over some looks.
    pub(super) const fn wanted(&self) -> f64 {
        self.wanted
    }

    /// Misses a second to be expected at a size.
    pub(super) fn misses_at(&self, size: Pages) -> f64 {
        match &self.curve {
            Some(curve) => self.wanted * (1.0 - curve.hit_ratio(size)),
            None if self.misses.is_empty() => 0.0,
            None => self.misses.cost_at(size).times(),
        }
    }

    /// What it should keep while no container misses a target: more than what was too small.
    pub(super) fn keeps(&self) -> Pages {
        self.missed.map_or(Pages::ZERO, |missed| missed * MORE)
    }

    /// The size at which a cost is to be expected; what it has if nothing tells.
    pub(super) fn size_for(&self, cost: Cost, has: Pages) -> Pages {
        // What was seen at two sizes or more is believed before what was estimated.
        let seen = self.response.size_for(cost);
        let size = match (seen, self.size_by_curve(cost)) {
            (Some(seen), Some(curve)) if self.response.sizes() < 2 => curve.max(seen.min(has)),
            (Some(seen), _) => seen,
            (None, Some(curve)) => curve,
            (None, None) => has,
        };
        let most = if self.is_saturated() {
            // It would not fill more; a little, in case it begins to.
            self.used.unwrap_or(has) * 1.25
        } else {
            Pages(f64::INFINITY)
        };
        self.help.pages(&self.response, size.min(most))
    }

    /// The size at which the curve reaches a cost, if a hit ratio is all that is promised.
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

    /// What it is entitled to.
    pub(super) const fn entitled(&self) -> Pages {
        self.entitled
    }

    pub(super) const fn belief(&self) -> Belief {
        self.help.belief
    }

    /// Finds out whether the store helps, given the VM's pages and the most that move in an
    /// interval. Returns whether something else is believed now.
    pub(super) fn doubt(&mut self, pages: Pages, step: Pages, contended: bool, turn: bool) -> bool {
        let Some(used) = self.used else { return false };
        let curve = self.curve.as_ref();
        let look = Look {
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
        self.help.observe(&look)
    }
}

/// The size between two.
fn midpoint(one: Pages, other: Pages) -> Pages {
    Pages(f64::midpoint(one.0, other.0))
}

/// Whether neither disk nor memory keeps a container from doing more, as far as the kernel tells.
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

    /// That a smaller size is too small as well is no news.
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
        // In comfort it fades, slowly.
        for _ in 0..3 {
            member.learn(Pages(150.0), Pages(150.0), COMFORT * 2.0, false);
        }
        assert!((keeps * 0.98..keeps).contains(&member.keeps()));
    }
}
