// SPDX-License-Identifier: GPL-2.0-only

//! Disks of guests. They are made here and passed through L1.

use std::{
    fmt,
    fs::OpenOptions,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::content::FileSpec;

/// Parameters of a disk.
#[derive(Clone, Debug)]
pub struct DiskConfig {
    /// Its name; the guest finds it at `/dev/dd/<name>`. At most 20 bytes.
    pub name: String,
    /// Size in MiB. The image is sparse.
    pub size_mib: u64,
    /// Filesystem.
    pub format: Format,
    /// Initial files (not with [`Format::Blank`]).
    pub files: Vec<FileSpec>,
}

/// Initial content of a disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// Blank: the guest makes a filesystem.
    Blank,
    /// ext4, made outside with the files in it.
    Ext4,
}

/// Limits of a disk; `None` stands for no limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Throttle {
    /// Operations per second.
    pub iops: Option<u64>,
    /// Bytes per second.
    pub bytes_per_s: Option<u64>,
}

impl Throttle {
    /// No limits.
    pub const NONE: Self = Self {
        iops: None,
        bytes_per_s: None,
    };

    /// A cloud provider's general-purpose disk.
    pub const CLOUD: Self = Self {
        iops: Some(400),
        bytes_per_s: Some(60 << 20),
    };
}

/// Use of L1's page cache for a guest's disk.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum HostCache {
    /// None, so that only the guest's cache and DoubleDecker are measured.
    #[default]
    None,
    /// The page cache keeps data that is read and written, until the guest flushes.
    Writeback,
}

impl fmt::Display for HostCache {
    /// Formats the mode as the VMM spells it.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::None => "none",
            Self::Writeback => "writeback",
        })
    }
}

/// A disk. Its slot in the lab is free again when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Disk {
    pub(crate) name: String,
    pub(crate) size_mib: u64,
    pub(crate) slot: Arc<Slot>,
}

impl Disk {
    /// Returns its device in L1.
    #[must_use]
    pub fn path_in_host(&self) -> String {
        format!("/dev/dd/slot{}", self.slot.number)
    }

    /// Returns its device in its guest.
    #[must_use]
    pub fn path_in_guest(&self) -> String {
        format!("/dev/dd/{}", self.name)
    }
}

/// Returns the emulator's command that sets the limits of the disk in a slot of L1.
pub(crate) fn throttle_command(slot: usize, throttle: Throttle) -> Value {
    // Zero means no limit.
    json!({
        "execute": "block_set_io_throttle",
        "arguments": {
            // The backend of the disk is found through the PCI device of this name.
            "id": format!("/machine/peripheral/{}/virtio-backend", device(slot)),
            "iops": throttle.iops.unwrap_or(0),
            "iops_rd": 0,
            "iops_wr": 0,
            "bps": throttle.bytes_per_s.unwrap_or(0),
            "bps_rd": 0,
            "bps_wr": 0,
        },
    })
}

/// Returns the emulator's name for the device of a slot.
pub(crate) fn device(slot: usize) -> String {
    format!("disk{slot}")
}

/// A slot for a disk: a virtio disk that L1 has from its start, so that no hotplug is needed.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) number: usize,
    free: Arc<Mutex<Vec<usize>>>,
}

impl Slot {
    /// Takes the lowest free slot.
    pub(crate) fn take(free: &Arc<Mutex<Vec<usize>>>) -> Option<Self> {
        let mut numbers = free.lock().expect("no thread panics with this lock");
        let at = (0..numbers.len()).min_by_key(|&at| numbers[at])?;
        Some(Self {
            number: numbers.swap_remove(at),
            free: Arc::clone(free),
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Ok(mut numbers) = self.free.lock() {
            numbers.push(self.number);
        }
    }
}

/// Fills the image at `path` as configured. The size of the image does not change, because L1 read
/// it when it booted; the filesystem gets the configured size.
pub(crate) fn fill(config: &DiskConfig, path: &Path, scratch: &Path) -> Result<()> {
    if config.name.len() > 20 {
        bail!("disk name {:?} is longer than a virtio serial", config.name);
    }
    let image = OpenOptions::new()
        .write(true)
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    let size = image.metadata()?.len();
    if config.size_mib << 20 > size {
        bail!(
            "disk {:?} of {} MiB does not fit its slot of {} MiB; raise LabConfig::slot_mib",
            config.name,
            config.size_mib,
            size >> 20
        );
    }
    image.set_len(0)?;
    image.set_len(size)?;
    match config.format {
        Format::Blank if config.files.is_empty() => Ok(()),
        Format::Blank => bail!("a blank disk ({:?}) cannot hold files", config.name),
        Format::Ext4 => make_ext4(config, path, scratch),
    }
}

fn make_ext4(config: &DiskConfig, path: &Path, scratch: &Path) -> Result<()> {
    let staging = tempfile::tempdir_in(scratch)?;
    for file in &config.files {
        file.write_below(staging.path())
            .with_context(|| format!("cannot write {}", file.path))?;
    }
    let output = Command::new("mke2fs")
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-L"])
        .arg(&config.name[..config.name.len().min(16)])
        // Lazy initialisation would write to the disk during a test.
        .args([
            "-E",
            "lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0",
        ])
        // Files that tests add need inodes too.
        .args(["-i", "8192", "-d"])
        .arg(staging.path())
        .arg(path)
        .arg(format!("{}M", config.size_mib))
        .output()
        .context("cannot run mke2fs; install e2fsprogs")?;
    if !output.status.success() {
        bail!(
            "mke2fs failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throttle_without_limits_lifts_them() {
        let arguments = throttle_command(2, Throttle::NONE)["arguments"].clone();
        assert_eq!(arguments["id"], "/machine/peripheral/disk2/virtio-backend");
        assert_eq!(
            (&arguments["iops"], &arguments["bps"]),
            (&json!(0), &json!(0))
        );
        let limited = throttle_command(0, Throttle::CLOUD);
        assert_eq!(limited["arguments"]["iops"], 400);
    }

    #[test]
    fn slots_come_back() {
        let free = Arc::new(Mutex::new(vec![1, 0]));
        let first = Slot::take(&free).unwrap();
        let second = Slot::take(&free).unwrap();
        assert_eq!((first.number, second.number), (0, 1));
        assert!(Slot::take(&free).is_none());
        drop(second);
        assert_eq!(Slot::take(&free).unwrap().number, 1);
    }
}
