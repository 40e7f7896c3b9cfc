// SPDX-License-Identifier: GPL-2.0

//! The tier gives memory back when its host runs short, down to the floor, from
//! everyone in proportion (invariant 17).

use anyhow::{Result, ensure};
use ddlab::{Context, FileSpec, Guest, Machine, ReadSpec, Scenario, Target, Throttle};

use crate::{
    books, ddctl,
    memory::Memory,
    stage::{self, Stage, percent},
};

/// Memory is taken away from a host whose tier is well filled.
pub(crate) const SHRINKER: Scenario = Scenario {
    name: "shrinker",
    about: "a host short of memory gets the tier's, down to the floor, from all alike",
    quick: false,
    run,
};

/// Pages the tier keeps: 24 MiB.
const FLOOR: u64 = 6144;
/// A container's file, and the larger one of the other.
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
    for file in &files {
        stage::container(&guest, &file.path, "8M", 100)?;
    }
    read_all(&guest, &files)?;
    let before = books::balance(host)?;

    // Real pressure, until the tier gave a third.
    let full = ddctl::host(host)?.used_pages;
    let hog = Hog::start(host)?;
    hog.until(|| Ok(ddctl::host(host)?.used_pages < full / 3 * 2))?;
    let after = books::balance(host)?;
    drop(hog);
    let [small, large] = [0, 1].map(|n| -> Result<f64> {
        let used = |vms: &[ddctl::Vm]| -> Result<u64> {
            Ok(ddctl::vm(vms, "one")?.container(&files[n].path)?.used_pages)
        };
        Ok(percent(used(&after)?, used(&before)?))
    });
    let (small, large) = (small?, large?);

    // As much as the kernel can ask for.
    host.write_file("/proc/sys/vm/drop_caches", "2")?;
    let left = ddctl::host(host)?.used_pages;
    ensure!(ddctl::host(host)?.counters.shrunk > 0);
    // What is left, and what is put from now on, is right.
    read_all(&guest, &files)?;
    read_all(&guest, &files)?;
    books::balance(host)?;
    Ok(vec![
        Target::at_most(
            "shrinker: difference between what two containers kept of theirs",
            10.0,
            (small - large).abs(),
            "points",
        ),
        Target::new(
            "shrinker: pages left when everything is asked for",
            format!("the floor, {FLOOR}"),
            left.to_string(),
            (FLOOR..=FLOOR + 64).contains(&left),
        ),
    ])
}

fn read_all(guest: &Guest, files: &[FileSpec]) -> Result<()> {
    for file in files {
        let path = format!("/mnt/{}", file.path);
        let sum = guest.read(&ReadSpec::new(path).cgroup(&file.path))?;
        ensure!(sum.digest == Some(file.digest()), "wrong content: {sum:?}");
    }
    Ok(())
}

/// Takes a host's memory and gives it back when dropped.
struct Hog<'a>(&'a Machine);

impl<'a> Hog<'a> {
    /// Memory left free by the first, coarse step.
    const LEFT_KIB: u64 = 192 << 10;

    fn start(host: &'a Machine) -> Result<Self> {
        let hog = Self(host);
        host.mount("tmpfs", "/run/hog", "tmpfs", "size=100%")?;
        // Huge pages nobody touches: taken at once, without being cleared.
        let free = Memory::now(host)?.kib("MemFree")?;
        let pages = free.saturating_sub(Self::LEFT_KIB) / 2048;
        host.write_file("/proc/sys/vm/nr_hugepages", pages.to_string())?;
        Ok(hog)
    }

    /// Takes a little more and again a little, until it is enough.
    fn until(&self, enough: impl Fn() -> Result<bool>) -> Result<()> {
        for n in 0.. {
            if enough()? {
                return Ok(());
            }
            let available = Memory::now(self.0)?.kib("MemAvailable")?;
            ensure!(
                available > 48 << 10,
                "nothing more can be taken ({n} steps)"
            );
            self.0
                .exec_ok(["fallocate", "-l", "8M", &format!("/run/hog/{n}")])?;
        }
        Ok(())
    }
}

impl Drop for Hog<'_> {
    fn drop(&mut self) {
        // If this fails the lab is of no more use, and the scenario fails too.
        let _ = self.0.write_file("/proc/sys/vm/nr_hugepages", "0");
        let _ = self.0.exec_ok(["umount", "/run/hog"]);
    }
}
