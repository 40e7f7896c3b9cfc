// SPDX-License-Identifier: GPL-2.0-only

//! Memory that is plugged into a guest and unplugged, with a slot of KVM.

use anyhow::{Context as _, Result};
use ddlab::{COMPLETE, Guest, GuestConfig, Machine, wait};
use serde_json::json;

use crate::vmm::Vmm;

/// Minimum size that kernels accept.
pub(crate) const SIZE: u64 = 128 << 20;

/// Use of plugged-in memory by a guest's kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Usage {
    /// The kernel knows the memory and does not use it.
    Nothing,
    /// The kernel uses it for movable pages, such as those of files.
    Movable,
}

/// A guest into which memory can be plugged.
pub(crate) fn with_dimm_slot(config: GuestConfig, usage: Usage) -> GuestConfig {
    let state = match usage {
        Usage::Nothing => "offline",
        Usage::Movable => "online_movable",
    };
    let config = config.hardware(COMPLETE).vmm_arg("-m");
    let config = config.vmm_arg("slots=1,maxmem=4G");
    config.kernel_arg(format!("memhp_default_state={state}"))
}

/// The slot of a guest for a memory module.
pub(crate) struct DimmSlot<'a> {
    vmm: Vmm<'a>,
    guest: &'a Guest,
}

impl<'a> DimmSlot<'a> {
    /// Returns the slot of a guest that was configured with [`with_dimm_slot`].
    pub(crate) fn new(host: &'a Machine, guest: &'a Guest) -> Self {
        let vmm = Vmm::new(host, guest);
        Self { vmm, guest }
    }

    /// Plugs memory in, and waits until the guest's kernel has it. Returns its guest-physical
    /// address, which is the same each time.
    pub(crate) fn plug(&self) -> Result<u64> {
        // All of it is in the host's memory, also the part that the guest's kernel does not use.
        let memory = json!({
            "qom-type": "memory-backend-ram", "id": "bank", "size": SIZE, "prealloc": true,
        });
        self.vmm
            .ask(&json!({"execute": "object-add", "arguments": memory}))?;
        let device = json!({"driver": "pc-dimm", "id": "dimm", "memdev": "bank"});
        self.vmm
            .ask(&json!({"execute": "device_add", "arguments": device}))?;
        let address = self.address()?.context("the memory was not plugged in")?;
        let state = state(address);
        wait::until("the guest has the memory", || {
            Ok(self.guest.read_text(&state).ok().map(drop))
        })?;
        Ok(address)
    }

    /// Makes the guest's kernel release the memory, and unplugs it.
    pub(crate) fn unplug(&self) -> Result<()> {
        let address = self.address()?.context("nothing is plugged in")?;
        let state = state(address);
        wait::until("the guest's kernel has released the memory", || {
            // The kernel gives up if a page cannot be moved at that moment.
            let left = self.guest.write_file(&state, "offline").is_ok()
                || self.guest.read_text(&state)?.trim() == "offline";
            Ok(left.then_some(()))
        })?;
        let device = json!({"id": "dimm"});
        self.vmm
            .ask(&json!({"execute": "device_del", "arguments": device}))?;
        wait::until("the memory is unplugged", || {
            Ok(self.address()?.is_none().then_some(()))
        })?;
        let memory = json!({"id": "bank"});
        self.vmm
            .ask(&json!({"execute": "object-del", "arguments": memory}))
            .map(drop)
    }

    /// Returns the address of the plugged-in memory, if there is any.
    fn address(&self) -> Result<Option<u64>> {
        let devices = self.vmm.ask(&json!({"execute": "query-memory-devices"}))?;
        Ok(devices[0]["data"]["addr"].as_u64())
    }
}

/// Returns the file with the state of memory at an address.
fn state(address: u64) -> String {
    format!("/sys/devices/system/memory/memory{}/state", address / SIZE)
}
