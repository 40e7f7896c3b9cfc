// SPDX-License-Identifier: GPL-2.0-only

//! Reads the files of a cgroup.

use super::pseudo::Pseudo;
use crate::engine::{Limits, Reading};
use std::path::Path;

/// Reads a cgroup. Returns `None` if it is gone, or has no memory controller.
pub(super) fn read(files: &mut Pseudo, root: &Path, cgroup: &str) -> Option<Reading> {
    let directory = root.join(cgroup.trim_start_matches('/'));
    let current = files.read(&directory.join("memory.current"))?;
    let current = current.trim().parse().ok()?;
    let stall = files.read(&directory.join("memory.pressure"));
    let stall = stall.unwrap_or_default();
    let mut reading = Reading {
        current,
        memory_us: pressure(stall),
        full_us: total(stall, "full "),
        ..Reading::default()
    };
    reading.io_us = files
        .read(&directory.join("io.pressure"))
        .and_then(pressure);
    let mut shared = 0;
    let mut lists = Lists::default();
    for line in files.read(&directory.join("memory.stat"))?.lines() {
        let Some((key, value)) = line.split_once(' ') else {
            continue;
        };
        let counter = match key {
            "anon" => &mut reading.anon,
            "file" => &mut reading.file,
            "shmem" => &mut shared,
            "active_anon" | "inactive_anon" => lists.anon.get_or_insert(0),
            "active_file" | "inactive_file" => lists.file.get_or_insert(0),
            "workingset_refault_anon" => &mut reading.refaults_anon,
            "workingset_refault_file" => &mut reading.refaults_file,
            _ => continue,
        };
        // Each key occurs once, except for those of the LRU lists.
        if let Ok(value) = value.trim().parse() {
            *counter = counter.saturating_add(value);
        }
    }
    // The kernel counts shared memory as file pages, but it can only be swapped. Databases keep
    // their caches there.
    reading.anon = reading.anon.saturating_add(shared);
    reading.file = reading.file.saturating_sub(shared);
    // Anonymous pages on no LRU list are locked, or otherwise not reclaimable.
    let listed = lists.anon.unwrap_or(u64::MAX);
    reading.locked = reading.anon.saturating_sub(listed);
    reading.file = reading.file.min(lists.file.unwrap_or(u64::MAX));
    Some(reading)
}

/// Reads the limits of a cgroup.
pub(super) fn limits(files: &mut Pseudo, root: &Path, cgroup: &str) -> Limits {
    let directory = root.join(cgroup.trim_start_matches('/'));
    let mut limit = |file: &str| match files.read(&directory.join(file))?.trim() {
        "max" => Some(u64::MAX),
        text => text.parse().ok(),
    };
    Limits {
        low: limit("memory.low"),
        high: limit("memory.high"),
        max: limit("memory.max"),
    }
}

/// Bytes on the LRU lists.
#[derive(Default)]
struct Lists {
    anon: Option<u64>,
    file: Option<u64>,
}

/// Returns the microseconds in which some task waited, from a pressure file.
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
        let files = &mut Pseudo::new();
        assert_eq!(read(files, root.path(), "/web"), None);
        write(web.join("memory.current"), "4096000\n").unwrap();
        let stat = "anon 1000\nfile 3000\nkernel 5\nshmem 500\nworkingset_refault_anon 7\n\
                    workingset_refault_file 9\nnonsense\nslab x\n";
        write(web.join("memory.stat"), stat).unwrap();
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\n\
                        full avg10=0.00 avg60=0.00 avg300=0.00 total=99\n";
        write(web.join("memory.pressure"), pressure).unwrap();
        let reading = read(files, root.path(), "/web").unwrap();
        assert_eq!(
            (reading.current, reading.anon, reading.file),
            (4_096_000, 1500, 2500)
        );
        assert_eq!((reading.refaults_anon, reading.refaults_file), (7, 9));
        assert_eq!((reading.memory_us, reading.io_us), (Some(1234), None));
        assert_eq!((reading.full_us, reading.locked), (Some(99), 0));
        // A part of the pages of either type is locked.
        let lists = "inactive_anon 300\nactive_anon 800\nactive_file 600\ninactive_file 900\n";
        write(web.join("memory.stat"), format!("{stat}{lists}")).unwrap();
        let reading = read(files, root.path(), "/web").unwrap();
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
        let limits = limits(&mut Pseudo::new(), root.path(), "/web");
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
