// SPDX-License-Identifier: GPL-2.0-only

//! Command lines of VMMs.

use super::Vmm;
use std::path::Path;

/// Maximum number of bytes of a name. Longer names are ignored.
const MAX_NAME_LEN: usize = 255;

/// Returns the program and the names of a command line.
pub(super) fn names(words: &[String]) -> Vmm {
    let Some(program) = words.first().filter(|program| !program.is_empty()) else {
        return Vmm::default();
    };
    let program = file_name(program);
    let options = Options(&words[1..]);
    let (name, uuid) = if program.contains("firecracker") {
        let jail = || jail_name(&options.value("--api-sock")?);
        (options.value("--id").or_else(jail), None)
    } else if program.contains("cloud-hypervisor") {
        let socket = options.value("--api-socket");
        let platform = options.value("--platform");
        let uuid = platform.as_deref().and_then(platform_uuid);
        (socket.as_deref().map(socket_name), uuid)
    } else if program.contains("crosvm") || program.contains("lkvm") {
        (options.value("--name"), None)
    } else {
        let name = options.value("-name").or_else(|| options.value("--name"));
        let uuid = options.value("-uuid").or_else(|| options.value("--uuid"));
        (name.as_deref().map(qemu_name), uuid)
    };
    Vmm {
        program: Some(program),
        name: name.filter(|name| !name.is_empty() && name.len() <= MAX_NAME_LEN),
        uuid,
        ..Vmm::default()
    }
}

struct Options<'a>(&'a [String]);

impl Options<'_> {
    /// Returns the value of `option value` or `option=value`.
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

/// Returns the name in a value of QEMU's option `-name`, such as `guest=web,debug-threads=on` or
/// `web,process=x`. A comma in the name is doubled.
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

/// Names of sockets that programs use for any VM. The directory of such a socket is the VM's.
const ANY_SOCKET: [&str; 5] = ["api", "ch", "clh-api", "cloud-hypervisor", "socket"];

/// Returns the name of a VM that follows from the path of its API socket: `path=/run/web.sock` or
/// `/run/web.sock`, as administrators write it; `/run/libvirt/ch/web-socket`, as libvirt does;
/// `/run/vc/vm/web/clh-api.sock`, as Kata does.
fn socket_name(value: &str) -> String {
    let path = value
        .split(',')
        .find_map(|part| part.strip_prefix("path="))
        .unwrap_or(value);
    let path = Path::new(path);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.parent().and_then(Path::file_name) {
        Some(directory) if ANY_SOCKET.contains(&&*stem) => directory.to_string_lossy(),
        _ => stem,
    };
    name.strip_suffix("-socket").unwrap_or(&name).into()
}

/// Returns the name of a VM whose socket is in a jail, such as
/// `/run/vc/firecracker/web/root/run/firecracker.socket`. The jailer passes the name by `--id`, but
/// Kata without the jailer does not, and keeps the files of a VM where the jailer would.
fn jail_name(socket: &str) -> Option<String> {
    let root = Path::new(socket).parent()?.parent()?;
    let jail = root.parent().filter(|_| root.ends_with("root"))?;
    Some(jail.file_name()?.to_string_lossy().into())
}

/// Returns the uuid in a value such as `serial_number=1,uuid=UUID`.
fn platform_uuid(value: &str) -> Option<String> {
    let uuid = value.split(',').find_map(|part| part.strip_prefix("uuid="));
    uuid.map(Into::into)
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
        let vmm = super::names(&words);
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
        assert_eq!(name("firecracker --api-sock /run/web.socket"), None);
        assert_eq!(name("firecracker --api-sock root/run/web.socket"), None);
        assert_eq!(name("firecracker --api-sock x"), None);
    }

    /// Kata names a VM after its sandbox; Firecracker's name has at most 32 characters.
    #[test]
    fn kata() {
        const ID: &str = "7f3a0c5d9e1b4f6a8c2d0e4f6a8b1c3d";
        let qemu = format!(
            "/usr/bin/qemu-system-x86_64 -name sandbox-{ID}{ID},debug-threads=on -uuid \
             1f5b0b7c-9f0c-4a8f-8d6a-2b6f0e6a7c11 -machine q35,accel=kvm,nvdimm=on -cpu host"
        );
        let uuid = "1f5b0b7c-9f0c-4a8f-8d6a-2b6f0e6a7c11";
        let sandbox = format!("sandbox-{ID}{ID}");
        assert_eq!(names(&qemu), (Some(sandbox), Some(uuid.into())));
        // With the jailer, and without.
        for command in [
            format!("/firecracker --id={ID} --start-time-us=71 --config-file /fcConfig.json"),
            format!(
                "/usr/bin/firecracker --api-sock /run/vc/firecracker/{ID}/root/run/\
                 firecracker.socket --config-file /run/vc/firecracker/{ID}/root/fcConfig.json"
            ),
        ] {
            assert_eq!(names(&command), (Some(ID.into()), None), "{command}");
        }
    }

    #[test]
    fn crosvm_and_kvmtool() {
        let crosvm = "/usr/bin/crosvm run --name web --cpus 2 --block root.img vmlinux";
        assert_eq!(names(crosvm), (Some("web".into()), None));
        assert_eq!(name("crosvm run --name=db vmlinux"), Some("db".into()));
        assert_eq!(name("crosvm run --cpus 2 vmlinux"), None);
        let lkvm = "lkvm run --name mail --cpus 2 --kernel bzImage";
        assert_eq!(names(lkvm), (Some("mail".into()), None));
        assert_eq!(
            name("/usr/bin/lkvm-static run --name=a,b"),
            Some("a,b".into())
        );
        assert_eq!(name("lkvm run -c 2"), None);
        // kvmtool's other name for itself.
        assert_eq!(name("vm run --name proxy"), Some("proxy".into()));
    }

    #[test]
    fn cloud_hypervisor() {
        let command = "cloud-hypervisor --api-socket path=/run/ch/mail.sock --cpus boot=2";
        assert_eq!(name(command), Some("mail".into()));
        let command = "cloud-hypervisor --api-socket=/run/ch/proxy.sock";
        assert_eq!(name(command), Some("proxy".into()));
        // The first command is libvirt's, and the second one Kata's.
        let command = "cloud-hypervisor --api-socket path=/run/libvirt/ch/web-socket";
        assert_eq!(name(command), Some("web".into()));
        let command = "cloud-hypervisor --api-socket /run/vc/vm/7f3a/clh-api.sock";
        assert_eq!(name(command), Some("7f3a".into()));
        let command = "cloud-hypervisor --api-socket api.sock --platform serial_number=1,uuid=ab";
        assert_eq!(names(command), (Some("api".into()), Some("ab".into())));
    }

    #[test]
    fn an_empty_command_line() {
        assert_eq!(super::names(&[]), Vmm::default());
        assert_eq!(super::names(&[String::new()]), Vmm::default());
    }
}
