// SPDX-License-Identifier: GPL-2.0-only

//! Commands of the generic netlink family; `docs/netlink/dd_host.yaml` specifies them.

mod devices;

use crate::counters;
use crate::ffi::page;
use crate::genl::{control, Args, Control, Message};
use crate::state::{host, Host};
use crate::vm::emptying::evict_session;
use crate::vm::session::Session;
use crate::vm::Vm;
use ddabi::genl::{Attribute, HostCommand, Mode, AUTOMATIC};
use ddabi::pool::MAX_WEIGHT;
use ddabi::ssd::{Waiting, MIN_INDEX_LIMIT};
use ddabi::ABI_VERSION;
use ddcore::host::cause::Cause;
use ddcore::host::evict::{evict_all, evict_pool};
use ddcore::host::pressure::Gauge;
use ddcore::host::room::Stock as _;
use ddcore::host::tier::MAX_BATCH;
use ddcore::host::visit::{evict_for_command, COMMAND_PAGES};
use ddcore::host::{Host as _, Session as _};
use kernel::prelude::*;
use kernel::sync::Arc;
use zerocopy::IntoBytes;

/// Valid deadlines: microseconds that a get may wait for a device.
const DEADLINES: core::ops::RangeInclusive<u32> = 1_000..=10_000_000;

/// The handlers of the family.
struct HostControl;

control!(HostControl);

impl Control for HostControl {
    fn act(command: u8, args: &Args, reply: &mut Message) -> Result {
        let host = host().ok_or(ENODEV)?;
        match HostCommand::from_raw(command) {
            Some(HostCommand::Status) => status(host, reply),
            Some(HostCommand::VmSet) => set_vm(host, args, reply),
            Some(HostCommand::ConfigSet) => configure(host, args, reply),
            Some(HostCommand::Flush) => flush(host, args, reply),
            Some(HostCommand::SsdAdd) => devices::add(host, args, reply),
            Some(HostCommand::SsdRemove) => devices::remove(host, args, reply),
            Some(HostCommand::SsdSet) => devices::set(host, args, reply),
            _ => Err(EINVAL),
        }
    }

    fn dump(command: u8, args: &Args, cursor: &mut u64, message: &mut Message) -> Result<bool> {
        let host = host().ok_or(ENODEV)?;
        match HostCommand::from_raw(command) {
            Some(HostCommand::VmList) => list_vm(host, cursor, message),
            Some(HostCommand::PoolList) => list_pool(host, args, cursor, message),
            Some(HostCommand::SsdList) => devices::list(host, cursor, message),
            _ => Err(EINVAL),
        }
    }
}

fn status(host: &Host, reply: &mut Message) -> Result {
    let tier = &host.tier;
    reply.put_u32(Attribute::AbiVersion, u32::from(ABI_VERSION))?;
    reply.put_str(Attribute::ModuleVersion, ddabi::VERSION.as_bytes())?;
    host.recover();
    reply.put_u64(Attribute::Capacity, tier.capacity())?;
    reply.put_u64(Attribute::Limit, tier.limit())?;
    reply.put_u64(Attribute::Used, tier.used())?;
    reply.put_u64(Attribute::Floor, tier.floor())?;
    reply.put_u32(Attribute::Mode, tier.mode() as u32)?;
    reply.put_u32(Attribute::Batch, tier.batch() as u32)?;
    let counters = counters::snapshot();
    // A VM may come and go while the counters are read.
    let vms = counters.vms_came.saturating_sub(counters.vms_went);
    reply.put_u32(Attribute::Vms, vms as u32)?;
    reply.put_u64(Attribute::KeepFree, tier.reserve_pages())?;
    reply.put_u64(Attribute::PromoteFree, tier.vacancy())?;
    reply.put_u64(Attribute::IndexLimit, host.ssd.index_limit())?;
    reply.put_u32(Attribute::Deadline, host.ssd.deadline_us() as u32)?;
    reply.put_u32(Attribute::Waiting, host.ssd.waiting() as u32)?;
    reply.put_u32(Attribute::Retain, host.ssd.retains().into())?;
    reply.put_bytes(Attribute::Counters, counters.as_bytes())
}

fn list_vm(host: &Host, cursor: &mut u64, message: &mut Message) -> Result<bool> {
    let Ok(from) = u32::try_from(*cursor) else {
        return Ok(false);
    };
    let Some(view) = host.vm_from(from) else {
        return Ok(false);
    };
    message.put_u32(Attribute::VmId, view.vm.number)?;
    message.put_u32(Attribute::VmPid, view.vm.process())?;
    message.put_u32(Attribute::Weight, view.vm.weight())?;
    message.put_u32(Attribute::SsdWeight, view.vm.ssd_weight())?;
    let in_memory = view.stats.used - view.stats.ssd_used;
    message.put_u64(Attribute::Used, in_memory)?;
    message.put_u64(Attribute::Entitlement, view.entitlement)?;
    message.put_u32(Attribute::Pools, view.pools)?;
    message.put_bytes(Attribute::Stats, view.stats.as_bytes())?;
    *cursor = u64::from(view.vm.number) + 1;
    Ok(true)
}

fn list_pool(host: &Host, args: &Args, cursor: &mut u64, message: &mut Message) -> Result<bool> {
    if let Some(vm) = args.vm_id() {
        find_vm(host, vm, message)?;
    }
    // The cursor is the first pool not shown yet: the VM in the upper half, the pool in the lower.
    let from = ((*cursor >> 32) as u32, *cursor as u32);
    let Some(view) = host.pool_from(from, args.vm_id()) else {
        return Ok(false);
    };
    message.put_u32(Attribute::VmId, view.vm)?;
    message.put_u32(Attribute::PoolId, view.number)?;
    message.put_str(Attribute::Name, view.name.as_bytes())?;
    message.put_u32(Attribute::Weight, view.stats.weight as u32)?;
    message.put_u32(Attribute::SsdWeight, view.ssd_weight)?;
    message.put_u32(Attribute::Store, view.store as u32)?;
    message.put_u32(Attribute::Policy, view.policy as u32)?;
    message.put_u32(Attribute::SsdAdmit, view.ssd_admit as u32)?;
    message.put_bytes(Attribute::Stats, view.stats.as_bytes())?;
    *cursor = u64::from(view.vm) << 32 | u64::from(view.number + 1);
    Ok(true)
}

fn set_vm(host: &Host, args: &Args, reply: &mut Message) -> Result {
    let (Some(vm), true) = (args.vm_id(), args.weight().or(args.ssd_weight()).is_some()) else {
        return Err(reply.explain(c"the attributes vm-id and weight are required", EINVAL));
    };
    let weights = [args.weight(), args.ssd_weight()];
    if weights
        .into_iter()
        .flatten()
        .any(|weight| weight > MAX_WEIGHT)
    {
        return Err(reply.explain(c"the weight must be 0 to 10000", ERANGE));
    }
    let (vm, session) = find_vm(host, vm, reply)?;
    if let Some(weight) = args.weight() {
        vm.set_weight(weight);
    }
    if let Some(weight) = args.ssd_weight() {
        vm.set_ssd_weight(weight);
    }
    let left = match (vm.weight(), vm.ssd_weight()) {
        (0, 0) => evict_session(&session),
        // Pages in the tier without a weight are evicted when room is made there, and no more
        // pages enter it.
        _ => 0,
    };
    reply.put_u64(Attribute::Left, left)
}

fn configure(host: &Host, args: &Args, reply: &mut Message) -> Result {
    let tier = &host.tier;
    let settings = host.settings.lock();
    // All values are checked before any is changed.
    let mode = match args.mode() {
        Some(mode) => Some(
            Mode::from_raw(mode).ok_or_else(|| reply.explain(c"this mode is unknown", EINVAL))?,
        ),
        None => None,
    };
    if args
        .batch()
        .is_some_and(|batch| batch == 0 || batch > MAX_BATCH)
    {
        return Err(reply.explain(c"the batch must be 1 to 16384 pages", ERANGE));
    }
    if args
        .capacity()
        .is_some_and(|capacity| capacity > page::total())
    {
        return Err(reply.explain(c"the capacity is above the memory of this machine", ERANGE));
    }
    if args.deadline().is_some_and(|us| !DEADLINES.contains(&us)) {
        return Err(reply.explain(c"the deadline must be 1 ms to 10 s", ERANGE));
    }
    let waiting = args.waiting().map(Waiting::from_raw);
    if waiting == Some(None) {
        return Err(reply.explain(c"waiting must be auto (0), host (1) or guest (2)", EINVAL));
    }
    if args.retain().is_some_and(|retain| retain > 1) {
        return Err(reply.explain(c"retain must be 0 or 1", EINVAL));
    }
    let capacity = args.capacity().unwrap_or(tier.capacity());
    if args.floor().is_some_and(|floor| floor > capacity) {
        return Err(reply.explain(c"the floor is above the capacity", ERANGE));
    }
    let is_too_much = |pages: u64| pages != AUTOMATIC && pages > capacity / 2;
    if args.keep_free().is_some_and(is_too_much) {
        return Err(reply.explain(c"at most half of the capacity can be kept free", ERANGE));
    }
    if args
        .index_limit()
        .is_some_and(|pages| pages > 0 && pages < MIN_INDEX_LIMIT)
    {
        return Err(reply.explain(
            c"the limit of the index must be 0 or at least 16 pages",
            ERANGE,
        ));
    }
    if let Some(mode) = mode {
        host.set_mode(mode);
    }
    if let Some(batch) = args.batch() {
        tier.set_batch(batch);
    }
    if let Some(pages) = args.keep_free() {
        tier.set_reserve(pages);
    }
    if let Some(pages) = args.promote_free() {
        tier.set_vacancy(pages);
    }
    if let Some(pages) = args.index_limit() {
        host.ssd.set_index_limit(pages);
    }
    if let Some(us) = args.deadline() {
        host.ssd.set_deadline_us(us.into());
    }
    if let Some(waiting) = waiting.flatten() {
        host.ssd.set_waiting(waiting);
    }
    if let Some(retain) = args.retain() {
        host.ssd.set_retains(retain == 1);
    }
    tier.set_capacity(capacity);
    tier.set_floor(args.floor().unwrap_or(tier.floor()).min(capacity));
    drop(settings);
    host.wake_evictor();
    host.stock.give_back(u64::MAX, |_| true);
    reply.put_u64(Attribute::Left, tier.used().saturating_sub(tier.limit()))
}

/// Evicts up to [`COMMAND_PAGES`] pages. The reply has the numbers of pages that were evicted and
/// that remain, so that the caller can repeat the command.
fn flush(host: &Host, args: &Args, reply: &mut Message) -> Result {
    let (evicted, left) = match (args.vm_id(), args.pool_id()) {
        (None, None) => {
            let evicted = evict_for_command(host, Cause::Command);
            (evicted, host.tier.used() + host.ssd.used())
        }
        (None, Some(_)) => {
            return Err(reply.explain(c"the attribute pool-id requires vm-id", EINVAL))
        }
        (Some(vm), None) => {
            let (_, session) = find_vm(host, vm, reply)?;
            let evicted = evict_all(&*session, COMMAND_PAGES, Cause::Command);
            (evicted, session.used() + session.state().ssd())
        }
        (Some(vm), Some(pool)) => {
            let (_, session) = find_vm(host, vm, reply)?;
            if session.pool(pool).is_none() {
                return Err(reply.explain(c"the VM has no such pool", ENOENT));
            }
            let evicted = evict_pool(&*session, (pool, Cause::Command), COMMAND_PAGES);
            let left = |gauge: &Gauge<_>| gauge.held() + gauge.ssd();
            (evicted, session.gauge(pool).map_or(0, left))
        }
    };
    host.stock.give_back(u64::MAX, |_| true);
    reply.put_u64(Attribute::Evicted, evicted)?;
    reply.put_u64(Attribute::Left, left)
}

fn find_vm(host: &Host, number: u32, reply: &mut Message) -> Result<(Arc<Vm>, Arc<Session>)> {
    host.vm(number)
        .ok_or_else(|| reply.explain(c"no such VM", ENOENT))
}
