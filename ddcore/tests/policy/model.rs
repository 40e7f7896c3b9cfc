// SPDX-License-Identifier: GPL-2.0-only

//! A model of `ddcore::policy` with plain data structures: counters and fingerprints of one byte
//! or more instead of packed ones, and lists that are searched linearly.
//!
//! The rules are those of `ddcore`: the classes of frequencies, what a way admits, the class of the
//! next victim, and the throttle. Tests of their own check them with exact numbers
//! (`ddcore/src/policy/tests.rs`).

use ddcore::policy::order::Queue;
use ddcore::policy::shadow::Way;
use ddcore::policy::throttle::Throttle;
use ddcore::policy::{Class, Order, PageName, Policy, Pressure, Refusal, Verdict, CLASSES};

const WAYS: [Way; 3] = [Way::All, Way::Equal, Way::Better];

/// Four-bit counters, or sixteen-bit fingerprints in the same memory.
struct History {
    /// Sixteen counters for each word.
    counters: Vec<[u8; 16]>,
    additions: u64,
    cursor: usize,
}

impl History {
    fn new(words: usize) -> Self {
        let words = if words == 0 { 0 } else { 1 << words.ilog2() };
        Self {
            counters: vec![[0; 16]; words],
            additions: 0,
            cursor: 0,
        }
    }

    fn places(&self, hash: u64) -> Vec<(usize, usize)> {
        let (start, step) = (hash as usize, (hash >> 32) as usize | 1);
        let place = |row: usize| {
            let word = start.wrapping_add(step.wrapping_mul(row)) % self.counters.len();
            (word, (hash >> (48 + 4 * row)) as usize % 16)
        };
        (0..4).map(place).collect()
    }

    fn estimate(&self, hash: u64) -> u8 {
        if self.counters.is_empty() {
            return 0;
        }
        let places = self.places(hash);
        let counts = places.iter().map(|(word, at)| self.counters[*word][*at]);
        counts.min().unwrap_or(0)
    }

    fn add(&mut self, hash: u64, capacity: u64) {
        if self.counters.is_empty() {
            return;
        }
        let least = self.estimate(hash);
        if least < 15 {
            for (word, at) in self.places(hash) {
                if self.counters[word][at] == least {
                    self.counters[word][at] += 1;
                }
            }
        }
        self.additions += 1;
        let words = self.counters.len();
        // One word is halved each time that the additions reach ten for each page of the cache,
        // divided by the number of words.
        if self.additions * words as u64 >= capacity.max(1) * 10 {
            self.additions = 0;
            for counter in &mut self.counters[self.cursor % words] {
                *counter /= 2;
            }
            self.cursor += 1;
        }
    }

    /// Fingerprints of the word, the newest first, each stored in four counters.
    fn seen(&mut self, hash: u64) -> bool {
        if self.counters.is_empty() {
            return false;
        }
        let at = hash as usize % self.counters.len();
        let print = ((hash >> 48) as u16).max(1);
        let word = &mut self.counters[at];
        let mut prints: Vec<u16> = word
            .chunks(4)
            .map(|part| {
                part.iter()
                    .rev()
                    .fold(0, |sum, four| sum << 4 | u16::from(*four))
            })
            .collect();
        let known = prints.iter().position(|other| *other == print);
        prints.remove(known.unwrap_or(3));
        prints.insert(0, print);
        for (part, print) in word.chunks_mut(4).zip(prints) {
            for (n, four) in part.iter_mut().enumerate() {
                *four = (print >> (4 * n)) as u8 & 15;
            }
        }
        known.is_some()
    }
}

/// A block of one class in one of the small caches.
struct Block {
    key: u32,
    class: Class,
    /// Positions of its pages in the block.
    pages: Vec<u64>,
    /// Time at which the last page was added.
    stamp: u16,
}

/// One of the small caches. The oldest block is first.
#[derive(Default)]
struct Small {
    held: Vec<Block>,
    now: u32,
    turn: u32,
    hits: i64,
    puts: i64,
}

/// Returns the key of a page's block and the page's position in the block.
fn place(name: &PageName) -> (u32, u64) {
    ((name.block / 16) as u32, name.block % 16)
}

impl Small {
    fn take(&mut self, (key, place): (u32, u64)) -> bool {
        let mut found = false;
        for block in self.held.iter_mut().filter(|block| block.key == key) {
            let before = block.pages.len();
            block.pages.retain(|held| *held != place);
            found |= block.pages.len() < before;
        }
        self.held.retain(|block| !block.pages.is_empty());
        found
    }

    /// Returns the time in units of 2^n pages, where n is such that the content of a cache is
    /// replaced in 512 units or more.
    fn stamp(&self, limit: usize) -> u16 {
        (self.now / (1 << (limit / 512 + 1).ilog2())) as u16
    }

    /// Returns the state of each class.
    fn queues(&self, limit: usize) -> [Queue; CLASSES] {
        let age = |block: &Block| self.stamp(limit).wrapping_sub(block.stamp).into();
        core::array::from_fn(|class| {
            let held = |block: &&Block| block.class.number() == class;
            let blocks = || self.held.iter().filter(held);
            Queue {
                used: blocks().map(|block| block.pages.len() as u64).sum(),
                oldest: blocks().next().map_or(0, age),
                newest: blocks().next_back().map_or(0, age),
            }
        })
    }

    fn offer(&mut self, page: (u32, u64), way: Way, class: Class, limit: usize) {
        self.take(page);
        let used: usize = self.held.iter().map(|block| block.pages.len()).sum();
        if used >= limit {
            let Some(victim) = Order::Aged.victim(&self.queues(limit)) else {
                return;
            };
            // The oldest block of a class is first.
            let held = |block: &Block| block.class.number() == victim;
            let at = self
                .held
                .iter()
                .position(held)
                .expect("the class has pages");
            self.turn += 1;
            let floor = self.held[at].class;
            if !way.admits(class, floor, self.turn) {
                return;
            }
            self.held.remove(at);
        }
        self.now += 1;
        let (key, place) = page;
        let class = way.class(class);
        let same = |block: &Block| block.key == key && block.class == class;
        let mut pages = match self.held.iter().position(same) {
            Some(at) => self.held.remove(at).pages,
            None => Vec::new(),
        };
        pages.push(place);
        self.held.push(Block {
            key,
            class,
            pages,
            stamp: self.stamp(limit),
        });
        self.puts += 1024;
    }
}

pub(super) struct Model {
    policy: Policy,
    history: History,
    smalls: [Small; 3],
    /// Number of cells of each small cache.
    cells: u64,
    way: Way,
    reads: u32,
    throttle: Throttle,
    group: u64,
    turn: u32,
    capacity: u64,
}

impl Model {
    pub(super) fn new(policy: Policy, words: usize, cells: usize) -> Self {
        Self {
            policy,
            history: History::new(words),
            smalls: Default::default(),
            cells: cells as u64 / 3,
            way: Way::All,
            reads: 0,
            throttle: Throttle::default(),
            group: 0,
            turn: 0,
            capacity: 0,
        }
    }

    pub(super) fn way(&self) -> Way {
        self.way
    }

    pub(super) fn level(&self) -> u32 {
        self.throttle.level()
    }

    pub(super) fn set_policy(&mut self, policy: Policy) {
        if (policy == Policy::S3) != (self.policy == Policy::S3) {
            for word in &mut self.history.counters {
                *word = [0; 16];
            }
        }
        self.policy = policy;
        self.throttle = Throttle::default();
    }

    pub(super) fn missed(&mut self, name: &PageName, hit: bool) {
        self.throttle.missed(hit);
        let counts = matches!(self.policy, Policy::Adaptive | Policy::Tinylfu);
        if counts && name.group != self.group {
            self.group = name.group;
            self.history.add(name.group, self.capacity);
        }
        if self.policy == Policy::Adaptive && self.is_sampled(name.block) {
            for small in &mut self.smalls {
                if small.take(place(name)) {
                    small.hits += 1024;
                }
            }
            self.reads += 1;
            if self.reads % 256 == 0 {
                self.choose();
            }
        }
    }

    pub(super) fn offered(
        &mut self,
        name: &PageName,
        refaulted: bool,
        pressure: &Pressure,
    ) -> Verdict {
        self.capacity = pressure.capacity;
        let class = match self.policy {
            Policy::S3 => Class::new(self.history.seen(name.page).into()),
            Policy::Adaptive | Policy::Tinylfu => {
                Class::of_frequency(self.history.estimate(name.group))
            }
            _ => Class::LOWEST,
        };
        if self.policy == Policy::Adaptive && self.is_sampled(name.block) {
            let limit = self.cells.min(self.capacity) as usize;
            for (small, way) in self.smalls.iter_mut().zip(WAYS) {
                small.offer(place(name), way, class, limit);
            }
        }
        let kept = match self.policy {
            Policy::Adaptive => self.way.class(class),
            _ => class,
        };
        if !pressure.full {
            return Verdict::Put(kept);
        }
        self.turn += 1;
        let admitted = match self.policy {
            Policy::Adaptive => self.way.admits(class, pressure.floor, self.turn),
            Policy::Tinylfu => Way::Better.admits(class, pressure.floor, self.turn),
            Policy::Fifo | Policy::S3 => true,
            Policy::Workingset => refaulted,
            Policy::Mru => self.turn % 32 == 0,
        };
        if !admitted {
            return Verdict::Refuse(Refusal::Policy);
        }
        if self.policy != Policy::Fifo && !self.throttle.allows(name.page, 1, self.capacity) {
            return Verdict::Refuse(Refusal::Throttle);
        }
        Verdict::Put(kept)
    }

    fn is_sampled(&self, block: u64) -> bool {
        self.capacity > 0 && self.cells > 0 && (block >> 40) * self.capacity < self.cells << 24
    }

    fn choose(&mut self) {
        let [all, equal, better] = &self.smalls;
        let hits = |way: Way| match way {
            Way::All => all.hits,
            Way::Equal => equal.hits,
            Way::Better => better.hits,
        };
        let worth = |way: Way| {
            let puts = match way {
                Way::All => all.puts,
                Way::Equal => equal.puts,
                Way::Better => better.puts,
            };
            hits(way) - puts / 50
        };
        let mut best = self.way;
        for way in WAYS {
            if worth(way) > worth(best) {
                best = way;
            }
        }
        // Returns whether a difference of counts exceeds this number of standard errors.
        let ahead = |by: i64, one: Way, other: Way, errors: f64| {
            let error = ((hits(one) + hits(other)) as f64 * 1024.0).sqrt();
            by > 0 && by as f64 > errors * error
        };
        if ahead(worth(best) - worth(self.way), best, self.way, 2.0) {
            self.way = best;
        }
        if ahead(hits(Way::All) - hits(self.way), Way::All, self.way, 0.2) {
            self.way = Way::All;
        }
        for small in &mut self.smalls {
            small.hits -= small.hits / 16;
            small.puts -= small.puts / 16;
        }
    }
}
