// SPDX-License-Identifier: GPL-2.0-only

//! The work of one processor: composes, sends and judges requests.

use crate::draft::Draft;
use crate::ffi;
use crate::grammar::{self, Kind, Order};
use crate::plan::{self, Frames};
use crate::random::Random;
use crate::tally::{self, Count};
use ddabi::answer::{AnswerHeader, HelloAnswer, RESULTS};
use ddabi::hypercall::{Operation, Outcome, Status};
use ddabi::pool::DEFAULT_POOL;
use ddabi::PAGE_SIZE;
use kernel::prelude::*;
use zerocopy::{FromZeros, IntoBytes};

/// Composes and sends until no request is left, or the module is unloaded.
pub(crate) fn work(number: u32) {
    let Ok(draft) = KBox::<Draft>::zeroed(GFP_KERNEL) else {
        return;
    };
    let mut worker = Worker {
        draft,
        rng: Random::new(plan::seed(), number),
        block: plan::block(number),
        own: Frames::of(number),
    };
    while !ffi::leaves() {
        let kind = Kind::next(&mut worker.rng);
        let count = plan::take(kind.burst());
        if count == 0 {
            break;
        }
        for _ in 0..count {
            worker.send(kind);
        }
    }
}

struct Worker {
    draft: KBox<Draft>,
    rng: Random,
    block: u64,
    own: Frames,
}

impl Worker {
    fn send(&mut self, kind: Kind) {
        if plan::session() == 0 {
            return self.register();
        }
        let (draft, rng) = (&mut *self.draft, &mut self.rng);
        match kind {
            Kind::Orders => return self.order(DEFAULT_POOL),
            Kind::Storms => return self.storm(),
            Kind::Crowd => return self.crowd(),
            Kind::Floods => return self.flood(),
            Kind::Numbers => return self.number(),
            Kind::Noise => grammar::noise(draft, rng),
            Kind::Pools if rng.once_in(2) => grammar::pool(draft, rng),
            Kind::Pools => {
                let pool = grammar::any_pool(rng);
                return self.order(pool);
            }
            Kind::Moving if rng.once_in(2) => return self.order(DEFAULT_POOL),
            Kind::Moving => return self.moving(),
            Kind::Mutants => {
                grammar::sentence(draft, rng, Frames::shared());
                grammar::mutate(draft, rng);
            }
        }
        self.call(self.block);
    }

    /// Sends the draft from a block, if that is safe.
    fn call(&mut self, block: u64) -> Option<Outcome> {
        if !self.draft.is_safe() {
            self.draft.begin(Operation::Ping);
        }
        ffi::write(block, 0, self.draft.as_bytes());
        // The host does not write an absent page.
        ffi::write(block + 1, 0, &[0; RESULTS]);
        self.call_at(plan::address(block), [0; 3])
    }

    fn call_at(&mut self, gpa: u64, more: [u64; 3]) -> Option<Outcome> {
        let session = plan::session();
        let outcome = ffi::hypercall(gpa, more);
        tally::answer(outcome);
        if outcome.is_some_and(|outcome| outcome.status == Status::Stale)
            && plan::session() == session
        {
            // The next worker registers.
            plan::set_session(0);
        }
        outcome
    }

    fn register(&mut self) {
        grammar::hello(&mut self.draft, &mut self.rng);
        let outcome = self.call(self.block);
        if outcome.is_some_and(|outcome| outcome.status == Status::Ok && outcome.answered) {
            let mut body = HelloAnswer::new_zeroed();
            ffi::read(self.block + 1, RESULTS, body.as_mut_bytes());
            plan::set_session(body.session);
            if plan::mode() != 0 || self.rng.once_in(2) {
                // Most orders are of this pool. Their pages go to a device, if there is one.
                grammar::default_pool_on_device(&mut self.draft, &mut self.rng);
                self.call(self.block);
            }
        }
    }

    /// Makes a put or a get of own pages. Pages that are given back must be those that were put.
    fn order(&mut self, pool: u32) {
        let put = self.rng.once_in(2);
        let operation = if put { Operation::Put } else { Operation::Get };
        let order = grammar::order(&mut self.draft, &mut self.rng, operation, self.own, pool);
        if put {
            self.write(&order);
        } else {
            self.touch(&order);
        }
        let sequence = self.draft.sequence();
        let outcome = self.call(self.block);
        let done = outcome.map_or(0, |outcome| u64::from(outcome.pages));
        if put {
            tally::add(Count::Stored, done);
        } else if outcome.is_some_and(|outcome| outcome.answered) && self.is_given(sequence) {
            tally::add(Count::Given, done);
            self.judge(&order);
        }
    }

    fn write(&self, order: &Order) {
        for (page, content) in order.pages() {
            ffi::write(page, 0, content.as_bytes());
        }
    }

    /// Makes the frames present, because the host does not fill absent ones.
    fn touch(&self, order: &Order) {
        for (page, _) in order.pages() {
            ffi::write(page, 0, &[0; 8]);
        }
    }

    fn judge(&self, order: &Order) {
        for (page, content) in order.pages() {
            let mut found = [0u64; 2];
            ffi::read(page, 0, found.as_mut_bytes());
            if found != content {
                tally::add(Count::Foreign, 1);
            }
        }
    }

    /// Returns whether the answer page is for this request and reports that its only run was given.
    fn is_given(&self, sequence: u64) -> bool {
        let mut header = AnswerHeader::new_zeroed();
        ffi::read(self.block + 1, 0, header.as_mut_bytes());
        let mut given = [0];
        ffi::read(self.block + 1, RESULTS, &mut given);
        header.sequence == sequence && given == [1]
    }

    /// Sends a request with some session and number. Only the current session may be accepted.
    fn number(&mut self) {
        let may_be_done = grammar::numbers(&mut self.draft, &mut self.rng);
        let outcome = self.call(self.block);
        if !may_be_done && outcome.is_some_and(|outcome| outcome.status == Status::Ok) {
            tally::add(Count::LetIn, 1);
        }
    }

    /// Registers and leaves, with and without Goodbye.
    fn storm(&mut self) {
        if self.rng.once_in(3) {
            self.draft.begin(Operation::Goodbye);
            self.call(self.block);
        } else {
            self.register();
        }
    }

    /// All workers use this block, so that a request may mix the bytes of several. Only runs are
    /// written there, with frames that are harmless in any mixture.
    fn crowd(&mut self) {
        let operation = if self.rng.once_in(2) {
            Operation::Put
        } else {
            Operation::Get
        };
        grammar::runs(&mut self.draft, &mut self.rng, operation, Frames::shared());
        self.call(plan::shared_block());
    }

    /// The host reads and writes addresses where memory may be gone.
    fn moving(&mut self) {
        grammar::moving(&mut self.draft, &mut self.rng);
        if let Some(outcome) = self.call(self.block) {
            tally::add(Count::Moved, u64::from(outcome.pages));
        }
    }

    fn flood(&mut self) {
        let wild = grammar::address(&mut self.rng);
        match self.rng.below(8) {
            // The request itself is at such an address. No other request is sent from outside of
            // the arena.
            0 => {
                let gpa = wild | self.rng.one_of(&[0, 0, 1, 8, PAGE_SIZE as u64 - 1]);
                self.call_at(gpa, [0; 3]);
            }
            1 => {
                let more = [self.rng.below(2), self.rng.below(2), self.rng.next()];
                self.draft.begin(Operation::Ping);
                ffi::write(self.block, 0, self.draft.as_bytes());
                self.call_at(plan::address(self.block), more);
            }
            2 => {
                grammar::wild_put(&mut self.draft, &mut self.rng);
                self.call(self.block);
            }
            3 => {
                grammar::wild_get(&mut self.draft, &mut self.rng);
                self.call(self.block);
            }
            // The request is on the last page of memory, so that its answer page does not exist.
            4 => {
                let (draft, rng) = (&mut *self.draft, &mut self.rng);
                grammar::order(draft, rng, Operation::Get, self.own, DEFAULT_POOL);
                self.call(plan::last_page());
            }
            5 => {
                grammar::flush(&mut self.draft, &mut self.rng);
                self.call(self.block);
            }
            6 => {
                let (draft, rng) = (&mut *self.draft, &mut self.rng);
                let order = grammar::order(draft, rng, Operation::Put, self.own, DEFAULT_POOL);
                self.write(&order);
                self.call(self.block);
                // The request is repeated with the same number.
                self.call(self.block);
            }
            _ => {
                self.draft.begin(Operation::Ping);
                self.call(self.block);
            }
        }
    }
}
