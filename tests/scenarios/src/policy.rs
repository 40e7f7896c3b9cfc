// SPDX-License-Identifier: GPL-2.0-only

//! policyd and the modules: while each of them is restarted, the pools are those of policyd's file.

use anyhow::{Result, ensure};
use ddlab::{Command, Context, Guest, GuestConfig, Running, Scenario, Target, wait};

use crate::{
    site::Site,
    stage::{GUEST, HOST, Stage, attach, attached},
};

/// Starts the daemon before the module; it outlives both modules.
pub(crate) const POLICY: Scenario = Scenario {
    name: "policy",
    about: "policyd keeps pools as its file says while containers and modules come and go",
    quick: true,
    run,
};

const CAPACITY_MIB: u64 = 32;
const FILE: &str = "/run/policyd.toml";
/// All containers of `apps` by their own names, and one more.
const FIRST: &str = "\
default_pool_weight = 5

[[container]]
name = \"web\"
cgroup = \"/web\"
weight = 60

[[container]]
name = \"app {}\"
cgroup = \"/apps/*\"
weight = 20
";
const SIGHUP: i32 = 1;
const SIGTERM: i32 = 15;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let stage = Stage::set(context, CAPACITY_MIB)?;
    let guest = stage.lab.start_guest(&GuestConfig::new("one"))?;
    for cgroup in ["web", "apps/a"] {
        guest.cgroup(cgroup, &[])?;
    }
    guest.write_file(FILE, FIRST)?;
    let mut policyd = guest.spawn(&Command::new(["policyd", "run", "--config", FILE]))?;
    attach(&guest)?;
    let site = Site {
        host: stage.host(),
        guest: &guest,
    };
    site.shows("at first", &[("app a", 20), ("default", 5), ("web", 60)])?;

    guest.cgroup("apps/b", &[])?;
    site.shows(
        "after a container was created",
        &[("app a", 20), ("app b", 20), ("default", 5), ("web", 60)],
    )?;
    guest.exec_ok(["rmdir", "/sys/fs/cgroup/apps/a"])?;
    let left = [("app b", 20), ("default", 5), ("web", 60)];
    site.shows("after a container was removed", &left)?;

    let second = FIRST.replace("60", "70").replace("20", "30");
    reload(&guest, &mut policyd, &second)?;
    let new = [("app b", 30), ("default", 5), ("web", 70)];
    site.shows("with a new file", &new)?;
    reload(&guest, &mut policyd, &second.replace("70", "\"heavy\""))?;
    wait::until("policyd refuses the wrong file", || {
        Ok(policyd.output()?.contains("line 6").then_some(()))
    })?;
    site.shows("with a wrong file", &new)?;

    let events = Command::new(["ddctl", "--host", "events"]);
    let mut events = stage.host().spawn(&events)?;
    guest.unload_module(GUEST)?;
    attach(&guest)?;
    site.shows("after the guest module was loaded again", &new)?;
    wait::until(
        "the registration of the guest is reported as an event",
        || Ok(events.output()?.contains("vm-came").then_some(())),
    )?;
    stage.host().unload_module(HOST)?;
    let (exit, told) = (events.wait()?, events.output()?);
    ensure!(
        !exit.success() && told.contains("is not loaded"),
        "ddctl events ended ({exit:?}) with:\n{told}"
    );
    stage.load_host(CAPACITY_MIB)?;
    attached(&guest)?;
    site.shows("after the host module was loaded again", &new)?;

    policyd.kill(SIGTERM)?;
    let exit = policyd.wait()?;
    ensure!(
        exit.success(),
        "policyd ended ({exit:?}):\n{}",
        policyd.output()?
    );
    site.shows("after the daemon's end", &new)?;
    Ok(Vec::new())
}

fn reload(guest: &Guest, policyd: &mut Running, file: &str) -> Result<()> {
    guest.write_file(FILE, file)?;
    policyd.kill(SIGHUP)
}
