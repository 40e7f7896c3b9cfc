// SPDX-License-Identifier: GPL-2.0-only

//! The machine around the agent: mounts, names, power.

use std::{fs, os::unix::fs::symlink, process};

use anyhow::{Context as _, Result};
use rustix::{
    fs::sync,
    mount::MountFlags,
    system::{RebootCommand, reboot, sethostname},
};

use crate::{boot, cgroup};

/// Readahead of a cloud's NVMe disk. Kernels take a virtio disk for a rotating one and read 8 MiB
/// ahead, more than the small containers of tests can hold.
const READAHEAD_KIB: &str = "128";

/// Sets up what a distribution's init would set up, unless there is one, and what only test
/// machines need.
pub(crate) fn prepare() -> Result<()> {
    if process::id() == 1 {
        mount_all()?;
    }
    fs::create_dir_all("/run/dd/vm")?;
    name_disks()?;
    sethostname(parameter("dd.hostname").unwrap_or_default().as_bytes())?;
    Ok(())
}

fn mount_all() -> Result<()> {
    let none = MountFlags::empty();
    for (fstype, target, data) in [
        ("tmpfs", "/run", "mode=755"),
        ("tmpfs", "/tmp", "mode=1777"),
        ("tmpfs", "/dev/shm", "mode=1777"),
        ("devpts", "/dev/pts", "mode=620,ptmxmode=666"),
        ("cgroup2", cgroup::MOUNT, ""),
        ("debugfs", "/sys/kernel/debug", ""),
        ("tracefs", "/sys/kernel/tracing", ""),
    ] {
        boot::plain_mount(fstype, target, fstype, none, data)?;
    }
    cgroup::delegate(cgroup::MOUNT.as_ref());
    Ok(())
}

/// Makes every disk available at `/dev/dd/<serial>`.
fn name_disks() -> Result<()> {
    fs::create_dir_all("/dev/dd")?;
    for (serial, device) in boot::disks() {
        symlink(&device, format!("/dev/dd/{serial}"))
            .with_context(|| format!("cannot name {device}"))?;
        let name = device.trim_start_matches("/dev/");
        let readahead = format!("/sys/block/{name}/queue/read_ahead_kb");
        fs::write(&readahead, READAHEAD_KIB)
            .with_context(|| format!("cannot write {readahead}"))?;
    }
    Ok(())
}

/// Returns the environment of every program that the agent runs.
pub(crate) fn environment() -> [(&'static str, &'static str); 4] {
    [
        (
            "PATH",
            "/opt/dd/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ),
        ("HOME", "/root"),
        ("LC_ALL", "C.UTF-8"),
        ("TERM", "dumb"),
    ]
}

/// Syncs all files and powers the machine off.
pub(crate) fn power_off() -> ! {
    sync();
    let error = reboot(RebootCommand::PowerOff);
    // PID 1 must not exit silently, so that the kernel panics with the reason.
    eprintln!("ddagent: cannot power off: {error:?}");
    process::exit(1);
}

/// Returns a parameter of the kernel's command line, which is empty if it has no value.
pub(crate) fn parameter(name: &str) -> Option<String> {
    let line = fs::read_to_string("/proc/cmdline").ok()?;
    line.split_whitespace().find_map(|word| {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        (key == name).then(|| value.to_owned())
    })
}
