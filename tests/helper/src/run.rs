// SPDX-License-Identifier: GPL-2.0-only

//! Execution of the steps of a churn.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _, stdout},
    path::Path,
    process::Command,
    sync::{
        RwLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::{Context as _, Result, ensure};
use ddhelper::churn::{ReadResult, Script, Step};
use rustix::{
    fs::{RenameFlags, sync},
    mount::{MountFlags, UnmountFlags, mount, unmount},
};

use crate::{ChurnArguments, disturbances::Disturbances, files::Tree};

/// Executes all steps beside disturbances, and prints the results.
pub(crate) fn churn(arguments: &ChurnArguments) -> Result<()> {
    let tree = Tree(arguments.mount.join("churn"));
    fs::create_dir_all(&tree.0)?;
    let disturbances = Disturbances {
        gate: RwLock::new(()),
        done: AtomicBool::new(false),
        reclaim: Path::new("/sys/fs/cgroup")
            .join(&arguments.cgroup)
            .join("memory.reclaim"),
    };
    let plan = &arguments.plan;
    thread::scope(|scope| {
        scope.spawn(|| disturbances.reclaim(plan.seed));
        scope.spawn(|| disturbances.read(&tree, plan));
        let done = steps(arguments, &tree, &disturbances);
        disturbances.done.store(true, Ordering::Relaxed);
        done
    })
}

fn steps(arguments: &ChurnArguments, tree: &Tree, disturbances: &Disturbances) -> Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    let site = Site {
        arguments,
        tree,
        disturbances,
    };
    for (at, step) in (0..).zip(Script::new(arguments.plan)) {
        let seen = match step {
            Step::Read { file, by, seek } => tree.read(file, by, seek),
            Step::Orphan { len, seed } => tree.orphan(len, seed).map(Some),
            _ => {
                site.change(&step)
                    .with_context(|| format!("step {at}: {step:?}"))?;
                continue;
            }
        };
        let seen = seen.with_context(|| format!("step {at}: {step:?}"))?;
        serde_json::to_writer(&mut out, &ReadResult::new(at, seen.as_deref()))?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// The filesystem on which the steps are executed.
struct Site<'a> {
    arguments: &'a ChurnArguments,
    tree: &'a Tree,
    disturbances: &'a Disturbances,
}

impl Site<'_> {
    fn change(&self, step: &Step) -> Result<()> {
        let tree = self.tree;
        match *step {
            Step::Create { file, len, seed } => tree.create(file, len, seed),
            Step::Write {
                file,
                offset,
                len,
                seed,
                by,
                sync,
            } => {
                let written = tree.write(file, offset, len, seed, by)?;
                if sync {
                    written.sync_all()?;
                }
                Ok(())
            }
            Step::Truncate { file, len } => tree.truncate(file, len),
            Step::Alter {
                file,
                offset,
                len,
                shift,
            } => tree.alter(file, offset, len, shift),
            Step::Copy {
                from,
                to,
                offset,
                len,
            } => tree.copy(from, to, offset, len),
            Step::Rename { from, to } => tree.rename(from, to, RenameFlags::empty()),
            Step::Exchange { one, other } => tree.rename(one, other, RenameFlags::EXCHANGE),
            Step::Unlink { file } => tree.unlink(file),
            Step::Forget { file } => tree.forget(file),
            Step::DropCaches { what } => {
                fs::write("/proc/sys/vm/drop_caches", what.to_string()).map_err(Into::into)
            }
            Step::Sync => {
                sync();
                Ok(())
            }
            Step::Remount { touched } => self.remount(touched),
            Step::Read { .. } | Step::Orphan { .. } => Ok(()),
        }
    }

    fn remount(&self, touched: Option<(u32, u64, u8)>) -> Result<()> {
        let ChurnArguments {
            plan,
            device,
            mount: to,
            fstype,
            ..
        } = self.arguments;
        let _shut = self
            .disturbances
            .gate
            .write()
            .unwrap_or_else(|e| e.into_inner());
        unmount(to, UnmountFlags::empty()).context("cannot unmount")?;
        if let Some((file, block, byte)) = touched {
            ensure!(plan.offline, "the plan does not allow this");
            overwrite(device, &format!("/churn/{file}"), block, byte)?;
        }
        mount(device, to, fstype.as_str(), MountFlags::NOATIME, None).context("cannot mount")
    }
}

/// Fills a block of a file (path in the filesystem) of an unmounted ext4, without the kernel's
/// knowledge.
pub(crate) fn overwrite(device: &str, path: &str, block: u64, byte: u8) -> Result<()> {
    let request = format!("zap_block -f {path} -p {byte:#x} {block}");
    let output = Command::new("debugfs")
        .args(["-w", "-R", &request, device])
        .output()
        .context("cannot run debugfs")?;
    // debugfs reports failures only by messages after its own name.
    let words = String::from_utf8_lossy(&output.stderr);
    let complaint = words.lines().find(|line| !line.starts_with("debugfs "));
    ensure!(complaint.is_none(), "debugfs {request}: {words}");
    // The page cache of the device is separate from that of the filesystem.
    Ok(File::open(device)?.sync_all()?)
}
