// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use core::cell::RefCell;
use proptest::prelude::*;

/// Number of pages of 2 MiB, the paper's eviction batch.
const BATCH: u64 = 512;

/// Number of pages of a MiB.
const MIB: u64 = 256;

fn entitled(pages: u64, entities: &[(u32, u64)]) -> Vec<Entity> {
    let mut entities: Vec<_> = entities
        .iter()
        .map(|&(weight, used)| Entity {
            weight,
            entitlement: 0,
            used,
        })
        .collect();
    entitle(&mut entities, pages);
    entities
}

fn shares(pages: u64, weights: &[u32]) -> Vec<u64> {
    let entities: Vec<_> = weights.iter().map(|weight| (*weight, 0)).collect();
    let entities = entitled(pages, &entities);
    entities.iter().map(|entity| entity.entitlement).collect()
}

#[test]
fn shares_follow_weights() {
    assert_eq!(shares(1000, &[60, 40]), [600, 400]);
    assert_eq!(shares(1000, &[30, 70]), [300, 700]);
    assert_eq!(shares(1000, &[1, 1, 1]), [333, 333, 333]);
    assert_eq!(shares(1000, &[0, 5, 0]), [0, 1000, 0]);
    assert_eq!(shares(1000, &[0, 0]), [0, 0]);
    assert_eq!(shares(1000, &[]), []);
}

/// Figures 13 and 14 of the paper, in MB of its round thousand: containers at 60:40, then
/// 50:30:20; VMs at 60:40 of 2 GB, then 40:35:25 of 4 GB, one VM having no memory weight.
#[test]
fn shares_of_the_papers_dynamic_experiments() {
    assert_eq!(shares(1000, &[60, 40]), [600, 400]);
    assert_eq!(shares(1000, &[50, 30, 20]), [500, 300, 200]);
    assert_eq!(shares(1000, &[60, 40, 0]), [600, 400, 0]);
    assert_eq!(shares(2000, &[60, 40, 0]), [1200, 800, 0]);
    assert_eq!(shares(4000, &[40, 35, 0, 25]), [1600, 1400, 0, 1000]);
}

/// Of two equal entities, one is idle. The busy one replaces its own pages. The idle one keeps its
/// few pages, and gets its share back on demand.
#[test]
fn an_idle_share_is_used_and_comes_back() {
    let pages = 1024 * MIB;
    let idle = entitled(pages, &[(50, 10 * MIB), (50, 1014 * MIB)]);
    assert_eq!(victim(&idle, BATCH), Some(1));
    // The idle one becomes active: as long as it is below its share, the other one loses pages.
    let waking = entitled(pages, &[(50, 500 * MIB), (50, 524 * MIB)]);
    assert_eq!(victim(&waking, BATCH), Some(1));
    let beyond = entitled(pages, &[(50, 513 * MIB), (50, 511 * MIB)]);
    assert_eq!(victim(&beyond, BATCH), Some(0));
}

/// The unused share of an entity is divided among the overused ones by weight, not equally: with
/// 60:30:10 and the last one idle, the others settle at 2:1.
#[test]
fn spare_pages_are_divided_by_weight() {
    let pages = 900 * MIB;
    // exceed = used + 2 - (entitlement + 90 * weight / 90) in MiB.
    let even = entitled(pages, &[(60, 600 * MIB), (30, 300 * MIB), (10, 0)]);
    assert_eq!(even[2].entitlement, 90 * MIB);
    assert_eq!(victim(&even, BATCH), Some(0), "equal exceed: the first");
    let first_below = entitled(pages, &[(60, 599 * MIB), (30, 301 * MIB), (10, 0)]);
    assert_eq!(victim(&first_below, BATCH), Some(1));
    let first_above = entitled(pages, &[(60, 601 * MIB), (30, 299 * MIB), (10, 0)]);
    assert_eq!(victim(&first_above, BATCH), Some(0));
}

/// Line 8 of Algorithm 1: an entity counts as overused as soon as the batch would lift it above its
/// share.
#[test]
fn the_batch_counts_as_use() {
    let entities = [
        Entity {
            weight: 1,
            entitlement: 1000,
            used: 1000 - BATCH,
        },
        Entity {
            weight: 1,
            entitlement: 1000,
            used: 1000 - BATCH + 1,
        },
    ];
    assert_eq!(victim(&entities, BATCH), Some(1));
}

/// Line 13 of Algorithm 1: up to two batches of unused entitlement are not lent.
#[test]
fn up_to_two_free_batches_are_not_shared_out() {
    let overused = |used, entitlement| Entity {
        weight: 50,
        entitlement,
        used,
    };
    let gap = |free| Entity {
        weight: 0,
        entitlement: free + 1,
        used: 1,
    };
    let light = Entity {
        weight: 1,
        ..overused(4000, 3000)
    };
    // Without spare pages, the light entity exceeds by one page more.
    let entities = [overused(3999, 3000), light, gap(2 * BATCH)];
    assert_eq!(victim(&entities, BATCH), Some(1));
    // If the heavy entity has one page more, it is the victim without spare pages. With spare
    // pages, of which the heavy one gets nearly all, the light one is the victim.
    let entities = [overused(4001, 3000), light, gap(2 * BATCH)];
    assert_eq!(victim(&entities, BATCH), Some(0));
    let entities = [overused(4001, 3000), light, gap(2 * BATCH + 1)];
    assert_eq!(victim(&entities, BATCH), Some(1));
}

#[test]
fn an_entity_without_pages_is_not_chosen() {
    let entities = entitled(100, &[(0, 0), (1, 0), (99, 100)]);
    assert_eq!(victim(&entities, BATCH), Some(2));
    assert_eq!(victim(&entitled(100, &[(1, 0), (1, 0)]), BATCH), None);
    assert_eq!(victim(&[], BATCH), None);
}

#[test]
fn weight_zero_is_evicted_before_entities_within_their_entitlement() {
    let entities = entitled(1000, &[(0, 1), (50, 500), (50, 499)]);
    assert_eq!(victim(&entities, BATCH), Some(0));
}

#[test]
fn all_weights_zero_do_not_divide_by_zero() {
    let entities = entitled(1000, &[(0, 400), (0, 600)]);
    assert_eq!(victim(&entities, BATCH), Some(1));
}

#[test]
fn without_overuse_the_largest_is_the_victim() {
    let entities = entitled(1 << 20, &[(50, 1000), (50, 2000)]);
    assert_eq!(victim(&entities, BATCH), Some(1));
}

/// Simulates a full tier in which each entity demands pages up to a limit, and demands lost pages
/// again.
fn settle(pages: u64, entities: &[(u32, u64, u64)]) -> Vec<u64> {
    let start: Vec<_> = entities
        .iter()
        .map(|&(weight, start, _)| (weight, start))
        .collect();
    let mut now = entitled(pages, &start);
    for round in 0..60_000 {
        let used: u64 = now.iter().map(|entity| entity.used).sum();
        if used + 32 > pages {
            let at = victim(&now, BATCH).unwrap();
            now[at].used -= BATCH.min(now[at].used);
        }
        let at = round % entities.len();
        if now[at].weight > 0 && now[at].used + 32 <= entities[at].2 {
            now[at].used += 32;
        }
    }
    now.iter().map(|entity| entity.used).collect()
}

fn assert_near(used: &[u64], expected: &[u64]) {
    for (used, expected) in used.iter().zip(expected) {
        assert!(used.abs_diff(*expected) <= 2 * BATCH, "{used} {expected}");
    }
}

#[test]
fn demand_settles_at_the_weights_from_anywhere() {
    let (pages, all) = (64 * MIB, u64::MAX);
    for start in [[0, 0, 0], [pages, 0, 0], [0, pages / 2, pages / 2]] {
        let used = settle(
            pages,
            &[
                (60, start[0], all),
                (30, start[1], all),
                (10, start[2], all),
            ],
        );
        assert_near(&used, &[pages * 6 / 10, pages * 3 / 10, pages / 10]);
    }
}

/// Section 5.1 of the paper: 3 GB are divided among four containers of equal weight. At first the
/// video server has everything. Web demands 800 MB, proxy and mail less than their 750 MB. Video
/// ends with about 1.2 GB and web with all its 800 MB, although both exceed their shares.
#[test]
fn the_papers_equal_weights() {
    let (web, proxy, mail) = (800 * MIB, 500 * MIB, 500 * MIB);
    let pages = 3000 * MIB;
    let used = settle(
        pages,
        &[
            (25, 0, web),
            (25, 0, proxy),
            (25, 0, mail),
            (25, pages, u64::MAX),
        ],
    );
    assert_near(&used, &[web, proxy, mail, 1200 * MIB]);
}

/// Takes `pages` from the entities in turns. Returns the pages taken from each victim in the order
/// of the turns, and their sum.
fn collected(entities: &mut [Entity], pages: u64, turn: u64) -> (Vec<(usize, u64)>, u64) {
    let entities = RefCell::new(entities);
    let mut asked = Vec::new();
    let choose = || {
        let mut victims = Victims::new();
        victims.choose(&entities.borrow(), turn, POOL_VICTIMS);
        victims
    };
    let sum = collect(pages, turn, choose, |at, pages| {
        let used = &mut entities.borrow_mut()[at].used;
        let taken = pages.min(*used);
        *used -= taken;
        asked.push((at, taken));
        taken
    });
    (asked, sum)
}

/// Returns the number of pages that each entity loses in an eviction.
fn given(entities: &mut [Entity], eviction: u64) -> Vec<u64> {
    let mut given = vec![0; entities.len()];
    for (at, pages) in collected(entities, eviction, eviction).0 {
        given[at] += pages;
    }
    given
}

#[test]
fn a_batch_is_complete_even_if_each_entity_has_few_pages() {
    let mut few = entitled(12 * MIB, &[(100, 3); 1024]);
    assert_eq!(given(&mut few, BATCH).iter().sum::<u64>(), BATCH);
    // Fewer pages than a batch are all taken.
    let mut all = entitled(12 * MIB, &[(100, 3), (0, 5), (100, 0)]);
    assert_eq!(given(&mut all, BATCH), [3, 5, 0]);
}

#[test]
fn a_victim_with_enough_pages_gives_the_whole_batch() {
    let mut entities = entitled(1024 * MIB, &[(50, 514 * MIB), (50, 510 * MIB)]);
    assert_eq!(given(&mut entities, BATCH), [BATCH, 0]);
}

/// If all victims have lost their pages since they were chosen, the collection ends after one
/// attempt for each.
#[test]
fn victims_without_pages_are_asked_once() {
    let entities = entitled(0, &[(100, 9), (100, 3), (100, 1)]);
    let choose = || {
        let mut victims = Victims::new();
        victims.choose(&entities, BATCH, POOL_VICTIMS);
        victims
    };
    let mut asked = Vec::new();
    let sum = collect(BATCH, BATCH, choose, |at, pages| {
        asked.push((at, pages));
        0
    });
    assert_eq!(sum, 0);
    assert_eq!(asked, [(0, BATCH), (1, BATCH), (2, BATCH)]);
}

/// Evicts as the shrinker does: divides the pages that are to remain, and takes few at a time.
fn shrink(entities: &mut [Entity], pages: u64, turn: u64) -> Vec<usize> {
    let used: u64 = entities.iter().map(|entity| entity.used).sum();
    entitle(entities, used.saturating_sub(pages));
    let (asked, sum) = collected(entities, pages, turn);
    assert_eq!(sum, pages.min(used));
    asked.into_iter().map(|(at, _)| at).collect()
}

#[test]
fn small_evictions_take_equally_from_equal_entities() {
    let mut entities = entitled(0, &[(100, 1000); 1000]);
    for _ in 0..1000 {
        // The work is bounded by the number of requested pages, not by the number of entities.
        assert!(shrink(&mut entities, 128, 32).len() <= 4);
    }
    let used = entities.iter().map(|entity| entity.used);
    let (least, most) = (used.clone().min().unwrap(), used.max().unwrap());
    assert!(most - least <= 64, "from {least} to {most} pages are left");
}

#[test]
fn small_evictions_converge_to_the_weights() {
    let mut entities = entitled(0, &[(100, 40_000), (300, 30_000), (100, 500)]);
    for _ in 0..400 {
        shrink(&mut entities, 100, 32);
    }
    // 30 500 pages remain. The small entity keeps its own, and the others divide theirs 1 to 3.
    let used: Vec<u64> = entities.iter().map(|entity| entity.used).collect();
    assert_eq!(used[2], 500);
    assert!(
        used[0].abs_diff(7_500) <= 64 && used[1].abs_diff(22_500) <= 64,
        "{used:?}"
    );
}

/// The paper's redistribution: unused parts of entitlements are divided among entities that demand
/// more.
#[test]
fn unused_shares_are_room_for_others() {
    let entity = |used| Entity {
        weight: 25,
        entitlement: 750,
        used,
    };
    let pools = [entity(800), entity(350), entity(740), entity(1100)];
    let all = Sums::of(&pools, 2);
    let capacity = |at: usize| {
        let peers = all.without(&Sums::of_one(&pools[at], 2));
        capacity(&pools[at], &peers)
    };
    assert_eq!(capacity(0), 750 + 410 / 2);
    assert_eq!(capacity(3), 750 + 410 / 2);
    // 740 pages plus an eviction do not exceed 750, but the capacity also includes a part of the
    // pages that others lend.
    assert_eq!(capacity(2), 750 + 400 / 3);
    // A lender gets no part of its own unused pages, but a part of those of the third entity.
    assert_eq!(capacity(1), 750 + 10 / 3);
}

/// Chooses victims like [`Victims`], but with one pass for each choice.
fn one_by_one(mut entities: Vec<Entity>, eviction: u64, count: usize) -> Vec<usize> {
    let sums = Sums::of(&entities, eviction);
    let overused = entities.iter().any(|entity| is_overused(entity, eviction));
    let lent = if overused { sums.lent } else { 0 };
    let sums = Sums { lent, ..sums };
    let mut chosen = Vec::new();
    while chosen.len() < count {
        let mut worst: Option<(i64, usize)> = None;
        for (at, entity) in entities.iter().enumerate() {
            let is_victim = match overused {
                true => is_overused(entity, eviction),
                false => entity.used > 0,
            };
            let exceed = sums.exceed(entity, eviction);
            if is_victim && worst.is_none_or(|(most, _)| most < exceed) {
                worst = Some((exceed, at));
            }
        }
        let Some((_, at)) = worst else { break };
        chosen.push(at);
        entities[at].used = entities[at].used.saturating_sub(eviction);
    }
    chosen
}

proptest! {
    /// One pass over the entities chooses the same victims as one pass for each choice.
    #[test]
    fn one_pass_chooses_like_many(
        pages in 1u64..1 << 16,
        eviction in 1u64..512,
        count in 1usize..=POOL_VICTIMS,
        entities in prop::collection::vec((0u32..=100, 0u64..1 << 12), 0..64),
    ) {
        let entities = entitled(pages, &entities);
        let mut victims = Victims::<POOL_VICTIMS>::new();
        victims.choose(&entities, eviction, count);
        let chosen: Vec<usize> = victims.collect();
        prop_assert_eq!(chosen, one_by_one(entities, eviction, count));
    }

    #[test]
    fn shares_are_conserved(
        pages in 0u64..1 << 40,
        weights in prop::collection::vec(0u32..=10_000, 1..1024),
    ) {
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let shares = shares(pages, &weights);
        let sum: u64 = shares.iter().sum();
        let most = if total == 0 { 0 } else { pages };
        prop_assert!(sum <= most && most - sum <= weights.len() as u64);
        for (share, weight) in shares.iter().zip(&weights) {
            if total > 0 {
                let exact = u128::from(pages) * u128::from(*weight);
                let rounded = u128::from(*share) * u128::from(total);
                prop_assert!(exact.abs_diff(rounded) < u128::from(total));
            }
            prop_assert!(*weight > 0 || *share == 0);
        }
    }

    #[test]
    fn a_victim_holds_pages_and_exceeds_most(
        pages in 1u64..1 << 30,
        eviction in 1u64..4096,
        entities in prop::collection::vec((0u32..=10_000, 0u64..1 << 30), 0..32),
    ) {
        let entities = entitled(pages, &entities);
        match victim(&entities, eviction) {
            None => prop_assert!(entities.iter().all(|entity| entity.used == 0)),
            Some(at) => {
                prop_assert!(entities[at].used > 0);
                // An entity within its entitlement is not chosen while another one is overused.
                let within = |e: &Entity| e.used + eviction <= e.entitlement;
                let overused = entities.iter().any(|e| e.used > 0 && !within(e));
                prop_assert!(!overused || !within(&entities[at]));
            }
        }
    }

    /// Overflow would be a panic here, as in the kernel.
    #[test]
    fn no_number_overflows(
        pages: u64,
        eviction in prop_oneof![any::<u64>(), 1u64..4096],
        entities in prop::collection::vec(
            (any::<u32>(), prop_oneof![any::<u64>(), 0u64..1 << 30, Just(u64::MAX)]),
            0..8,
        ),
    ) {
        let mut entities = entitled(pages, &entities);
        if let Some(at) = victim(&entities, eviction) {
            prop_assert!(entities[at].used > 0);
        }
        given(&mut entities, eviction);
    }

    /// An entity that has no more than its part of the remaining pages loses nothing.
    #[test]
    fn an_entity_within_its_entitlement_keeps_its_pages(
        pages in 0u64..100_000,
        turn in 1u64..1024,
        entities in prop::collection::vec((0u32..=10_000, 0u64..1 << 20), 1..32),
    ) {
        let mut entities = entitled(0, &entities);
        let before = entities.clone();
        shrink(&mut entities, pages, turn);
        for (before, after) in before.iter().zip(&entities) {
            prop_assert!(after.used <= before.used);
            // It may have exceeded its share by less than a turn when it was chosen.
            let least = after.entitlement.saturating_sub(turn).min(before.used);
            prop_assert!(after.used >= least, "{before:?} {after:?}");
            if before.used <= after.entitlement {
                prop_assert_eq!(before.used, after.used);
            }
        }
    }

    /// Equal entities lose equally, to within two turns.
    #[test]
    fn equal_entities_lose_equally(
        count in 1usize..200,
        used in 0u64..4096,
        asked in prop::collection::vec(1u64..300, 1..100),
    ) {
        let mut entities = entitled(0, &vec![(100, used); count]);
        for pages in asked {
            shrink(&mut entities, pages, 32);
            let left = entities.iter().map(|entity| entity.used);
            let (least, most) = (left.clone().min().unwrap(), left.max().unwrap());
            prop_assert!(most - least <= 64);
        }
    }
}
