// SPDX-License-Identifier: GPL-2.0-only

//! Events and actions of the engine.

use super::{memory::Limits, sample::Sample};
use crate::{config::Config, discovery::Identity};
use ddnl::{NewPool, Pool, PoolChange};
use std::{collections::BTreeMap, time::Duration};

/// Time since a fixed moment, which is the same for all calls.
pub type Time = Duration;

/// Existing cgroups: their paths below the root, and their ids, which differ from those of earlier
/// cgroups of the same path.
pub type Cgroups = BTreeMap<String, u64>;

/// An event.
#[derive(Clone, Debug)]
pub enum Event {
    /// A cgroup was created: its path and its id.
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
    /// A job of [`Action::Begin`] has ended. The result is the number of reclaimed bytes, if it
    /// asked for reclaim.
    Ended(Job, Result<u64, Failure>),
}

/// An action for the driver.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Look for the module; answered by [`Outcome::Connected`].
    Connect,
    /// List the module's pools; answered by [`Outcome::Listed`].
    List,
    /// Scan the cgroups; answered by [`Outcome::Scanned`].
    Scan,
    /// Enrol a container; this and the following are answered by [`Outcome::Changed`].
    Add(NewPool),
    /// Change a pool.
    Set(u32, PoolChange),
    /// Remove a pool.
    Remove(u32),
    /// Look up the identities of these cgroups; answered by [`Outcome::Identified`].
    Identify(Vec<String>),
    /// Measure the machine and these cgroups; answered by [`Outcome::Measured`].
    Measure(Vec<String>),
    /// Begin a job; answered by [`Outcome::Begun`] at once and by [`Event::Ended`] later.
    Begin(Job),
}

/// A job, which may take long because the kernel reclaims.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Job {
    /// Set the limits of a cgroup's memory.
    Limit {
        /// Its path.
        cgroup: String,
        /// Its id, so that a later cgroup of the same path is left alone.
        id: u64,
        /// The limits. Absent ones get their original values.
        limits: Limits,
        /// Whether files that others have changed since are taken over.
        take_over: bool,
    },
    /// Reclaim from a cgroup (`memory.reclaim`).
    Reclaim {
        /// Its path.
        cgroup: String,
        /// The bytes to reclaim.
        bytes: u64,
        /// Whether to reclaim only page cache.
        files_only: bool,
    },
}

impl Job {
    /// Returns the path of its cgroup.
    pub fn cgroup(&self) -> &str {
        match self {
            Self::Limit { cgroup, .. } | Self::Reclaim { cgroup, .. } => cgroup,
        }
    }
}

/// The outcome of an action.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The module was found, or was not.
    Connected(Result<(), Failure>),
    /// The module's pools.
    Listed(Result<Vec<Pool>, Failure>),
    /// All cgroups.
    Scanned(Cgroups),
    /// A change was made, or failed.
    Changed {
        /// The change.
        action: Action,
        /// The result, which is the new pool's number after [`Action::Add`].
        result: Result<Option<u32>, Failure>,
    },
    /// The identities of cgroups; `None` for those that no runtime knows yet.
    Identified(BTreeMap<String, Option<Identity>>),
    /// A measurement.
    Measured(Sample),
    /// A job was begun.
    Begun,
}

/// The reason why an action failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Failure {
    /// The module is loaded, but its state changed while it was read.
    Busy,
    /// The module is not loaded.
    Gone,
    /// The cgroup does not exist any more.
    Vanished,
    /// Another error, as text.
    Other(String),
}

impl Failure {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Busy => "the module's state keeps changing while it is read",
            Self::Gone => "the kernel module doubledecker_guest is not loaded",
            Self::Vanished => "the cgroup does not exist any more",
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
