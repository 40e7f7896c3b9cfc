// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use crate::config::Config;
use crate::engine::{Cgroups, Curve, Reading, Time, matches, names::Names};
use ddabi::pool::PoolStats;
use proptest::prelude::*;

/// A container that is in both tiers.
#[derive(Clone, Debug)]
struct One {
    ssd_weight: u32,
    /// Milliseconds that a read of its disk takes.
    disk_ms: f64,
    /// Refaults a second.
    wanted: u64,
    /// Points of its curve; none if there is no curve.
    curve: Vec<(u64, f64)>,
}

/// A VM whose SSD tier is divided.
struct Tiers {
    config: Config,
    all: BTreeMap<String, matches::Match>,
    members: BTreeMap<String, Member>,
    ssd: SsdShares,
}

/// The VM's share of the SSD tier, and each container's of the memory tier.
const SSD: Pages = Pages(10_000.0);
const MEMORY: Pages = Pages(1000.0);
/// Milliseconds to read a page from the SSD tier: the middle of a bucket.
const SSD_MS: f64 = 1.5 * 131_072.0 / 1e6;

impl Tiers {
    fn new(ones: &[One]) -> Self {
        let mut text = String::new();
        for (at, one) in ones.iter().enumerate() {
            text.push_str(&format!(
                "[[container]]\nname = \"{at}\"\ncgroup = \"/{at}\"\nclass = \"gold\"\n\
                 store = \"hybrid\"\nssd_weight = {}\ndisk_ms = {}\n",
                one.ssd_weight, one.disk_ms
            ));
        }
        text.push_str("[[container]]\nname = \"v\"\ncgroup = \"/v\"\nstore = \"ssd\"\n");
        let config = Config::parse(&text).unwrap();
        let paths = (0..ones.len()).map(|at| format!("/{at}"));
        let paths = paths.chain(["/v".into()]);
        let cgroups: Cgroups = paths.zip(1..).collect();
        let none = BTreeMap::new();
        let (all, _) = matches::find_all(&config, &cgroups, &Names::default(), |_| false, &none);
        let mut tiers = Self {
            config,
            all,
            members: BTreeMap::new(),
            ssd: SsdShares::default(),
        };
        tiers.ssd.pages = Some(SSD);
        for (at, one) in ones.iter().enumerate() {
            tiers
                .members
                .insert(format!("/{at}"), tiers.member(at, one));
        }
        tiers
    }

    /// Returns a member after some measurements.
    fn member(&self, at: usize, one: &One) -> Member {
        let container = &self.config.containers[at];
        let mut member = Member::default();
        for look in 0..20 {
            let reading = Reading {
                refaults_file: look * one.wanted,
                ..Reading::default()
            };
            let mut stats = PoolStats {
                ssd_hits: look * 100,
                hits: look * 100,
                ..PoolStats::default()
            };
            stats.ssd_get_latency[17] = look * 100;
            member.observe(Time::from_secs(look), container, &reading, Some(stats));
        }
        member.curve = Curve::new(one.curve.iter().copied());
        member
    }

    /// Decides weights for one interval and returns them.
    fn decide(&mut self) -> Vec<u32> {
        let matches = Matches {
            config: &self.config,
            by_cgroup: &self.all,
        };
        self.ssd.decide(matches, &self.members, |_| MEMORY);
        self.ssd.weights().values().copied().collect()
    }

    /// Returns the weights when they do not change any more.
    fn settled(&mut self) -> Vec<u32> {
        (0..60).map(|_| self.decide()).last().unwrap()
    }
}

fn one(ssd_weight: u32, disk_ms: f64, wanted: u64, curve: &[(u64, f64)]) -> One {
    One {
        ssd_weight,
        disk_ms,
        wanted,
        curve: curve.to_vec(),
    }
}

#[test]
fn the_tier_goes_to_pages_that_memory_does_not_hold() {
    // The first container's pages are in memory already, those of the second are not.
    let fits = one(300, 5.0, 1000, &[(1000, 1.0)]);
    let large = one(100, 5.0, 1000, &[(1000, 0.2), (9000, 1.0)]);
    let mut tiers = Tiers::new(&[fits, large]);
    let first = tiers.decide();
    let last = tiers.settled();
    // The first weights follow the file: the container with a fixed weight has a fifth.
    assert_eq!(first, [6000, 2000, 2000]);
    assert_eq!(last[2], 2000);
    assert_eq!(last.iter().sum::<u32>(), WEIGHT_SUM);
    assert!(last[1] > 7900, "{last:?}");
    let told = tiers.ssd.finding("/1").unwrap().to_string();
    assert!(
        told.contains("memory gives 20%") && told.contains("5.0 ms"),
        "{told}"
    );
}

#[test]
fn a_disk_as_fast_as_the_ssd_has_no_weight() {
    let curve = [(9000, 1.0)];
    let slow = one(100, 5.0, 10, &curve);
    let mut tiers = Tiers::new(&[one(100, SSD_MS * 1.19, 1000, &curve), slow.clone()]);
    let weights = tiers.settled();
    assert_eq!(weights[0], 0);
    assert_eq!(weights.iter().sum::<u32>(), WEIGHT_SUM);
    let told = tiers.ssd.finding("/0").unwrap().to_string();
    assert!(told.starts_with("no SSD weight"), "{told}");
    // A disk must be clearly slower to count as slower.
    for (ratio, has_weight) in [(1.25, false), (1.31, true), (1.25, true), (1.19, false)] {
        tiers.config.containers[0].disk_ms = Some(SSD_MS * ratio);
        assert_eq!(tiers.settled()[0] > 0, has_weight, "{ratio}");
    }
    // All containers can be without a weight, one of them by the file.
    let mut tiers = Tiers::new(&[one(100, 0.1, 1000, &curve), one(0, 5.0, 1000, &curve)]);
    assert_eq!(tiers.settled(), [0, 0]);
}

#[test]
fn a_new_daemon_takes_over_weights_in_force() {
    let large = one(100, 5.0, 1000, &[(9000, 1.0)]);
    let mut tiers = Tiers::new(&[large.clone(), large]);
    let pools = [7000, 1000, 2000].map(|ssd_weight| Pool {
        ssd_weight,
        ..ddnl::fake::GuestState::default().pools.remove(0)
    });
    let present = BTreeMap::from([("/0", &pools[0]), ("/1", &pools[1]), ("/v", &pools[2])]);
    let matches = Matches {
        config: &tiers.config,
        by_cgroup: &tiers.all,
    };
    tiers.ssd.adopt(matches, &present);
    tiers.ssd.fit(matches);
    let share = |at| tiers.ssd.damper.share(at).0;
    assert!((share("/0") / share("/1") - 7.0).abs() < 1e-9);
}

fn ones() -> impl Strategy<Value = Vec<One>> {
    let points = prop::collection::vec((1..20_000u64, 0.0..1.0f64), 0..8);
    let one = (1..1000u32, 0.05..10.0f64, 0..5000u64, points);
    let one = one.prop_map(|(ssd_weight, disk_ms, wanted, curve)| One {
        ssd_weight,
        disk_ms,
        wanted,
        curve,
    });
    prop::collection::vec(one, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The sum of weights is constant, and they move by bounded steps and rest if nothing changes.
    #[test]
    fn weights_move_by_steps_and_come_to_rest(ones in ones()) {
        let mut tiers = Tiers::new(&ones);
        let has_any = ones.iter().any(|one| one.disk_ms / SSD_MS >= FASTER);
        let mut before = tiers.decide();
        for round in 0..80 {
            let now = tiers.decide();
            let sum: u32 = now.iter().sum();
            prop_assert_eq!(sum, if has_any { WEIGHT_SUM } else { 0 });
            for (was, is) in before.iter().zip(&now) {
                prop_assert!(was.abs_diff(*is) <= WEIGHT_SUM / 5 + 10, "{before:?} {now:?}");
                prop_assert!(round < 60 || was == is, "{before:?} {now:?}");
            }
            before = now;
        }
        for (one, weight) in ones.iter().zip(&before) {
            prop_assert_eq!(one.disk_ms / SSD_MS < FASTER, *weight == 0);
        }
    }
}
