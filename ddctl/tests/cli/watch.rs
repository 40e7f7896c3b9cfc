// SPDX-License-Identifier: GPL-2.0-only

use crate::world::World;
use insta::assert_snapshot;

/// Returns a host whose counters rise between two frames.
fn moving() -> World {
    let world = World::host();
    let host = world.host.clone();
    *world.meanwhile.borrow_mut() = Box::new(move || {
        host.with(|state| {
            for stats in [
                &mut state.vms[0].stats,
                state.pools[1].stats.as_mut().unwrap(),
            ] {
                stats.puts += 5_000;
                stats.gets += 4_000;
                stats.misses += 1_000;
            }
        });
    });
    world
}

#[test]
fn stats_with_rates() {
    assert_snapshot!(moving().run("stats web --watch=2 --count 3"));
}

#[test]
fn a_terminal_is_redrawn() {
    let mut world = moving();
    world.terminal = true;
    let out = world.outcome("status --watch --count 2").out;
    assert_eq!(out.matches("\x1b[H\x1b[2J2027-01-15T08:00:0").count(), 2);
}

#[test]
fn json_is_one_object_a_line() {
    let out = moving().outcome("vm list --watch=0.5 --count 3 --json").out;
    let times: Vec<String> = out
        .lines()
        .map(|line| {
            let json: serde_json::Value = serde_json::from_str(line).unwrap();
            json["time"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        times,
        [
            "2027-01-15T08:00:00.000Z",
            "2027-01-15T08:00:00.500Z",
            "2027-01-15T08:00:01.000Z"
        ]
    );
}

/// The module is unloaded between two frames.
#[test]
fn the_module_goes() {
    let world = moving();
    let host = world.host.clone();
    *world.meanwhile.borrow_mut() = Box::new(move || {
        host.with(|state| state.fault = ddnl::fake::Fault::Absent);
    });
    assert_snapshot!(world.run("mode"));
    let outcome = world.outcome("status --watch");
    assert_eq!(outcome.code, 3, "{}", outcome.err);
}

/// The time of day is changed between two frames.
#[test]
fn rates_are_over_time_that_passed() {
    let rates = |step: u64| {
        let world = moving();
        let mut go_on = world.meanwhile.replace(Box::new(|| {}));
        let clock = world.step.clone();
        *world.meanwhile.borrow_mut() = Box::new(move || {
            clock.set(clock.get() + std::time::Duration::from_secs(step));
            go_on();
        });
        let out = world.outcome("stats web --watch=2 --count 2").out;
        let last = out.lines().rfind(|line| line.starts_with("web")).unwrap();
        last.to_owned()
    };
    assert_eq!(rates(3600), rates(0));
}

/// The number after `--watch` is the pause and not a VM, and any other word is not a pause.
#[test]
fn the_pause_may_follow_a_space() {
    for line in [
        "stats --watch 2 --count 2 --json",
        "stats --watch 2 web --count 2 --json",
        "stats --watch=2 --count 2 --json",
        "stats web --count 2 --json --watch 2",
    ] {
        let outcome = moving().outcome(line);
        assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{line}");
        let last: serde_json::Value =
            serde_json::from_str(outcome.out.lines().last().unwrap()).unwrap();
        assert_eq!(last["time"], "2027-01-15T08:00:02.000Z", "{line}");
        let vms = if line.contains("web") { 1 } else { 3 };
        assert_eq!(last["vms"].as_array().unwrap().len(), vms, "{line}");
    }
    let out = moving().outcome("stats --watch web --count 1 --json").out;
    assert_eq!(out.lines().count(), 1);
    assert!(out.contains("\"name\":\"web\""), "{out}");
    // After `--` every word is a name.
    let outcome = moving().outcome("stats --count 1 --watch -- 2");
    assert!(outcome.out.contains("mail"), "{}", outcome.err);
}
