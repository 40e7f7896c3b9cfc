// SPDX-License-Identifier: GPL-2.0-only

//! The plan: VMs, their containers, and the loads of these.

use ddlab::{DiskConfig, FileSpec, Format, GuestConfig, HostCache, Throttle};
use ddload::Load;

/// Mount point of the disk in a VM. A container's files are in the directory of its name.
const MOUNT: &str = "/data";

/// The disk of every VM, like that of a small cloud volume and slowed down like the emulated
/// processors, for which one request to a disk already costs much.
pub(crate) const DISK: Throttle = Throttle {
    iops: Some(50),
    bytes_per_s: Some(25_000_000),
};

/// A VM with one throttled disk.
#[derive(Clone, Debug)]
pub(crate) struct VmPlan {
    pub(crate) name: &'static str,
    pub(crate) memory_mib: u64,
    pub(crate) vcpus: u32,
    pub(crate) disk: Throttle,
    pub(crate) host_settings: HostSettings,
    pub(crate) containers: Vec<ContainerPlan>,
}

/// Settings of the host for a VM.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostSettings {
    /// Use of the host's page cache for the disk.
    pub(crate) cache: HostCache,
    /// The host's cgroup for its VMM.
    pub(crate) cgroup: Option<&'static str>,
    /// Whether its memory is allocated completely at its start.
    pub(crate) populated: bool,
}

/// A container and the load in it.
#[derive(Clone, Debug)]
pub(crate) struct ContainerPlan {
    pub(crate) name: &'static str,
    /// Its memory limit. Data beyond it goes through the cache.
    pub(crate) memory_mib: u64,
    /// Returns the load for a directory.
    pub(crate) load: fn(&str) -> Load,
}

impl VmPlan {
    /// Returns the guest without its disk.
    pub(crate) fn guest(&self) -> GuestConfig {
        GuestConfig {
            cgroup: self.host_settings.cgroup.map(str::to_owned),
            populated: self.host_settings.populated,
            ..GuestConfig::new(self.name)
                .memory_mib(self.memory_mib)
                .vcpus(self.vcpus)
        }
    }

    /// Returns the disk with all containers' files on it.
    pub(crate) fn disk(&self) -> DiskConfig {
        let files: Vec<FileSpec> = self.containers.iter().flat_map(files).collect();
        let bytes: u64 = files.iter().map(|file| file.len).sum();
        DiskConfig {
            name: "data".to_owned(),
            // There is room for logs, new files and metadata.
            size_mib: (bytes >> 20) * 3 / 2 + 256,
            format: Format::Ext4,
            files,
        }
    }

    pub(crate) fn mount_point(&self) -> &'static str {
        MOUNT
    }
}

impl ContainerPlan {
    pub(crate) fn load(&self) -> Load {
        (self.load)(&format!("{MOUNT}/{}", self.name))
    }
}

fn files(container: &ContainerPlan) -> Vec<FileSpec> {
    let sets = container.load().sets();
    let present = sets.iter().flat_map(|set| set.files());
    (1..)
        .zip(present.filter(|file| file.present))
        .map(|(number, file)| {
            let path = file.path.display().to_string();
            let below = path.trim_start_matches(MOUNT).trim_start_matches('/');
            // Contents differ, so that an exchange is noticed.
            FileSpec::new(below, file.len, number)
        })
        .collect()
}

/// Returns a throttle in words.
pub(crate) fn describe(disk: Throttle) -> String {
    let mut words = Vec::new();
    if let Some(iops) = disk.iops {
        words.push(format!("{iops} IOPS"));
    }
    if let Some(bytes) = disk.bytes_per_s {
        words.push(format!("{} MB/s", bytes / 1_000_000));
    }
    match words.is_empty() {
        true => "unlimited".to_owned(),
        false => words.join(" and "),
    }
}

#[cfg(test)]
mod tests {
    use ddload::Profile;

    use super::*;

    #[test]
    fn the_disk_holds_the_files_of_all_containers() {
        let container = |name| ContainerPlan {
            name,
            memory_mib: 16,
            load: |dir| Load::new(Profile::Webserver, dir).files(10),
        };
        let vm = VmPlan {
            name: "vm",
            memory_mib: 256,
            vcpus: 1,
            disk: DISK,
            host_settings: HostSettings::default(),
            containers: vec![container("a"), container("b")],
        };
        let disk = vm.disk();
        assert_eq!(disk.files.len(), 20);
        assert_eq!(disk.files[10].path, "b/files/0000/000000");
        assert_eq!(describe(vm.disk), "50 IOPS and 25 MB/s");
    }
}
