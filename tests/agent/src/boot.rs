// SPDX-License-Identifier: GPL-2.0-only

//! Boot of a test machine, from the initial filesystem to the real root.

use std::{
    ffi::CString,
    fs, io,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process, thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::{
    mount::{MountFlags, mount, mount_move},
    process::{chdir, chroot},
    system::finit_module,
};

use crate::{SELF, system};

/// The init of a complete Debian, which starts this program through a unit.
const INIT: &str = "/sbin/init";

/// Mounts the root with the project's files at `/opt/dd`, and starts its init, or this program
/// again in there. The command line says which root:
///
/// - with `dd.root=SERIAL`, the ext4 filesystem on the disk with this serial, which is an installed
///   system with an init of its own;
/// - otherwise the root image with a writable layer over it. With `dd.debian`, the disk of that
///   name is mounted over the root image, and its init is started; with `dd.debian=layer` only its
///   files are used.
pub(crate) fn find_root() -> Result<()> {
    for (fstype, target) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys")] {
        fs::create_dir_all(target)?;
        plain_mount(fstype, target, fstype, MountFlags::empty(), "")?;
    }
    load_modules()?;
    resume()?;
    let has_init = match system::parameter("dd.root") {
        Some(serial) => {
            let disk = wait_for_disk(&serial)?;
            plain_mount(&disk, "/new", "ext4", MountFlags::empty(), "")?;
            true
        }
        None => mount_layers()?,
    };
    let opt = wait_for_disk("opt")?;
    plain_mount(&opt, "/new/opt/dd", "erofs", MountFlags::RDONLY, "")?;
    for dir in ["dev", "proc", "sys"] {
        let to = format!("/new/{dir}");
        fs::create_dir_all(&to)?;
        mount_move(format!("/{dir}"), &to).with_context(|| format!("cannot move /{dir}"))?;
    }
    chdir("/new")?;
    mount_move(".", "/").context("cannot move the root")?;
    chroot(".").context("cannot enter the root")?;
    chdir("/")?;
    let (program, arguments): (_, &[&str]) = match has_init {
        true => (INIT, &[]),
        false => (SELF, &["serve"]),
    };
    let error = process::Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {program}"))
}

/// Mounts the images at `/new`, with a writable layer over them. Returns whether they have an init
/// that is to be started.
fn mount_layers() -> Result<bool> {
    let root = wait_for_disk("root")?;
    plain_mount(&root, "/lower", "erofs", MountFlags::RDONLY, "")?;
    let debian = system::parameter("dd.debian");
    let lower = match debian {
        Some(_) => {
            let disk = wait_for_disk("debian")?;
            plain_mount(&disk, "/debian", "erofs", MountFlags::RDONLY, "")?;
            "/debian:/lower"
        }
        None => "/lower",
    };
    plain_mount("tmpfs", "/layer", "tmpfs", MountFlags::empty(), "mode=755")?;
    for dir in ["/layer/upper", "/layer/work"] {
        fs::create_dir(dir)?;
    }
    let layers = format!("lowerdir={lower},upperdir=/layer/upper,workdir=/layer/work");
    plain_mount("overlay", "/new", "overlay", MountFlags::empty(), &layers)?;
    Ok(debian.as_deref() == Some(""))
}

/// Mounts a filesystem, after creating the mount point.
pub(crate) fn plain_mount(
    source: &str,
    target: &str,
    fstype: &str,
    flags: MountFlags,
    data: &str,
) -> Result<()> {
    fs::create_dir_all(target).with_context(|| format!("cannot create {target}"))?;
    let data = CString::new(data)?;
    mount(source, target, fstype, flags, data.as_c_str())
        .with_context(|| format!("cannot mount {source} at {target}"))
}

/// Resumes a kernel that hibernated on the disk that `dd.resume` names. Returns if there is none.
fn resume() -> Result<()> {
    let Some(serial) = system::parameter("dd.resume") else {
        return Ok(());
    };
    let device = wait_for_disk(&serial)?;
    let block = device.trim_start_matches("/dev/");
    let number = fs::read_to_string(format!("/sys/block/{block}/dev"))?;
    fs::write("/sys/power/resume", number.trim()).context("cannot resume")
}

/// Loads `/modules/*.ko` in the order of their names.
fn load_modules() -> Result<()> {
    let mut modules: Vec<PathBuf> = fs::read_dir("/modules")?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    modules.sort();
    for path in modules {
        let file = fs::File::open(&path)?;
        match finit_module(&file, c"", 0) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot load {}", path.display()));
            }
        }
    }
    Ok(())
}

/// Returns the device with the virtio serial `serial`. Disks appear in any order.
fn wait_for_disk(serial: &str) -> Result<String> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(120) {
        if let Some((_, device)) = disks().into_iter().find(|(name, _)| name == serial) {
            return Ok(device);
        }
        thread::sleep(Duration::from_millis(20));
    }
    bail!("no disk with serial {serial} appeared")
}

/// Returns serial and device of every virtio disk.
pub(crate) fn disks() -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir("/sys/block") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let serial = fs::read_to_string(entry.path().join("serial")).ok()?;
            let device = format!("/dev/{}", entry.file_name().to_str()?);
            Some((serial.trim().to_owned(), device))
        })
        .filter(|(serial, _)| !serial.is_empty())
        .collect()
}
