// SPDX-License-Identifier: GPL-2.0-only

mod contended;
mod watched;

pub(crate) use self::contended::is_any_held;
use self::contended::Contended;
pub(crate) use self::watched::numbers_read;
use self::watched::Watched;
use super::*;
use crate::host::carried::Carried;
use crate::host::cause::Cause;
use crate::host::evict::evict_all;
use crate::host::flush::flush;
use crate::host::get::take;
use crate::host::list::list;
use crate::host::pressure::{pressure, Gauge};
use crate::host::put::keep;
use crate::host::room::{self, fill, give_back, make_room, refill, retire, Stock as _};
use crate::host::segments::evict_segment;
use crate::host::session::Session as _;
use crate::host::standing::{entitlement, Standing};
use crate::host::steps::Effort;
use crate::host::walk::{drain, migrate, shards_of_task};
use crate::host::Origin;
use crate::index::{Batch, Hasher, Storage as _};
use crate::policy::Order;
use crate::request::Range;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::iter;
use ddabi::key::FileKey;
use ddabi::request::{Run, CLASSES};

/// A page, which is represented by a number.
pub(crate) struct Number(pub(crate) u64);

impl Page for Number {
    fn handle(&self) -> u64 {
        self.0
    }

    fn keep(self) {}
}

/// A host that has no memory above the floor, and records the calls of `allocate`.
#[derive(Default)]
pub(crate) struct Short {
    last: Cell<u64>,
    /// Number of idle pages, which the caller may not use.
    spare: Cell<u64>,
    /// The node of pages that are allocated now.
    node: Cell<usize>,
    /// The time in milliseconds.
    time: Cell<u64>,
    /// For each call: the number of pages, the argument `below_floor`, the pages in use and the
    /// floor.
    calls: RefCell<Vec<(usize, bool, u64, u64)>>,
}

impl Owner for Short {
    type Lock<T> = Contended<T>;
    type Page = Number;
    type Session = ();
    type Vm = Watched;

    const SHARD_BITS: u32 = 1;

    fn page(_session: &Session<Self>, removed: Removed) -> Option<Number> {
        Some(Number(removed.into_handle()))
    }

    fn announce(_session: &Session<Self>, _notices: &[Eviction]) {}

    fn allocate(host: &Host<Self>, pages: &mut [Option<Number>], below_floor: bool) -> usize {
        let call = (
            pages.len(),
            below_floor,
            host.tier.used(),
            host.tier.floor(),
        );
        host.own.calls.borrow_mut().push(call);
        if !below_floor {
            return 0;
        }
        for page in pages.iter_mut() {
            host.own.last.set(host.own.last.get() + 1);
            *page = Some(on_node(host.own.node.get(), host.own.last.get()));
        }
        pages.len()
    }

    fn ssd_pages(_host: &Host<Self>) -> u64 {
        CAPACITY
    }

    fn spare(&self) -> u64 {
        self.spare.get()
    }

    fn node(&self, page: &Number) -> Option<usize> {
        Some((page.0 >> NODE_SHIFT) as usize)
    }

    fn milliseconds(&self) -> u64 {
        self.time.get()
    }
}

/// The handle of a page has its node above this bit.
const NODE_SHIFT: u32 = 32;

fn on_node(node: usize, number: u64) -> Number {
    Number((node as u64) << NODE_SHIFT | number)
}

const CAPACITY: u64 = 100;
const FLOOR: u64 = 40;
/// Pages of a put.
const PUT: u16 = 8;
/// Weights of the pools.
const SHARES: [u32; 2] = [100, 300];

pub(crate) fn host() -> Host<Short> {
    let tier = Arc::new(Tier::new(CAPACITY));
    tier.set_batch(4);
    tier.set_floor(FLOOR);
    let host = Host::new(tier, 16, Short::default());
    add_vm(&host, 1);
    host
}

pub(crate) fn add_vm(host: &Host<Short>, number: u32) {
    add_vm_with(host, number, &SHARES);
}

/// Adds a VM with a pool for each of these weights.
fn add_vm_with(host: &Host<Short>, number: u32, shares: &[u32]) {
    let hasher = Hasher::new(number.into());
    let mut session = Session::new(host.tier.clone(), hasher, ());
    for share in shares {
        let pool = session.add_pool();
        session.set_pool(pool, *share, Order::Aged);
    }
    host.add_vm(Watched(Vm {
        number,
        share: 100,
        session,
        standing: Standing::new(),
    }));
}

/// Puts a run of a file as a hypercall does. Returns the number of pages stored.
fn put(host: &Host<Short>, index: u64) -> usize {
    put_run(
        host,
        Run {
            index,
            pages: PUT,
            ..Run::default()
        },
    )
}

fn put_run(host: &Host<Short>, run: Run) -> usize {
    put_runs(host, &[run])
}

/// Puts runs of [`PUT`] pages in one call.
fn put_runs(host: &Host<Short>, runs: &[Run]) -> usize {
    put_of(host, 0, runs)
}

/// Puts runs of [`PUT`] pages of the VM at this place of the list in one call.
fn put_of(host: &Host<Short>, vm: usize, runs: &[Run]) -> usize {
    let vm = host.vm_list.borrow().vms()[vm].clone();
    let session = &vm.session;
    let pages = usize::from(PUT) * runs.len();
    let origin = Origin {
        host,
        vm: &*vm,
        session,
    };
    assert_eq!(make_room(&origin, pages as u64), pages as u64);
    let mut carried = Carried::new();
    let stored = match fill(&origin, &mut carried.pages[..pages]) == pages {
        true => {
            let stamp = session.stamp(pages as u64);
            let placed = runs.iter().copied().zip((0..).step_by(usize::from(PUT)));
            keep(session, placed, &mut carried, stamp)
        }
        false => 0,
    };
    host.tier.release((pages - stored) as u64);
    retire(host, &mut carried.pages[..pages]);
    stored
}

/// Puts the run of [`PUT`] pages with a number into the VM at a position of the list.
pub(crate) fn put_number(host: &Host<Short>, vm: usize, number: u64) -> usize {
    let run = Run {
        index: number * u64::from(PUT),
        pages: PUT,
        ..Run::default()
    };
    put_of(host, vm, &[run])
}

/// The choices of victims and beneficiaries look at the sessions of all VMs with the list of VMs
/// locked. They must not become owners of a session there, which [`Watched`] checks.
#[test]
fn choices_borrow_no_session_with_the_list_of_vms_locked() {
    let host = host();
    add_vm(&host, 2);
    assert!(put_number(&host, 0, 0) > 0 && put_number(&host, 1, 0) > 0);
    host.own.spare.set(CAPACITY);
    refill(&host);
    assert!(evict_segment(&host, 1).is_none());
    let used = host.tier.used();
    host.tier.set_floor(0);
    assert_eq!(give_back(&host, used, None), used);
}

/// Memory that other callers may need is allocated only for pages that the administrator has
/// guaranteed to the tier.
#[test]
fn allocation_counts_as_below_the_floor_only_while_usage_is() {
    let host = host();
    let told = |floor| {
        host.tier.set_floor(floor);
        for index in 0..2 * CAPACITY {
            put(&host, index * u64::from(PUT));
        }
        let calls = host.own.calls.take();
        for (pages, below_floor, used, floor) in &calls {
            assert_eq!(*below_floor, used <= floor, "{pages} pages");
        }
        let count = |below| {
            calls
                .iter()
                .filter(|call| call.1 == below && call.0 > 0)
                .count()
        };
        (count(true), count(false))
    };
    let puts = (FLOOR / u64::from(PUT)) as usize;
    let (below, above) = told(FLOOR);
    assert!(below == puts && above > 0, "{below} {above}");
    assert_eq!(host.tier.used(), FLOOR);
    // The pages that are evicted are kept in the stock.
    let (below, above) = told(FLOOR / 2);
    assert!(below == 0, "{below} {above}");
    let (below, _) = told(FLOOR + 2 * u64::from(PUT));
    assert_eq!(below, 2);
    assert_eq!(
        host.tier.used() + host.stock.len(),
        FLOOR + 2 * u64::from(PUT)
    );
}

/// Otherwise a VM that puts a lot would make the pages of the others seem old.
#[test]
fn puts_of_a_vm_do_not_age_the_pages_of_others() {
    let host = host();
    add_vm(&host, 2);
    let now = |vm: usize| host.vm_list.borrow().vms()[vm].session.clock.now();
    let before = now(0);
    for number in 0..1000 {
        put_number(&host, 1, number);
    }
    assert!(now(1) > 0);
    assert_eq!(now(0), before);
}

fn file(inode: u64) -> FileKey {
    FileKey {
        inode,
        ..FileKey::default()
    }
}

fn used(host: &Host<Short>, pool: u32) -> u64 {
    let vm = host.vm_list.borrow().vms()[0].clone();
    let shards = 0..1 << Short::SHARD_BITS;
    let lists = (0..CLASSES as u8).map(|class| usize::from(list(pool, class)));
    let of = |shard| {
        vm.session.with(shard, |index| {
            let lists = lists.clone().map(|at| index.storage().lists()[at].used);
            lists.sum::<u64>()
        })
    };
    shards.map(of).sum()
}

#[test]
fn pools_of_a_full_tier_have_their_weights() {
    let host = host();
    host.tier.set_floor(CAPACITY);
    for round in 0..4 * CAPACITY {
        for pool in 0..2 {
            let run = Run {
                file: file(pool.into()),
                pool,
                index: round * u64::from(PUT),
                pages: PUT,
                ..Run::default()
            };
            put_run(&host, run);
        }
    }
    let batch = u64::from(PUT) + 4;
    for (pool, wanted) in [(0, CAPACITY / 4), (1, CAPACITY * 3 / 4)] {
        let has = used(&host, pool);
        assert!(has.abs_diff(wanted) <= batch, "pool {pool} has {has}");
    }
}

#[test]
fn a_flush_takes_the_pages_that_it_names() {
    let host = host();
    for inode in 0..2 {
        let run = Run {
            file: file(inode),
            pages: PUT,
            ..Run::default()
        };
        assert_eq!(put_run(&host, run), usize::from(PUT));
    }
    let vm = host.vm_list.borrow().vms()[0].clone();
    let (mut batch, mut effort) = (Batch::new(), Effort::bounded());
    let range = Range::Pages {
        file: file(1),
        first: 2,
        last: 4,
    };
    let flushed = flush(&vm.session, &range, &mut batch, &mut effort);
    assert_eq!((flushed.pages, flushed.done), (3, true));
    let left = |inode| {
        let run = Run {
            file: file(inode),
            pages: PUT,
            ..Run::default()
        };
        let mut carried = Carried::new();
        take(&vm.session, iter::once((run, 0)), &mut carried);
        let pages = carried.pages[..usize::from(PUT)].iter();
        pages.map(Option::is_some).collect::<Vec<_>>()
    };
    assert_eq!(left(0), [true; 8]);
    assert_eq!(left(1), [true, true, false, false, false, true, true, true]);
}

/// Returns a host with a VM, and with memory for `pages` pages.
fn host_of(pages: u64) -> Host<Short> {
    let tier = Arc::new(Tier::new(pages));
    tier.set_floor(pages);
    let host = Host::new(tier, 16, Short::default());
    add_vm(&host, 1);
    host
}

/// Puts the first `pages` pages of a file.
fn put_pages(host: &Host<Short>, pages: u64) {
    (0..pages / u64::from(PUT)).for_each(|number| _ = put_number(host, 0, number));
}

/// A guest that repeats a flush after its pages were evicted, and put again, must get rid of all of
/// them.
#[test]
fn a_flush_of_an_empty_session_begins_anew() {
    const PAGES: u64 = 4000;
    let host = host_of(PAGES);
    let vm = host.vm_list.borrow().vms()[0].clone();
    let range = Range::File(file(0));
    let mut batch = Batch::new();
    let mut call = || flush(&vm.session, &range, &mut batch, &mut Effort::bounded());
    put_pages(&host, PAGES);
    assert!(!call().done);
    evict_all(&vm.session, u64::MAX, Cause::Command);
    assert_eq!((call().pages, used(&host, 0)), (0, 0));
    put_pages(&host, PAGES);
    while !call().done {}
    assert_eq!(used(&host, 0), 0);
}

/// A vCPU runs no task of its guest during a call, whatever the size of the file.
#[test]
fn a_move_takes_several_calls_that_are_bounded() {
    const PAGES: u64 = 4000;
    let host = host_of(PAGES);
    put_pages(&host, PAGES);
    assert_eq!((used(&host, 0), used(&host, 1)), (PAGES, 0));
    let vm = host.vm_list.borrow().vms()[0].clone();
    let mut moved = Vec::new();
    loop {
        let part = migrate(&vm.session, &file(0), 1, &mut Effort::bounded());
        moved.push(part.pages);
        if part.done {
            break;
        }
    }
    assert!(moved.iter().all(|pages| *pages <= PAGES / 3), "{moved:?}");
    assert_eq!(moved.iter().sum::<u64>(), PAGES);
    assert_eq!((used(&host, 0), used(&host, 1)), (0, PAGES));
}

/// A guest may name a page twice in a put. The gauges must be right at any moment, because other
/// processors read them without the lock. `Number::subtract` checks that none falls below zero.
#[test]
fn a_put_that_replaces_its_own_pages_counts_them_first() {
    let host = host();
    host.tier.set_floor(CAPACITY);
    let run = |pool, index| Run {
        pool,
        index: index * u64::from(PUT),
        pages: PUT,
        ..Run::default()
    };
    put_run(&host, run(1, 1));
    assert_eq!((used(&host, 0), used(&host, 1)), (0, u64::from(PUT)));
    put_runs(&host, &[run(0, 0), run(0, 0), run(0, 1)]);
    assert_eq!((used(&host, 0), used(&host, 1)), (2 * u64::from(PUT), 0));
    let vm = host.vm_list.borrow().vms()[0].clone();
    let held = |pool| vm.session.gauge(pool).map(Gauge::held);
    assert_eq!((held(0), held(1)), (Some(2 * u64::from(PUT)), Some(0)));
}

/// The memory that a VMM may use can be restricted to NUMA nodes, of which none has idle pages,
/// while the tier is not full and other nodes have some.
#[test]
fn a_put_that_may_not_use_idle_memory_takes_no_pages_of_other_vms() {
    let host = host();
    host.tier.set_floor(CAPACITY / 2);
    add_vm(&host, 2);
    let put = |vm, index| put_number(&host, vm, index);
    for index in 0..CAPACITY / 2 / u64::from(PUT) {
        assert_eq!(put(0, index), usize::from(PUT));
    }
    let used = |vm: usize| host.vm_list.borrow().vms()[vm].session.used();
    let before = used(0);
    host.tier.set_floor(0);
    host.own.spare.set(CAPACITY);
    assert_eq!(put(1, 0), 0);
    assert_eq!((used(0), used(1)), (before, 0));
    // Without idle pages anywhere the tier is full, and pages are taken by weight.
    host.own.spare.set(0);
    assert_eq!(put(1, 0), usize::from(PUT));
    assert!(used(0) < before && used(1) == u64::from(PUT));
}

#[test]
fn pages_beyond_a_smaller_capacity_are_given_back() {
    let host = host();
    host.tier.set_floor(CAPACITY);
    for index in 0..CAPACITY / u64::from(PUT) {
        put(&host, index * u64::from(PUT));
    }
    host.stock.give_back(u64::MAX, |_| true);
    host.tier.set_capacity(CAPACITY / 4);
    refill(&host);
    assert!(host.tier.used() <= CAPACITY / 4);
    assert_eq!(host.stock.len(), 0);
}

/// The kernel asks for pages of the node that is short of memory.
#[test]
fn a_node_that_is_short_of_memory_takes_pages_of_the_vms_there() {
    let host = host();
    host.tier.set_floor(CAPACITY);
    add_vm(&host, 2);
    for (vm, node) in [(0, 0), (1, 1)] {
        for index in 0..5 {
            host.own.node.set(node);
            assert_eq!(put_number(&host, vm, index), usize::from(PUT));
        }
    }
    let used = |vm: usize| host.vm_list.borrow().vms()[vm].session.used();
    host.tier.set_floor(0);
    host.stock.give_back(u64::MAX, |_| true);
    let before = [used(0), used(1)];
    assert_eq!(give_back(&host, 20, Some(1)), 20);
    assert_eq!([used(0), used(1)], [before[0], before[1] - 20]);
    // A node without VMs gets pages of all of them.
    assert_eq!(give_back(&host, 20, Some(2)), 20);
    assert!(used(0) < before[0]);
}

/// The kernel asks for a few pages at a time, which are less than a page for each pool. Pools of
/// equal weight that have equally many pages lose equally many nevertheless, and not the first ones
/// all of theirs.
#[test]
fn many_equal_pools_lose_alike() {
    const VMS: usize = 3;
    const POOLS: u32 = 60;
    const CALLS: u64 = 8;
    const ASKED: u64 = 128;
    let host = host();
    let pages = CALLS * 8 * u64::from(PUT);
    let all = VMS as u64 * u64::from(POOLS) * pages;
    host.tier.set_capacity(2 * all);
    host.tier.set_floor(2 * all);
    for vm in 1..=VMS {
        add_vm_with(&host, vm as u32 + 1, &[100; POOLS as usize]);
        for pool in 0..POOLS {
            for call in 0..CALLS {
                let run = |n| Run {
                    file: file(pool.into()),
                    pool,
                    index: (call * 8 + n) * u64::from(PUT),
                    pages: PUT,
                    ..Run::default()
                };
                put_of(&host, vm, &[0, 1, 2, 3, 4, 5, 6, 7].map(run));
            }
        }
    }
    assert_eq!(host.tier.used(), all);
    host.stock.give_back(u64::MAX, |_| true);
    host.tier.set_floor(0);
    while host.tier.used() > all / 5 * 3 {
        assert!(give_back(&host, ASKED, None) > 0);
    }
    let lost = |vm: usize| {
        let vm = host.vm_list.borrow().vms()[vm].clone();
        let left = (0..POOLS).filter_map(|pool| Some(vm.session.gauge(pool)?.held()));
        left.map(|left| pages - left).collect::<Vec<_>>()
    };
    let lost: Vec<_> = (1..=VMS).flat_map(lost).collect();
    let (most, least) = (lost.iter().max(), lost.iter().min());
    let (most, least) = (*most.unwrap(), *least.unwrap());
    assert!(0 < least && most <= 2 * least, "{least} to {most} pages");
}

/// The shrinker waits until another task has chosen its victims, because a kernel that gets no
/// pages would swap, or kill tasks, beside a full cache. A put does not wait: its own pool loses
/// pages.
#[test]
fn memory_is_given_back_while_another_task_chooses_victims() {
    let host = host();
    host.tier.set_floor(CAPACITY);
    add_vm(&host, 2);
    for vm in [0, 1] {
        for index in 0..5 {
            assert_eq!(put_number(&host, vm, index), usize::from(PUT));
        }
    }
    let used = |vm: usize| host.vm_list.borrow().vms()[vm].session.used();
    host.tier.set_floor(0);
    host.stock.give_back(u64::MAX, |_| true);
    host.vm_list.held.set(true);
    assert_eq!(give_back(&host, 20, None), 20);
    let other = used(1);
    assert_eq!(put_number(&host, 0, 100), usize::from(PUT));
    assert_eq!(used(1), other);
}

/// Statistics and the pressure that gets report come from published sums. They would wait for each
/// choice of victims if they locked the list of VMs; the lock panics if it is taken twice.
#[test]
fn statistics_do_not_wait_for_the_choice_of_victims() {
    let host = host();
    add_vm(&host, 2);
    assert_eq!(put_number(&host, 0, 0), usize::from(PUT));
    let vm = host.vm_list.borrow().vms()[0].clone();
    let origin = Origin {
        host: &host,
        vm: &*vm,
        session: &vm.session,
    };
    let _chooses = host.vm_list.borrow_mut();
    assert_eq!(entitlement(&host.tier, &*vm), CAPACITY / 2);
    let run = Run {
        pages: 1,
        ..Run::default()
    };
    assert_eq!(pressure(&origin, &run, 1, 0).known, 1);
    assert!(vm.session.used() > 0);
}

/// Several tasks free the pages of a session that has ended, each those of some shards.
#[test]
fn parts_of_a_session_are_drained_completely() {
    for tasks in [1, 2, 4, 8] {
        let host = host();
        host.tier.set_floor(CAPACITY);
        for index in 0..5 {
            assert_eq!(put_number(&host, 0, index), usize::from(PUT));
        }
        let vm = host.vm_list.borrow().vms()[0].clone();
        let shards = 1 << Short::SHARD_BITS;
        let parts = (0..tasks).map(|task| shards_of_task(task, tasks, shards));
        let freed: u64 = parts.map(|shards| drain(&vm.session, shards)).sum();
        assert_eq!(freed, 5 * u64::from(PUT));
        assert_eq!(vm.session.used(), 0);
    }
}

/// Only one node is short of memory, and the others have plenty.
#[test]
fn a_short_node_does_not_stop_the_tier_from_growing_elsewhere() {
    let host = host();
    host.tier.set_floor(CAPACITY);
    for (index, node) in [(0, 0), (1, 1), (2, 1)] {
        host.own.node.set(node);
        put(&host, index * u64::from(PUT));
    }
    host.tier.set_floor(0);
    let mut pages: Vec<_> = [0, 1].map(|node| Some(on_node(node, 99))).into();
    host.stock.give_back(u64::MAX, |_| true);
    host.stock.add(&mut pages);
    host.own.spare.set(CAPACITY);
    // The page of the other node stays in the stock.
    assert_eq!(give_back(&host, 1, Some(0)), 1);
    assert_eq!(host.stock.len(), 1);
    assert!(give_back(&host, 8, Some(0)) >= 8);
    assert_eq!(host.stock.len(), 1);
    assert!(!host.tier.is_scarce());
    // Memory of this node alone is short for a VMM that may use no other.
    host.tier.lower_limit(CAPACITY / 2, 0);
    for time in 1..100 {
        host.own.time.set(time * 50);
        put(&host, 0);
        room::Host::recover(&host);
    }
    assert!(!host.tier.is_scarce());
}

/// VMs that were chosen for eviction may have lost their pages before their turn comes.
#[test]
fn victims_without_pages_are_replaced() {
    let host = host();
    host.tier.set_floor(CAPACITY);
    host.tier.set_batch(u32::from(PUT));
    (2..=4 * 16).for_each(|number| add_vm(&host, number));
    let put = |vm, index| put_number(&host, vm, index);
    // The first VM has nearly all pages, so that it is chosen for several evictions.
    for index in 0..CAPACITY / u64::from(PUT) {
        assert_eq!(put(0, index), usize::from(PUT));
    }
    assert_eq!(put(1, 0), usize::from(PUT));
    let first = host.vm_list.borrow().vms()[0].clone();
    evict_all(&first.session, u64::MAX, Cause::Command);
    for index in 0..CAPACITY / u64::from(PUT) {
        assert_eq!(put(2, index), usize::from(PUT), "put {index}");
    }
    for vm in 3..8 {
        assert_eq!(put(vm, 0), usize::from(PUT), "VM {vm}");
    }
}
