// SPDX-License-Identifier: GPL-2.0-only

use crate::world::World;
use ddhostd::rehearsal::{Rehearsal, rehearse};
use ddvm::Config;
use insta::assert_snapshot;

const FILE: &str = "default = \"deny\"\n[memory]\ncapacity = \"25%\"\nfloor = \"0\"\n\
                    [[vm]]\nname = \"web-*\"\nweight = 300\n\
                    [[vm]]\ncgroup = \"/machine.slice/mail.scope\"\nweight = 100\n";

fn rehearsal(world: &World, file: &str) -> anyhow::Result<Rehearsal> {
    let config = Config::parse(file, 8 << 30).unwrap();
    rehearse(&config, &mut world.host.clone(), &world.path("proc"))
}

#[test]
fn changes_are_shown_and_not_made() {
    let world = World::new();
    for (id, name) in [(1, "web-1"), (2, "mail"), (3, "stranger")] {
        world.register(id, name);
    }
    let shown = rehearsal(&world, FILE).unwrap();
    assert_snapshot!(shown.to_string());
    let json = serde_json::to_string_pretty(&shown).unwrap();
    assert_snapshot!("changes_as_json", json);
    assert_eq!(world.weights(), [100, 100, 100]);
    let capacity = world.host.with(|state| state.status.capacity);
    assert_eq!(capacity, 1 << 18);
}

#[test]
fn a_floor_above_the_capacity_in_force_fails() {
    let world = World::new();
    let error = rehearsal(&world, "[memory]\nfloor = \"2G\"\n").unwrap_err();
    let message = "the floor of 2.00 GiB is above the capacity of 1.00 GiB";
    assert!(error.to_string().starts_with(message), "{error}");
}

#[test]
fn there_may_be_nothing_to_change() {
    let shown = rehearsal(&World::new(), "").unwrap();
    assert_eq!(shown.to_string(), "No VM is registered\n");
}
