// SPDX-License-Identifier: GPL-2.0-only

//! The tier gives memory back when its host runs short, down to the floor, by the
//! weights of its holders (invariants 17 and 27).

use anyhow::{Result, ensure};
use ddlab::{Context, FileSpec, Guest, ReadSpec, Scenario, Target, Throttle};

use crate::{
    accounting, ddctl,
    hog::Hog,
    stage::{self, Stage, percent},
};

/// Takes memory from a host whose tier is well filled.
pub(crate) const SHRINKER: Scenario = Scenario {
    name: "shrinker",
    about: "the tier gives memory to a host that is short of it, by weight, down to the floor",
    quick: false,
    run,
};

/// Pages that the tier keeps: 24 MiB.
const FLOOR: u64 = 6144;
/// Size of a container's file, and of the larger file of the other one.
const SMALL: u64 = 48 << 20;
const LARGE: u64 = 96 << 20;

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let files = [
        FileSpec::new("small", SMALL, 1),
        FileSpec::new("large", LARGE, 2),
    ];
    let stage = Stage::set(context, 512)?;
    let host = stage.host();
    ddctl::run(host, "set-capacity --floor 24M")?;
    let disk = stage.disk("data", files.to_vec())?;
    let guest = stage.guest_with("one", &disk, Throttle::NONE)?;
    // The weights correspond to the pages, so that both give equal parts.
    for (file, weight) in files.iter().zip([100, 200]) {
        stage::container(&guest, &file.path, "8M", weight)?;
    }
    read_all(&guest, &files)?;
    let before = accounting::check(host)?;

    // Memory pressure continues until the tier has given a third.
    let full = ddctl::host(host)?.used_pages;
    let hog = Hog::start(host, Hog::HOST_FLOOR_KIB)?;
    hog.until(|| Ok(ddctl::host(host)?.used_pages < full / 3 * 2))?;
    let after = accounting::check(host)?;
    drop(hog);
    let [small, large] = [0, 1].map(|n| -> Result<f64> {
        let used = |vms: &[ddctl::Vm]| -> Result<u64> {
            Ok(ddctl::vm(vms, "one")?.container(&files[n].path)?.used_pages)
        };
        Ok(percent(used(&after)?, used(&before)?))
    });
    let (small, large) = (small?, large?);

    // This asks for as much as the kernel can ask for.
    host.write_file("/proc/sys/vm/drop_caches", "2")?;
    let left = ddctl::host(host)?.used_pages;
    ensure!(ddctl::host(host)?.counters.shrunk > 0);
    // The remaining pages, and those that are put from now on, have the right content.
    read_all(&guest, &files)?;
    read_all(&guest, &files)?;
    accounting::check(host)?;
    Ok(vec![
        Target::at_most(
            "shrinker: difference between the parts of their pages that two containers kept",
            // A batch is five percent of the smaller container's pages.
            6.0,
            (small - large).abs(),
            "points",
        ),
        Target::new(
            "shrinker: pages left when the kernel requests all pages",
            format!("the floor, {FLOOR}"),
            left.to_string(),
            (FLOOR..=FLOOR + 64).contains(&left),
        ),
    ])
}

fn read_all(guest: &Guest, files: &[FileSpec]) -> Result<()> {
    for file in files {
        let path = format!("/mnt/{}", file.path);
        stage::read(guest, &ReadSpec::new(path).cgroup(&file.path), file)?;
    }
    Ok(())
}
