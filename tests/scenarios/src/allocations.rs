// SPDX-License-Identifier: GPL-2.0-only

//! There is no memory: each allocation of our modules fails once, one after the other, then
//! many of them at random under load. What was asked for is refused, or done; nothing is done
//! by half, lost, stuck, or warned of.

mod faults;
mod load;
mod singly;

use anyhow::Result;
use ddlab::{Context, Scenario, Target};

use crate::{only, stage::Stage};

/// First singly, then under load.
pub(crate) const ALLOCATIONS: Scenario = Scenario {
    name: "allocations",
    about: "allocations of both modules fail, singly and under load (needs --kernel debug)",
    quick: false,
    run,
};

/// Capacity of the tier: less than the load wants.
const CAPACITY_MIB: u64 = 24;

/// The last of its parts, and the others: allocations that fail singly.
const UNDER_LOAD: &str = "load";
const SINGLY: [&str; 4] = ["modules", "guest", "host", "calls"];

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let quick = context.quick();
    let parts = only::of(&[&SINGLY[..], &[UNDER_LOAD]].concat())?;
    let stage = Stage {
        lab: context.lab()?,
    };
    let mut targets = Vec::new();
    if SINGLY.iter().any(|part| parts.contains(part)) {
        targets.extend(singly::run(&stage, &parts, quick)?);
    }
    if parts.contains(&UNDER_LOAD) {
        targets.extend(load::run(&stage, quick)?);
    }
    Ok(targets)
}
