// SPDX-License-Identifier: GPL-2.0-only

//! Modules of different versions refuse each other, report it, and do no harm.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Context, FileSpec, Machine, ReadSpec, Scenario, Target, Throttle, wait};

use crate::{
    ddctl,
    stage::{self, GUEST, Stage},
};

/// Runs guest modules that are older and newer than the host module.
pub(crate) const SKEW: Scenario = Scenario {
    name: "skew",
    about: "a host refuses older and newer guest modules, and accepts one of its own version",
    quick: false,
    run,
};

/// Patches with which the guest module claims another version.
pub(crate) const CLAIMS: [&str; 2] = ["older-abi", "newer-abi"];
const LEN: u64 = 16 << 20;
const READER: &str = "reader";

fn run(context: &mut Context) -> Result<Vec<Target>> {
    context.allow_console("the host refuses this VM");
    let stage = Stage::set(context, 32)?;
    let file = FileSpec::new("file", LEN, 1);
    let disk = stage.disk("data", vec![file.clone()])?;
    let guest = stage.guest_with("one", &disk, Throttle::NONE)?;
    guest.cgroup(READER, &[("memory.max", "8M")])?;
    let spec = ReadSpec::new("/mnt/file").cgroup(READER);
    let read = || stage::read(&guest, &spec, &file);
    for claim in CLAIMS {
        // The pages that are put now must not be found by the next module.
        read()?;
        guest.unload_module(GUEST)?;
        let before = ddctl::host(stage.host())?.counters.refused_unsupported;
        stage.lab.mutate(Some(claim));
        let loaded = guest.load_module(GUEST, &[]);
        stage.lab.mutate(None);
        loaded?;
        refused(&guest).context(claim)?;
        read().context(claim)?;
        let counters = ddctl::counters(&guest)?;
        ensure!(
            counters.put_offered == 0 && counters.get_asked == 0,
            "{counters:?}"
        );
        let after = ddctl::host(stage.host())?;
        ensure!(after.counters.refused_unsupported > before, "{after:?}");
        ensure!(after.used_pages == 0, "the host holds pages: {after:?}");
        guest.unload_module(GUEST)?;
        stage::attach(&guest)?;
        read()?;
        read()?;
    }
    let hits = ddctl::counters(&guest)?.get_hits;
    Ok(vec![Target::at_least(
        "skew: pages from the host once the versions agree",
        // The last read finds at most half of the file in its reader's memory. Three quarters of
        // the rest suffice, because some pages can be on their way when they are read.
        stage::pages(LEN / 2) as f64 * 0.75,
        hits as f64,
        "",
    )])
}

/// Waits until the guest module has reported that it was refused, with the reason.
fn refused(guest: &Machine) -> Result<()> {
    wait::until("the guest is refused", || {
        Ok((ddctl::guest(guest)?.state == "refused").then_some(()))
    })?;
    let said = guest.exec_ok(["dmesg"])?;
    ensure!(
        said.contains("compare the versions of both modules"),
        "{said}"
    );
    Ok(())
}
