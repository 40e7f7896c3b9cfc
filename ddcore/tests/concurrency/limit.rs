// SPDX-License-Identifier: GPL-2.0-only

//! The limit of the tier, while the host reclaims memory and puts check whether the limit may rise.

use ddcore::limit::{Limit, TierState};
use ddcore::number::Number;
use loom::sync::Arc;
use loom::thread;

use crate::check;
use crate::number::OrderedNumber;

const TIER: TierState = TierState {
    capacity: 10_000,
    used: 0,
    batch: 512,
};

/// A host that was short of memory at time 0 reclaims all but ten pages at time `fell`, while two
/// puts try to raise the limit at time 150.
fn fall_and_rise<N: Number + Send + Sync + 'static>(fell: u64) {
    check(move || {
        let limit = Arc::new(Limit::<N>::new());
        limit.lower(100, 0);
        let look = |limit: &Arc<Limit<N>>| {
            let limit = limit.clone();
            thread::spawn(move || limit.recover(150, &TIER, || 5000))
        };
        let others = [look(&limit), look(&limit)];
        limit.lower(10, fell);
        let rises = others.map(|other| u32::from(other.join().unwrap()));
        assert!(
            rises.iter().sum::<u32>() <= 1,
            "the limit rose twice in one tick"
        );
        assert_eq!(limit.of(TIER.capacity), 10);
    });
}

#[test]
fn a_fall_is_not_undone_by_a_rise_under_way() {
    fall_and_rise::<OrderedNumber>(200);
}

/// A fall of the limit that does not set the time is detected.
#[test]
#[should_panic(expected = "left")]
fn a_fall_without_its_time_is_detected() {
    fall_and_rise::<OrderedNumber>(0);
}
