// SPDX-License-Identifier: GPL-2.0-only

//! Names of a VM, read from the process of its VMM.

mod command_line;

use ddnl::printable;
use serde::Serialize;
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

/// Names of a VM, and the user and the cgroup of its VMM's process. The names are not trusted,
/// because any user who may open /dev/kvm chooses the command line of a VMM. The user and the
/// cgroup come from the kernel.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Vmm {
    /// The program, such as `qemu-system-x86_64`.
    #[serde(rename = "vmm")]
    pub program: Option<String>,
    /// The VM's name.
    pub name: Option<String>,
    /// The VM's uuid.
    pub uuid: Option<String>,
    /// The user that the process runs as.
    pub uid: Option<u32>,
    /// The cgroup of the process below the root of cgroup v2, beginning with a slash.
    pub cgroup: Option<String>,
    /// Whether the process exists but its command line could not be read within [`PATIENCE`].
    #[serde(skip)]
    pub silent: bool,
}

/// The most bytes that are read of a file of the process.
const MAX_BYTES: u64 = 64 << 10;
/// Memory for the stack of a thread that reads.
const STACK: usize = 128 << 10;
/// The longest wait for a command line. The kernel reads it from the memory of its process: a user
/// can withhold that (userfaultfd), and on a busy host the read can wait for seconds for the lock
/// of an address space that is faulting.
pub const PATIENCE: Duration = Duration::from_secs(5);

impl Vmm {
    /// Reads the names of these processes below `proc`, which is `/proc`, within [`PATIENCE`]
    /// altogether. A process that is gone has no names; one whose command line cannot be read in
    /// time is marked as silent.
    pub fn all(proc: &Path, pids: impl Iterator<Item = u32>) -> Vec<Self> {
        let ask = |pid| {
            let (sender, receiver) = channel();
            let process = Self::of_process(proc, pid);
            // Fails if the receiver has given up waiting.
            let answer = move |vmm| drop(sender.send(vmm));
            // If no thread can be started, the VM has no name.
            let _ = Self::ask(proc, pid, process.clone(), answer);
            (process, receiver)
        };
        let asked: Vec<(Self, Receiver<Self>)> = pids.map(ask).collect();
        let end = Instant::now() + PATIENCE;
        let answer = |(process, vmm): (Self, Receiver<Self>)| {
            let left = end.saturating_duration_since(Instant::now());
            vmm.recv_timeout(left).unwrap_or_else(|error| Self {
                silent: error == RecvTimeoutError::Timeout,
                ..process
            })
        };
        asked.into_iter().map(answer).collect()
    }

    /// Reads the user and the cgroup of a process, which the kernel knows itself. It does not wait
    /// for the process.
    pub fn of_process(proc: &Path, pid: u32) -> Self {
        // 0 stands for a process that is gone.
        if pid == 0 {
            return Self::default();
        }
        let read = |file: &str| {
            let bytes = bounded(&proc.join(format!("{pid}/{file}"))).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        // The owner of /proc/PID is not used, because it is root if the process is not dumpable.
        let status = read("status");
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let cgroups = read("cgroup");
        let cgroup = cgroups.lines().find_map(|line| line.strip_prefix("0::"));
        Self {
            uid: uid.and_then(|ids| ids.split_whitespace().next()?.parse().ok()),
            cgroup: cgroup.map(Into::into),
            ..Self::default()
        }
    }

    /// Adds the names of a process in a thread, which passes the result to `answer` at some time,
    /// or never if the process withholds them. Fails if no thread can be started.
    pub fn ask(
        proc: &Path,
        pid: u32,
        process: Self,
        answer: impl FnOnce(Self) + Send + 'static,
    ) -> io::Result<()> {
        let line = proc.join(format!("{pid}/cmdline"));
        let read = move || {
            let words = match pid {
                0 => Vec::new(),
                _ => words(&line).unwrap_or_default(),
            };
            answer(Self {
                uid: process.uid,
                cgroup: process.cgroup,
                ..command_line::names(&words)
            });
        };
        let thread = thread::Builder::new().stack_size(STACK).spawn(read);
        thread.map(drop)
    }
}

/// Reads a command line. Control and invisible characters are replaced.
fn words(line: &Path) -> io::Result<Vec<String>> {
    let line = bounded(line)?;
    let words = line.split(|byte| *byte == 0);
    Ok(words
        .map(|word| printable(&String::from_utf8_lossy(word)).into_owned())
        .collect())
}

fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn names_user_and_cgroup_are_read() {
        let proc = tempfile::TempDir::new().unwrap();
        let process = proc.path().join("7");
        fs::create_dir(&process).unwrap();
        let [one, gone] = [7, 8];
        fs::write(process.join("cmdline"), "qemu\0-name\0web\0").unwrap();
        fs::write(process.join("status"), "Name:\tq\nUid:\t64055\t0\t0\t0\n").unwrap();
        let cgroup = "3:cpu:/x\n0::/machine.slice/web.scope/libvirt\n";
        fs::write(process.join("cgroup"), cgroup).unwrap();
        let vmm = Vmm {
            program: Some("qemu".into()),
            name: Some("web".into()),
            uid: Some(64055),
            cgroup: Some("/machine.slice/web.scope/libvirt".into()),
            ..Vmm::default()
        };
        let all = Vmm::all(proc.path(), [one, gone, 0].into_iter());
        assert_eq!(all, [vmm, Vmm::default(), Vmm::default()]);
    }
}
