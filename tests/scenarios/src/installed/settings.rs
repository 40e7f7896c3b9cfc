// SPDX-License-Identifier: GPL-2.0-only

//! The settings of both machines, as their administrators edit them, and as they are in force.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Guest, Machine, wait};

use super::{VM, login, shop};
use crate::{ddctl, site::Site};

/// Edits the files of the host: parameters of the module, which count when it is loaded again, and
/// the floor, which ddhostd sets.
const EDIT_HOST: &str = r"
sed -i -e 's/^# \(options doubledecker_host capacity_mib=\).*/\1192/' \
    -e 's/^# \(options doubledecker_host max_vms=\).*/\164/' \
    /etc/modprobe.d/doubledecker-host.conf
sed -i -e 's/^# \[memory\]/[memory]/' -e 's/^# floor = .*/floor = '\''32MiB'\''/' \
    /etc/doubledecker/host.toml";
/// Edits the file of the guest: the weight of the web server.
const EDIT_GUEST: &str = r"
sed -i '/nginx/,+1 s/^weight = .*/weight = 250/' /etc/doubledecker/policyd.toml";
const CAPACITY_MIB: u64 = 192;
const MAX_VMS: &str = "64";
const FLOOR_MIB: u64 = 32;
/// The pools of the guest with their weights.
const POOLS: [(&str, u32); 2] = [("default", 100), (shop::NAME, 250)];
/// The weight of the VM in the command of the page.
const WEIGHT: u32 = 200;

/// A host and its guest after the quick start.
pub(super) struct Settings<'a> {
    pub(super) host: &'a Machine,
    pub(super) guest: &'a Guest,
}

impl Settings<'_> {
    /// Edits the files.
    pub(super) fn edit(host: &Machine, guest: &Guest) -> Result<()> {
        login(host, EDIT_HOST)?;
        login(guest, EDIT_GUEST).map(drop)
    }

    /// Waits until the settings that the daemons apply are in force.
    pub(super) fn in_force(&self, when: &str) -> Result<()> {
        let Self { host, guest } = self;
        for (machine, daemon) in [(*host, "ddhostd"), (guest, "policyd")] {
            for question in ["is-active", "is-enabled"] {
                login(
                    machine,
                    &format!("systemctl {question} doubledecker-{daemon}"),
                )
                .with_context(|| format!("{daemon} {when}"))?;
            }
        }
        wait::until(&format!("ddhostd has applied its file {when}"), || {
            let has_floor = ddctl::host(host)?.floor_pages == FLOOR_MIB << 8;
            let is_weighted = ddctl::vms(host)?.iter().any(is_weighted);
            Ok((has_floor && is_weighted).then_some(()))
        })?;
        login(host, "ddhostd status").with_context(|| when.to_owned())?;
        Site { host, guest }.shows(when, &POOLS)
    }

    /// Fails unless the host's module was loaded with the parameters of its file.
    pub(super) fn of_the_module(&self) -> Result<()> {
        let capacity = ddctl::host(self.host)?.capacity_pages;
        ensure!(
            capacity == CAPACITY_MIB << 8,
            "the capacity is {capacity} pages"
        );
        let path = "/sys/module/doubledecker_host/parameters/max_vms";
        let most = self.host.read_text(path)?;
        ensure!(most == MAX_VMS, "the module takes {most} VMs");
        Ok(())
    }

    /// Fails if a daemon, or the kernel about a module, has logged a warning since a machine
    /// booted.
    pub(super) fn no_warnings(&self) -> Result<()> {
        self.has_none("--unit='doubledecker-*'")?;
        self.no_kernel_warnings()
    }

    /// Does the same for the kernels alone. The daemons warn when a module is unloaded.
    pub(super) fn no_kernel_warnings(&self) -> Result<()> {
        self.has_none("--dmesg --grep=doubledecker")
    }

    /// Fails if a part of a journal has warnings.
    fn has_none(&self, part: &str) -> Result<()> {
        const ASK: &str = "journalctl --boot --quiet --no-pager --priority=warning";
        for machine in [self.host, self.guest] {
            // journalctl fails if no line matches.
            let said = login(machine, &format!("{ASK} {part} || true"))?;
            let mut said = said.lines().filter(|line| !is_expected(line));
            let first = said.next();
            ensure!(first.is_none(), "{} logged {first:?}", machine.name());
        }
        Ok(())
    }
}

/// Returns whether a kernel says that a module comes from outside, as it does for each module of
/// DKMS whose key the machine does not trust.
fn is_expected(line: &str) -> bool {
    line.contains("taint")
}

fn is_weighted(vm: &ddctl::Vm) -> bool {
    vm.name.as_deref() == Some(VM) && vm.weight == WEIGHT
}
