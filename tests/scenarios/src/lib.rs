// SPDX-License-Identifier: GPL-2.0

//! What is shown on real kernels: one promise, or a few that go together, a file.
//!
//! A scenario sets a [`stage`], works on it, and compares what it saw with what
//! `ddctl` counts ([`counters`]) and with content that was made outside
//! the machines. Whatever it does, the [`books`] must balance afterwards.

mod bad_input;
mod books;
mod coherence;
mod counters;
mod ddctl;
mod deaths;
mod hostile;
mod memory;
mod meter;
mod modules;
mod offload;
mod overhead;
mod policies;
mod policy;
mod reboot;
mod reclaim;
mod shares;
mod shrinker;
mod site;
mod sla;
mod small_files;
mod stage;
mod stream;
mod systemd;
mod work;

use ddlab::Scenario;

/// The scenarios of every run, the quickest first.
#[must_use]
pub fn all() -> &'static [Scenario] {
    &[
        bad_input::BAD_INPUT,
        policy::POLICY,
        stream::STREAM,
        reboot::REBOOT,
        reclaim::RECLAIM,
        shares::SHARES,
        shrinker::SHRINKER,
        coherence::COHERENCE,
        small_files::SMALL_FILES,
        policies::POLICIES,
        deaths::DEATHS,
    ]
}

/// Scenarios that take too long for every run, or whose figures emulation
/// distorts: they run by name only.
#[must_use]
pub fn by_name() -> &'static [Scenario] {
    &[
        overhead::OVERHEAD,
        offload::OFFLOAD,
        sla::SLA,
        systemd::SYSTEMD,
        hostile::HOSTILE,
        modules::MODULES,
    ]
}
