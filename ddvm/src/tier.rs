// SPDX-License-Identifier: GPL-2.0-only

//! Sizes of the memory tier, and which of them are possible on a machine.

use ddabi::genl::AUTOMATIC;
use ddconf::size::{Size, show_bytes, show_pages};
use ddnl::{ConfigChange, Kind, ProgramError};
use std::{fmt, fs, io, path::Path, str::FromStr};

/// Sizes of the memory tier as an administrator writes them; `None` leaves a size as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sizes {
    /// The most memory that the tier may use.
    pub capacity: Option<Size>,
    /// Memory that the tier keeps when the host runs short of memory.
    pub floor: Option<Size>,
    /// Memory that one eviction frees.
    pub batch: Option<Size>,
    /// Room that is kept free in the background.
    pub keep_free: Option<Threshold>,
    /// Free room above which pages of the SSD tier move back to memory.
    pub promote_free: Option<Threshold>,
}

/// A threshold of free room in the memory tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// The module chooses it.
    Automatic,
    /// This size.
    Size(Size),
}

impl Threshold {
    /// Returns the threshold in pages, or [`AUTOMATIC`], on a machine with `memory` bytes of
    /// memory.
    pub fn pages(self, memory: u64) -> u64 {
        match self {
            Self::Automatic => AUTOMATIC,
            Self::Size(size) => size.pages(memory),
        }
    }
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Automatic),
            _ => text.parse().map(Self::Size),
        }
    }
}

/// Writes it so that it reads back as the same threshold.
impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Automatic => f.write_str("auto"),
            Self::Size(size) => write!(f, "{size}"),
        }
    }
}

/// A size that is not possible.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InvalidSize {
    /// The capacity, in pages, is above the memory, in bytes.
    Capacity(u64, u64),
    /// The floor is above the capacity, both in pages.
    Floor(u64, u64),
    /// The eviction batch is not between one page and 2^32 pages.
    Batch,
    /// The room to be kept free is more than half of the capacity, both in pages.
    KeepFree(u64, u64),
}

impl InvalidSize {
    /// Describes the error.
    pub fn message(self) -> String {
        match self {
            Self::Capacity(capacity, memory) => format!(
                "a capacity of {} is more than this machine's memory of {}",
                show_pages(capacity),
                show_bytes(memory)
            ),
            Self::Floor(floor, capacity) => format!(
                "the floor of {} is above the capacity of {}",
                show_pages(floor),
                show_pages(capacity)
            ),
            Self::Batch => "the eviction batch is out of range".into(),
            Self::KeepFree(free, capacity) => format!(
                "{} to be kept free is more than half of the capacity of {}",
                show_pages(free),
                show_pages(capacity)
            ),
        }
    }

    /// Describes the valid values.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Capacity(..) => "leave memory for the VMs themselves; 25% is a good start",
            Self::Floor(..) => "give a lower floor together with the capacity",
            Self::Batch => "2M is the default",
            Self::KeepFree(..) => "a 64th of the capacity is a large value already",
        }
    }
}

/// A size that is not possible is an error of the command line.
impl From<InvalidSize> for ProgramError {
    fn from(wrong: InvalidSize) -> Self {
        Self::new(Kind::Usage, wrong.message()).hint(wrong.advice())
    }
}

impl Sizes {
    /// Returns whether nothing is given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks these sizes as far as that is possible without the memory of a machine: those that
    /// are no shares.
    pub fn check(&self) -> Result<(), InvalidSize> {
        let is_fixed = |size: &Size| matches!(size, Size::Bytes(_));
        let fixed = Self {
            capacity: self.capacity.filter(is_fixed),
            floor: self.floor.filter(is_fixed),
            batch: self.batch.filter(is_fixed),
            keep_free: self.keep_free.filter(|it| match it {
                Threshold::Automatic => true,
                Threshold::Size(size) => is_fixed(size),
            }),
            promote_free: None,
        };
        fixed.change(u64::MAX, None).map(drop)
    }

    /// Returns these sizes as a change of the module's configuration, on a machine with `memory`
    /// bytes of memory. A floor and the room to be kept free are compared with `capacity` pages if
    /// no capacity is given.
    pub fn change(&self, memory: u64, capacity: Option<u64>) -> Result<ConfigChange, InvalidSize> {
        let pages = |size: Size| size.pages(memory);
        let own = self.capacity.map(pages);
        if let Some(capacity) = own.filter(|pages| *pages > Size::Bytes(memory).pages(memory)) {
            return Err(InvalidSize::Capacity(capacity, memory));
        }
        let floor = self.floor.map(pages);
        if let (Some(floor), Some(capacity)) = (floor, own.or(capacity)) {
            if floor > capacity {
                return Err(InvalidSize::Floor(floor, capacity));
            }
        }
        let free = |threshold: Threshold| threshold.pages(memory);
        let keep_free = self.keep_free.map(free);
        let size = keep_free.filter(|pages| *pages != AUTOMATIC);
        if let (Some(free), Some(capacity)) = (size, own.or(capacity)) {
            if free > capacity / 2 {
                return Err(InvalidSize::KeepFree(free, capacity));
            }
        }
        let batch = match self.batch.map(pages) {
            None => None,
            Some(0) => return Err(InvalidSize::Batch),
            Some(batch) => Some(u32::try_from(batch).map_err(|_| InvalidSize::Batch)?),
        };
        Ok(ConfigChange {
            capacity: own,
            floor,
            batch,
            keep_free,
            promote_free: self.promote_free.map(free),
            ..ConfigChange::default()
        })
    }
}

/// Returns the bytes of memory in a file in the format of `/proc/meminfo`.
pub fn memory(meminfo: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(meminfo)?;
    let kilobytes = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok());
    let missing = || {
        let message = format!("{} has no MemTotal", meminfo.display());
        io::Error::new(io::ErrorKind::InvalidData, message)
    };
    kilobytes
        .and_then(|kilobytes| kilobytes.checked_mul(1 << 10))
        .ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_read() {
        let directory = tempfile::TempDir::new().unwrap();
        let file = directory.path().join("meminfo");
        fs::write(&file, "MemTotal:        8388608 kB\nMemFree: 1 kB\n").unwrap();
        assert_eq!(memory(&file).unwrap(), 8 << 30);
        fs::write(&file, "MemFree: 1 kB\n").unwrap();
        assert!(memory(&file).is_err());
    }

    #[test]
    fn sizes_that_are_not_possible_are_refused() {
        let size = |text: &str| Some(text.parse().unwrap());
        let sizes = |capacity, floor, batch| Sizes {
            capacity,
            floor,
            batch,
            ..Sizes::default()
        };
        let change = |sizes: Sizes| sizes.change(8 << 30, Some(1 << 18));
        let change_of = |capacity, floor, batch| ConfigChange {
            capacity,
            floor,
            batch,
            ..ConfigChange::default()
        };
        assert_eq!(
            change(sizes(size("25%"), size("1G"), size("4M"))),
            Ok(change_of(Some(1 << 19), Some(1 << 18), Some(1024)))
        );
        assert_eq!(change(Sizes::default()), Ok(ConfigChange::default()));
        assert!(Sizes::default().is_empty());
        assert_eq!(
            change(sizes(size("9G"), None, None)),
            Err(InvalidSize::Capacity(9 << 18, 8 << 30))
        );
        assert_eq!(
            change(sizes(None, size("2G"), None)),
            Err(InvalidSize::Floor(1 << 19, 1 << 18))
        );
        assert_eq!(
            change(sizes(size("1G"), size("2G"), None)),
            Err(InvalidSize::Floor(1 << 19, 1 << 18))
        );
        let thresholds = |keep: &str, promote: &str| Sizes {
            keep_free: Some(keep.parse().unwrap()),
            promote_free: Some(promote.parse().unwrap()),
            ..Sizes::default()
        };
        assert_eq!(
            change(thresholds("16M", "auto")),
            Ok(ConfigChange {
                keep_free: Some(4096),
                promote_free: Some(AUTOMATIC),
                ..ConfigChange::default()
            })
        );
        assert!(change(thresholds("auto", "16G")).is_ok());
        assert_eq!(
            change(thresholds("513M", "auto")),
            Err(InvalidSize::KeepFree(513 << 8, 1 << 18))
        );
        for batch in ["0", "1B", "16T"] {
            assert_eq!(
                change(sizes(None, None, size(batch))),
                Err(InvalidSize::Batch)
            );
        }
    }
}
