// SPDX-License-Identifier: GPL-2.0-only

//! Modules are loaded and unloaded under load, and leave nothing behind.

use anyhow::{Context as _, Result, ensure};
use ddhelper::churn::Random;
use ddlab::{Context, GuestConfig, Machine, Scenario, Target, Throttle};

use crate::{
    accounting, ddctl,
    memory::Baseline,
    stage::{self, GUEST, HOST, Stage, attached},
    work::{self, Load, some_calls},
};

/// Loads and unloads each module repeatedly while the other one is busy.
pub(crate) const MODULES: Scenario = Scenario {
    name: "modules",
    about: "both modules are loaded and unloaded under load, and leave nothing behind",
    quick: false,
    run,
};

const ROUNDS: u32 = 50;
/// Number of rounds in the short form.
const FEW_ROUNDS: u32 = 10;
/// Capacity of the tier, which is less than the load needs.
const CAPACITY_MIB: u64 = 24;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let rounds = if context.quick() { FEW_ROUNDS } else { ROUNDS };
    let lab = context.lab()?;
    let stage = Stage { lab };
    let disk = stage.disk("data", work::files())?;
    let config = GuestConfig::new("one").vcpus(2);
    let guest = lab.start_guest(&config.disk(&disk, Throttle::NONE))?;
    guest.mount(&disk.path_in_guest(), "/mnt", "ext4", "noatime")?;
    // The first cycle allocates memory that a kernel never gives back, such as the first module's
    // symbols.
    cycle(&stage, &guest)?;
    let host_before = Baseline::take(stage.host())?;
    let guest_before = Baseline::take(&guest)?;

    stage.load_host(CAPACITY_MIB)?;
    stage::attach(&guest)?;
    let load = Load::start(&guest)?;
    let mut rng = Random::new(1);
    for round in 0..rounds {
        let what = |module: &str| format!("round {round}, {module}");
        some_calls(&guest, &mut rng).with_context(|| what("before"))?;
        guest.unload_module(GUEST).with_context(|| what(GUEST))?;
        stage::attach(&guest)?;
        some_calls(&guest, &mut rng).with_context(|| what("between"))?;
        stage
            .host()
            .unload_module(HOST)
            .with_context(|| what(HOST))?;
        stage.load_host(CAPACITY_MIB)?;
        attached(&guest)?;
    }
    load.stop()?;
    accounting::check(stage.host())?;
    guest.unload_module(GUEST)?;
    let left = ddctl::host(stage.host())?;
    ensure!(left.used_pages == 0, "pages are left: {left:?}");
    stage.host().unload_module(HOST)?;
    guest_before.check("the guest module was loaded and unloaded")?;
    host_before.check("the host module was loaded and unloaded")?;
    Ok(Vec::new())
}

/// Loads and unloads both modules once.
fn cycle(stage: &Stage<'_>, guest: &Machine) -> Result<()> {
    stage.load_host(CAPACITY_MIB)?;
    stage::attach(guest)?;
    guest.unload_module(GUEST)?;
    stage.host().unload_module(HOST)
}
