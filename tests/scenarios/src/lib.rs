// SPDX-License-Identifier: GPL-2.0-only

//! Tests on real kernels. Each file tests one promise, or a few related ones.
//!
//! A scenario sets a [`stage`], works on it, and compares its observations with the counters of
//! `ddctl` and with content that was made outside of the machines. The [`accounting`] must balance
//! after each of them.

mod accounting;
mod allocations;
mod apart;
mod bad_input;
mod bounds;
mod calls;
mod cgroup;
mod coherence;
mod crowd;
mod ddhostd;
mod deaths;
mod events;
mod faults;
mod filesystem;
mod hog;
mod hostile;
mod hotplug;
mod huge;
mod installed;
mod latency;
mod lifecycle;
mod mapper;
mod memory;
mod meter;
mod migration;
mod modules;
mod monitoring;
mod mutations;
mod nodes;
mod offload;
mod only;
mod overhead;
mod patched;
mod path;
mod policies;
mod policy;
mod reboot;
mod reclaim;
mod recorders;
mod refused;
mod rootless;
mod scarce;
mod secure_boot;
mod selftests;
mod service;
mod share;
mod shares;
mod shrinker;
mod site;
mod skew;
mod sla;
mod small_files;
mod ssd;
mod stage;
mod stream;
mod systemd;
mod tenants;
mod tools;
mod torture;
mod tracepoints;
mod tracing;
mod triggers;
mod vmm;
mod work;

use ddlab::{Scenario, ddctl};

pub use installed::{
    shop,
    walk::{Side, installation},
};
pub use monitoring::dashboard::{Query, dashboard};
pub use patched::{Patches, every_build, patched_builds};

/// Returns the scenarios of every run. The longest come first, so that parallel labs end at about
/// the same time.
#[must_use]
pub fn all() -> &'static [Scenario] {
    &[
        bad_input::BAD_INPUT,
        policy::POLICY,
        stream::STREAM,
        apart::APART,
        calls::CALLS,
        crowd::CROWD,
        deaths::DEATHS,
        coherence::COHERENCE,
        torture::TORTURE,
        small_files::SMALL_FILES,
        reclaim::RECLAIM,
        shares::SHARES,
        policies::POLICIES,
        shrinker::SHRINKER,
        scarce::SCARCE,
        ssd::SSD,
        ssd::hybrid::HYBRID,
        ssd::deferral::DEFERRAL,
        reboot::REBOOT,
    ]
}

/// Returns the scenarios that run by name only, because they take too long for every run, or
/// because emulation distorts their figures.
#[must_use]
pub fn by_name() -> &'static [Scenario] {
    &[
        bounds::BOUNDS,
        latency::LATENCY,
        latency::SECTIONS,
        path::PATH,
        nodes::NODES,
        refused::REFUSED,
        secure_boot::SECURE_BOOT,
        overhead::OVERHEAD,
        offload::OFFLOAD,
        skew::SKEW,
        sla::SLA,
        monitoring::MONITORING,
        systemd::SYSTEMD,
        installed::INSTALLED,
        installed::UPGRADE,
        tenants::TENANTS,
        rootless::ROOTLESS,
        torture::TORTURE_EXT4,
        torture::TORTURE_XFS,
        torture::TORTURE_SSD,
        torture::TORTURE_HYBRID,
        ssd::faults::FAULTS,
        ssd::tiers::TIERS,
        tools::TOOLS,
        hostile::HOSTILE,
        huge::HUGE,
        lifecycle::LIFECYCLE,
        migration::MIGRATION,
        faults::FAULTS,
        allocations::ALLOCATIONS,
        modules::MODULES,
        tracing::TRACING,
        selftests::SELFTESTS_AGREE,
        mutations::MUTATIONS,
    ]
}
