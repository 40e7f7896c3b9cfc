// SPDX-License-Identifier: GPL-2.0-only

//! Tests of limits of guest memory: each is undone, and none is below what a container cannot give.

use crate::{
    knobs::{INTERVAL, MIB, limits, settle},
    world::{World, parse},
};
use policyd::engine::{Event, Failure, Job, Limits, Machine, Reading, Time};

/// The only container of a file, a reader of files.
const ONLY: &str = "[[container]]\nname = \"web\"\ncgroup = \"/web\"\nmanage_memory = true\n\
                    class = \"bronze\"\n";

/// A VM of 4 GiB with little available memory.
fn short(file: &str, web: Reading) -> World {
    let mut world = World::new(file);
    world.live("/web", web);
    world.memory(4096, 200);
    world
}

fn reader(mib: u64, anon_mib: u64, file_mib: u64) -> Reading {
    Reading {
        current: mib * MIB,
        anon: anon_mib * MIB,
        file: file_mib * MIB,
        memory_us: Some(0),
        io_us: Some(0),
        ..Reading::default()
    }
}

/// Lets intervals pass in which file pages are refaulted. Each job succeeds.
fn pass(world: &mut World, intervals: u32) {
    for _ in 0..intervals {
        for reading in world.sample.containers.values_mut() {
            reading.refaults_file += 5000;
        }
        world.pass(INTERVAL);
        settle(world);
    }
}

#[test]
fn limits_are_undone_even_without_other_measurements() {
    let mut world = short(ONLY, reader(1400, 100, 1300));
    pass(&mut world, 6);
    assert!(limits(&world, "/web").unwrap().high.is_some());
    let by_hand = "[[container]]\nname = \"web\"\ncgroup = \"/web\"\n";
    world.tell(Event::ConfigLoaded(parse(by_hand)));
    world.pass(Time::from_secs(10));
    assert_eq!(limits(&world, "/web"), Some(Limits::default()));
    // No more measurements are needed once the limits are undone.
    settle(&mut world);
    world.log.clear();
    world.pass(Time::from_secs(20));
    let looks =
        |action: &policyd::engine::Action| matches!(action, policyd::engine::Action::Measure(_));
    assert!(!world.log.iter().any(looks), "{:?}", world.log);
}

#[test]
fn a_failed_undo_is_tried_again() {
    let both = format!("{ONLY}[[container]]\nname = \"x\"\ncgroup = \"/x\"\nclass = \"gold\"\n");
    let mut world = short(&both, reader(1400, 100, 1300));
    pass(&mut world, 6);
    world.jobs.clear();
    let unmanaged = both.replace("manage_memory = true", "manage_memory = false");
    world.tell(Event::ConfigLoaded(parse(&unmanaged)));
    world.pass(INTERVAL);
    assert_eq!(limits(&world, "/web"), Some(Limits::default()));
    for job in std::mem::take(&mut world.jobs) {
        let busy = Err(Failure::Other("Device or resource busy".into()));
        world.tell(Event::Ended(job, busy));
    }
    world.pass(Time::from_secs(60));
    assert_eq!(limits(&world, "/web"), Some(Limits::default()));
    settle(&mut world);
    world.jobs.clear();
    world.pass(Time::from_secs(300));
    assert_eq!(world.jobs, [], "undone once and for all");
}

/// Sockets, page tables, percpu memory and stacks are in `memory.current`, and are neither
/// anonymous nor cache.
#[test]
fn memory_of_the_kernel_is_not_asked_for() {
    const KEPT: u64 = 1100;
    let mut world = short(ONLY, reader(1400, 100, 300));
    let mut least = u64::MAX;
    // No limit may be too low even for a moment, because policyd would notice only later that the
    // kernel reclaims less than it was asked for.
    for _ in 0..60 {
        pass(&mut world, 1);
        let high = limits(&world, "/web").and_then(|limits| limits.high);
        least = least.min(high.unwrap_or(u64::MAX) / MIB);
    }
    let web = &world.sample.containers["/web"];
    assert!(web.current >= KEPT * MIB && web.file < 300 * MIB, "{web:?}");
    assert!((KEPT..2 * KEPT).contains(&least), "{least} MiB");
}

/// The kernel's statistics do not show every page that cannot be reclaimed.
#[test]
fn memory_that_was_not_given_is_not_asked_for_again() {
    let mut world = short(ONLY, reader(1400, 100, 1300));
    for _ in 0..10 {
        pass(&mut world, 1);
        // The kernel cannot reclaim anything, whatever the limit is.
        world
            .sample
            .containers
            .insert("/web".into(), reader(1400, 100, 1300));
    }
    let high = limits(&world, "/web").unwrap().high.unwrap() / MIB;
    assert!(high >= 1400, "{high} MiB");
}

/// The kernel puts tasks of a cgroup above `memory.high` to sleep, and counts them as waiting.
#[test]
fn limits_are_not_lowered_once_tasks_wait() {
    const ENOUGH: u64 = 1000;
    let mut world = short(ONLY, reader(1400, 100, 1300));
    let mut least = u64::MAX;
    for _ in 0..60 {
        let waits = world.sample.containers["/web"].current < ENOUGH * MIB;
        let web = world.sample.containers.get_mut("/web").unwrap();
        let stalled = if waits { 4_000_000 } else { 0 };
        web.full_us = Some(web.full_us.unwrap_or(0) + stalled);
        pass(&mut world, 1);
        let high = limits(&world, "/web").and_then(|limits| limits.high);
        least = least.min(high.unwrap_or(u64::MAX) / MIB);
        // The container uses all memory that its limit allows.
        let web = world.sample.containers.get_mut("/web").unwrap();
        let room = high.unwrap_or(u64::MAX).min(1400 * MIB);
        let more = room.saturating_sub(web.current);
        (web.current, web.file) = (web.current + more, web.file + more);
    }
    // One step goes too far, and is taken back.
    assert!(
        (ENOUGH * 9 / 10 - 10..=ENOUGH).contains(&least),
        "{least} MiB"
    );
}

/// Reclaim from a container takes from nested ones as well.
#[test]
fn a_container_around_a_higher_class_is_not_squeezed() {
    let around = ONLY.to_owned()
        + "[[container]]\nname = \"in\"\ncgroup = \"/web/in\"\nmanage_memory = true\n\
           class = \"gold\"\n";
    let mut world = short(&around, reader(1400, 100, 1300));
    world.live("/web/in", reader(900, 50, 850));
    pass(&mut world, 10);
    assert_eq!(limits(&world, "/web").and_then(|limits| limits.high), None);
    let inside = limits(&world, "/web/in").and_then(|limits| limits.high);
    assert!(inside.is_some());
}

/// Limits that systemd, a runtime or an administrator set are left alone.
#[test]
fn limits_that_others_change_are_left_to_them() {
    let mut world = short(ONLY, reader(1400, 100, 1300));
    let find = |world: &mut World, high: u64| {
        let web = world.sample.containers.get_mut("/web").unwrap();
        web.limits.high = Some(high);
    };
    find(&mut world, u64::MAX);
    pass(&mut world, 2);
    let ours = limits(&world, "/web").unwrap().high.unwrap();
    find(&mut world, ours);
    world.pass(Time::ZERO);
    assert_eq!(world.engine.report().containers[0].limits.high, Some(ours));
    // `systemctl set-property` puts the container's own limit in its place.
    find(&mut world, 1300 * MIB);
    world.jobs.clear();
    for reading in world.sample.containers.values_mut() {
        reading.refaults_file += 5000;
    }
    pass(&mut world, 5);
    assert_eq!(world.jobs, [], "nothing is written there");
    let report = world.engine.report();
    let web = &report.containers[0];
    assert_eq!(web.limits, Limits::default(), "nothing is claimed");
    assert_eq!(web.foreign_limits.high, Some(1300 * MIB));
    let told = "memory.high was changed to 1.3 GiB by others";
    assert!(report.to_string().contains(told), "{report}");
    // A file that was changed back is policyd's again.
    find(&mut world, ours);
    pass(&mut world, 1);
    let next = limits(&world, "/web").unwrap().high.unwrap();
    assert!(next < ours, "{next}");
    assert_eq!(
        world.engine.report().containers[0].foreign_limits,
        Limits::default()
    );
}

/// Reading the configuration again takes over what others set, unless that is stricter.
#[test]
fn a_reload_takes_limits_over() {
    let ceiling = ONLY.to_owned() + "memory_ceiling = \"2G\"\n";
    let mut world = short(&ceiling, reader(1400, 100, 1300));
    world.sample.machine.available = 3000 * MIB;
    let find = |world: &mut World, max: u64| {
        let web = world.sample.containers.get_mut("/web").unwrap();
        web.limits.max = Some(max);
    };
    find(&mut world, u64::MAX);
    pass(&mut world, 3);
    let max = |max: u64| Limits {
        max: Some(max),
        ..Limits::default()
    };
    assert_eq!(limits(&world, "/web"), Some(max(2048 * MIB)));
    for (theirs, set) in [
        (4096 * MIB, max(2048 * MIB)),
        (1500 * MIB, Limits::default()),
    ] {
        find(&mut world, theirs);
        world.jobs.clear();
        pass(&mut world, 2);
        assert_eq!(limits(&world, "/web"), None);
        world.tell(Event::ConfigLoaded(parse(&ceiling)));
        pass(&mut world, 1);
        assert_eq!(limits(&world, "/web"), Some(set));
        find(&mut world, set.max.unwrap_or(theirs));
        pass(&mut world, 2);
    }
}

/// A limit that existed before policyd set one is not loosened.
#[test]
fn a_stricter_limit_is_not_loosened() {
    let ceiling = ONLY.to_owned() + "memory_ceiling = \"2G\"\n";
    let mut strict = reader(1400, 100, 1300);
    strict.limits.max = Some(1500 * MIB);
    let mut world = short(&ceiling, strict);
    world.sample.machine.available = 3000 * MIB;
    pass(&mut world, 5);
    assert_eq!(limits(&world, "/web"), None);
}

/// A scan and an announcement may find the same cgroup.
#[test]
fn a_cgroup_that_is_announced_twice_gets_its_limits_undone() {
    let mut world = short(ONLY, reader(1400, 100, 1300));
    pass(&mut world, 6);
    let id = world
        .guest
        .with(|state| state.cgroups.as_ref().unwrap()["/web"]);
    world.tell(Event::CgroupAppeared("/web".into(), id));
    world.tell(Event::ConfigLoaded(parse("")));
    world.pass(Time::from_secs(10));
    assert_eq!(limits(&world, "/web"), Some(Limits::default()));
}

/// The protection of a container is limited by that of its ancestors in cgroup v2.
#[test]
fn a_floor_without_effect_is_reported() {
    let file = "[[container]]\nname = \"b\"\ncgroup = \"/a.slice/b\"\nmanage_memory = true\n\
                memory_floor = \"300M\"\n";
    let mut world = World::new(file);
    world.make("/a.slice/b", true);
    world.sample.machine = Machine {
        total: 4096 * MIB,
        available: 3000 * MIB,
        ..Machine::default()
    };
    let containers = &mut world.sample.containers;
    containers.insert("/a.slice/b".into(), reader(1400, 100, 1300));
    world.sample.lows.insert("/a.slice".into(), 0);
    pass(&mut world, 3);
    assert_eq!(limits(&world, "/a.slice/b").unwrap().low, Some(300 * MIB));
    let report = world.engine.report();
    let found = report.containers[0].unprotected.as_ref().unwrap();
    assert_eq!((found.bytes, found.has, found.needs), (0, 0, 300 * MIB));
    let told = "memory.low protects 0 B only: that of /a.slice is 0 B, and should be 300 MiB";
    assert!(report.to_string().contains(told), "{report}");
    assert!(
        world
            .jobs
            .iter()
            .all(|job| !matches!(job, Job::Limit { cgroup, .. } if cgroup == "/a.slice"))
    );
    world.sample.lows.insert("/a.slice".into(), 512 * MIB);
    pass(&mut world, 1);
    assert_eq!(world.engine.report().containers[0].unprotected, None);
}
