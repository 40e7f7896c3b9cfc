// SPDX-License-Identifier: GPL-2.0-only

//! Time for which KVM keeps a vCPU while a container or the guest's module ends. Their pages are
//! freed in the background.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Target, wait};

use super::{READER, Site};
use crate::{
    ddctl,
    stage::{GUEST, Stage, pages},
    triggers::Exits,
};

/// File whose pages are at the host.
const FILE: u64 = 64 << 20;
/// Maximum length of an exit in million instructions. It was 0.01; with the pages freed by the call
/// itself it is more than 9.
const MAX_MS: f64 = 1.0;

/// Removes the container while the host has its pages, and unloads the module while the host has
/// pages of the default pool.
pub(super) fn exits(stage: &Stage<'_>, site: &Site<'_>) -> Result<Vec<Target>> {
    let guest = site.guest;
    guest.shell(format!("yes end | head -c {FILE} > /mnt/ends; sync"))?;
    // The pages are charged to the reader when it reads them, and not to the writer.
    guest.drop_caches(false)?;
    let ends: [(&str, &dyn Fn() -> Result<()>); 2] = [
        ("container", &|| {
            ddctl::run(guest, &format!("container remove {READER}")).map(drop)
        }),
        ("session", &|| guest.unload_module(GUEST)),
    ];
    let mut targets = Vec::new();
    for (what, end) in ends {
        fill(stage, site)?;
        let watch = Exits::watch(stage.host())?;
        end()?;
        let seen = watch.end()?;
        eprintln!("    end of a {what}: {seen:?}");
        ensure!(seen.count > 0, "no hypercall was seen");
        wait::until("the pages are freed", || {
            Ok((ddctl::host(stage.host())?.used_pages == 0).then_some(()))
        })?;
        targets.push(Target::at_most(
            format!("latency: million instructions of the longest hypercall that ends a {what}"),
            MAX_MS,
            seen.longest_us as f64 / 1e3,
            "",
        ));
    }
    Ok(targets)
}

/// Reads the file and reclaims its pages, which go to the host. No other pages are there.
fn fill(stage: &Stage<'_>, site: &Site<'_>) -> Result<()> {
    ddctl::run(site.guest, "flush --all")?;
    site.run("cat /mnt/ends > /dev/null")?;
    site.run(&format!("{} || true", site.reclaim()))?;
    let vms = ddctl::vms(stage.host())?;
    let used = vms
        .first()
        .context("the guest is not registered")?
        .used_pages;
    ensure!(
        used >= pages(FILE) * 9 / 10,
        "the host has only {used} pages"
    );
    Ok(())
}
