// SPDX-License-Identifier: GPL-2.0-only

//! A cgroup for each command, so that all processes that it started end with it.
//!
//! A process can leave its process group (`setsid`) and its parent (by forking twice), but not its
//! cgroup. The unit has systemd delegate the service's cgroup and put the daemon into `daemon`
//! below it. The cgroups of commands are created beside that one.

use anyhow::{Context, Result, bail, ensure};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tracing::warn;

/// The cgroup that the unit names in `DelegateSubgroup=`.
const DAEMON: &str = "/daemon";
/// Prefix of the names of commands' cgroups.
const COMMAND: &str = "command-";
/// The parts of the service's limits that are reserved for the daemon: bytes of memory, and tasks.
const RESERVES: [(&str, u64); 2] = [("memory.max", 64 << 20), ("pids.max", 32)];
/// Number of equal parts into which the commands' part is divided: the most commands that run at a
/// time.
const PARTS: u64 = super::super::poller::MAX_PROGRAMS as u64;
/// The most cgroups whose processes do not end although they were killed. The kernel keeps these
/// cgroups.
const MAX_STUCK: usize = 16;

/// The delegated cgroup.
#[derive(Debug)]
pub(super) struct Leaves {
    base: PathBuf,
    next: AtomicU64,
    /// Cgroups that could not be removed yet.
    left: Mutex<Vec<PathBuf>>,
}

/// The cgroup of a command. Its processes are killed when it is dropped.
#[derive(Debug)]
pub(super) struct Leaf {
    leaves: Arc<Leaves>,
    directory: PathBuf,
}

impl Leaves {
    /// Returns the cgroup that was delegated to this process. `proc` is `/proc`, `root` is where
    /// cgroup v2 is mounted.
    pub(super) fn open(proc: &Path, root: &Path) -> Result<Arc<Self>> {
        let own = fs::read_to_string(proc.join("self/cgroup"))?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::"));
        let own = own.context("this process has no cgroup of version 2")?;
        let service = own.strip_suffix(DAEMON).filter(|path| !path.is_empty());
        let service = service.context("no cgroup was delegated by `DelegateSubgroup=daemon`")?;
        let base = root.join(service.trim_start_matches('/'));
        let killer = base.join("cgroup.kill");
        ensure!(killer.exists(), "{} is missing", killer.display());
        for controller in ["+memory", "+pids"] {
            if let Err(error) = fs::write(base.join("cgroup.subtree_control"), controller) {
                warn!("commands have no limit of their own ({controller}): {error}");
            }
        }
        // A daemon that was killed may have left cgroups behind.
        let entries = fs::read_dir(&base)?.flatten();
        let paths = entries.filter(is_command).map(|it| it.path());
        let leaves = Self {
            base: base.clone(),
            next: AtomicU64::new(0),
            left: Mutex::new(paths.collect()),
        };
        leaves.sweep();
        Ok(Arc::new(leaves))
    }

    /// Creates a cgroup.
    pub(super) fn make(self: &Arc<Self>) -> Result<Leaf> {
        self.sweep();
        let stuck = self.left().len();
        if stuck >= MAX_STUCK {
            bail!("{stuck} commands were killed and do not end");
        }
        let leaf = loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let directory = self.base.join(format!("{COMMAND}{number}"));
            match fs::create_dir(&directory) {
                Ok(()) => {
                    break Leaf {
                        leaves: Arc::clone(self),
                        directory,
                    };
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).context("cannot make a cgroup for a command"),
            }
        };
        leaf.bound()?;
        Ok(leaf)
    }

    /// Kills and removes the cgroups that could not be removed before.
    fn sweep(&self) {
        self.left().retain(|directory| !is_removed(directory));
    }

    fn left(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leaf {
    /// Limits it to its part of the service's limits.
    fn bound(&self) -> Result<()> {
        for (file, reserve) in RESERVES {
            let path = self.directory.join(file);
            let most = fs::read_to_string(self.leaves.base.join(file)).unwrap_or_default();
            if let Some(part) = part_of(&most, reserve).filter(|_| path.exists()) {
                ensure!(
                    part > 0,
                    "the service has nothing left for commands: {file} is {}, of which the daemon \
                     has {reserve}",
                    most.trim()
                );
                fs::write(&path, part.to_string()).context(file)?;
            }
        }
        let together = self.directory.join("memory.oom.group");
        if together.exists() {
            fs::write(together, "1")?;
        }
        Ok(())
    }

    /// Returns the file by which processes enter the cgroup.
    pub(super) fn entrance(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        // Killed processes end a little later.
        self.leaves.left().push(std::mem::take(&mut self.directory));
        self.leaves.sweep();
    }
}

/// Returns a command's part of a limit of the service; `None` if there is no limit.
fn part_of(most: &str, reserve: u64) -> Option<u64> {
    let most: u64 = most.trim().parse().ok()?;
    Some(most.saturating_sub(reserve) / PARTS)
}

fn is_command(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    name.to_str().is_some_and(|name| name.starts_with(COMMAND))
}

/// Kills the processes in a cgroup, and removes it with the cgroups that a command created below
/// it. Returns whether it is gone.
fn is_removed(directory: &Path) -> bool {
    // The cgroup may be gone already.
    let _ = fs::write(directory.join("cgroup.kill"), "1");
    remove(directory)
}

fn remove(directory: &Path) -> bool {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let removed = |directory: &Path| match fs::remove_dir(directory) {
        Ok(()) => true,
        Err(error) => gone(&error),
    };
    if removed(directory) {
        return true;
    }
    let below = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in below {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    removed(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part reserved for the daemon does not depend on the commands.
    #[test]
    fn commands_share_the_memory_that_the_daemon_leaves() {
        let unit = ["402653184\n", "128\n"];
        let parts: Vec<_> = unit
            .iter()
            .zip(RESERVES)
            .map(|(most, (_, reserve))| part_of(most, reserve))
            .collect();
        assert_eq!(parts, [Some(80 << 20), Some(24)]);
        for (most, reserve, part) in [("max\n", 7, None), ("", 7, None), ("6\n", 7, Some(0))] {
            assert_eq!(part_of(most, reserve), part, "{most}");
        }
    }

    /// An administrator may have set lower limits for the unit.
    #[test]
    fn a_service_without_room_for_commands_reports_it() {
        let base = tempfile::TempDir::new().unwrap();
        let write = |name: &str, text: &str| fs::write(base.path().join(name), text).unwrap();
        write("memory.max", "67108864\n");
        let leaves = Arc::new(Leaves {
            base: base.path().into(),
            next: AtomicU64::new(0),
            left: Mutex::default(),
        });
        // In a cgroup these files exist from the beginning. Here they are created.
        fs::create_dir(base.path().join("command-0")).unwrap();
        write("command-0/memory.max", "max\n");
        let leaf = Leaf {
            leaves: Arc::clone(&leaves),
            directory: base.path().join("command-0"),
        };
        let error = leaf.bound().unwrap_err();
        assert!(
            error.to_string().contains("memory.max is 67108864"),
            "{error}"
        );
        write("memory.max", "402653184\n");
        leaf.bound().unwrap();
        let limit = fs::read_to_string(leaf.directory.join("memory.max")).unwrap();
        assert_eq!(limit, (80 << 20).to_string());
    }
}
