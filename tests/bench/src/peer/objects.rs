// SPDX-License-Identifier: GPL-2.0-only

//! The structure of the paper: a hash of objects, a tree of pages in each, and one FIFO list,
//! behind one lock that is taken once for each batch.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Mutex,
};

use ddabi::key::{FileKey, PageKey};
use foldhash::fast::FixedState;

use super::hasher;
use crate::{cache::Cache, mix::Run};

/// No neighbour.
const NONE: u32 = u32::MAX;

pub(crate) struct Objects(Mutex<State>);

struct State {
    objects: HashMap<FileKey, BTreeMap<u64, u32>, FixedState>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    used: u64,
    capacity: u64,
}

struct Node {
    key: PageKey,
    frame: u64,
    older: u32,
    newer: u32,
}

impl Objects {
    /// Creates a cache for a number of pages.
    pub(crate) fn new(pages: u64) -> Self {
        Self(Mutex::new(State {
            objects: HashMap::with_hasher(hasher()),
            nodes: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            used: 0,
            capacity: pages,
        }))
    }
}

impl State {
    fn insert(&mut self, key: PageKey, frame: u64) {
        self.remove(&key);
        if self.used == self.capacity {
            let oldest = self.nodes[self.oldest as usize].key;
            self.remove(&oldest);
        }
        let node = Node {
            key,
            frame,
            older: self.newest,
            newer: NONE,
        };
        let at = if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            at
        } else {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        };
        match self.newest {
            NONE => self.oldest = at,
            newest => self.nodes[newest as usize].newer = at,
        }
        self.newest = at;
        self.used += 1;
        let object = self.objects.entry(key.file).or_default();
        object.insert(key.index, at);
    }

    fn remove(&mut self, key: &PageKey) -> Option<u64> {
        let object = self.objects.get_mut(&key.file)?;
        let at = object.remove(&key.index)?;
        if object.is_empty() {
            self.objects.remove(&key.file);
        }
        let Node {
            frame,
            older,
            newer,
            ..
        } = self.nodes[at as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        self.free.push(at);
        self.used -= 1;
        Some(frame)
    }
}

impl Cache for Objects {
    fn put(&self, runs: &[Run], frame: u64) {
        let mut state = self.0.lock().expect("no panic under the lock");
        for (key, frame) in runs.iter().flat_map(Run::keys).zip(frame..) {
            state.insert(key, frame);
        }
    }

    fn get(&self, runs: &[Run], frames: &mut Vec<u64>) {
        let mut state = self.0.lock().expect("no panic under the lock");
        let keys = runs.iter().flat_map(Run::keys);
        frames.extend(keys.filter_map(|key| state.remove(&key)));
    }

    fn flush(&self, runs: &[Run]) -> usize {
        let mut state = self.0.lock().expect("no panic under the lock");
        let keys = runs.iter().flat_map(Run::keys);
        keys.filter_map(|key| state.remove(&key)).count()
    }
}
