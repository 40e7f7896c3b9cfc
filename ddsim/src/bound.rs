// SPDX-License-Identifier: GPL-2.0-only

//! Bounds for comparison: the optimum, and an inclusive cache.

use crate::page::{Page, PageMap};
use crate::pagecache::PageCache;
use crate::replay::{Outcome, Sizes};
use crate::stream::{Access, Kind};
use std::collections::BTreeSet;

/// Replays Belady's optimum for an exclusive second-level cache behind this guest.
///
/// The guest's misses and reclaims do not depend on the second-level cache, so that the stream of
/// offers and reads that this cache sees is fixed. A cached page is of use from its offer to its
/// next read, which removes it. Choosing the offers to keep therefore means choosing intervals of
/// which at most `host` overlap, for which it is optimal to keep those that end first. Only pages
/// that are read again are put.
pub fn belady(stream: &[Access], sizes: Sizes) -> Outcome {
    let (events, mut outcome) = behind(stream, sizes.guest);
    let mut next = PageMap::<usize>::default();
    let mut ends = vec![usize::MAX; events.len()];
    for (at, (page, event)) in events.iter().enumerate().rev() {
        match event {
            Event::Read => _ = next.insert(*page, at),
            Event::Gone => _ = next.remove(page),
            Event::Left => ends[at] = next.get(page).copied().unwrap_or(usize::MAX),
        }
    }
    let mut kept: BTreeSet<usize> = BTreeSet::new();
    for (at, (_, event)) in events.iter().enumerate() {
        match event {
            Event::Read => outcome.hits += u64::from(kept.remove(&at)),
            Event::Left if ends[at] != usize::MAX => {
                kept.insert(ends[at]);
                if kept.len() > sizes.host {
                    kept.pop_last();
                }
            }
            Event::Left | Event::Gone => {}
        }
    }
    // The optimum does not put pages that it drops later.
    outcome.puts = outcome.hits;
    outcome
}

/// Returns the events that a second-level cache sees behind a guest of this size.
fn behind(stream: &[Access], guest: usize) -> (Vec<(Page, Event)>, Outcome) {
    let mut outcome = Outcome::default();
    let mut events = Vec::new();
    let mut guest = PageCache::new(guest);
    for access in stream {
        outcome.accesses += access.count();
        if access.kind == Kind::Gone {
            guest.forget(access.page);
            events.push((access.page, Event::Gone));
            continue;
        }
        let write = access.kind == Kind::Write;
        if guest.access(access.page, write) {
            outcome.guest_hits += 1;
            continue;
        }
        events.push((access.page, if write { Event::Gone } else { Event::Read }));
        guest.insert(access.page, write);
        while let Some(reclaimed) = guest.reclaim() {
            events.push((reclaimed.page, Event::Left));
        }
    }
    (events, outcome)
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Read,
    Gone,
    Left,
}

/// Replays the host's page cache below the guest, as with a disk opened with `cache=writeback`:
/// LRU, filled by every read and write of the guest. A fill from disk counts as a put.
pub fn inclusive_lru(stream: &[Access], sizes: Sizes) -> Outcome {
    let mut outcome = Outcome::default();
    let mut guest = PageCache::new(sizes.guest);
    let mut stamps = PageMap::<u64>::default();
    let mut order = BTreeSet::<(u64, Page)>::new();
    for (now, access) in (0u64..).zip(stream) {
        outcome.accesses += access.count();
        if access.kind == Kind::Gone {
            guest.forget(access.page);
            if let Some(then) = stamps.remove(&access.page) {
                order.remove(&(then, access.page));
            }
            continue;
        }
        let write = access.kind == Kind::Write;
        if guest.access(access.page, write) {
            outcome.guest_hits += 1;
            continue;
        }
        guest.insert(access.page, write);
        while guest.reclaim().is_some() {}
        match stamps.insert(access.page, now) {
            Some(then) => {
                order.remove(&(then, access.page));
                outcome.hits += u64::from(!write);
            }
            None => outcome.puts += 1,
        }
        order.insert((now, access.page));
        if order.len() > sizes.host
            && let Some((_, oldest)) = order.pop_first()
        {
            stamps.remove(&oldest);
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::replay;
    use ddcore::policy::Policy;
    use proptest::prelude::*;

    fn stream(pages: &[u8]) -> Vec<Access> {
        let access = |byte: &u8| Access {
            page: Page::new(1, u32::from(byte & 31) * 4),
            kind: match byte >> 4 {
                0xf => Kind::Write,
                0xe => Kind::Gone,
                _ => Kind::Read,
            },
        };
        pages.iter().map(access).collect()
    }

    /// Returns the highest number of hits over all choices of keeping or dropping each reclaimed
    /// page.
    fn best(events: &[(Page, Event)], held: &mut Vec<Page>, room: usize) -> u64 {
        let Some(((page, event), rest)) = events.split_first() else {
            return 0;
        };
        if !matches!(event, Event::Left) {
            let Some(at) = held.iter().position(|other| other == page) else {
                return best(rest, held, room);
            };
            let page = held.remove(at);
            let hit = matches!(event, Event::Read);
            let hits = u64::from(hit) + best(rest, held, room);
            held.insert(at, page);
            return hits;
        }
        let mut most = best(rest, held, room);
        if held.len() < room {
            held.push(*page);
            most = most.max(best(rest, held, room));
            held.pop();
        } else {
            for at in 0..held.len() {
                let out = std::mem::replace(&mut held[at], *page);
                most = most.max(best(rest, held, room));
                held[at] = out;
            }
        }
        most
    }

    #[test]
    fn belady_is_the_best_of_all_choices() {
        let mut random = crate::random::Random::new(3);
        for _ in 0..200 {
            let guest = 1 + random.below(2) as usize;
            let byte = |_| {
                (random.below(6) + [0, 0, 0, 0, 0, 0, 0xe0, 0xf0][random.below(8) as usize]) as u8
            };
            let stream = stream(&(0..14).map(byte).collect::<Vec<u8>>());
            let sizes = Sizes {
                guest,
                host: 2,
                batch: 1,
            };
            let (events, _) = behind(&stream, guest);
            let ours = belady(&stream, sizes).hits;
            assert_eq!(ours, best(&events, &mut Vec::new(), 2), "{stream:?}");
        }
    }

    #[test]
    fn a_page_that_is_gone_is_not_read() {
        // Pages 1 and 2 are reclaimed. Page 1 is deleted, and its new content is read from disk;
        // page 2 is read from the host.
        let stream = stream(&[1, 2, 3, 4, 0xe1, 1, 2]);
        let sizes = Sizes {
            guest: 2,
            host: 8,
            batch: 1,
        };
        let outcome = belady(&stream, sizes);
        assert_eq!((outcome.accesses, outcome.hits), (6, 1));
        assert_eq!(replay(&stream, sizes, Policy::Fifo).hits, 1);
    }

    proptest! {
        #[test]
        fn no_policy_beats_belady(pages in prop::collection::vec(any::<u8>(), 0..400), guest in 1usize..8, host in 1usize..16) {
            let stream = stream(&pages);
            let sizes = Sizes { guest, host, batch: 1 };
            let most = belady(&stream, sizes).hits;
            for policy in Policy::ALL {
                let outcome = replay(&stream, sizes, policy);
                prop_assert!(outcome.hits <= most, "{policy:?}");
                prop_assert!(outcome.hits <= outcome.puts);
            }
        }
    }
}
