// SPDX-License-Identifier: GPL-2.0-only

//! A KVM host under test.

mod firmware;
mod restart;

use std::{
    fmt, fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use ddagent::{
    protocol::{Op, PORT},
    qmp,
};
use regex::Regex;

use crate::{
    accel::Accel,
    artifacts::{Artifacts, Installed, SecureBoot},
    disk::{self, Disk, DiskConfig, Slot, Throttle},
    guest::{Guest, GuestConfig, INSTALLED_ARGS, INSTALLED_GUEST},
    link::Link,
    machine::{HOST_MODULE, Machine},
    process::Process,
    scenario::DEBIAN_PATIENCE,
    vitals::{Emulator, Patience, Vitals},
    wire,
    work::WorkDir,
};

/// Number of attempts to boot. Under emulation on a busy machine a stock kernel occasionally stops
/// while it starts its second processor, before any code of the project runs. Such a boot is
/// repeated and counted ([`Lab::retries`]).
const BOOT_ATTEMPTS: usize = 3;

/// The error that L1 showed no sign of life.
#[derive(Debug)]
struct Unresponsive;

impl fmt::Display for Unresponsive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("L1 did not come up")
    }
}

/// The patience for L1 until its first sign of life. Usually it takes 10 s of processor time.
const BOOT_PATIENCE: Patience = Patience {
    still: Duration::from_secs(60),
    spinning: Duration::from_secs(90),
};

/// Serial of the disk with the system of an installed L1.
const SYSTEM: &str = "system";

/// Number of guests for which there is memory if each needs more for its kernel's checks.
const GUESTS: u64 = 4;

/// Parameters of a lab.
#[derive(Clone, Debug)]
pub struct LabConfig {
    /// The files that it boots from.
    pub artifacts: Artifacts,
    /// The accelerator of L1.
    pub accel: Accel,
    /// Directory for the logs.
    pub dir: PathBuf,
    /// L1's memory in MiB.
    pub memory_mib: u64,
    /// L1's processors.
    pub vcpus: u32,
    /// Number of NUMA nodes, which have equal parts of the memory, and a processor each.
    pub nodes: u32,
    /// Maximum number of disks of guests.
    pub slots: usize,
    /// Maximum size of a disk in MiB.
    pub slot_mib: u64,
    /// Whether L1 has an interactive console, `/dev/hvc0`.
    pub terminal: bool,
    /// Whether its clock counts instructions under emulation, one for each nanosecond, so that
    /// measurements do not depend on this machine.
    pub count_instructions: bool,
    /// Image of a complete Debian, for guests that need it.
    pub debian: Option<PathBuf>,
    /// Systems in which the project's packages are installed: L1's own, and that of a guest. Both
    /// keep the changes of their disks over reboots, until the lab ends.
    pub installed: Option<Installed>,
    /// What L1 starts from if it has Secure Boot.
    pub secure_boot: Option<SecureBoot>,
    /// Additional arguments of L1's kernel.
    pub kernel_args: Vec<String>,
    /// Whether another host can be booted beside L1 (see [`Lab::boot_beside`]).
    pub wired: bool,
}

impl LabConfig {
    /// Returns a host of 4 GiB with two processors.
    pub fn new(artifacts: Artifacts, dir: impl Into<PathBuf>) -> Self {
        Self {
            artifacts,
            accel: Accel::Auto,
            dir: dir.into(),
            memory_mib: 4096,
            vcpus: 2,
            nodes: 1,
            slots: 6,
            slot_mib: 16 << 10,
            terminal: false,
            count_instructions: false,
            debian: None,
            installed: None,
            secure_boot: None,
            kernel_args: Vec::new(),
            wired: false,
        }
    }

    fn argv(&self, work: &Path, beside: Option<&Path>) -> Vec<String> {
        let mut argv = self.artifacts.qemu.argv();
        argv.extend(self.machine());
        argv.extend(match &self.secure_boot {
            Some(from) => firmware::arguments(from, work),
            None => self.direct_boot(),
        });
        let wire = self.wired.then(|| wire::arguments(work, beside));
        let work = work.display();
        let mut pair = |option: &str, value: String| argv.extend([option.to_owned(), value]);
        let for_checks = (1 + GUESTS) * self.artifacts.more_memory_mib;
        let memory_mib = self.memory_mib + for_checks;
        pair("-m", format!("{memory_mib}M"));
        for (option, value) in numa(memory_mib, self.nodes) {
            pair(option, value);
        }
        // The kernel warns about processors that share a cache and are on different nodes.
        pair("-smp", format!("{},sockets={}", self.vcpus, self.nodes));
        pair(
            "-serial",
            format!("file:{}/l1.console.log", self.dir.display()),
        );
        pair(
            "-chardev",
            format!("socket,id=agent,path={work}/agent,server=on,wait=off"),
        );
        // Makes the emulator log the registers of a processor that ends in a triple fault.
        pair("-d", "cpu_reset".to_owned());
        pair("-D", format!("{}/l1.reset.log", self.dir.display()));
        pair("-device", "virtio-serial-pci".to_owned());
        pair(
            "-device",
            format!("virtserialport,chardev=agent,name={PORT}"),
        );
        pair("-qmp", format!("unix:{work}/qmp,server=on,wait=off"));
        if self.terminal {
            pair(
                "-chardev",
                format!("socket,id=terminal,path={work}/terminal,server=on,wait=off"),
            );
            pair("-device", "virtconsole,chardev=terminal".to_owned());
        }
        for (name, path, mode) in self.images() {
            let path = path.display();
            pair(
                "-drive",
                format!("if=none,id={name},file={path},format=raw,{mode},file.locking=off"),
            );
            pair(
                "-device",
                format!("virtio-blk-pci,drive={name},serial={name}"),
            );
        }
        for slot in 0..self.slots {
            // The content of a slot is not needed after the lab's end, so that flushes are left
            // out.
            pair(
                "-drive",
                format!(
                    "if=none,id=slot{slot},file={work}/slot{slot},format=raw,cache=unsafe,\
                     discard=unmap,file.locking=off"
                ),
            );
            pair(
                "-device",
                format!(
                    "virtio-blk-pci,id={},drive=slot{slot},serial=slot{slot}",
                    disk::device(slot)
                ),
            );
        }
        argv.extend(wire.into_iter().flatten());
        argv
    }

    fn direct_boot(&self) -> Vec<String> {
        let (kernel, initrd) = match &self.installed {
            Some(Installed { host, .. }) => (&host.kernel, &host.initrd),
            None => (&self.artifacts.kernel, &self.artifacts.initrd),
        };
        let (kernel, initrd) = (kernel.display(), initrd.display());
        vec![
            "-kernel".to_owned(),
            kernel.to_string(),
            "-initrd".to_owned(),
            initrd.to_string(),
            "-append".to_owned(),
            self.command_line(),
        ]
    }

    /// Returns the images with their names and modes. QEMU writes the changes of a snapshot to a
    /// temporary file.
    fn images(&self) -> Vec<(&'static str, &Path, &'static str)> {
        const READ: &str = "readonly=on";
        const SNAPSHOT: &str = "snapshot=on,cache=unsafe";
        let mut images = vec![("opt", self.artifacts.opt.as_path(), READ)];
        match &self.installed {
            Some(Installed { host, guest }) => images.extend([
                (SYSTEM, host.disk.as_path(), SNAPSHOT),
                (INSTALLED_GUEST, guest.as_path(), SNAPSHOT),
            ]),
            None => images.push(("root", &self.artifacts.root, READ)),
        }
        images.extend(
            self.debian
                .iter()
                .map(|path| ("debian", path.as_path(), READ)),
        );
        images
    }

    fn machine(&self) -> Vec<String> {
        // With one thread for each processor, emulated machines occasionally corrupt their memory
        // while they run guests. A single thread is used therefore.
        let emulated = format!("tcg,thread=single,clock-divisor={}", self.artifacts.pace);
        let accel: [&str; 4] = match self.accel.resolve(&self.artifacts.qemu) {
            Accel::Kvm => ["-accel", "kvm", "-cpu", "host"],
            // Otherwise one instruction copies a page, which counts as 4096.
            _ if self.count_instructions => {
                ["-accel", &emulated, "-cpu", "max,+svm,+npt,-erms,-fsrm"]
            }
            _ => ["-accel", &emulated, "-cpu", "max,+svm,+npt"],
        };
        let common = [
            "-M",
            "q35",
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
        ];
        let clock: &[&str] = match self.count_instructions {
            true => &["-icount", "shift=0"],
            false => &[],
        };
        common
            .into_iter()
            .chain(accel)
            .chain(clock.iter().copied())
            .map(str::to_owned)
            .collect()
    }

    fn command_line(&self) -> String {
        let fixed = "console=ttyS0 panic=-1 watchdog_thresh=30 \
                     rcupdate.rcu_cpu_stall_timeout=120 loglevel=8 dd.hostname=l1";
        let mut line = fixed.to_owned();
        if self.accel.resolve(&self.artifacts.qemu) == Accel::Tcg {
            // Emulated clocks jump on a busy machine, so that the kernel must not calibrate against
            // them.
            line.push_str(" lpj=3000000 tsc=reliable");
        }
        if self.installed.is_some() {
            line.push_str(INSTALLED_ARGS);
        }
        let own = self.kernel_args.iter().map(String::as_str);
        for argument in own.chain([self.artifacts.kernel_args]) {
            line.push(' ');
            line.push_str(argument);
        }
        line
    }
}

/// A booted KVM host.
#[derive(Debug)]
pub struct Lab {
    config: LabConfig,
    host: Machine,
    emulator: Arc<Process>,
    free_slots: Arc<Mutex<Vec<usize>>>,
    boot_time: Duration,
    /// Number of failed boots before this one.
    retries: usize,
    /// Sockets and disk images. This is the last field, so that they are removed after all users.
    work: WorkDir,
}

impl Lab {
    /// Boots L1 and loads its KVM.
    ///
    /// # Errors
    ///
    /// Fails if it does not boot. The error has the end of its console.
    pub fn boot(config: LabConfig) -> Result<Self> {
        Self::boot_with(config, None)
    }

    /// Boots another KVM host like this one, which must be [`LabConfig::wired`]. It has the same
    /// disks without their cached content, and writes its logs to `dir`. A guest can migrate from
    /// one host to the other through [`Lab::wire`].
    ///
    /// # Errors
    ///
    /// See [`Lab::boot`].
    pub fn boot_beside(&self, dir: impl Into<PathBuf>) -> Result<Self> {
        let config = LabConfig {
            dir: dir.into(),
            ..self.config.clone()
        };
        Self::boot_with(config, Some(self))
    }

    fn boot_with(config: LabConfig, beside: Option<&Self>) -> Result<Self> {
        let mut retries = 0;
        loop {
            match Self::try_boot(config.clone(), beside) {
                Ok(mut lab) => {
                    lab.retries = retries;
                    return Ok(lab);
                }
                Err(error) if retries + 1 < BOOT_ATTEMPTS && error.is::<Unresponsive>() => {
                    eprintln!("    L1 is booted again: {}", first_line(&error));
                    retries += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn try_boot(config: LabConfig, beside: Option<&Self>) -> Result<Self> {
        let start = Instant::now();
        fs::create_dir_all(&config.dir)
            .with_context(|| format!("cannot create {}", config.dir.display()))?;
        let config = LabConfig {
            // The emulator gets absolute paths, because its working directory differs.
            dir: config.dir.canonicalize()?,
            accel: config.accel.resolve(&config.artifacts.qemu),
            ..config
        };
        let work = WorkDir::new()?;
        for slot in 0..config.slots {
            match beside {
                Some(other) => fs::hard_link(other.work.slot(slot), work.slot(slot))?,
                None => fs::File::create(work.slot(slot))?.set_len(config.slot_mib << 20)?,
            }
        }
        if let Some(from) = &config.secure_boot {
            firmware::furnish(&config, from, work.path())?;
        }
        let other = beside.map(|other| other.work.path());
        let emulator = start_emulator(&config, work.path(), other)?;
        let vitals = Arc::new(Vitals::new(
            &config.dir,
            Arc::downgrade(&emulator) as Weak<dyn Emulator>,
            config.artifacts.pace,
        ));
        let link = Arc::new(Link::connect(
            &work.path().join("agent"),
            Arc::clone(&vitals),
        )?);
        let host = Machine::new(link, None);
        vitals.set_patience(match config.installed {
            Some(_) => DEBIAN_PATIENCE,
            None => BOOT_PATIENCE,
        });
        if config.secure_boot.is_some() {
            // The firmware would read the request from the agent's port.
            restart::has_booted(&vitals, 0).context(Unresponsive)?;
        }
        host.ping().context(Unresponsive)?;
        vitals.set_patience(Patience::default());
        load_kvm(&host)?;
        Ok(Self {
            free_slots: match beside {
                Some(other) => Arc::clone(&other.free_slots),
                None => Arc::new(Mutex::new((0..config.slots).collect())),
            },
            config,
            host,
            emulator,
            boot_time: start.elapsed(),
            retries: 0,
            work,
        })
    }

    /// Returns L1.
    #[must_use]
    pub fn host(&self) -> &Machine {
        &self.host
    }

    /// Makes its machines load modules that were built with these patches of `tests/mutations` from
    /// now on, or with none.
    pub fn mutate(&self, mutations: impl IntoIterator<Item = &'static str>) {
        self.host.link().mutate(mutations.into_iter().collect());
    }

    /// Returns the patches of the modules that its machines load.
    #[must_use]
    pub fn mutations(&self) -> Vec<&'static str> {
        self.host.link().mutations()
    }

    /// Returns its parameters.
    #[must_use]
    pub fn config(&self) -> &LabConfig {
        &self.config
    }

    /// Returns how long L1 took to boot.
    #[must_use]
    pub fn boot_time(&self) -> Duration {
        self.boot_time
    }

    /// Returns how many boots of L1 failed without a sign of life before this one.
    #[must_use]
    pub fn retries(&self) -> usize {
        self.retries
    }

    /// Returns the device in L1 that carries bytes to and from the host beside it, in order and
    /// without loss. One program at a time can open it.
    ///
    /// # Errors
    ///
    /// Fails if it has none (see [`LabConfig::wired`]).
    pub fn wire(&self) -> Result<String> {
        wire::device(&self.host)
    }

    /// Connects to L1's interactive console.
    ///
    /// # Errors
    ///
    /// Fails if it has none (see [`LabConfig::terminal`]), or is dead.
    pub fn terminal(&self) -> Result<UnixStream> {
        let socket = self.work.path().join("terminal");
        UnixStream::connect(socket).context("cannot connect to L1's console")
    }

    /// Makes a disk, with its filesystem and files.
    ///
    /// # Errors
    ///
    /// Fails if no slot is free or the filesystem cannot be made.
    pub fn create_disk(&self, config: &DiskConfig) -> Result<Disk> {
        let Some(slot) = Slot::take(&self.free_slots) else {
            bail!("all {} disk slots are taken", self.config.slots);
        };
        let image = self.work.slot(slot.number);
        disk::fill(config, &image, self.work.path())?;
        // L1 must not have cached the previous content of the slot.
        self.host.exec_ok([
            "blockdev",
            "--flushbufs",
            &format!("/dev/dd/slot{}", slot.number),
        ])?;
        let disk = Disk {
            name: config.name.clone(),
            size_mib: config.size_mib,
            slot: Arc::new(slot),
        };
        // The emulator must not keep the previous limits.
        self.throttle(&disk, Throttle::NONE)?;
        Ok(disk)
    }

    /// Sets the limits of a disk, below L1: reads from L1's page cache are not slowed down. A disk
    /// begins without limits.
    ///
    /// # Errors
    ///
    /// Fails if the emulator refuses.
    pub fn throttle(&self, disk: &Disk, throttle: Throttle) -> Result<()> {
        let command = disk::throttle_command(disk.slot.number, throttle);
        qmp::command(&self.work.path().join("qmp"), &command.to_string())
            .with_context(|| format!("cannot throttle disk {}", disk.name))
            .map(drop)
    }

    /// Returns the time for which L1's emulator was ready to run and had no processor so far.
    /// Measurements during such times depend more on this machine than on L1.
    #[must_use]
    pub fn starved(&self) -> Duration {
        self.emulator.waited()
    }

    /// Starts a guest and waits for its agent.
    ///
    /// # Errors
    ///
    /// Fails if it does not boot. The error has the end of its console.
    pub fn start_guest(&self, config: &GuestConfig) -> Result<Guest> {
        let artifacts = &self.config.artifacts;
        let mut config = config.clone().kernel_arg(artifacts.kernel_args);
        config.memory_mib += artifacts.more_memory_mib;
        self.host
            .shell("test -c /dev/kvm")
            .context("L1 has no KVM")?;
        Guest::start(self.host.link(), &self.host, &config)
            .with_context(|| format!("guest {} did not come up", config.name))
    }

    /// Fails if any console has reported a problem of a kernel since the last call (see
    /// [`crate::console`]), except lines `allowed`, or if L1 is tainted by more than the modules.
    ///
    /// # Errors
    ///
    /// The error has the lines.
    pub fn check_consoles(&self, allowed: &[Regex]) -> Result<()> {
        let complaints = self.host.link().vitals.judge(allowed);
        if !complaints.is_empty() {
            bail!("kernel complaints:\n{}", complaints.join("\n"));
        }
        self.host.check_taint()
    }

    /// Concludes a test in this lab, whose `result` it returns. After a success L1 gets back into
    /// the state in which it was booted: its guests must have ended, and the host module is
    /// unloaded. The consoles are judged in any case (see [`Lab::check_consoles`]).
    ///
    /// # Errors
    ///
    /// Fails if the test did, with the complaints of the kernels in front, because they explain
    /// more than the error of the test. Otherwise it fails if there are complaints, or if the host
    /// module is not unloaded.
    pub fn conclude<T>(&self, result: Result<T>, allowed: &[Regex]) -> Result<T> {
        match result {
            Ok(value) => self.tidy(allowed).map(|()| value),
            Err(error) => Err(match self.check_consoles(allowed) {
                Ok(()) => error,
                Err(complaints) => error.context(format!("{complaints:#}")),
            }),
        }
    }

    fn tidy(&self, allowed: &[Regex]) -> Result<()> {
        if self.host.has_module(HOST_MODULE)? {
            self.host.unload_module(HOST_MODULE)?;
        }
        self.host.search_leaks()?;
        self.check_consoles(allowed)
    }

    /// Sets how long its machines may be without progress before a request to them fails.
    pub fn set_patience(&self, patience: Patience) {
        self.host.link().vitals.set_patience(patience);
    }

    /// Shuts L1 down and waits for the end.
    ///
    /// # Errors
    ///
    /// Fails if it does not end by itself. It is killed in this case.
    pub fn shutdown(self) -> Result<()> {
        self.host.tell(Op::Poweroff)?;
        let limit = Duration::from_secs(300) * self.config.artifacts.pace;
        let start = Instant::now();
        while self.emulator.wait(Duration::from_secs(1)).is_none() {
            if start.elapsed() > limit {
                bail!("L1 did not switch off");
            }
        }
        Ok(())
    }
}

impl Drop for Lab {
    /// Clones of its machines may outlive L1.
    fn drop(&mut self) {
        self.emulator.kill();
    }
}

fn start_emulator(config: &LabConfig, work: &Path, beside: Option<&Path>) -> Result<Arc<Process>> {
    remove_old_logs(&config.dir)?;
    let log = fs::File::create(config.dir.join("l1.emulator.log"))?;
    // The watchdog reads the file from the start.
    fs::File::create(config.dir.join("l1.console.log"))?;
    let env = config.artifacts.qemu.env();
    Ok(Arc::new(Process::start(
        &config.argv(work, beside),
        &env,
        log,
    )?))
}

/// Consoles of guests are appended to, so that those of an earlier run must be removed.
fn remove_old_logs(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Loads KVM. Kernels with PREEMPT_RT do not run guests on emulated processors.
fn load_kvm(host: &Machine) -> Result<()> {
    host.shell("modprobe kvm-amd 2>/dev/null || modprobe kvm-intel 2>/dev/null || true")
        .map(drop)
}

fn first_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns the VMM's arguments for a number of NUMA nodes with equal parts of the memory.
pub(crate) fn numa(memory_mib: u64, nodes: u32) -> Vec<(&'static str, String)> {
    let nodes = if nodes > 1 { 0..nodes } else { 0..0 };
    let part = memory_mib / nodes.len().max(1) as u64;
    let argument = |node: u32| {
        let memory = format!("memory-backend-ram,id=node{node},size={part}M");
        let numa = format!("node,nodeid={node},cpus={node},memdev=node{node}");
        [("-object", memory), ("-numa", numa)]
    };
    nodes.flat_map(argument).collect()
}
