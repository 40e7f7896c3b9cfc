// SPDX-License-Identifier: GPL-2.0-only

//! Asks VMMs for the names of their VMs, beside the daemon's loop.
//!
//! A VMM may withhold its command line, and a thread that reads it then waits for as long as the
//! VMM lives. The number of such threads has a bound for each user, so that no user's VMs keep the
//! VMs of others from being named.

use ddvm::Vmm;
use std::{collections::BTreeMap, path::PathBuf};
use tokio::sync::mpsc;

/// Most threads that read command lines of one user's processes.
const MOST_OF_A_USER: usize = 16;

/// A VM to be named, by number and process, with what the kernel says of the process.
type Unnamed = (u32, u32, Vmm);

/// Questions under way.
#[derive(Debug)]
pub struct Names {
    proc: PathBuf,
    sender: mpsc::UnboundedSender<Unnamed>,
    receiver: mpsc::UnboundedReceiver<Unnamed>,
    /// Threads by user.
    asked: BTreeMap<Option<u32>, usize>,
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
            waiting: Vec::new(),
        }
    }

    /// Begins to ask for the names of a VM. Returns what the kernel knows of its process.
    pub fn ask(&mut self, vm: u32, pid: u32) -> Vmm {
        let vmm = Vmm::of_process(&self.proc, pid);
        self.waiting.push((vm, pid, vmm.clone()));
        self.go_on();
        vmm
    }

    /// Forgets the VMs that are not there any more and have not been asked yet.
    pub fn retain(&mut self, is_there: impl Fn(u32, u32) -> bool) {
        self.waiting.retain(|(vm, pid, _)| is_there(*vm, *pid));
        self.go_on();
    }

    /// Waits for the next answer: number and process of a VM, and its names. Nothing is lost if the
    /// future is dropped.
    pub async fn next(&mut self) -> (u32, u32, Vmm) {
        let answer = self.receiver.recv().await;
        let Some((vm, pid, vmm)) = answer else {
            // This structure holds a sender, so the channel does not end.
            return std::future::pending().await;
        };
        if let Some(asked) = self.asked.get_mut(&vmm.uid) {
            *asked -= 1;
        }
        self.asked.retain(|_, asked| *asked > 0);
        self.go_on();
        (vm, pid, vmm)
    }

    /// Asks as many VMMs as may be asked now.
    fn go_on(&mut self) {
        let mut later = Vec::new();
        for (vm, pid, vmm) in std::mem::take(&mut self.waiting) {
            let asked = self.asked.entry(vmm.uid).or_default();
            if *asked >= MOST_OF_A_USER {
                later.push((vm, pid, vmm));
                continue;
            }
            let sender = self.sender.clone();
            // Fails if the daemon has ended.
            let answer = move |vmm| drop(sender.send((vm, pid, vmm)));
            match Vmm::ask(&self.proc, pid, vmm.clone(), answer) {
                Ok(()) => *asked += 1,
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
    fn process(proc: &Path, pid: u32, uid: u32, is_mute: bool) {
        let process = proc.join(pid.to_string());
        fs::create_dir(&process).unwrap();
        fs::write(process.join("status"), format!("Uid:\t{uid}\n")).unwrap();
        let line = process.join("cmdline");
        match is_mute {
            true => mkfifoat(CWD, &line, Mode::RWXU).unwrap(),
            false => fs::write(&line, format!("qemu\0-name\0vm{pid}\0")).unwrap(),
        }
    }

    #[tokio::test]
    async fn a_user_does_not_hold_up_others() {
        let proc = TempDir::new().unwrap();
        for pid in 1..=20 {
            process(proc.path(), pid, 1000, true);
        }
        process(proc.path(), 30, 107, false);
        process(proc.path(), 31, 1000, false);
        let mut names = Names::new(proc.path().into());
        for pid in (1..=20).chain([31, 30]) {
            names.ask(pid, pid);
        }
        assert_eq!(names.waiting.len(), 5);
        let (vm, _, vmm) = names.next().await;
        assert_eq!((vm, vmm.name.as_deref()), (30, Some("vm30")));
        // Opening a pipe waits for its reader, which then finds the pipe empty.
        for pid in 1..=20 {
            let line = proc.path().join(format!("{pid}/cmdline"));
            thread::spawn(move || fs::OpenOptions::new().write(true).open(line).unwrap());
        }
        let mut answered = BTreeSet::new();
        while answered.len() < 21 {
            answered.insert(names.next().await.0);
        }
        assert!(names.waiting.is_empty() && names.asked.is_empty());
    }
}
