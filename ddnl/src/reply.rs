// SPDX-License-Identifier: GPL-2.0-only

//! Typed answers of the modules. Their JSON names are an interface: see `docs/users/ddctl.md`.

use crate::{
    attributes::Attributes,
    counters,
    error::{Error, Result},
    family::Side,
};
use ddabi::{
    ABI_VERSION,
    counters::{AdmissionCounters, CurvePoint, GuestCounters, HostCounters},
    genl::{self, Attribute, LinkState, Mode},
    policy::Policy,
    pool::{PoolStats, SsdAdmit, Store},
    ssd::{DeviceState, SsdStats, Waiting},
};
use serde::{Serialize, Serializer};

/// The host module and its memory tier.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostStatus {
    /// ABI version of the module.
    pub abi_version: u32,
    /// The module's own version.
    pub module_version: Option<String>,
    /// Capacity of the memory tier in pages.
    #[serde(rename = "capacity_pages")]
    pub capacity: u64,
    /// Part of the capacity in pages that the host can spare at present.
    #[serde(rename = "limit_pages")]
    pub limit: u64,
    /// Pages in use.
    #[serde(rename = "used_pages")]
    pub used: u64,
    /// Pages that the shrinker does not take.
    #[serde(rename = "floor_pages")]
    pub floor: u64,
    /// How the tier is shared.
    #[serde(serialize_with = "mode_name")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub mode: Mode,
    /// Pages of an eviction batch.
    #[serde(rename = "batch_pages")]
    pub batch: u32,
    /// Number of VMs.
    pub vms: u32,
    /// Microseconds that a get may wait for a device of the SSD tier.
    #[serde(rename = "deadline_us")]
    pub deadline: u32,
    /// How gets wait for reads of the SSD tier.
    #[serde(serialize_with = "waiting_name")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub waiting: Waiting,
    /// Whether pages that are returned to guests stay on the devices of the SSD tier.
    pub retain: bool,
    /// Pages that are kept free in the background.
    #[serde(rename = "keep_free_pages")]
    pub keep_free: u64,
    /// Free pages above which pages of the SSD tier are promoted.
    #[serde(rename = "promote_free_pages")]
    pub promote_free: u64,
    /// Pages that the host's index may take before pages leave the SSD tier; 0 means no limit.
    #[serde(rename = "index_limit_pages")]
    pub index_limit: u64,
    /// Counters of the module.
    #[serde(serialize_with = "counters::serialize")]
    #[cfg_attr(
        feature = "schema",
        schemars(schema_with = "counters::schema::<HostCounters>")
    )]
    pub counters: HostCounters,
}

impl HostStatus {
    pub(crate) fn read(reply: &Attributes) -> Result<Self> {
        let (abi_version, module_version) = version(Side::Host, reply)?;
        Ok(Self {
            abi_version,
            module_version,
            capacity: reply.need_u64(Attribute::Capacity)?,
            limit: reply.need_u64(Attribute::Limit)?,
            used: reply.need_u64(Attribute::Used)?,
            floor: reply.need_u64(Attribute::Floor)?,
            mode: known(reply, Attribute::Mode, Mode::from_raw)?,
            batch: reply.need_u32(Attribute::Batch)?,
            keep_free: reply.need_u64(Attribute::KeepFree)?,
            promote_free: reply.need_u64(Attribute::PromoteFree)?,
            index_limit: reply.need_u64(Attribute::IndexLimit)?,
            vms: reply.need_u32(Attribute::Vms)?,
            deadline: reply.need_u32(Attribute::Deadline)?,
            waiting: known(reply, Attribute::Waiting, Waiting::from_raw)?,
            retain: reply.need_u32(Attribute::Retain)? != 0,
            counters: reply.need_binary(Attribute::Counters)?,
        })
    }
}

/// The guest module and its link to a host.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuestStatus {
    /// ABI version of the module.
    pub abi_version: u32,
    /// The module's own version.
    pub module_version: Option<String>,
    /// State of the link to the host.
    #[serde(serialize_with = "state_name")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub state: LinkState,
    /// This VM's number at the host, while attached.
    pub vm: Option<u32>,
    /// Negotiated features.
    pub features: Option<u64>,
    /// Number of pools, the default pool included.
    pub pools: u32,
    /// Counters of the module.
    #[serde(serialize_with = "counters::serialize")]
    #[cfg_attr(
        feature = "schema",
        schemars(schema_with = "counters::schema::<GuestCounters>")
    )]
    pub counters: GuestCounters,
}

impl GuestStatus {
    pub(crate) fn read(reply: &Attributes) -> Result<Self> {
        let (abi_version, module_version) = version(Side::Guest, reply)?;
        Ok(Self {
            abi_version,
            module_version,
            state: known(reply, Attribute::State, LinkState::from_raw)?,
            vm: reply.maybe_u32(Attribute::VmId)?.filter(|vm| *vm != 0),
            features: reply.maybe_u64(Attribute::Features)?,
            pools: reply.need_u32(Attribute::Pools)?,
            counters: reply.need_binary(Attribute::Counters)?,
        })
    }
}

/// A VM at the host.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Vm {
    /// Its number, from 1.
    pub id: u32,
    /// Process ID of its VMM; 0, and null in JSON, if the process has ended.
    #[serde(serialize_with = "pid_or_null")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u32>"))]
    pub pid: u32,
    /// Weight among the VMs.
    pub weight: u32,
    /// Weight among the VMs in the SSD tier.
    pub ssd_weight: u32,
    /// Pages in use.
    #[serde(rename = "used_pages")]
    pub used: u64,
    /// Entitlement in pages.
    #[serde(rename = "entitlement_pages")]
    pub entitlement: u64,
    /// Number of pools, the default pool included.
    pub pools: u32,
    /// Sums of the counters of its pools.
    #[serde(serialize_with = "counters::serialize")]
    #[cfg_attr(
        feature = "schema",
        schemars(schema_with = "counters::schema::<PoolStats>")
    )]
    pub stats: PoolStats,
}

impl Vm {
    pub(crate) fn read(reply: &Attributes) -> Result<Self> {
        Ok(Self {
            id: reply.need_u32(Attribute::VmId)?,
            pid: reply.need_u32(Attribute::VmPid)?,
            weight: reply.need_u32(Attribute::Weight)?,
            ssd_weight: reply.need_u32(Attribute::SsdWeight)?,
            used: reply.need_u64(Attribute::Used)?,
            entitlement: reply.need_u64(Attribute::Entitlement)?,
            pools: reply.need_u32(Attribute::Pools)?,
            stats: reply.need_binary(Attribute::Stats)?,
        })
    }
}

/// A device of the host's SSD tier.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Device {
    /// Its number.
    pub id: u32,
    /// The path by which it was added.
    pub path: String,
    /// Its state.
    #[serde(serialize_with = "device_state_name")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub state: DeviceState,
    /// Its size and counters.
    #[serde(serialize_with = "counters::serialize")]
    #[cfg_attr(
        feature = "schema",
        schemars(schema_with = "counters::schema::<SsdStats>")
    )]
    pub stats: SsdStats,
}

impl Device {
    pub(crate) fn read(reply: &Attributes) -> Result<Self> {
        Ok(Self {
            id: reply.need_u32(Attribute::Device)?,
            path: reply.maybe_string(Attribute::Path).unwrap_or_default(),
            state: known(reply, Attribute::DeviceState, DeviceState::from_raw)?,
            stats: reply.need_binary(Attribute::SsdStats)?,
        })
    }
}

/// A pool, seen from the host or from its guest.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pool {
    /// Its VM; only at the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<u32>,
    /// Its number inside the VM; 0 is the default pool.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Number of its cgroup; only in the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_id: Option<u64>,
    /// Path of its cgroup below the cgroup root; only in the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Weight among the VM's pools.
    pub weight: u32,
    /// Weight among the VM's pools in the SSD tier.
    pub ssd_weight: u32,
    /// Where its pages are kept.
    #[serde(serialize_with = "store_name")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub store: Store,
    /// Policy that chooses which pages are kept.
    #[serde(serialize_with = "policy_name")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub policy: Policy,
    /// Which pages go to the SSD tier.
    #[serde(serialize_with = "admit_name")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub ssd_admit: SsdAdmit,
    /// The guest's decisions about its pages; only in the guest.
    #[serde(
        serialize_with = "counters::serialize_maybe",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(
        feature = "schema",
        schemars(schema_with = "counters::schema::<AdmissionCounters>")
    )]
    pub admission: Option<AdmissionCounters>,
    /// Hits that the pool would have had with other numbers of pages; only in the guest; shown by
    /// `ddctl stats --curve`.
    #[serde(skip)]
    pub curve: Option<Vec<CurvePoint>>,
    /// The host's counters; absent in a guest without a host.
    #[serde(serialize_with = "counters::serialize_maybe")]
    #[cfg_attr(
        feature = "schema",
        schemars(schema_with = "counters::schema_or_null::<PoolStats>")
    )]
    pub stats: Option<PoolStats>,
}

impl Pool {
    pub(crate) fn read(reply: &Attributes) -> Result<Self> {
        Ok(Self {
            vm: reply.maybe_u32(Attribute::VmId)?,
            id: reply.need_u32(Attribute::PoolId)?,
            name: reply.maybe_string(Attribute::Name).unwrap_or_default(),
            cgroup_id: reply.maybe_u64(Attribute::CgroupId)?,
            cgroup: reply.maybe_string(Attribute::CgroupPath),
            weight: reply.need_u32(Attribute::Weight)?,
            ssd_weight: reply.need_u32(Attribute::SsdWeight)?,
            store: known(reply, Attribute::Store, Store::from_raw)?,
            policy: known(reply, Attribute::Policy, Policy::from_raw)?,
            ssd_admit: known(reply, Attribute::SsdAdmit, SsdAdmit::from_raw)?,
            admission: reply.maybe_binary(Attribute::Admission)?,
            curve: reply.maybe_list(Attribute::Curve)?,
            stats: reply.maybe_binary(Attribute::Stats)?,
        })
    }

    /// Returns the host's counters, or zeros without a host.
    pub fn stats_or_zero(&self) -> PoolStats {
        self.stats.unwrap_or_default()
    }
}

/// An event of a module.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// The number of the event's kind.
    #[serde(rename = "event", serialize_with = "event_name")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub kind: u32,
    /// The VM it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<u32>,
    /// Process ID of that VM's VMM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The pool it is about.
    #[serde(rename = "container", skip_serializing_if = "Option::is_none")]
    pub pool: Option<u32>,
    /// Name of that pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Event {
    pub(crate) fn read(message: &Attributes) -> Result<Self> {
        Ok(Self {
            kind: message.need_u32(Attribute::Event)?,
            vm: message.maybe_u32(Attribute::VmId)?,
            pid: message.maybe_u32(Attribute::VmPid)?,
            pool: message.maybe_u32(Attribute::PoolId)?,
            name: message.maybe_string(Attribute::Name),
        })
    }

    /// Returns the kind of the event, if this crate defines it.
    pub fn known(&self) -> Option<genl::Event> {
        genl::Event::from_raw(self.kind)
    }

    /// Returns the name of the event's kind.
    pub fn label(&self) -> String {
        let Some(kind) = self.known() else {
            return format!("unknown-{}", self.kind);
        };
        match kind {
            genl::Event::VmCame => "vm-came",
            genl::Event::VmWent => "vm-went",
            genl::Event::PoolCame => "pool-came",
            genl::Event::PoolWent => "pool-went",
            genl::Event::HostFound => "host-found",
            genl::Event::HostLost => "host-lost",
            genl::Event::Rollback => "rollback",
        }
        .into()
    }
}

/// Returns the name of a mode.
pub const fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Weighted => "weighted",
        Mode::GlobalFifo => "fifo",
    }
}

/// Returns the name of a link state.
pub const fn state_word(state: LinkState) -> &'static str {
    match state {
        LinkState::Alone => "alone",
        LinkState::Attached => "attached",
        LinkState::Refused => "refused",
    }
}

/// Returns the name of a device state.
pub const fn device_state_word(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Active => "active",
        DeviceState::Suspect => "suspect",
        DeviceState::Failed => "failed",
        DeviceState::Leaving => "leaving",
    }
}

/// Returns the name of a way of waiting for reads.
pub const fn waiting_word(waiting: Waiting) -> &'static str {
    match waiting {
        Waiting::Automatic => "automatic",
        Waiting::Host => "host",
        Waiting::Guest => "guest",
    }
}

/// Returns the versions in a status. Fails if the ABI version differs from that of this crate.
fn version(side: Side, reply: &Attributes) -> Result<(u32, Option<String>)> {
    let theirs = reply.need_u32(Attribute::AbiVersion)?;
    let module = reply.maybe_string(Attribute::ModuleVersion);
    if theirs != u32::from(ABI_VERSION) {
        return Err(Error::Version {
            side,
            theirs,
            module,
        });
    }
    Ok((theirs, module))
}

/// Returns the value of an enumeration, which must be one that this crate defines.
fn known<T>(reply: &Attributes, attribute: Attribute, from: fn(u32) -> Option<T>) -> Result<T> {
    let value = reply.need_u32(attribute)?;
    from(value).ok_or(Error::Unknown { attribute, value })
}

fn pid_or_null<S: Serializer>(pid: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    Some(*pid).filter(|pid| *pid != 0).serialize(serializer)
}

fn mode_name<S: Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(mode_word(*mode))
}

fn state_name<S: Serializer>(state: &LinkState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state_word(*state))
}

fn waiting_name<S: Serializer>(waiting: &Waiting, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(waiting_word(*waiting))
}

fn device_state_name<S: Serializer>(state: &DeviceState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(device_state_word(*state))
}

fn store_name<S: Serializer>(store: &Store, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(store.name())
}

fn policy_name<S: Serializer>(policy: &Policy, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(policy.name())
}

fn admit_name<S: Serializer>(admit: &SsdAdmit, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(admit.name())
}

fn event_name<S: Serializer>(kind: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    let event = Event {
        kind: *kind,
        vm: None,
        pid: None,
        pool: None,
        name: None,
    };
    serializer.serialize_str(&event.label())
}
