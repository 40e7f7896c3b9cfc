// SPDX-License-Identifier: GPL-2.0-only

use super::order::Queue;
use super::shadow::{Cell, Way};
use super::sketch::{Sketch, MAX_COUNT};
use super::*;
use crate::index::{Batch, Hasher, Heap, Index, BLOCK_PAGES};
use proptest::prelude::*;
use std::collections::HashMap;

type Pool = Admission<Vec<u64>, Vec<Cell>>;

fn pool(policy: Policy) -> Pool {
    Admission::new(policy, vec![0; 1024], vec![Cell::default(); 3 * 512])
}

fn name(page: u64) -> PageName {
    PageName::of(&PageKey {
        index: page,
        ..PageKey::default()
    })
}

fn full(floor: u8) -> Pressure {
    Pressure {
        capacity: 1000,
        full: true,
        floor: Class::new(floor),
    }
}

#[test]
fn names_and_numbers_are_one_to_one() {
    for policy in Policy::ALL {
        assert_eq!(Policy::from_raw(policy as u32), Some(policy));
        assert_eq!(Policy::from_name(policy.name()), Some(policy));
    }
    assert_eq!(Policy::from_raw(6), None);
    assert_eq!(Policy::from_name("lru"), None);
    assert_eq!(Policy::default(), Policy::DEFAULT);
}

#[test]
fn a_batch_of_room_is_not_room() {
    assert!(is_full(900, 1000, 512));
    assert!(is_full(0, 1024, 512));
    assert!(!is_full(0, 1025, 512));
    assert!(is_full(u64::MAX, u64::MAX, 512));
}

#[test]
fn each_policy_refuses_pages_by_its_rule() {
    let refused = |policy, refaulted| {
        let mut pool = pool(policy);
        let offers = (0..100).map(|page| pool.offered(&name(page * 8), refaulted, &full(0)));
        offers
            .filter(|verdict| matches!(verdict, Verdict::Refuse(_)))
            .count()
    };
    assert_eq!(refused(Policy::Fifo, false), 0);
    assert_eq!(refused(Policy::Adaptive, false), 0);
    assert_eq!(refused(Policy::S3, false), 0);
    assert_eq!(refused(Policy::Workingset, false), 100);
    assert_eq!(refused(Policy::Workingset, true), 0);
    assert_eq!(refused(Policy::Tinylfu, false), 97);
    assert_eq!(refused(Policy::Mru, false), 97);
}

#[test]
fn tinylfu_weighs_the_newcomer_against_the_leaver() {
    let mut pool = pool(Policy::Tinylfu);
    pool.offered(&name(0), false, &full(0));
    for _ in 0..3 {
        pool.missed(&name(64), false);
        pool.missed(&name(128), false);
    }
    let verdict = |pool: &mut Pool, floor| pool.offered(&name(64), false, &full(floor));
    assert_eq!(verdict(&mut pool, 1), Verdict::Put(Class::new(2)));
    assert_eq!(
        verdict(&mut pool, 2),
        Verdict::Refuse(admission::Refusal::Policy)
    );
}

#[test]
fn names_of_a_run_are_those_of_its_pages() {
    for first in [0, 1, 30, (1 << 40) - 3, u64::MAX - 2] {
        for pages in [0, 1, 2, 70] {
            let names = Names::of(&FileKey::default()).run(first, pages);
            let indices = first..first.saturating_add(pages.into());
            assert!(names.eq(indices.map(name)), "{pages} pages from {first}");
        }
    }
}

/// The frequency of a group counts for each of its pages, and that of no other group does.
#[test]
fn a_folio_has_the_class_of_its_best_group() {
    let mut pool = pool(Policy::Tinylfu);
    for _ in 0..5 {
        pool.missed(&name(41), false);
        pool.missed(&name(400), false);
    }
    let mut class = |first, pages| {
        let names = Names::of(&FileKey::default()).run(first, pages);
        pool.leave(names, &full(0)).number()
    };
    assert_eq!([class(32, 8), class(44, 8)], [0, 0]);
    assert_eq!([class(32, 12), class(40, 1), class(43, 8)], [3, 3, 3]);
}

#[test]
fn a_large_folio_is_admitted_or_refused_as_a_whole() {
    let mut pool = pool(Policy::Mru);
    let folios = (0..320).map(|folio| {
        let names = Names::of(&FileKey::default()).run(folio * 64, 64);
        let class = pool.leave(names, &full(0));
        pool.decide(&name(folio * 64), 64, class, false, &full(0))
    });
    let put = folios.filter(|verdict| matches!(verdict, Verdict::Put(_)));
    assert_eq!(put.count(), 10);
}

#[test]
fn a_class_without_recent_puts_ages_like_the_lowest() {
    let queue = |used, oldest, newest| Queue {
        used,
        oldest,
        newest,
    };
    let victim = |newest| {
        let none = Queue::default();
        Order::Aged.victim(&[queue(10, 100, 0), none, none, queue(10, 1000, newest)])
    };
    assert_eq!(victim(807), Some(0));
    assert_eq!(victim(808), Some(3));
    let alone = [
        Queue::default(),
        Queue::default(),
        Queue::default(),
        queue(1, 9, 9),
    ];
    assert_eq!(Order::Aged.victim(&alone), Some(3));
}

#[test]
fn classes_do_not_matter_to_policies_without_them() {
    let queue = |used, oldest| Queue {
        used,
        oldest,
        newest: 0,
    };
    let queues = [queue(9, 50), queue(1, 51), queue(0, 90), queue(5, 51)];
    for policy in [Policy::Fifo, Policy::Workingset, Policy::Mru] {
        assert_eq!(Order::of(policy).victim(&queues), Some(1));
    }
    assert_eq!(Order::of(Policy::Adaptive).victim(&queues), Some(0));
    assert_eq!(Order::Oldest.victim(&[Queue::default(); CLASSES]), None);
}

/// Whatever the policy is, a page that left before is put with a class of at least 1 if only such
/// pages go to SSDs, and so is one of a working set. Without that, the classes stay those of the
/// policy.
#[test]
fn pages_that_leave_again_are_proven() {
    let empty = Pressure::default();
    for policy in Policy::ALL {
        let class = |pool: &mut Pool, page: u64, refaulted| {
            let name = name(page * 8);
            match pool.offered(&name, refaulted, &empty) {
                Verdict::Put(class) => class.number(),
                Verdict::Refuse(why) => panic!("{policy:?}: {why:?}"),
            }
        };
        let mut proving = pool(policy);
        proving.prove(vec![0; 1024]);
        let first: Vec<_> = (0..100)
            .map(|page| class(&mut proving, page, false))
            .collect();
        assert_eq!(first, [0; 100], "{policy:?}");
        let again = (0..100).map(|page| class(&mut proving, page, false));
        assert!(again.into_iter().all(|class| class > 0), "{policy:?}");
        if policy != Policy::S3 {
            assert_eq!(class(&mut proving, 200, true), 1, "{policy:?}");
            let mut usual = pool(policy);
            for _ in 0..2 {
                assert_eq!(class(&mut usual, 1, true), 0, "{policy:?}");
            }
        }
    }
}

/// A folio is proven if any of its pages left before, and its proof does not pass to the next one.
#[test]
fn a_folio_is_proven_as_a_whole() {
    let mut pool = pool(Policy::Fifo);
    pool.prove(vec![0; 1024]);
    let mut class = |pages: std::ops::Range<u64>| {
        let first = name(pages.start);
        let class = pool.leave(pages.map(name), &Pressure::default());
        pool.decide(&first, 16, class, false, &Pressure::default())
    };
    assert_eq!(class(20..21), Verdict::Put(Class::new(0)));
    assert_eq!(class(16..32), Verdict::Put(Class::new(1)));
    assert_eq!(class(32..48), Verdict::Put(Class::new(0)));
    assert_eq!(class(32..48), Verdict::Put(Class::new(1)));
}

#[test]
fn s3_recognises_pages_that_return() {
    let mut pool = pool(Policy::S3);
    let verdict = |pool: &mut Pool, page| pool.offered(&name(page), false, &full(0));
    assert_eq!(verdict(&mut pool, 5), Verdict::Put(Class::LOWEST));
    assert_eq!(verdict(&mut pool, 5), Verdict::Put(Class::new(1)));
    pool.set_policy(Policy::Fifo);
    pool.set_policy(Policy::S3);
    assert_eq!(verdict(&mut pool, 5), Verdict::Put(Class::LOWEST));
}

#[test]
fn puts_that_never_hit_become_few() {
    let mut pool = pool(Policy::S3);
    let mut puts = 0;
    for page in 0..200_000 {
        pool.missed(&name(page), false);
        let verdict = pool.offered(&name(page), false, &full(0));
        puts += u32::from(matches!(verdict, Verdict::Put(_)));
    }
    assert_eq!(pool.throttle().level(), 5);
    assert!(puts < 16_000, "{puts}");
    for page in 0..200_000 {
        pool.offered(&name(page), false, &full(0));
        pool.missed(&name(page), page % 4 == 0);
    }
    assert_eq!(pool.throttle().level(), 0);
}

#[test]
fn puts_of_a_pool_without_reads_go_on() {
    let mut pool = pool(Policy::S3);
    // The pages are read at first, and reclaimed while the container is idle.
    for page in 0..200_000 {
        pool.missed(&name(page), false);
    }
    for page in 0..200_000 {
        let verdict = pool.offered(&name(page), false, &full(0));
        assert!(matches!(verdict, Verdict::Put(_)), "{page}");
    }
    assert_eq!(pool.throttle().level(), 0);
}

/// A pool without reads is not throttled, because reads count only in the window in which they
/// happen.
#[test]
fn puts_of_a_pool_that_stopped_reading_go_on() {
    let mut pool = pool(Policy::S3);
    for page in 0..200_000 {
        pool.offered(&name(page), false, &full(0));
        pool.missed(&name(page), true);
    }
    for page in 0..200_000 {
        pool.offered(&name(page), false, &full(0));
        assert_eq!(pool.throttle().level(), 0, "{page}");
    }
}

/// One hit in 64 puts suffices, and one hit less does not.
#[test]
fn the_throttle_has_an_exact_bound() {
    let after = |hits: u64| {
        let mut throttle = throttle::Throttle::default();
        for put in 0..1024 {
            assert!(throttle.allows(put << 20, 1, 1));
            if put < 16 {
                throttle.missed(put < hits);
            }
        }
        throttle.level()
    };
    assert_eq!((after(16), after(15)), (0, 1));
}

/// A window is twice the size of the pool, or the part of it that the level admits, and 1024 puts
/// at least. A throttled pool needs more than one hit in 32 puts to be less throttled.
#[test]
fn the_throttle_has_exact_windows() {
    use throttle::Throttle;
    // Returns the level after a window with hits, and the next one.
    let window = |throttle: &mut Throttle, (puts, reads, hits), capacity| {
        let mut first = throttle.level();
        for put in 0..puts {
            first = throttle.level();
            // The bits of a page by which pages are chosen are zero.
            assert!(throttle.allows(0, 1, capacity));
            if put < reads {
                throttle.missed(put < hits);
            }
        }
        (first, throttle.level())
    };
    for (capacity, puts) in [(0, 1024), (512, 1024), (513, 1026), (u64::MAX, 4096)] {
        let mut throttle = Throttle::default();
        let level = u32::from(capacity < u64::MAX);
        assert_eq!(window(&mut throttle, (puts, 100, 0), capacity), (0, level));
    }
    let mut throttle = Throttle::default();
    for level in 0..5 {
        let puts = 4096 >> level;
        let after = window(&mut throttle, (puts, 64, 0), 2048);
        assert_eq!(after, (level, level + 1));
        let chosen = (0..64).filter(|page| {
            let mut copy = throttle;
            copy.allows(page << 20, 1, u64::MAX)
        });
        assert_eq!(chosen.count(), 64 >> (level + 1));
    }
    assert_eq!(window(&mut throttle, (128, 64, 0), 2048), (5, 5));
    let mut throttle = Throttle::default();
    assert_eq!(window(&mut throttle, (4096, 64, 0), 2048), (0, 1));
    assert_eq!(window(&mut throttle, (2048, 2000, 64), 2048), (1, 1));
    assert_eq!(window(&mut throttle, (2048, 2000, 65), 2048), (1, 0));
    // Pages of a folio count each.
    let mut throttle = Throttle::default();
    assert!(throttle.allows(0, 1023, 0));
    (0..16).for_each(|_| throttle.missed(false));
    assert!(throttle.allows(0, 1, 0));
    assert_eq!(throttle.level(), 1);
}

#[test]
fn classes_follow_frequencies() {
    let classes = (0..=6).map(|frequency| Class::of_frequency(frequency).number());
    assert_eq!(classes.collect::<Vec<_>>(), [0, 0, 1, 2, 2, 3, 3]);
    assert_eq!(Class::of_frequency(u8::MAX).number(), 3);
}

#[test]
fn ways_admit_by_class() {
    use shadow::Way;
    // The classes, of four, that a way admits beside each class of the victim.
    let admitted = |way: Way, turn| {
        let admits = |class, floor| way.admits(Class::new(class), Class::new(floor), turn);
        let count = |floor| (0..4).filter(|class| admits(*class, floor)).count();
        [0, 1, 2, 3].map(count)
    };
    assert_eq!(admitted(Way::All, 1), [4, 4, 4, 4]);
    assert_eq!(admitted(Way::Equal, 32), [3, 3, 2, 1]);
    assert_eq!(admitted(Way::Better, 31), [3, 2, 1, 0]);
    assert_eq!(admitted(Way::Better, 33), [3, 2, 1, 0]);
    assert_eq!(admitted(Way::Better, 64), [4, 4, 4, 4]);
    let kept = [Way::All, Way::Equal, Way::Better].map(|way| way.class(Class::new(2)).number());
    assert_eq!(kept, [0, 2, 2]);
}

/// The throttle starts again with a new policy.
#[test]
fn a_new_policy_is_not_throttled() {
    let mut pool = pool(Policy::S3);
    for page in 0..200_000 {
        pool.missed(&name(page), false);
        pool.offered(&name(page), false, &full(0));
    }
    assert_eq!(pool.throttle().level(), 5);
    pool.set_policy(Policy::Adaptive);
    assert_eq!(pool.throttle().level(), 0);
}

/// The cost of puts is compared with the hits of the same period, so that a way that remains the
/// best is never abandoned. One page in eight is read again after 48 pages of the same kind have
/// left. As many other pages, which are never read again, leave in between. In a pool of 64 pages,
/// only a way that refuses the latter and admits all of the former has hits.
#[test]
fn the_price_of_puts_does_not_grow() {
    let mut shadow = shadow::Shadow::new(vec![Cell::default(); 3 * 64]);
    let block = |page: u64| name(page * 16).block;
    for tick in 6..100_000 {
        for page in tick * 8..tick * 8 + 8 {
            shadow.left(block(page), Class::new(1), 64);
            shadow.left(block(1 << 30 | page), Class::LOWEST, 64);
        }
        let again = (tick - 6) * 8 + ddabi::key::mix(tick) % 8;
        shadow.read(block(again), 64);
        if tick > 10_000 {
            assert_eq!(shadow.way(), Way::Equal, "{tick}");
        }
    }
}

/// Returns an index in which a page was put into each of these lists at the given time.
fn index_of(pages: &[(u16, u64)]) -> Index<Heap> {
    let hasher = Hasher::new(1);
    let mut index = Index::new(Heap::with_lists(2 * CLASSES), hasher);
    index.supply(64);
    for (place, (list, stamp)) in (0..).zip(pages) {
        let mut batch = Batch::new();
        let key = PageKey {
            index: place * BLOCK_PAGES as u64,
            ..PageKey::default()
        };
        batch.add(&hasher, &key, 1, (0, *list));
        batch.by_shard(0, |_, group| {
            index.insert(&group, *stamp, &[place], |_, _| (), |_| ());
        });
    }
    index
}

/// The state of a pool is computed from its own lists only.
#[test]
fn the_class_that_gives_is_found_in_the_index() {
    const FIRST: u16 = CLASSES as u16;
    let victim =
        |order: Order, first, pages: &[(u16, u64)]| order.victim_in(&index_of(pages), first, 100);
    let weighted = [(FIRST, 90), (FIRST + 1, 20)];
    assert_eq!(victim(Order::Aged, FIRST, &weighted), Some(1));
    assert_eq!(victim(Order::Aged, 0, &weighted), None);
    // Whether a class is left over depends on its newest page.
    let left_over = [(FIRST, 95), (FIRST + 3, 36)];
    assert_eq!(victim(Order::Aged, FIRST, &left_over), Some(3));
    let renewed = [(FIRST, 95), (FIRST + 3, 36), (FIRST + 3, 97)];
    assert_eq!(victim(Order::Aged, FIRST, &renewed), Some(0));
    assert_eq!(victim(Order::Small, FIRST, &[(FIRST + 2, 5)]), Some(2));
}

/// A policy that does not count misses has one class, whatever was counted before.
#[test]
fn fifo_has_one_class() {
    let mut pool = pool(Policy::Adaptive);
    for _ in 0..10 {
        // A run counts once.
        pool.missed(&name(64), false);
        pool.missed(&name(128), false);
    }
    assert!(pool.leave([name(64)], &full(0)) > Class::LOWEST);
    pool.set_policy(Policy::Fifo);
    let verdict = pool.offered(&name(64), false, &full(0));
    assert_eq!(verdict, Verdict::Put(Class::LOWEST));
}

#[test]
fn the_history_of_a_pool_has_a_size() {
    assert_eq!(
        pool(Policy::Fifo).bytes(),
        size_of::<Pool>() + 1024 * size_of::<u64>()
    );
}

#[test]
fn s3_holds_a_tenth_of_the_pool_in_the_first_class() {
    let victim = |small| {
        let queue = |used| Queue {
            used,
            ..Queue::default()
        };
        let queues = [queue(small), queue(10 - small), queue(0), queue(0)];
        Order::Small.victim(&queues)
    };
    assert_eq!((victim(1), victim(2)), (Some(1), Some(0)));
}

/// Replays accesses by a guest of 100 pages in front of a pool of 1000. Returns the hits in the
/// second half.
fn replay(policy: Policy, page: impl Fn(u64) -> u64) -> u64 {
    let mut admission = pool(policy);
    let mut guest = std::collections::VecDeque::new();
    let mut host: Vec<(u64, Class, u32)> = Vec::new();
    let mut hits = 0;
    for tick in 0..60_000u32 {
        let page = page(u64::from(tick));
        if guest.contains(&page) {
            continue;
        }
        let held = host.iter().position(|(held, ..)| *held == page);
        if let Some(at) = held {
            host.remove(at);
            hits += u64::from(tick >= 30_000);
        }
        admission.missed(&name(page * 4), held.is_some());
        guest.push_back(page);
        if guest.len() <= 100 {
            continue;
        }
        let left = guest.pop_front().unwrap();
        let mut queues = [Queue::default(); CLASSES];
        for (_, class, stamp) in &host {
            let queue = &mut queues[class.number()];
            queue.used += 1;
            queue.oldest = queue.oldest.max(u64::from(tick - stamp));
            queue.newest = u64::from(tick - stamp);
        }
        let victim = Order::of(policy).victim(&queues);
        let pressure = Pressure {
            capacity: 1000,
            full: host.len() >= 1000,
            floor: Class::new(victim.unwrap_or(0) as u8),
        };
        if let Verdict::Put(class) = admission.offered(&name(left * 4), false, &pressure) {
            if pressure.full {
                let at = host
                    .iter()
                    .position(|(_, class, _)| Some(class.number()) == victim);
                host.remove(at.unwrap());
            }
            host.push((left, class, tick));
        }
    }
    hits
}

#[test]
fn a_loop_that_does_not_fit_is_kept_in_part() {
    let looping = |tick| tick % 2000;
    assert_eq!(replay(Policy::Fifo, looping), 0);
    for policy in [Policy::Mru, Policy::Tinylfu, Policy::Adaptive] {
        let hits = replay(policy, looping);
        // The optimum is 1000 hits in each 1900 misses, about 16 000.
        assert!(hits > 9_000, "{policy:?}: {hits}");
    }
}

/// For a loop that exceeds the pool, most of the possible hits are reached at any length of the
/// loop. Decision 0004 promises 70 % with a history of the usual size; this one has a twenty-fourth
/// of its cells.
#[test]
fn most_of_any_loop_is_kept() {
    for pages in [1300, 1600, 2000, 3000] {
        let hits = replay(Policy::Adaptive, |tick| tick % pages);
        // In the second half all reads miss the guest's page cache, and the pool can have 1000 hits
        // in each round.
        let best = 30_000 * 1000 / pages;
        assert!(hits * 10 >= best * 6, "{pages}: {hits} of {best}");
    }
}

/// Pages that are read once do not displace others for long: after a scan of five times the pool's
/// size, a hot set is cached again before it was read three times.
#[test]
fn a_hot_set_survives_a_scan() {
    const HOT: u64 = 800;
    let page = |tick| match tick {
        30_000..35_000 => 1 << 20 | tick,
        _ => ddabi::key::mix(tick) % HOT,
    };
    for policy in [Policy::Fifo, Policy::Adaptive] {
        let hits = replay(policy, page);
        // Seven of eight reads miss the guest's page cache.
        let best = (25_000 - 3 * HOT) * 7 / 8;
        assert!(hits >= best * 9 / 10, "{policy:?}: {hits} of {best}");
    }
}

/// When puts of a pool have hits again, its throttle is relaxed by one level each time that twice
/// its size was offered.
#[test]
fn a_throttled_pool_recovers() {
    let mut pool = pool(Policy::S3);
    for page in 0..200_000 {
        pool.missed(&name(page), false);
        pool.offered(&name(page), false, &full(0));
    }
    assert_eq!(pool.throttle().level(), 5);
    for page in 0..2_000 * 6 {
        pool.offered(&name(page), false, &full(0));
        pool.missed(&name(page), true);
    }
    assert_eq!(pool.throttle().level(), 0);
}

#[test]
fn the_default_keeps_recent_pages() {
    // If the working set moves, past frequencies predict nothing.
    let wandering = |tick| tick / 8 + ddabi::key::mix(tick) % 900;
    let (fifo, ours) = (
        replay(Policy::Fifo, wandering),
        replay(Policy::Adaptive, wandering),
    );
    assert!(ours * 100 >= fifo * 98, "{ours} {fifo}");
}

proptest! {
    /// Without aging, estimates are never too low.
    #[test]
    fn sketches_do_not_forget(keys in prop::collection::vec(0u64..50, 0..200)) {
        let mut sketch = Sketch::new([0u64; 64]);
        let mut truth = HashMap::<u64, u8>::new();
        for key in keys {
            sketch.add(name(key).page, 1 << 40);
            let count = truth.entry(key).or_default();
            *count = (*count + 1).min(MAX_COUNT);
        }
        for (key, count) in truth {
            prop_assert!(sketch.estimate(name(key).page) >= count);
        }
    }

    /// Frequencies decay, however high they were.
    #[test]
    fn sketches_age(capacity in 1u64..500) {
        let mut sketch = Sketch::new([0u64; 64]);
        for _ in 0..15 {
            sketch.add(name(1).page, 1 << 40);
        }
        let before = sketch.estimate(name(1).page);
        for _ in 0..capacity * 10 * 4 + 64 {
            sketch.add(name(2).page, capacity);
        }
        prop_assert!(sketch.estimate(name(1).page) < before);
    }

    /// A page is recognised until four other pages of its word were seen.
    #[test]
    fn ghosts_are_the_four_newest(pages in prop::collection::vec(0u64..12, 1..100)) {
        let mut words = [0u64; 1];
        let mut model: Vec<u64> = Vec::new();
        for page in pages {
            let known = model.iter().position(|other| *other == page);
            prop_assert_eq!(ghost::seen(&mut words, name(page).page), known.is_some());
            if let Some(at) = known {
                model.remove(at);
            }
            model.insert(0, page);
            model.truncate(4);
        }
    }

    /// The chosen class has pages, and a class is chosen if any has pages.
    #[test]
    fn orders_choose_a_class_that_has_pages(used in prop::array::uniform4(0u64..30), ages in prop::array::uniform4((0u64..1000, 0u64..1000))) {
        let mut queues = [Queue::default(); CLASSES];
        for (n, queue) in queues.iter_mut().enumerate() {
            (queue.used, queue.newest) = (used[n], ages[n].0);
            queue.oldest = ages[n].0 + ages[n].1;
        }
        for order in [Order::Aged, Order::Small] {
            match order.victim(&queues) {
                Some(class) => prop_assert!(queues[class].used > 0),
                None => prop_assert!(used.iter().all(|pages| *pages == 0)),
            }
        }
    }

    /// A pool with room admits all pages, and no input and no amount of memory causes a panic.
    #[test]
    fn pools_with_room_refuse_nothing(
        policy in 0u32..6,
        words in 0usize..70,
        cells in 0usize..70,
        ops in prop::collection::vec(
            (0u8..4, 0u64..200, prop_oneof![8 => 0u64..300, 1 => any::<u64>()]),
            0..500,
        ),
    ) {
        let policy = Policy::from_raw(policy).unwrap();
        let mut pool = Admission::new(policy, vec![0; words], vec![Cell::default(); cells]);
        for (kind, page, capacity) in ops {
            if kind < 2 {
                pool.missed(&name(page), kind == 0);
                continue;
            }
            let pressure = Pressure { capacity, full: kind == 2, floor: Class::new((page % 5) as u8) };
            let verdict = pool.offered(&name(page), page % 2 == 0, &pressure);
            prop_assert!(pressure.full || matches!(verdict, Verdict::Put(_)));
        }
        prop_assert!(matches!(pool.way(), Way::All | Way::Equal | Way::Better));
    }
}
