// SPDX-License-Identifier: GPL-2.0-only

//! Generated requests of a virtual machine, with which policies are compared if there is no
//! recorded trace.
//!
//! They represent five days of a server: a database whose hot part moves a little each night, a
//! log, files that are read whole and mostly once, a report that repeatedly reads a table from end
//! to end, and a backup of all data each night. The constants of the policies were chosen before
//! this load was written, and have not been changed since.

use crate::page::Page;
use crate::random::{Random, Zipf};
use crate::stream::{Access, Kind};

/// Number of days, and number of requests on each day before its backup.
const DAYS: u64 = 5;
const REQUESTS: u64 = 60_000;
/// Number of pages of the database, the log, the report's table, and all files.
const DATABASE: u32 = 30_000;
const LOG: u64 = 4_000;
const TABLE: u64 = 12_000;
const FILES: u64 = 40_000;
/// Pages of a file.
const FILE: u64 = 16;

/// The areas of the machine's disk.
#[derive(Clone, Copy)]
enum Area {
    Database,
    Log,
    Table,
    Files,
}

impl Area {
    const ALL: [(Self, u64); 4] = [
        (Self::Database, DATABASE as u64),
        (Self::Log, LOG),
        (Self::Table, TABLE),
        (Self::Files, FILES),
    ];

    const fn page(self, index: u64) -> Page {
        Page::new(self as u32, index as u32)
    }
}

/// Returns the stream for a seed.
pub fn machine(seed: u64) -> Vec<Access> {
    let (zipf, mut random) = (Zipf::new(DATABASE, 0.9, seed), Random::new(seed));
    let (mut stream, mut logged, mut reported) = (Vec::new(), 0, 0);
    for day in 0..DAYS {
        for _ in 0..REQUESTS {
            match random.below(100) {
                0..60 => {
                    let moved = day * u64::from(DATABASE) / 16;
                    let at = (u64::from(zipf.next(&mut random)) + moved) % u64::from(DATABASE);
                    stream.push(Access::read(Area::Database.page(at)));
                    if random.below(3) == 0 {
                        stream.push(write(Area::Database, at));
                    }
                }
                60..75 => {
                    logged += 1;
                    stream.push(write(Area::Log, logged % LOG));
                }
                75..98 => {
                    reported += 1;
                    stream.push(Access::read(Area::Table.page(reported % TABLE)));
                }
                _ => {
                    let first = random.below(FILES / FILE) * FILE;
                    let pages = first..first + FILE;
                    stream.extend(pages.map(|at| Access::read(Area::Files.page(at))));
                }
            }
        }
        for (area, pages) in Area::ALL {
            stream.extend((0..pages).map(|at| Access::read(area.page(at))));
        }
    }
    stream
}

const fn write(area: Area, at: u64) -> Access {
    Access {
        page: area.page(at),
        kind: Kind::Write,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_days() {
        let stream = machine(1);
        assert_eq!(stream, machine(1));
        assert_ne!(stream, machine(2));
        let writes = stream.iter().filter(|access| access.kind == Kind::Write);
        let part = writes.count() as f64 / stream.len() as f64;
        assert!((0.1..0.3).contains(&part), "{part}");
    }
}
