// SPDX-License-Identifier: GPL-2.0-only

//! What the engine is told and what it asks for.

use super::{memory::Limits, sample::Sample};
use crate::{config::Config, discovery::Identity};
use ddnl::{NewPool, Pool, PoolChange};
use std::{collections::BTreeMap, time::Duration};

/// Time since some moment, the same for all calls.
pub type Time = Duration;

/// The cgroups there are: paths below the root, and the numbers that tell a cgroup from one of
/// the same name before it.
pub type Cgroups = BTreeMap<String, u64>;

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A cgroup was made: its path and its number.
    CgroupAppeared(String, u64),
    /// A cgroup, and everything below it, was removed.
    CgroupVanished(String),
    /// Announcements of cgroups were lost.
    CgroupsLost,
    /// The file was read again.
    ConfigLoaded(Config),
    /// The module was loaded.
    ModuleCame,
    /// The module was unloaded.
    ModuleWent,
    /// The module found, lost or changed its host.
    SessionChanged,
    /// An action was performed.
    Outcome(Outcome),
    /// A job that was begun by [`Action::Begin`] ended; with how many bytes were reclaimed if that
    /// was asked for.
    Ended(Job, Result<u64, Failure>),
}

/// What to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Look for the module; answered by [`Outcome::Connected`].
    Connect,
    /// List the module's pools; answered by [`Outcome::Listed`].
    List,
    /// Look through the cgroups; answered by [`Outcome::Scanned`].
    Scan,
    /// Enrol a container; this and the following are answered by [`Outcome::Changed`].
    Add(NewPool),
    /// Change a pool.
    Set(u32, PoolChange),
    /// Remove a pool.
    Remove(u32),
    /// Ask who these cgroups are; answered by [`Outcome::Identified`].
    Identify(Vec<String>),
    /// Take a look at the machine and at these cgroups; answered by [`Outcome::Measured`].
    Measure(Vec<String>),
    /// Begin something that may take long; answered by [`Outcome::Begun`] at once and by
    /// [`Event::Ended`] later.
    Begin(Job),
}

/// Something that may take long, because the kernel reclaims during it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Job {
    /// Set the limits of a cgroup's memory.
    Limit {
        /// Its path.
        cgroup: String,
        /// Its number, so that another one of that name is left alone.
        id: u64,
        /// What to set; what is absent becomes what it was before us.
        limits: Limits,
        /// Whether files that others changed since are taken over.
        anew: bool,
    },
    /// Reclaim from a cgroup (`memory.reclaim`).
    Reclaim {
        /// Its path.
        cgroup: String,
        /// How much.
        bytes: u64,
        /// Only pages that cache files.
        files_only: bool,
    },
}

impl Job {
    /// The path of the cgroup it is for.
    pub fn cgroup(&self) -> &str {
        match self {
            Self::Limit { cgroup, .. } | Self::Reclaim { cgroup, .. } => cgroup,
        }
    }
}

/// How an action went.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The module is there, or is not.
    Connected(Result<(), Failure>),
    /// The module's pools.
    Listed(Result<Vec<Pool>, Failure>),
    /// All cgroups.
    Scanned(Cgroups),
    /// A change was made, or was not.
    Changed {
        /// The change.
        action: Action,
        /// How it went; the new pool's number after [`Action::Add`].
        result: Result<Option<u32>, Failure>,
    },
    /// Who cgroups are; `None` for those no runtime knows yet.
    Identified(BTreeMap<String, Option<Identity>>),
    /// What was measured.
    Measured(Sample),
    /// A job was begun.
    Begun,
}

/// Why an action failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Failure {
    /// The module's state changed while it was read; it is there.
    Busy,
    /// The module is not loaded.
    Gone,
    /// The cgroup is not there any more.
    Vanished,
    /// Anything else, in words.
    Other(String),
}

impl Failure {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Busy => "the module's state keeps changing while it is read",
            Self::Gone => "the kernel module doubledecker_guest is not loaded",
            Self::Vanished => "the cgroup is not there any more",
            Self::Other(text) => text,
        }
    }
}

impl From<ddnl::Error> for Failure {
    fn from(error: ddnl::Error) -> Self {
        match error {
            ddnl::Error::Interrupted => Self::Busy,
            ddnl::Error::NotLoaded { .. } => Self::Gone,
            error => Self::Other(match error.advice() {
                Some(advice) => format!("{error}: {advice}"),
                None => error.to_string(),
            }),
        }
    }
}
