// SPDX-License-Identifier: GPL-2.0

//! The engine in a simulated world with a simulated clock.

mod crowd;
mod examples;
mod garbage;
mod knobs;
mod limits;
mod model;
mod properties;
mod reclaim;
mod simulated;
mod site;
mod size;
mod sla;
mod world;
