// SPDX-License-Identifier: GPL-2.0-only

//! Memory that is plugged into a guest and taken out again: a slot of KVM's comes and goes.

use anyhow::{Context as _, Result};
use ddlab::{Guest, GuestConfig, Machine, wait};
use serde_json::json;

use crate::vmm::Vmm;

/// Hardware that takes memory while it runs.
const HARDWARE: &str = "q35,smm=off";
/// The least that kernels take.
pub(crate) const SIZE: u64 = 128 << 20;

/// What a guest's kernel does with memory that is plugged in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Usage {
    /// It knows of it, and leaves it alone.
    Nothing,
    /// It keeps there what it can move elsewhere, such as files.
    Movable,
}

/// A guest into which memory can be plugged.
pub(crate) fn with_bay(config: GuestConfig, usage: Usage) -> GuestConfig {
    let state = match usage {
        Usage::Nothing => "offline",
        Usage::Movable => "online_movable",
    };
    let config = config.hardware(HARDWARE).vmm_arg("-m");
    let config = config.vmm_arg("slots=1,maxmem=4G");
    config.kernel_arg(format!("memhp_default_state={state}"))
}

/// Where memory is plugged in.
pub(crate) struct Bay<'a> {
    vmm: Vmm<'a>,
    guest: &'a Guest,
}

impl<'a> Bay<'a> {
    /// That of a guest which has one.
    pub(crate) fn new(host: &'a Machine, guest: &'a Guest) -> Self {
        let vmm = Vmm::new(host, guest);
        Self { vmm, guest }
    }

    /// Plugs memory in, and waits until the guest's kernel has it. Its guest-physical address,
    /// which is the same each time.
    pub(crate) fn plug(&self) -> Result<u64> {
        // All of it is in the host's memory, also what the guest's kernel leaves alone.
        let memory = json!({
            "qom-type": "memory-backend-ram", "id": "bank", "size": SIZE, "prealloc": true,
        });
        self.vmm
            .ask(&json!({"execute": "object-add", "arguments": memory}))?;
        let device = json!({"driver": "pc-dimm", "id": "dimm", "memdev": "bank"});
        self.vmm
            .ask(&json!({"execute": "device_add", "arguments": device}))?;
        let address = self.address()?.context("it was just plugged in")?;
        let state = state(address);
        wait::until("the guest has the memory", || {
            Ok(self.guest.read_text(&state).ok().map(drop))
        })?;
        Ok(address)
    }

    /// Has the guest's kernel leave the memory, and takes it out.
    pub(crate) fn unplug(&self) -> Result<()> {
        let address = self.address()?.context("nothing is plugged in")?;
        let state = state(address);
        wait::until("the guest has left the memory", || {
            // It gives up when something can not be moved just then.
            let left = self.guest.write_file(&state, "offline").is_ok()
                || self.guest.read_text(&state)?.trim() == "offline";
            Ok(left.then_some(()))
        })?;
        let device = json!({"id": "dimm"});
        self.vmm
            .ask(&json!({"execute": "device_del", "arguments": device}))?;
        wait::until("the memory is out", || {
            Ok(self.address()?.is_none().then_some(()))
        })?;
        let memory = json!({"id": "bank"});
        self.vmm
            .ask(&json!({"execute": "object-del", "arguments": memory}))
            .map(drop)
    }

    /// Where there is memory now.
    fn address(&self) -> Result<Option<u64>> {
        let devices = self.vmm.ask(&json!({"execute": "query-memory-devices"}))?;
        Ok(devices[0]["data"]["addr"].as_u64())
    }
}

/// Where a guest's kernel tells what it does with memory at an address.
fn state(address: u64) -> String {
    format!("/sys/devices/system/memory/memory{}/state", address / SIZE)
}
