// SPDX-License-Identifier: GPL-2.0

//! A guest's requests, one after the other: parsed as the host module parses them, and carried out
//! on the index as it does, without its locks and memory.
//!
//! The input is a series of request pages, each as long as its header says. Whatever they say,
//! nothing overflows (as in the kernel, overflow is checked), each page's handle leaves the index
//! once, and the counters agree with a map that does the same in the simplest way.

#![no_main]

use std::collections::BTreeMap;

use ddabi::{
    key::{FileKey, MAX_INDEX, PageKey},
    pool::{DEFAULT_POOL, MAX_POOLS},
    request::{BODY, MAX_PAGES, MAX_RUNS, RequestHeader},
};
use ddcore::{
    partition::{Entity, entitle, victim},
    request::{Header, MAX_BODY, Range, Request, Runs, Settings},
    sequence::{Sequence, Verdict},
    store::{Cursor, Entry, Hasher, List, Reason, Removed, Segment, Storage, Store, Walk},
};
use libfuzzer_sys::fuzz_target;
use zerocopy::FromBytes;

/// Pages of the tier.
const CAPACITY: u64 = 2048;
/// Pages of an eviction, and of a step of a walk.
const STEP: u32 = 64;

fuzz_target!(|input: &[u8]| {
    let mut host = Host::new();
    let mut rest = input;
    while let Ok((raw, after)) = RequestHeader::read_from_prefix(rest) {
        let Ok(header) = Header::parse(&raw) else {
            // The next one may be right.
            rest = after;
            continue;
        };
        let len = header.body_len();
        assert!(len <= MAX_BODY && BODY + len <= ddabi::PAGE_SIZE);
        // Aligned as the host's desks are, and zero where the input ends.
        let mut body = [0u64; MAX_BODY / 8];
        let body = &mut zerocopy::IntoBytes::as_mut_bytes(&mut body)[..len];
        let given = after.len().min(len);
        body[..given].copy_from_slice(&after[..given]);
        rest = &after[given..];
        if let Ok(request) = Request::parse(&header, body) {
            host.serve(&header, &request);
        }
    }
    host.check();
});

/// The index of one VM in a single shard, and what must be in it.
struct Host {
    store: Store<Memory>,
    sequence: Sequence,
    pools: BTreeMap<u32, Settings>,
    model: BTreeMap<PageKey, (u16, u64)>,
    handles: u64,
}

impl Host {
    fn new() -> Self {
        Self {
            store: Store::new(Memory::default(), Hasher::new(0x0123_4567_89ab_cdef)),
            sequence: Sequence::new(),
            pools: BTreeMap::from([(DEFAULT_POOL, Settings::DEFAULT)]),
            model: BTreeMap::new(),
            handles: 0,
        }
    }

    fn serve(&mut self, header: &Header, request: &Request<'_>) {
        if let Request::Hello = request {
            *self = Self::new();
            return;
        }
        match self.sequence.check(header.sequence) {
            Verdict::Accept => {}
            Verdict::Retry => return,
            Verdict::Stale => {
                self.flush(|_| true);
                self.check();
                *self = Self::new();
                return;
            }
        }
        match request {
            Request::Hello | Request::Ping => {}
            Request::Goodbye => *self = Self::new(),
            Request::Put(runs) => self.put(runs),
            Request::Get(runs) => self.get(runs),
            Request::Flush(ranges) => {
                for range in ranges.iter() {
                    self.flush_range(range);
                }
            }
            Request::PoolCreate(settings, name) => {
                let printable = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
                assert!(name.as_bytes().iter().all(printable));
                if let Some(free) = (1..MAX_POOLS).find(|pool| !self.pools.contains_key(pool)) {
                    self.store.storage_mut().extend(free as usize + 1);
                    self.pools.insert(free, *settings);
                }
            }
            Request::PoolSet(pool, settings) => {
                if let Some(place) = self.pools.get_mut(pool) {
                    *place = *settings;
                }
            }
            Request::PoolDestroy(pool) => {
                if self.pools.remove(pool).is_some() {
                    while let Some(page) = self.store.remove_oldest(*pool as u16, Reason::Flush) {
                        self.gone(page);
                    }
                }
            }
            Request::Migrate(file, pool) => {
                if self.pools.contains_key(pool) {
                    self.migrate(file, *pool as u16);
                }
            }
            Request::PoolStats(_) => {}
        }
    }

    fn put(&mut self, runs: &Runs<'_>) {
        check_runs(runs);
        for run in runs.iter() {
            if !self.pools.get(&run.pool).is_some_and(Settings::is_on) {
                continue;
            }
            self.make_room(u64::from(run.pages));
            for index in run.index..run.index + u64::from(run.pages) {
                let key = PageKey {
                    file: run.file,
                    index,
                };
                self.insert(key, run.pool as u16);
            }
        }
    }

    fn insert(&mut self, key: PageKey, pool: u16) {
        while self.store.room() == 0 {
            self.store
                .storage_mut()
                .segments
                .push(Box::new(Segment::EMPTY));
        }
        self.handles += 1;
        let entry = Entry {
            pool,
            handle: self.handles,
            stamp: self.handles as u32,
        };
        let inserted = self.store.insert(&key, entry);
        if let Some(older) = inserted.replaced {
            self.gone(older);
        }
        assert!(inserted.stored);
        self.model.insert(key, (pool, self.handles));
    }

    fn get(&mut self, runs: &Runs<'_>) {
        check_runs(runs);
        for run in runs.iter() {
            for index in run.index..run.index + u64::from(run.pages) {
                let key = PageKey {
                    file: run.file,
                    index,
                };
                let kept = self.model.contains_key(&key);
                let removed = self.store.remove(&key, Reason::Hit);
                assert_eq!(removed.is_some(), kept);
                removed.into_iter().for_each(|page| self.gone(page));
            }
        }
    }

    fn flush_range(&mut self, range: Range) {
        match range {
            Range::Pages { file, first, last } => {
                assert!(first <= last && last <= MAX_INDEX);
                self.flush_file(&file, (first, last));
            }
            Range::File(file) => self.flush_file(&file, (0, MAX_INDEX)),
            Range::Filesystem(filesystem) => self.flush(|file| file.filesystem == filesystem),
            Range::All => self.flush(|_| true),
        }
    }

    fn flush_file(&mut self, file: &FileKey, (first, last): (u64, u64)) {
        let mut cursor = Cursor::default();
        let mut gone = Vec::new();
        let store = &mut self.store;
        while store.remove_range(file, (first, last), &mut cursor, STEP, |page| {
            gone.push(page)
        }) == Walk::More
        {}
        gone.into_iter().for_each(|page| self.gone(page));
        let left = |key: &PageKey| key.file == *file && (first..=last).contains(&key.index);
        assert!(!self.model.keys().any(left));
        self.trim();
    }

    fn flush(&mut self, condemned: impl Fn(&FileKey) -> bool) {
        let mut cursor = Cursor::default();
        let mut gone = Vec::new();
        let picked = |key: &PageKey| condemned(&key.file);
        let store = &mut self.store;
        while store.sweep(&mut cursor, STEP, Reason::Flush, picked, |page| {
            gone.push(page)
        }) == Walk::More
        {}
        gone.into_iter().for_each(|page| self.gone(page));
        assert!(!self.model.keys().any(picked));
        self.trim();
    }

    fn migrate(&mut self, file: &FileKey, pool: u16) {
        let mut cursor = Cursor::default();
        let target = (pool, self.handles as u32);
        while self.store.migrate(file, target, &mut cursor, STEP, |_| {}) == Walk::More {}
        for (key, (owner, _)) in &mut self.model {
            if key.file == *file {
                *owner = pool;
            }
        }
    }

    /// As `evict.rs` does it, for one VM.
    fn make_room(&mut self, pages: u64) {
        while self.model.len() as u64 + pages > CAPACITY {
            let weight = |pool: usize| self.pools.get(&(pool as u32)).map_or(0, Settings::share);
            let lists = self.store.storage().lists().iter().enumerate();
            let entity = |(pool, list): (usize, &List)| Entity {
                weight: weight(pool),
                used: list.used,
                entitlement: 0,
            };
            let mut entities: Vec<Entity> = lists.map(entity).collect();
            entitle(&mut entities, CAPACITY);
            let pool = victim(&entities, u64::from(STEP)).expect("somebody has pages");
            for _ in 0..STEP {
                let Some(page) = self.store.remove_oldest(pool as u16, Reason::Eviction) else {
                    break;
                };
                self.gone(page);
            }
        }
        self.trim();
    }

    /// A page left the index: it was there, and is no longer.
    fn gone(&mut self, page: Removed) {
        let expected = self.model.remove(page.key());
        let pool = page.pool();
        assert_eq!(expected, Some((pool, page.into_handle())));
    }

    fn trim(&mut self) {
        while self.store.is_slack() {
            let needed = self.store.trim(STEP);
            self.store.storage_mut().segments.truncate(needed);
        }
    }

    fn check(&self) {
        assert_eq!(self.store.used() as usize, self.model.len());
        for (pool, list) in self.store.storage().lists().iter().enumerate() {
            let left = list.hits + list.flushes + list.evictions + list.moved_out;
            assert_eq!(list.used, list.puts + list.moved_in - left);
            let owned = self
                .model
                .values()
                .filter(|(owner, _)| usize::from(*owner) == pool);
            assert_eq!(list.used as usize, owned.count());
        }
        for (key, (pool, _)) in &self.model {
            assert_eq!(self.store.pool_of(key), Some(*pool));
        }
    }
}

fn check_runs(runs: &Runs<'_>) {
    let pages: u64 = runs.iter().map(|run| u64::from(run.pages)).sum();
    assert!(runs.iter().count() <= MAX_RUNS && pages <= u64::from(MAX_PAGES));
    assert!(runs.iter().all(|run| run.pages > 0 && run.pool < MAX_POOLS));
}

/// Memory of an index, as much as it wants.
struct Memory {
    segments: Vec<Box<Segment>>,
    lists: Vec<List>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            segments: Vec::new(),
            lists: vec![List::default()],
        }
    }
}

impl Memory {
    fn extend(&mut self, pools: usize) {
        let pools = pools.max(self.lists.len());
        self.lists.resize(pools, List::default());
    }
}

impl Storage for Memory {
    fn segments(&self) -> usize {
        self.segments.len()
    }

    fn segment(&self, number: usize) -> &Segment {
        &self.segments[number]
    }

    fn segment_mut(&mut self, number: usize) -> &mut Segment {
        &mut self.segments[number]
    }

    fn lists(&self) -> &[List] {
        &self.lists
    }

    fn lists_mut(&mut self) -> &mut [List] {
        &mut self.lists
    }
}
