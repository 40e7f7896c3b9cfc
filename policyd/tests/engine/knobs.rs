// SPDX-License-Identifier: GPL-2.0-only

//! Tests of guest memory: which containers are limited or reclaimed from, and that limits are
//! undone.

use crate::world::{World, parse};
use policyd::{
    discovery::{Identity, Pod, Runtime},
    engine::{Event, Failure, Job, Limits, Reading, Time},
};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const INTERVAL: Time = Time::from_secs(5);

const MANAGED: &str = r#"
[[container]]
name = "redis"
cgroup = "/redis"
manage_memory = true
memory_weight = 1
[container.target]
memory_pressure = 1
[[container]]
name = "web"
cgroup = "/web"
manage_memory = true
class = "bronze"
[[container]]
name = "other"
cgroup = "/other"
class = "bronze"
"#;

/// A VM of 4 GiB with little available memory: Redis swaps, and the other containers read files.
fn crowded(file: &str) -> World {
    let mut world = World::new(file);
    for cgroup in ["/redis", "/web", "/other"] {
        world.make(cgroup, true);
    }
    world.memory(4096, 200);
    let reader = Reading {
        current: 1400 * MIB,
        anon: 100 * MIB,
        file: 1300 * MIB,
        memory_us: Some(0),
        io_us: Some(0),
        ..Reading::default()
    };
    let redis = Reading {
        current: 1000 * MIB,
        anon: 990 * MIB,
        file: 10 * MIB,
        memory_us: Some(0),
        ..Reading::default()
    };
    let containers = &mut world.sample.containers;
    containers.insert("/redis".into(), redis);
    containers.insert("/web".into(), reader.clone());
    containers.insert("/other".into(), reader);
    world
}

/// Lets intervals pass in which Redis has refaults of anonymous pages, and the others of file
/// pages.
fn pass(world: &mut World, intervals: u32) {
    for _ in 0..intervals {
        for (cgroup, reading) in &mut world.sample.containers {
            match cgroup.as_str() {
                "/redis" => {
                    reading.refaults_anon += 5000;
                    reading.memory_us = reading.memory_us.map(|us| us + 500_000);
                }
                _ => reading.refaults_file += 5000,
            }
        }
        world.pass(INTERVAL);
    }
}

/// Ends all running jobs. Memory above a limit is reclaimed from page cache.
pub(crate) fn settle(world: &mut World) {
    for job in world.jobs.clone() {
        if let Job::Limit { cgroup, limits, .. } = &job {
            if let Some(reading) = world.sample.containers.get_mut(cgroup) {
                let high = limits.high.unwrap_or(u64::MAX);
                let above = reading.current.saturating_sub(high).min(reading.file);
                reading.file -= above;
                reading.current -= above;
                // The next measurement reads the values that the job has set.
                let files = &mut reading.limits;
                files.high = files.high.map(|_| high);
                files.max = files.max.map(|_| limits.max.unwrap_or(u64::MAX));
            }
        }
        world.end(job);
    }
}

/// Returns the limits that a container was given last.
pub(crate) fn limits(world: &World, of: &str) -> Option<Limits> {
    world.jobs.iter().rev().find_map(|job| match job {
        Job::Limit { cgroup, limits, .. } if cgroup == of => Some(*limits),
        _ => None,
    })
}

#[test]
fn anonymous_memory_gets_room_from_readers_of_files() {
    let mut world = crowded(MANAGED);
    for _ in 0..8 {
        pass(&mut world, 1);
        settle(&mut world);
    }
    let redis = limits(&world, "/redis").unwrap();
    assert!(redis.low.unwrap() > 990 * MIB && redis.high.is_none());
    let web = limits(&world, "/web").unwrap();
    assert!(web.high.unwrap() < 1200 * MIB, "{web:?}");
    assert!(web.high.unwrap() >= 132 * MIB, "{web:?}");
    assert_eq!(limits(&world, "/other"), None, "not managed");
    let report = world.engine.report();
    let redis = report.containers.iter().find(|one| one.name == "redis");
    let reason = &redis.unwrap().reason;
    assert!(reason.contains("only guest memory"), "{reason}");
    // All limits are undone when the memory is no longer managed.
    world.tell(Event::ConfigLoaded(parse(
        &MANAGED.replace("manage_memory = true", "manage_memory = false"),
    )));
    pass(&mut world, 1);
    assert_eq!(limits(&world, "/web"), Some(Limits::default()));
    assert_eq!(limits(&world, "/redis"), Some(Limits::default()));
}

/// The kernel may take long to reclaim down to a limit. The next limit waits for that.
#[test]
fn limits_do_not_overtake() {
    let mut world = crowded(MANAGED);
    pass(&mut world, 8);
    let of = |world: &World| {
        let web = |job: &&Job| matches!(job, Job::Limit { cgroup, .. } if cgroup == "/web");
        world.jobs.iter().filter(web).count()
    };
    assert_eq!(of(&world), 1);
    settle(&mut world);
    pass(&mut world, 1);
    assert_eq!(of(&world), 2);
}

#[test]
fn refused_limits_are_tried_again_now_and_then() {
    let mut world = crowded(MANAGED);
    let mut tries = 0;
    for _ in 0..30 {
        pass(&mut world, 1);
        for job in std::mem::take(&mut world.jobs) {
            tries += 1;
            let refused = Err(Failure::Other("Read-only file system".into()));
            world.tell(Event::Ended(job, refused));
        }
    }
    assert!((4..30).contains(&tries), "{tries}");
}

/// Memory that must be available beside the page cache of [`crowded`]'s containers: a little more
/// than policyd keeps free.
const ENOUGH: u64 = (2610 + 210) * MIB;

const RECLAIM: &str = r#"
[reclaim]
[[container]]
name = "low"
cgroup = "/web"
memory_weight = 1
[[container]]
name = "high"
cgroup = "/other"
memory_weight = 2
[[container]]
name = "gold"
cgroup = "/redis"
class = "gold"
"#;

#[test]
fn memory_is_reclaimed_in_proportion_while_it_is_short() {
    let mut world = crowded(RECLAIM);
    world.sample.machine.available = 0;
    for _ in 0..8 {
        // Reclaimed memory becomes free, and is used by others.
        world.pass(Time::from_secs(1));
        for job in std::mem::take(&mut world.jobs) {
            let Job::Reclaim { cgroup, bytes, .. } = &job else {
                panic!("{job:?}");
            };
            let reading = world.sample.containers.get_mut(cgroup).unwrap();
            reading.current -= bytes;
            world.end(job);
        }
    }
    let usage = |cgroup: &str| world.sample.containers[cgroup].current;
    let ratio = usage("/other") as f64 / usage("/web") as f64;
    assert!((1.7..2.3).contains(&ratio), "{ratio}");
    assert_eq!(usage("/redis"), 1000 * MIB, "gold is spared");
    // Nothing more is reclaimed when enough memory is available.
    world.sample.machine.available = ENOUGH;
    world.pass(Time::from_secs(60));
    assert_eq!(world.jobs, []);
}

/// The kernel would choose the container to reclaim page cache from. The page cache of containers
/// that take part in reclaim therefore does not count as available; that of others does.
#[test]
fn cache_of_containers_is_not_available() {
    let mut world = crowded(RECLAIM);
    world.sample.machine.available = ENOUGH - 200 * MIB;
    world.pass(Time::from_secs(1));
    let of = |job: &Job| matches!(job, Job::Reclaim { cgroup, .. } if cgroup == "/web");
    assert!(world.jobs.iter().any(of), "{:?}", world.jobs);

    let file = RECLAIM.replace("cgroup = \"/web\"", "cgroup = \"/web\"\nreclaim = false");
    let mut world = crowded(&file);
    world.sample.machine.available = ENOUGH - 200 * MIB;
    world.pass(Time::from_secs(60));
    assert_eq!(world.jobs, []);
    // Of two nested containers, the outer one counts, because its charge includes the inner one.
    let mut world = crowded(&RECLAIM.replace("\"/web\"", "\"/other/web\""));
    world.sample.machine.available = ENOUGH - 1300 * MIB;
    world.make("/other/web", true);
    let readings = &mut world.sample.containers;
    let web = readings.remove("/web").unwrap();
    readings.insert("/other/web".into(), web);
    world.pass(Time::from_secs(60));
    assert_eq!(world.jobs, []);
}

/// The kernel counts tasks that reclaim as waiting for memory, which must not cause further
/// reclaim.
#[test]
fn own_reclaim_does_not_cause_reclaim() {
    let mut world = crowded(RECLAIM);
    world.sample.machine.available = ENOUGH;
    let mut stall = 0;
    let mut wait = |world: &mut World, stalled: u64, passed: u64| {
        stall += stalled * 1000;
        world.sample.machine.memory_us = Some(stall);
        world.pass(Time::from_millis(passed));
    };
    wait(&mut world, 0, 5000);
    assert_eq!(world.jobs, []);
    wait(&mut world, 2000, 5000);
    let jobs = std::mem::take(&mut world.jobs);
    assert!(!jobs.is_empty(), "others wait");
    for _ in 0..3 {
        wait(&mut world, 900, 1000);
    }
    wait(&mut world, 800, 800);
    for job in jobs {
        world.end(job);
    }
    wait(&mut world, 0, 10_000);
    assert_eq!(world.jobs, []);
}

#[test]
fn a_container_that_gives_nothing_is_left_alone() {
    let mut world = crowded(RECLAIM);
    world.pass(Time::from_secs(1));
    let jobs = std::mem::take(&mut world.jobs);
    assert!(!jobs.is_empty());
    // While it runs, no other container is asked.
    world.pass(Time::from_secs(5));
    assert_eq!(world.jobs, []);
    for job in jobs.clone() {
        world.tell(Event::Ended(job, Err(Failure::Other("EAGAIN".into()))));
    }
    world.pass(Time::from_secs(5));
    assert!(!world.jobs.is_empty());
    assert!(
        world.jobs.iter().all(|job| !jobs.contains(job)),
        "{:?}",
        world.jobs
    );
}

#[test]
fn cold_pages_are_offloaded_until_they_are_read_back() {
    let mut world = crowded("[offload]\n[[container]]\nname = \"web\"\ncgroup = \"/web\"\n");
    for _ in 0..10 {
        world.pass(INTERVAL);
        for job in world.jobs.clone() {
            world.end(job);
        }
    }
    let calm = std::mem::take(&mut world.jobs);
    assert!((3..10).contains(&calm.len()), "{calm:?}");
    let gentle = |job: &Job| matches!(job, Job::Reclaim { bytes, files_only: true, .. } if *bytes <= 8 * MIB);
    assert!(calm.iter().all(gentle), "{calm:?}");
    pass(&mut world, 10);
    assert_eq!(world.jobs, [], "it reads back what it lost");
}

/// Returns the identity of a container that Docker has named `web`.
fn docker_web() -> Identity {
    Identity {
        runtime: Runtime::Docker,
        id: "3f".repeat(32),
        name: "web".into(),
        pod: None,
    }
}

#[test]
fn names_are_asked_until_they_are_known() {
    let file = "[[container]]\nname = \"{}\"\ndocker = \"web\"\nweight = 7\n";
    let mut world = World::new(file);
    let cgroup = format!("/docker/{}", "3f".repeat(32));
    world.make(&cgroup, true);
    world.make("/other", true);
    world.pass(Time::from_secs(2));
    assert_eq!(world.changes(), []);
    world.identities.insert(cgroup.clone(), docker_web());
    world.pass(Time::from_secs(10));
    assert_eq!(world.enrolled()[&cgroup], ("web".into(), 7));
    // Another container in its place has another name.
    world.remove(&cgroup, true, false);
    world.identities.clear();
    world.make(&cgroup, true);
    world.pass(Time::from_secs(10));
    assert!(world.enrolled().is_empty());
}

/// A new file may have the right directories of runtimes, so that names are asked for at once.
#[test]
fn a_new_file_asks_for_all_names() {
    let file = "[[container]]\nname = \"{}\"\ndocker = \"web\"\nweight = 7\n";
    let mut world = World::new(file);
    let cgroup = format!("/docker/{}", "3f".repeat(32));
    world.make(&cgroup, true);
    // The pauses between questions have become longer than a second.
    world.pass(Time::from_secs(100));
    world.identities.insert(cgroup.clone(), docker_web());
    world.pass(Time::from_secs(1));
    assert!(world.enrolled().is_empty());
    world.tell(Event::ConfigLoaded(parse(file)));
    world.pass(Time::from_secs(1));
    assert_eq!(world.enrolled()[&cgroup], ("web".into(), 7));
}

/// A new file may ask for annotations that were not kept.
#[test]
fn a_new_file_asks_for_annotations() {
    let file = "[[container]]\nname = \"{}\"\npod = \"*\"\nweight = 7\n";
    let gold = "[[container]]\nname = \"{}\"\npod = \"*\"\nweight = 80\n\
                pod_annotations = { class = \"gold\" }\n";
    let mut world = World::new(file);
    let id = "3f".repeat(32);
    let cgroup = format!("/kubepods.slice/kubepods-podx.slice/cri-containerd-{id}.scope");
    world.make(&cgroup, true);
    let pod = |annotations| Pod {
        namespace: "shop".into(),
        name: "web".into(),
        container: "nginx".into(),
        annotations,
    };
    let identity = |annotations| Identity {
        runtime: Runtime::Containerd,
        id: id.clone(),
        name: "nginx".into(),
        pod: Some(pod(annotations)),
    };
    world.identities.insert(cgroup.clone(), identity([].into()));
    world.pass(Time::from_secs(10));
    assert_eq!(world.enrolled()[&cgroup], ("web/nginx".into(), 7));
    world.changes();
    let kept = [("class".into(), "gold".into())].into();
    world.identities.insert(cgroup.clone(), identity(kept));
    world.tell(Event::ConfigLoaded(parse(&format!("{gold}{file}"))));
    world.pass(Time::from_secs(1));
    assert_eq!(world.enrolled()[&cgroup], ("web/nginx".into(), 80));
    // The pool was not set to the other entry's weight, or replaced, in between.
    assert_eq!(world.changes().len(), 1);
}

/// A thousand containers come and go.
#[test]
fn churn_is_survived() {
    let file = "[[container]]\nname = \"c\"\ncgroup = \"/c/*\"\nclass = \"silver\"\n";
    let mut world = World::new(file);
    for round in 0..3 {
        for at in 0..1000 {
            world.make(&format!("/c/{round}-{at}"), at % 2 == 0);
        }
        world.tell(Event::CgroupsLost);
        world.pass(INTERVAL);
        assert_eq!(world.enrolled().len(), 1000);
        let sum = world.guest.with(|state| {
            let weights = state.pools.iter().map(|pool| pool.weight);
            weights.sum::<u32>()
        });
        assert_eq!(sum, 10_000);
        for at in 0..1000 {
            world.remove(&format!("/c/{round}-{at}"), at % 3 == 0, false);
        }
    }
    world.pass(Time::from_secs(60));
    assert!(world.enrolled().is_empty());
}
