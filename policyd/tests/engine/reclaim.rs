// SPDX-License-Identifier: GPL-2.0-only

//! Tests of proportional reclaim: when the VM is short of memory, and which containers it reclaims
//! from.

use crate::{knobs::MIB, world::World};
use policyd::engine::{Event, Failure, Job, Reading, Time};
use std::collections::BTreeMap;

fn reading(mib: u64, file_mib: u64) -> Reading {
    Reading {
        current: mib * MIB,
        anon: 10 * MIB,
        file: file_mib * MIB,
        memory_us: Some(0),
        ..Reading::default()
    }
}

/// Lets a second pass and performs the jobs: the container and nested ones lose page cache. Returns
/// the MiB that each container lost.
fn second(world: &mut World, taken: &mut BTreeMap<String, u64>) {
    world.pass(Time::from_secs(1));
    for job in std::mem::take(&mut world.jobs) {
        let Job::Reclaim { cgroup, bytes, .. } = &job else {
            panic!("{job:?}");
        };
        *taken.entry(cgroup.clone()).or_default() += bytes / MIB;
        let below = format!("{cgroup}/");
        for (other, reading) in &mut world.sample.containers {
            if other == cgroup || other.starts_with(&below) {
                reading.current = reading.current.saturating_sub(*bytes);
                reading.file = reading.file.saturating_sub(*bytes);
            }
        }
        world.end(job);
    }
}

/// A container that thrashes at its own limit waits for memory, which counts as pressure of the VM.
/// Memory of others would not help it.
#[test]
fn pressure_of_one_limit_is_not_the_shortage_of_all() {
    let file = "[reclaim]\n[[container]]\nname = \"a\"\ncgroup = \"/a\"\n\
                [[container]]\nname = \"b\"\ncgroup = \"/b\"\n";
    let mut world = World::new(file);
    for cgroup in ["/a", "/b"] {
        world.live(cgroup, reading(2048, 1500));
    }
    world.make("/thrashes", true);
    world.memory(65_536, 60_000);
    let mut taken = BTreeMap::new();
    for _ in 0..60 {
        let stalled = &mut world.sample.machine.memory_us;
        *stalled = stalled.map(|us| us + 200_000);
        second(&mut world, &mut taken);
    }
    assert_eq!(taken, BTreeMap::new());
}

/// If little memory is available beside the containers' page cache, pressure counts only while the
/// kernel reclaims from all cgroups.
#[test]
fn pressure_counts_while_the_kernel_reclaims_from_all() {
    let file = "[reclaim]\n[[container]]\nname = \"a\"\ncgroup = \"/a\"\n";
    let mut world = World::new(file);
    world.live("/a", reading(2048, 1500));
    world.memory(4096, 1500 + 300);
    world.sample.machine.reclaims = Some(7);
    let mut taken = BTreeMap::new();
    let wait = |world: &mut World, reclaims: u64, taken: &mut BTreeMap<String, u64>| {
        for _ in 0..10 {
            let machine = &mut world.sample.machine;
            machine.memory_us = machine.memory_us.map(|us| us + 200_000);
            machine.reclaims = machine.reclaims.map(|count| count + reclaims);
            second(world, taken);
        }
    };
    wait(&mut world, 0, &mut taken);
    assert_eq!(taken, BTreeMap::new(), "all of it at a limit");
    wait(&mut world, 3, &mut taken);
    assert!(taken["/a"] > 0);
}

/// Reclaim from a container takes from nested ones as well.
#[test]
fn a_higher_class_inside_a_lower_one_is_spared() {
    let file = "[reclaim]\n[[container]]\nname = \"a\"\ncgroup = \"/a\"\nclass = \"bronze\"\n\
                [[container]]\nname = \"b\"\ncgroup = \"/a/b\"\nclass = \"gold\"\n\
                [[container]]\nname = \"c\"\ncgroup = \"/c\"\nclass = \"silver\"\n";
    let mut world = World::new(file);
    for (cgroup, mib) in [("/a", 1000), ("/a/b", 950), ("/c", 1000)] {
        world.live(cgroup, reading(mib, mib - 20));
    }
    world.memory(4096, 2000);
    let mut taken = BTreeMap::new();
    for _ in 0..10 {
        second(&mut world, &mut taken);
    }
    let gold = world.sample.containers["/a/b"].current / MIB;
    assert_eq!(gold, 950, "{taken:?}");
    assert!(taken.contains_key("/c"), "{taken:?}");
}

/// A container with nested ones counts with its own part only.
#[test]
fn memory_inside_is_counted_once() {
    let file = "[reclaim]\n[[container]]\nname = \"a\"\ncgroup = \"/a\"\n\
                [[container]]\nname = \"b\"\ncgroup = \"/a/b\"\n\
                [[container]]\nname = \"c\"\ncgroup = \"/c\"\n";
    let mut world = World::new(file);
    for (cgroup, mib) in [("/a", 1000), ("/a/b", 900), ("/c", 1000)] {
        world.live(cgroup, reading(mib, mib - 20));
    }
    world.memory(4096, 2000);
    let mut taken = BTreeMap::new();
    second(&mut world, &mut taken);
    assert!(taken["/c"] > 0 && !taken.contains_key("/a"), "{taken:?}");
}

/// Offload from a container does not take cold pages of a nested one that is not to be offloaded.
#[test]
fn offload_spares_nested_containers_without_offload() {
    let file = "[offload]\n[[container]]\nname = \"a\"\ncgroup = \"/a\"\n\
                [[container]]\nname = \"b\"\ncgroup = \"/a/b\"\noffload = false\n";
    let offloads = |file: &str| {
        let mut world = World::new(file);
        for (cgroup, mib) in [("/a", 2000), ("/a/b", 900)] {
            world.live(cgroup, reading(mib, mib - 20));
        }
        world.pass(Time::from_secs(20));
        world.jobs
    };
    assert_eq!(offloads(file), []);
    let both = offloads(&file.replace("offload = false\n", ""));
    let most = |cgroup: &str| {
        both.iter().find_map(|job| match job {
            Job::Reclaim {
                cgroup: of, bytes, ..
            } if of == cgroup => Some(bytes / MIB),
            _ => None,
        })
    };
    assert_eq!((most("/a"), most("/a/b")), (Some(5), Some(4)));
}

/// Anonymous memory can be reclaimed only where there is swap for it.
#[test]
fn anonymous_memory_is_asked_for_where_it_can_be_swapped() {
    let file = "[reclaim]\n[[container]]\nname = \"a\"\ncgroup = \"/a\"\n";
    let taken = |swap_mib: u64| {
        let mut world = World::new(file);
        world.make("/a", true);
        let reading = Reading {
            anon: 1000 * MIB,
            ..reading(1020, 20)
        };
        world.sample.containers.insert("/a".into(), reading);
        world.memory(4096, 0);
        world.sample.machine.swap_free = swap_mib * MIB;
        let mut taken = BTreeMap::new();
        second(&mut world, &mut taken);
        taken.get("/a").copied().unwrap_or_default()
    };
    assert!(taken(2048) > 100, "{}", taken(2048));
    assert!(taken(0) <= 20, "{}", taken(0));
}

/// The report has the memory that was reclaimed, and a container that gives little is left alone.
#[test]
fn reclaimed_memory_is_counted() {
    let file = "[reclaim]\n[[container]]\nname = \"a\"\ncgroup = \"/a\"\n";
    let mut world = World::new(file);
    world.live("/a", reading(2048, 1500));
    world.memory(4096, 0);
    let mut end = |result: Result<u64, Failure>| {
        world.pass(Time::from_secs(61));
        let [job] = &std::mem::take(&mut world.jobs)[..] else {
            panic!("not asked");
        };
        world.tell(Event::Ended(job.clone(), result));
        world.pass(Time::from_secs(1));
        let asked = !world.jobs.is_empty();
        for job in std::mem::take(&mut world.jobs) {
            world.tell(Event::Ended(job, Ok(0)));
        }
        (world.engine.report().memory.reclaimed_bytes / MIB, asked)
    };
    assert_eq!(end(Ok(300 * MIB)), (300, true));
    assert_eq!(end(Ok(MIB)), (301, false));
    assert_eq!(end(Err(Failure::Other("denied".into()))), (301, false));
}
