// SPDX-License-Identifier: GPL-2.0-only

//! Interface of the modules for the tools. It is implemented over a socket, and by a fake for
//! tests.

use crate::{
    error::Result,
    reply::{Device, Event, GuestStatus, HostStatus, Pool, Vm},
};
use ddabi::{
    genl::Mode,
    policy::Policy,
    pool::{SsdAdmit, Store},
    ssd::Waiting,
};

/// A change of the host's settings. Settings that are `None` stay unchanged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ConfigChange {
    /// Capacity of the memory tier in pages.
    pub capacity: Option<u64>,
    /// Pages that the shrinker does not take.
    pub floor: Option<u64>,
    /// How the tier is shared.
    pub mode: Option<Mode>,
    /// Pages of an eviction batch.
    pub batch: Option<u32>,
    /// Microseconds that a get may wait for a device.
    pub deadline: Option<u32>,
    /// How gets wait for reads of the SSD tier.
    pub waiting: Option<Waiting>,
    /// Whether pages that are returned to guests stay on the devices of the SSD tier.
    pub retain: Option<bool>,
    /// Pages that are kept free, or [`AUTOMATIC`](ddabi::genl::AUTOMATIC).
    pub keep_free: Option<u64>,
    /// Free pages above which pages are promoted, or [`AUTOMATIC`](ddabi::genl::AUTOMATIC).
    pub promote_free: Option<u64>,
    /// Pages that the host's index may take before pages leave the SSD tier; 0 means no limit.
    pub index_limit: Option<u64>,
}

/// A change of a VM's settings. Settings that are `None` stay unchanged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct VmChange {
    /// Weight in the memory tier.
    pub weight: Option<u32>,
    /// Weight in the SSD tier, which equals the weight in the memory tier until it is set.
    pub ssd_weight: Option<u32>,
}

/// The pages to flush at the host: all, those of a VM, or those of a pool of a VM.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FlushTarget {
    /// The VM; all VMs if absent.
    pub vm: Option<u32>,
    /// The pool; all pools if absent.
    pub pool: Option<u32>,
}

/// The result of one step of a flush.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Flushed {
    /// Pages that were evicted.
    pub evicted: u64,
    /// Pages that the target still holds.
    pub left: u64,
}

/// A container to enrol.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewPool {
    /// Path below the cgroup root, beginning with a slash.
    pub cgroup: String,
    /// Name shown to administrators on both sides.
    pub name: String,
    /// Weight among the VM's pools.
    pub weight: u32,
    /// Weight in the SSD tier; `weight` if absent.
    pub ssd_weight: Option<u32>,
    /// Where its pages are kept.
    pub store: Store,
    /// Policy that chooses which pages are kept; the module's default if absent.
    pub policy: Option<Policy>,
    /// Which pages go to the SSD tier; all if absent.
    pub ssd_admit: Option<SsdAdmit>,
}

/// A change of a pool's settings. Settings that are `None` stay unchanged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PoolChange {
    /// Weight among the VM's pools.
    pub weight: Option<u32>,
    /// Weight in the SSD tier.
    pub ssd_weight: Option<u32>,
    /// Where its pages are kept.
    pub store: Option<Store>,
    /// Policy that chooses which pages are kept.
    pub policy: Option<Policy>,
    /// Which pages go to the SSD tier.
    pub ssd_admit: Option<SsdAdmit>,
}

/// The host module, as its administrator controls it.
pub trait HostControl {
    /// Returns the state of the module and its tier. Fails if the ABI version of the module
    /// differs.
    fn status(&mut self) -> Result<HostStatus>;
    /// Returns all VMs.
    fn vms(&mut self) -> Result<Vec<Vm>>;
    /// Returns the pools of one VM, or of all VMs.
    fn pools(&mut self, vm: Option<u32>) -> Result<Vec<Pool>>;
    /// Changes the settings that are given in `change`. Returns the number of pages that the module
    /// evicts in the background because the VM no longer has a weight.
    fn set_vm(&mut self, vm: u32, change: VmChange) -> Result<u64>;
    /// Changes the settings that are given in `change`. Returns the number of pages that the module
    /// evicts in the background because they are beyond the limit.
    fn configure(&mut self, change: &ConfigChange) -> Result<u64>;
    /// Drops at most 64 MiB of pages.
    fn flush(&mut self, target: FlushTarget) -> Result<Flushed>;
    /// Returns all devices of the SSD tier.
    fn devices(&mut self) -> Result<Vec<Device>>;
    /// Adds a block device to the SSD tier. The content of the device is lost. Returns its number.
    fn add_device(&mut self, path: &str) -> Result<u32>;
    /// Removes a device from the SSD tier. Its pages are dropped in the background. Returns the
    /// number of pages that remain. The device has been removed when a call returns 0.
    fn remove_device(&mut self, device: u32) -> Result<u64>;
    /// Sets the number of pages that may be written to a device per second; 0 means no limit.
    fn set_write_budget(&mut self, device: u32, pages: u64) -> Result<()>;
}

/// The guest module, as its administrator controls it.
pub trait GuestControl {
    /// Returns the state of the module and its link to a host. Fails if the ABI version of the
    /// module differs.
    fn status(&mut self) -> Result<GuestStatus>;
    /// Returns all pools, including the default pool.
    fn pools(&mut self) -> Result<Vec<Pool>>;
    /// Enrols a container. Returns the number of its pool.
    fn add_pool(&mut self, pool: &NewPool) -> Result<u32>;
    /// Changes the settings that are given in `change`.
    fn set_pool(&mut self, pool: u32, change: PoolChange) -> Result<()>;
    /// Removes a container and drops its pages.
    fn remove_pool(&mut self, pool: u32) -> Result<()>;
    /// Drops the pages of one pool, or of the whole VM.
    fn flush(&mut self, pool: Option<u32>) -> Result<()>;
    /// Moves the pages of an open file to a pool.
    fn migrate(&mut self, file: u32, pool: u32) -> Result<()>;
}

/// The part of [`GuestControl`] that daemons need to apply policies.
pub trait AsyncGuestControl {
    /// Returns the state of the module and its link to a host. Fails if the ABI version of the
    /// module differs.
    fn status(&mut self) -> impl Future<Output = Result<GuestStatus>>;
    /// Returns all pools, including the default pool.
    fn pools(&mut self) -> impl Future<Output = Result<Vec<Pool>>>;
    /// Enrols a container. Returns the number of its pool.
    fn add_pool(&mut self, pool: &NewPool) -> impl Future<Output = Result<u32>>;
    /// Changes the settings that are given in `change`.
    fn set_pool(&mut self, pool: u32, change: PoolChange) -> impl Future<Output = Result<()>>;
    /// Removes a container and drops its pages.
    fn remove_pool(&mut self, pool: u32) -> impl Future<Output = Result<()>>;
}

/// The part of [`HostControl`] that daemons need to apply settings and to export measurements.
pub trait AsyncHostControl {
    /// Returns the state of the module and its tier. Fails if the ABI version of the module
    /// differs.
    fn status(&mut self) -> impl Future<Output = Result<HostStatus>>;
    /// Returns all VMs.
    fn vms(&mut self) -> impl Future<Output = Result<Vec<Vm>>>;
    /// Returns the pools of one VM.
    fn pools(&mut self, vm: u32) -> impl Future<Output = Result<Vec<Pool>>>;
    /// Returns all devices of the SSD tier.
    fn devices(&mut self) -> impl Future<Output = Result<Vec<Device>>>;
    /// Changes the settings that are given in `change`. Returns the number of pages that the module
    /// evicts in the background because the VM no longer has a weight.
    fn set_vm(&mut self, vm: u32, change: VmChange) -> impl Future<Output = Result<u64>>;
    /// Changes the settings that are given in `change`. Returns the number of pages that the module
    /// evicts in the background because they are beyond the limit.
    fn configure(&mut self, change: &ConfigChange) -> impl Future<Output = Result<u64>>;
    /// Adds a block device to the SSD tier. The content of the device is lost. Returns its number.
    fn add_device(&mut self, path: &str) -> impl Future<Output = Result<u32>>;
    /// Removes a device from the SSD tier, as [`HostControl::remove_device`] does.
    fn remove_device(&mut self, device: u32) -> impl Future<Output = Result<u64>>;
    /// Sets the number of pages that may be written to a device per second; 0 means no limit.
    fn set_write_budget(&mut self, device: u32, pages: u64) -> impl Future<Output = Result<()>>;
}

/// The events of a module, in order.
pub trait EventSource {
    /// Waits for the next event. Returns `None` if no more events will arrive.
    fn next_event(&mut self) -> Result<Option<Event>>;
}
