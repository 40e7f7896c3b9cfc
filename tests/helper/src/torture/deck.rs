// SPDX-License-Identifier: GPL-2.0-only

//! The order of choices.

use ddhelper::churn::Random;

/// Choices in a random order. Each is taken as often as it is listed before any is taken again, so
/// that a short torture has all of them.
#[derive(Debug)]
pub(super) struct Deck<T: 'static> {
    all: &'static [T],
    left: Vec<T>,
}

impl<T: Copy> Deck<T> {
    /// Creates a deck of choices, of which there must be at least one.
    pub(super) const fn new(all: &'static [T]) -> Self {
        Self {
            all,
            left: Vec::new(),
        }
    }

    /// Returns the next choice.
    pub(super) fn draw(&mut self, rng: &mut Random) -> T {
        if self.left.is_empty() {
            self.left.extend_from_slice(self.all);
        }
        // The result is below the number of the remaining ones.
        let next = rng.below(self.left.len() as u64) as usize;
        self.left.swap_remove(next)
    }

    /// Takes back a choice that the files did not allow at that moment. It comes again soon.
    pub(super) fn put_back(&mut self, choice: T) {
        self.left.push(choice);
    }
}
