// SPDX-License-Identifier: GPL-2.0-only

//! A day of a busy machine. The state of the daemon does not grow, and nothing is left behind.

use crate::{
    heap,
    knobs::{INTERVAL, MIB},
    world::{World, parse},
};
use ddabi::pool::PoolStats;
use policyd::{
    cgroup_writer::CgroupWriter,
    engine::{Event, Reading, Time},
};
use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};
use tempfile::TempDir;

const HOURS: usize = 24;
const HOUR: usize = 3600 / 5;
/// Maximum number of containers at a time.
const MAX_CONTAINERS: usize = 24;
/// Files of limits, and their values before policyd writes to them.
const LIMITS: [(&str, &str); 3] = [("low", "0\n"), ("high", "max\n"), ("max", "max\n")];

/// Files that use all features of policyd, with targets and without.
const FILES: [&str; 3] = [
    "[reclaim]\n[offload]\n[[container]]\nname = \"c {}\"\ncgroup = \"/c/*\"\n\
     manage_memory = true\nclass = \"gold\"\ntarget = { hit_ratio = 0.9, io_pressure = 5 }\n",
    "[[container]]\nname = \"a {}\"\ncgroup = \"/c/*[02468]\"\nclass = \"bronze\"\n\
     manage_memory = true\n[[container]]\nname = \"c {}\"\ncgroup = \"/c/*\"\n\
     target = { refault_rate = 10 }\n",
    "[[container]]\nname = \"by hand {}\"\ncgroup = \"/c/*\"\n",
];

/// A machine whose cgroups are directories, so that limits are files.
struct Site {
    world: World,
    writer: CgroupWriter,
    root: TempDir,
    live: Vec<String>,
    /// Names that were given to containers.
    names: usize,
    random: u64,
}

impl Site {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let journal = root.path().join("limits.json");
        fs::create_dir(root.path().join("c")).unwrap();
        let writer = CgroupWriter::new(root.path(), Some(&journal));
        Self {
            world: World::new(FILES[0]),
            writer,
            root,
            live: Vec::new(),
            names: 0,
            random: 0x9E37_79B9_7F4A_7C15,
        }
    }

    /// Returns a pseudo-random number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as usize % bound
    }

    fn directory(&self, cgroup: &str) -> PathBuf {
        self.root.path().join(&cgroup[1..])
    }

    fn come(&mut self) {
        let cgroup = format!("/c/{}", self.names);
        self.names += 1;
        let directory = self.directory(&cgroup);
        fs::create_dir(&directory).unwrap();
        for (name, says) in LIMITS {
            fs::write(directory.join(format!("memory.{name}")), says).unwrap();
        }
        fs::write(directory.join("memory.reclaim"), "").unwrap();
        let id = fs::metadata(&directory).unwrap().ino();
        let told = self.below(8) > 0;
        self.world.make_numbered(&cgroup, id, told);
        self.live.push(cgroup);
    }

    fn go(&mut self) {
        let at = self.below(self.live.len());
        let cgroup = self.live.swap_remove(at);
        fs::remove_dir_all(self.directory(&cgroup)).unwrap();
        let (told, lingers) = (self.below(8) > 0, self.below(8) == 0);
        self.world.remove(&cgroup, told, lingers);
        self.world.sample.containers.remove(&cgroup);
    }

    /// Causes the events of an interval, and measures.
    fn interval(&mut self, number: usize) {
        if self.live.len() < MAX_CONTAINERS / 2
            || (self.live.len() < MAX_CONTAINERS && self.below(2) == 0)
        {
            self.come();
        } else {
            self.go();
        }
        match self.below(1000) {
            0..8 => {
                let file = FILES[self.below(FILES.len())];
                self.world.tell(Event::ConfigLoaded(parse(file)));
            }
            8..11 => {
                self.world.guest.with(ddnl::fake::GuestState::reload);
                if self.below(2) == 0 {
                    self.world.tell(Event::ModuleWent);
                    self.world.tell(Event::ModuleCame);
                }
            }
            11..13 => self.world.tell(Event::CgroupsLost),
            13..15 => self.world.tell(Event::SessionChanged),
            // The machine was suspended for an hour.
            15 => self.world.now += Time::from_secs(3600),
            16..30 => {
                // Counters begin again.
                let at = self.below(self.live.len());
                self.world.sample.containers.remove(&self.live[at]);
            }
            _ => {}
        }
        self.measure(number);
        self.world.pass(INTERVAL);
        if number % 10 == 0 {
            self.world.reap();
        }
        for job in std::mem::take(&mut self.world.jobs) {
            let result = self.writer.perform(&job);
            self.world.tell(Event::Ended(job, result));
        }
        self.world.log.clear();
    }

    fn measure(&mut self, number: usize) {
        // Memory is short in every other quarter of an hour.
        let short = number / (HOUR / 4) % 2 == 0;
        self.world.memory(4096, if short { 200 } else { 2048 });
        self.world.sample.machine.memory_us = Some(number as u64 * 1000);
        for cgroup in self.live.clone() {
            let (more, waits) = (self.below(10_000) as u64, self.below(1_000_000) as u64);
            let new = Reading {
                current: 200 * MIB,
                anon: 40 * MIB,
                file: 160 * MIB,
                memory_us: Some(0),
                io_us: Some(0),
                ..Reading::default()
            };
            let reading = self.world.sample.containers.entry(cgroup).or_insert(new);
            reading.refaults_file += more;
            reading.io_us = reading.io_us.map(|us| us + waits);
        }
        let gets = self.below(10_000) as u64;
        self.world.guest.with(|state| {
            for pool in &mut state.pools {
                let before = pool.stats.unwrap_or_default();
                pool.stats = Some(PoolStats {
                    entitlement: u64::from(pool.weight) * 26,
                    used: u64::from(pool.weight) * 25,
                    gets: before.gets + gets,
                    misses: before.misses + gets / 3,
                    ..PoolStats::default()
                });
            }
        });
    }

    /// Bytes of the journal of limits.
    fn journal(&self) -> u64 {
        let journal = fs::metadata(self.root.path().join("limits.json"));
        journal.map_or(0, |file| file.len())
    }
}

/// The most state that was held at the checks of some hours.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    /// Length of the engine's debug output.
    words: usize,
    /// Bytes of the thread's heap.
    heap: isize,
    /// Bytes of the journal.
    journal: u64,
}

#[test]
fn a_day_leaves_nothing_behind() {
    let before = heap::live();
    let mut site = Site::new();
    let mut halves = [Kept::default(); 2];
    for hour in 0..HOURS {
        for interval in 0..HOUR {
            site.interval(hour * HOUR + interval);
            // The state is measured at the ends of quarters, because it is largest after memory was
            // short.
            if interval % (HOUR / 4) == HOUR / 4 - 1 {
                let kept = &mut halves[hour * 2 / HOURS];
                kept.heap = kept.heap.max(heap::live() - before);
                kept.words = kept.words.max(format!("{:?}", site.world.engine).len());
                kept.journal = kept.journal.max(site.journal());
            }
        }
    }
    let [first, second] = halves;
    assert!(site.names > 5000, "{}", site.names);
    assert!(first.journal > 0, "nothing was ever limited");
    // The peaks differ by chance, but do not grow with the events of half a day.
    assert!(second.words <= first.words * 5 / 4, "{halves:?}");
    assert!(second.heap <= first.heap * 5 / 4, "{halves:?}");
    assert!(second.heap <= 2 << 20, "{halves:?}");
    assert!(second.journal <= 16 << 10, "{halves:?}");

    site.world.tell(Event::ConfigLoaded(parse("")));
    for number in 0..60 {
        site.measure(number);
        site.world.reap();
        site.world.pass(INTERVAL);
        for job in std::mem::take(&mut site.world.jobs) {
            let result = site.writer.perform(&job);
            site.world.tell(Event::Ended(job, result));
        }
    }
    assert_eq!(site.world.enrolled().len(), 0);
    assert_eq!(site.journal(), 0);
    for cgroup in &site.live {
        for (name, says) in LIMITS {
            let file = site.directory(cgroup).join(format!("memory.{name}"));
            assert_eq!(fs::read_to_string(file).unwrap().trim(), says.trim());
        }
    }
}
