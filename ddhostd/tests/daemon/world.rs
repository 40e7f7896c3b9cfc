// SPDX-License-Identifier: GPL-2.0-only

//! A host in memory, with processes in a directory.

use ddabi::pool::{PoolStats, Store};
use ddhostd::runtime::Paths;
use ddnl::{
    Pool, Vm,
    fake::{self, FakeHost},
};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

/// A host with 8 GiB of memory and without VMs.
pub(crate) struct World {
    pub(crate) host: FakeHost,
    pub(crate) root: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let world = Self {
            host: FakeHost::default(),
            root: TempDir::new().unwrap(),
        };
        world.write("proc/meminfo", "MemTotal:        8388608 kB\n");
        world
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub(crate) fn paths(&self) -> Paths {
        Paths {
            proc: self.path("proc"),
            sys: self.path("sys"),
            root: self.root.path().into(),
        }
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Registers a VM with the module's default weight.
    pub(crate) fn register(&self, id: u32, name: &str) {
        let pid = 4000 + id;
        self.write(
            &format!("proc/{pid}/cmdline"),
            &format!("qemu\0-name\0{name}\0"),
        );
        self.write(&format!("proc/{pid}/status"), "Uid:\t107\t107\n");
        let cgroup = format!("0::/machine.slice/{name}.scope/emulator\n");
        self.write(&format!("proc/{pid}/cgroup"), &cgroup);
        let vm = Vm {
            id,
            pid,
            weight: 100,
            ssd_weight: 100,
            used: 0,
            entitlement: 0,
            pools: 1,
            stats: PoolStats::default(),
        };
        self.host.with(|state| state.vms.push(vm));
    }

    /// Returns the weights of all VMs.
    pub(crate) fn weights(&self) -> Vec<u32> {
        let vms = self.host.with(|state| state.vms.clone());
        vms.iter().map(|vm| vm.weight).collect()
    }
}

/// A container with five hits of six gets.
pub(crate) fn pool(vm: u32, id: u32, name: &str, store: Store) -> Pool {
    let stats = PoolStats {
        hits: 5,
        gets: 6,
        ..PoolStats::default()
    };
    Pool {
        store,
        ..fake::pool(vm, id, name, stats)
    }
}
