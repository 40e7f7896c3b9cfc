// SPDX-License-Identifier: GPL-2.0-only

//! Names of a VM, read from the command line of its VMM's process.

use crate::{output::printable, system::System};
use serde::Serialize;
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

/// Names of a VM, and the user of its VMM's process. The names are not trusted: any user who may
/// open /dev/kvm chooses the command line of a VMM.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub(crate) struct Vmm {
    /// The program, such as `qemu-system-x86_64`.
    #[serde(rename = "vmm")]
    pub(crate) program: Option<String>,
    /// The VM's name.
    pub(crate) name: Option<String>,
    /// The VM's uuid.
    pub(crate) uuid: Option<String>,
    /// The user that the process runs as.
    pub(crate) uid: Option<u32>,
    /// Whether the process exists but its command line could not be read within [`PATIENCE`].
    #[serde(skip)]
    pub(crate) silent: bool,
}

/// The most bytes that are read of a command line or a status file.
const MOST_BYTES: u64 = 64 << 10;
/// The most bytes of a name. A longer one is ignored.
const LONGEST: usize = 255;
/// How long ddctl waits for the command lines of all VMMs together. The kernel reads a command line
/// from the memory of its process: a user may withhold that (userfaultfd), and on a busy host the
/// read waits for the lock of an address space that is faulting, for seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

impl Vmm {
    /// Reads the names of these processes. A process that is gone has no names; one whose command
    /// line does not come in time is marked as silent.
    pub(crate) fn all(system: &dyn System, pids: impl Iterator<Item = u32>) -> Vec<Self> {
        let asked: Vec<Receiver<Self>> = pids.map(|pid| Self::ask(system, pid)).collect();
        let end = Instant::now() + PATIENCE;
        let answer = |vmm: Receiver<Self>| {
            let left = end.saturating_duration_since(Instant::now());
            vmm.recv_timeout(left).unwrap_or_else(|error| Self {
                silent: error == RecvTimeoutError::Timeout,
                ..Self::default()
            })
        };
        asked.into_iter().map(answer).collect()
    }

    fn ask(system: &dyn System, pid: u32) -> Receiver<Self> {
        let (sender, receiver) = channel();
        let [line, status] = ["cmdline", "status"].map(|file| format!("/proc/{pid}/{file}"));
        let (line, status) = (system.file(&line), system.file(&status));
        let read = move || {
            let vmm = Self::read(&line, &status).unwrap_or_default();
            // Fails if the receiver has given up waiting.
            let _ = sender.send(vmm);
        };
        // 0 stands for a process that is gone. If no thread can be started, the VM has no name.
        if pid != 0 {
            let _ = thread::Builder::new().spawn(read);
        }
        receiver
    }

    fn read(line: &Path, status: &Path) -> io::Result<Self> {
        // The owner of /proc/PID is no substitute: it is root if the process is not dumpable.
        let status = bounded(status).unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let uid = uid.and_then(|ids| ids.split_whitespace().next()?.parse().ok());
        let words: Vec<String> = bounded(line)?
            .split(|byte| *byte == 0)
            .map(|word| printable(&String::from_utf8_lossy(word)))
            .collect();
        Ok(Self {
            uid,
            ..Self::from_arguments(&words)
        })
    }

    fn from_arguments(words: &[String]) -> Self {
        let Some(program) = words.first().filter(|program| !program.is_empty()) else {
            return Self::default();
        };
        let program = file_name(program);
        let options = Options(&words[1..]);
        let (name, uuid) = if program.contains("firecracker") {
            (options.value("--id"), None)
        } else if program.contains("cloud-hypervisor") {
            let socket = options.value("--api-socket");
            (socket.as_deref().map(socket_name), None)
        } else if program.contains("crosvm") || program.contains("lkvm") {
            (options.value("--name"), None)
        } else {
            let name = options.value("-name").or_else(|| options.value("--name"));
            let uuid = options.value("-uuid").or_else(|| options.value("--uuid"));
            (name.as_deref().map(qemu_name), uuid)
        };
        Self {
            program: Some(program),
            name: name.filter(|name| !name.is_empty() && name.len() <= LONGEST),
            uuid,
            ..Self::default()
        }
    }
}

fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

struct Options<'a>(&'a [String]);

impl Options<'_> {
    /// The value of `option value` or `option=value`.
    fn value(&self, option: &str) -> Option<String> {
        self.0.iter().enumerate().find_map(|(index, word)| {
            let rest = word.strip_prefix(option)?;
            if rest.is_empty() {
                self.0.get(index + 1).cloned()
            } else {
                rest.strip_prefix('=').map(Into::into)
            }
        })
    }
}

/// `guest=web,debug-threads=on` or `web,process=x`; a comma in the name is doubled.
fn qemu_name(value: &str) -> String {
    let value = value.replace(",,", "\0");
    let mut parts = value.split(',');
    let first = parts.next().unwrap_or_default();
    let name = value
        .split(',')
        .find_map(|part| part.strip_prefix("guest="))
        .unwrap_or(first);
    name.replace('\0', ",")
}

/// `path=/run/web.sock` or `/run/web.sock`.
fn socket_name(value: &str) -> String {
    let path = value
        .split(',')
        .find_map(|part| part.strip_prefix("path="))
        .unwrap_or(value);
    let stem = Path::new(path).file_stem();
    stem.map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_else(|| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(command: &str) -> (Option<String>, Option<String>) {
        let words: Vec<String> = command.split(' ').map(Into::into).collect();
        let vmm = Vmm::from_arguments(&words);
        (vmm.name, vmm.uuid)
    }

    fn name(command: &str) -> Option<String> {
        names(command).0
    }

    #[test]
    fn qemu_and_libvirt() {
        let libvirt = "/usr/bin/qemu-system-x86_64 -name guest=web,debug-threads=on -S -uuid 1234";
        assert_eq!(names(libvirt), (Some("web".into()), Some("1234".into())));
        assert_eq!(name("qemu-system-x86_64 -name db -m 1G"), Some("db".into()));
        assert_eq!(name("qemu --name process=x,guest=a,,b"), Some("a,b".into()));
        assert_eq!(name("qemu-system-x86_64 -m 1G"), None);
        assert_eq!(name("qemu-system-x86_64 -name"), None);
    }

    #[test]
    fn firecracker() {
        assert_eq!(name("/srv/firecracker --id vm7"), Some("vm7".into()));
        assert_eq!(name("firecracker --id=vm8 --no-api"), Some("vm8".into()));
    }

    #[test]
    fn cloud_hypervisor() {
        let command = "cloud-hypervisor --api-socket path=/run/ch/mail.sock --cpus boot=2";
        assert_eq!(name(command), Some("mail".into()));
        let command = "cloud-hypervisor --api-socket=/run/ch/proxy.sock";
        assert_eq!(name(command), Some("proxy".into()));
    }

    #[test]
    fn nothing_at_all() {
        assert_eq!(Vmm::from_arguments(&[]), Vmm::default());
        assert_eq!(Vmm::from_arguments(&[String::new()]), Vmm::default());
    }
}
