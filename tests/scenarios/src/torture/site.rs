// SPDX-License-Identifier: GPL-2.0-only

//! Filesystems under torture.

use std::time::Duration;

use anyhow::Result;
use ddhelper::kind::Kind;
use ddlab::{Command, Guest, Machine, Running};

use super::{disturbance::Disturbance, storm::CONTAINERS};
use crate::filesystem::{EXT4, EXT4_1K, Filesystem, XFS, XFS_1K};

/// Number of files of a filesystem. Truncations leave them some ten pages each, which their
/// containers could hold, so that pages leave because of `memory.reclaim` and `drop_caches`.
const FILES: u32 = 24;
/// Number of reads before an overlay is mounted above the files written so far.
const CHECKS_BELOW: u64 = 200;
/// Size of the file of a loop device, in MiB.
const LOOP_MIB: u64 = 384;
/// Maximum time of a process: half a million reads on an emulated machine.
const MAX_TIME: Duration = Duration::from_secs(3600);

/// Size of a filesystem that is made smaller than its disk and grows, in MiB.
const SMALL_MIB: u64 = 320;

/// A filesystem with the layer above it. Its models have its name.
#[derive(Debug)]
pub(crate) struct Site {
    filesystem: Filesystem,
    above: Above,
    /// Operations, of those that only some filesystems offer, that it must offer; others may be
    /// missing. If this is absent none of them is tried, and the filesystem does not grow.
    offers: Option<&'static [Kind]>,
}

/// Asynchronous writes, which all of them but overlays must offer.
const QUEUED: [Kind; 4] = [Kind::Ring, Kind::RingDirect, Kind::Aio, Kind::AioDirect];
const ON_EXT4: &[Kind] = &[
    Kind::Uncached,
    Kind::Loop,
    Kind::Journal,
    Kind::Verity,
    Kind::Swap,
    Kind::MoveExtents,
];
/// Without metadata checksums, generations of files can be set, and files can be swapped with the
/// boot loader's inode.
const ON_OLD_EXT4: &[Kind] = &[
    Kind::Uncached,
    Kind::Loop,
    Kind::Journal,
    Kind::Generation,
    Kind::Verity,
    Kind::Boot,
    Kind::Swap,
    Kind::MoveExtents,
];
const ON_XFS: &[Kind] = &[
    Kind::Uncached,
    Kind::Atomic,
    Kind::Loop,
    Kind::Swap,
    Kind::Exchange,
    Kind::Commit,
    Kind::SwapExtents,
    Kind::Dedupe,
    Kind::CloneRange,
];

/// The layer between the files and the filesystem on the disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Above {
    Nothing,
    /// An overlay. Its lower layer has some of the files, which are copied up.
    Overlay,
    /// A filesystem of the same kind, in a file of the one on the disk.
    Loop,
}

const SITES: [Site; 6] = [
    Site::new(
        Filesystem {
            make: "mke2fs -q -t ext4 -b 4096 -O verity",
            ..EXT4
        },
        Above::Nothing,
        ON_EXT4,
    ),
    Site::new(
        Filesystem {
            make: "mke2fs -q -t ext4 -b 1024 -O verity,^metadata_csum",
            ..EXT4_1K
        },
        Above::Nothing,
        ON_OLD_EXT4,
    ),
    Site::new(
        Filesystem {
            make: "mkfs.xfs -q -i exchange=1 -d size=320m",
            ..XFS
        },
        Above::Nothing,
        ON_XFS,
    ),
    Site::new(
        Filesystem {
            make: "mkfs.xfs -q -b size=1k -i exchange=1 -d size=320m",
            ..XFS_1K
        },
        Above::Nothing,
        ON_XFS,
    ),
    Site::new(
        Filesystem {
            name: "overlay",
            ..XFS
        },
        Above::Overlay,
        &[],
    ),
    Site::new(
        Filesystem {
            name: "loop",
            make: "mke2fs -q -t ext4",
            ..EXT4
        },
        Above::Loop,
        &[],
    ),
];

/// All of them without operations that the kernel itself does not always survive.
pub(super) const COMMON: [Site; 6] = [
    SITES[0].common(),
    SITES[1].common(),
    SITES[2].common(),
    SITES[3].common(),
    SITES[4].common(),
    SITES[5].common(),
];

/// Two of them, one of each kind: ext4 with small blocks, and XFS.
pub(crate) const FEW: [&Site; 2] = [&COMMON[1], &COMMON[2]];
/// A single one, ext4, which every Debian can make.
pub(crate) const ONE: [&Site; 1] = [&COMMON[0]];
/// Each kind with blocks of 4 and of 1 KiB.
pub(super) const EXT4_ALONE: [&Site; 2] = [&SITES[0], &SITES[1]];
pub(super) const XFS_ALONE: [&Site; 2] = [&SITES[2], &SITES[3]];

impl Site {
    const fn new(filesystem: Filesystem, above: Above, offers: &'static [Kind]) -> Self {
        Self {
            filesystem,
            above,
            offers: Some(offers),
        }
    }

    /// Returns the same without operations that only some filesystems offer.
    const fn common(&self) -> Self {
        Self {
            filesystem: self.filesystem,
            above: self.above,
            offers: None,
        }
    }

    /// Returns the operations that must succeed for a meaningful torture.
    pub(crate) fn offers(&self) -> impl Iterator<Item = Kind> {
        let queued: &[Kind] = match self.above {
            Above::Nothing | Above::Loop if self.offers.is_some() => &QUEUED,
            _ => &[],
        };
        queued
            .iter()
            .chain(self.offers.unwrap_or_default())
            .copied()
    }

    /// Returns whether it grows while it is in use.
    pub(crate) fn grows(&self) -> bool {
        self.above == Above::Nothing && self.offers.is_some()
    }

    /// Returns how many times it has grown.
    pub(crate) fn grown(&self, guest: &Machine) -> Result<u64> {
        let said = guest.read_text(&format!("{}/grown", self.models()))?;
        Ok(said.trim().parse()?)
    }

    /// Returns the name of its disk, mount point and models.
    pub(crate) const fn name(&self) -> &'static str {
        self.filesystem.name
    }

    /// Returns the directory of its models, which is on tmpfs and made outside of all containers,
    /// because these could not reclaim it.
    fn models(&self) -> String {
        format!("/run/models-{}", self.name())
    }

    /// Makes all its processes end soon and report.
    pub(crate) fn stop(&self, guest: &Machine) -> Result<()> {
        guest.write_file(&format!("{}/stop", self.models()), "")
    }

    /// Returns the mount point of the filesystem on the disk, if it is not its path.
    fn below(&self) -> String {
        format!("/{}-below", self.name())
    }

    /// Makes and mounts it on its disk, and makes the models. Returns the device that can be
    /// unmounted and mounted again.
    pub(crate) fn make(&self, guest: &Guest) -> Result<String> {
        let filesystem = &self.filesystem;
        let device = format!("/dev/dd/{}", self.name());
        let files = FILES.to_string();
        guest.exec_ok(["ddhelper", "torture-models", &self.models(), &files])?;
        guest.exec_ok(["modprobe", "loop"])?;
        let (path, below) = (filesystem.path(), self.below());
        if self.grows() && filesystem.fstype == "ext4" {
            // The size is the argument after the device.
            let size = format!("{SMALL_MIB}M");
            let words = filesystem.make.split(' ');
            guest.exec_ok(words.chain([device.as_str(), &size]))?;
        } else {
            filesystem.format(guest, &device)?;
        }
        let place = match self.above {
            Above::Nothing => &path,
            Above::Overlay | Above::Loop => &below,
        };
        guest.mount(&device, place, filesystem.fstype, "noatime")?;
        match self.above {
            Above::Nothing => {}
            Above::Overlay => {
                let layers = ["lower", "upper", "work"].map(|layer| format!("{below}/{layer}"));
                let [lower, upper, work] = &layers;
                guest.exec_ok(["mkdir", lower, upper, work])?;
                let first = self.torture(lower, CHECKS_BELOW, 0);
                guest.run_ok(&Command::new(first.split_whitespace()))?;
                let layers = format!("lowerdir={lower},upperdir={upper},workdir={work}");
                guest.mount("overlay", &path, "overlay", &layers)?;
            }
            Above::Loop => {
                let image = format!("{below}/image");
                guest.exec_ok(["truncate", "-s", &format!("{LOOP_MIB}M"), &image])?;
                let shown = guest.exec_ok(["losetup", "--find", "--show", &image])?;
                let shown = shown.trim().to_owned();
                filesystem.format(guest, &shown)?;
                guest.mount(&shown, &path, filesystem.fstype, "noatime")?;
                return Ok(shown);
            }
        }
        Ok(device)
    }

    /// Starts the program that reclaims from, freezes and unmounts it.
    pub(crate) fn disturb(&self, guest: &Guest, device: &str) -> Result<Running> {
        // Overlays cannot be frozen, but the filesystem below them can. It stays mounted.
        let (place, unmount) = match self.above {
            Above::Overlay => (self.below(), false),
            Above::Nothing | Above::Loop => (self.filesystem.path(), true),
        };
        let disturbance = Disturbance {
            filesystem: &self.filesystem,
            place: &place,
            device,
            models: &self.models(),
            unmount,
            grow_from: self.grows().then_some(SMALL_MIB),
        };
        disturbance.start(guest, CONTAINERS)
    }

    /// Starts a process that reads and changes its files.
    pub(crate) fn work(&self, guest: &Guest, container: &str, checks: u64) -> Result<Running> {
        // Each process makes other choices, on each filesystem.
        let seed =
            container.len() as u64 * 100 + self.name().len() as u64 * 10 + self.filesystem.block;
        let line = self.torture(&self.filesystem.path(), checks, seed);
        let command = Command::new(line.split_whitespace()).cgroup(container);
        guest.patient(MAX_TIME).spawn(&command)
    }

    /// Returns the command of a process that reads and changes files in a directory.
    fn torture(&self, dir: &str, checks: u64, seed: u64) -> String {
        // An open file of an overlay may be another one after a write.
        let overlay = match self.above {
            Above::Overlay => "--overlay",
            Above::Nothing | Above::Loop => "",
        };
        let special = match self.offers {
            Some(offers) if offers.contains(&Kind::Boot) => "--special",
            Some(_) => "--special --metadata-csum",
            None => "",
        };
        format!(
            "ddhelper torture --dir {dir} --models {} --seed {seed} --checks {checks} --block {} \
             {overlay} {special}",
            self.models(),
            self.filesystem.block,
        )
    }
}
