// SPDX-License-Identifier: GPL-2.0-only

//! Whether the store helps a container that misses its target.
//!
//! A target may be missed for reasons that no share of the store removes: the processor is the
//! bound, fewer requests come than were promised, an exporter is wrong. What such a container is
//! believed to need grows without end, at the cost of those that the store does help. So a
//! container that misses its target with all it can get is compared with itself: with twice the
//! share, or with half of it if no two such shares were seen. If that makes no difference, it keeps
//! the smallest share of equal cost, and more is tried for it now and then.

use super::{
    quantity::Pages,
    response::{Plateau, Response},
};

/// What is believed of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Belief {
    /// A larger share helps, as far as is known.
    #[default]
    Helps,
    /// Half of so many pages is tried.
    TriesLess { from: Pages, looks: u32 },
    /// A larger share makes no difference to this many pages; more is tried after so many looks.
    NoHelp { keeps: Pages, rest: u32 },
    /// More than what it keeps is tried: up to so many pages, for so many looks.
    TriesMore {
        keeps: Pages,
        most: Pages,
        left: u32,
    },
}

/// Watches a container whose target is missed.
#[derive(Clone, Debug, Default)]
pub(super) struct Help {
    pub(super) belief: Belief,
    /// Looks in a row in which the target was missed and the share stayed.
    stuck: u32,
    /// What it was entitled to at the last look.
    entitled: Pages,
    /// Trials in a row that made no difference.
    trials: u32,
    /// What the curve promised beyond the share when that was found to make no difference.
    promise: f64,
}

/// What a look tells.
pub(super) struct Look<'a> {
    pub(super) misses_target: bool,
    pub(super) response: &'a Response,
    /// What it is entitled to, and holds.
    pub(super) entitled: Pages,
    pub(super) used: Pages,
    /// What the VM is entitled to.
    pub(super) pages: Pages,
    /// The most of that which moves in an interval.
    pub(super) step: Pages,
    /// How much the curve says that the hit ratio gains from a size to all pages.
    pub(super) gain: &'a dyn Fn(Pages) -> f64,
    /// Whether another target is missed, and this container's share is a reason for it.
    pub(super) contended: bool,
    /// Whether it may be tried with less: one container at a time.
    pub(super) turn: bool,
}

/// A share that changes by less stays.
const STAYS: f64 = 0.02;
/// So long at a share before it is doubted: until then it may still be growing.
const STUCK: u32 = 6;
/// So many looks may a trial take: figures come late, and steps are bounded.
const TRIAL: u32 = 10;
/// Looks from one trial of more to the next; twice as many after each in vain.
const PAUSE: u32 = 60;
const LONGEST: u32 = 720;
const MOST_DOUBLINGS: u32 = 6;
/// So many steps more are tried at most: the others need what is left.
const MOST_STEPS: f64 = 2.0;
/// What a curve must promise more than before for a trial out of turn, as a part of the reads.
const PROMISE: f64 = 0.1;
/// A share that was tried with less is that much smaller, if anything was taken from it.
const GAVE: f64 = 0.9;
/// Shares differ enough to compare if one is so many times the other,
const SPAN: f64 = 1.9;
/// or so many times if a smaller one is known to be worse: there the plateau begins.
const EDGE_SPAN: f64 = 1.3;

impl Plateau {
    /// Whether it is long enough to say that a larger share makes no difference.
    fn tells(&self) -> bool {
        let span = if self.is_edge { EDGE_SPAN } else { SPAN };
        self.end >= self.start * span
    }
}

impl Help {
    /// Takes in a look. Returns whether the belief became another kind of belief.
    pub(super) fn observe(&mut self, look: &Look<'_>) -> bool {
        let before = self.belief;
        let moved = Pages((look.entitled - self.entitled).0.abs());
        let stays = moved <= self.entitled * STAYS;
        self.stuck = if stays && look.misses_target && look.contended {
            self.stuck + 1
        } else {
            0
        };
        self.entitled = look.entitled;
        self.belief = if look.misses_target {
            self.doubt(look)
        } else {
            self.trials = 0;
            Belief::Helps
        };
        std::mem::discriminant(&before) != std::mem::discriminant(&self.belief)
    }

    /// What is believed after a look at which the target is missed.
    fn doubt(&mut self, look: &Look<'_>) -> Belief {
        match self.belief {
            Belief::Helps => self.helps(look),
            Belief::TriesLess { from, looks } => self.tries_less(from, looks, look),
            Belief::NoHelp { keeps, rest } => self.rests(keeps, rest, look),
            Belief::TriesMore { keeps, most, left } => self.tries_more(keeps, most, left, look),
        }
    }

    /// The store is believed to help, until the target is missed at one share for long.
    fn helps(&mut self, look: &Look<'_>) -> Belief {
        if self.stuck < STUCK << self.trials.min(MOST_DOUBLINGS) {
            return Belief::Helps;
        }
        match look.response.plateau() {
            Some(flat) if flat.tells() => self.no_help(flat.start, look),
            // Smaller sizes are known to be worse.
            Some(flat) if flat.is_edge => Belief::Helps,
            Some(_) if look.turn => Belief::TriesLess {
                from: look.used,
                looks: 0,
            },
            _ => Belief::Helps,
        }
    }

    /// Half of what it held is tried, for so many looks by now.
    fn tries_less(&mut self, from: Pages, looks: u32, look: &Look<'_>) -> Belief {
        match look.response.plateau() {
            Some(flat) if flat.tells() => self.no_help(flat.start, look),
            // It has given all that the others lack, and nothing changed.
            Some(flat) if !flat.is_edge && looks >= TRIAL && flat.start < from * GAVE => {
                self.no_help(flat.start, look)
            }
            flat if flat.as_ref().is_none_or(|flat| !flat.is_edge) && looks < TRIAL => {
                let looks = looks + 1;
                Belief::TriesLess { from, looks }
            }
            // It does help, or the others gain nothing by it.
            _ => {
                self.stuck = 0;
                self.trials += 1;
                Belief::Helps
            }
        }
    }

    /// A larger share makes no difference, and more is not tried before so many looks unless the
    /// curve promises it.
    fn rests(&mut self, keeps: Pages, rest: u32, look: &Look<'_>) -> Belief {
        let flat = look.response.plateau().map_or(keeps, |flat| flat.start);
        let keeps = keeps.min(flat);
        let promises = (look.gain)(keeps) > self.promise + PROMISE;
        if rest == 0 || promises {
            let reach = look.step * f64::from(self.trials + 1).min(MOST_STEPS);
            self.promise = (look.gain)(keeps).max(self.promise);
            return Belief::TriesMore {
                keeps,
                most: if promises { look.pages } else { keeps + reach },
                left: TRIAL,
            };
        }
        let rest = rest - 1;
        Belief::NoHelp { keeps, rest }
    }

    /// More than it keeps is tried, for so many looks still.
    fn tries_more(&mut self, keeps: Pages, most: Pages, left: u32, look: &Look<'_>) -> Belief {
        if look.response.is_better_than(keeps) {
            self.trials = 0;
            self.stuck = 0;
            return Belief::Helps;
        }
        if left == 0 {
            self.trials += 1;
            return self.no_help(keeps, look);
        }
        let left = left - 1;
        Belief::TriesMore { keeps, most, left }
    }

    fn no_help(&mut self, keeps: Pages, look: &Look<'_>) -> Belief {
        self.promise = (look.gain)(keeps);
        Belief::NoHelp {
            keeps,
            rest: (PAUSE << self.trials.min(MOST_DOUBLINGS)).min(LONGEST),
        }
    }

    /// Returns what it is given for a target, where so much is believed to be needed.
    pub(super) fn pages(&self, response: &Response, needs: Pages) -> Pages {
        match self.belief {
            Belief::Helps => needs,
            Belief::TriesLess { from, .. } => from / 2.0,
            Belief::NoHelp { keeps, .. } if response.is_edge(keeps) => needs.min(keeps),
            // Less is tried until it makes a difference.
            Belief::NoHelp { keeps, .. } => needs.min(keeps / 2.0),
            Belief::TriesMore { most, .. } => needs.min(most),
        }
    }
}
