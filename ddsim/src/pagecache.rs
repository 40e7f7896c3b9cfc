// SPDX-License-Identifier: GPL-2.0-only

//! A model of the page cache of one container and of its reclaim in Linux, with two lists and
//! shadow entries.
//!
//! The model follows `mm/swap.c`, `mm/vmscan.c` and `mm/workingset.c` of Linux 7.2, without its
//! multi-generational LRU. A new page is inactive, and its second access activates it. Reclaim
//! takes pages from the tail of the inactive list, and refills this list from the active one while
//! it is the shorter of the two. A reclaimed page is activated immediately if it is read again
//! before the number of further reclaims and activations exceeds the size of the active list. Such
//! a page counts as part of the working set, and so does every page that was active before.

use crate::page::{Page, PageMap};

/// The link to no entry.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum List {
    Inactive,
    Active,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: Page,
    newer: u32,
    older: u32,
    list: List,
    referenced: bool,
    workingset: bool,
    dirty: bool,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    used: usize,
}

/// A page that was reclaimed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reclaimed {
    /// The page.
    pub page: Page,
    /// Whether the kernel counted it as part of the working set (`PG_workingset`).
    pub workingset: bool,
    /// Whether it must be written before it is freed.
    pub dirty: bool,
}

/// The page cache of a container, up to a limit.
#[derive(Clone, Debug)]
pub struct PageCache {
    limit: usize,
    at: PageMap<u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    lists: [Ends; 2],
    /// The time at which each page was reclaimed, counted in reclaims and activations.
    shadows: PageMap<u64>,
    clock: u64,
    anonymous: usize,
    refaults: Refaults,
}

/// Pages that were read again while they still had a shadow entry.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Refaults {
    /// Pages of files.
    pub files: u64,
    /// Pages of process memory.
    pub anonymous: u64,
}

impl PageCache {
    /// Creates an empty cache of up to `limit` pages.
    pub fn new(limit: usize) -> Self {
        let ends = Ends {
            newest: NONE,
            oldest: NONE,
            used: 0,
        };
        Self {
            limit,
            at: PageMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            lists: [ends; 2],
            shadows: PageMap::default(),
            clock: 0,
            anonymous: 0,
            refaults: Refaults::default(),
        }
    }

    /// Returns the number of pages.
    pub fn used(&self) -> usize {
        self.at.len()
    }

    /// Returns the number of pages of process memory.
    pub const fn anonymous(&self) -> usize {
        self.anonymous
    }

    /// Returns the refaults so far.
    pub const fn refaults(&self) -> Refaults {
        self.refaults
    }

    /// Sets the limit. Pages beyond it stay until they are reclaimed.
    pub const fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Looks a page up and records the access. Returns whether it was found.
    pub fn access(&mut self, page: Page, write: bool) -> bool {
        let Some(at) = self.at.get(&page).copied() else {
            return false;
        };
        let entry = &mut self.entries[at as usize];
        entry.dirty |= write;
        if !entry.referenced {
            entry.referenced = true;
        } else if entry.list == List::Inactive {
            entry.referenced = false;
            self.unlink(at);
            self.push(at, List::Active);
            self.clock += 1;
        }
        true
    }

    /// Adds a page that [`PageCache::access`] did not find.
    pub fn insert(&mut self, page: Page, dirty: bool) {
        let shadow = self.shadows.remove(&page);
        let anonymous = page.is_anonymous();
        self.anonymous += usize::from(anonymous);
        if shadow.is_some() {
            match anonymous {
                true => self.refaults.anonymous += 1,
                false => self.refaults.files += 1,
            }
        }
        let active = self.lists[List::Active as usize].used as u64;
        let refaulted = shadow.is_some_and(|then| self.clock - then <= active);
        let entry = Entry {
            page,
            newer: NONE,
            older: NONE,
            list: List::Inactive,
            referenced: false,
            workingset: refaulted,
            dirty,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.at.insert(page, at);
        self.push(
            at,
            if refaulted {
                List::Active
            } else {
                List::Inactive
            },
        );
    }

    /// Reclaims a page, if the cache exceeds its limit.
    pub fn reclaim(&mut self) -> Option<Reclaimed> {
        (self.at.len() > self.limit)
            .then(|| self.shrink())
            .flatten()
    }

    /// Reclaims a page, if there is one, regardless of the limit.
    pub fn shrink(&mut self) -> Option<Reclaimed> {
        if self.at.is_empty() {
            return None;
        }
        let [inactive, active] = &self.lists;
        let mut short = inactive.used < active.used || inactive.used == 0;
        while short {
            let at = self.lists[List::Active as usize].oldest;
            self.unlink(at);
            let entry = &mut self.entries[at as usize];
            (entry.workingset, entry.referenced) = (true, false);
            self.push(at, List::Inactive);
            short = self.lists[0].used < self.lists[1].used;
        }
        let at = self.lists[List::Inactive as usize].oldest;
        let entry = self.entries[at as usize];
        self.drop_entry(at);
        self.clock += 1;
        self.shadows.insert(entry.page, self.clock);
        self.prune();
        Some(Reclaimed {
            page: entry.page,
            workingset: entry.workingset,
            dirty: entry.dirty,
        })
    }

    /// Removes a page because its content was deleted.
    pub fn forget(&mut self, page: Page) {
        self.shadows.remove(&page);
        if let Some(at) = self.at.get(&page).copied() {
            self.drop_entry(at);
        }
    }

    /// Removes shadow entries that are too old to have an effect, to save memory.
    fn prune(&mut self) {
        if self.shadows.len() > 1024 + 4 * self.limit {
            let oldest = self.clock.saturating_sub(self.limit as u64);
            self.shadows.retain(|_, then| *then >= oldest);
        }
    }

    fn drop_entry(&mut self, at: u32) {
        self.unlink(at);
        let page = self.entries[at as usize].page;
        self.anonymous -= usize::from(page.is_anonymous());
        self.at.remove(&page);
        self.free.push(at);
    }

    fn push(&mut self, at: u32, list: List) {
        let older = self.lists[list as usize].newest;
        let entry = &mut self.entries[at as usize];
        (entry.list, entry.older, entry.newer) = (list, older, NONE);
        let ends = &mut self.lists[list as usize];
        ends.newest = at;
        ends.used += 1;
        match older {
            NONE => ends.oldest = at,
            older => self.entries[older as usize].newer = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Entry {
            newer, older, list, ..
        } = self.entries[at as usize];
        let ends = &mut self.lists[list as usize];
        ends.used -= 1;
        match newer {
            NONE => ends.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.lists[list as usize].oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::ANONYMOUS;

    fn page(index: u32) -> Page {
        Page::new(1, index)
    }

    #[test]
    fn pages_of_a_scan_do_not_push_out_active_ones() {
        let mut cache = PageCache::new(10);
        for _ in 0..3 {
            for index in 0..4 {
                if !cache.access(page(index), false) {
                    cache.insert(page(index), false);
                }
            }
        }
        for index in 100..200 {
            cache.insert(page(index), false);
            while let Some(reclaimed) = cache.reclaim() {
                assert!(reclaimed.page >= page(100));
            }
        }
        assert!((0..4).all(|index| cache.access(page(index), false)));
        assert_eq!(cache.used(), 10);
    }

    #[test]
    fn refaults_are_known() {
        let mut cache = PageCache::new(4);
        for index in [0, 0, 0, 1, 1, 1, 2, 3, 4] {
            if !cache.access(page(index), false) {
                cache.insert(page(index), index == 2);
            }
        }
        let reclaimed = cache.reclaim().unwrap();
        assert_eq!((reclaimed.page, reclaimed.dirty), (page(2), true));
        assert!(!reclaimed.workingset);
        cache.insert(page(2), false);
        cache.forget(page(0));
        cache.forget(page(0));
        assert_eq!(cache.used(), 4);
        assert_eq!(cache.reclaim(), None);
        assert_eq!(cache.refaults().files, 1);
    }

    #[test]
    fn memory_of_processes_is_counted_apart() {
        let process = |index| Page::new(ANONYMOUS | 1, index);
        let mut cache = PageCache::new(4);
        for index in 0..2 {
            cache.insert(process(index), true);
            cache.insert(page(index), false);
        }
        assert_eq!((cache.used(), cache.anonymous()), (4, 2));
        cache.set_limit(1);
        let left: Vec<Page> = (0..3)
            .filter_map(|_| cache.reclaim())
            .map(|one| one.page)
            .collect();
        assert_eq!(left, [process(0), page(0), process(1)]);
        assert_eq!((cache.used(), cache.anonymous()), (1, 0));
        cache.insert(process(1), true);
        let one = Refaults {
            files: 0,
            anonymous: 1,
        };
        assert_eq!((cache.anonymous(), cache.refaults()), (1, one));
        assert_eq!(cache.shrink().map(|one| one.page), Some(page(1)));
    }
}
