// SPDX-License-Identifier: GPL-2.0-only

//! After any sequence of events, the module reaches the state that the file describes, everything
//! else is unchanged, and no further changes are made.

use crate::world::{World, parse};
use ddabi::pool::Store;
use ddnl::{GuestControl, NewPool, PoolChange, fake::Fault};
use policyd::engine::{Event, Time};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Cgroups that the files below select.
const OURS: [&str; 5] = ["/a", "/b", "/c", "/c/1", "/c/2"];
/// Cgroups that no file selects. An administrator enrols them.
const OTHERS: [&str; 2] = ["/m", "/a/m"];

const FILES: [&str; 5] = [
    "",
    "interval_s = 1\n[[container]]\nname = \"a\"\ncgroup = \"/a\"\nweight = 1\n",
    "[[container]]\nname = \"x\"\ncgroup = \"/a\"\nweight = 2\n\
     [[container]]\nname = \"c\"\ncgroup = \"/c/*\"\n",
    "interval_s = 20\ndefault_pool_weight = 7\n\
     [[container]]\nname = \"{}\"\ncgroup = \"/{a,b,c}\"\nstore = \"none\"\n",
    "[[container]]\nname = \"b\"\ncgroup = \"/b\"\nweight = 10000\n\
     [[container]]\nname = \"all {}\"\ncgroup = \"/c/**\"\nweight = 0\n",
];

#[derive(Clone, Debug)]
enum Step {
    Make {
        cgroup: usize,
        told: bool,
    },
    Remove {
        cgroup: usize,
        told: bool,
        lingers: bool,
    },
    Reap,
    Reload {
        file: usize,
    },
    Unload {
        told: bool,
    },
    Load {
        told: bool,
    },
    Session,
    Fault(Fault),
    Lost,
    /// An administrator changes a pool that policyd manages.
    Meddle {
        pool: usize,
        weight: u32,
    },
    /// An administrator enrols a cgroup that no file selects.
    Enrol {
        cgroup: usize,
        weight: u32,
    },
    Pass {
        milliseconds: u64,
    },
    Act,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cgroup = 0..OURS.len();
    let step = prop_oneof![
        6 => (cgroup.clone(), any::<bool>()).prop_map(|(cgroup, told)| Step::Make { cgroup, told }),
        3 => (cgroup, any::<bool>(), any::<bool>())
            .prop_map(|(cgroup, told, lingers)| Step::Remove { cgroup, told, lingers }),
        1 => Just(Step::Reap),
        3 => (0..FILES.len()).prop_map(|file| Step::Reload { file }),
        1 => any::<bool>().prop_map(|told| Step::Unload { told }),
        2 => any::<bool>().prop_map(|told| Step::Load { told }),
        1 => Just(Step::Session),
        2 => prop_oneof![
            Just(Fault::None),
            Just(Fault::Refusing(12)),
            Just(Fault::Forbidden),
            Just(Fault::Version(3)),
        ]
        .prop_map(Step::Fault),
        1 => Just(Step::Lost),
        2 => (1..4usize, 0..100u32).prop_map(|(pool, weight)| Step::Meddle { pool, weight }),
        2 => (0..OTHERS.len(), 0..100u32)
            .prop_map(|(cgroup, weight)| Step::Enrol { cgroup, weight }),
        4 => (0..70_000u64).prop_map(|milliseconds| Step::Pass { milliseconds }),
        6 => Just(Step::Act),
    ];
    prop::collection::vec(step, 1..60)
}

/// The cgroups that an administrator enrolled, and their weights.
type ByHand = BTreeMap<String, u32>;

fn take(world: &mut World, step: &Step, file: &mut usize, by_hand: &mut ByHand) {
    match *step {
        Step::Make { cgroup, told } => world.make(OURS[cgroup], told),
        Step::Remove {
            cgroup,
            told,
            lingers,
        } => world.remove(OURS[cgroup], told, lingers),
        Step::Reap => world.reap(),
        Step::Reload { file: number } => {
            *file = number;
            world.tell(Event::ConfigLoaded(parse(FILES[number])));
        }
        Step::Unload { told } => {
            by_hand.clear();
            world.fault(Fault::Absent);
            world.guest.with(ddnl::fake::GuestState::reload);
            if told {
                world.tell(Event::ModuleWent);
            }
        }
        Step::Load { told } => {
            world.fault(Fault::None);
            if told {
                world.tell(Event::ModuleCame);
            }
        }
        Step::Session => world.tell(Event::SessionChanged),
        Step::Fault(fault) => world.fault(fault),
        Step::Lost => world.tell(Event::CgroupsLost),
        Step::Meddle { pool, weight } => meddle(world, pool, weight),
        Step::Enrol { cgroup, weight } => {
            let new = NewPool {
                cgroup: OTHERS[cgroup].into(),
                name: "by hand".into(),
                weight,
                ssd_weight: None,
                store: Store::Memory,
                policy: None,
                ssd_admit: None,
            };
            world.make(&new.cgroup, true);
            if world.guest.add_pool(&new).is_ok() {
                by_hand.insert(new.cgroup, weight);
            }
        }
        Step::Pass { milliseconds } => world.pass(Time::from_millis(milliseconds)),
        Step::Act => world.act(),
    }
}

/// Changes the weight of a pool, unless an administrator enrolled its cgroup.
fn meddle(world: &mut World, pool: usize, weight: u32) {
    let ours = world.guest.with(|state| {
        let pool = state.pools.get(pool)?;
        let theirs = pool
            .cgroup
            .as_deref()
            .is_some_and(|path| OTHERS.contains(&path));
        (!theirs).then_some(pool.id)
    });
    if let Some(id) = ours {
        let change = PoolChange {
            weight: Some(weight),
            ..PoolChange::default()
        };
        // A module with another fault refuses the change, which is allowed.
        let _ = world.guest.set_pool(id, change);
    }
}

/// Returns the pools that the file requires for the existing cgroups, and those that an
/// administrator enrolled.
fn expected(world: &World, file: usize, by_hand: &ByHand) -> BTreeMap<String, (String, u32)> {
    let config = parse(FILES[file]);
    let cgroups = world.guest.with(|state| state.cgroups.clone().unwrap());
    let mut expected: BTreeMap<String, (String, u32)> = cgroups
        .keys()
        .filter_map(|cgroup| {
            let container = config.container(cgroup)?;
            let pool = (container.pool_name(cgroup), container.weight);
            Some((cgroup.clone(), pool))
        })
        .collect();
    for (cgroup, weight) in by_hand {
        expected.insert(cgroup.clone(), ("by hand".into(), *weight));
    }
    expected
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_file_comes_true_and_then_there_is_rest(first in 0..FILES.len(), steps in steps()) {
        let mut world = World::new(FILES[first]);
        let mut file = first;
        let mut by_hand = ByHand::new();
        for step in &steps {
            take(&mut world, step, &mut file, &mut by_hand);
        }
        world.fault(Fault::None);
        world.reap();
        world.pass(Time::from_secs(180));
        prop_assert_eq!(world.enrolled(), expected(&world, file, &by_hand));
        if file == 3 {
            prop_assert_eq!(world.guest.with(|state| state.pools[0].weight), 7);
        }
        world.log.clear();
        world.pass(Time::from_secs(600));
        prop_assert_eq!(world.changes(), vec![]);
    }
}
