// SPDX-License-Identifier: GPL-2.0-only

//! States of the pages of a chunk, two bits each, and their transitions.

/// State of one page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// The host has no copy that may be used.
    Absent,
    /// The host may have a valid copy.
    Present,
    /// A put is in flight, or a get after which the host may keep the page.
    Leaving,
    /// A put or such a get is in flight, and its copy must not be used.
    Cancelled,
}

/// The states of 128 pages, as two planes of bits.
///
/// With `held` and `going` written in this order, absent is 00, present 10, leaving 11 and
/// cancelled 01. Every event takes a few operations on whole words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Bits {
    /// The copy may be used, now or once its put is confirmed.
    held: u128,
    /// A put is in flight.
    going: u128,
}

impl Bits {
    /// All pages absent.
    pub(super) const EMPTY: Self = Self { held: 0, going: 0 };

    /// Returns whether all pages are absent.
    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.held | self.going == 0
    }

    /// Returns the pages that are present.
    #[inline]
    pub(super) fn present(self) -> u128 {
        self.held & !self.going
    }

    /// Returns the pages that are leaving or cancelled.
    #[inline]
    pub(super) fn going(self) -> u128 {
        self.going
    }

    /// Returns the pages that are cancelled.
    #[inline]
    pub(super) fn cancelled(self) -> u128 {
        self.going & !self.held
    }

    /// Returns the state of page `bit` of the chunk, which is below 128.
    pub(super) fn state(self, bit: u64) -> State {
        let mask = 1 << (bit % 128);
        match (self.held & mask != 0, self.going & mask != 0) {
            (false, false) => State::Absent,
            (true, false) => State::Present,
            (true, true) => State::Leaving,
            (false, true) => State::Cancelled,
        }
    }

    /// Begins a put of the pages. None of them may have a put in flight.
    #[inline]
    pub(super) fn begin(&mut self, mask: u128) {
        debug_assert_eq!(self.going & mask, 0);
        self.held |= mask;
        self.going |= mask;
    }

    /// Ends the put of the pages. Pages without a put do not change.
    #[inline]
    pub(super) fn finish(&mut self, mask: u128, stored: bool) {
        if !stored {
            self.held &= !(mask & self.going);
        }
        self.going &= !mask;
    }

    /// Makes the pages absent and cancels their puts, because their content changed or they left
    /// the page cache without a put.
    #[inline]
    pub(super) fn invalidate(&mut self, mask: u128) {
        self.held &= !mask;
    }

    /// Makes present pages absent, because the host's copies were evicted or are about to be
    /// requested. Puts in flight are not cancelled.
    #[inline]
    pub(super) fn take(&mut self, mask: u128) {
        self.held &= !(mask & !self.going);
    }
}

#[cfg(test)]
mod tests {
    use super::{Bits, State};
    use State::{Absent, Cancelled, Leaving, Present};

    const STATES: [State; 4] = [Absent, Present, Leaving, Cancelled];

    fn bits(state: State) -> Bits {
        let (held, going) = match state {
            Absent => (0, 0),
            Present => (1, 0),
            Leaving => (1, 1),
            Cancelled => (0, 1),
        };
        Bits {
            held: held << 127,
            going: going << 127,
        }
    }

    fn row(event: impl Fn(&mut Bits)) -> [State; 4] {
        STATES.map(|state| {
            let mut bits = bits(state);
            event(&mut bits);
            bits.state(127)
        })
    }

    #[test]
    fn rows_of_the_table() {
        let page = 1 << 127;
        assert_eq!(row(|_| ()), STATES);
        let begun = [Absent, Present].map(|state| {
            let mut bits = bits(state);
            bits.begin(page);
            bits.state(127)
        });
        assert_eq!(begun, [Leaving, Leaving]);
        let invalid = [Absent, Absent, Cancelled, Cancelled];
        assert_eq!(row(|bits| bits.invalidate(page)), invalid);
        let stored = [Absent, Present, Present, Absent];
        assert_eq!(row(|bits| bits.finish(page, true)), stored);
        let failed = [Absent, Present, Absent, Absent];
        assert_eq!(row(|bits| bits.finish(page, false)), failed);
        let taken = [Absent, Absent, Leaving, Cancelled];
        assert_eq!(row(|bits| bits.take(page)), taken);
    }
}
