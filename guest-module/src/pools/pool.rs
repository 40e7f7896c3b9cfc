// SPDX-License-Identifier: GPL-2.0-only

//! A container, and its pool at the host.

use crate::ffi::cgroup::Cgroup;
use crate::genl::send_event;
use crate::host::call::Failure;
use crate::host::channel::Channel;
use crate::memory::gfp_nowarn;
use crate::pools::admissions::DEFAULT_SLOT;
use ddabi::answer::PoolAnswer;
use ddabi::genl::{Attribute, Event};
use ddabi::hypercall::{Operation, Status};
use ddabi::name::Name;
use ddabi::pool::{PoolStats, DEFAULT_POOL};
use ddabi::request::PoolBody;
use ddabi::NAME_LEN;
use ddcore::request::Settings;
use kernel::prelude::*;

/// The error for users if there is no host. `ENOTCONN` would fit better, but the Rust API of the
/// kernel does not define it.
pub(crate) const NO_HOST: Error = ENXIO;

/// An enrolled container, or the default pool.
pub(crate) struct Pool {
    /// The id that users see in this VM. It is the same in all sessions; 0 is the default pool.
    pub(crate) id: u32,
    /// The host's number of the pool in this session; `None` if the host has no such pool.
    pub(crate) host: Option<u32>,
    /// The container's cgroup; `None` for the default pool.
    pub(crate) cgroup: Option<Cgroup>,
    /// The name that users see, here and at the host.
    pub(crate) name: Name,
    /// Weights, store, policy and admission to SSDs.
    pub(crate) settings: Settings,
    /// The slot of its admission, see [`crate::pools::admissions`].
    pub(crate) slot: u16,
}

/// Returns a list that contains only the default pool. Sleeps.
pub(crate) fn default_pool() -> Result<KVec<Pool>> {
    let pool = Pool {
        id: 0,
        host: None,
        cgroup: None,
        name: Name::DEFAULT,
        settings: Settings::DEFAULT,
        slot: DEFAULT_SLOT,
    };
    let mut pools = KVec::new();
    pools.push(pool, gfp_nowarn())?;
    Ok(pools)
}

/// Returns the body of a request about a pool.
pub(crate) fn body(pool: u32, name: &Name, settings: Settings) -> PoolBody {
    let text = name.as_bytes();
    let mut bytes = [0; NAME_LEN];
    bytes[..text.len()].copy_from_slice(text);
    PoolBody {
        pool,
        weight: settings.weight,
        store: settings.store as u32,
        policy: settings.policy as u32,
        ssd_weight: settings.ssd_weight,
        ssd_admit: settings.ssd_admit as u32,
        name_len: text.len() as u32,
        name: bytes,
    }
}

/// Creates the pool at the host and records its number.
pub(crate) fn create_at_host(
    channel: &Channel,
    session: u64,
    pool: &mut Pool,
) -> Result<(), Failure> {
    pool.host = if pool.cgroup.is_none() {
        let body = body(DEFAULT_POOL, &pool.name, pool.settings);
        channel.command(session, Operation::PoolSet, &body, |_| ())?;
        Some(DEFAULT_POOL)
    } else {
        let body = body(0, &pool.name, pool.settings);
        let answer = channel.command(session, Operation::PoolCreate, &body, |call| {
            call.body::<PoolAnswer>()
        })?;
        Some(answer.ok_or(Failure::NoHost)?.pool)
    };
    Ok(())
}

/// Has the host free the pool, and notifies listeners that it was removed.
pub(crate) fn destroy_at_host(channel: &Channel, pool: &Pool) {
    if let (Some(session), Some(host)) = (channel.session(), pool.host) {
        let body = body(host, &pool.name, pool.settings);
        // If the host does not know the pool, there is nothing to destroy.
        let _ = channel.command(session, Operation::PoolDestroy, &body, |_| ());
    }
    send_pool_event(Event::PoolWent, pool.id, pool.name);
}

/// Returns the statistics of one of the host's pools; `None` if the host does not answer.
pub(crate) fn stats(channel: &Channel, host: u32) -> Option<PoolStats> {
    let session = channel.session()?;
    let body = PoolBody {
        pool: host,
        weight: 0,
        store: 0,
        policy: 0,
        ssd_weight: 0,
        ssd_admit: 0,
        name_len: 0,
        name: [0; NAME_LEN],
    };
    channel
        .command(session, Operation::PoolStats, &body, |call| {
            call.body::<PoolStats>()
        })
        .ok()?
}

/// Returns the error for users of a failed call.
pub(crate) fn to_error(failure: Failure) -> Error {
    match failure {
        Failure::NoHost | Failure::Unattached => NO_HOST,
        Failure::Refused(Status::Limit) => ENOSPC,
        Failure::Refused(Status::NoMemory) => ENOMEM,
        Failure::Refused(Status::NoPool) => ENOENT,
        Failure::Refused(Status::Invalid) => EINVAL,
        Failure::Refused(Status::Denied) => EACCES,
        Failure::Refused(_) => EAGAIN,
    }
}

/// Notifies listeners of the netlink family about a pool.
pub(crate) fn send_pool_event(event: Event, id: u32, name: Name) {
    let attributes = [(Attribute::Event, event as u32), (Attribute::PoolId, id)];
    send_event(&attributes, name.as_bytes());
}
