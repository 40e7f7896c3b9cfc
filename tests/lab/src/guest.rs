// SPDX-License-Identifier: GPL-2.0

//! Guests: VMs on L1's KVM.

use std::{
    ops::Deref,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use ddagent::protocol::{Answer, Exit, Op, PORT, VmSpec};

use crate::{
    disk::{Disk, Throttle},
    link::Link,
    machine::{Machine, unexpected},
};

/// How long the news of a guest's end may take to arrive.
const NEWS: Duration = Duration::from_secs(30);

/// A guest to start.
#[derive(Clone, Debug)]
pub struct GuestConfig {
    /// Its name: also its hostname and the VMM's `-name`.
    pub name: String,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Virtual processors.
    pub vcpus: u32,
    /// Its disks, each as slow as its throttle says.
    pub disks: Vec<(Disk, Throttle)>,
    /// Whether it has a console for a person: `/dev/hvc1` in it, the socket
    /// `terminal` of its directory in L1.
    pub terminal: bool,
    /// Added to the kernel command line.
    pub kernel_args: Vec<String>,
    /// Added to the VMM's arguments.
    pub vmm_args: Vec<String>,
}

impl GuestConfig {
    /// A guest of 512 MiB with one processor and no disks of its own.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            memory_mib: 512,
            vcpus: 1,
            disks: Vec::new(),
            terminal: false,
            kernel_args: Vec::new(),
            vmm_args: Vec::new(),
        }
    }

    /// Sets its memory.
    #[must_use]
    pub fn memory_mib(mut self, amount: u64) -> Self {
        self.memory_mib = amount;
        self
    }

    /// Sets the number of processors.
    #[must_use]
    pub fn vcpus(mut self, count: u32) -> Self {
        self.vcpus = count;
        self
    }

    /// Gives it a disk.
    #[must_use]
    pub fn disk(mut self, disk: &Disk, throttle: Throttle) -> Self {
        self.disks.push((disk.clone(), throttle));
        self
    }

    /// Gives it a console for a person.
    #[must_use]
    pub fn terminal(mut self) -> Self {
        self.terminal = true;
        self
    }

    /// Adds to the kernel command line.
    #[must_use]
    pub fn kernel_arg(mut self, argument: impl Into<String>) -> Self {
        self.kernel_args.push(argument.into());
        self
    }

    /// Its directory in L1.
    fn dir(&self) -> String {
        format!("/run/dd/vm/{}", self.name)
    }

    fn spec(&self) -> VmSpec {
        let dir = self.dir();
        VmSpec {
            name: self.name.clone(),
            argv: self.argv(&dir),
            console: format!("{dir}/console"),
            agent: format!("{dir}/agent"),
            dir,
        }
    }

    fn argv(&self, dir: &str) -> Vec<String> {
        let Self {
            name,
            memory_mib,
            vcpus,
            ..
        } = self;
        let mut kernel_args = format!(
            "console=hvc0 panic=-1 watchdog_thresh=30 rcupdate.rcu_cpu_stall_timeout=120 \
             loglevel=8 dd.hostname={name}"
        );
        for argument in &self.kernel_args {
            kernel_args.push(' ');
            kernel_args.push_str(argument);
        }
        let mut argv: Vec<String> = [
            "qemu-system-x86_64",
            // Boots fastest: no firmware menu, no legacy devices.
            "-M",
            "microvm,rtc=on,pcie=on",
            "-accel",
            "kvm",
            "-cpu",
            "host",
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
            "-kernel",
            "/opt/dd/boot/vmlinuz",
            "-initrd",
            "/opt/dd/boot/initrd",
            "-device",
            "virtio-serial-pci",
            "-device",
            "virtconsole,chardev=console",
        ]
        .map(str::to_owned)
        .into();
        let mut pair = |option: &str, value: String| argv.extend([option.to_owned(), value]);
        pair("-name", name.clone());
        pair("-m", format!("{memory_mib}M"));
        pair("-smp", vcpus.to_string());
        pair("-append", kernel_args);
        pair("-chardev", format!("file,id=console,path={dir}/console"));
        pair(
            "-chardev",
            format!("socket,id=agent,path={dir}/agent,server=on,wait=off"),
        );
        pair(
            "-device",
            format!("virtserialport,chardev=agent,name={PORT}"),
        );
        if self.terminal {
            pair(
                "-chardev",
                format!("socket,id=terminal,path={dir}/terminal,server=on,wait=off"),
            );
            pair("-device", "virtconsole,chardev=terminal".to_owned());
        }
        pair("-qmp", format!("unix:{dir}/qmp,server=on,wait=off"));
        for image in ["root", "opt"] {
            pair(
                "-drive",
                format!("if=none,id={image},file=/dev/dd/{image},format=raw,readonly=on"),
            );
            pair(
                "-device",
                format!("virtio-blk-pci,drive={image},serial={image}"),
            );
        }
        for (disk, throttle) in &self.disks {
            pair("-drive", drive(disk, *throttle));
            let id = &disk.name;
            pair(
                "-device",
                format!("virtio-blk-pci,drive=disk-{id},serial={id}"),
            );
        }
        argv.extend(self.vmm_args.iter().cloned());
        argv
    }
}

/// The VMM's own cache is off: what is measured is the guest's cache and ours.
fn drive(disk: &Disk, throttle: Throttle) -> String {
    let mut drive = format!(
        "if=none,id=disk-{},file={},format=raw,size={},cache=none,discard=unmap",
        disk.name,
        disk.path_in_host(),
        disk.size_mib << 20
    );
    if let Some(iops) = throttle.iops {
        drive.push_str(&format!(",throttling.iops-total={iops}"));
    }
    if let Some(bytes) = throttle.bytes_per_s {
        drive.push_str(&format!(",throttling.bps-total={bytes}"));
    }
    drive
}

/// A running guest; use it as a [`Machine`]. It is killed when dropped.
#[derive(Debug)]
pub struct Guest {
    machine: Machine,
    host: Machine,
    name: String,
    ended: bool,
    /// Keeps their slots from being handed on.
    _disks: Vec<Disk>,
}

impl Guest {
    /// Starts the VM and waits for its agent.
    pub(crate) fn start(link: &Arc<Link>, host: &Machine, config: &GuestConfig) -> Result<Self> {
        link.vitals.born(Some(&config.name));
        host.call(Op::StartVm(config.spec()))?;
        let guest = Self {
            machine: Machine::new(Arc::clone(link), Some(config.name.clone())),
            host: host.clone(),
            name: config.name.clone(),
            ended: false,
            _disks: config.disks.iter().map(|(disk, _)| disk.clone()).collect(),
        };
        guest.machine.ping()?;
        Ok(guest)
    }

    /// The guest as a machine, to be cloned into threads.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether its VMM still runs.
    ///
    /// # Errors
    ///
    /// When L1 is dead.
    pub fn is_alive(&self) -> Result<bool> {
        let op = Op::VmAlive {
            name: self.name.clone(),
        };
        match self.host.call(op)? {
            Answer::State(exit) => Ok(exit.is_none()),
            other => unexpected(&other),
        }
    }

    /// Sends its VMM a signal.
    ///
    /// # Errors
    ///
    /// When L1 is dead.
    pub fn signal(&self, signal: i32) -> Result<()> {
        self.host
            .call(Op::KillVm {
                name: self.name.clone(),
                signal,
            })
            .map(drop)
    }

    /// Ends its VMM by a signal and waits for the end.
    ///
    /// # Errors
    ///
    /// When L1 is dead.
    pub fn kill(mut self, signal: i32) -> Result<Exit> {
        self.signal(signal)?;
        self.wait()
    }

    /// Switches it off from inside and waits for the end.
    ///
    /// # Errors
    ///
    /// When it does not end.
    pub fn shutdown(mut self) -> Result<Exit> {
        self.machine.tell(Op::Poweroff)?;
        self.wait()
    }

    /// Waits until its VMM ended by itself.
    ///
    /// # Errors
    ///
    /// When L1 dies, or the VMM does not end.
    pub fn wait(&mut self) -> Result<Exit> {
        let op = Op::WaitVm {
            name: self.name.clone(),
        };
        match self.host.patient(Duration::from_secs(300)).call(op)? {
            Answer::State(Some(exit)) => {
                self.ended = true;
                // The news travels by itself, after the end of the console.
                let vitals = &self.machine.link().vitals;
                let start = Instant::now();
                while !vitals.has_ended(&self.name) && start.elapsed() < NEWS {
                    thread::sleep(Duration::from_millis(10));
                }
                Ok(exit)
            }
            other => unexpected(&other),
        }
    }

    /// Path of the VMM's QMP socket in L1.
    #[must_use]
    pub fn qmp_path(&self) -> String {
        format!("/run/dd/vm/{}/qmp", self.name)
    }
}

impl Deref for Guest {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if !self.ended && self.signal(9).is_ok() {
            // Its disks may be handed on only after its end.
            let _ = self.wait();
        }
    }
}
