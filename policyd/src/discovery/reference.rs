// SPDX-License-Identifier: GPL-2.0-only

//! The runtime and the id of a container, by the path of its cgroup.

use super::{Runtime, place};

/// A container by its runtime and id, which the path of its cgroup contains.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reference {
    /// The runtime.
    pub runtime: Runtime,
    /// The id: 64 hexadecimal digits, or the name of an LXC container.
    pub id: String,
}

/// Prefixes of the runtimes' scopes in systemd.
const SCOPES: [(&str, Runtime); 6] = [
    ("cri-containerd-", Runtime::Containerd),
    ("crio-", Runtime::Crio),
    ("docker-", Runtime::Docker),
    ("libpod-", Runtime::Podman),
    ("nerdctl-", Runtime::Containerd),
    ("containerd-", Runtime::Containerd),
];

impl Reference {
    /// Returns the container of a cgroup. Cgroups within containers are not containers themselves,
    /// nor are helpers beside them (`libpod-conmon-…`), nor cgroups that a user or a service
    /// creates below its own.
    pub fn of(cgroup: &str) -> Option<Self> {
        let (way, last) = cgroup.rsplit_once('/')?;
        let of = |runtime, id: &str| {
            Some(Self {
                runtime,
                id: id.into(),
            })
        };
        if let Some(name) = lxc(way, last) {
            return of(Runtime::Lxc, name);
        }
        let in_slice = place::is_of_slices(way);
        let stem = if in_slice {
            last.strip_suffix(".scope")
        } else {
            let plain = way == "/libpod_parent" || place::is_of_kubelet(way);
            plain.then_some(last)
        };
        for (prefix, runtime) in SCOPES {
            let id = stem.and_then(|stem| stem.strip_prefix(prefix));
            if let Some(id) = id.filter(|id| is_id(id)) {
                return of(runtime, id);
            }
        }
        // containerd with a systemd driver that creates no scopes: `…slice:cri-containerd:ID`.
        if let Some((_, id)) = last.split_once(":cri-containerd:") {
            return (in_slice && is_id(id)).then(|| of(Runtime::Containerd, id))?;
        }
        if !is_id(last) {
            return None;
        }
        // Without systemd, the parent directory tells the runtime.
        match way {
            "/docker" => of(Runtime::Docker, last),
            "/libpod_parent" => of(Runtime::Podman, last),
            "/default" | "/k8s.io" => of(Runtime::Containerd, last),
            way if place::is_of_kubelet(way) => of(Runtime::Containerd, last),
            _ => None,
        }
    }

    /// Returns whether containers can be below a cgroup.
    pub fn leads(cgroup: &str) -> bool {
        place::is_of_slices(cgroup)
            || PLAIN.contains(&cgroup)
            || (place::is_of_kubelet(cgroup) && place::depth(cgroup) < place::DEEPEST)
    }
}

/// Directories below the root that belong to runtimes without systemd.
const PLAIN: [&str; 5] = ["/default", "/docker", "/k8s.io", "/libpod_parent", "/lxc"];

/// Returns the name in `/lxc.payload.NAME`, or in `/lxc/NAME` of older versions.
fn lxc<'a>(way: &str, last: &'a str) -> Option<&'a str> {
    let name = match last.strip_prefix("lxc.payload.") {
        Some(name) => place::is_of_slices(way).then_some(name)?,
        None => (way == "/lxc").then_some(last)?,
    };
    (!name.is_empty()).then_some(name)
}

/// Returns whether a text has the form of a runtime's id.
pub(super) fn is_id(text: &str) -> bool {
    const DIGITS: usize = 64;
    text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str) -> Option<(Runtime, bool)> {
        let id = "3f".repeat(32);
        let found = Reference::of(&pattern.replace("ID", &id))?;
        Some((found.runtime, found.id == id))
    }

    #[test]
    fn all_layouts_are_known() {
        for (path, runtime) in [
            ("/system.slice/docker-ID.scope", Runtime::Docker),
            ("/docker/ID", Runtime::Docker),
            ("/machine.slice/libpod-ID.scope", Runtime::Podman),
            ("/libpod_parent/libpod-ID", Runtime::Podman),
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-ID.scope",
                Runtime::Containerd,
            ),
            ("/kubepods/besteffort/pod1/ID", Runtime::Containerd),
            (
                "/system.slice/x.slice:cri-containerd:ID",
                Runtime::Containerd,
            ),
            (
                "/kubepods.slice/kubepods-pod1.slice/crio-ID.scope",
                Runtime::Crio,
            ),
            ("/system.slice/nerdctl-ID.scope", Runtime::Containerd),
            ("/default/ID", Runtime::Containerd),
        ] {
            assert_eq!(of(path), Some((runtime, true)), "{path}");
        }
        let lxc = |path| Reference::of(path).map(|found| found.id);
        assert_eq!(lxc("/lxc.payload.web").as_deref(), Some("web"));
        assert_eq!(lxc("/lxc/web").as_deref(), Some("web"));
    }

    #[test]
    fn other_cgroups_are_no_containers() {
        for path in [
            "/",
            "",
            "/system.slice/nginx.service",
            "/machine.slice/libpod-conmon-ID.scope",
            "/kubepods.slice/crio-conmon-ID.scope",
            "/system.slice/docker-ID.scope/init.scope",
            "/system.slice/docker-../../etc.scope",
            "/user/ID",
            "/lxc.payload.",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
