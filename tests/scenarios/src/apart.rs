// SPDX-License-Identifier: GPL-2.0-only

//! Two VMs have files with the same keys and different content: each gets its own pages (invariant
//! 21). A VM whose pages are refused requests none (invariant 3), and without a host no function is
//! hooked (invariant 12).

use anyhow::{Context as _, Result, ensure};
use ddlab::{Context, FileSpec, Guest, GuestConfig, ReadSpec, Scenario, Target, Throttle};

use crate::{
    accounting,
    ddctl::{self, GuestCounters},
    stage::{self, GUEST, HOST, Stage, attached, pages, percent},
};

/// Runs the VMs one after the other, without a host, with one, with weight 0, and without one
/// again.
pub(crate) const APART: Scenario = Scenario {
    name: "apart",
    about: "each of two VMs gets its own pages only, and hooks no function without a host",
    quick: true,
    run,
};

/// Capacity of the tier: room for both files.
const CAPACITY_MIB: u64 = 96;
/// Bytes of each VM's file.
const LEN: u64 = 32 << 20;
/// The cgroup that reads.
const READER: &str = "reader";

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let stage = Stage {
        lab: context.lab()?,
    };
    let (one, two) = (
        Side::start(&stage, "one", 1)?,
        Side::start(&stage, "two", 2)?,
    );
    for side in [&one, &two] {
        side.guest.load_module(GUEST, &[])?;
        side.alone().context("before the host module was loaded")?;
    }
    stage.load_host(CAPACITY_MIB)?;
    for side in [&one, &two] {
        side.attach()?;
    }
    one.read()?;
    two.read()?;
    let hits = one.read()?.get_hits.min(two.read()?.get_hits);

    ddctl::run(stage.host(), "set-weight two 0")?;
    // Pages from before may be requested once more.
    two.read()?;
    let refused = two.read()?;
    ensure!(
        refused.put_offered > 0 && refused.put_stored == 0,
        "a VM of weight 0 has pages taken: {refused:?}"
    );
    accounting::check(stage.host())?;

    stage.host().unload_module(HOST)?;
    for side in [&one, &two] {
        side.alone().context("after the host module was unloaded")?;
    }
    Ok(vec![
        Target::at_least(
            "apart: pages of either VM's second pass from the host",
            99.0,
            percent(hits, pages(LEN)),
            "%",
        ),
        Target::none(
            "apart: refused pages that the guest requests",
            refused.get_asked,
        ),
    ])
}

/// A VM with a file.
struct Side {
    guest: Guest,
    file: FileSpec,
}

impl Side {
    /// Starts a VM without the module. The file's inode and blocks are the same for every seed.
    fn start(stage: &Stage<'_>, name: &str, seed: u64) -> Result<Self> {
        let file = FileSpec::new("file", LEN, seed);
        let disk = stage.disk(name, vec![file.clone()])?;
        let config = GuestConfig::new(name).disk(&disk, Throttle::NONE);
        let guest = stage.lab.start_guest(&config)?;
        guest.mount(&disk.path_in_guest(), "/mnt", "ext4", "noatime")?;
        guest.cgroup(READER, &[("memory.max", "16M")])?;
        Ok(Self { guest, file })
    }

    /// Waits for the host, and makes the reader's container put all pages that are reclaimed.
    fn attach(&self) -> Result<()> {
        attached(&self.guest)?;
        ensure!(self.hooks()? > 0, "nothing is hooked with a host");
        ddctl::run(
            &self.guest,
            &format!("container add {READER} --policy fifo"),
        )
        .map(drop)
    }

    /// Waits until the module has noticed that there is no host. It has no hooks then, and files
    /// can be read.
    fn alone(&self) -> Result<()> {
        stage::alone(&self.guest)?;
        ensure!(self.hooks()? == 0, "functions are hooked without a host");
        let counted = self.read()?;
        ensure!(
            counted.put_offered == 0 && counted.read_absent == 0,
            "reads were seen without a host: {counted:?}"
        );
        Ok(())
    }

    /// Returns the number of hooked functions of the guest's kernel.
    fn hooks(&self) -> Result<usize> {
        let functions = self
            .guest
            .read_text("/sys/kernel/tracing/enabled_functions")?;
        Ok(functions.lines().count())
    }

    /// Reads the file, whose content must be this VM's. Returns the counters of that time.
    fn read(&self) -> Result<GuestCounters> {
        let before = ddctl::counters(&self.guest)?;
        let spec = ReadSpec::new("/mnt/file").cgroup(READER);
        stage::read(&self.guest, &spec, &self.file)?;
        Ok(ddctl::counters(&self.guest)? - before)
    }
}
