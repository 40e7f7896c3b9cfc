// SPDX-License-Identifier: GPL-2.0-only

//! A synthetic host module whose counters rise with each reading.

use ddabi::pool::PoolStats;
use ddctl::System;
use ddnl::{
    ConfigChange, Device, Error, EventSource, FlushTarget, Flushed, GuestControl, HostControl,
    HostStatus, Pool, Result, Side, Vm, VmChange,
    fake::{self, HostState},
};
use rustix::process::Pid;
use std::{
    cell::Cell,
    ffi::OsString,
    io::{self, IsTerminal, stdout},
    path::PathBuf,
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};

/// Requests that the module has answered.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Requests of the status, of the VMs and of the devices.
    pub(crate) requests: Cell<u64>,
    /// VMs that were listed.
    pub(crate) vms: Cell<u64>,
    /// Containers that were listed.
    pub(crate) containers: Cell<u64>,
}

/// A machine with a host module of synthetic VMs. Containers are made when they are asked for.
#[derive(Clone, Debug)]
pub(crate) struct SyntheticHost {
    /// Directory in which the files of the machine are. The module is not loaded while it has a
    /// file `unloaded`, VM 3 has gone while it has a file `gone-3`, and a reading panics while it
    /// has a file `panic`.
    pub(crate) root: PathBuf,
    /// Number of containers of each VM.
    pub(crate) vms: Vec<u32>,
    /// The requests that were made.
    pub(crate) work: Rc<Work>,
    start: Instant,
}

impl SyntheticHost {
    /// Creates a machine with files below this directory, and a VM with each of these numbers of
    /// containers.
    pub(crate) fn new(root: PathBuf, vms: Vec<u32>) -> Self {
        Self {
            root,
            vms,
            work: Rc::default(),
            start: Instant::now(),
        }
    }

    /// The numbers of the VMs that have not gone.
    fn present(&self) -> impl Iterator<Item = (u32, u32)> {
        let is_present = |id: &u32| !self.root.join(format!("gone-{id}")).exists();
        let numbered = (1..).zip(self.vms.iter().copied());
        numbered.filter(move |(id, _)| is_present(id))
    }

    /// Counters that grow with each reading, at a pace that follows from the number.
    fn stats(&self, number: u32, share: u64) -> PoolStats {
        let readings = self.work.requests.get();
        let pace = 10 * (u64::from(number) % 97 + 1);
        PoolStats {
            weight: 100,
            entitlement: 65_536 / share,
            used: 6_553 * (u64::from(number) % 11) / share,
            puts: readings * pace * 2,
            gets: readings * pace,
            misses: readings * pace / 4,
            hits: readings * pace,
            ..PoolStats::default()
        }
    }
}

fn add(counter: &Cell<u64>, more: usize) {
    counter.set(counter.get() + more as u64);
}

/// The error for requests that `top` does not make.
fn unexpected<T>() -> Result<T> {
    Err(Error::Invalid {
        message: "the feed answers requests of `top` alone".into(),
    })
}

impl HostControl for SyntheticHost {
    fn status(&mut self) -> Result<HostStatus> {
        add(&self.work.requests, 1);
        Ok(HostStatus {
            used: 1 << 17,
            ..HostState::default().status
        })
    }

    fn vms(&mut self) -> Result<Vec<Vm>> {
        let vm = |(id, pools): (u32, u32)| Vm {
            id,
            pid: 4000 + id,
            weight: 100,
            ssd_weight: 100,
            used: self.stats(id, 1).used,
            entitlement: 65_536,
            pools,
            stats: self.stats(id, 1),
        };
        let vms: Vec<Vm> = self.present().map(vm).collect();
        add(&self.work.vms, vms.len());
        Ok(vms)
    }

    fn pools(&mut self, vm: Option<u32>) -> Result<Vec<Pool>> {
        let wanted = self
            .present()
            .filter(|(id, _)| vm.is_none_or(|vm| vm == *id));
        let pools = wanted.flat_map(|(vm, count)| (0..count).map(move |id| (vm, id)));
        let pools: Vec<Pool> = pools
            .map(|(vm, id)| {
                let name = match id {
                    0 => "default".into(),
                    id => format!("app-{id}"),
                };
                fake::pool(vm, id, &name, self.stats(vm * 7 + id, 10))
            })
            .collect();
        add(&self.work.containers, pools.len());
        Ok(pools)
    }

    fn devices(&mut self) -> Result<Vec<Device>> {
        assert!(!self.root.join("panic").exists(), "the feed panics");
        Ok(Vec::new())
    }

    fn set_vm(&mut self, _: u32, _: VmChange) -> Result<u64> {
        unexpected()
    }

    fn configure(&mut self, _: &ConfigChange) -> Result<u64> {
        unexpected()
    }

    fn flush(&mut self, _: FlushTarget) -> Result<Flushed> {
        unexpected()
    }

    fn add_device(&mut self, _: &str) -> Result<u32> {
        unexpected()
    }

    fn remove_device(&mut self, _: u32) -> Result<u64> {
        unexpected()
    }

    fn set_write_budget(&mut self, _: u32, _: u64) -> Result<()> {
        unexpected()
    }
}

impl System for SyntheticHost {
    fn host(&self) -> Result<Box<dyn HostControl>> {
        if self.root.join("unloaded").exists() {
            return Err(Error::NotLoaded { side: Side::Host });
        }
        Ok(Box::new(self.clone()))
    }

    fn guest(&self) -> Result<Box<dyn GuestControl>> {
        Err(Error::NotLoaded { side: Side::Guest })
    }

    fn events(&self, side: Side) -> Result<Box<dyn EventSource>> {
        Err(Error::NotLoaded { side })
    }

    fn file(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn uptime(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, _: Duration) {}

    fn hang_up(&self, _: Pid) -> io::Result<()> {
        Ok(())
    }

    fn hypervisors(&self) -> Vec<String> {
        Vec::new()
    }

    fn terminal(&self) -> bool {
        stdout().is_terminal()
    }

    fn columns(&self) -> Option<u16> {
        None
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }
}
