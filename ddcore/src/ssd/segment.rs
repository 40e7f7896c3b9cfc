// SPDX-License-Identifier: GPL-2.0-only

//! The life cycle of a segment: it is opened for a pool, filled, written, and free again when it no
//! longer has any pages.
//!
//! The owner protects a segment by a lock. It keeps the data of the pages that are not written yet
//! in memory, and carries out what the functions return.

use core::ops::Range;

/// The state of a segment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum State {
    /// The segment belongs to no pool.
    #[default]
    Free,
    /// The segment accepts more pages.
    Open,
    /// The segment accepts no more pages.
    Closed,
}

/// The data of a page of a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Data {
    /// It is in memory.
    InMemory,
    /// It is on the device.
    Written,
    /// It was not written, because the device reported an error.
    Lost,
}

/// A segment.
#[derive(Debug)]
pub struct Segment {
    state: State,
    /// The stamp of its pages in the index.
    sequence: u64,
    size: u32,
    /// Places below this number have been allocated to pages.
    filled: u32,
    /// Pages below this number have been written.
    written: u32,
    /// The end of the pages that are being written.
    writing: Option<u32>,
    /// Number of owners of its pages: the index, calls, and moves to the memory tier.
    live: u32,
    /// Pages that are lost, because the device reported an error when they were written.
    lost: Range<u32>,
}

impl Segment {
    /// Creates a free segment of `size` places.
    pub const fn new(size: u32) -> Self {
        Self {
            state: State::Free,
            sequence: 0,
            size,
            filled: 0,
            written: 0,
            writing: None,
            live: 0,
            lost: 0..0,
        }
    }

    /// Opens a free segment.
    pub fn open(&mut self, sequence: u64) {
        *self = Self {
            state: State::Open,
            sequence,
            ..Self::new(self.size)
        };
    }

    /// Returns the stamp of its pages.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the number of owners of its pages: the index, calls, and moves to the memory tier.
    pub const fn live(&self) -> u32 {
        self.live
    }

    /// Returns the number of pages whose data is in memory.
    pub const fn in_memory(&self) -> u32 {
        self.filled - self.written
    }

    /// Returns whether no page has an owner. The data of the pages that were allocated so far is
    /// then never read again, because an owner is added only to pages that have one.
    pub const fn is_dead(&self) -> bool {
        self.live == 0
    }

    /// Allocates places for up to `pages` pages, if the segment is open. The owner stores their
    /// data in memory under the same lock.
    pub fn fill(&mut self, pages: u32) -> Range<u32> {
        let start = self.filled;
        if self.state == State::Open {
            self.filled += pages.min(self.size - start);
            self.live += self.filled - start;
            if self.filled == self.size {
                self.state = State::Closed;
            }
        }
        start..self.filled
    }

    /// Returns whether the segment accepts more pages.
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Closes the segment for further pages. The remaining places stay empty.
    pub fn close(&mut self) {
        if self.is_open() {
            self.state = State::Closed;
        }
    }

    /// Begins to write the pages that are not written yet. Returns `None` if there are none, if
    /// another task is writing, or if the segment is closed and no longer has any pages. The data
    /// stays in memory until [`Segment::end_write`].
    pub fn begin_write(&mut self) -> Option<Range<u32>> {
        let is_of_use = self.is_open() || self.live > 0;
        if self.writing.is_some() || self.written == self.filled || !is_of_use {
            return None;
        }
        self.writing = Some(self.filled);
        Some(self.written..self.filled)
    }

    /// Ends a write. Returns the pages whose data no longer needs to be in memory.
    pub fn end_write(&mut self, succeeded: bool) -> Range<u32> {
        let start = self.written;
        if let Some(end) = self.writing.take() {
            self.written = end;
            if !succeeded {
                // Pages between two failed writes count as lost, too.
                let first = match self.lost.is_empty() {
                    true => start,
                    false => self.lost.start,
                };
                self.lost = first..end;
            }
        }
        start..self.written
    }

    /// Returns where the data of a page is.
    pub fn data(&self, page: u32) -> Data {
        if page >= self.written {
            Data::InMemory
        } else if self.lost.contains(&page) {
            Data::Lost
        } else {
            Data::Written
        }
    }

    /// Adds an owner of a page, in addition to the index. Each owner calls [`Segment::release`].
    pub fn hold(&mut self) {
        self.live += 1;
    }

    /// Drops an owner of a page.
    pub fn release(&mut self) {
        self.live = self.live.saturating_sub(1);
    }

    /// Makes the segment free if it is closed, has no pages and is not being written. Returns the
    /// pages whose data is still in memory, or `None` if the segment does not become free.
    pub fn vacate(&mut self) -> Option<Range<u32>> {
        if self.state != State::Closed || self.live > 0 || self.writing.is_some() {
            return None;
        }
        let rest = self.written..self.filled;
        *self = Self::new(self.size);
        Some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u32 = 16;

    #[derive(Clone, Debug)]
    enum Step {
        Open,
        Fill(u32),
        Close,
        BeginWrite,
        EndWrite(bool),
        Hold,
        Release,
        Vacate,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            1 => Just(Step::Open),
            4 => (1..8u32).prop_map(Step::Fill),
            1 => Just(Step::Close),
            3 => Just(Step::BeginWrite),
            3 => any::<bool>().prop_map(Step::EndWrite),
            1 => Just(Step::Hold),
            6 => Just(Step::Release),
            3 => Just(Step::Vacate),
        ];
        proptest::collection::vec(step, 1..200)
    }

    proptest! {
        /// The data of each page is in memory exactly from the time at which it is put until it is
        /// written or the segment is free, and no place is allocated again while its page exists.
        #[test]
        fn data_is_kept_as_long_as_it_is_needed(steps in steps()) {
            let mut segment = Segment::new(SIZE);
            let mut memory = [false; SIZE as usize];
            let mut live = 0u32;
            let (mut is_free, mut sequence) = (true, 0);
            for step in steps {
                match step {
                    Step::Open if is_free => {
                        sequence += 1;
                        segment.open(sequence);
                        is_free = false;
                        prop_assert!(memory.iter().all(|page| !page));
                    }
                    Step::Open => {}
                    Step::Fill(pages) => {
                        let open = segment.is_open();
                        for page in segment.fill(pages) {
                            prop_assert!(open && !std::mem::replace(&mut memory[page as usize], true));
                            prop_assert_eq!(segment.data(page), Data::InMemory);
                            live += 1;
                        }
                    }
                    Step::Close => segment.close(),
                    Step::BeginWrite => {
                        for page in segment.begin_write().into_iter().flatten() {
                            prop_assert!(memory[page as usize]);
                        }
                    }
                    Step::EndWrite(succeeded) => {
                        for page in segment.end_write(succeeded) {
                            prop_assert!(std::mem::replace(&mut memory[page as usize], false));
                            prop_assert_ne!(segment.data(page), Data::InMemory);
                            prop_assert!(succeeded || segment.data(page) == Data::Lost);
                        }
                    }
                    Step::Release if live > 0 => {
                        live -= 1;
                        segment.release();
                    }
                    Step::Release => {}
                    Step::Hold if live > 0 => {
                        live += 1;
                        segment.hold();
                    }
                    Step::Hold => {}
                    Step::Vacate => {
                        if let Some(rest) = segment.vacate() {
                            prop_assert_eq!(live, 0);
                            for page in rest {
                                prop_assert!(std::mem::replace(&mut memory[page as usize], false));
                            }
                            is_free = true;
                        }
                    }
                }
                prop_assert_eq!(segment.live(), live);
                let kept = memory.iter().filter(|page| **page).count();
                prop_assert_eq!(segment.in_memory() as usize, kept);
            }
        }
    }

    #[test]
    fn a_segment_is_written_in_pieces_and_free_when_its_pages_are_gone() {
        let mut segment = Segment::new(SIZE);
        segment.open(7);
        assert_eq!(segment.fill(10), 0..10);
        assert_eq!(segment.begin_write(), Some(0..10));
        assert_eq!(segment.begin_write(), None);
        assert_eq!(segment.fill(10), 10..16);
        assert!(!segment.is_open());
        assert_eq!(segment.data(3), Data::InMemory);
        assert_eq!(segment.end_write(true), 0..10);
        assert_eq!(
            (segment.data(3), segment.data(12)),
            (Data::Written, Data::InMemory)
        );
        assert_eq!(segment.begin_write(), Some(10..16));
        for _ in 0..16 {
            segment.release();
        }
        assert_eq!(segment.vacate(), None);
        assert_eq!(segment.end_write(false), 10..16);
        assert_eq!(segment.vacate(), Some(16..16));
    }

    #[test]
    fn a_failed_write_loses_only_its_own_pages() {
        let mut segment = Segment::new(SIZE);
        segment.open(1);
        segment.fill(4);
        segment.begin_write();
        segment.end_write(true);
        segment.fill(4);
        segment.begin_write();
        segment.end_write(false);
        segment.fill(4);
        segment.begin_write();
        segment.end_write(true);
        let data = [0, 3, 4, 7, 8, 11].map(|page| segment.data(page));
        let (good, bad) = (Data::Written, Data::Lost);
        assert_eq!(data, [good, good, bad, bad, good, good]);
    }

    /// Pages of an open segment that are all removed need not be written. Pages that are put after
    /// this was found are not affected, even if the others count as lost.
    #[test]
    fn dead_pages_of_an_open_segment_need_not_be_written() {
        let mut segment = Segment::new(SIZE);
        segment.open(1);
        segment.fill(4);
        assert!(!segment.is_dead());
        (0..4).for_each(|_| segment.release());
        assert_eq!(
            (segment.begin_write(), segment.is_dead()),
            (Some(0..4), true)
        );
        segment.fill(2);
        assert_eq!(segment.end_write(false), 0..4);
        assert_eq!(
            (segment.data(4), segment.is_dead()),
            (Data::InMemory, false)
        );
        assert_eq!(segment.begin_write(), Some(4..6));
        assert_eq!(segment.end_write(true), 4..6);
        assert_eq!(segment.data(4), Data::Written);
    }

    /// Pages that are removed before they are written are not written.
    #[test]
    fn a_closed_segment_without_pages_is_not_written() {
        let mut segment = Segment::new(SIZE);
        segment.open(1);
        segment.fill(2);
        segment.close();
        segment.release();
        segment.release();
        assert_eq!(segment.begin_write(), None);
        assert_eq!(segment.vacate(), Some(0..2));
    }
}
