// SPDX-License-Identifier: GPL-2.0

//! Directories that stand for cgroups.

use super::*;
use tempfile::TempDir;

struct Bench {
    root: TempDir,
    id: u64,
}

const HIGH: Limits = Limits {
    low: Some(1),
    high: Some(4096),
    max: None,
};

impl Bench {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let web = root.path().join("web");
        fs::create_dir(&web).unwrap();
        for (name, value) in [("low", "0\n"), ("high", "max\n"), ("max", "9999\n")] {
            fs::write(web.join(format!("memory.{name}")), value).unwrap();
        }
        let id = fs::metadata(&web).unwrap().ino();
        Self { root, id }
    }

    fn hands(&self) -> Hands {
        let journal = self.root.path().join("limits.json");
        Hands::new(self.root.path(), Some(&journal))
    }

    fn set(&self, hands: &Hands, limits: Limits) -> Result<(), Failure> {
        hands.perform(&Job::Limit {
            cgroup: "/web".into(),
            id: self.id,
            limits,
        })
    }

    fn values(&self) -> [String; 3] {
        ["low", "high", "max"].map(|name| {
            let path = self.root.path().join(format!("web/memory.{name}"));
            fs::read_to_string(path).unwrap().trim().to_owned()
        })
    }
}

#[test]
fn limits_are_set_and_put_back() {
    let bench = Bench::new();
    let hands = bench.hands();
    bench.set(&hands, HIGH).unwrap();
    assert_eq!(bench.values(), ["1", "4096", "9999"]);
    let lower = Limits {
        high: Some(2048),
        ..Limits::default()
    };
    bench.set(&hands, lower).unwrap();
    assert_eq!(bench.values(), ["0", "2048", "9999"]);
    bench.set(&hands, Limits::default()).unwrap();
    assert_eq!(bench.values(), ["0", "max", "9999"]);
    assert!(!bench.root.path().join("limits.json").exists());
}

#[test]
fn a_crash_is_put_right() {
    let bench = Bench::new();
    let hands = bench.hands();
    bench.set(&hands, HIGH).unwrap();
    // Nothing is run at the end of a daemon that is killed.
    std::mem::forget(hands);
    drop(bench.hands());
    assert_eq!(bench.values(), ["0", "max", "9999"]);
    assert!(!bench.root.path().join("limits.json").exists());
}

#[test]
fn another_cgroup_of_the_name_is_left_alone() {
    let bench = Bench::new();
    let hands = bench.hands();
    bench.set(&hands, HIGH).unwrap();
    let web = bench.root.path().join("web");
    // Kept, so that its number is not given again.
    fs::rename(&web, bench.root.path().join("old")).unwrap();
    fs::create_dir(&web).unwrap();
    for name in ["low", "high", "max"] {
        fs::write(web.join(format!("memory.{name}")), "7").unwrap();
    }
    assert!(bench.set(&hands, HIGH).is_err());
    hands.restore();
    assert_eq!(bench.values(), ["7", "7", "7"]);
}

#[test]
fn reclaim_is_asked_for() {
    let bench = Bench::new();
    let hands = bench.hands();
    let ask = |cgroup: &str, files_only| {
        hands.perform(&Job::Reclaim {
            cgroup: cgroup.into(),
            bytes: 4096,
            files_only,
        })
    };
    ask("/web", false).unwrap();
    let asked = || fs::read_to_string(bench.root.path().join("web/memory.reclaim")).unwrap();
    assert_eq!(asked(), "4096");
    ask("/web", true).unwrap();
    assert_eq!(asked(), "4096 swappiness=0");
    for wrong in ["/gone", "/../web", "web", "/", ""] {
        assert!(ask(wrong, false).is_err(), "{wrong}");
    }
}

#[test]
fn a_journal_that_makes_no_sense_does_no_harm() {
    let bench = Bench::new();
    fs::write(bench.root.path().join("limits.json"), "{\"/web\": 3").unwrap();
    bench.hands();
    assert_eq!(bench.values(), ["0", "max", "9999"]);
}
