// SPDX-License-Identifier: GPL-2.0-only

//! Settings of the SSD tier: its devices, limits of writes to them, and how long guests wait.

use ddabi::{
    PAGE_SIZE,
    ssd::{MIN_INDEX_LIMIT, Waiting},
};
use ddconf::size::Size;
use std::{
    fmt,
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
    str::FromStr,
};

/// Maximum number of devices that the module accepts.
pub const MAX_DEVICES: usize = 16;
/// Maximum length of the path of a device, in bytes.
pub const MAX_PATH_LEN: usize = 4095;
/// Largest write budget that the module accepts, in pages per second.
const MAX_PAGES: u64 = 1_000_000_000;
/// Shortest and longest time that guests may wait for a device, in milliseconds.
pub const DEADLINES: std::ops::RangeInclusive<u32> = 1..=10_000;
/// Bytes at the beginning of a device that show whether it is in use: labels of partition tables,
/// file systems and volumes are there. The module leaves them zero.
const HEAD: u64 = 1 << 20;

/// The table `[ssd]` of the file of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ssd {
    /// Milliseconds that a guest may wait for a device; `None` leaves the setting as it is.
    pub deadline: Option<u32>,
    /// Where readers wait for a device; `None` leaves the setting as it is.
    pub wait: Option<Waiting>,
    /// Whether pages that guests read stay on the devices; `None` leaves the setting as it is.
    pub retain: Option<bool>,
    /// The memory that the index of both tiers may take; `None` leaves the setting as it is.
    pub index_memory: Option<IndexMemory>,
    /// The devices.
    pub devices: Vec<Listed>,
}

/// A device that the file lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The line in which its entry begins, from 1.
    pub line: usize,
    /// Absolute path of the block device.
    pub path: String,
    /// The limit of writes to it; `None` leaves the setting as it is.
    pub write_budget: Option<Rate>,
}

impl Ssd {
    /// Returns whether settings of all devices are given.
    pub fn has_settings(&self) -> bool {
        self.deadline.is_some()
            || self.wait.is_some()
            || self.retain.is_some()
            || self.index_memory.is_some()
    }
}

/// The names of the places where readers wait.
const WAITS: [(&str, Waiting); 3] = [
    ("auto", Waiting::Automatic),
    ("host", Waiting::Host),
    ("guest", Waiting::Guest),
];

/// Returns the place where readers wait from its name.
pub(crate) fn wait(word: &str) -> Result<Waiting, String> {
    let found = WAITS.iter().find(|(known, _)| *known == word);
    let found = found.map(|(_, waiting)| *waiting);
    found.ok_or_else(|| "write `auto`, `host` or `guest`".into())
}

/// Returns the name of the place where readers wait.
pub(crate) fn wait_word(waiting: Waiting) -> &'static str {
    let found = WAITS.iter().find(|(_, known)| *known == waiting);
    found.map_or("auto", |(word, _)| word)
}

impl Listed {
    /// Returns a warning if another device may have this path after a reboot.
    pub fn warning(&self) -> Option<String> {
        let path = &self.path;
        let is_direct = Path::new(path).parent() == Some(Path::new("/dev"));
        is_direct.then(|| {
            format!(
                "line {}: {path} may be another device after a reboot: use its name below \
                 /dev/disk/by-id or /dev/disk/by-partuuid",
                self.line
            )
        })
    }
}

/// A limit of writes to a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Writes are not limited.
    Unlimited,
    /// This number of bytes in a second.
    Bytes(u64),
    /// This many times the size of the device in a day.
    Size(f64),
}

impl Rate {
    /// Returns the pages that may be written in a second to a device of `places` pages; 0 means no
    /// limit.
    pub fn pages(self, places: u64) -> u64 {
        const DAY: f64 = 86_400.0;
        match self {
            Self::Unlimited => 0,
            Self::Bytes(bytes) => (bytes / PAGE_SIZE as u64).max(1),
            Self::Size(times) => ((places as f64 * times / DAY) as u64).max(1),
        }
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const WRONG: &str = "write it like 20M, 0.5dwpd or none";
        if text == "none" {
            return Ok(Self::Unlimited);
        }
        if let Some(times) = text.strip_suffix("dwpd") {
            let times = times.trim().parse().ok();
            let times = times.filter(|times: &f64| times.is_finite() && *times > 0.0);
            return times.map(Self::Size).ok_or_else(|| WRONG.into());
        }
        match text.trim_end_matches("/s").parse()? {
            Size::Bytes(bytes) if bytes / PAGE_SIZE as u64 > MAX_PAGES => {
                Err(format!("`{text}` is more than any device writes"))
            }
            Size::Bytes(bytes) if bytes > 0 => Ok(Self::Bytes(bytes)),
            _ => Err(WRONG.into()),
        }
    }
}

/// Formats the rate so that parsing the text returns the same rate.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unlimited => f.write_str("none"),
            Self::Bytes(bytes) => write!(f, "{}", Size::Bytes(bytes)),
            Self::Size(times) => write!(f, "{times}dwpd"),
        }
    }
}

/// The memory that the index of both tiers may take before pages leave the SSD tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IndexMemory {
    /// It is not limited.
    Unlimited,
    /// This size.
    Size(Size),
}

impl IndexMemory {
    /// Returns the limit in pages on a machine with `memory` bytes of memory; 0 means no limit.
    pub fn pages(self, memory: u64) -> u64 {
        match self {
            Self::Unlimited => 0,
            Self::Size(size) => size.pages(memory).max(MIN_INDEX_LIMIT),
        }
    }
}

impl FromStr for IndexMemory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::Unlimited);
        }
        let size: Size = text.parse()?;
        let is_small = match size {
            Size::Bytes(bytes) => bytes < MIN_INDEX_LIMIT * PAGE_SIZE as u64,
            Size::Percent(percent) => percent <= 0.0,
        };
        match is_small {
            true => Err(format!(
                "`{text}` is less than 64KiB: write it like 4G, 2% or none"
            )),
            false => Ok(Self::Size(size)),
        }
    }
}

/// Writes it so that it reads back as the same limit.
impl fmt::Display for IndexMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("none"),
            Self::Size(size) => write!(f, "{size}"),
        }
    }
}

/// Returns whether the beginning of a device is not all zeroes.
///
/// A device that the module used passes: the module writes neither to its beginning nor to its end.
pub fn has_data(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    Ok(head.iter().any(|byte| *byte != 0))
}

/// Returns whether two paths lead to the same device or file.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let target = |path: &Path| fs::canonicalize(path).ok();
    one == other || target(one).is_some() && target(one) == target(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn rates_are_read_as_people_write_them() {
        const MIB: u64 = 1 << 20;
        let rate = |text: &str| text.parse::<Rate>();
        assert_eq!(rate("none"), Ok(Rate::Unlimited));
        assert_eq!(rate("20M"), Ok(Rate::Bytes(20 * MIB)));
        assert_eq!(rate("20M/s"), Ok(Rate::Bytes(20 * MIB)));
        assert_eq!(rate("1dwpd"), Ok(Rate::Size(1.0)));
        assert_eq!(rate("0.5 dwpd"), Ok(Rate::Size(0.5)));
        for wrong in ["0", "-1dwpd", "dwpd", "25%", "fast", "nandwpd", "4000T"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Rate::Unlimited.pages(1000), 0);
        assert_eq!(Rate::Bytes(20 * MIB).pages(1000), 5120);
        assert_eq!(Rate::Bytes(1).pages(1000), 1);
        // 1 TiB a day.
        assert_eq!(Rate::Size(1.0).pages(1 << 28), 3106);
    }

    #[test]
    fn limits_of_the_index_are_read_as_people_write_them() {
        const MEMORY: u64 = 64 << 30;
        let limit = |text: &str| text.parse::<IndexMemory>();
        for (text, written, pages) in [
            ("none", "none", 0),
            ("4G", "4GiB", 1 << 20),
            ("64K", "64KiB", 16),
            ("25%", "25%", 4 << 20),
            ("0.00001%", "0.00001%", 16),
        ] {
            let read = limit(text).unwrap();
            assert_eq!(read.pages(MEMORY), pages, "{text}");
            assert_eq!(read.to_string(), written);
            assert_eq!(limit(written), Ok(read));
        }
        for wrong in ["0", "0%", "63K", "4", "much", "auto"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_read_back_as_written() {
        for (text, written) in [
            ("none", "none"),
            ("20M/s", "20MiB"),
            ("0.50 dwpd", "0.5dwpd"),
        ] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate.to_string(), written);
            assert_eq!(written.parse(), Ok(rate));
        }
    }

    #[test]
    fn data_at_the_beginning_are_seen() {
        let directory = tempfile::TempDir::new().unwrap();
        let [file, link] = ["file", "link"].map(|name| directory.path().join(name));
        let mut content = vec![0; HEAD as usize];
        // The module writes pages behind the head, which do not count as data.
        fs::write(&file, [&content[..], b"pages"].concat()).unwrap();
        assert!(!has_data(&file).unwrap());
        *content.last_mut().unwrap() = 1;
        fs::write(&file, content).unwrap();
        assert!(has_data(&file).unwrap());
        assert!(has_data(&link).is_err());
        assert!(!is_same(&file, &link));
        symlink("file", &link).unwrap();
        assert!(is_same(&file, &link));
    }

    #[test]
    fn names_that_a_reboot_may_change_are_warned_of() {
        let warning = |path: &str| {
            let listed = Listed {
                line: 3,
                path: path.into(),
                write_budget: None,
            };
            listed.warning()
        };
        for path in ["/dev/sdb", "/dev/nvme0n1p3"] {
            assert!(warning(path).unwrap().starts_with("line 3: "), "{path}");
        }
        for path in [
            "/dev/disk/by-id/nvme-eui.1",
            "/dev/mapper/cache",
            "/dev/vg0/cache",
        ] {
            assert_eq!(warning(path), None, "{path}");
        }
    }
}
