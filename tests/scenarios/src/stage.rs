// SPDX-License-Identifier: GPL-2.0-only

//! Set-up of a host and its guests.

use anyhow::{Result, bail, ensure};
use ddlab::{
    Accel, Context, Disk, DiskConfig, FileSpec, Format, Guest, GuestConfig, Lab, LabConfig,
    Machine, ReadSpec, Target, Throttle, wait,
};

use crate::ddctl;

pub(crate) use ddlab::{GUEST_MODULE as GUEST, HOST_MODULE as HOST};

/// A KVM host with the module.
#[derive(Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) lab: &'a Lab,
}

impl<'a> Stage<'a> {
    /// Loads the host module with a capacity.
    pub(crate) fn set(context: &'a mut Context, capacity_mib: u64) -> Result<Self> {
        let stage = Self {
            lab: context.lab()?,
        };
        stage.load_host(capacity_mib)?;
        Ok(stage)
    }

    /// Returns L1.
    pub(crate) fn host(&self) -> &'a Machine {
        self.lab.host()
    }

    /// Loads the host module. A capacity of zero stands for the module's default.
    pub(crate) fn load_host(&self, capacity_mib: u64) -> Result<()> {
        let capacity = format!("capacity_mib={capacity_mib}");
        self.host().load_module(HOST, &[&capacity])
    }

    /// Makes an ext4 disk of twice its files' size.
    pub(crate) fn disk(&self, name: &str, files: Vec<FileSpec>) -> Result<Disk> {
        let bytes: u64 = files.iter().map(|file| file.len).sum();
        self.lab.create_disk(&DiskConfig {
            name: name.to_owned(),
            size_mib: (2 * (bytes >> 20)).max(128),
            format: Format::Ext4,
            files,
        })
    }

    /// Makes a disk for a filesystem that the guest makes.
    pub(crate) fn blank_disk(&self, name: &str, size_mib: u64) -> Result<Disk> {
        self.lab.create_disk(&DiskConfig {
            name: name.to_owned(),
            size_mib,
            format: Format::Blank,
            files: Vec::new(),
        })
    }

    /// Makes a blank disk for each name, like [`Stage::blank_disk`].
    pub(crate) fn blank_disks<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
        size_mib: u64,
    ) -> Result<Vec<Disk>> {
        let disks = names.into_iter();
        disks.map(|name| self.blank_disk(name, size_mib)).collect()
    }

    /// Makes the host swap to a disk while `work` runs.
    pub(crate) fn with_swap<T>(&self, mib: u64, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let disk = self.blank_disk("swap", mib)?;
        let device = disk.path_in_host();
        self.host()
            .shell(format!("mkswap {device}; swapon {device}"))?;
        let result = work();
        self.host().exec_ok(["swapoff", device.as_str()])?;
        result
    }

    /// Starts a guest and attaches it to the host.
    pub(crate) fn guest(&self, config: &GuestConfig) -> Result<Guest> {
        let guest = self.lab.start_guest(config)?;
        attach(&guest)?;
        Ok(guest)
    }

    /// Starts a guest with one ext4 disk, mounted at `/mnt`.
    pub(crate) fn guest_with(&self, name: &str, disk: &Disk, throttle: Throttle) -> Result<Guest> {
        let guest = self.guest(&GuestConfig::new(name).disk(disk, throttle))?;
        guest.mount(&disk.path_in_guest(), "/mnt", "ext4", "noatime")?;
        Ok(guest)
    }
}

/// Loads the guest module and waits until it has found its host.
pub(crate) fn attach(guest: &Machine) -> Result<()> {
    guest.load_module(GUEST, &[])?;
    attached(guest).map(drop)
}

/// Loads the host module with a parameter that it must refuse with a reason in the log.
pub(crate) fn refuses(host: &Machine, parameter: &str, reason: &str) -> Result<()> {
    let loaded = host.load_module(HOST, &[parameter]);
    ensure!(loaded.is_err() && !host.has_module(HOST)?);
    let log = host.exec_ok(["dmesg"])?;
    ensure!(
        log.contains(reason),
        "the log does not have the reason:\n{log}"
    );
    Ok(())
}

/// Waits until the guest module has a host. Returns the VM's number.
pub(crate) fn attached(guest: &Machine) -> Result<u32> {
    let what = format!("{} has a host", guest.name());
    wait::until(&what, || {
        let status = ddctl::guest(guest)?;
        match status.state.as_str() {
            "attached" => Ok(status.vm),
            "alone" => Ok(None),
            other => bail!("{} is {other}", guest.name()),
        }
    })
}

/// Waits until the guest module has noticed that there is no host.
pub(crate) fn alone(guest: &Machine) -> Result<()> {
    let what = format!("{} has noticed that there is no host", guest.name());
    wait::until(&what, || {
        Ok((ddctl::guest(guest)?.state == "alone").then_some(()))
    })
}

/// Reads a file, which must have its original content.
pub(crate) fn read(guest: &Machine, spec: &ReadSpec, file: &FileSpec) -> Result<()> {
    let sum = guest.read(spec)?;
    ensure!(
        sum.digest == Some(file.digest()),
        "wrong content in {}: {sum:?}",
        guest.name()
    );
    Ok(())
}

/// Makes a container: a cgroup with a limit, enrolled with a weight.
pub(crate) fn container(guest: &Machine, name: &str, limit: &str, weight: u32) -> Result<()> {
    guest.cgroup(name, &[("memory.max", limit)])?;
    ddctl::run(guest, &format!("container add {name} --weight {weight}")).map(drop)
}

/// Returns the number of pages of a size in bytes.
pub(crate) const fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(4096)
}

/// Returns a part as a percentage of a whole.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// Returns the directory of a guest's disk below `/sys/block`.
pub(crate) fn block_directory(guest: &Machine, disk: &Disk) -> Result<String> {
    let device = guest.exec_ok(["readlink", "-f", &disk.path_in_guest()])?;
    let name = device.trim().trim_start_matches("/dev/");
    Ok(format!("/sys/block/{name}"))
}

/// Runs `measure` on machines with one processor each, whose clocks count instructions, a
/// nanosecond for each.
pub(crate) fn counting_instructions(
    context: &mut Context,
    measure: impl FnOnce(&Stage<'_>) -> Result<Vec<Target>>,
) -> Result<Vec<Target>> {
    let config = LabConfig {
        accel: Accel::Tcg,
        vcpus: 1,
        count_instructions: true,
        ..context.lab_config()
    };
    in_own_lab(context, config, measure)
}

/// Measures on machines that no other scenario can use, because they are not configured as usual.
/// They are ended, after their consoles were judged.
pub(crate) fn in_own_lab(
    context: &mut Context,
    config: LabConfig,
    measure: impl FnOnce(&Stage<'_>) -> Result<Vec<Target>>,
) -> Result<Vec<Target>> {
    let targets = measure(&Stage {
        lab: context.fresh_lab(config)?,
    })?;
    context.end_lab()?;
    Ok(targets)
}

/// Reclaims this amount of a cgroup's memory, such as `24M`, or as much as it has.
pub(crate) fn reclaim(machine: &Machine, cgroup: &str, amount: &str) -> Result<()> {
    // EAGAIN means that the kernel reclaimed less than requested.
    let line =
        format!("echo {amount} > /sys/fs/cgroup/{cgroup}/memory.reclaim 2> /dev/null || true");
    machine.shell(line).map(drop)
}

/// Returns `many / few`.
pub(crate) fn ratio(many: u64, few: u64) -> f64 {
    many as f64 / few.max(1) as f64
}
