// SPDX-License-Identifier: GPL-2.0-only

//! Asks VMMs for the names of their VMs, beside the daemon's loop.
//!
//! A VMM may withhold its command line, and a thread that reads it then waits for as long as the
//! VMM lives. The number of such threads has a bound for each user and for each part of the cgroup
//! tree, so that no user's VMs keep the VMs of others from being named. The cgroup counts because a
//! user may have thousands of subordinate users, but all their processes are below the user's
//! slice.

use ddvm::Vmm;
use std::{collections::BTreeMap, path::PathBuf};
use tokio::sync::mpsc;

/// Maximum number of threads that read command lines of one user's processes, or of those in one
/// part of the cgroup tree.
const MAX_OF_ONE: usize = 16;
/// Maximum number of threads altogether. The unit allows more (`TasksMax`).
const MAX_THREADS: usize = 960;
/// Number of these threads that only users and parts without a thread get.
const RESERVE: usize = 128;

/// A VM to be named, by number and process, with what the kernel says of the process.
type Unnamed = (u32, u32, Vmm);

/// The origin of a process.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Origin {
    /// Its user, if it is known.
    User(Option<u32>),
    /// The first two components of its cgroup, such as `/user.slice/user-1000.slice`.
    Slice(String),
}

/// Returns the origins of a process.
fn origins(vmm: &Vmm) -> [Origin; 2] {
    let cgroup = vmm.cgroup.as_deref().unwrap_or_default();
    let end = cgroup.match_indices('/').nth(2).map(|(at, _)| at);
    let slice = &cgroup[..end.unwrap_or(cgroup.len())];
    [Origin::User(vmm.uid), Origin::Slice(slice.into())]
}

/// Questions under way.
#[derive(Debug)]
pub struct Names {
    proc: PathBuf,
    sender: mpsc::UnboundedSender<Unnamed>,
    receiver: mpsc::UnboundedReceiver<Unnamed>,
    /// Threads by origin. Each thread counts for its user and for its part of the cgroup tree.
    asked: BTreeMap<Origin, usize>,
    /// Number of threads.
    threads: usize,
    waiting: Vec<Unnamed>,
}

impl Names {
    /// Reads below a directory, which is `/proc`.
    pub fn new(proc: PathBuf) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self {
            proc,
            sender,
            receiver,
            asked: BTreeMap::new(),
            threads: 0,
            waiting: Vec::new(),
        }
    }

    /// Begins to ask for the names of a VM. Returns what the kernel knows of its process.
    pub fn ask(&mut self, vm: u32, pid: u32) -> Vmm {
        let vmm = Vmm::of_process(&self.proc, pid);
        self.waiting.push((vm, pid, vmm.clone()));
        self.ask_more();
        vmm
    }

    /// Forgets the VMs that are not there any more and have not been asked yet.
    pub fn retain(&mut self, is_there: impl Fn(u32, u32) -> bool) {
        self.waiting.retain(|(vm, pid, _)| is_there(*vm, *pid));
        self.ask_more();
    }

    /// Waits for the next answer: number and process of a VM, and its names. Nothing is lost if the
    /// future is dropped.
    pub async fn next(&mut self) -> (u32, u32, Vmm) {
        let Some(answer) = self.receiver.recv().await else {
            // This structure holds a sender, so the channel does not end.
            return std::future::pending().await;
        };
        self.answered(answer)
    }

    /// Returns the next answer, if there is one already.
    pub fn next_now(&mut self) -> Option<(u32, u32, Vmm)> {
        let answer = self.receiver.try_recv().ok()?;
        Some(self.answered(answer))
    }

    /// Notes that a thread has ended.
    fn answered(&mut self, (vm, pid, vmm): Unnamed) -> Unnamed {
        for origin in origins(&vmm) {
            if let Some(asked) = self.asked.get_mut(&origin) {
                *asked -= 1;
            }
        }
        self.asked.retain(|_, asked| *asked > 0);
        self.threads -= 1;
        self.ask_more();
        (vm, pid, vmm)
    }

    /// Asks as many VMMs as may be asked now.
    fn ask_more(&mut self) {
        let mut later = Vec::new();
        for (vm, pid, vmm) in std::mem::take(&mut self.waiting) {
            let origins = origins(&vmm);
            let asked = |origin| self.asked.get(origin).copied().unwrap_or_default();
            let of_one = origins.iter().map(asked).max().unwrap_or_default();
            let limit = match of_one {
                0 => MAX_THREADS,
                _ => MAX_THREADS - RESERVE,
            };
            if of_one >= MAX_OF_ONE || self.threads >= limit {
                later.push((vm, pid, vmm));
                continue;
            }
            let sender = self.sender.clone();
            // Fails if the daemon has ended.
            let answer = move |vmm| drop(sender.send((vm, pid, vmm)));
            match Vmm::ask(&self.proc, pid, vmm.clone(), answer) {
                Ok(()) => {
                    self.threads += 1;
                    for origin in origins {
                        *self.asked.entry(origin).or_default() += 1;
                    }
                }
                // No thread can be started. The VM is asked when another thread ends, or at the
                // next look.
                Err(_) => later.push((vm, pid, vmm)),
            }
        }
        self.waiting = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mkfifoat};
    use std::{collections::BTreeSet, fs, path::Path, thread};
    use tempfile::TempDir;

    /// Creates a process of a user. Its command line is a pipe that blocks readers if `is_mute`.
    fn process(proc: &Path, pid: u32, uid: u32, slice: &str, is_mute: bool) {
        let process = proc.join(pid.to_string());
        fs::create_dir(&process).unwrap();
        fs::write(process.join("status"), format!("Uid:\t{uid}\n")).unwrap();
        let cgroup = format!("0::{slice}/{pid}.scope/vm\n");
        fs::write(process.join("cgroup"), cgroup).unwrap();
        let line = process.join("cmdline");
        match is_mute {
            true => mkfifoat(CWD, &line, Mode::RWXU).unwrap(),
            false => fs::write(&line, format!("qemu\0-name\0vm{pid}\0")).unwrap(),
        }
    }

    /// Lets mute processes show an empty command line.
    fn open(proc: &Path, pids: impl Iterator<Item = u32>) {
        for pid in pids {
            let line = proc.join(format!("{pid}/cmdline"));
            // Opening a pipe waits for its reader, which then finds the pipe empty.
            thread::spawn(move || fs::OpenOptions::new().write(true).open(line).unwrap());
        }
    }

    #[tokio::test]
    async fn a_user_does_not_hold_up_others() {
        let proc = TempDir::new().unwrap();
        for pid in 1..=20 {
            // Each is in another part of the tree.
            process(proc.path(), pid, 1000, &format!("/{pid}.slice"), true);
        }
        process(proc.path(), 30, 107, "/machine.slice", false);
        process(proc.path(), 31, 1000, "/machine.slice", false);
        let mut names = Names::new(proc.path().into());
        for pid in (1..=20).chain([31, 30]) {
            names.ask(pid, pid);
        }
        assert_eq!(names.waiting.len(), 5);
        let (vm, _, vmm) = names.next().await;
        assert_eq!((vm, vmm.name.as_deref()), (30, Some("vm30")));
        open(proc.path(), 1..=20);
        let mut answered = BTreeSet::new();
        while answered.len() < 21 {
            answered.insert(names.next().await.0);
        }
        assert!(names.waiting.is_empty() && names.asked.is_empty());
        assert_eq!(names.threads, 0);
        assert_eq!(names.next_now(), None);
    }

    /// A user has 65536 subordinate users (`/etc/subuid`), and processes of them in its own slice.
    #[tokio::test]
    async fn subordinate_users_count_as_one() {
        let proc = TempDir::new().unwrap();
        let slice = "/user.slice/user-1000.slice";
        for pid in 1..=100 {
            process(proc.path(), pid, 100_000 + pid, slice, true);
        }
        process(proc.path(), 200, 107, "/machine.slice", false);
        let mut names = Names::new(proc.path().into());
        for pid in (1..=100).chain([200]) {
            names.ask(pid, pid);
        }
        assert_eq!((names.threads, names.waiting.len()), (17, 84));
        assert_eq!(names.next().await.0, 200);
        open(proc.path(), 1..=100);
        for _ in 1..=100 {
            names.next().await;
        }
        assert!(names.asked.is_empty());
    }

    /// Many users cannot take all threads together.
    #[tokio::test]
    async fn some_threads_are_reserved_for_users_without_one() {
        let vmm = |uid: u32| Vmm {
            uid: Some(uid),
            cgroup: Some(format!("/user.slice/user-{uid}.slice/vm")),
            ..Vmm::default()
        };
        let proc = TempDir::new().unwrap();
        let mut names = Names::new(proc.path().into());
        names.threads = MAX_THREADS - RESERVE;
        names.asked.insert(Origin::User(Some(1)), 1);
        names.waiting = vec![(1, 0, vmm(1)), (2, 0, vmm(2))];
        names.ask_more();
        assert_eq!(names.waiting.len(), 1);
        assert_eq!(names.next().await.0, 2);
        names.threads = MAX_THREADS;
        names.waiting = vec![(3, 0, vmm(3))];
        names.ask_more();
        assert_eq!(names.waiting.len(), 1);
    }
}
