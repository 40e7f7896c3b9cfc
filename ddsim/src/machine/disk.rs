// SPDX-License-Identifier: GPL-2.0-only

//! The host's disk, and the journals of the file systems on it.

use super::queue::Queue;
use crate::page::Page;
use crate::parameters::{QUEUE_LIMIT, SEEK, TRANSFER, WRITE_MERGE};

/// One disk for all VMs. It serves requests in the order in which they arrive, because the requests
/// of a VM reach the host's scheduler as those of one process. Commits are queued as reads.
#[derive(Debug)]
pub(super) struct Disk {
    queue: Queue,
    /// The unit after the last one that was read, and its VM.
    head: Option<(usize, Page)>,
    /// The journal of each VM's file system.
    journals: Vec<Journal>,
    /// Ends of the last writes, and the index of the one that is replaced next.
    tails: [Option<(usize, Page)>; STREAMS],
    next: usize,
}

/// Number of writes whose ends are remembered, to merge writes that continue them.
const STREAMS: usize = 64;

/// The journal of a file system (jbd2), whose transactions are committed in sequence.
#[derive(Clone, Copy, Debug, Default)]
struct Journal {
    began: u64,
    ends: u64,
}

/// Result of a request to commit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Commit {
    /// The commit will be done at this time.
    Done(u64),
    /// A transaction is being committed until this time; the next one cannot begin earlier.
    After(u64),
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            queue: Queue::default(),
            head: None,
            tails: [None; STREAMS],
            next: 0,
            journals: Vec::new(),
        }
    }
}

impl Disk {
    /// Reads a unit and returns when the read is done. Reading consecutive units takes only one
    /// seek.
    pub(super) fn read(&mut self, now: u64, vm: usize, page: Page) -> u64 {
        let seek = match self.head.replace((vm, page.next())) {
            Some(head) if head == (vm, page) => 0,
            _ => SEEK,
        };
        self.queue.read(now, seek + TRANSFER)
    }

    /// Queues a write of units that begins at a page, and returns when the writer may continue. A
    /// write that continues one of the last writes, as in a log, is merged with it.
    pub(super) fn write(&mut self, now: u64, vm: usize, page: Page, units: u64) -> u64 {
        self.head = None;
        let tail = self.tails.iter().position(|tail| *tail == Some((vm, page)));
        let seek = match tail {
            Some(_) => 0,
            None => SEEK / WRITE_MERGE,
        };
        let at = tail.unwrap_or(self.next);
        self.tails[at] = Some((vm, page.after(units)));
        if tail.is_none() {
            self.next = (at + 1) % STREAMS;
        }
        let done = self.queue.write(now, seek + units * TRANSFER);
        done.saturating_sub(QUEUE_LIMIT).max(now)
    }

    /// Commits the changes of a VM's file system. Requests that arrive while a transaction is being
    /// committed share the next one.
    pub(super) fn commit(&mut self, now: u64, vm: usize) -> Commit {
        let Journal { began, ends } = self.journal(vm);
        if began == now && ends > now {
            return Commit::Done(ends);
        }
        if ends > now {
            return Commit::After(ends);
        }
        self.head = None;
        // Previous writes are done first (`data=ordered`), then the journal's blocks are written
        // and, once these are on the disk, the commit record.
        let ends = self.queue.read(now, 2 * (SEEK + TRANSFER));
        let ends = ends.max(self.queue.written_at());
        self.journals[vm] = Journal { began: now, ends };
        Commit::Done(ends)
    }

    /// Returns when the directories and inodes of a VM's file system may be changed. They are
    /// locked while a transaction is being committed.
    pub(super) fn unlocked(&mut self, now: u64, vm: usize) -> u64 {
        self.journal(vm).ends.max(now)
    }

    fn journal(&mut self, vm: usize) -> Journal {
        if self.journals.len() <= vm {
            self.journals.resize(vm + 1, Journal::default());
        }
        self.journals[vm]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_seek_once_and_all_wait_in_one_queue() {
        let mut disk = Disk::default();
        let page = Page::new(1, 5);
        assert_eq!(disk.read(0, 0, page), SEEK + TRANSFER);
        assert_eq!(disk.read(0, 0, page.next()), SEEK + 2 * TRANSFER);
        // The page with the same number in another VM is at another place of the disk.
        assert_eq!(disk.read(0, 1, page.next()), 2 * SEEK + 3 * TRANSFER);
    }

    #[test]
    fn writers_wait_for_a_long_queue_and_logs_are_merged() {
        let mut disk = Disk::default();
        let [log, other] = [1, 2].map(|file| Page::new(file, 0));
        assert_eq!(disk.write(0, 0, log, 1), 0);
        let queued = disk.queue.written_at();
        assert_eq!(queued, SEEK / WRITE_MERGE + TRANSFER);
        disk.write(0, 0, other, 1);
        disk.write(0, 0, log.next(), 1);
        assert_eq!(disk.queue.written_at(), 2 * queued + TRANSFER);
        assert!(disk.write(0, 0, other, 2 * QUEUE_LIMIT / TRANSFER) >= QUEUE_LIMIT);
        // Reads do not wait for the writes, because they get two thirds of the disk's time.
        assert_eq!(disk.read(0, 0, log), (SEEK + TRANSFER) * 3 / 2);
    }

    #[test]
    fn requests_during_a_commit_share_the_next_one() {
        let mut disk = Disk::default();
        let Commit::Done(first) = disk.commit(1, 0) else {
            panic!("nothing is being committed");
        };
        assert_eq!(disk.commit(1, 0), Commit::Done(first));
        assert_eq!(disk.commit(2, 0), Commit::After(first));
        assert_eq!((disk.unlocked(2, 0), disk.unlocked(2, 1)), (first, 2));
        let Commit::Done(second) = disk.commit(first, 0) else {
            panic!("the first commit has ended");
        };
        assert_eq!(disk.commit(first, 0), Commit::Done(second));
        assert!(second > first);
        // The file system of another VM has its own journal.
        assert!(matches!(disk.commit(first, 1), Commit::Done(_)));
    }
}
