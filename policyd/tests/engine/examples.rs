// SPDX-License-Identifier: GPL-2.0-only

use crate::world::{World, parse};
use ddabi::pool::{PoolStats, SsdAdmit, Store};
use ddnl::{GuestControl, NewPool, Policy, PoolChange, fake::Fault};
use policyd::engine::{Action, Event, Summary, Time};

const TWO: &str = r#"
interval_s = 5
[[container]]
name = "web"
cgroup = "/web"
weight = 300
[[container]]
name = "job {}"
cgroup = "/jobs/*"
weight = 50
"#;

const SECOND: Time = Time::from_secs(1);
const MINUTE: Time = Time::from_secs(60);

fn entry(name: &str, weight: u32) -> (String, u32) {
    (name.into(), weight)
}

#[test]
fn containers_are_enrolled_as_they_come() {
    let mut world = World::new(TWO);
    world.make("/web", false);
    world.act();
    assert_eq!(world.enrolled()["/web"], entry("web", 300));
    world.make("/jobs", true);
    world.make("/jobs/7.scope", true);
    world.make("/jobs/7.scope/deeper", true);
    world.act();
    assert_eq!(world.enrolled()["/jobs/7.scope"], entry("job 7", 50));
    assert_eq!(world.enrolled().len(), 2);
    assert_eq!(world.changes().len(), 2);
}

/// The module lists a name with question marks in place of characters that are not ASCII.
#[test]
fn a_name_that_is_listed_differently_is_recognised() {
    let file = "[[container]]\nname = \"köln\"\ncgroup = \"/web\"\n";
    let mut world = World::new(file);
    world.make("/web", true);
    world.pass(MINUTE);
    assert_eq!(world.enrolled()["/web"].0, "k??ln");
    assert_eq!(world.changes().len(), 1);
    // Another daemon finds the pool.
    let mut other = World::new(file);
    other.guest = world.guest.clone();
    other.pass(10 * MINUTE);
    assert_eq!(other.changes(), []);
}

#[test]
fn nothing_is_done_twice() {
    let mut world = World::new(TWO);
    world.make("/web", true);
    world.pass(10 * MINUTE);
    assert_eq!(world.changes().len(), 1);
}

#[test]
fn a_recreated_cgroup_is_enrolled_again() {
    for lingers in [false, true] {
        let mut world = World::new(TWO);
        world.make("/web", true);
        world.act();
        world.remove("/web", true, lingers);
        world.make("/web", true);
        world.act();
        world.reap();
        world.pass(MINUTE);
        assert_eq!(world.enrolled()["/web"], entry("web", 300), "{lingers}");
        assert_eq!(world.changes().len(), 2);
    }
}

#[test]
fn announcements_may_be_lost() {
    let mut world = World::new(TWO);
    world.act();
    world.make("/web", false);
    world.pass(MINUTE);
    assert!(world.enrolled().contains_key("/web"));
    world.make("/jobs/1", false);
    world.tell(Event::CgroupsLost);
    world.act();
    assert!(world.enrolled().contains_key("/jobs/1"));
}

#[test]
fn without_a_module_it_waits() {
    let mut world = World::new(TWO);
    world.fault(Fault::Absent);
    world.make("/web", true);
    world.pass(MINUTE);
    let tries = world
        .log
        .iter()
        .filter(|action| **action == Action::Connect);
    assert_eq!(tries.count(), 13);
    let summary = |module, enrolled| Summary {
        module,
        wanted: 1,
        enrolled,
        feasible: None,
    };
    assert_eq!(world.engine.summary(), summary(false, 0));
    world.fault(Fault::None);
    world.tell(Event::ModuleCame);
    world.act();
    assert_eq!(world.engine.summary(), summary(true, 1));
}

#[test]
fn a_reloaded_module_gets_all_pools_again() {
    let mut world = World::new(TWO);
    world.make("/web", true);
    world.act();
    world.guest.with(ddnl::fake::GuestState::reload);
    world.tell(Event::ModuleWent);
    world.tell(Event::ModuleCame);
    world.act();
    assert_eq!(world.enrolled()["/web"], entry("web", 300));
    // The same without an announcement.
    world.guest.with(ddnl::fake::GuestState::reload);
    world.pass(5 * SECOND);
    assert_eq!(world.enrolled()["/web"], entry("web", 300));
}

#[test]
fn the_file_wins_over_changes_by_hand() {
    let mut world = World::new(TWO);
    world.make("/web", true);
    world.act();
    let change = PoolChange {
        weight: Some(7),
        ssd_weight: None,
        store: Some(Store::None),
        policy: None,
        ssd_admit: None,
    };
    world.guest.set_pool(1, change).unwrap();
    world.pass(5 * SECOND);
    assert_eq!(world.enrolled()["/web"], entry("web", 300));
    world.guest.remove_pool(1).unwrap();
    world.tell(Event::SessionChanged);
    world.act();
    assert_eq!(world.enrolled()["/web"], entry("web", 300));
}

/// Without a policy in the file, one that an administrator has chosen stays.
#[test]
fn policies_follow_the_file() {
    let container = |policy: &str| {
        format!("interval_s = 5\n[[container]]\nname = \"web\"\ncgroup = \"/web\"\n{policy}")
    };
    let mut world = World::new(&container("policy = \"tinylfu\"\n"));
    world.make("/web", true);
    world.act();
    let policy = |world: &World| world.guest.with(|state| state.pools[1].policy);
    assert_eq!(policy(&world), Policy::Tinylfu);
    world.tell(Event::ConfigLoaded(parse(&container("policy = \"mru\"\n"))));
    world.act();
    assert_eq!(policy(&world), Policy::Mru);
    world.tell(Event::ConfigLoaded(parse(&container(""))));
    let change = PoolChange {
        policy: Some(Policy::S3),
        ..PoolChange::default()
    };
    world.guest.set_pool(1, change).unwrap();
    world.pass(5 * SECOND);
    assert_eq!(policy(&world), Policy::S3);
}

/// The weights in the memory tier have a constant sum, to which weights in the SSD tier do not
/// count.
#[test]
fn a_container_of_the_ssd_tier_has_the_weight_of_the_file() {
    let mut world = World::new(
        "interval_s = 5\n\
         [[container]]\nname = \"web\"\ncgroup = \"/web\"\npriority = 1\n\
         [[container]]\nname = \"video\"\ncgroup = \"/video\"\nstore = \"ssd\"\nweight = 300\n",
    );
    world.make("/web", true);
    world.make("/video", true);
    world.pass(MINUTE);
    let pools = world.guest.with(|state| state.pools.clone());
    let (on_ssd, in_memory): (Vec<_>, Vec<_>) =
        pools.iter().partition(|pool| pool.store == Store::Ssd);
    assert_eq!((on_ssd.len(), on_ssd[0].weight), (1, 300));
    let sum: u32 = in_memory.iter().map(|pool| pool.weight).sum();
    assert_eq!(sum, 10_000);
}

/// Store and weights of the pools but the default pool.
fn tiers(world: &World) -> Vec<(Store, u32, u32)> {
    world.guest.with(|state| {
        let pools = state.pools.iter().skip(1);
        pools
            .map(|pool| (pool.store, pool.weight, pool.ssd_weight))
            .collect()
    })
}

/// A container has a weight in each tier that it keeps pages in. Where it keeps none, the weight
/// there is left alone.
#[test]
fn weights_in_the_ssd_tier_follow_the_file() {
    let container = |more: &str| {
        format!(
            "interval_s = 5\n[[container]]\nname = \"web\"\ncgroup = \"/web\"\nweight = 300\n{more}"
        )
    };
    let mut world = World::new(&container("store = \"hybrid\"\nssd_weight = 40\n"));
    world.make("/web", true);
    world.act();
    assert_eq!(tiers(&world), [(Store::Hybrid, 300, 40)]);
    let by_hand = PoolChange {
        ssd_weight: Some(9),
        ..PoolChange::default()
    };
    world.guest.set_pool(1, by_hand).unwrap();
    world.pass(5 * SECOND);
    assert_eq!(tiers(&world), [(Store::Hybrid, 300, 40)]);
    world.tell(Event::ConfigLoaded(parse(&container("store = \"ssd\"\n"))));
    world.act();
    assert_eq!(tiers(&world), [(Store::Ssd, 300, 300)]);
    world.tell(Event::ConfigLoaded(parse(&container(""))));
    world.act();
    assert_eq!(tiers(&world), [(Store::Memory, 300, 300)]);
    world.guest.set_pool(1, by_hand).unwrap();
    world.pass(5 * SECOND);
    assert_eq!(tiers(&world), [(Store::Memory, 300, 9)]);
}

/// The explanation covers the tiers in which a container keeps pages, and no others.
#[test]
fn each_tier_is_explained() {
    let explain = |more: &str| {
        let mut world = World::new(&format!(
            "interval_s = 5\n[[container]]\nname = \"web\"\ncgroup = \"/web\"\n{more}"
        ));
        world.make("/web", true);
        world.act();
        world.guest.with(|state| {
            state.pools[1].stats = Some(PoolStats {
                entitlement: 512,
                used: 1280,
                ssd_entitlement: 2560,
                ssd_used: 1024,
                ..PoolStats::default()
            });
        });
        world.tell(Event::SessionChanged);
        world.act();
        world.engine.report().containers[0].to_string()
    };
    let memory = "\n  weight 100: 2.0 MiB of the store, 1.0 MiB used, ? needed\n";
    let ssd = "\n  SSD weight 30: 10 MiB of the SSD tier, 4.0 MiB used\n";
    let told = explain("store = \"hybrid\"\nssd_weight = 30\n");
    assert!(
        told.contains(&format!("{}{ssd}", memory.trim_end())),
        "{told}"
    );
    let told = explain("store = \"ssd\"\nssd_weight = 30\n");
    assert!(told.contains(ssd) && !told.contains(memory), "{told}");
    let told = explain("");
    assert!(told.contains(memory) && !told.contains("SSD"), "{told}");
}

/// The file's admission to SSDs is set and kept. Without one, the pool keeps what it has.
#[test]
fn the_file_decides_what_goes_to_ssds() {
    let container = |more: &str| {
        format!(
            "interval_s = 5\n[[container]]\nname = \"web\"\ncgroup = \"/web\"\n\
             store = \"hybrid\"\n{more}"
        )
    };
    let admit = |world: &World| world.guest.with(|state| state.pools[1].ssd_admit);
    let mut world = World::new(&container("ssd_admit = \"second\"\n"));
    world.make("/web", true);
    world.act();
    assert_eq!(admit(&world), SsdAdmit::Second);
    let by_hand = PoolChange {
        ssd_admit: Some(SsdAdmit::All),
        ..PoolChange::default()
    };
    world.guest.set_pool(1, by_hand).unwrap();
    world.pass(5 * SECOND);
    assert_eq!(admit(&world), SsdAdmit::Second);
    world.tell(Event::ConfigLoaded(parse(&container(""))));
    world.act();
    assert_eq!(admit(&world), SsdAdmit::Second);
    world.guest.set_pool(1, by_hand).unwrap();
    world.pass(5 * SECOND);
    assert_eq!(admit(&world), SsdAdmit::All);
}

#[test]
fn pools_outside_of_the_file_are_left_alone() {
    let mut world = World::new(TWO);
    world.make("/other", true);
    let other = NewPool {
        cgroup: "/other".into(),
        name: "by hand".into(),
        weight: 9,
        ssd_weight: None,
        store: Store::Memory,
        policy: None,
        ssd_admit: None,
    };
    world.guest.add_pool(&other).unwrap();
    world.pass(MINUTE);
    world.tell(Event::ConfigLoaded(parse("")));
    world.pass(MINUTE);
    assert_eq!(world.enrolled()["/other"], entry("by hand", 9));
    assert_eq!(world.changes(), []);
}

#[test]
fn a_new_file_changes_only_the_difference() {
    let mut world = World::new(TWO);
    for path in ["/web", "/jobs/1", "/jobs/2"] {
        world.make(path, true);
    }
    world.act();
    world.changes();
    world.tell(Event::ConfigLoaded(parse(
        "[[container]]\nname = \"web\"\ncgroup = \"/web\"\nweight = 10\n\
         [[container]]\nname = \"job 1\"\ncgroup = \"/jobs/1\"\nweight = 50\n",
    )));
    world.act();
    let changes = world.changes();
    assert!(
        matches!(changes[..], [Action::Remove(_), Action::Set(..)]),
        "{changes:?}"
    );
    assert_eq!(world.enrolled().len(), 2);
    assert_eq!(world.enrolled()["/web"], entry("web", 10));
}

#[test]
fn a_new_name_needs_a_new_pool() {
    let mut world = World::new(TWO);
    world.make("/web", true);
    world.act();
    let renamed = TWO.replace("\"web\"", "\"shop\"");
    world.tell(Event::ConfigLoaded(parse(&renamed)));
    world.pass(MINUTE);
    assert_eq!(world.enrolled()["/web"], entry("shop", 300));
    assert_eq!(world.changes().len(), 3);
}

#[test]
fn pools_of_an_earlier_daemon_are_taken_over() {
    let mut world = World::new(TWO);
    world.make("/web", false);
    world.act();
    world.changes();
    let guest = world.guest.clone();
    let mut after = World::new(TWO);
    after.guest = guest;
    after.pass(MINUTE);
    assert_eq!(after.changes(), []);
    after.tell(Event::ConfigLoaded(parse("")));
    after.act();
    assert!(after.enrolled().is_empty());
}

/// The kernel removes the pool of a removed cgroup some time later.
#[test]
fn pools_of_dead_cgroups_are_left_to_the_kernel() {
    let mut world = World::new(TWO);
    world.make("/web", true);
    world.act();
    world.changes();
    world.remove("/web", true, true);
    world.pass(MINUTE);
    assert_eq!(world.changes(), []);
}

#[test]
fn the_default_pool_has_the_weight_of_the_file() {
    let mut world = World::new("default_pool_weight = 0");
    world.pass(MINUTE);
    assert_eq!(world.guest.with(|state| state.pools[0].weight), 0);
    world.tell(Event::ConfigLoaded(parse("")));
    world.pass(MINUTE);
    assert_eq!(world.changes().len(), 1);
}

#[test]
fn failed_changes_are_tried_less_and_less_often() {
    let mut world = World::new(TWO);
    world.make("/web", true);
    world.fault(Fault::Refusing(28));
    world.pass(10 * MINUTE);
    // After 1, 2, 4, 8, 16, 32, 60, 60 … seconds.
    let tries = world.changes().len();
    assert!((14..=17).contains(&tries), "{tries}");
    world.fault(Fault::None);
    world.pass(MINUTE);
    assert!(world.enrolled().contains_key("/web"));
}

/// Two containers are created within a second, so the weights for the second one are not decided
/// yet when the failed change may be tried again. `World::act` checks that the engine sleeps until
/// both can be done.
#[test]
fn a_retry_waits_for_weights_that_are_to_be_decided() {
    let file = "[[container]]\nname = \"c\"\ncgroup = \"/c/*\"\ntarget = { hit_ratio = 0.9 }\n";
    let mut world = World::new(file);
    world.fault(Fault::Refusing(28));
    for (cgroup, milliseconds) in [("/c/1", 2500), ("/c/2", 400), ("/c/3", 5000)] {
        world.make(cgroup, true);
        world.pass(Time::from_millis(milliseconds));
    }
    world.fault(Fault::None);
    world.pass(MINUTE);
    assert_eq!(world.enrolled().len(), 3);
}

/// The floor of the file is in force before the host has reported anything, and while newcomers
/// arrive continually.
#[test]
fn a_floor_holds_from_the_start_and_beside_newcomers() {
    let file = "interval_s = 1\n\
         [[container]]\nname = \"gold\"\ncgroup = \"/gold\"\nclass = \"gold\"\n\
         cache_floor = \"40%\"\n\
         [[container]]\nname = \"{}\"\ncgroup = \"/c/*\"\nclass = \"bronze\"\n\
         target = { hit_ratio = 0.9 }\n";
    let mut world = World::new(file);
    for n in 0..6 {
        world.make(&format!("/c/{n}"), true);
    }
    world.make("/gold", true);
    let least = |world: &World| assert!(world.enrolled()["/gold"].1 >= 4000);
    world.act();
    least(&world);
    for n in 6..30 {
        world.make(&format!("/c/{n}"), true);
        world.pass(Time::from_millis(400));
        least(&world);
    }
}

/// In the opposite order, a container would have a smaller part of the sum in between than before
/// and after.
#[test]
fn weights_are_lowered_before_others_are_raised() {
    let file = |a: u32, b: u32| {
        format!(
            "[[container]]\nname = \"a\"\ncgroup = \"/a\"\nweight = {a}\n\
             [[container]]\nname = \"b\"\ncgroup = \"/b\"\nweight = {b}\n"
        )
    };
    let mut world = World::new(&file(100, 900));
    world.make("/a", true);
    world.make("/b", true);
    world.act();
    world.changes();
    world.tell(Event::ConfigLoaded(parse(&file(900, 100))));
    world.act();
    let weights: Vec<_> = world
        .changes()
        .iter()
        .map(|action| match action {
            Action::Set(_, change) => change.weight,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(weights, [Some(100), Some(900)]);
}

#[test]
fn one_failure_does_not_hold_up_the_others() {
    let mut world = World::new(TWO);
    world.make("/jobs/1", true);
    // A cgroup is announced that the module does not know.
    world.tell(Event::CgroupAppeared("/web".into(), 77));
    world.act();
    assert!(world.enrolled().contains_key("/jobs/1"));
}

#[test]
fn a_module_of_another_version_is_not_touched() {
    let mut world = World::new(TWO);
    world.make("/web", true);
    for fault in [Fault::Version(99), Fault::Layout, Fault::Forbidden] {
        world.fault(fault);
        world.pass(MINUTE);
    }
    assert_eq!(world.changes(), []);
    assert!(!world.engine.summary().module);
}

/// If the limit of pools is reached, pools that are not wanted any more are removed before others
/// are added.
#[test]
fn room_is_made_before_it_is_needed() {
    let old = "[[container]]\nname = \"old\"\ncgroup = \"/old/*\"\n";
    let mut world = World::new(old);
    world.make("/old/1", true);
    world.make("/new/1", true);
    world.act();
    world.changes();
    world.tell(Event::ConfigLoaded(parse(&old.replace("old", "new"))));
    world.act();
    let changes = world.changes();
    assert!(
        matches!(changes[..], [Action::Remove(_), Action::Add(_)]),
        "{changes:?}"
    );
}

#[test]
fn another_root_means_other_cgroups() {
    let mut world = World::new(TWO);
    world.make("/web", true);
    world.act();
    world.tell(Event::ConfigLoaded(parse(&format!(
        "cgroup_root = \"/other\"\n{TWO}"
    ))));
    world.log.clear();
    world.act();
    assert_eq!(world.log[0], Action::Scan);
}
