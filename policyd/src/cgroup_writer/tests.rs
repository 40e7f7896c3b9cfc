// SPDX-License-Identifier: GPL-2.0-only

//! Tests of the writer, with plain directories in place of cgroups.

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
        fs::write(web.join("memory.reclaim"), "").unwrap();
        let id = fs::metadata(&web).unwrap().ino();
        Self { root, id }
    }

    fn writer(&self) -> CgroupWriter {
        let journal = self.root.path().join("limits.json");
        CgroupWriter::new(self.root.path(), Some(&journal))
    }

    fn set(&self, writer: &CgroupWriter, limits: Limits) -> Result<u64, Failure> {
        writer.perform(&Job::Limit {
            cgroup: "/web".into(),
            id: self.id,
            limits,
            take_over: false,
        })
    }

    /// Writes to a file as a program other than policyd.
    fn write(&self, name: &str, value: &str) {
        let path = self.root.path().join(format!("web/memory.{name}"));
        fs::write(path, value).unwrap();
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
    let writer = bench.writer();
    bench.set(&writer, HIGH).unwrap();
    assert_eq!(bench.values(), ["1", "4096", "9999"]);
    let lower = Limits {
        high: Some(2048),
        ..Limits::default()
    };
    bench.set(&writer, lower).unwrap();
    assert_eq!(bench.values(), ["0", "2048", "9999"]);
    bench.set(&writer, Limits::default()).unwrap();
    assert_eq!(bench.values(), ["0", "max", "9999"]);
    assert!(!bench.root.path().join("limits.json").exists());
}

#[test]
fn a_crash_is_repaired() {
    let bench = Bench::new();
    let writer = bench.writer();
    bench.set(&writer, HIGH).unwrap();
    // A daemon that is killed runs no destructor.
    std::mem::forget(writer);
    drop(bench.writer());
    assert_eq!(bench.values(), ["0", "max", "9999"]);
    assert!(!bench.root.path().join("limits.json").exists());
}

#[test]
fn another_cgroup_of_the_name_is_left_alone() {
    let bench = Bench::new();
    let writer = bench.writer();
    bench.set(&writer, HIGH).unwrap();
    let web = bench.root.path().join("web");
    // The old directory is kept, so that its inode number is not reused.
    fs::rename(&web, bench.root.path().join("old")).unwrap();
    fs::create_dir(&web).unwrap();
    for name in ["low", "high", "max"] {
        fs::write(web.join(format!("memory.{name}")), "7").unwrap();
    }
    assert!(bench.set(&writer, HIGH).is_err());
    writer.restore();
    assert_eq!(bench.values(), ["7", "7", "7"]);
}

#[test]
fn reclaim_is_asked_for() {
    let bench = Bench::new();
    let writer = bench.writer();
    let ask = |cgroup: &str, files_only| {
        writer.perform(&Job::Reclaim {
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
    assert_eq!(ask("/gone", false), Err(Failure::Vanished));
}

#[test]
fn a_damaged_journal_is_ignored() {
    let bench = Bench::new();
    fs::write(bench.root.path().join("limits.json"), "{\"/web\": 3").unwrap();
    bench.writer();
    assert_eq!(bench.values(), ["0", "max", "9999"]);
}

#[test]
fn values_of_others_are_left_alone() {
    let bench = Bench::new();
    let writer = bench.writer();
    let high = |bytes| Limits {
        high: Some(bytes),
        ..Limits::default()
    };
    bench.set(&writer, high(8192)).unwrap();
    // An administrator raises a limit that was never ours.
    bench.write("max", "4294967296\n");
    bench.set(&writer, high(4096)).unwrap();
    assert_eq!(bench.values(), ["0", "4096", "4294967296"]);
    writer.restore();
    assert_eq!(bench.values(), ["0", "max", "4294967296"]);
}

#[test]
fn a_limit_that_others_change_becomes_theirs() {
    let bench = Bench::new();
    let writer = bench.writer();
    let high = |bytes| Limits {
        high: Some(bytes),
        ..Limits::default()
    };
    bench.set(&writer, high(8192)).unwrap();
    bench.write("high", "6000\n");
    bench.set(&writer, high(4096)).unwrap();
    assert_eq!(bench.values(), ["0", "6000", "9999"]);
    // A file that has policyd's value again belongs to policyd again.
    bench.write("high", "8192\n");
    bench.set(&writer, high(4096)).unwrap();
    assert_eq!(bench.values(), ["0", "4096", "9999"]);
    bench.write("high", "6000\n");
    bench.set(&writer, Limits::default()).unwrap();
    assert_eq!(bench.values(), ["0", "6000", "9999"]);
    assert!(!bench.root.path().join("limits.json").exists());
}

/// A limit that had the wanted value before does not belong to policyd, and stays.
#[test]
fn unwritten_files_are_not_restored() {
    let bench = Bench::new();
    let writer = bench.writer();
    let max = Limits {
        max: Some(9999),
        ..Limits::default()
    };
    bench.set(&writer, max).unwrap();
    assert!(!bench.root.path().join("limits.json").exists());
    bench.write("max", "5555");
    writer.restore();
    assert_eq!(bench.values(), ["0", "max", "5555"]);
}

/// The daemon is killed after it wrote the journal and before it wrote the file, which therefore
/// has its original value.
#[test]
fn a_crash_within_a_write_is_repaired() {
    for (file, left) in [
        ("8192", "max"),
        ("4096", "max"),
        ("max", "max"),
        ("777", "777"),
    ] {
        let bench = Bench::new();
        let text = format!(
            "{{\"{}\":{{\"id\":{},\"files\":{{\"memory.high\":{{\"before\":\"max\",\
             \"wrote\":[\"8192\",\"4096\"]}}}}}}}}",
            bench.root.path().join("web").display(),
            bench.id
        );
        fs::write(bench.root.path().join("limits.json"), text).unwrap();
        bench.write("high", file);
        bench.writer();
        assert_eq!(bench.values(), ["0", left, "9999"], "{file}");
    }
}

/// If one file cannot be written, the others are. All writes can be undone, and the failed one is
/// tried again.
#[test]
fn one_refusal_does_not_hide_the_other_files() {
    let bench = Bench::new();
    let writer = bench.writer();
    let max = bench.root.path().join("web/memory.max");
    let limits = Limits {
        high: Some(4096),
        max: Some(8192),
        low: Some(1),
    };
    fs::remove_file(&max).unwrap();
    assert!(bench.set(&writer, limits).is_err());
    fs::write(&max, "9999").unwrap();
    assert_eq!(bench.values(), ["1", "4096", "9999"]);
    bench.set(&writer, limits).unwrap();
    assert_eq!(bench.values(), ["1", "4096", "8192"]);
    writer.restore();
    assert_eq!(bench.values(), ["0", "max", "9999"]);
}

/// No limit is written if the journal cannot be written, and the next job writes all of them.
#[test]
fn nothing_is_written_without_a_note() {
    let bench = Bench::new();
    let writer = bench.writer();
    let journal = bench.root.path().join("limits.json");
    fs::create_dir(&journal).unwrap();
    assert!(bench.set(&writer, HIGH).is_err());
    assert_eq!(bench.values(), ["0", "max", "9999"]);
    fs::remove_dir(&journal).unwrap();
    bench.set(&writer, HIGH).unwrap();
    assert_eq!(bench.values(), ["1", "4096", "9999"]);
}

/// The kernel rounds limits to whole pages, and the daemon may crash before it notes the rounded
/// value.
#[test]
fn a_rounded_limit_is_ours() {
    let bench = Bench::new();
    let writer = bench.writer();
    let limits = Limits {
        high: Some(5000),
        ..Limits::default()
    };
    bench.set(&writer, limits).unwrap();
    bench.write("high", "4096\n");
    std::mem::forget(writer);
    drop(bench.writer());
    assert_eq!(bench.values(), ["0", "max", "9999"]);
}

/// After the configuration was read again, values that others have set are taken over, and are the
/// ones that are restored later.
#[test]
fn a_reload_takes_over_values_of_others() {
    let bench = Bench::new();
    let writer = bench.writer();
    let set = |high, take_over| {
        let limits = Limits {
            high: Some(high),
            ..Limits::default()
        };
        writer.perform(&Job::Limit {
            cgroup: "/web".into(),
            id: bench.id,
            limits,
            take_over,
        })
    };
    set(8192, false).unwrap();
    bench.write("high", "6000\n");
    set(4096, false).unwrap();
    assert_eq!(bench.values(), ["0", "6000", "9999"]);
    set(4096, true).unwrap();
    assert_eq!(bench.values(), ["0", "4096", "9999"]);
    writer.restore();
    assert_eq!(bench.values(), ["0", "6000", "9999"]);
}

/// This daemon restores the limits that a daemon of an older version left behind when it was
/// killed.
#[test]
fn the_journal_of_an_older_version_is_undone() {
    let bench = Bench::new();
    let text = format!(
        "{{\"/web\":{{\"id\":{},\"low\":\"0\",\"high\":\"max\",\"max\":\"9999\"}}}}",
        bench.id
    );
    fs::write(bench.root.path().join("limits.json"), text).unwrap();
    bench.write("high", "4096");
    bench.writer();
    assert_eq!(bench.values(), ["0", "max", "9999"]);
    assert!(!bench.root.path().join("limits.json").exists());
}

/// Limits below one root that could not be undone stay noted while the daemon works below another
/// root.
#[test]
fn another_root_keeps_the_journal() {
    let bench = Bench::new();
    let writer = bench.writer();
    bench.set(&writer, HIGH).unwrap();
    let other = TempDir::new().unwrap();
    let web = other.path().join("web");
    fs::create_dir(&web).unwrap();
    for name in ["low", "high", "max"] {
        fs::write(web.join(format!("memory.{name}")), "7").unwrap();
    }
    let moved = writer.at(other.path());
    let job = Job::Limit {
        cgroup: "/web".into(),
        id: fs::metadata(&web).unwrap().ino(),
        limits: HIGH,
        take_over: false,
    };
    moved.perform(&job).unwrap();
    moved.restore();
    assert_eq!(bench.values(), ["0", "max", "9999"]);
    assert_eq!(fs::read_to_string(web.join("memory.high")).unwrap(), "7");
}

#[test]
fn the_journal_forgets_the_dead() {
    let bench = Bench::new();
    let writer = bench.writer();
    let mut longest = 0;
    for at in 0..200 {
        let name = format!("docker-{at:064x}.scope");
        let directory = bench.root.path().join(&name);
        fs::create_dir(&directory).unwrap();
        for (name, value) in [("low", "0\n"), ("high", "max\n"), ("max", "max\n")] {
            fs::write(directory.join(format!("memory.{name}")), value).unwrap();
        }
        let job = Job::Limit {
            cgroup: format!("/{name}"),
            id: fs::metadata(&directory).unwrap().ino(),
            limits: HIGH,
            take_over: false,
        };
        writer.perform(&job).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        let journal = fs::metadata(bench.root.path().join("limits.json")).unwrap();
        longest = longest.max(journal.len());
    }
    assert!(longest < 1000, "{longest}");
}

/// A cgroup whose files belong to another user or are missing is distinguished from one that has
/// nothing to reclaim.
#[test]
fn refusals_are_distinguished() {
    let bench = Bench::new();
    let writer = bench.writer();
    let ask = || {
        writer.perform(&Job::Reclaim {
            cgroup: "/web".into(),
            bytes: 4096,
            files_only: false,
        })
    };
    assert_eq!(ask(), Ok(4096));
    let file = bench.root.path().join("web/memory.reclaim");
    fs::remove_file(&file).unwrap();
    let said = |result: Result<u64, Failure>| match result {
        Err(Failure::Other(text)) => text,
        other => panic!("{other:?}"),
    };
    let text = said(ask());
    assert!(
        text.starts_with("memory.reclaim: ") && text.contains("controller"),
        "{text}"
    );
    assert!(!file.exists(), "a missing file is not created");
    let of = |kind: io::ErrorKind| said(Err(refused("memory.high", &kind.into())));
    assert!(of(io::ErrorKind::PermissionDenied).contains("CAP_DAC_OVERRIDE"));
    assert!(of(io::ErrorKind::InvalidInput).contains("kernel"));
    assert!(!of(io::ErrorKind::ResourceBusy).contains('('));
    let other = Job::Limit {
        cgroup: "/web".into(),
        id: bench.id + 1,
        limits: HIGH,
        take_over: false,
    };
    assert_eq!(writer.perform(&other), Err(Failure::Vanished));
}

/// A job that began before the root changed sets no limits.
#[test]
fn a_retired_writer_sets_no_limits() {
    let bench = Bench::new();
    let writer = bench.writer();
    bench.set(&writer, HIGH).unwrap();
    writer.retire();
    writer.restore();
    assert_eq!(bench.set(&writer, HIGH), Err(Failure::Vanished));
    assert_eq!(bench.values(), ["0", "max", "9999"]);
}

/// A file that cannot be restored at first is restored later, unless a job sets it in between.
#[test]
fn files_that_could_not_be_restored_are_restored_later() {
    for again in [false, true] {
        let bench = Bench::new();
        let writer = bench.writer();
        bench.set(&writer, HIGH).unwrap();
        let high = bench.root.path().join("web/memory.high");
        fs::remove_file(&high).unwrap();
        fs::create_dir(&high).unwrap();
        writer.restore();
        assert!(!writer.restore_owed());
        fs::remove_dir(&high).unwrap();
        fs::write(&high, "4096").unwrap();
        if again {
            bench.set(&writer, HIGH).unwrap();
        }
        assert!(writer.restore_owed());
        let expected = if again { "4096" } else { "max" };
        assert_eq!(bench.values()[1], expected);
        writer.restore();
        assert_eq!(bench.values(), ["0", "max", "9999"]);
    }
}
