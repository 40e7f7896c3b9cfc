// SPDX-License-Identifier: GPL-2.0-only

//! Guests: VMs on L1's KVM.

pub(crate) mod restart;

use std::{
    ops::Deref,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use ddagent::protocol::{Answer, Exit, Op, PORT, VmSpec};

use crate::{
    disk::{Disk, HostCache, Throttle},
    lab::numa,
    link::Link,
    machine::{FORMER, INSTALLED, Machine, unexpected},
};

/// The longest wait for the notification of a guest's end.
const NEWS: Duration = Duration::from_secs(30);

/// The longest search for leaks when a guest ends.
const LAST_WORDS: Duration = Duration::from_secs(60);

/// There is no udev, and hence no device that a terminal could wait for; every boot is that of an
/// image, with nothing to update; and each mount takes an emulated machine a second.
const DEBIAN_ARGS: &str = " dd.debian systemd.getty_auto=no systemd.condition-needs-update=no systemd.show_status=no \
     systemd.mask=dev-hugepages.mount systemd.mask=dev-mqueue.mount \
     systemd.mask=kmod-static-nodes.service systemd.mask=proc-sys-fs-binfmt_misc.automount \
     systemd.mask=sys-fs-fuse-connections.mount systemd.mask=sys-kernel-config.mount \
     systemd.mask=systemd-binfmt.service systemd.mask=modprobe@configfs.service \
     systemd.mask=modprobe@fuse.service systemd.mask=modprobe@efi_pstore.service \
     systemd.mask=modprobe@drm.service systemd.mask=getty-static.service";

/// An installed system has udev, and everything else that its packages enabled. Terminals would
/// only wait for a user, and AppArmor would compile profiles for minutes at the first boot.
pub(crate) const INSTALLED_ARGS: &str = " dd.root=system apparmor=0 systemd.getty_auto=no \
     systemd.mask=getty@tty1.service systemd.show_status=no";

/// Serial of L1's disk with the system of an installed guest.
pub(crate) const INSTALLED_GUEST: &str = "guest-system";

/// The hardware that boots fastest, without a firmware menu and legacy devices.
const SMALLEST: &str = "microvm,rtc=on,pcie=on";

/// Hardware that takes memory while it runs, and has NUMA nodes.
pub const COMPLETE: &str = "q35,smm=off";

/// Parameters of a guest.
#[derive(Clone, Debug)]
pub struct GuestConfig {
    /// Its name, which is also its hostname and the VMM's `-name`.
    pub name: String,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Virtual processors.
    pub vcpus: u32,
    /// Number of NUMA nodes, which have equal parts of the memory, and a processor each.
    pub nodes: u32,
    /// The emulated hardware, the VMM's `-M`.
    pub hardware: String,
    /// Its disks.
    pub disks: Vec<GuestDisk>,
    /// Cgroup of L1 in which the VMM runs (path below the mount). It must exist.
    pub cgroup: Option<String>,
    /// Whether the VMM allocates all of the guest's memory at its start.
    pub populated: bool,
    /// Its system.
    pub system: System,
    /// Whether it has an interactive console: `/dev/hvc1` in the guest, and the socket `terminal`
    /// of its directory in L1.
    pub terminal: bool,
    /// Additional arguments of the kernel.
    pub kernel_args: Vec<String>,
    /// Additional arguments of the VMM.
    pub vmm_args: Vec<String>,
}

/// System of a guest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum System {
    /// The tools of every test machine. The agent is PID 1.
    #[default]
    Small,
    /// The same with the programs of a complete Debian. The lab must have its image.
    Servers,
    /// A complete Debian, whose PID 1 is systemd. The lab must have its image.
    Debian,
    /// A Debian on a disk of its own, which outlives the guest, with the project's packages. See
    /// [`crate::Context::installed_lab`].
    Installed,
    /// The same with its former kernel, for which the project's module cannot be built.
    Former,
}

/// A disk and how the VMM runs it.
#[derive(Clone, Debug)]
pub struct GuestDisk {
    disk: Disk,
    throttle: Throttle,
    cache: HostCache,
}

impl GuestConfig {
    /// A guest of 512 MiB with one processor and no disks of its own.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            memory_mib: 512,
            vcpus: 1,
            nodes: 1,
            hardware: SMALLEST.to_owned(),
            disks: Vec::new(),
            cgroup: None,
            populated: false,
            system: System::Small,
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

    /// Sets the number of NUMA nodes, on hardware that can have several.
    #[must_use]
    pub fn nodes(mut self, count: u32) -> Self {
        self.nodes = count;
        self.hardware(COMPLETE)
    }

    /// Sets the VMM's `-M`. The usual machine accepts no hot-plugged hardware.
    #[must_use]
    pub fn hardware(mut self, hardware: impl Into<String>) -> Self {
        self.hardware = hardware.into();
        self
    }

    /// Gives it a disk which L1 does not cache.
    #[must_use]
    pub fn disk(self, disk: &Disk, throttle: Throttle) -> Self {
        self.cached_disk(disk, throttle, HostCache::None)
    }

    /// Gives it several disks, each like [`GuestConfig::disk`].
    #[must_use]
    pub fn disks<'d>(self, disks: impl IntoIterator<Item = &'d Disk>, throttle: Throttle) -> Self {
        let disks = disks.into_iter();
        disks.fold(self, |config, disk| config.disk(disk, throttle))
    }

    /// Gives it a disk. The VMM's throttle is above L1's cache; for one below,
    /// see [`crate::Lab::throttle`].
    #[must_use]
    pub fn cached_disk(mut self, disk: &Disk, throttle: Throttle, cache: HostCache) -> Self {
        self.disks.push(GuestDisk {
            disk: disk.clone(),
            throttle,
            cache,
        });
        self
    }

    /// Sets the cgroup of L1 in which its VMM runs.
    #[must_use]
    pub fn cgroup(mut self, path: impl Into<String>) -> Self {
        self.cgroup = Some(path.into());
        self
    }

    /// Makes the VMM allocate all of its memory at the start.
    #[must_use]
    pub fn populated(mut self) -> Self {
        self.populated = true;
        self
    }

    /// Makes it a complete Debian: systemd is PID 1 and starts the agent. See
    /// [`crate::Context::debian_lab`].
    #[must_use]
    pub fn debian(mut self) -> Self {
        self.system = System::Debian;
        self
    }

    /// Gives it the programs of a complete Debian, with the agent as PID 1, so that it boots much
    /// faster. See [`crate::Context::debian_lab`].
    #[must_use]
    pub fn servers(mut self) -> Self {
        self.system = System::Servers;
        self
    }

    /// Makes it the Debian in which the project's packages are installed. A lab has one such guest
    /// at a time. See [`crate::Context::installed_lab`].
    #[must_use]
    pub fn installed(mut self) -> Self {
        self.system = System::Installed;
        self
    }

    /// Makes it the same Debian with its former kernel, for which the project has no module.
    #[must_use]
    pub fn former_kernel(mut self) -> Self {
        self.system = System::Former;
        self
    }

    /// Gives it an interactive console.
    #[must_use]
    pub fn terminal(mut self) -> Self {
        self.terminal = true;
        self
    }

    /// Adds an argument of the kernel.
    #[must_use]
    pub fn kernel_arg(mut self, argument: impl Into<String>) -> Self {
        self.kernel_args.push(argument.into());
        self
    }

    /// Adds an argument of the VMM.
    #[must_use]
    pub fn vmm_arg(mut self, argument: impl Into<String>) -> Self {
        self.vmm_args.push(argument.into());
        self
    }

    /// Returns its directory in L1.
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
            cgroup: self.cgroup.clone(),
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
        kernel_args.push_str(match self.system {
            System::Small => "",
            System::Servers => " dd.debian=layer",
            System::Debian => DEBIAN_ARGS,
            System::Installed | System::Former => INSTALLED_ARGS,
        });
        for argument in &self.kernel_args {
            kernel_args.push(' ');
            kernel_args.push_str(argument);
        }
        let argv = "qemu-system-x86_64 -accel kvm -cpu host -nodefaults -no-user-config \
                    -no-reboot -display none -device virtio-serial-pci -device \
                    virtconsole,chardev=console";
        let mut argv: Vec<String> = argv.split(' ').map(str::to_owned).collect();
        let mut pair = |option: &str, value: String| argv.extend([option.to_owned(), value]);
        let boot = match self.system {
            System::Installed => INSTALLED,
            System::Former => FORMER,
            _ => "boot",
        };
        pair("-kernel", format!("/opt/dd/{boot}/vmlinuz"));
        pair("-initrd", format!("/opt/dd/{boot}/initrd"));
        pair("-M", self.hardware.clone());
        pair("-name", name.clone());
        pair("-m", format!("{memory_mib}M"));
        for (option, value) in numa(*memory_mib, self.nodes) {
            pair(option, value);
        }
        pair("-smp", format!("{vcpus},sockets={}", self.nodes));
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
        let images: &[&str] = match self.system {
            System::Small => &["root", "opt"],
            System::Servers | System::Debian => &["root", "opt", "debian"],
            System::Installed | System::Former => &["opt"],
        };
        for image in images {
            pair(
                "-drive",
                format!("if=none,id={image},file=/dev/dd/{image},format=raw,readonly=on"),
            );
            pair(
                "-device",
                format!("virtio-blk-pci,drive={image},serial={image}"),
            );
        }
        if matches!(self.system, System::Installed | System::Former) {
            let disk =
                format!("if=none,id=system,file=/dev/dd/{INSTALLED_GUEST},format=raw,cache=none");
            pair("-drive", disk);
            pair(
                "-device",
                "virtio-blk-pci,drive=system,serial=system".to_owned(),
            );
        }
        for disk in &self.disks {
            pair("-drive", disk.drive());
            let id = &disk.disk.name;
            pair(
                "-device",
                format!("virtio-blk-pci,drive=disk-{id},serial={id}"),
            );
        }
        if self.populated {
            argv.push("-mem-prealloc".to_owned());
        }
        argv.extend(self.vmm_args.iter().cloned());
        argv
    }
}

impl GuestDisk {
    /// Returns the VMM's argument.
    fn drive(&self) -> String {
        let Self { disk, throttle, .. } = self;
        let mut drive = format!(
            "if=none,id=disk-{},file={},format=raw,size={},cache={},discard=unmap",
            disk.name,
            disk.path_in_host(),
            disk.size_mib << 20,
            self.cache
        );
        if let Some(iops) = throttle.iops {
            drive.push_str(&format!(",throttling.iops-total={iops}"));
        }
        if let Some(bytes) = throttle.bytes_per_s {
            drive.push_str(&format!(",throttling.bps-total={bytes}"));
        }
        drive
    }
}

/// A running guest, which can be used as a [`Machine`]. It is killed when it is dropped.
#[derive(Debug)]
pub struct Guest {
    machine: Machine,
    host: Machine,
    name: String,
    ended: bool,
    /// Keeps the slots of its disks from being reused.
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
            _disks: config.disks.iter().map(|own| own.disk.clone()).collect(),
        };
        guest.machine.ping()?;
        Ok(guest)
    }

    /// Returns the guest as a machine, which can be cloned into threads.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns whether its VMM still runs.
    ///
    /// # Errors
    ///
    /// Fails if L1 is dead.
    pub fn is_alive(&self) -> Result<bool> {
        let op = Op::VmAlive {
            name: self.name.clone(),
        };
        match self.host.call(op)? {
            Answer::State(exit) => Ok(exit.is_none()),
            other => unexpected(&other),
        }
    }

    /// Sends a signal to its VMM.
    ///
    /// # Errors
    ///
    /// Fails if L1 is dead.
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
    /// Fails if L1 is dead.
    pub fn kill(mut self, signal: i32) -> Result<Exit> {
        self.signal(signal)?;
        self.wait()
    }

    /// Shuts it down from inside and waits for the end.
    ///
    /// # Errors
    ///
    /// Fails if it does not end.
    pub fn shutdown(mut self) -> Result<Exit> {
        self.machine.search_leaks()?;
        self.machine.tell(Op::Poweroff)?;
        self.wait()
    }

    /// Waits until its VMM has ended by itself.
    ///
    /// # Errors
    ///
    /// Fails if L1 dies, or the VMM does not end.
    pub fn wait(&mut self) -> Result<Exit> {
        let op = Op::WaitVm {
            name: self.name.clone(),
        };
        match self.host.patient(Duration::from_secs(300)).call(op)? {
            Answer::State(Some(exit)) => {
                self.ended = true;
                // The notification can arrive after the end of the console.
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

    /// Returns the path of the VMM's QMP socket in L1.
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
        if !self.ended {
            // Scenarios that succeed end their guests in this way too.
            let _ = self.machine.patient(LAST_WORDS).search_leaks();
        }
        if !self.ended && self.signal(9).is_ok() {
            // Its disks may be reused only after its end.
            let _ = self.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::disk::Slot;

    fn disk() -> Disk {
        let free = Arc::new(Mutex::new(vec![3]));
        Disk {
            name: "data".to_owned(),
            size_mib: 1,
            slot: Arc::new(Slot::take(&free).unwrap()),
        }
    }

    #[test]
    fn disks_are_not_cached_unless_asked_for() {
        let throttle = Throttle {
            iops: Some(50),
            bytes_per_s: None,
        };
        let guest = GuestConfig::new("a").disk(&disk(), throttle);
        assert_eq!(
            guest.disks[0].drive(),
            "if=none,id=disk-data,file=/dev/dd/slot3,format=raw,size=1048576,cache=none,\
             discard=unmap,throttling.iops-total=50"
        );
        let guest =
            GuestConfig::new("a").cached_disk(&disk(), Throttle::NONE, HostCache::Writeback);
        assert!(
            guest.disks[0]
                .drive()
                .ends_with("cache=writeback,discard=unmap")
        );
    }

    #[test]
    fn a_vmm_runs_in_its_cgroup() {
        let guest = GuestConfig::new("a").cgroup("vmm").populated();
        let spec = guest.spec();
        assert_eq!(spec.cgroup.as_deref(), Some("vmm"));
        assert!(spec.argv.iter().any(|word| word == "-mem-prealloc"));
        assert_eq!(GuestConfig::new("a").spec().cgroup, None);
    }

    #[test]
    fn systems_differ_in_disks_and_init() {
        let of = |config: GuestConfig| {
            let argv = config.spec().argv.join(" ");
            (argv.contains("id=debian"), argv.contains("dd.debian=layer"))
        };
        assert_eq!(of(GuestConfig::new("a")), (false, false));
        assert_eq!(of(GuestConfig::new("a").servers()), (true, true));
        assert_eq!(of(GuestConfig::new("a").debian()), (true, false));
    }

    #[test]
    fn an_installed_guest_boots_its_own_kernel_from_its_own_disk() {
        let argv = GuestConfig::new("a").installed().spec().argv.join(" ");
        assert!(argv.contains("-kernel /opt/dd/boot/installed/vmlinuz"));
        assert!(argv.contains("file=/dev/dd/guest-system") && argv.contains("dd.root=system"));
        assert!(!argv.contains("id=root"));
    }
}
