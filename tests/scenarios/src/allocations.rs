// SPDX-License-Identifier: GPL-2.0-only

//! Allocations of the modules fail: first each one alone, one after the other, then many at random
//! under load. The operation that allocates must either be refused or succeed. It must not be done
//! by half, get lost, hang, or cause a warning.

mod faults;
mod load;
mod singly;

use anyhow::Result;
use ddlab::{Context, Scenario, Target};

use crate::{only, stage::Stage};

/// Makes allocations fail one at a time, then many of them under load.
pub(crate) const ALLOCATIONS: Scenario = Scenario {
    name: "allocations",
    about: "allocations of both modules fail, singly and under load (needs --kernel debug)",
    quick: false,
    run,
};

/// Capacity of the tier, which is less than the load needs.
const CAPACITY_MIB: u64 = 24;

/// The part under load. In the other parts allocations fail one at a time.
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
