// SPDX-License-Identifier: GPL-2.0-only

//! The engine in a simulated world with a simulated clock.

mod crowd;
mod examples;
mod floors;
mod garbage;
mod heap;
mod knobs;
mod limits;
mod model;
mod properties;
mod reclaim;
mod shapes;
mod simulated;
mod site;
mod size;
mod sla;
mod soak;
mod targets;
mod tiers;
mod vain;
mod workload;
mod world;
