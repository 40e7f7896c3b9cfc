// SPDX-License-Identifier: GPL-2.0-only

//! Commands of the generic netlink family; `docs/netlink/dd_guest.yaml` specifies them.

use crate::ffi::mapping::file_view;
use crate::genl::{Args, Control, Message};
use crate::memory::gfp_nowarn;
use crate::pools::admission::PoolAdmission;
use crate::pools::pool::{self, NO_HOST};
use crate::state::{state, State};
use ddabi::counters::CurvePoint;
use ddabi::genl::{Attribute, GuestCommand};
use ddabi::hypercall::Operation;
use ddabi::name::Name;
use ddabi::policy::Policy;
use ddabi::pool::{SsdAdmit, Store, MAX_WEIGHT};
use ddabi::request::MigrateBody;
use ddabi::ABI_VERSION;
use ddcore::curve::POINTS;
use ddcore::request::Settings;
use kernel::prelude::*;
use zerocopy::IntoBytes;

/// Longest cgroup path that is listed, in bytes.
const PATH_LEN: usize = 512;

/// The handlers of the family.
struct GuestControl;

crate::genl::control!(GuestControl);

impl Control for GuestControl {
    fn act(command: u8, args: &Args, reply: &mut Message) -> Result {
        let state = state().ok_or(ENODEV)?;
        match GuestCommand::from_raw(command) {
            Some(GuestCommand::Status) => status(state, reply),
            Some(GuestCommand::PoolAdd) => pool_add(state, args, reply),
            Some(GuestCommand::PoolSet) => pool_set(state, args, reply),
            Some(GuestCommand::PoolRemove) => pool_remove(state, args, reply),
            Some(GuestCommand::Flush) => flush(state, args, reply),
            Some(GuestCommand::Migrate) => migrate(state, args, reply),
            _ => Err(EINVAL),
        }
    }

    fn dump(command: u8, _: &Args, cursor: &mut u64, message: &mut Message) -> Result<bool> {
        let state = state().ok_or(ENODEV)?;
        if GuestCommand::from_raw(command) != Some(GuestCommand::PoolList) {
            return Err(EINVAL);
        }
        // The cursor is the id of the last pool that was listed plus one, or 0 at the beginning.
        let after = cursor.checked_sub(1).map(|id| id as u32);
        let mut path = [0; PATH_LEN];
        let shown = state
            .pools
            .next(after, |pool| -> Result<(u32, u16, Option<u32>)> {
                message.put_u32(Attribute::PoolId, pool.id)?;
                message.put_str(Attribute::Name, pool.name.as_bytes())?;
                if let Some(cgroup) = &pool.cgroup {
                    message.put_u64(Attribute::CgroupId, cgroup.id())?;
                    message.put_str(Attribute::CgroupPath, cgroup.path(&mut path))?;
                }
                message.put_u32(Attribute::Weight, pool.settings.weight)?;
                message.put_u32(Attribute::SsdWeight, pool.settings.ssd_weight())?;
                message.put_u32(Attribute::Store, pool.settings.store as u32)?;
                message.put_u32(Attribute::Policy, pool.settings.policy as u32)?;
                message.put_u32(Attribute::SsdAdmit, pool.settings.ssd_admit as u32)?;
                Ok((pool.id, pool.slot, pool.host))
            });
        let Some(shown) = shown else {
            return Ok(false);
        };
        let (id, slot, host) = shown?;
        if let Some(admission) = state.pools.admissions.get(slot) {
            message.put_bytes(Attribute::Admission, admission.counters().as_bytes())?;
            put_curve(admission, message)?;
        }
        if let Some(stats) = host.and_then(|host| pool::stats(&state.channel, host)) {
            message.put_bytes(Attribute::Stats, stats.as_bytes())?;
        }
        *cursor = u64::from(id) + 1;
        Ok(true)
    }
}

fn put_curve(admission: &PoolAdmission, message: &mut Message) -> Result {
    let mut points = KVec::from_elem(CurvePoint::default(), POINTS, gfp_nowarn())?;
    let count = admission.curve(&mut points);
    let points = points.get(..count).unwrap_or_default();
    message.put_bytes(Attribute::Curve, points.as_bytes())
}

fn status(state: &State, reply: &mut Message) -> Result {
    reply.put_u32(Attribute::AbiVersion, u32::from(ABI_VERSION))?;
    reply.put_str(Attribute::ModuleVersion, ddabi::VERSION.as_bytes())?;
    reply.put_u32(Attribute::State, state.channel.state())?;
    reply.put_u32(Attribute::VmId, state.channel.vm())?;
    reply.put_u64(Attribute::Features, 0)?;
    reply.put_u32(Attribute::Pools, state.pools.count())?;
    reply.put_bytes(Attribute::Counters, state.snapshot().as_bytes())
}

/// The settings of a pool that a request changes.
struct Change {
    weight: Option<u32>,
    ssd_weight: Option<u32>,
    store: Option<Store>,
    policy: Option<Policy>,
    ssd_admit: Option<SsdAdmit>,
}

impl Change {
    fn apply(&self, settings: &mut Settings) {
        settings.weight = self.weight.unwrap_or(settings.weight);
        settings.ssd_weight = self.ssd_weight.unwrap_or(settings.ssd_weight);
        settings.store = self.store.unwrap_or(settings.store);
        settings.policy = self.policy.unwrap_or(settings.policy);
        settings.ssd_admit = self.ssd_admit.unwrap_or(settings.ssd_admit);
    }
}

/// Returns the settings of a request, after checking them.
fn change(args: &Args, reply: &mut Message) -> Result<Change> {
    let (weight, ssd_weight) = (args.weight(), args.ssd_weight());
    let is_too_large = |weight: &Option<u32>| weight.is_some_and(|weight| weight > MAX_WEIGHT);
    if [weight, ssd_weight].iter().any(is_too_large) {
        return Err(reply.explain(c"the weight must be 0 to 10000", ERANGE));
    }
    let store = match args.store() {
        None => None,
        Some(raw) => match Store::from_raw(raw) {
            Some(store) => Some(store),
            None => return Err(reply.explain(c"this store is unknown", EINVAL)),
        },
    };
    let policy = match args.policy() {
        None => None,
        Some(raw) => match Policy::from_raw(raw) {
            Some(policy) => Some(policy),
            None => return Err(reply.explain(c"this policy is unknown", EINVAL)),
        },
    };
    let ssd_admit = match args.ssd_admit() {
        None => None,
        Some(raw) => match SsdAdmit::from_raw(raw) {
            Some(admit) => Some(admit),
            None => return Err(reply.explain(c"this admission to SSDs is unknown", EINVAL)),
        },
    };
    Ok(Change {
        weight,
        ssd_weight,
        store,
        policy,
        ssd_admit,
    })
}

fn pool_add(state: &State, args: &Args, reply: &mut Message) -> Result {
    let change = change(args, reply)?;
    let Some(path) = args.cgroup_path() else {
        return Err(reply.explain(c"the attribute cgroup-path is missing", EINVAL));
    };
    let last = path
        .to_bytes()
        .rsplit(|&byte| byte == b'/')
        .next()
        .unwrap_or_default();
    let name = Name::new(args.name().map_or(last, CStr::to_bytes));
    let mut settings = Settings::DEFAULT;
    change.apply(&mut settings);
    let id = state
        .pools
        .add(&state.channel, path, name, settings)
        .map_err(|error| {
            let why = match error {
                e if e == ENOENT => c"no such cgroup (the path begins below the cgroup v2 root)",
                e if e == EEXIST => c"this cgroup is enrolled already",
                e if e == ENOSPC => c"too many containers: remove one first",
                _ => c"the host did not create the pool",
            };
            reply.explain(why, error)
        })?;
    reply.put_u32(Attribute::PoolId, id)
}

fn pool_id(args: &Args, reply: &mut Message) -> Result<u32> {
    args.pool_id()
        .ok_or_else(|| reply.explain(c"the attribute pool-id is missing", EINVAL))
}

fn pool_set(state: &State, args: &Args, reply: &mut Message) -> Result {
    let change = change(args, reply)?;
    let id = pool_id(args, reply)?;
    state
        .pools
        .set(&state.channel, id, |settings| change.apply(settings))
        .map_err(|error| unknown_pool(error, reply))
}

fn pool_remove(state: &State, args: &Args, reply: &mut Message) -> Result {
    let id = pool_id(args, reply)?;
    state.pools.remove(&state.channel, id).map_err(|error| {
        if error == EINVAL {
            return reply.explain(
                c"the default pool cannot be removed: set its weight to 0 instead",
                error,
            );
        }
        unknown_pool(error, reply)
    })
}

fn unknown_pool(error: Error, reply: &mut Message) -> Error {
    if error == ENOENT {
        return reply.explain(c"no such container", error);
    }
    error
}

/// Drops pages at the host: all pages of the VM by ending the session, or those of a pool by
/// destroying and recreating it.
fn flush(state: &State, args: &Args, reply: &mut Message) -> Result {
    match args.pool_id() {
        None => {
            state.channel.renew();
            Ok(())
        }
        Some(id) => state
            .pools
            .renew(&state.channel, id)
            .map_err(|error| unknown_pool(error, reply)),
    }
}

fn migrate(state: &State, args: &Args, reply: &mut Message) -> Result {
    let id = pool_id(args, reply)?;
    let Some(descriptor) = args.file_fd() else {
        return Err(reply.explain(c"the attribute file-fd is missing", EINVAL));
    };
    let view = file_view(descriptor)?;
    let Some(filesystem) = state.filesystems.find(view.superblock()) else {
        return Err(reply.explain(c"files of this filesystem are not cached", EINVAL));
    };
    let pool = state
        .pools
        .host_of(id)
        .map_err(|error| unknown_pool(error, reply))?;
    let session = state.channel.session().ok_or(NO_HOST)?;
    let body = MigrateBody {
        file: view.key(filesystem),
        pool,
        reserved: 0,
    };
    let mut is_unfinished = true;
    while is_unfinished {
        if kernel::current!().signal_pending() {
            return Err(EINTR);
        }
        is_unfinished = state
            .channel
            .command(session, Operation::Migrate, &body, |call| {
                call.is_unfinished()
            })
            .map_err(pool::to_error)?;
    }
    Ok(())
}
