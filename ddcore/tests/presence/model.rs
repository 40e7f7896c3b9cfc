// SPDX-License-Identifier: GPL-2.0-only

//! The specification of the presence map, as a plain map from pages to states.

use crate::segments::Map;
use ddabi::key::{FileKey, MAX_INDEX};
use ddcore::presence::State::{self, Absent, Cancelled, Leaving, Present};
use ddcore::presence::{Refused, CHUNK_PAGES};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(crate) struct Model {
    /// The pages that are not absent.
    pub(crate) pages: BTreeMap<(FileKey, u64), State>,
    pub(crate) file_slots: usize,
    pub(crate) chunk_slots: usize,
    pub(crate) dropped: u64,
}

/// Returns those pages of a run whose index is valid.
pub(crate) fn run(index: u64, pages: u32) -> impl Iterator<Item = u64> + Clone {
    (0..u64::from(pages)).map_while(move |more| index.checked_add(more).filter(|i| *i <= MAX_INDEX))
}

impl Model {
    pub(crate) fn get(&self, file: FileKey, index: u64) -> State {
        self.pages.get(&(file, index)).copied().unwrap_or(Absent)
    }

    pub(crate) fn set(&mut self, file: FileKey, index: u64, state: State) {
        if state == Absent {
            self.pages.remove(&(file, index));
        } else {
            self.pages.insert((file, index), state);
        }
    }

    pub(crate) fn chunks(&self) -> BTreeSet<(FileKey, u64)> {
        self.pages
            .keys()
            .map(|(file, index)| (*file, index / CHUNK_PAGES))
            .collect()
    }

    pub(crate) fn files(&self) -> BTreeSet<FileKey> {
        self.pages.keys().map(|(file, _)| *file).collect()
    }

    /// Applies a rule to all pages of a file that are in the range and not absent. Returns the
    /// number of pages that are no longer present.
    fn apply(&mut self, file: FileKey, first: u64, last: u64, rule: fn(State) -> State) -> u64 {
        if first > last {
            return 0;
        }
        let range = self.pages.range((file, first)..=(file, last));
        let pages: Vec<_> = range.map(|((_, index), state)| (*index, *state)).collect();
        let mut lost = 0;
        for (index, state) in pages {
            lost += u64::from(state == Present && rule(state) != Present);
            self.set(file, index, rule(state));
        }
        lost
    }

    /// Returns the file with the generation that the map currently has for its inode.
    pub(crate) fn known(&self, file: FileKey) -> FileKey {
        let mut known = self.pages.keys().map(|(known, _)| *known);
        known.find(|known| known.same_inode(&file)).unwrap_or(file)
    }

    /// Removes the pages of other generations of the inode. Returns the number of removed pages
    /// that were present.
    pub(crate) fn renew(&mut self, file: FileKey) -> u64 {
        let known = self.known(file);
        if known == file {
            return 0;
        }
        let cleared = self.apply(known, 0, u64::MAX, invalid);
        for ((of, index), state) in self.pages.clone() {
            if of == known {
                self.set(known, index, Absent);
                self.set(file, index, state);
            }
        }
        cleared
    }

    pub(crate) fn invalidate(&mut self, file: FileKey, first: u64, last: u64) -> u64 {
        self.renew(file) + self.apply(file, first, last, invalid)
    }

    pub(crate) fn begin_put(
        &mut self,
        file: FileKey,
        index: u64,
        pages: u32,
    ) -> Result<(), Refused> {
        if pages > 0 && index <= MAX_INDEX {
            self.renew(file);
        }
        let going = |state| matches!(state, Leaving | Cancelled);
        let busy = run(index, pages).any(|index| going(self.get(file, index)));
        let chunks = self.chunks();
        let wanted: BTreeSet<_> = run(index, pages).map(|i| (file, i / CHUNK_PAGES)).collect();
        let missing = wanted.difference(&chunks).count();
        let files = self.files();
        let full = missing > self.chunk_slots - chunks.len()
            || (!files.contains(&file) && files.len() == self.file_slots)
            || pages == 0
            || run(index, pages).count() < pages as usize;
        if busy || full {
            for index in run(index, pages) {
                self.invalidate(file, index, index);
            }
            return Err(if busy { Refused::Busy } else { Refused::Full });
        }
        run(index, pages).for_each(|index| self.set(file, index, Leaving));
        Ok(())
    }

    pub(crate) fn finish_put(&mut self, file: FileKey, index: u64, pages: u32, stored: bool) {
        let file = self.known(file);
        for index in run(index, pages) {
            let next = match self.get(file, index) {
                Leaving if stored => Present,
                Leaving | Cancelled => Absent,
                other => other,
            };
            self.set(file, index, next);
        }
    }

    pub(crate) fn notice(&mut self, file: FileKey, index: u64, pages: u32) -> u64 {
        let take = |state| if state == Present { Absent } else { state };
        run(index, pages)
            .map(|index| self.apply(file, index, index, take))
            .sum()
    }

    pub(crate) fn present_run(&self, file: FileKey, index: u64, max: u32) -> u64 {
        run(index, max)
            .take_while(|i| self.get(file, *i) == Present)
            .count() as u64
    }

    fn count(&self, states: &[State]) -> u64 {
        self.pages
            .values()
            .filter(|state| states.contains(state))
            .count() as u64
    }

    /// Compares all visible state of the model and the map.
    pub(crate) fn compare(&self, map: &Map) {
        map.verify().unwrap();
        let counters = map.counters();
        assert_eq!(counters.files as usize, self.files().len());
        assert_eq!(counters.chunks as usize, self.chunks().len());
        assert_eq!(counters.file_slots as usize, self.file_slots);
        assert_eq!(counters.chunk_slots as usize, self.chunk_slots);
        assert_eq!(counters.present, self.count(&[Present]));
        assert_eq!(counters.going, self.count(&[Leaving, Cancelled]));
        assert_eq!(counters.dropped, self.dropped);
        for ((file, index), state) in &self.pages {
            assert_eq!(map.state(file, *index), *state, "{file:?} {index}");
        }
    }
}

/// Returns the state after a change of the page's content.
pub(crate) fn invalid(state: State) -> State {
    match state {
        Absent | Present => Absent,
        Leaving | Cancelled => Cancelled,
    }
}
