// SPDX-License-Identifier: GPL-2.0-only

//! Fake modules in memory, for tests. They follow the same rules as the kernel modules, and record
//! the requests.
//!
//! Clones are handles to the same module, so that a test can examine what a tool did, or change the
//! state while it runs.

mod guest;
mod host;

pub use guest::{FakeGuest, GuestState};
pub use host::{FakeHost, HostState};

use crate::{
    control::EventSource,
    error::{Error, Result},
    family::Side,
    reply::{Event, Pool},
};
use ddabi::{
    policy::Policy,
    pool::{DEFAULT_WEIGHT, PoolStats, SsdAdmit, Store},
};
use std::{
    collections::VecDeque,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Returns a pool of a VM in the memory tier, with the usual weight and policy.
#[must_use]
pub fn pool(vm: u32, id: u32, name: &str, stats: PoolStats) -> Pool {
    Pool {
        vm: Some(vm),
        id,
        name: name.into(),
        cgroup_id: None,
        cgroup: None,
        weight: DEFAULT_WEIGHT,
        ssd_weight: DEFAULT_WEIGHT,
        store: Store::Memory,
        policy: Policy::DEFAULT,
        ssd_admit: SsdAdmit::All,
        admission: None,
        curve: None,
        stats: Some(stats),
    }
}

/// The fault of a fake module.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Fault {
    /// The module works.
    #[default]
    None,
    /// The module is not loaded.
    Absent,
    /// The caller lacks `CAP_NET_ADMIN`.
    Forbidden,
    /// The module reports this ABI version.
    Version(u32),
    /// The module's structures have another size.
    Layout,
    /// The module refuses every change with this error number.
    Refusing(i32),
}

impl Fault {
    /// Fails if the module does not reply to queries.
    fn query(self, side: Side) -> Result<()> {
        match self {
            Self::None | Self::Refusing(_) => Ok(()),
            Self::Absent => Err(Error::NotLoaded { side }),
            Self::Forbidden => Err(Error::from_kernel(side, 1, None)),
            Self::Version(theirs) => Err(Error::Version {
                side,
                theirs,
                module: Some("9.9.9".into()),
            }),
            Self::Layout => Err(Error::Layout {
                attribute: ddabi::genl::Attribute::Counters,
                theirs: 1024,
                ours: 136,
            }),
        }
    }

    /// Fails if the module does not accept changes.
    fn change(self, side: Side) -> Result<()> {
        self.query(side)?;
        match self {
            Self::Refusing(errno) => Err(Error::from_kernel(side, errno, None)),
            _ => Ok(()),
        }
    }
}

fn not_found(words: String) -> Error {
    Error::from_kernel(Side::Host, 2, Some(words))
}

fn refused(errno: i32, words: &str) -> Error {
    Error::from_kernel(Side::Host, errno, Some(words.into()))
}

/// Locks the state. A poisoned lock is ignored, because the state of a fake stays usable after a
/// panic.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Events that a test has prepared. No more events follow them.
#[derive(Debug, Default)]
pub struct FakeEvents(VecDeque<Event>);

impl FakeEvents {
    /// Creates a source of these events.
    pub fn new(events: impl IntoIterator<Item = Event>) -> Self {
        Self(events.into_iter().collect())
    }
}

impl EventSource for FakeEvents {
    fn next_event(&mut self) -> Result<Option<Event>> {
        Ok(self.0.pop_front())
    }
}

/// Returns an I/O error, for tests of the handling of errors.
pub fn broken_socket() -> Error {
    Error::Io(io::Error::from(io::ErrorKind::ConnectionReset))
}
