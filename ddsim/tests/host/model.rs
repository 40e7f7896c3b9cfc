// SPDX-License-Identifier: GPL-2.0-only

//! A model of the host as the paper describes it, with lists that are searched linearly.

use ddcore::index::BLOCK_PAGES;
use ddcore::policy::{Class, Order};
use ddsim::host::{Counts, Mode, PoolId};
use ddsim::page::Page;

/// Number of pages that are evicted before the class is chosen again.
const TURN: u64 = 32;

struct Held {
    id: PoolId,
    page: Page,
    class: usize,
    /// Number of the last put of a page of its block, counted over the puts of its VM or, in global
    /// mode, of all VMs. Adjacent pages with the same number are evicted together.
    came: u64,
}

impl Held {
    /// Returns the identity of its block.
    fn block(&self) -> (PoolId, usize, u64, u64) {
        let key = self.page.key();
        let index = key.index / BLOCK_PAGES as u64;
        (self.id, self.class, key.file.inode, index)
    }
}

struct Pool {
    weight: u32,
    order: Order,
    counts: Counts,
}

struct Vm {
    weight: u32,
    pools: Vec<Pool>,
    /// Number of puts, by which its pages age.
    puts: u64,
    /// The unused part of its entitlement that was last published.
    lent: u64,
    /// The weight with which it competes for unused memory that was last published.
    wanting: u64,
}

/// An entity of Algorithm 1.
struct Entity {
    weight: i128,
    entitlement: i128,
    used: i128,
}

pub(super) struct Model {
    capacity: u64,
    batch: u64,
    mode: Mode,
    vms: Vec<Vm>,
    /// Pages in the order in which their blocks were put.
    held: Vec<Held>,
    puts: u64,
}

impl Model {
    pub(super) fn new(capacity: u64, batch: u64, mode: Mode) -> Self {
        Self {
            capacity,
            batch,
            mode,
            vms: Vec::new(),
            held: Vec::new(),
            puts: 0,
        }
    }

    pub(super) fn add_vm(&mut self, weight: u32) {
        self.vms.push(Vm {
            weight,
            pools: Vec::new(),
            puts: 0,
            lent: 0,
            wanting: 0,
        });
        self.refresh(self.vms.len() - 1);
    }

    pub(super) fn add_pool(&mut self, vm: usize, weight: u32, order: Order) {
        self.vms[vm].pools.push(Pool {
            weight,
            order,
            counts: Counts::default(),
        });
    }

    pub(super) fn set_capacity(&mut self, pages: u64) {
        self.capacity = pages;
        while self.shortage() > 0 && self.evict_shortage() {}
    }

    /// Returns the number of pages to evict: those beyond the capacity and, if less than the
    /// reserve is free, those that are missing from twice the reserve.
    fn shortage(&self) -> u64 {
        let held = self.held.len() as u64;
        let reserve = self.batch.min(self.capacity / 64);
        let free = self.capacity.saturating_sub(held);
        let missing = if free < reserve {
            2 * reserve - free
        } else {
            0
        };
        held.saturating_sub(self.capacity) + missing
    }

    pub(super) fn set_vm_weight(&mut self, vm: usize, weight: u32) {
        self.vms[vm].weight = weight;
        self.refresh(vm);
    }

    pub(super) fn set_weight(&mut self, id: PoolId, weight: u32) {
        self.vms[id.vm].pools[id.pool].weight = weight;
    }

    pub(super) fn counts(&self, id: PoolId) -> Counts {
        let used = self.held.iter().filter(|held| held.id == id).count() as u64;
        Counts {
            used,
            ..self.vms[id.vm].pools[id.pool].counts
        }
    }

    pub(super) fn put(&mut self, id: PoolId, page: Page, class: Class) -> bool {
        if self.vms[id.vm].pools[id.pool].weight == 0 || self.capacity == 0 {
            return false;
        }
        while self.held.len() as u64 >= self.capacity {
            if !self.evict_for(id.vm) {
                return false;
            }
        }
        self.flush(id.vm, page);
        self.puts += 1;
        self.vms[id.vm].puts += 1;
        self.count(id).puts += 1;
        let came = self.now(id.vm);
        let new = Held {
            id,
            page,
            class: class.number(),
            came,
        };
        let block = new.block();
        self.held.push(new);
        // The sort is stable, so that the order of all other pages and of the blocks is preserved.
        self.held.sort_by_key(|held| {
            let its = held.block() == block;
            (its, its.then_some(held.page))
        });
        for held in &mut self.held {
            if held.block() == block {
                held.came = came;
            }
        }
        true
    }

    pub(super) fn take(&mut self, vm: usize, page: Page) -> bool {
        let Some(id) = self.remove(vm, page) else {
            return false;
        };
        self.count(id).hits += 1;
        true
    }

    pub(super) fn flush(&mut self, vm: usize, page: Page) {
        if let Some(id) = self.remove(vm, page) {
            self.count(id).flushes += 1;
        }
    }

    pub(super) fn remove_pool(&mut self, id: PoolId) {
        self.set_weight(id, 0);
        let before = self.held.len();
        self.held.retain(|held| held.id != id);
        self.count(id).flushes += (before - self.held.len()) as u64;
    }

    pub(super) fn remove_vm(&mut self, vm: usize) {
        self.set_vm_weight(vm, 0);
        for pool in 0..self.vms[vm].pools.len() {
            self.remove_pool(PoolId { vm, pool });
        }
    }

    fn count(&mut self, id: PoolId) -> &mut Counts {
        &mut self.vms[id.vm].pools[id.pool].counts
    }

    fn remove(&mut self, vm: usize, page: Page) -> Option<PoolId> {
        let found = |held: &Held| held.id.vm == vm && held.page == page;
        let at = self.held.iter().position(found)?;
        Some(self.held.remove(at).id)
    }

    /// Returns the time by which the pages of a VM age: its own puts or, in global mode, all puts.
    fn now(&self, vm: usize) -> u64 {
        match self.mode {
            Mode::Global => self.puts,
            Mode::Weighted => self.vms[vm].puts,
        }
    }

    /// Returns the entitlement of a VM.
    fn entitlement(&self, vm: usize) -> u64 {
        let total: u64 = self.vms.iter().map(|vm| u64::from(vm.weight)).sum();
        let own = self.capacity * u64::from(self.vms[vm].weight);
        own.checked_div(total).unwrap_or(0)
    }

    fn vm_used(&self, vm: usize) -> u64 {
        self.held.iter().filter(|held| held.id.vm == vm).count() as u64
    }

    /// Publishes the unused memory of a VM, and whether the VM competes for more.
    fn refresh(&mut self, vm: usize) {
        let (entitlement, used) = (self.entitlement(vm), self.vm_used(vm));
        let (batch, own) = (self.batch, &mut self.vms[vm]);
        let unused = entitlement.saturating_sub(used);
        own.lent = if unused > 2 * batch { unused } else { 0 };
        let wants = used > 0 && entitlement < used + batch;
        own.wanting = if wants { own.weight.into() } else { 0 };
    }

    /// Returns whether a VM has all the pages that it may have, which are its entitlement and its
    /// part by weight of its peers' unused memory.
    fn is_replete(&mut self, vm: usize) -> bool {
        self.refresh(vm);
        let peers = || self.vms.iter().enumerate().filter(|(at, _)| *at != vm);
        let lent: u64 = peers().map(|(_, peer)| peer.lent).sum();
        let wanting: u64 = peers().map(|(_, peer)| peer.wanting).sum();
        let weight = u64::from(self.vms[vm].weight);
        let extra = (lent * weight).checked_div(wanting + weight).unwrap_or(0);
        let used = self.vm_used(vm);
        used > 0 && used >= self.entitlement(vm) + extra
    }

    /// Evicts a batch for a put of a VM. Returns whether any page was evicted.
    fn evict_for(&mut self, vm: usize) -> bool {
        let mode = self.mode;
        let evicted = match mode {
            Mode::Global => self.evict_by_age(),
            Mode::Weighted if self.is_replete(vm) => self.evict_by_weight(vm),
            Mode::Weighted => match self.choose(1).first() {
                Some(victim) => self.evict_by_weight(*victim),
                None => 0,
            },
        };
        evicted > 0
    }

    /// Evicts the number of pages that is missing, a batch from each victim.
    fn evict_shortage(&mut self) -> bool {
        let shortage = self.shortage();
        let mut evicted = 0;
        match self.mode {
            Mode::Global => evicted = self.evict_by_age(),
            Mode::Weighted => {
                for victim in self.choose(shortage.div_ceil(self.batch).min(16)) {
                    evicted += self.evict_by_weight(victim);
                    if evicted >= shortage {
                        break;
                    }
                }
            }
        }
        evicted > 0
    }

    /// Evicts the page at an index of the list.
    fn evict_at(&mut self, at: usize) {
        let id = self.held.remove(at).id;
        self.count(id).evictions += 1;
    }

    /// Evicts a batch of pages that are at most a batch younger than the oldest page, from one list
    /// after the other. At most a block of pages is evicted from a list before the age of its
    /// oldest page is compared again.
    fn evict_by_age(&mut self) -> u64 {
        let age = |model: &Self, held: &Held| model.puts - held.came;
        let Some(oldest) = self.held.iter().map(|held| age(self, held)).max() else {
            return 0;
        };
        let least = oldest.saturating_sub(self.batch);
        let mut left = self.batch;
        let pools = |vm: &Vm| vm.pools.len();
        let pools: Vec<usize> = self.vms.iter().map(pools).collect();
        for (vm, pools) in pools.into_iter().enumerate() {
            for (pool, class) in (0..pools).flat_map(|pool| (0..4).map(move |class| (pool, class)))
            {
                let id = PoolId { vm, pool };
                while let Some(at) = self.oldest(id, class) {
                    if left == 0 || age(self, &self.held[at]) < least {
                        break;
                    }
                    for _ in 0..left.min(BLOCK_PAGES as u64) {
                        let Some(at) = self.oldest(id, class) else {
                            break;
                        };
                        self.evict_at(at);
                        left -= 1;
                    }
                }
            }
        }
        self.batch - left
    }

    /// Returns the index of the oldest page of a class.
    fn oldest(&self, id: PoolId, class: usize) -> Option<usize> {
        let mut held = self.held.iter();
        held.position(|held| held.id == id && held.class == class)
    }

    /// Evicts up to `pages` pages of a pool, but at most [`TURN`]. The class is chosen once, and
    /// again if it has no more pages. Returns the number of evicted pages.
    fn evict(&mut self, id: PoolId, pages: u64) -> u64 {
        assert!(pages <= TURN);
        let mut class = None;
        for done in 0..pages {
            let at = class.and_then(|class| self.oldest(id, class));
            if at.is_none() {
                class = self.gives(id);
            }
            let Some(at) = class.and_then(|class| self.oldest(id, class)) else {
                return done;
            };
            self.evict_at(at);
        }
        pages
    }

    /// Evicts a batch of a VM, from the pools that exceed their entitlements most. Pages of a pool
    /// are evicted until the batch is complete or the pool is empty. Entitlements are fixed for the
    /// batch.
    fn evict_by_weight(&mut self, vm: usize) -> u64 {
        let pages = self.entitlement(vm).max(self.vm_used(vm));
        let used = |pool| self.counts(PoolId { vm, pool }).used;
        let weights = self.vms[vm].pools.iter().map(|pool| pool.weight);
        let mut pools = entities(pages, weights, used);
        let mut left = self.batch;
        for pool in victims(&mut pools, self.batch.into(), 16) {
            left -= self.evict(PoolId { vm, pool }, left);
            if left == 0 {
                break;
            }
        }
        self.batch - left
    }

    /// Returns the class of a pool from which the next page is evicted.
    fn gives(&self, id: PoolId) -> Option<usize> {
        let size = |class| {
            let held = self.held.iter();
            held.filter(|held| held.id == id && held.class == class)
                .count()
        };
        match self.vms[id.vm].pools[id.pool].order {
            // Class 0 while it has more than a tenth of the pool, otherwise the highest class that
            // has pages.
            Order::Small => {
                let all: usize = (0..4).map(size).sum();
                let small = size(0) * 10 > all;
                let highest = (0..4).rev().find(|class| size(*class) > 0);
                if small { Some(0) } else { highest }
            }
            Order::Oldest => {
                let oldest = (0..4).filter_map(|class| Some((self.oldest(id, class)?, class)));
                oldest
                    .min_by_key(|(at, _)| self.held[*at].came)
                    .map(|(_, class)| class)
            }
            // The age of a class is divided by four for each class below it, unless no page was
            // added to it while the content of all classes below was replaced eight times. Of
            // classes with the same age the lowest is chosen.
            Order::Aged => {
                let now = self.now(id.vm);
                let age = |at: usize| now - self.held[at].came;
                let newest = |class| {
                    let mut held = self.held.iter();
                    held.rposition(|held| held.id == id && held.class == class)
                };
                let mut most: Option<(u64, usize)> = None;
                let mut below = None;
                for class in 0..4 {
                    let (Some(at), Some(last)) = (self.oldest(id, class), newest(class)) else {
                        continue;
                    };
                    let divisor = match below {
                        Some(below) if age(last) / 8 > below => 1,
                        _ => 4u64.pow(class as u32),
                    };
                    if most.is_none_or(|(oldest, _)| age(at) / divisor > oldest) {
                        most = Some((age(at) / divisor, class));
                    }
                    below = below.max(Some(age(at)));
                }
                most.map(|(_, class)| class)
            }
        }
    }

    /// Returns the VMs that exceed their entitlements most, one for each of a number of consecutive
    /// batches. Unused memory is that before the first eviction.
    fn choose(&mut self, batches: u64) -> Vec<usize> {
        (0..self.vms.len()).for_each(|vm| self.refresh(vm));
        let weights = self.vms.iter().map(|vm| vm.weight);
        let mut vms = entities(self.capacity, weights, |vm| self.vm_used(vm));
        victims(&mut vms, self.batch.into(), batches)
    }
}

/// Returns entitlements by weight, rounded down to whole pages.
fn entities(
    pages: u64,
    weights: impl Iterator<Item = u32> + Clone,
    used: impl Fn(usize) -> u64,
) -> Vec<Entity> {
    let total: u64 = weights.clone().map(u64::from).sum();
    let entity = |(at, weight): (usize, u32)| {
        let own = (pages * u64::from(weight)).checked_div(total).unwrap_or(0);
        Entity {
            weight: weight.into(),
            entitlement: own.into(),
            used: used(at).into(),
        }
    };
    weights.enumerate().map(entity).collect()
}

/// GETVICTIM line by line, for `count` consecutive evictions, with this project's decisions for
/// cases that the paper leaves open.
fn victims(entities: &mut [Entity], eviction: i128, count: u64) -> Vec<usize> {
    let is_overused =
        |entity: &Entity| entity.used > 0 && entity.entitlement < entity.used + eviction;
    let (mut underused_buffer, mut cumulative_weight) = (0, 0);
    for entity in entities.iter() {
        if is_overused(entity) {
            cumulative_weight += entity.weight;
        }
        let unused = entity.entitlement - entity.used;
        if unused > 2 * eviction {
            underused_buffer += unused;
        }
    }
    let any_overused = entities.iter().any(is_overused);
    let buffer = if any_overused { underused_buffer } else { 0 };
    let exceed = |entity: &Entity| {
        let extra = (buffer * entity.weight)
            .checked_div(cumulative_weight)
            .unwrap_or(0);
        entity.used + eviction - (entity.entitlement + extra)
    };
    let mut chosen = Vec::new();
    for _ in 0..count {
        let gives = |entity: &Entity| match any_overused {
            true => is_overused(entity),
            false => entity.used > 0,
        };
        let mut found: Option<usize> = None;
        for (at, entity) in entities.iter().enumerate() {
            let exceeds = |found: usize| exceed(&entities[found]) < exceed(entity);
            if gives(entity) && found.is_none_or(exceeds) {
                found = Some(at);
            }
        }
        let Some(at) = found else { break };
        chosen.push(at);
        entities[at].used = (entities[at].used - eviction).max(0);
    }
    chosen
}
