// SPDX-License-Identifier: GPL-2.0

//! How many cgroups a container of the file may be, and what those of nobody cost.

use crate::world::World;
use policyd::engine::{Action, Event, Time};

const SECOND: Time = Time::from_secs(1);

#[test]
fn cgroups_of_nobody_are_not_listed_for() {
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
