// SPDX-License-Identifier: GPL-2.0

//! The rings of the files: all pages of a file in one store are linked in a circle, in the order
//! in which they came. The first of them, the leader, stands for the file in the bucket of files.

use super::{Storage, Store, NONE};
use ddabi::key::FileKey;

impl<S: Storage> Store<S> {
    /// The leader of a file, if the store has pages of it.
    pub(super) fn leader(&self, file: &FileKey) -> u32 {
        if self.used == 0 {
            return NONE;
        }
        let mut slot = self.first_leader(self.hasher.file(file));
        while slot != NONE && self.slot(slot).file() != *file {
            slot = self.slot(slot).file_chain;
        }
        slot
    }

    pub(super) fn link_file(&mut self, slot: u32) {
        let leader = self.leader(&self.slot(slot).file());
        if leader == NONE {
            self.join(slot, slot);
            self.link_leader(slot);
            return;
        }
        let last = self.slot(leader).ring_before;
        self.join(last, slot);
        self.join(slot, leader);
    }

    pub(super) fn unlink_file(&mut self, slot: u32) {
        let entry = *self.slot(slot);
        if entry.is_leader() {
            if entry.ring_after == slot {
                self.redirect_leader(slot, entry.file_chain);
            } else {
                self.redirect_leader(slot, entry.ring_after);
                let successor = self.slot_mut(entry.ring_after);
                successor.file_chain = entry.file_chain;
                successor.set_leader(true);
            }
        }
        self.join(entry.ring_before, entry.ring_after);
    }

    /// After the page in `from` was copied to `to`, its neighbours learn of it.
    pub(super) fn redirect_file(&mut self, from: u32, to: u32) {
        let entry = *self.slot(from);
        if entry.is_leader() {
            self.redirect_leader(from, to);
        }
        if entry.ring_after == from {
            self.join(to, to);
        } else {
            self.join(entry.ring_before, to);
            self.join(to, entry.ring_after);
        }
    }

    fn join(&mut self, before: u32, after: u32) {
        self.slot_mut(before).ring_after = after;
        self.slot_mut(after).ring_before = before;
    }
}
