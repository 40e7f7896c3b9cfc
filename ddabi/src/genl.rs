// SPDX-License-Identifier: GPL-2.0-only

//! Generic netlink commands and attributes of both modules.
//!
//! `docs/netlink/*.yaml` is the specification; a test compares it with these constants. All
//! commands need CAP_NET_ADMIN in the initial namespace (`GENL_ADMIN_PERM`).

/// Family name of the host module.
pub const HOST_FAMILY: &str = "dd_host";

/// Family name of the guest module.
pub const GUEST_FAMILY: &str = "dd_guest";

/// Version of both families.
pub const VERSION: u8 = 1;

/// Multicast group of both families.
pub const EVENTS_GROUP: &str = "events";

/// Commands of the host family.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum HostCommand {
    /// Get: version, capacity, limit, used, floor, mode, batch, deadline, waiting, retain,
    /// keep-free, promote-free, index-limit, counters, vms.
    Status = 1,
    /// Dump: one message for each VM (vm-id, vm-pid, weight, ssd-weight, used, entitlement, pools,
    /// stats).
    VmList = 2,
    /// Set a VM's weights (vm-id, weight, ssd-weight). Pages of a VM without weight are evicted in
    /// the background; the reply contains their number (left).
    VmSet = 3,
    /// Dump: one message for each pool (vm-id, pool-id, name, weight, ssd-weight, store, policy,
    /// ssd-admit, stats), of one VM if vm-id is given.
    PoolList = 4,
    /// Set any of capacity, floor, mode, batch, deadline, waiting, retain, keep-free, promote-free,
    /// index-limit. Pages beyond the capacity are evicted in the background; the reply contains
    /// their number (left).
    ConfigSet = 5,
    /// Drop pages: of one VM if vm-id is given, of one pool if pool-id is given too. A command
    /// evicts at most 64 MiB. The reply contains the numbers of pages that were evicted (evicted)
    /// and that remain (left).
    Flush = 6,
    /// Notification on [`EVENTS_GROUP`] (event, vm-id, vm-pid, pool-id, name).
    Event = 7,
    /// Add a block device to the SSD tier (path). The reply contains its number (device).
    SsdAdd = 8,
    /// Remove a device from the SSD tier (device). Its pages are dropped in the background; the
    /// reply contains the number of pages that remain (left). The device has been removed when this
    /// number is 0.
    SsdRemove = 9,
    /// Dump: one message for each device of the SSD tier (device, path, device-state, ssd-stats).
    SsdList = 10,
    /// Set the write-budget of a device of the SSD tier (device).
    SsdSet = 11,
}

/// Commands of the guest family.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum GuestCommand {
    /// Get: version, state, vm-id, features, pools, counters.
    Status = 1,
    /// Dump: one message for each pool (pool-id, name, cgroup-id, cgroup-path, weight, ssd-weight,
    /// store, policy, ssd-admit, admission, curve, stats).
    PoolList = 2,
    /// Enrol a container (cgroup-path, name, weight, ssd-weight, store, policy, ssd-admit). The
    /// reply contains its pool-id.
    PoolAdd = 3,
    /// Set any of weight, ssd-weight, store, policy and ssd-admit of a pool (pool-id); pool 0 is
    /// the default pool.
    PoolSet = 4,
    /// Remove a container and its pool (pool-id).
    PoolRemove = 5,
    /// Drop all pages of the VM, or of one pool if pool-id is given.
    Flush = 6,
    /// Move a file's pages to a pool (file descriptor in file-fd, pool-id).
    Migrate = 7,
    /// Notification on [`EVENTS_GROUP`] (event, pool-id, name).
    Event = 8,
}

/// Attributes of both families.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u16)]
pub enum Attribute {
    /// u32: ABI version of the module.
    AbiVersion = 1,
    /// string: version of the module.
    ModuleVersion = 2,
    /// u32: a [`LinkState`].
    State = 3,
    /// u32: a VM's number, from 1.
    VmId = 4,
    /// u32: process id of the VMM in the initial namespace.
    VmPid = 5,
    /// u32: a pool's number inside its VM; 0 is the default pool.
    PoolId = 6,
    /// string, at most [`crate::NAME_LEN`] bytes.
    Name = 7,
    /// u64: kernfs id of a cgroup.
    CgroupId = 8,
    /// string: path of a cgroup below the cgroup root, beginning with a slash.
    CgroupPath = 9,
    /// u32: 0 to [`crate::pool::MAX_WEIGHT`].
    Weight = 10,
    /// u32: a [`crate::pool::Store`].
    Store = 11,
    /// u64: capacity of the memory tier in pages.
    Capacity = 12,
    /// u64: pages in use.
    Used = 13,
    /// u64: entitlement in pages.
    Entitlement = 14,
    /// u64: pages that the shrinker does not take.
    Floor = 15,
    /// u32: a [`Mode`].
    Mode = 16,
    /// u32: pages of an eviction batch.
    Batch = 17,
    /// binary: a [`crate::pool::PoolStats`].
    Stats = 18,
    /// binary: a [`crate::counters::HostCounters`] or [`crate::counters::GuestCounters`].
    Counters = 19,
    /// u32: an [`Event`].
    Event = 20,
    /// u64: negotiated features.
    Features = 21,
    /// u32: number of VMs.
    Vms = 22,
    /// u32: number of pools.
    Pools = 23,
    /// u32: an open file descriptor of the caller.
    FileFd = 24,
    /// u32: a policy (`ddcore::policy::Policy`).
    Policy = 25,
    /// binary: a [`crate::counters::AdmissionCounters`].
    Admission = 26,
    /// binary: [`crate::counters::CurvePoint`]s in ascending order, without points that have as
    /// many hits as their predecessor.
    Curve = 27,
    /// u64: pages of the memory tier's capacity that its host can spare now.
    Limit = 28,
    /// u64: pages that a command has evicted.
    Evicted = 29,
    /// u64: pages that are still to be evicted after a command.
    Left = 30,
    /// u32: weight in the SSD tier, 0 to [`crate::pool::MAX_WEIGHT`].
    SsdWeight = 31,
    /// string: path of a block device.
    Path = 32,
    /// u32: number of a device of the SSD tier.
    Device = 33,
    /// u32: a [`crate::ssd::DeviceState`].
    DeviceState = 34,
    /// binary: a [`crate::ssd::SsdStats`].
    SsdStats = 35,
    /// u32: microseconds that a get may wait for a device.
    Deadline = 36,
    /// u64: pages of the memory tier that are kept free in the background; in requests,
    /// [`AUTOMATIC`] stands for a fixed part of the capacity.
    KeepFree = 37,
    /// u64: free pages of the memory tier above which pages of the SSD tier are promoted; in
    /// requests, [`AUTOMATIC`] stands for a fixed part of the capacity.
    PromoteFree = 38,
    /// u64: pages that may be written to a device per second, or 0 for no limit.
    WriteBudget = 39,
    /// u32: a [`crate::ssd::Waiting`].
    Waiting = 40,
    /// u32: a [`crate::pool::SsdAdmit`].
    SsdAdmit = 41,
    /// u32: 1 if the SSD tier keeps the pages that it returns, otherwise 0.
    Retain = 42,
    /// u64: pages that the host's index may take before pages leave the SSD tier, or 0 for no
    /// limit.
    IndexLimit = 43,
}

/// Value of an attribute that lets the module choose the number of pages.
pub const AUTOMATIC: u64 = u64::MAX;

/// The largest attribute number.
pub const ATTRIBUTE_MAX: u16 = Attribute::IndexLimit as u16;

/// State of the guest module's link to a host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum LinkState {
    /// No host module answers. Nothing is cached, and no function is hooked.
    Alone = 0,
    /// The guest is registered, and pages are cached.
    Attached = 1,
    /// The host refuses this guest, or the module cannot attach to the kernel; see the log.
    Refused = 2,
}

/// How the host divides its tier.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Mode {
    /// Two-level weights (Algorithm 1 of the paper).
    Weighted = 0,
    /// One global FIFO without shares, for comparison.
    GlobalFifo = 1,
}

/// Events that are reported to the multicast group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Event {
    /// A VM registered.
    VmCame = 1,
    /// A VM ended or unregistered.
    VmWent = 2,
    /// A pool was created.
    PoolCame = 3,
    /// A pool was destroyed.
    PoolWent = 4,
    /// The guest module found a host.
    HostFound = 5,
    /// The guest module lost its host.
    HostLost = 6,
    /// The guest was rolled back and began a new session.
    Rollback = 7,
}

macro_rules! from_raw {
    ($($type:ident: $raw:ty { $($variant:ident),* })*) => {$(
        impl $type {
            /// Returns the variant with this number, if there is one.
            pub const fn from_raw(raw: $raw) -> Option<Self> {
                $(if raw == Self::$variant as $raw { return Some(Self::$variant); })*
                None
            }
        }
    )*};
}

from_raw! {
    HostCommand: u8 {
        Status, VmList, VmSet, PoolList, ConfigSet, Flush, Event, SsdAdd, SsdRemove, SsdList,
        SsdSet
    }
    GuestCommand: u8 { Status, PoolList, PoolAdd, PoolSet, PoolRemove, Flush, Migrate, Event }
    LinkState: u32 { Alone, Attached, Refused }
    Mode: u32 { Weighted, GlobalFifo }
    Event: u32 { VmCame, VmWent, PoolCame, PoolWent, HostFound, HostLost, Rollback }
}
