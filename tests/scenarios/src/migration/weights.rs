// SPDX-License-Identifier: GPL-2.0-only

//! Weights of VMs on hosts whose ddhostd have the same file. Each origin of a weight has its own
//! number, so that a weight tells who set it.

use anyhow::{Context as _, Result, ensure};
use ddlab::{GuestConfig, Machine, Running, Target, wait};

use crate::{
    ddctl::{self, Vm},
    ddhostd,
    share::Share,
};

/// The VM that the file lists. The entry needs both, so that each is compared on every host.
pub(super) const NAME: &str = "one";
const UUID: &str = "6b0a5e44-1f0e-4b62-9d0c-0d9e6f6f0a11";

/// The weight that the module gives a VM until ddhostd has seen it.
const MODULE: u32 = 100;
/// Weights of the file: of the VM that it lists, and of all others.
const LISTED: u32 = 70;
const UNLISTED: u32 = 30;
/// The weight that the administrator of a host sets without saving it.
const FOR_NOW: u32 = 300;

/// Pages of the VM that the file does not list. It only has to register.
const FEW_PAGES: u64 = 32;

/// Returns the guest that the file lists.
pub(super) fn guest() -> GuestConfig {
    GuestConfig::new(NAME).vmm_arg("-uuid").vmm_arg(UUID)
}

/// Starts the daemon of a host.
pub(super) fn daemon(host: &Machine) -> Result<Running> {
    let file = format!(
        "default-weight = {UNLISTED}\n\n\
         [[vm]]\nname = \"{NAME}\"\nuuid = \"{UUID}\"\nweight = {LISTED}\n"
    );
    host.write_file(ddhostd::FILE_PATH, file)?;
    ddhostd::start(host)
}

/// Gives the guest another weight on the host where it is, and does not save it.
pub(super) fn set_for_now(host: &Machine) -> Result<()> {
    ddctl::run(host, &format!("set-weight {NAME} {FOR_NOW}"))?;
    is_for_now(host).context("it was just set")
}

/// The weight that was not saved is still in force on the host where it was set.
pub(super) fn is_for_now(host: &Machine) -> Result<()> {
    let vms = ddctl::vms(host)?;
    let weight = ddctl::vm(&vms, NAME)?.weight;
    ensure!(
        weight == FOR_NOW,
        "the weight that was set for now has become {weight}"
    );
    Ok(())
}

/// Looks at VMs that have just registered.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Number of looks that found the VM.
    all: u64,
    /// Those at which its weight was neither the module's nor that of the file.
    strange: u64,
}

impl Looks {
    /// Waits until the guest has registered at a host and has the weight of the file.
    pub(super) fn at_guest(&mut self, host: &Machine) -> Result<()> {
        wait::until("the guest has the weight of the file", || {
            let vms = ddctl::vms(host)?;
            let guest = ddctl::vm(&vms, NAME).ok();
            Ok(guest.and_then(|vm| self.has(vm, LISTED)))
        })
    }

    /// Starts a VM that the file does not list, on a host without VMs, and waits until it has the
    /// default weight of the file.
    pub(super) fn at_stranger(&mut self, host: &Machine) -> Result<()> {
        let stranger = Share::start(host, (1, FEW_PAGES, 0), None)?;
        wait::until("a VM without an entry has the default weight", || {
            let vms = ddctl::vms(host)?;
            Ok(vms.first().and_then(|vm| self.has(vm, UNLISTED)))
        })?;
        stranger.end()
    }

    /// Counts a look at a VM. Returns nothing until it has this weight.
    fn has(&mut self, vm: &Vm, weight: u32) -> Option<()> {
        self.all += 1;
        if ![MODULE, weight].contains(&vm.weight) {
            eprintln!("    a VM has weight {} instead of {weight}", vm.weight);
            self.strange += 1;
        }
        (vm.weight == weight).then_some(())
    }

    /// Returns the target for weights that come from neither the module nor the file of the host.
    pub(super) fn target(&self) -> Target {
        Target::none(
            "migration: looks at weights that are neither the module's nor the file's",
            self.strange,
        )
        .detail(format!("of {}", self.all))
    }
}
