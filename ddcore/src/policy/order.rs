// SPDX-License-Identifier: GPL-2.0-only

//! The host's half of a policy: the class of a pool from which a page is evicted.

use crate::index::{age, Index, Storage};
use core::cmp::Reverse;
use ddabi::policy::Policy;

/// Number of classes of a pool. The host keeps a list for each, in the order in which pages were
/// put.
pub use ddabi::request::CLASSES;

/// A class counts as old at this power of two times the age of the class below.
const AGE_SHIFT: u32 = 2;

/// A class is left over if its newest page is older than this power of two times the oldest page of
/// lower classes.
const LEFT_OVER_SHIFT: u32 = 3;

/// For `s3`, class 0 may have one page in this many of the pool.
const SMALL_SHARE: u64 = 10;

/// Rule by which the class of the next victim is chosen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Order {
    /// The class whose oldest page has the largest weighted age, which is its age divided by a
    /// power of four for each class. A class is left over if no page was put into it for a long
    /// time. It is weighted like the lowest class, so that its pages are evicted.
    Aged,
    /// The class that has the oldest page, so that classes do not matter.
    Oldest,
    /// Class 0 while it has more than a tenth of the pool, otherwise the highest class that has
    /// pages.
    Small,
}

/// One class of a pool.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Queue {
    /// Number of pages of the class.
    pub used: u64,
    /// Age of its oldest page, in any unit that is the same for all classes.
    pub oldest: u64,
    /// Age of its newest page, in the same unit.
    pub newest: u64,
}

impl Order {
    /// Returns the order in which the host evicts pages of a pool with this policy.
    pub const fn of(policy: Policy) -> Self {
        match policy {
            Policy::S3 => Self::Small,
            Policy::Adaptive | Policy::Tinylfu => Self::Aged,
            Policy::Fifo | Policy::Workingset | Policy::Mru => Self::Oldest,
        }
    }

    /// Returns the class from which a page of a pool is evicted from this store, or `None` if the
    /// store has no page of the pool. The pool's lists begin at `first_list`, and `now` is the
    /// current stamp.
    pub fn victim_in<S: Storage>(
        self,
        index: &Index<S>,
        first_list: u16,
        now: u64,
    ) -> Option<usize> {
        let mut queues = [Queue::default(); CLASSES];
        for (queue, list) in queues.iter_mut().zip(first_list..) {
            let held = index.storage().lists().get(usize::from(list));
            queue.used = held.map_or(0, |held| held.used);
            let age = |stamp: Option<u64>| stamp.map_or(0, |stamp| age(now, stamp));
            queue.oldest = age(index.oldest_stamp(list));
            queue.newest = age(index.newest_stamp(list));
        }
        self.victim(&queues)
    }

    /// Returns the class from which a page is evicted, or `None` if there is no page.
    pub fn victim(self, queues: &[Queue; CLASSES]) -> Option<usize> {
        match self {
            Self::Aged => by_age_and_class(queues),
            Self::Oldest => {
                let used = queues
                    .iter()
                    .enumerate()
                    .filter(|(_, queue)| queue.used > 0);
                let oldest = used.max_by_key(|(class, queue)| (queue.oldest, Reverse(*class)));
                oldest.map(|(class, _)| class)
            }
            Self::Small => {
                let used: u64 = queues.iter().map(|queue| queue.used).sum();
                if queues[0].used * SMALL_SHARE > used {
                    Some(0)
                } else {
                    queues.iter().rposition(|queue| queue.used > 0)
                }
            }
        }
    }
}

/// Returns the class with the largest weighted age, or the lowest of several such classes.
///
/// A class is left over if no page was put into it while all pages of lower classes were replaced
/// eight times. This means that the guest admits in another way or reads other files, so that the
/// class has lost its value. A smaller factor would not be safe, because pages of high classes are
/// put in bursts.
fn by_age_and_class(queues: &[Queue; CLASSES]) -> Option<usize> {
    let mut found: Option<(usize, u64)> = None;
    let mut below = None;
    for (class, queue) in queues.iter().enumerate() {
        if queue.used == 0 {
            continue;
        }
        let is_left_over = below.is_some_and(|age| queue.newest >> LEFT_OVER_SHIFT > age);
        let age = match is_left_over {
            true => queue.oldest,
            false => queue.oldest >> (AGE_SHIFT * class as u32),
        };
        if found.is_none_or(|(_, most)| age > most) {
            found = Some((class, age));
        }
        below = below.max(Some(queue.oldest));
    }
    found.map(|(class, _)| class)
}
