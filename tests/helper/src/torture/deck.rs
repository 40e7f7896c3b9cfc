// SPDX-License-Identifier: GPL-2.0-only

//! The order of operations.

use std::collections::VecDeque;

use ddhelper::{churn::Dice, kind::Kind};

/// The operations in a random order. Each comes once before any comes again, so that a short
/// torture has all of them.
#[derive(Debug, Default)]
pub(super) struct Deck(VecDeque<Kind>);

impl Deck {
    /// Returns the next operation.
    pub(super) fn draw(&mut self, dice: &mut Dice) -> Kind {
        if self.0.is_empty() {
            let mut all = Kind::ALL.to_vec();
            while !all.is_empty() {
                // The result is below the number of the remaining ones.
                let next = dice.below(all.len() as u64) as usize;
                self.0.push_back(all.swap_remove(next));
            }
        }
        self.0.pop_front().unwrap_or(Kind::Ring)
    }

    /// Returns an operation that the files did not allow at that moment. It comes again soon.
    pub(super) fn put_back(&mut self, kind: Kind) {
        self.0.push_back(kind);
    }
}
