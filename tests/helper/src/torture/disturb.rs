// SPDX-License-Identifier: GPL-2.0-only

//! Disturbances of a filesystem under torture.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::Command,
    thread,
    time::Duration,
};

use super::grow::Growth;
use anyhow::{Context as _, Result, ensure};
use ddhelper::{FREEZING, churn::Random};
use rustix::{
    fs::{FlockOperation, flock},
    mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount},
};

/// The filesystem to disturb.
#[derive(Debug, clap::Args)]
pub(crate) struct DisturbArguments {
    /// Mount point of the filesystem
    #[arg(long)]
    pub(super) mount: PathBuf,
    /// Its device
    #[arg(long)]
    pub(super) device: PathBuf,
    /// Its type
    #[arg(long)]
    pub(super) fstype: String,
    /// Directory with the models of its files
    #[arg(long)]
    pub(super) models: PathBuf,
    /// Cgroups (paths below the mount) to reclaim from
    #[arg(long)]
    cgroup: Vec<String>,
    /// Also unmount it, if nothing is mounted above it
    #[arg(long)]
    unmount: bool,
    /// Seed of its choices
    #[arg(long)]
    seed: u64,
    /// Initial size in MiB, if it grows while it is in use
    #[arg(long)]
    grow_from: Option<u64>,
}

/// Disturbs until it is killed.
pub(crate) fn disturb(arguments: &DisturbArguments) -> Result<()> {
    let mut rng = Random::new(arguments.seed);
    let DisturbArguments {
        mount: place,
        device,
        fstype,
        ..
    } = arguments;
    let gate = File::open(arguments.models.join("gate"))?;
    let freezing = File::create(FREEZING)?;
    let mut growth = arguments.grow_from.map(Growth::new);
    loop {
        // The pause lets pages accumulate.
        thread::sleep(Duration::from_millis(rng.within(20, 400)));
        if let Some(growth) = growth.as_mut().filter(|growth| growth.is_due(&mut rng)) {
            growth.step(arguments)?;
        }
        match rng.below(100) {
            0..88 => {
                for cgroup in &arguments.cgroup {
                    let file = format!("/sys/fs/cgroup/{cgroup}/memory.reclaim");
                    // Less memory is reclaimed (EAGAIN) if there is no more.
                    let _ = fs::write(file, format!("{}K", rng.within(64, 2048)));
                }
            }
            88..92 => fs::write("/proc/sys/vm/drop_caches", rng.within(1, 3).to_string())?,
            92..94 => {
                flock(&freezing, FlockOperation::LockExclusive)?;
                for verb in ["-f", "-u"] {
                    let done = Command::new("fsfreeze").arg(verb).arg(place).status()?;
                    ensure!(done.success(), "fsfreeze {verb}: {done}");
                }
                flock(&freezing, FlockOperation::Unlock)?;
            }
            94..97 => {
                let flags = match rng.chance(50) {
                    true => MountFlags::NOATIME,
                    false => MountFlags::RELATIME,
                };
                mount_remount(place, flags, c"").context("cannot remount")?;
            }
            _ if arguments.unmount => {
                flock(&gate, FlockOperation::LockExclusive)?;
                unmount(place, UnmountFlags::empty()).context("cannot unmount")?;
                mount(device, place, fstype.as_str(), MountFlags::NOATIME, None)
                    .context("cannot mount")?;
                flock(&gate, FlockOperation::Unlock)?;
            }
            _ => {}
        }
    }
}
