// SPDX-License-Identifier: GPL-2.0-only

//! Verdicts on containers.

use super::{
    character::Character,
    help::Belief,
    member::Member,
    quantity::{Cost, Pages},
    split::Demand,
};
use crate::config::Container;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The decision about a container.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ruling {
    pub(super) verdict: Verdict,
    /// The pages that it needs for its target, if that is known.
    pub(super) need: Option<Pages>,
    /// Its share.
    pub(super) has: Pages,
}

/// The verdict on a container.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It has a class and no target, and gets spare pages.
    BestEffort,
    /// Its weight is the one of the file.
    ByHand,
    /// Its target is met.
    Met,
    /// Its target is missed; its share grows.
    Growing,
    /// Its target is missed, because there is not enough for all, and others have a higher or the
    /// same class.
    Infeasible,
    /// Its target is missed, and its share is at its ceiling.
    Ceiling,
    /// Its target is missed, and it does not fill its share.
    NotFilled,
    /// Its target is missed, and the store makes no difference.
    NotHelped,
    /// Its target is missed, and other shares are tried to see whether they make a difference.
    Trying,
    /// Its load is below its target, and it waits for nothing, which counts as met.
    NotAsked,
    /// Its target is missed, and only guest memory can help it.
    NeedsMemory,
    /// Its target is missed, and the VM has no share of the store.
    NoStore,
    /// Its figures are missing, so that its share stays.
    Unmeasured,
}

impl Ruling {
    /// Returns the verdict on a container that has a part in the division. `is_short` tells whether
    /// there is not enough for all, and this container is served less well than it should be.
    pub(super) fn of(
        container: &Container,
        member: &Member,
        demand: &Demand<'_>,
        has: Pages,
        is_short: bool,
    ) -> Self {
        let is_known = !member.response.is_empty() || member.curve.is_some();
        let need = demand.need.as_ref().filter(|_| is_known);
        Self {
            verdict: Verdict::of(container, member, has >= demand.ceiling * FULL, is_short),
            need: need.map(|need| need(Cost::TARGET)),
            has,
        }
    }
}

/// A share is at the ceiling if it has at least this part of it.
const FULL: f64 = 0.99;

impl Verdict {
    fn of(container: &Container, member: &Member, is_at_ceiling: bool, is_short: bool) -> Self {
        if container.target.is_none() {
            Self::BestEffort
        } else if member.cost.is_none() {
            Self::Unmeasured
        } else if member.is_unasked {
            Self::NotAsked
        } else if !member.misses_target() {
            Self::Met
        } else if member.character() == Character::Anonymous {
            Self::NeedsMemory
        } else if member.is_saturated() {
            Self::NotFilled
        } else if let Belief::NoHelp { .. } = member.belief() {
            Self::NotHelped
        } else if member.belief() != Belief::Helps {
            Self::Trying
        } else if is_at_ceiling {
            Self::Ceiling
        } else if is_short {
            Self::Infeasible
        } else {
            Self::Growing
        }
    }

    /// Returns the verdict on a container that has no part in a division, because its weight is
    /// that of the file, or there is no host.
    pub(super) fn undivided(container: &Container, member: Option<&Member>) -> Self {
        if !container.is_controlled() {
            return Self::ByHand;
        }
        if container.target.is_none() {
            return Self::BestEffort;
        }
        match member.filter(|member| member.cost.is_some()) {
            None => Self::Unmeasured,
            Some(member) if !member.misses_target() => Self::Met,
            Some(member) if member.store_helps() && container.store.has_memory() => Self::NoStore,
            Some(_) => Self::NeedsMemory,
        }
    }

    /// Returns whether the target is missed in such a way that the store may make no difference.
    pub(super) const fn is_doubted(self) -> bool {
        matches!(self, Self::NotHelped | Self::Trying)
    }
}
