// SPDX-License-Identifier: GPL-2.0-only

//! Finds out whether the store helps a container that misses its target.
//!
//! A target can be missed for reasons that no share of the store removes: the processor is the
//! bottleneck, fewer requests come than were promised, or an exporter is wrong. The estimated need
//! of such a container would grow without bound, at the cost of containers that the store does
//! help. If a container misses its target with the largest share that it can get, its figures with
//! two shares are therefore compared, of which one is twice the other. If it never had two such
//! shares, its share is halved for the comparison. If the figures do not differ, it keeps the
//! smallest share with the same figure, and a larger share is tried from time to time.

use super::{
    quantity::Pages,
    response::{Plateau, Response},
};

/// The current belief about a container.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Belief {
    /// A larger share helps, as far as is known.
    #[default]
    Helps,
    /// Half of `from` pages is being tried, for `looks` measurements by now.
    TriesLess { from: Pages, looks: u32 },
    /// A larger share makes no difference. The container keeps `keeps` pages, and more is tried
    /// after `rest` measurements.
    NoHelp { keeps: Pages, rest: u32 },
    /// More than it keeps is being tried: up to `limit` pages, for `left` more measurements.
    TriesMore {
        keeps: Pages,
        limit: Pages,
        left: u32,
    },
}

/// Watches a container whose target is missed.
#[derive(Clone, Debug, Default)]
pub(super) struct Help {
    pub(super) belief: Belief,
    /// Consecutive measurements with the target missed and the share unchanged.
    stuck: u32,
    /// The entitlement at the last measurement.
    entitled: Pages,
    /// Consecutive trials that made no difference.
    trials: u32,
    /// The gain beyond the share that the curve promised when the share was found to make no
    /// difference.
    promise: f64,
}

/// The state of a container at a measurement.
pub(super) struct Snapshot<'a> {
    pub(super) misses_target: bool,
    pub(super) response: &'a Response,
    /// Its entitlement, and the pages that it holds.
    pub(super) entitled: Pages,
    pub(super) used: Pages,
    /// The VM's entitlement.
    pub(super) pages: Pages,
    /// The most pages that move in an interval.
    pub(super) step: Pages,
    /// Returns the gain of the hit ratio from a size to all pages, by the curve.
    pub(super) gain: &'a dyn Fn(Pages) -> f64,
    /// Whether another container misses its target, and this one's share is a reason for it.
    pub(super) contended: bool,
    /// Whether a smaller share may be tried, which is done for one container at a time.
    pub(super) turn: bool,
}

/// A share that changes by a smaller part counts as unchanged.
const STAYS: f64 = 0.02;
/// Measurements at a share before it is doubted. Until then the container may still fill it.
const STUCK: u32 = 6;
/// The most measurements of a trial, because figures come late and steps are bounded.
const TRIAL: u32 = 10;
/// Measurements between two trials of a larger share. The number doubles after each trial that made
/// no difference.
const PAUSE: u32 = 60;
const MAX_REST: u32 = 720;
const MAX_DOUBLINGS: u32 = 6;
/// The most steps by which a share is raised in a trial, because other containers need the pages.
const MAX_STEPS: f64 = 2.0;
/// The additional gain that a curve must promise for an early trial, as a part of the reads.
const PROMISE: f64 = 0.1;
/// A trial of a smaller share counts if the share became this much smaller.
const GAVE: f64 = 0.9;
/// Factor between two shares from which on they can be compared.
const SPAN: f64 = 1.9;
/// The same if a smaller share is known to be worse, so that the plateau begins between them.
const EDGE_SPAN: f64 = 1.3;

impl Plateau {
    /// Returns whether the plateau is long enough to conclude that a larger share makes no
    /// difference.
    fn is_conclusive(&self) -> bool {
        let span = if self.is_edge { EDGE_SPAN } else { SPAN };
        self.end >= self.start * span
    }
}

impl Help {
    /// Handles a measurement. Returns whether the kind of belief has changed.
    pub(super) fn observe(&mut self, now: &Snapshot<'_>) -> bool {
        let before = self.belief;
        let moved = Pages((now.entitled - self.entitled).0.abs());
        let stays = moved <= self.entitled * STAYS;
        self.stuck = if stays && now.misses_target && now.contended {
            self.stuck + 1
        } else {
            0
        };
        self.entitled = now.entitled;
        self.belief = if now.misses_target {
            self.doubt(now)
        } else {
            self.trials = 0;
            Belief::Helps
        };
        std::mem::discriminant(&before) != std::mem::discriminant(&self.belief)
    }

    /// Returns the belief after a measurement at which the target is missed.
    fn doubt(&mut self, now: &Snapshot<'_>) -> Belief {
        match self.belief {
            Belief::Helps => self.helps(now),
            Belief::TriesLess { from, looks } => self.tries_less(from, looks, now),
            Belief::NoHelp { keeps, rest } => self.rests(keeps, rest, now),
            Belief::TriesMore { keeps, limit, left } => self.tries_more(keeps, limit, left, now),
        }
    }

    /// Continues [`Belief::Helps`], until the target has been missed at one share for long.
    fn helps(&mut self, now: &Snapshot<'_>) -> Belief {
        if self.stuck < STUCK << self.trials.min(MAX_DOUBLINGS) {
            return Belief::Helps;
        }
        match now.response.plateau() {
            Some(flat) if flat.is_conclusive() => self.no_help(flat.start, now),
            // Smaller shares are known to be worse.
            Some(flat) if flat.is_edge => Belief::Helps,
            Some(_) if now.turn => Belief::TriesLess {
                from: now.used,
                looks: 0,
            },
            _ => Belief::Helps,
        }
    }

    /// Continues [`Belief::TriesLess`].
    fn tries_less(&mut self, from: Pages, looks: u32, now: &Snapshot<'_>) -> Belief {
        match now.response.plateau() {
            Some(flat) if flat.is_conclusive() => self.no_help(flat.start, now),
            // The trial has lasted long enough at a clearly smaller share, and the cost has not
            // changed.
            Some(flat) if !flat.is_edge && looks >= TRIAL && flat.start < from * GAVE => {
                self.no_help(flat.start, now)
            }
            flat if flat.as_ref().is_none_or(|flat| !flat.is_edge) && looks < TRIAL => {
                let looks = looks + 1;
                Belief::TriesLess { from, looks }
            }
            // A smaller share is worse, or the trial has freed too few pages for the others.
            _ => {
                self.stuck = 0;
                self.trials += 1;
                Belief::Helps
            }
        }
    }

    /// Continues [`Belief::NoHelp`]: a larger share is tried after `rest` measurements, or if the
    /// curve promises a gain.
    fn rests(&mut self, keeps: Pages, rest: u32, now: &Snapshot<'_>) -> Belief {
        let flat = now.response.plateau().map_or(keeps, |flat| flat.start);
        let keeps = keeps.min(flat);
        let promises = (now.gain)(keeps) > self.promise + PROMISE;
        if rest == 0 || promises {
            let reach = now.step * f64::from(self.trials + 1).min(MAX_STEPS);
            self.promise = (now.gain)(keeps).max(self.promise);
            return Belief::TriesMore {
                keeps,
                limit: if promises { now.pages } else { keeps + reach },
                left: TRIAL,
            };
        }
        let rest = rest - 1;
        Belief::NoHelp { keeps, rest }
    }

    /// Continues [`Belief::TriesMore`].
    fn tries_more(&mut self, keeps: Pages, limit: Pages, left: u32, now: &Snapshot<'_>) -> Belief {
        if now.response.is_better_than(keeps) {
            self.trials = 0;
            self.stuck = 0;
            return Belief::Helps;
        }
        if left == 0 {
            self.trials += 1;
            return self.no_help(keeps, now);
        }
        let left = left - 1;
        Belief::TriesMore { keeps, limit, left }
    }

    fn no_help(&mut self, keeps: Pages, now: &Snapshot<'_>) -> Belief {
        self.promise = (now.gain)(keeps);
        Belief::NoHelp {
            keeps,
            rest: (PAUSE << self.trials.min(MAX_DOUBLINGS)).min(MAX_REST),
        }
    }

    /// Returns the pages to give for a target whose estimated need is `needs`.
    pub(super) fn pages(&self, response: &Response, needs: Pages) -> Pages {
        match self.belief {
            Belief::Helps => needs,
            Belief::TriesLess { from, .. } => from / 2.0,
            Belief::NoHelp { keeps, .. } if response.is_edge(keeps) => needs.min(keeps),
            // The share is halved until that makes a difference.
            Belief::NoHelp { keeps, .. } => needs.min(keeps / 2.0),
            Belief::TriesMore { limit, .. } => needs.min(limit),
        }
    }
}
