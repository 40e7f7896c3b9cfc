// SPDX-License-Identifier: GPL-2.0-only

//! The profiles and their published parameters.

use std::{fmt, time::Duration};

use clap::ValueEnum;

/// KiB, MiB.
pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

/// Kind of server to imitate.
///
/// | profile | Filebench | published | scaled to |
/// |---|---|---|---|
/// | mail | `varmail` | 1 000 files of 16 KiB, 80 % there, 16 threads | 4 threads |
/// | proxy | `webproxy` | 10 000 files of 16 KiB, 80 % there, 100 threads | 2 500 files, 4 threads |
/// | video | `videoserver` | 32 videos of 10 GiB, 48 streams of 256 KiB reads, 96 reads a second in all, a new video every 10 s | 16 videos of 8 MiB, 8 streams |
/// | webserver | `webserver` | 1 000 files of 16 KiB, 20 to a directory, 100 threads, a log entry of up to 16 KiB after 10 files | 2 500 files, 4 threads |
/// | scan | – | – | one file of 64 MiB, read from end to end |
/// | zipf | – | – | one file of 64 MiB, blocks of 16 KiB with Zipf's exponent 0.99 |
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Profile {
    /// Mailboxes: deliver, read, mark, delete. Every delivery is synced.
    Mail,
    /// A web proxy: replaces a file, then serves five.
    Proxy,
    /// Sequential readers.
    Scan,
    /// Streams at a fixed rate, and a writer of new videos.
    Video,
    /// Serves small files in rotation and keeps a log.
    Webserver,
    /// Random reads, with some blocks much more popular than others.
    Zipf,
}

/// Default numbers of a profile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Files in the (main) set.
    pub(crate) files: u64,
    /// Their size, which is the mean if `spread`.
    pub(crate) file_size: u64,
    /// Whether sizes follow Filebench's gamma distribution.
    pub(crate) spread: bool,
    /// Files in a directory; `None` if all are in one.
    pub(crate) dir_width: Option<u64>,
    /// Percentage of the files that exist at the start.
    pub(crate) present: u64,
    /// Threads that make requests.
    pub(crate) threads: u64,
    /// Requests per second of all threads together; `None` if unlimited.
    pub(crate) rate: Option<f64>,
}

/// Maximum size of an append and of a log entry.
pub(crate) const APPEND: u64 = 16 * KIB;
/// Files a web server reads between two log entries.
pub(crate) const READS_PER_LOG_ENTRY: u32 = 10;
/// Files a proxy serves between two replacements.
pub(crate) const READS_PER_REPLACEMENT: u32 = 5;
/// Size of a video stream's reads.
pub(crate) const STREAM_READ: u64 = 256 * KIB;
/// Time between two new videos.
pub(crate) const REPLACE_INTERVAL: Duration = Duration::from_secs(10);
/// Size of random reads: a page of a database.
pub(crate) const BLOCK: u64 = 16 * KIB;
/// Zipf's exponent, YCSB's choice.
pub(crate) const EXPONENT: f64 = 0.99;

impl Profile {
    pub(crate) const fn shape(self) -> Shape {
        let small = Shape {
            files: 2_500,
            file_size: 16 * KIB,
            spread: true,
            dir_width: None,
            present: 100,
            threads: 4,
            rate: None,
        };
        let large = Shape {
            files: 1,
            file_size: 64 * MIB,
            spread: false,
            dir_width: None,
            present: 100,
            threads: 1,
            rate: None,
        };
        match self {
            Self::Mail => Shape {
                files: 1_000,
                present: 80,
                ..small
            },
            Self::Proxy => Shape {
                present: 80,
                ..small
            },
            Self::Webserver => Shape {
                dir_width: Some(20),
                ..small
            },
            Self::Video => Shape {
                files: 16,
                file_size: 8 * MIB,
                threads: 8,
                rate: Some(96.0),
                ..large
            },
            Self::Scan | Self::Zipf => large,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        to.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}
