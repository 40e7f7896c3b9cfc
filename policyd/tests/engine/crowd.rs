// SPDX-License-Identifier: GPL-2.0-only

//! The bound of cgroups that an entry of the file selects, and the cost of cgroups that no entry
//! selects.

use crate::world::World;
use policyd::{
    discovery::{Identity, Runtime},
    engine::{Action, Engine, Event, Failure, Outcome, Time},
};

const SECOND: Time = Time::from_secs(1);

fn enrolled(world: &World) -> Vec<String> {
    world.enrolled().into_keys().collect()
}

#[test]
fn a_selector_without_a_glob_is_one_cgroup() {
    let mut world = World::new("[[container]]\nname = \"web\"\nunit = \"web\"\n");
    world.make("/b.slice/web.service", true);
    world.make("/a.slice/web.service", true);
    world.act();
    assert_eq!(enrolled(&world), ["/b.slice/web.service"]);
    // The cgroup that matched first stays, also after another scan.
    world.tell(Event::CgroupsLost);
    world.pass(100 * SECOND);
    assert_eq!(enrolled(&world), ["/b.slice/web.service"]);
    world.remove("/b.slice/web.service", true, false);
    world.pass(3 * SECOND);
    assert_eq!(enrolled(&world), ["/a.slice/web.service"]);
}

#[test]
fn a_glob_has_no_more_than_its_part() {
    let file = "[[container]]\nname = \"{}\"\nuser_unit = \"*/job-*.scope\"\n\
                [[container]]\nname = \"web\"\ncgroup = \"/web\"\n";
    let mut world = World::new(file);
    let user = "/user.slice/user-1000.slice/user@1000.service";
    for at in 0..100 {
        world.make(&format!("{user}/job-{at:03}.scope"), true);
    }
    world.make("/web", true);
    world.act();
    assert_eq!(world.enrolled().len(), 65);
    assert!(world.enrolled().contains_key("/web"));
    for at in 0..50 {
        world.remove(&format!("{user}/job-{at:03}.scope"), true, false);
    }
    world.pass(3 * SECOND);
    assert_eq!(world.enrolled().len(), 51);
}

#[test]
fn the_part_of_a_glob_can_be_chosen() {
    let file = "[[container]]\nname = \"{}\"\ncgroup = \"/jobs/*\"\nmost_cgroups = 3\n";
    let mut world = World::new(file);
    for at in 0..10 {
        world.make(&format!("/jobs/{at}"), false);
    }
    world.pass(100 * SECOND);
    assert_eq!(world.enrolled().len(), 3);
}

/// A daemon that was killed has not removed its pools. The next daemon takes them over, because
/// there would be more pools than the file allows otherwise.
#[test]
fn cgroups_that_a_killed_daemon_enrolled_stay() {
    let file = "[[container]]\nname = \"{}\"\ncgroup = \"/jobs/*\"\nmost_cgroups = 3\n";
    let mut world = World::new(file);
    for at in 5..8 {
        world.make(&format!("/jobs/{at}"), true);
    }
    world.pass(100 * SECOND);
    let before = enrolled(&world);
    assert_eq!(before, ["/jobs/5", "/jobs/6", "/jobs/7"]);
    for at in [1, 9] {
        world.make(&format!("/jobs/{at}"), true);
    }
    world.engine = Engine::new(crate::world::parse(file));
    world.pass(100 * SECOND);
    assert_eq!(enrolled(&world), before);
    world.remove("/jobs/6", true, false);
    world.pass(3 * SECOND);
    assert_eq!(enrolled(&world), ["/jobs/1", "/jobs/5", "/jobs/7"]);
}

#[test]
fn cgroups_without_a_container_cause_no_list() {
    let mut world = World::new("[[container]]\nname = \"web\"\ncgroup = \"/web\"\n");
    world.make("/web", true);
    world.make("/user", true);
    world.pass(SECOND);
    world.log.clear();
    for at in 0..100 {
        let path = format!("/user/x{at}");
        world.make(&path, true);
        world.act();
        world.remove(&path, true, false);
        world.act();
    }
    let lists = |world: &World| world.log.iter().filter(|one| **one == Action::List).count();
    assert!(lists(&world) <= 1, "{}", lists(&world));
}

#[test]
fn a_storm_of_containers_is_listed_for_once_a_second() {
    let mut world =
        World::new("interval_s = 60\n[[container]]\nname = \"{}\"\ncgroup = \"/c/*\"\n");
    world.pass(SECOND);
    world.log.clear();
    for at in 0..100 {
        let path = format!("/c/{at}");
        world.make(&path, true);
        world.act();
        world.remove(&path, true, false);
        world.pass(SECOND / 50);
    }
    world.pass(SECOND);
    let lists = world.log.iter().filter(|one| **one == Action::List).count();
    assert!((1..=4).contains(&lists), "{lists}");
}

/// Each container that comes or goes changes the weights of all, but they are not decided for each.
#[test]
fn a_storm_of_containers_moves_weights_once_a_second() {
    let file =
        "interval_s = 60\n[[container]]\nname = \"{}\"\ncgroup = \"/c/*\"\nclass = \"gold\"\n";
    let mut world = World::new(file);
    world.make("/c/first", true);
    world.pass(10 * SECOND);
    world.log.clear();
    for at in 0..100 {
        let path = format!("/c/{at}");
        world.make(&path, true);
        world.pass(SECOND / 50);
        if at % 2 == 0 {
            world.remove(&path, true, false);
        }
    }
    world.pass(2 * SECOND);
    assert_eq!(world.enrolled().len(), 51);
    let first = world.guest.with(|state| state.pools[1].id);
    let moved = |action: &&Action| matches!(action, Action::Set(id, _) if *id == first);
    let moves = world.log.iter().filter(moved).count();
    assert!((1..=4).contains(&moves), "{moves}");
}

/// The module shows no more than 511 bytes of a path.
#[test]
fn a_long_path_is_enrolled_once() {
    let path = format!("/{}", ["0123456789"; 60].join("/"));
    let file = |weight: u32| {
        format!(
            "interval_s = 5\n[[container]]\nname = \"deep\"\ncgroup = \"{path}\"\nweight = {weight}\n"
        )
    };
    let mut world = World::new(&file(70));
    world.make(&path, true);
    world.pass(200 * SECOND);
    assert_eq!(world.engine.summary().enrolled, 1);
    let changes = world.changes();
    assert!(matches!(changes[..], [Action::Add(_)]), "{changes:?}");
    world.tell(Event::ConfigLoaded(crate::world::parse(&file(80))));
    world.pass(10 * SECOND);
    assert_eq!(world.enrolled()[&path].1, 80);
    world.tell(Event::ConfigLoaded(crate::world::parse("")));
    world.pass(10 * SECOND);
    assert_eq!(world.enrolled().len(), 0);
}

/// A cgroup that is reported by a scan and by an announcement is one cgroup.
#[test]
fn a_cgroup_that_is_reported_twice_is_one() {
    let id = "3f".repeat(32);
    let path = format!("/system.slice/docker-{id}.scope");
    let mut world = World::new("[[container]]\nname = \"web\"\ndocker = \"web\"\n");
    let identity = Identity {
        runtime: Runtime::Docker,
        id,
        name: "web".into(),
        pod: None,
    };
    world.identities.insert(path.clone(), identity);
    world.make(&path, true);
    world.pass(SECOND);
    assert_eq!(enrolled(&world), std::slice::from_ref(&path));
    world.changes();
    // Its runtime's file cannot be read at this moment.
    world.identities.clear();
    world.tell(Event::CgroupAppeared(path.clone(), 1));
    world.pass(SECOND);
    assert_eq!(world.changes(), []);
    assert_eq!(enrolled(&world), [path]);
}

/// A name moves from one running container to another.
#[test]
fn a_container_that_is_renamed_is_known_by_its_new_name() {
    let path = |id: &str| format!("/system.slice/docker-{}.scope", id.repeat(32));
    let identity = |id: &str, name: &str| Identity {
        runtime: Runtime::Docker,
        id: id.repeat(32),
        name: name.into(),
        pod: None,
    };
    for (one, other) in [("3f", "4e"), ("4e", "3f")] {
        let mut world = World::new("[[container]]\nname = \"web\"\ndocker = \"web\"\n");
        let (old, new) = (path(one), path(other));
        for (cgroup, id, name) in [(&old, one, "web"), (&new, other, "next")] {
            world.identities.insert(cgroup.clone(), identity(id, name));
            world.make(cgroup, true);
        }
        world.pass(SECOND);
        assert_eq!(enrolled(&world), std::slice::from_ref(&old));
        world
            .identities
            .insert(old.clone(), identity(one, "web-old"));
        world.identities.insert(new.clone(), identity(other, "web"));
        world.pass(31 * SECOND);
        assert_eq!(enrolled(&world), std::slice::from_ref(&new));
        // A file that cannot be read once changes nothing.
        world.identities.clear();
        world.pass(100 * SECOND);
        assert_eq!(enrolled(&world), [new]);
    }
}

/// Pools that come and go while they are listed do not mean that the module is gone.
#[test]
fn a_list_that_changed_while_it_was_read_is_read_again() {
    let mut world = World::new("[[container]]\nname = \"web\"\ncgroup = \"/web\"\n");
    world.make("/web", true);
    world.act();
    world.log.clear();
    world.tell(Event::Outcome(Outcome::Listed(Err(Failure::Busy))));
    assert!(world.engine.summary().module);
    world.pass(SECOND);
    assert_eq!(world.log, [Action::List]);
}
