// SPDX-License-Identifier: GPL-2.0

//! The engine in a simulated world with a simulated clock.

mod crowd;
mod examples;
mod garbage;
mod knobs;
mod model;
mod properties;
mod simulated;
mod site;
mod sla;
mod world;
