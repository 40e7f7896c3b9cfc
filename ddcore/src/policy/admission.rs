// SPDX-License-Identifier: GPL-2.0

//! The guest's half: whether a page that leaves the page cache is put, and in which class.

use super::ghost;
use super::shadow::{Cell, Shadow, Way};
use super::sketch::Sketch;
use super::throttle::Throttle;
use super::{Class, Name, Policy, Pressure};

/// Of this many pages that `mru` refuses, one is let in.
const TRICKLE: u32 = 32;

/// Why a page is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// The policy holds what is there to be worth more.
    Policy,
    /// Puts of the pool do not pay, see [`super::throttle`].
    Throttle,
}

/// What to do with a page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Put it in this class.
    Put(Class),
    /// Drop it.
    Refuse(Refusal),
}

/// The guest's half for one pool.
///
/// `W` are the words of the sketch (see [`super::sketch::words`]), `C` the cells of the shadow
/// (three for each block of the small caches; 12 288 make good choices, 3 072 fair ones). Both may
/// be empty: then nothing is known, and `adaptive` is `fifo`.
#[derive(Clone, Debug)]
pub struct Admission<W, C> {
    policy: Policy,
    sketch: Sketch<W>,
    shadow: Shadow<C>,
    throttle: Throttle,
    /// The group that was counted last: a run counts once.
    group: u64,
    turn: u32,
    capacity: u64,
}

impl<W, C> Admission<W, C>
where
    W: AsRef<[u64]> + AsMut<[u64]>,
    C: AsRef<[Cell]> + AsMut<[Cell]>,
{
    /// A pool of which nothing is known, on zeroed memory.
    pub fn new(policy: Policy, words: W, cells: C) -> Self {
        Self {
            policy,
            sketch: Sketch::new(words),
            shadow: Shadow::new(cells),
            throttle: Throttle::default(),
            group: 0,
            turn: 0,
            capacity: 0,
        }
    }

    /// The policy.
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// Changes the policy. Takes time in proportion to the memory if history is of no use to it.
    pub fn set_policy(&mut self, policy: Policy) {
        if (policy == Policy::S3) != (self.policy == Policy::S3) {
            // Counters are no fingerprints.
            self.sketch.words_mut().fill(0);
        }
        self.policy = policy;
        self.throttle = Throttle::default();
    }

    /// How `adaptive` admits now.
    pub const fn way(&self) -> Way {
        self.shadow.way()
    }

    /// The throttle.
    pub const fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    /// Bytes that the pool's history takes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(self.sketch.words())
    }

    /// A page was read that the guest's page cache did not have; `hit` if the host had it.
    pub fn missed(&mut self, name: &Name, hit: bool) {
        self.throttle.missed(hit);
        if self.counts() && name.group != self.group {
            self.group = name.group;
            self.sketch.add(name.group, self.capacity);
        }
        if self.policy == Policy::Adaptive && self.capacity > 0 {
            self.shadow.read(name.block, self.capacity);
        }
    }

    /// A page leaves the page cache by reclaim; `refaulted` if the kernel counts it to a working
    /// set. `pressure` is what the host said last.
    pub fn offered(&mut self, name: &Name, refaulted: bool, pressure: &Pressure) -> Verdict {
        let class = self.leaves(name, pressure);
        self.decide(name, 1, class, refaulted, pressure)
    }

    /// The first half of [`Self::offered`], for each page of a folio that leaves as a whole: takes
    /// note of the page and says what it is worth. The folio is worth what its best page is.
    pub fn leaves(&mut self, name: &Name, pressure: &Pressure) -> Class {
        self.capacity = pressure.capacity;
        let class = match self.policy {
            Policy::S3 => Class::new(ghost::seen(self.sketch.words_mut(), name.page).into()),
            _ if self.counts() => Class::of_frequency(self.sketch.estimate(name.group)),
            _ => Class::LOWEST,
        };
        if self.policy == Policy::Adaptive && self.capacity > 0 {
            self.shadow.left(name.block, class, self.capacity);
        }
        class
    }

    /// The second half of [`Self::offered`], once for a folio of `pages` pages whose first is
    /// `name`. One decision, not one for each page: what is let in at random or by hash, one of
    /// many, would let in most folios of many pages.
    pub fn decide(
        &mut self,
        name: &Name,
        pages: u64,
        class: Class,
        refaulted: bool,
        pressure: &Pressure,
    ) -> Verdict {
        let way = self.shadow.way();
        let kept = match self.policy {
            Policy::Adaptive => way.class(class),
            _ => class,
        };
        if !pressure.full {
            return Verdict::Put(kept);
        }
        self.turn = self.turn.wrapping_add(1);
        let admitted = match self.policy {
            Policy::Adaptive => way.admits(class, pressure.floor, self.turn),
            Policy::Fifo | Policy::S3 => true,
            Policy::Workingset => refaulted,
            Policy::Tinylfu => Way::Better.admits(class, pressure.floor, self.turn),
            Policy::Mru => self.turn % TRICKLE == 0,
        };
        if !admitted {
            return Verdict::Refuse(Refusal::Policy);
        }
        // The paper's policy admits everything at any cost, and was chosen for that.
        if self.policy != Policy::Fifo && !self.throttle.allows(name.page, pages, self.capacity) {
            return Verdict::Refuse(Refusal::Throttle);
        }
        Verdict::Put(kept)
    }

    const fn counts(&self) -> bool {
        matches!(self.policy, Policy::Adaptive | Policy::Tinylfu)
    }
}
