// SPDX-License-Identifier: GPL-2.0-only

use crate::world::World;
use ddhostd::dry_run::{self, DryRun};
use ddnl::HostControl;
use ddvm::Config;
use insta::assert_snapshot;

const FILE: &str = "default = \"deny\"\n[memory]\ncapacity = \"25%\"\nfloor = \"0\"\n\
                    [[vm]]\nname = \"web-*\"\nweight = 300\n\
                    [[vm]]\ncgroup = \"/machine.slice/mail.scope\"\nweight = 100\n";

fn dry_run(world: &World, file: &str) -> anyhow::Result<DryRun> {
    let config = Config::parse(file, 8 << 30).unwrap();
    dry_run::run(&config, &mut world.host.clone(), &world.paths())
}

#[test]
fn changes_are_shown_and_not_made() {
    let world = World::new();
    for (id, name) in [(1, "web-1"), (2, "mail"), (3, "stranger")] {
        world.register(id, name);
    }
    let shown = dry_run(&world, FILE).unwrap();
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
    let error = dry_run(&world, "[memory]\nfloor = \"2G\"\n").unwrap_err();
    let message = "the floor of 2.00 GiB is above the capacity of 1.00 GiB";
    assert!(error.to_string().starts_with(message), "{error}");
}

#[test]
fn there_may_be_nothing_to_change() {
    let shown = dry_run(&World::new(), "").unwrap();
    assert_eq!(shown.to_string(), "No VM is registered\n");
}

#[test]
fn devices_are_looked_at_and_not_added() {
    let world = World::new();
    world.write("dev/vg0/new", "\0\0");
    world.write("dev/vg0/data", "\0data");
    world.write("dev/vg0/old", "");
    HostControl::add_device(&mut world.host.clone(), "/dev/vg0/old").unwrap();
    let device = |name: &str| format!("[[ssd.device]]\npath = \"/dev/vg0/{name}\"\n");
    let all: String = ["new", "data", "absent"].map(device).concat();
    let file = format!(
        "[memory]\nkeep-free = \"16M\"\npromote-free = \"auto\"\n{all}{}write-budget = \"20M\"\n",
        device("old")
    );
    let shown = dry_run(&world, &file).unwrap();
    assert_snapshot!(shown.to_string(), @r"
    keep-free: 2.0 MiB would become 16.0 MiB
    /dev/vg0/new: would be added to the SSD tier
    /dev/vg0/data: would not be added: it contains data
    /dev/vg0/absent: does not exist, and would be added when it does
    /dev/vg0/old: write budget unlimited would become 20.0 MiB a second
    No VM is registered
    ");
    assert_eq!(world.host.with(|state| state.devices.len()), 1);
}
