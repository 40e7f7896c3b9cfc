// SPDX-License-Identifier: GPL-2.0

//! The host: `ddcore`'s store, shares and order of leaving behind what the simulator needs.
//!
//! This file is all that knows the store's interface. Each pool has one list of the store for each
//! [`Class`], numbered `pool * CLASSES + class`.

use crate::page::Page;
use ddcore::partition::{Entity, collect, entitle, victim};
use ddcore::policy::{CLASSES, Class, Order, Pressure, is_full, pressure};
use ddcore::store::{Batch, Group, Hasher, Heap, List, Reason, Removed, Store, age};

/// How the tier is divided.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// By weights at both levels, with Algorithm 1.
    Weighted,
    /// Not at all: the oldest page of all leaves (the paper's *Global*).
    Global,
}

/// Names a pool: VM and pool of that VM.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct PoolId {
    /// Number of the VM.
    pub vm: usize,
    /// Number of its pool.
    pub pool: usize,
}

/// What a pool counted, in pages.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Held now.
    pub used: u64,
    /// Stored.
    pub puts: u64,
    /// Read back.
    pub hits: u64,
    /// Freed because their content was gone, their pool or their VM.
    pub flushes: u64,
    /// Freed for room.
    pub evictions: u64,
}

#[derive(Debug)]
struct Pool {
    weight: u32,
    order: Order,
}

/// A VM with a store of one shard.
#[derive(Debug)]
struct Vm {
    weight: u32,
    store: Store<Heap>,
    batch: Batch,
    pools: Vec<Pool>,
}

impl Vm {
    /// Looks for a page in the store, which belongs to `list` if it is put.
    fn visit(&mut self, page: Page, list: u16, visit: impl FnOnce(&mut Store<Heap>, &Group<'_>)) {
        let Self { store, batch, .. } = self;
        batch.add(&HASHER, &page.key(), 1, (0, list));
        let mut visit = Some(visit);
        batch.by_shard(0, |_, group| {
            if let Some(visit) = visit.take() {
                visit(store, &group);
            }
        });
    }
}

/// Of all stores: nobody here chooses keys that collide.
const HASHER: Hasher = Hasher::new(0);

/// Steps of a stamp in which as many pages are put as the tier holds.
const STEPS: u64 = 1 << 12;

/// The memory tier of a host.
#[derive(Debug)]
pub struct Host {
    capacity: u64,
    batch: u64,
    mode: Mode,
    vms: Vec<Vm>,
    used: u64,
    /// Puts so far: what ages pages.
    puts: u64,
    /// Puts in a step of a stamp.
    step: u64,
}

impl Host {
    /// A tier of `capacity` pages that evicts `batch` pages at a time.
    pub const fn new(capacity: u64, batch: u64, mode: Mode) -> Self {
        Self {
            capacity,
            batch,
            mode,
            vms: Vec::new(),
            used: 0,
            puts: 0,
            step: if capacity < STEPS {
                1
            } else {
                capacity / STEPS
            },
        }
    }

    /// Adds a VM.
    pub fn add_vm(&mut self, weight: u32) -> usize {
        self.vms.push(Vm {
            weight,
            store: Store::new(Heap::default(), HASHER),
            batch: Batch::new(),
            pools: Vec::new(),
        });
        self.vms.len() - 1
    }

    /// Adds a pool to a VM.
    pub fn add_pool(&mut self, vm: usize, weight: u32, order: Order) -> PoolId {
        let id = PoolId {
            vm,
            pool: self.vms[vm].pools.len(),
        };
        let vm = &mut self.vms[vm];
        vm.pools.push(Pool { weight, order });
        let lists = &mut vm.store.storage_mut().lists;
        lists.resize(lists.len() + CLASSES, List::default());
        id
    }

    /// Changes the capacity; pages above it leave with the next puts.
    pub const fn set_capacity(&mut self, pages: u64) {
        self.capacity = pages;
    }

    /// Changes the weight of a VM.
    pub fn set_vm_weight(&mut self, vm: usize, weight: u32) {
        self.vms[vm].weight = weight;
    }

    /// Changes the weight of a pool.
    pub fn set_weight(&mut self, id: PoolId, weight: u32) {
        self.vms[id.vm].pools[id.pool].weight = weight;
    }

    /// Ends a pool: its pages are freed and it stores no more.
    pub fn remove_pool(&mut self, id: PoolId) {
        self.set_weight(id, 0);
        for class in 0..CLASSES {
            let list = list(id.pool, class);
            let store = &mut self.vms[id.vm].store;
            self.used -= remove_oldest(store, list, u32::MAX, Reason::Flush);
        }
    }

    /// Ends a VM and all its pools.
    pub fn remove_vm(&mut self, vm: usize) {
        self.set_vm_weight(vm, 0);
        for pool in 0..self.vms[vm].pools.len() {
            self.remove_pool(PoolId { vm, pool });
        }
    }

    /// Takes a page out; says whether it was there.
    pub fn take(&mut self, vm: usize, page: Page) -> bool {
        self.remove(vm, page, Reason::Hit)
    }

    /// Frees a page whose content is gone.
    pub fn flush(&mut self, vm: usize, page: Page) {
        self.remove(vm, page, Reason::Flush);
    }

    /// Stores a page, making room for it if there is none. Pools without weight store nothing.
    pub fn put(&mut self, id: PoolId, page: Page, class: Class) -> bool {
        if self.vms[id.vm].pools[id.pool].weight == 0 || self.capacity == 0 {
            return false;
        }
        while self.used >= self.capacity {
            if self.evict_batch() == 0 {
                return false;
            }
        }
        self.puts += 1;
        let now = self.now();
        let (mut stored, mut replaced) = (0, 0);
        self.vms[id.vm].visit(page, list(id.pool, class.number()), |store, group| {
            store.supply(group.len());
            let drop = |_, page: Removed| {
                page.into_handle();
                replaced += 1;
            };
            store.insert(group, now, &[0], drop, |part| stored += part.pages() as u64);
        });
        self.used = self.used + stored - replaced;
        stored > 0
    }

    /// The stamp of what is put now.
    const fn now(&self) -> u64 {
        self.puts / self.step
    }

    /// What the guest is told about a pool.
    pub fn pressure(&self, id: PoolId) -> Pressure {
        let spare = self.capacity.saturating_sub(self.used);
        let used = held(&self.vms[id.vm], id.pool);
        let tier_is_full = is_full(self.used, self.capacity, self.batch);
        if self.mode == Mode::Global || !tier_is_full {
            return Pressure {
                capacity: used + spare,
                full: tier_is_full,
                floor: Class::LOWEST,
            };
        }
        let vms = self.entities();
        let pages = pressure::capacity(&vms, id.vm, self.batch);
        let pools = self.pool_entities(id.vm, pages);
        let capacity = pressure::capacity(&pools, id.pool, self.batch);
        Pressure {
            capacity,
            full: is_full(used, capacity, self.batch),
            floor: Class::new(self.next_class(id).unwrap_or(0) as u8),
        }
    }

    /// What a pool counted.
    pub fn counts(&self, id: PoolId) -> Counts {
        let mut sum = List::default();
        for list in lists(&self.vms[id.vm], id.pool) {
            sum.merge(list);
        }
        Counts {
            used: sum.used,
            puts: sum.puts,
            hits: sum.hits,
            flushes: sum.flushes,
            evictions: sum.evictions,
        }
    }

    /// Pages held in all.
    pub const fn used(&self) -> u64 {
        self.used
    }

    fn remove(&mut self, vm: usize, page: Page, reason: Reason) -> bool {
        let mut found = false;
        self.vms[vm].visit(page, 0, |store, group| {
            store.take(group, reason, |_, page| {
                page.into_handle();
                found = true;
            });
        });
        self.used -= u64::from(found);
        found
    }

    fn evict_batch(&mut self) -> u64 {
        let evicted = match self.mode {
            Mode::Weighted => self.evict_by_weight(),
            Mode::Global => self.evict_oldest(),
        };
        self.used -= evicted;
        evicted
    }

    /// Algorithm 1 among VMs, then among the pools of the victim.
    fn evict_by_weight(&mut self) -> u64 {
        let vms = self.entities();
        let Some(vm) = victim(&vms, self.batch) else {
            return 0;
        };
        let mut pools = self.pool_entities(vm, vms[vm].entitlement.max(vms[vm].used));
        collect(&mut pools, self.batch, |pool, pages| {
            self.evict(PoolId { vm, pool }, pages)
        })
    }

    fn entities(&self) -> Vec<Entity> {
        let of = |vm: &Vm| Entity {
            weight: vm.weight,
            used: vm.store.used(),
            entitlement: 0,
        };
        let mut vms: Vec<Entity> = self.vms.iter().map(of).collect();
        entitle(&mut vms, self.capacity);
        vms
    }

    fn pool_entities(&self, vm: usize, pages: u64) -> Vec<Entity> {
        let vm = &self.vms[vm];
        let of = |(number, pool): (usize, &Pool)| Entity {
            weight: pool.weight,
            used: held(vm, number),
            entitlement: 0,
        };
        let mut pools: Vec<Entity> = vm.pools.iter().enumerate().map(of).collect();
        entitle(&mut pools, pages);
        pools
    }

    fn evict(&mut self, id: PoolId, pages: u64) -> u64 {
        let mut evicted = 0;
        while evicted < pages {
            let Some(class) = self.next_class(id) else {
                break;
            };
            let list = list(id.pool, class);
            let removed = remove_oldest(&mut self.vms[id.vm].store, list, 1, Reason::Eviction);
            if removed == 0 {
                break;
            }
            evicted += removed;
        }
        evicted
    }

    fn evict_oldest(&mut self) -> u64 {
        let mut evicted = 0;
        while evicted < self.batch {
            let mut oldest: Option<(u64, usize, u16)> = None;
            for (at, vm) in self.vms.iter().enumerate() {
                for list in 0..vm.store.storage().lists.len() as u16 {
                    let Some(stamp) = vm.store.oldest_stamp(list) else {
                        continue;
                    };
                    let its = age(self.now(), stamp);
                    if oldest.is_none_or(|(age, ..)| its > age) {
                        oldest = Some((its, at, list));
                    }
                }
            }
            let Some((_, vm, list)) = oldest else {
                break;
            };
            evicted += remove_oldest(&mut self.vms[vm].store, list, 1, Reason::Eviction);
        }
        evicted
    }

    fn next_class(&self, id: PoolId) -> Option<usize> {
        let vm = &self.vms[id.vm];
        let order = vm.pools[id.pool].order;
        order.victim_in(&vm.store, list(id.pool, 0), self.now())
    }
}

/// Frees the oldest pages of a list; says how many that were.
fn remove_oldest(store: &mut Store<Heap>, list: u16, pages: u32, reason: Reason) -> u64 {
    let free = |page: Removed| {
        page.into_handle();
    };
    store.remove_oldest(list, pages, reason, free).into()
}

fn list(pool: usize, class: usize) -> u16 {
    (pool * CLASSES + class) as u16
}

fn lists(vm: &Vm, pool: usize) -> &[List] {
    &vm.store.storage().lists[pool * CLASSES..][..CLASSES]
}

fn held(vm: &Vm, pool: usize) -> u64 {
    lists(vm, pool).iter().map(|list| list.used).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(host: &mut Host, id: PoolId, file: u32, pages: u32) {
        for index in 0..pages {
            assert!(host.put(id, Page::new(file, index), Class::LOWEST));
        }
    }

    #[test]
    fn shares_follow_weights_and_counts_add_up() {
        let mut host = Host::new(1000, 10, Mode::Weighted);
        let vm = host.add_vm(100);
        let one = host.add_pool(vm, 75, Order::Aged);
        let two = host.add_pool(vm, 25, Order::Aged);
        fill(&mut host, one, 1, 3000);
        assert_eq!(host.counts(one).used, host.used());
        for file in 2..6 {
            fill(&mut host, two, file, 1000);
            fill(&mut host, one, file + 10, 1000);
        }
        for (id, share) in [(one, 750), (two, 250)] {
            let counts = host.counts(id);
            assert!(counts.used.abs_diff(share) <= 20, "{counts:?}");
            assert_eq!(counts.used, counts.puts - counts.evictions);
        }
        assert!(host.used() <= 1000);
    }

    #[test]
    fn the_oldest_of_all_leaves_in_global_mode() {
        let mut host = Host::new(100, 10, Mode::Global);
        let vm = host.add_vm(100);
        let one = host.add_pool(vm, 99, Order::Aged);
        let two = host.add_pool(vm, 1, Order::Aged);
        fill(&mut host, one, 1, 100);
        fill(&mut host, two, 2, 90);
        assert_eq!(host.counts(one).used, 10);
        assert!(!host.take(vm, Page::new(1, 0)));
        assert!(host.take(vm, Page::new(1, 99)));
        host.flush(vm, Page::new(2, 0));
        assert_eq!(host.used(), 98);
    }
}
