// SPDX-License-Identifier: GPL-2.0-only

//! VMs that are booted by a plan, and the loads in their containers.

use std::{thread, time::Instant};

use anyhow::{Context as _, Result, bail};
use ddlab::{Command, Disk, GUEST_MODULE, Guest, HOST_MODULE, Lab, Machine, Running, wait};
use ddload::Line;

use crate::{
    ddctl,
    plan::{ContainerPlan, VmPlan},
};

/// The paper's policy.
pub(crate) const PAPER: &str = "fifo";
/// The default policy.
pub(crate) const DEFAULT: &str = "adaptive";

/// A running VM whose disk is mounted and whose cgroups exist.
#[derive(Debug)]
pub(crate) struct Vm {
    pub(crate) plan: VmPlan,
    pub(crate) disk: Disk,
    pub(crate) guest: Guest,
}

/// A load that makes requests.
#[derive(Debug)]
pub(crate) struct ActiveLoad {
    pub(crate) vm: &'static str,
    pub(crate) container: &'static str,
    pub(crate) about: String,
    /// Time of the first request.
    pub(crate) start: Instant,
    program: Running,
    read: u64,
}

/// Boots all VMs in parallel.
pub(crate) fn boot(lab: &Lab, plans: &[VmPlan]) -> Result<Vec<Vm>> {
    let disks: Vec<_> = plans
        .iter()
        .map(|plan| lab.create_disk(&plan.disk()))
        .collect::<Result<_>>()?;
    thread::scope(|scope| {
        let starting: Vec<_> = plans
            .iter()
            .zip(&disks)
            .map(|(plan, disk)| scope.spawn(move || Vm::boot(lab, plan, disk)))
            .collect();
        starting
            .into_iter()
            .map(|vm| vm.join().expect("booting a VM does not panic"))
            .collect()
    })
}

impl Vm {
    fn boot(lab: &Lab, plan: &VmPlan, disk: &Disk) -> Result<Self> {
        let config = plan.guest();
        let config = config.cached_disk(disk, plan.disk, plan.host_settings.cache);
        let guest = lab.start_guest(&config)?;
        let device = disk.path_in_guest();
        guest.mount(&device, plan.mount_point(), "ext4", "noatime")?;
        let vm = Self {
            plan: plan.clone(),
            disk: disk.clone(),
            guest,
        };
        vm.limit(0)?;
        Ok(vm)
    }

    /// Sets the memory limits of its containers to those of the plan plus `more_kib` each.
    pub(crate) fn limit(&self, more_kib: u64) -> Result<()> {
        for container in &self.plan.containers {
            let limit = format!("{}K", (container.memory_mib << 10) + more_kib);
            self.guest
                .cgroup(container.name, &[("memory.max", &limit)])?;
        }
        Ok(())
    }

    /// Starts the loads of some of its containers, or of all if none is named, and waits until they
    /// make requests.
    pub(crate) fn start_loads(&self, names: &[&str]) -> Result<Vec<ActiveLoad>> {
        let wanted = |name| names.is_empty() || names.contains(&name);
        let containers = self.plan.containers.iter();
        let mut loads: Vec<ActiveLoad> = containers
            .filter(|container| wanted(container.name))
            .map(|container| ActiveLoad::start(self, container))
            .collect::<Result<_>>()?;
        for load in &mut loads {
            load.wait_until_ready()?;
        }
        Ok(loads)
    }

    /// Loads the guest module and waits until it has found the host module.
    pub(crate) fn attach(&self) -> Result<()> {
        self.guest.load_module(GUEST_MODULE, &[])?;
        let what = format!("the module in {} has found its host", self.plan.name);
        wait::until(&what, || {
            let state = ddctl::guest(&self.guest)?.state;
            Ok((state == "attached").then_some(()))
        })
    }

    /// Enrols containers by hand. Pages outside of containers are not cached.
    pub(crate) fn enrol(&self, policy: &str, weights: &[(&str, u32)]) -> Result<()> {
        ddctl::run(&self.guest, "set-weight default 0")?;
        for (name, weight) in weights {
            let add = format!("container add {name} --weight {weight} --policy {policy}");
            ddctl::run(&self.guest, &add)?;
        }
        Ok(())
    }

    /// Sets the policy of all its containers after they were enrolled.
    pub(crate) fn set_policy(&self, policy: &str) -> Result<()> {
        for container in &self.plan.containers {
            let name = container.name;
            wait::until(&format!("{name} follows {policy}"), || {
                let set = format!("container set-policy {name} {policy}");
                Ok(ddctl::run(&self.guest, &set).ok())
            })?;
        }
        Ok(())
    }
}

impl ActiveLoad {
    fn start(vm: &Vm, container: &ContainerPlan) -> Result<Self> {
        let load = container.load();
        let mut words = vec!["ddload".to_owned()];
        words.extend(load.arguments());
        words.extend(["--cgroup".to_owned(), container.name.to_owned()]);
        let program = vm.guest.spawn(&Command::new(words))?;
        Ok(Self {
            vm: vm.plan.name,
            container: container.name,
            about: load.describe(),
            start: Instant::now(),
            program,
            read: 0,
        })
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let what = format!("the load of {} is ready", self.container);
        wait::until(&what, || {
            let lines = self.lines()?;
            Ok(lines
                .iter()
                .any(|line| matches!(line, Line::Ready(_)))
                .then_some(()))
        })?;
        self.start = Instant::now();
        Ok(())
    }

    /// Returns its output since the last call.
    pub(crate) fn lines(&mut self) -> Result<Vec<Line>> {
        let fresh = self.program.output_from(self.read)?;
        // The last line may be incomplete.
        let whole = fresh.iter().rposition(|&byte| byte == b'\n');
        let whole = whole.map_or(0, |end| end + 1);
        self.read += whole as u64;
        let lines = fresh[..whole].split(|&byte| byte == b'\n');
        let parsed = lines.filter(|line| !line.is_empty()).map(|line| {
            serde_json::from_slice(line).with_context(|| {
                let text = String::from_utf8_lossy(line);
                format!("the load of {} said: {text}", self.container)
            })
        });
        let parsed = parsed.collect::<Result<Vec<Line>>>()?;
        if parsed.is_empty() {
            self.check()?;
        }
        Ok(parsed)
    }

    /// Fails if it has ended.
    fn check(&mut self) -> Result<()> {
        match self.program.poll()? {
            None => Ok(()),
            Some(exit) => bail!(
                "the load of {} ended ({exit:?}): {}",
                self.container,
                self.program.output()?
            ),
        }
    }
}

/// Loads the host module.
pub(crate) fn load_host(host: &Machine, capacity_mib: u64) -> Result<()> {
    host.load_module(HOST_MODULE, &[&format!("capacity_mib={capacity_mib}")])
}
