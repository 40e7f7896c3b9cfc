// SPDX-License-Identifier: GPL-2.0-only

//! Host and guest boot and execute requests, on which all other scenarios rely.

use anyhow::{Result, ensure};

use crate::{
    Command, Context, DiskConfig, FileSpec, Format, GuestConfig, ReadMode, ReadSpec, Scenario,
    Target, Throttle,
};

/// Boots a host and a guest, and tests files, cgroups and background programs.
pub const BOOT: Scenario = Scenario {
    name: "boot",
    about: "host and guest boot, and their agents do what tests ask",
    quick: true,
    run: boot,
};

fn boot(context: &mut Context) -> Result<Vec<Target>> {
    let files = vec![
        FileSpec::new("tree/large", (8 << 20) + 123, 1),
        FileSpec::new("tree/small", 17, 2),
    ];
    let lab = context.lab()?;
    let disk = lab.create_disk(&DiskConfig {
        name: "data".to_owned(),
        size_mib: 256,
        format: Format::Ext4,
        files: files.clone(),
    })?;
    let start = std::time::Instant::now();
    let guest = lab.start_guest(&GuestConfig::new("one").disk(&disk, Throttle::CLOUD))?;
    let took = start.elapsed().as_secs_f64();
    let release = &lab.config().artifacts.release;
    for machine in [lab.host(), guest.machine()] {
        ensure!(machine.exec_ok(["uname", "-r"])?.trim() == release);
        ensure!(machine.exec(["false"])?.exit.code == Some(1));
        ensure!(machine.exec(["/no/such/program"]).is_err());
        let echo = machine.run_ok(&Command::new(["cat"]).stdin("hello"))?;
        ensure!(echo == "hello");
        machine.shell("test -d /opt/dd/modules; test -x /opt/dd/bin/ddagent")?;
    }
    guest.mount(&disk.path_in_guest(), "/mnt", "ext4", "noatime")?;
    guest.cgroup("one", &[("memory.max", "32M")])?;
    for how in [ReadMode::Buffered, ReadMode::Mmap, ReadMode::Direct] {
        let sum = guest.read(&ReadSpec::new("/mnt/tree/large").how(how).cgroup("one"))?;
        ensure!(sum.digest == Some(files[0].digest()), "{how:?}: {sum:?}");
    }
    let tree = guest.read_tree("/mnt/tree", true, None)?;
    ensure!(tree.digest == Some(crate::content::tree_digest(&files, "tree")));
    let mut sleeper = guest.spawn(&Command::new(["sleep", "1000"]).cgroup("one"))?;
    ensure!(sleeper.poll()?.is_none());
    sleeper.kill(15)?;
    ensure!(sleeper.wait()?.signal == Some(15));
    guest.shutdown()?;
    context.say(format!("the guest booted in {took:.1} s"));
    Ok(Vec::new())
}
