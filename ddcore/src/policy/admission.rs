// SPDX-License-Identifier: GPL-2.0-only

//! The guest's half of a policy: whether a page that leaves the page cache is put, and in which
//! class.

use super::ghost;
use super::shadow::{Cell, Shadow, Way};
use super::sketch::Sketch;
use super::throttle::Throttle;
use super::{Class, PageName, Policy, Pressure};

/// One of this many pages that `mru` would refuse is admitted.
const TRICKLE: u32 = 32;

/// Reason for which a page is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// The policy rates the pages in the cache higher.
    Policy,
    /// The pool has too few hits for its puts, see [`super::throttle`].
    Throttle,
}

/// Decision about a page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The page is put with this class.
    Put(Class),
    /// The page is not put.
    Refuse(Refusal),
}

/// The guest's half of a policy, for one pool.
///
/// `W` is memory for the words of the sketch (see [`super::sketch::words`]), `C` for the cells of
/// the shadow (three for each block of the small caches; choices are good with 12 288 cells and
/// fair with 3 072). Both may be empty; then there is no history, and `adaptive` admits as `fifo`
/// does.
#[derive(Clone, Debug)]
pub struct Admission<W, C> {
    policy: Policy,
    sketch: Sketch<W>,
    shadow: Shadow<C>,
    throttle: Throttle,
    /// Fingerprints of pages that have left, if the host has to know which pages leave again.
    proof: Option<W>,
    /// Whether a page that left since the last decision had left before.
    proven: bool,
    /// The group that was counted last, because a run of reads counts once.
    group: u64,
    turn: u32,
    capacity: u64,
}

impl<W, C> Admission<W, C>
where
    W: AsRef<[u64]> + AsMut<[u64]>,
    C: AsRef<[Cell]> + AsMut<[Cell]>,
{
    /// Creates the state of a pool without history. The memory must be zeroed.
    pub fn new(policy: Policy, words: W, cells: C) -> Self {
        Self {
            policy,
            sketch: Sketch::new(words),
            shadow: Shadow::new(cells),
            throttle: Throttle::default(),
            proof: None,
            proven: false,
            group: 0,
            turn: 0,
            capacity: 0,
        }
    }

    /// Has pages that left before, or that the kernel considers part of a working set, put with a
    /// class of at least 1, because only such pages go to the SSD tier
    /// ([`SsdAdmit::Second`](ddabi::pool::SsdAdmit)). `proof` is zeroed memory for the fingerprints
    /// of pages that have left, four in a word. The classes of `s3` are such proofs themselves, so
    /// that it needs no memory and is not changed.
    pub fn prove(&mut self, proof: W) {
        if self.policy != Policy::S3 {
            self.proof = Some(proof);
        }
    }

    /// Returns the policy.
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// Changes the policy. If the history has to be cleared, the time is proportional to the
    /// memory.
    pub fn set_policy(&mut self, policy: Policy) {
        if (policy == Policy::S3) != (self.policy == Policy::S3) {
            // The memory has fingerprints for `s3`, and counters for other policies.
            self.sketch.words_mut().fill(0);
        }
        self.policy = policy;
        self.throttle = Throttle::default();
    }

    /// Returns how `adaptive` admits now.
    pub const fn way(&self) -> Way {
        self.shadow.way()
    }

    /// Returns the throttle.
    pub const fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    /// Returns the size of the pool's history in bytes, without the cells of the shadow.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(self.sketch.words())
    }

    /// Records the read of a page that the guest's page cache did not have. `hit` is set if the
    /// host had it.
    pub fn missed(&mut self, name: &PageName, hit: bool) {
        self.throttle.missed(hit);
        if self.counts() && name.group != self.group {
            self.group = name.group;
            self.sketch.add(name.group, self.capacity);
        }
        if self.policy == Policy::Adaptive && self.capacity > 0 {
            self.shadow.read(name.block, self.capacity);
        }
    }

    /// Decides about a page that leaves the page cache by reclaim. `refaulted` is set if the kernel
    /// considers it part of a working set, and `pressure` is the last report of the host.
    pub fn offered(&mut self, name: &PageName, refaulted: bool, pressure: &Pressure) -> Verdict {
        let class = self.leave([*name], pressure);
        self.decide(name, 1, class, refaulted, pressure)
    }

    /// The first half of [`Self::offered`]: records the pages of a folio, in their order, and
    /// returns its class, which is the highest class of its pages.
    pub fn leave(
        &mut self,
        names: impl IntoIterator<Item = PageName>,
        pressure: &Pressure,
    ) -> Class {
        self.capacity = pressure.capacity;
        let mut highest = Class::LOWEST;
        // The group whose frequency was looked up last, and its class.
        let mut last = None;
        for name in names {
            let class = match self.policy {
                Policy::S3 => Class::new(ghost::seen(self.sketch.words_mut(), name.page).into()),
                _ if self.counts() => {
                    let known = last.filter(|(group, _)| *group == name.group);
                    let estimate = || Class::of_frequency(self.sketch.estimate(name.group));
                    let class = known.map_or_else(estimate, |(_, class)| class);
                    last = Some((name.group, class));
                    class
                }
                _ => Class::LOWEST,
            };
            if let Some(proof) = &mut self.proof {
                self.proven |= ghost::seen(proof.as_mut(), name.page);
            }
            if self.policy == Policy::Adaptive && self.capacity > 0 {
                self.shadow.left(name.block, class, self.capacity);
            }
            highest = highest.max(class);
        }
        highest
    }

    /// The second half of [`Self::offered`], which is called once for a folio of `pages` pages
    /// whose first one is `name`. If each page were decided separately, a rule that admits one page
    /// in many would admit most large folios.
    pub fn decide(
        &mut self,
        name: &PageName,
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
        let proven = core::mem::take(&mut self.proven) || refaulted;
        let kept = match self.proof {
            Some(_) if proven => kept.max(Class::PROVEN),
            _ => kept,
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
        // The paper's policy is not throttled, because it admits every page whatever the cost.
        if self.policy != Policy::Fifo && !self.throttle.allows(name.page, pages, self.capacity) {
            return Verdict::Refuse(Refusal::Throttle);
        }
        Verdict::Put(kept)
    }

    const fn counts(&self) -> bool {
        matches!(self.policy, Policy::Adaptive | Policy::Tinylfu)
    }
}
