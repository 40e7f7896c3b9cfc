// SPDX-License-Identifier: GPL-2.0-only

//! Other users are attached to the functions that the modules are attached to: tracers, probes and
//! BPF programs see the same calls, in any order of attaching and detaching; a livepatch of a
//! diverted function and the module exclude each other, and the later one gets an error.

mod hooks;
mod livepatch;
mod watch;

use anyhow::{Context as _, Result, ensure};
use ddlab::{
    Command, Context, Disk, Guest, GuestConfig, Machine, Scenario, Target, Throttle, wait,
};

use self::{
    hooks::Function,
    livepatch::Livepatch,
    watch::{Tracer, Watch},
};
use crate::{
    accounting, ddctl,
    filesystem::EXT4,
    stage::{self, GUEST, HOST, Stage, attached},
    torture::{FEW, Storm},
    triggers::{ExitCounts, Exits},
};

/// Attaches all of them together; in the long form also one by one, and under a torture.
pub(crate) const TRACING: Scenario = Scenario {
    name: "tracing",
    about: "tracers, probes, BPF programs and livepatches on the functions that modules attach to",
    quick: false,
    run,
};

const CAPACITY_MIB: u64 = 64;
/// Sets that are attached together. BPF programs are also attached alone, because their effect
/// depends on that.
const TOGETHER: &[&[Tracer]] = &[
    &[Tracer::Bpf],
    &[Tracer::Function, Tracer::Graph, Tracer::Probes, Tracer::Bpf],
];
const ONE_BY_ONE: &[&[Tracer]] = &[&[Tracer::Function], &[Tracer::Graph], &[Tracer::Probes]];
/// Number of pages that must come from the host for a read through the cache.
const SOME_HITS: u64 = 64;
/// Number of reads that must have been compared beside all tracers.
const MIN_READS: u64 = 1_000;
const FTRACE_ENABLED: &str = "/proc/sys/kernel/ftrace_enabled";
const XFS_READ: &str = "xfs_vm_readahead";
const HYPERCALL: &str = "____kvm_emulate_hypercall";

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let quick = context.quick();
    let stage = Stage {
        lab: context.lab()?,
    };
    host_is_refused(&stage)?;
    stage.load_host(CAPACITY_MIB)?;

    let disk = stage.blank_disk(EXT4.name, 256)?;
    let tortured = stage.blank_disks(FEW.map(|site| site.name()), 512)?;
    let config = GuestConfig::new("one").vcpus(2).memory_mib(1024);
    let config = config
        .disk(&disk, Throttle::NONE)
        .disks(&tortured, Throttle::NONE);
    let guest = stage.guest(&config)?;
    EXT4.format(&guest, &disk.path_in_guest())?;
    guest.mount(&disk.path_in_guest(), &EXT4.path(), EXT4.fstype, "noatime")?;
    let mut site = Site {
        stage: &stage,
        guest: &guest,
        disk: &disk,
        functions: hooks::attached(&guest)?,
    };
    site.works().context("only the module is attached")?;
    // Functions that change files; reads are diverted as usual.
    let changes: Vec<_> = site
        .functions
        .iter()
        .filter(|one| !one.reads())
        .cloned()
        .collect();
    site.watched(&[Tracer::Bpf], &changes)
        .context("BPF programs on changes in the guest")?;
    site.livepatched()?;
    site.switched_off()?;
    let storm = match quick {
        true => None,
        false => Some(Storm::start(&guest, &FEW, u64::MAX)?),
    };
    if storm.is_some() {
        // The guest has mounted another filesystem, whose functions are watched as well.
        site.functions = wait::until("the module is attached to XFS", || {
            let functions = hooks::attached(&guest)?;
            let has_xfs = functions.iter().any(|one| one.name == XFS_READ);
            Ok(has_xfs.then_some(functions))
        })?;
    }
    let sets = TOGETHER.iter().chain(ONE_BY_ONE).take(match quick {
        true => TOGETHER.len(),
        false => TOGETHER.len() + ONE_BY_ONE.len(),
    });
    for tracers in sets {
        site.watched(tracers, &site.functions)
            .with_context(|| format!("{tracers:?} in the guest"))?;
        site.host_watched(tracers)
            .with_context(|| format!("{tracers:?} in the host"))?;
    }
    let mut targets = Vec::new();
    if let Some(storm) = storm {
        storm.stop(&guest)?;
        targets.extend(storm.verdict("tracing", MIN_READS)?);
    }
    targets.push(site.timed()?);
    site.locked_down()?;
    accounting::check(stage.host())?;
    Ok(targets)
}

/// KVM's function is livepatched, or ftrace is switched off: the host module must report it.
fn host_is_refused(stage: &Stage<'_>) -> Result<()> {
    let host = stage.host();
    let refused = |why: &str| -> Result<()> {
        ensure!(
            stage.load_host(CAPACITY_MIB).is_err(),
            "the host module was loaded"
        );
        says(host, why)
    };
    let livepatch = Livepatch::enable(host, HYPERCALL)?;
    refused(&format!("cannot attach to {HYPERCALL}: a livepatch"))?;
    livepatch.disable()?;
    host.write_file(FTRACE_ENABLED, "0")?;
    refused("ftrace is switched off")?;
    host.write_file(FTRACE_ENABLED, "1")?;

    stage.load_host(CAPACITY_MIB)?;
    Livepatch::is_refused(host, HYPERCALL)?;
    stays_on(host)?;
    host.unload_module(HOST)
}

/// Checks that the kernel log has these words, and only once.
pub(crate) fn says(machine: &Machine, words: &str) -> Result<()> {
    let log = machine.exec_ok(["dmesg", "-c"])?;
    ensure!(
        log.contains(words),
        "{} does not say {words:?}: {log}",
        machine.name()
    );
    Ok(())
}

/// While a module is attached, ftrace cannot be switched off.
fn stays_on(machine: &Machine) -> Result<()> {
    let switched = machine.write_file(FTRACE_ENABLED, "0");
    ensure!(
        switched.is_err(),
        "ftrace could be switched off while a module was attached"
    );
    ensure!(machine.read_text(FTRACE_ENABLED)? == "1");
    Ok(())
}

/// A guest, and a filesystem in it that no other test uses.
struct Site<'a> {
    stage: &'a Stage<'a>,
    guest: &'a Guest,
    disk: &'a Disk,
    /// Functions that the guest module is attached to.
    functions: Vec<Function>,
}

impl Site<'_> {
    /// Content that is read through the cache is right, and comes from the host.
    fn works(&self) -> Result<()> {
        let before = (ddctl::guest(self.guest)?, self.hits()?);
        self.is_right()?;
        let hits = self.hits()?.saturating_sub(before.1);
        ensure!(
            hits >= SOME_HITS,
            "{hits} pages came from the host: {:?} before, {:?} now",
            before.0,
            ddctl::guest(self.guest)?
        );
        Ok(())
    }

    /// Returns the pages that readers outside of containers got from the host. The torture reads in
    /// other containers.
    fn hits(&self) -> Result<u64> {
        let containers = ddctl::containers(self.guest)?;
        let stats = ddctl::container(&containers, "default")?.stats;
        let stats = stats.context("the default pool has no statistics")?;
        Ok(stats.gets - stats.misses)
    }

    /// Content that is read is right.
    fn is_right(&self) -> Result<()> {
        for rule in ["change", "unmount"] {
            let line = format!(
                "ddhelper rule {rule} --mount {} --device {} --fstype {} --cgroup /",
                EXT4.path(),
                self.disk.path_in_guest(),
                EXT4.fstype,
            );
            let wrong = self.guest.run_ok(&Command::new(line.split(' ')))?;
            ensure!(
                wrong.trim() == "0",
                "{} wrong bytes after {rule}",
                wrong.trim()
            );
        }
        Ok(())
    }

    /// Attaches tracers before the module is loaded, and detaches them before it is unloaded; then
    /// attaches them after the module, and unloads it first.
    fn watched(&self, tracers: &[Tracer], functions: &[Function]) -> Result<()> {
        let guest = self.guest;
        guest.unload_module(GUEST)?;
        let watches = start(guest, tracers, functions)?;
        self.is_right().context("before the module was loaded")?;
        stage::attach(guest)?;
        self.works()
            .context("the module was loaded after the tracers")?;
        stop(watches)?;
        self.works()
            .context("the tracers were detached before the module")?;
        let now = hooks::attached(guest)?;
        ensure!(now == self.functions, "attached to {now:?} now");

        let watches = start(guest, tracers, functions)?;
        self.works()
            .context("the module was loaded before the tracers")?;
        guest.unload_module(GUEST)?;
        self.is_right()
            .context("the module was unloaded before the tracers")?;
        stage::attach(guest)?;
        self.works().context("the module was loaded again")?;
        stop(watches)?;
        self.works().context("only the module is attached")
    }

    /// Attaches and detaches tracers of KVM's functions in the same orders.
    fn host_watched(&self, tracers: &[Tracer]) -> Result<()> {
        let host = self.stage.host();
        let come = || -> Result<()> {
            self.stage.load_host(CAPACITY_MIB)?;
            attached(self.guest)?;
            self.works()
        };
        let functions = hooks::attached(host)?;
        // One of them is called only at a VM's end.
        let watches = start(host, tracers, &functions)?;
        self.works()
            .context("the module was loaded before the tracers")?;
        host.unload_module(HOST)?;
        self.is_right()
            .context("the module was unloaded before the tracers")?;
        // Until the hooks are detached the guest still reports that it is attached.
        stage::alone(self.guest)?;
        come().context("the module was loaded after the tracers")?;
        stop(watches)?;
        self.works().context("the tracers were detached")
    }

    /// A livepatch diverts one of the guest's functions.
    fn livepatched(&self) -> Result<()> {
        let guest = self.guest;
        Livepatch::is_refused(guest, "invalidate_inode_pages2_range")?;
        Livepatch::is_refused(guest, "ext4_readahead")?;
        guest.unload_module(GUEST)?;
        guest.exec_ok(["dmesg", "-C"])?;

        let livepatch = Livepatch::enable(guest, "invalidate_inode_pages2_range")?;
        guest.load_module(GUEST, &[])?;
        self.is_refused("cannot attach to invalidate_inode_pages2_range: a livepatch")?;
        self.is_right()?;
        livepatch.disable()?;
        self.recovers()?;

        guest.unload_module(GUEST)?;
        let livepatch = Livepatch::enable(guest, "ext4_readahead")?;
        stage::attach(guest)?;
        says(guest, "cannot attach to ext4_readahead: a livepatch")?;
        self.is_right()?;
        livepatch.disable()?;
        self.works().context("after ext4 was patched")
    }

    /// ftrace is switched off before the module is loaded.
    fn switched_off(&self) -> Result<()> {
        stays_on(self.guest)?;
        self.guest.unload_module(GUEST)?;
        self.guest.write_file(FTRACE_ENABLED, "0")?;
        self.guest.load_module(GUEST, &[])?;
        self.is_refused("ftrace is switched off")?;
        self.is_right()?;
        self.guest.write_file(FTRACE_ENABLED, "1")?;
        self.recovers()
    }

    /// The host's tracepoints see each call of the guest module begin and end.
    fn timed(&self) -> Result<Target> {
        let host = self.stage.host();
        let exits = Exits::watch(host)?;
        let before = ddctl::host(host)?.counters.calls;
        self.works()?;
        let calls = ddctl::host(host)?.counters.calls - before;
        let ExitCounts { count, longest_us } = exits.end()?;
        let timed = Target::at_least(
            "tracing: hypercalls that were timed",
            calls as f64,
            count as f64,
            "",
        );
        Ok(timed.detail(format!("the longest took {longest_us} us")))
    }

    /// The guest is locked down while its module waits for a host. The module cannot be loaded
    /// again then.
    fn locked_down(&self) -> Result<()> {
        let (host, guest) = (self.stage.host(), self.guest);
        host.unload_module(HOST)?;
        stage::alone(guest)?;
        guest.shell(
            "mountpoint -q /sys/kernel/security || mount -t securityfs none /sys/kernel/security
            echo confidentiality > /sys/kernel/security/lockdown",
        )?;
        self.stage.load_host(CAPACITY_MIB)?;
        attached(guest)?;
        self.works().context("the guest is locked down")?;
        guest.unload_module(GUEST)?;
        let loaded = guest.load_module(GUEST, &[]);
        ensure!(
            loaded.is_err(),
            "the guest module was loaded although it has no signature"
        );
        says(guest, "unsigned module loading is restricted")
    }

    /// The guest module does not attach, and reports the reason.
    fn is_refused(&self, why: &str) -> Result<()> {
        wait::until("the guest module reports that it cannot attach", || {
            Ok((ddctl::guest(self.guest)?.state == "refused").then_some(()))
        })?;
        says(self.guest, why)
    }

    /// The guest module attaches by itself.
    fn recovers(&self) -> Result<()> {
        wait::until("the guest module attaches", || {
            Ok((ddctl::guest(self.guest)?.state == "attached").then_some(()))
        })?;
        self.works()
    }
}

fn start<'a>(
    machine: &'a Machine,
    tracers: &[Tracer],
    functions: &[Function],
) -> Result<Vec<Watch<'a>>> {
    let tracers = tracers.iter();
    tracers
        .map(|tracer| tracer.start(machine, functions))
        .collect()
}

fn stop(watches: Vec<Watch<'_>>) -> Result<()> {
    watches.into_iter().try_for_each(Watch::stop)
}
