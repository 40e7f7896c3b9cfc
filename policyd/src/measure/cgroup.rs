// SPDX-License-Identifier: GPL-2.0

//! The files of a cgroup.

use crate::engine::{Limits, Reading};
use std::{fs, path::Path};

/// Reads a cgroup; `None` if it is gone, or has no memory controller.
pub(super) fn read(root: &Path, cgroup: &str) -> Option<Reading> {
    let directory = root.join(cgroup.trim_start_matches('/'));
    let file = |name: &str| fs::read_to_string(directory.join(name)).ok();
    let current = file("memory.current")?.trim().parse().ok()?;
    let stall = file("memory.pressure").unwrap_or_default();
    let mut reading = Reading {
        current,
        memory_us: pressure(&stall),
        full_us: total(&stall, "full "),
        io_us: file("io.pressure").as_deref().and_then(pressure),
        ..Reading::default()
    };
    let mut shared = 0;
    let mut lists = Lists::default();
    let add = |sum: Option<u64>, value| sum.unwrap_or(0).saturating_add(value);
    for line in file("memory.stat")?.lines() {
        let Some((key, value)) = line.split_once(' ') else {
            continue;
        };
        let Ok(value) = value.trim().parse() else {
            continue;
        };
        match key {
            "anon" => reading.anon = value,
            "file" => reading.file = value,
            "shmem" => shared = value,
            "active_anon" | "inactive_anon" => lists.anon = Some(add(lists.anon, value)),
            "active_file" | "inactive_file" => lists.file = Some(add(lists.file, value)),
            "workingset_refault_anon" => reading.refaults_anon = value,
            "workingset_refault_file" => reading.refaults_file = value,
            _ => {}
        }
    }
    // Shared memory is counted among files, and is none: databases keep their caches there.
    reading.anon = reading.anon.saturating_add(shared);
    reading.file = reading.file.saturating_sub(shared);
    // What is on no list of the kernel's is locked, or otherwise out of its reach.
    let listed = lists.anon.unwrap_or(u64::MAX);
    reading.locked = reading.anon.saturating_sub(listed);
    reading.file = reading.file.min(lists.file.unwrap_or(u64::MAX));
    Some(reading)
}

/// What the files of a cgroup's limits say.
pub(super) fn limits(root: &Path, cgroup: &str) -> Limits {
    let directory = root.join(cgroup.trim_start_matches('/'));
    let limit = |file: &str| match fs::read_to_string(directory.join(file)).ok()?.trim() {
        "max" => Some(u64::MAX),
        text => text.parse().ok(),
    };
    Limits {
        low: limit("memory.low"),
        high: limit("memory.high"),
        max: limit("memory.max"),
    }
}

/// Bytes on the lists from which the kernel reclaims.
#[derive(Default)]
struct Lists {
    anon: Option<u64>,
    file: Option<u64>,
}

/// Microseconds in which some task waited, of a pressure file.
pub(super) fn pressure(text: &str) -> Option<u64> {
    total(text, "some ")
}

fn total(text: &str, who: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(who))?;
    let total = line
        .split_whitespace()
        .find_map(|part| part.strip_prefix("total="))?;
    total.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir, write};
    use tempfile::TempDir;

    #[test]
    fn a_cgroup_is_read() {
        let root = TempDir::new().unwrap();
        let web = root.path().join("web");
        create_dir(&web).unwrap();
        assert_eq!(read(root.path(), "/web"), None);
        write(web.join("memory.current"), "4096000\n").unwrap();
        let stat = "anon 1000\nfile 3000\nkernel 5\nshmem 500\nworkingset_refault_anon 7\n\
                    workingset_refault_file 9\nnonsense\nslab x\n";
        write(web.join("memory.stat"), stat).unwrap();
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\n\
                        full avg10=0.00 avg60=0.00 avg300=0.00 total=99\n";
        write(web.join("memory.pressure"), pressure).unwrap();
        let reading = read(root.path(), "/web").unwrap();
        assert_eq!(
            (reading.current, reading.anon, reading.file),
            (4_096_000, 1500, 2500)
        );
        assert_eq!((reading.refaults_anon, reading.refaults_file), (7, 9));
        assert_eq!((reading.memory_us, reading.io_us), (Some(1234), None));
        assert_eq!((reading.full_us, reading.locked), (Some(99), 0));
        // A part of both kinds is locked.
        let lists = "inactive_anon 300\nactive_anon 800\nactive_file 600\ninactive_file 900\n";
        write(web.join("memory.stat"), format!("{stat}{lists}")).unwrap();
        let reading = read(root.path(), "/web").unwrap();
        assert_eq!((reading.anon, reading.locked), (1500, 400));
        assert_eq!(reading.file, 1500);
    }

    #[test]
    fn limits_are_read() {
        let root = TempDir::new().unwrap();
        let web = root.path().join("web");
        create_dir(&web).unwrap();
        write(web.join("memory.low"), "4096\n").unwrap();
        write(web.join("memory.high"), "max\n").unwrap();
        write(web.join("memory.max"), "nonsense\n").unwrap();
        let limits = limits(root.path(), "/web");
        assert_eq!(
            (limits.low, limits.high, limits.max),
            (Some(4096), Some(u64::MAX), None)
        );
    }

    #[test]
    fn garbage_is_no_pressure() {
        for text in ["", "some", "some avg10=1", "some total=x", "full total=1"] {
            assert_eq!(pressure(text), None, "{text}");
        }
    }
}
