// SPDX-License-Identifier: GPL-2.0-only

//! The host module in memory.

use super::{Fault, lock, not_found, refused};
use crate::{
    call::{check_path, check_weight},
    control::{AsyncHostControl, ConfigChange, FlushTarget, Flushed, HostControl, VmChange},
    error::Result,
    family::Side,
    reply::{Device, HostStatus, Pool, Vm},
};
use ddabi::{
    ABI_VERSION,
    counters::HostCounters,
    genl::Mode,
    ssd::{DeviceState, SsdStats, Waiting},
};
use std::sync::{Arc, Mutex};

/// State of the fake host module.
#[derive(Clone, Debug)]
pub struct HostState {
    /// How it responds to requests.
    pub fault: Fault,
    /// The reply to `status`.
    pub status: HostStatus,
    /// The VMs.
    pub vms: Vec<Vm>,
    /// The pools of all VMs.
    pub pools: Vec<Pool>,
    /// The devices of the SSD tier.
    pub devices: Vec<Device>,
    /// The changes of settings, in order.
    pub configured: Vec<ConfigChange>,
    /// The flush requests, in order.
    pub flushed: Vec<FlushTarget>,
    /// The reply to the next flush. The replies to later flushes are that no page is left.
    pub flush_step: Flushed,
    /// A VM that has ended since it was listed.
    pub gone: Option<u32>,
    /// The requests of a daemon, in order.
    pub asked: Vec<&'static str>,
}

impl Default for HostState {
    fn default() -> Self {
        Self {
            fault: Fault::None,
            status: HostStatus {
                abi_version: u32::from(ABI_VERSION),
                module_version: Some(ddabi::VERSION.into()),
                capacity: 1 << 18,
                limit: 1 << 18,
                used: 0,
                floor: 0,
                mode: Mode::Weighted,
                batch: 512,
                vms: 0,
                deadline: 20_000,
                waiting: Waiting::Automatic,
                retain: false,
                keep_free: 512,
                promote_free: 1 << 14,
                index_limit: 0,
                counters: HostCounters::default(),
            },
            vms: Vec::new(),
            pools: Vec::new(),
            devices: Vec::new(),
            configured: Vec::new(),
            flushed: Vec::new(),
            flush_step: Flushed::default(),
            gone: None,
            asked: Vec::new(),
        }
    }
}

/// A handle to a host module in memory.
#[derive(Clone, Debug, Default)]
pub struct FakeHost(Arc<Mutex<HostState>>);

impl FakeHost {
    /// Creates a module in this state.
    pub fn new(state: HostState) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    /// Reads or changes the state.
    pub fn with<T>(&self, look: impl FnOnce(&mut HostState) -> T) -> T {
        look(&mut lock(&self.0))
    }

    fn ask<T>(&self, answer: impl FnOnce(&HostState) -> T) -> Result<T> {
        self.with(|state| state.fault.query(Side::Host).map(|()| answer(state)))
    }

    fn change<T>(&self, change: impl FnOnce(&mut HostState) -> Result<T>) -> Result<T> {
        self.with(|state| {
            state.fault.change(Side::Host)?;
            change(state)
        })
    }
}

impl HostControl for FakeHost {
    fn status(&mut self) -> Result<HostStatus> {
        self.ask(|state| HostStatus {
            vms: u32::try_from(state.vms.len()).unwrap_or(u32::MAX),
            ..state.status.clone()
        })
    }

    fn vms(&mut self) -> Result<Vec<Vm>> {
        self.ask(|state| state.vms.clone())
    }

    fn pools(&mut self, vm: Option<u32>) -> Result<Vec<Pool>> {
        self.ask(|state| {
            let wanted = |pool: &&Pool| vm.is_none() || pool.vm == vm;
            state.pools.iter().filter(wanted).cloned().collect()
        })
    }

    fn set_vm(&mut self, vm: u32, change: VmChange) -> Result<u64> {
        for weight in [change.weight, change.ssd_weight].into_iter().flatten() {
            check_weight(weight)?;
        }
        self.change(|state| {
            let gone = state.gone;
            let is_it = |candidate: &&mut Vm| candidate.id == vm && gone != Some(vm);
            let vm = state.vms.iter_mut().find(is_it);
            let vm = vm.ok_or_else(|| not_found("no such VM".into()))?;
            vm.weight = change.weight.unwrap_or(vm.weight);
            vm.ssd_weight = change.ssd_weight.unwrap_or(vm.ssd_weight);
            // By the next request the pages of a VM without weight have been evicted.
            let is_off = vm.weight == 0 && vm.ssd_weight == 0;
            Ok(if is_off {
                std::mem::take(&mut vm.used)
            } else {
                0
            })
        })
    }

    fn configure(&mut self, change: &ConfigChange) -> Result<u64> {
        self.change(|state| {
            let status = &state.status;
            let capacity = change.capacity.unwrap_or(status.capacity);
            let floor = change.floor.unwrap_or(status.floor.min(capacity));
            if floor > capacity {
                return Err(refused(22, "floor above capacity"));
            }
            let status = &mut state.status;
            status.limit = if status.limit < status.capacity {
                status.limit.min(capacity)
            } else {
                capacity
            };
            status.capacity = capacity;
            status.floor = floor;
            status.mode = change.mode.unwrap_or(status.mode);
            status.batch = change.batch.unwrap_or(status.batch);
            status.deadline = change.deadline.unwrap_or(status.deadline);
            status.retain = change.retain.unwrap_or(status.retain);
            status.waiting = change.waiting.unwrap_or(status.waiting);
            status.keep_free = change.keep_free.unwrap_or(status.keep_free);
            status.promote_free = change.promote_free.unwrap_or(status.promote_free);
            status.index_limit = change.index_limit.unwrap_or(status.index_limit);
            state.configured.push(*change);
            let left = status.used.saturating_sub(status.limit);
            // By the next status request they have been evicted.
            status.used -= left;
            Ok(left)
        })
    }

    fn flush(&mut self, target: FlushTarget) -> Result<Flushed> {
        self.change(|state| {
            let known = |vm: u32| state.vms.iter().any(|candidate| candidate.id == vm);
            if target.vm.is_some_and(|vm| !known(vm)) {
                return Err(not_found("no such VM".into()));
            }
            state.flushed.push(target);
            Ok(std::mem::take(&mut state.flush_step))
        })
    }

    fn devices(&mut self) -> Result<Vec<Device>> {
        self.ask(|state| state.devices.clone())
    }

    fn add_device(&mut self, path: &str) -> Result<u32> {
        check_path(path)?;
        self.change(|state| {
            if state.devices.iter().any(|device| device.path == path) {
                return Err(refused(16, "the device is in use"));
            }
            // Choose a number that no device has.
            let ids = state.devices.iter().map(|device| device.id + 1);
            let id = ids.max().unwrap_or(0);
            state.devices.push(Device {
                id,
                path: path.into(),
                state: DeviceState::Active,
                stats: SsdStats {
                    places: 1 << 18,
                    segment_places: 512,
                    segments: 512,
                    free_segments: 512,
                    ..SsdStats::default()
                },
            });
            Ok(id)
        })
    }

    fn remove_device(&mut self, device: u32) -> Result<u64> {
        self.change(|state| {
            let at = state.devices.iter().position(|other| other.id == device);
            let at = at.ok_or_else(|| not_found("there is no such device".into()))?;
            let step = std::mem::take(&mut state.flush_step);
            if step.left == 0 {
                state.devices.remove(at);
            }
            Ok(step.left)
        })
    }

    fn set_write_budget(&mut self, device: u32, pages: u64) -> Result<()> {
        self.change(|state| {
            if pages > 1_000_000_000 {
                let words = "the write budget is more than 10^9 pages in a second";
                return Err(refused(22, words));
            }
            let is_it = |other: &&mut Device| other.id == device;
            let device = state.devices.iter_mut().find(is_it);
            let device = device.ok_or_else(|| not_found("there is no such device".into()))?;
            device.stats.write_budget = pages;
            Ok(())
        })
    }
}

impl AsyncHostControl for FakeHost {
    async fn status(&mut self) -> Result<HostStatus> {
        HostControl::status(self)
    }

    async fn vms(&mut self) -> Result<Vec<Vm>> {
        HostControl::vms(self)
    }

    async fn pools(&mut self, vm: u32) -> Result<Vec<Pool>> {
        self.with(|state| state.asked.push("pools"));
        HostControl::pools(self, Some(vm))
    }

    async fn devices(&mut self) -> Result<Vec<Device>> {
        HostControl::devices(self)
    }

    async fn set_vm(&mut self, vm: u32, change: VmChange) -> Result<u64> {
        self.with(|state| state.asked.push("set_vm"));
        HostControl::set_vm(self, vm, change)
    }

    async fn configure(&mut self, change: &ConfigChange) -> Result<u64> {
        HostControl::configure(self, change)
    }

    async fn add_device(&mut self, path: &str) -> Result<u32> {
        HostControl::add_device(self, path)
    }

    async fn remove_device(&mut self, device: u32) -> Result<u64> {
        HostControl::remove_device(self, device)
    }

    async fn set_write_budget(&mut self, device: u32, pages: u64) -> Result<()> {
        HostControl::set_write_budget(self, device, pages)
    }
}
