// SPDX-License-Identifier: GPL-2.0-only

//! Requests as values, each of which builds its message and parses its replies.

use crate::{
    attributes::Attributes,
    control::{ConfigChange, FlushTarget, Flushed, NewPool, PoolChange, VmChange},
    error::{Error, Result},
    reply::{Device, GuestStatus, HostStatus, Pool, Vm},
};
use ddabi::{
    NAME_LEN,
    genl::{Attribute, GuestCommand, HostCommand},
    pool::MAX_WEIGHT,
};

/// One request, and the function that parses its replies.
#[derive(Debug)]
pub struct Call<T> {
    pub(crate) command: u8,
    pub(crate) dump: bool,
    pub(crate) attributes: Attributes,
    read: Read<T>,
}

#[derive(Debug)]
enum Read<T> {
    /// Exactly one reply.
    One(fn(Attributes) -> Result<T>),
    /// Any number of replies.
    All(fn(Vec<Attributes>) -> Result<T>),
}

impl<T> Call<T> {
    /// A request answered by one message.
    pub(crate) fn get(
        command: u8,
        attributes: Attributes,
        read: fn(Attributes) -> Result<T>,
    ) -> Self {
        Self {
            command,
            dump: false,
            attributes,
            read: Read::One(read),
        }
    }

    /// Parses the replies.
    pub fn read(&self, mut replies: Vec<Attributes>) -> Result<T> {
        match self.read {
            Read::All(read) => read(replies),
            Read::One(read) => match replies.pop() {
                Some(reply) => read(reply),
                None => Err(Error::malformed("the kernel said yes but gave no answer")),
            },
        }
    }
}

impl<T> Call<Vec<T>> {
    /// A dump request, which is answered by one message for each object.
    pub(crate) fn dump(
        command: u8,
        attributes: Attributes,
        read: fn(Vec<Attributes>) -> Result<Vec<T>>,
    ) -> Self {
        Self {
            command,
            dump: true,
            attributes,
            read: Read::All(read),
        }
    }
}

impl Call<()> {
    /// A request that is only acknowledged.
    fn set(command: u8, attributes: Attributes) -> Self {
        Self {
            command,
            dump: false,
            attributes,
            read: Read::All(|_| Ok(())),
        }
    }
}

/// Requests to the host module.
pub mod host {
    use super::*;

    /// [`HostCommand::Status`].
    pub fn status() -> Call<HostStatus> {
        Call::get(HostCommand::Status as u8, Attributes::new(), |reply| {
            HostStatus::read(&reply)
        })
    }

    /// [`HostCommand::VmList`].
    pub fn vms() -> Call<Vec<Vm>> {
        Call::dump(HostCommand::VmList as u8, Attributes::new(), |replies| {
            replies.iter().map(Vm::read).collect()
        })
    }

    /// [`HostCommand::VmSet`].
    pub fn set_vm(vm: u32, change: VmChange) -> Result<Call<u64>> {
        let mut attributes = Attributes::new().u32(Attribute::VmId, vm);
        let weights = [
            (Attribute::Weight, change.weight),
            (Attribute::SsdWeight, change.ssd_weight),
        ];
        for (attribute, weight) in weights {
            if let Some(weight) = weight {
                check_weight(weight)?;
                attributes = attributes.u32(attribute, weight);
            }
        }
        Ok(Call::get(HostCommand::VmSet as u8, attributes, |reply| {
            reply.need_u64(Attribute::Left)
        }))
    }

    /// [`HostCommand::PoolList`].
    pub fn pools(vm: Option<u32>) -> Call<Vec<Pool>> {
        let attributes = optional(Attributes::new(), Attribute::VmId, vm);
        Call::dump(HostCommand::PoolList as u8, attributes, |replies| {
            replies.iter().map(Pool::read).collect()
        })
    }

    /// [`HostCommand::ConfigSet`].
    pub fn configure(change: &ConfigChange) -> Call<u64> {
        let mut attributes = Attributes::new();
        if let Some(capacity) = change.capacity {
            attributes = attributes.u64(Attribute::Capacity, capacity);
        }
        if let Some(floor) = change.floor {
            attributes = attributes.u64(Attribute::Floor, floor);
        }
        if let Some(pages) = change.keep_free {
            attributes = attributes.u64(Attribute::KeepFree, pages);
        }
        if let Some(pages) = change.promote_free {
            attributes = attributes.u64(Attribute::PromoteFree, pages);
        }
        if let Some(pages) = change.index_limit {
            attributes = attributes.u64(Attribute::IndexLimit, pages);
        }
        if let Some(mode) = change.mode {
            attributes = attributes.u32(Attribute::Mode, mode as u32);
        }
        attributes = optional(attributes, Attribute::Batch, change.batch);
        attributes = optional(attributes, Attribute::Deadline, change.deadline);
        let waiting = change.waiting.map(|waiting| waiting as u32);
        attributes = optional(attributes, Attribute::Waiting, waiting);
        attributes = optional(attributes, Attribute::Retain, change.retain.map(u32::from));
        Call::get(HostCommand::ConfigSet as u8, attributes, |reply| {
            reply.need_u64(Attribute::Left)
        })
    }

    /// [`HostCommand::Flush`].
    pub fn flush(target: FlushTarget) -> Call<Flushed> {
        let attributes = optional(Attributes::new(), Attribute::VmId, target.vm);
        let attributes = optional(attributes, Attribute::PoolId, target.pool);
        Call::get(HostCommand::Flush as u8, attributes, flushed)
    }

    /// [`HostCommand::SsdList`].
    pub fn devices() -> Call<Vec<Device>> {
        Call::dump(HostCommand::SsdList as u8, Attributes::new(), |replies| {
            replies.iter().map(Device::read).collect()
        })
    }

    /// [`HostCommand::SsdAdd`].
    pub fn add_device(path: &str) -> Result<Call<u32>> {
        check_path(path)?;
        let attributes = Attributes::new().string(Attribute::Path, path);
        Ok(Call::get(HostCommand::SsdAdd as u8, attributes, |reply| {
            reply.need_u32(Attribute::Device)
        }))
    }

    /// [`HostCommand::SsdRemove`].
    pub fn remove_device(device: u32) -> Call<u64> {
        let attributes = Attributes::new().u32(Attribute::Device, device);
        Call::get(HostCommand::SsdRemove as u8, attributes, |reply| {
            reply.need_u64(Attribute::Left)
        })
    }

    /// [`HostCommand::SsdSet`].
    pub fn set_write_budget(device: u32, pages: u64) -> Call<()> {
        let attributes = Attributes::new()
            .u32(Attribute::Device, device)
            .u64(Attribute::WriteBudget, pages);
        Call::set(HostCommand::SsdSet as u8, attributes)
    }

    fn flushed(reply: Attributes) -> Result<Flushed> {
        Ok(Flushed {
            evicted: reply.need_u64(Attribute::Evicted)?,
            left: reply.need_u64(Attribute::Left)?,
        })
    }
}

/// Requests to the guest module.
pub mod guest {
    use super::*;

    /// [`GuestCommand::Status`].
    pub fn status() -> Call<GuestStatus> {
        Call::get(GuestCommand::Status as u8, Attributes::new(), |reply| {
            GuestStatus::read(&reply)
        })
    }

    /// [`GuestCommand::PoolList`].
    pub fn pools() -> Call<Vec<Pool>> {
        Call::dump(GuestCommand::PoolList as u8, Attributes::new(), |replies| {
            replies.iter().map(Pool::read).collect()
        })
    }

    /// [`GuestCommand::PoolAdd`].
    pub fn add_pool(pool: &NewPool) -> Result<Call<u32>> {
        check_weight(pool.weight)?;
        check_weight(pool.ssd_weight.unwrap_or(0))?;
        check_name(&pool.name)?;
        check_cgroup(&pool.cgroup)?;
        let attributes = Attributes::new()
            .string(Attribute::CgroupPath, &pool.cgroup)
            .string(Attribute::Name, &pool.name)
            .u32(Attribute::Weight, pool.weight)
            .u32(Attribute::Store, pool.store as u32);
        let attributes = optional(attributes, Attribute::SsdWeight, pool.ssd_weight);
        let policy = pool.policy.map(|policy| policy as u32);
        let attributes = optional(attributes, Attribute::Policy, policy);
        let admit = pool.ssd_admit.map(|admit| admit as u32);
        let attributes = optional(attributes, Attribute::SsdAdmit, admit);
        Ok(Call::get(
            GuestCommand::PoolAdd as u8,
            attributes,
            |reply| reply.need_u32(Attribute::PoolId),
        ))
    }

    /// [`GuestCommand::PoolSet`].
    pub fn set_pool(pool: u32, change: PoolChange) -> Result<Call<()>> {
        let mut attributes = Attributes::new().u32(Attribute::PoolId, pool);
        for (attribute, weight) in [
            (Attribute::Weight, change.weight),
            (Attribute::SsdWeight, change.ssd_weight),
        ] {
            check_weight(weight.unwrap_or(0))?;
            attributes = optional(attributes, attribute, weight);
        }
        if let Some(store) = change.store {
            attributes = attributes.u32(Attribute::Store, store as u32);
        }
        let policy = change.policy.map(|policy| policy as u32);
        attributes = optional(attributes, Attribute::Policy, policy);
        let admit = change.ssd_admit.map(|admit| admit as u32);
        attributes = optional(attributes, Attribute::SsdAdmit, admit);
        Ok(Call::set(GuestCommand::PoolSet as u8, attributes))
    }

    /// [`GuestCommand::PoolRemove`].
    pub fn remove_pool(pool: u32) -> Call<()> {
        let attributes = Attributes::new().u32(Attribute::PoolId, pool);
        Call::set(GuestCommand::PoolRemove as u8, attributes)
    }

    /// [`GuestCommand::Flush`].
    pub fn flush(pool: Option<u32>) -> Call<()> {
        let attributes = optional(Attributes::new(), Attribute::PoolId, pool);
        Call::set(GuestCommand::Flush as u8, attributes)
    }

    /// [`GuestCommand::Migrate`].
    pub fn migrate(file: u32, pool: u32) -> Call<()> {
        let attributes = Attributes::new()
            .u32(Attribute::FileFd, file)
            .u32(Attribute::PoolId, pool);
        Call::set(GuestCommand::Migrate as u8, attributes)
    }
}

fn optional(attributes: Attributes, attribute: Attribute, value: Option<u32>) -> Attributes {
    match value {
        Some(value) => attributes.u32(attribute, value),
        None => attributes,
    }
}

/// Refuses weights outside 0 to [`MAX_WEIGHT`].
pub(crate) fn check_weight(weight: u32) -> Result<()> {
    if weight > MAX_WEIGHT {
        return Err(Error::Invalid {
            message: format!("weight {weight} is not between 0 and {MAX_WEIGHT}"),
        });
    }
    Ok(())
}

/// Refuses names that the module would not store unchanged.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let message = if name.is_empty() {
        "a container needs a name".into()
    } else if name.len() > NAME_LEN {
        format!("the name `{name}` has more than {NAME_LEN} bytes")
    } else if name.contains(char::is_control) {
        format!("the name {name:?} has control characters")
    } else {
        return Ok(());
    };
    Err(Error::Invalid { message })
}

/// Maximum length of a path in the kernel, without the terminating zero.
const PATH_LEN: usize = 4095;

/// Refuses paths that are not absolute, contain a zero byte, or are too long for the module.
pub(crate) fn check_path(path: &str) -> Result<()> {
    let message = if !path.starts_with('/') {
        format!("the path `{path}` does not begin with a slash")
    } else if path.len() > PATH_LEN {
        format!("the path has more than {PATH_LEN} bytes")
    } else if path.contains('\0') {
        format!("the path {path:?} has a zero byte")
    } else {
        return Ok(());
    };
    Err(Error::Invalid { message })
}

/// Refuses paths that cannot be below the cgroup root.
pub(crate) fn check_cgroup(path: &str) -> Result<()> {
    let message = if !path.starts_with('/') {
        format!("the cgroup `{path}` does not begin with a slash")
    } else if path.len() > PATH_LEN {
        format!("the cgroup path has more than {PATH_LEN} bytes")
    } else if path.contains('\0') {
        format!("the cgroup {path:?} has a zero byte")
    } else {
        return Ok(());
    };
    Err(Error::Invalid { message })
}
