// SPDX-License-Identifier: GPL-2.0-only

//! The accounts of the tier and of a session, which are updated apart from the index, while vCPUs
//! put, take and evict pages.

use ddabi::key::{FileKey, PageKey};
use ddcore::account::Account;
use ddcore::index::{Batch, Hasher, Heap, Index, Reason};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::check;
use crate::number::OrderedNumber;

const HASHER: Hasher = Hasher::new(1);

/// A host with one session of one shard, like the host module.
struct Host {
    capacity: u64,
    tier: Account<OrderedNumber>,
    session: Account<OrderedNumber>,
    shard: Mutex<Index<Heap>>,
    /// The injected fault: pages are added to the account only after the lock was released.
    late: bool,
}

impl Host {
    fn new(capacity: u64, late: bool) -> Arc<Self> {
        Arc::new(Self {
            capacity,
            tier: Account::new(),
            session: Account::new(),
            shard: Mutex::new(Index::new(Heap::with_lists(1), HASHER)),
            late,
        })
    }

    fn subtract(&self, pages: u64) {
        self.session.subtract(pages);
        self.tier.subtract(pages);
    }

    fn evict(&self) -> u64 {
        let mut index = self.shard.lock().unwrap();
        let evicted = index.remove_oldest(0, 1, Reason::Eviction, |page| {
            page.into_handle();
        });
        drop(index);
        self.subtract(evicted.into());
        evicted.into()
    }

    fn make_room(&self) -> bool {
        let reserve = || self.tier.reserve(1, || self.capacity);
        if reserve() {
            return true;
        }
        // Two vCPUs may evict at the same time, and either may reserve the memory that the other
        // has freed.
        self.evict() > 0 && reserve()
    }

    fn put(&self, page: u64) {
        if !self.make_room() {
            return;
        }
        let (mut stored, mut replaced) = (0, 0);
        let mut index = self.shard.lock().unwrap();
        index.supply(1);
        batch(page).by_shard(0, |_, group| {
            let older = |_, page: ddcore::index::Removed| {
                page.into_handle();
                replaced += 1;
            };
            index.insert(&group, 0, &[page + 1], older, |_| stored += 1);
        });
        if self.late {
            drop(index);
            self.session.add(stored, &mut self.shard.lock().unwrap());
        } else {
            self.session.add(stored, &mut index);
            drop(index);
        }
        self.subtract(replaced);
    }

    fn take(&self, page: u64) {
        let mut taken = 0;
        let mut index = self.shard.lock().unwrap();
        batch(page).by_shard(0, |_, group| {
            index.take(&group, Reason::Hit, |_, page| {
                page.into_handle();
                taken += 1;
            });
        });
        drop(index);
        self.subtract(taken);
    }

    /// Checks that all accounts agree when no vCPU runs.
    fn balance(&self) {
        let kept = self.shard.lock().unwrap().used();
        assert_eq!(self.session.pages(), kept);
        assert_eq!(self.tier.pages(), kept);
        assert!(kept <= self.capacity);
    }
}

/// Returns a batch of one page in a file of its own.
fn batch(page: u64) -> Batch {
    let file = FileKey {
        inode: page,
        filesystem: 1,
        generation: 0,
    };
    let mut batch = Batch::new();
    batch.add(&HASHER, &PageKey { file, index: 0 }, 1, (0, 0));
    batch
}

fn together(host: &Arc<Host>, other: impl FnOnce(&Host) + 'static, one: impl FnOnce(&Host)) {
    let theirs = host.clone();
    let other = thread::spawn(move || other(&theirs));
    one(host);
    assert!(host.tier.pages() <= host.capacity);
    other.join().unwrap();
    host.balance();
}

fn put_and_take(late: bool) {
    check(move || {
        let host = Host::new(2, late);
        together(&host, |host| host.put(1), |host| host.take(1));
    });
}

#[test]
fn a_page_is_booked_before_it_can_go() {
    put_and_take(false);
}

#[test]
#[should_panic(expected = "1 pages of 0 were subtracted")]
fn booking_without_the_lock_is_detected() {
    put_and_take(true);
}

#[test]
fn no_more_pages_than_there_may_be() {
    check(|| {
        let host = Host::new(1, false);
        together(&host, |host| host.put(1), |host| host.put(2));
        assert_eq!(host.shard.lock().unwrap().used(), 1);
    });
}

#[test]
fn the_same_page_twice_is_one_page() {
    check(|| {
        let host = Host::new(2, false);
        together(&host, |host| host.put(1), |host| host.put(1));
        assert_eq!(host.shard.lock().unwrap().used(), 1);
    });
}

#[test]
fn evictions_and_hits_of_one_page_book_it_once() {
    check(|| {
        let host = Host::new(1, false);
        host.put(1);
        together(&host, |host| host.put(2), |host| host.take(1));
    });
}
