// SPDX-License-Identifier: GPL-2.0-only

//! A run of a workload with one use of the memory: VMs, warm-up, measurement.

use anyhow::Result;
use ddabi::PAGE_SIZE;
use ddlab::{GUEST_MODULE, HOST_MODULE, Lab, Machine, Throttle};

use super::{
    measured::{MAX_STARVED_PERCENT, Measured, Window},
    memory::{self, HostMemory},
    meter::Meter,
    warmth::Warmth,
    way::Way,
    workload::{MEMORY_MIB, Stage, Workload},
};
use crate::{
    ddctl,
    plan::DISK,
    recorder::{NoObserver, Recorder},
    recording::Recording,
    site::{self, Vm},
    step::step,
};

/// Speeds of a sweep, in requests a second.
const SWEEP: [u64; 4] = [15, 120, 300, 1000];
/// Bytes a second for each request a second, as on the usual disk.
const BYTES_PER_REQUEST: u64 = 500_000;
/// Pages of an eviction batch, smaller by the same factor as all other sizes.
const BATCH: &str = "128K";
/// Seconds at the usual speed before a measurement, and of the measurement.
const SETTLE_S: f64 = 3.0;
const MEASURE_S: f64 = 20.0;
/// The same for a speed of the sweep.
const SWEEP_SETTLE_S: f64 = 1.0;
const SWEEP_MEASURE_S: f64 = 6.0;
/// Maximum number of measurements of a window.
const TRIES: usize = 3;
/// Maximum warm-up time in seconds.
const MAX_WARM_S: f64 = 30.0;

/// A workload with one use of the memory.
struct Trial<'a> {
    lab: &'a Lab,
    workload: Workload,
    way: Way,
    vms: &'a [Vm],
    memory: &'a HostMemory,
    meter: Meter,
}

/// Runs a workload in all ways.
pub(super) fn run(lab: &Lab, workload: Workload) -> Result<Vec<Measured>> {
    let mut measured = Vec::new();
    for ways in Way::BY_BOOT {
        let memory = HostMemory::create(lab.host())?;
        let what = format!("{workload}: boot the VMs for {}", list(ways));
        let vms = step(&what, || site::boot(lab, &workload.plans(ways[0])))?;
        for &way in ways {
            let trial = Trial {
                lab,
                workload,
                way,
                vms: &vms,
                memory: &memory,
                meter: Meter::new(lab.host(), vms.iter().map(|vm| &vm.disk))?,
            };
            let of_way = step(&format!("{workload}: {}", way.name()), || {
                trial.load_modules()?;
                let measured = trial.run()?;
                trial.unload_modules()?;
                Ok(measured)
            })?;
            for one in &of_way {
                eprintln!("    {}", one.describe());
            }
            measured.extend(of_way);
        }
    }
    lab.check_consoles(&[])?;
    Ok(measured)
}

impl Trial<'_> {
    fn host(&self) -> &Machine {
        self.lab.host()
    }

    fn load_modules(&self) -> Result<()> {
        let Some((mode, policy)) = self.way.cache() else {
            return Ok(());
        };
        site::load_host(self.host(), MEMORY_MIB)?;
        ddctl::run(self.host(), &format!("set-capacity --batch {BATCH}"))?;
        ddctl::run(self.host(), &format!("mode {mode}"))?;
        for vm in self.vms {
            vm.attach()?;
            let containers = vm.plan.containers.iter();
            let weights: Vec<_> = containers.map(|one| (one.name, 100)).collect();
            vm.enrol(policy, &weights)?;
        }
        Ok(())
    }

    fn unload_modules(&self) -> Result<()> {
        if self.way.cache().is_none() {
            return Ok(());
        }
        for vm in self.vms {
            vm.guest.unload_module(GUEST_MODULE)?;
        }
        self.host().unload_module(HOST_MODULE)
    }

    fn run(&self) -> Result<Vec<Measured>> {
        let mut measured = Vec::new();
        for stage in self.workload.stages(self.way) {
            let (windows, recording) = self.record(&stage)?;
            measured.extend(windows.iter().map(|window| Measured {
                workload: self.workload,
                stage: stage.name,
                variant: stage.variant,
                way: self.way,
                disk_iops: window.disk.iops.unwrap_or(0),
                usual: window.usual,
                warm: window.warm,
                tries: window.tries,
                containers: window.rates(&recording),
                cost: window.cost(&recording),
            }));
        }
        Ok(measured)
    }

    fn record(&self, stage: &Stage) -> Result<(Vec<Window>, Recording)> {
        if self.way.cache().is_some() {
            for (vm, weight) in stage.weights {
                ddctl::run(self.host(), &format!("set-weight {vm} {weight}"))?;
            }
        }
        let mut recorder = Recorder::start(self.host(), Box::new(NoObserver))?;
        if self.way.cache().is_some() {
            recorder.host_is_loaded();
        }
        // The warm-up does not depend on the speed of the disk.
        self.throttle(Throttle::NONE)?;
        self.bound()?;
        for vm in self.busy(stage) {
            recorder.join(vm.start_loads(&[])?);
        }
        let warm = self.warm(stage, &mut recorder)?;
        self.bound()?;
        let mut windows = vec![self.measure(stage, &mut recorder, DISK)?];
        for iops in SWEEP.into_iter().filter(|_| stage.sweep) {
            let disk = Throttle {
                iops: Some(iops),
                bytes_per_s: Some(iops * BYTES_PER_REQUEST),
            };
            windows.push(self.measure(stage, &mut recorder, disk)?);
        }
        for window in &mut windows {
            window.warm = warm;
        }
        Ok((windows, recorder.finish()?))
    }

    /// Waits until the caches are full and the rate of misses is stable. Returns whether they were
    /// in time.
    fn warm(&self, stage: &Stage, recorder: &mut Recorder) -> Result<bool> {
        let start = recorder.now();
        let mut warmth = Warmth::new(self.room(stage));
        while recorder.now() - start < MAX_WARM_S {
            recorder.record(1.0)?;
            let disk = self.meter.read()?.disk_bytes();
            let requested = recorder.bytes_read();
            if warmth.note(self.held(stage)?, disk, requested) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Measures on a disk. If the host was starved the measurement is repeated a few times at most,
    /// and the least starved window counts. How many there were is a part of the result.
    fn measure(&self, stage: &Stage, recorder: &mut Recorder, disk: Throttle) -> Result<Window> {
        let (settle, measure) = match disk == DISK {
            true => (SETTLE_S, MEASURE_S),
            false => (SWEEP_SETTLE_S, SWEEP_MEASURE_S),
        };
        self.throttle(disk)?;
        recorder.record(settle)?;
        let mut windows = vec![self.window(stage, recorder, disk, measure)?];
        while windows.len() < TRIES
            && windows[windows.len() - 1].starved_percent() > MAX_STARVED_PERCENT
        {
            windows.push(self.window(stage, recorder, disk, measure)?);
        }
        Ok(Window::least_starved(windows))
    }

    fn window(
        &self,
        stage: &Stage,
        recorder: &mut Recorder,
        disk: Throttle,
        seconds: f64,
    ) -> Result<Window> {
        let starved = self.lab.starved();
        let (from, before) = (recorder.now(), self.meter.read()?);
        recorder.record(seconds)?;
        let (to, after) = (recorder.now(), self.meter.read()?);
        let held_bytes = match self.way {
            Way::Guests => None,
            Way::PageCache | Way::Fifo | Way::DoubleDecker => Some(self.held(stage)?),
        };
        let beside_bytes = self.beside()?;
        Ok(Window {
            disk,
            usual: disk == DISK,
            span: (from, to),
            spent: after - before,
            warm: false,
            tries: 1,
            starved: self.lab.starved().saturating_sub(starved),
            held_bytes,
            beside_bytes,
        })
    }

    fn throttle(&self, disk: Throttle) -> Result<()> {
        let mut vms = self.vms.iter();
        vms.try_for_each(|vm| self.lab.throttle(&vm.disk, disk))
    }

    /// Limits the divided memory where it has no limit itself: the host's page cache, and the tier
    /// to what the modules leave of it.
    fn bound(&self) -> Result<()> {
        match self.way {
            Way::Guests => Ok(()),
            Way::PageCache => self.memory.bound(MEMORY_MIB << 20),
            Way::Fifo | Way::DoubleDecker => {
                let kib = (MEMORY_MIB << 10).saturating_sub(self.beside()? >> 10);
                ddctl::run(self.host(), &format!("set-capacity {kib}K")).map(drop)
            }
        }
    }

    /// Returns the bytes that the modules take in addition to pages: the host's index, and the
    /// guests' maps and histories.
    fn beside(&self) -> Result<u64> {
        if self.way.cache().is_none() {
            return Ok(0);
        }
        let guests = self.vms.iter().map(|vm| ddctl::map_and_history(&vm.guest));
        Ok(ddctl::host(self.host())?.counters.index_bytes + guests.sum::<Result<u64>>()?)
    }

    /// Returns the bytes of the divided memory in use, as far as they can be counted.
    fn held(&self, stage: &Stage) -> Result<u64> {
        match self.way {
            Way::Guests => self
                .busy(stage)
                .flat_map(|vm| vm.plan.containers.iter().map(move |one| (vm, one.name)))
                .map(|(vm, name)| memory::of_container(&vm.guest, name))
                .sum(),
            Way::PageCache => self.memory.page_cache(),
            Way::Fifo | Way::DoubleDecker => {
                let vms = ddctl::vms(self.host())?;
                let pages: u64 = vms.iter().map(|vm| vm.used_pages).sum();
                Ok(pages * PAGE_SIZE as u64)
            }
        }
    }

    /// Returns its capacity in bytes.
    fn room(&self, stage: &Stage) -> u64 {
        let mib = match self.way {
            Way::Guests => self
                .busy(stage)
                .flat_map(|vm| &vm.plan.containers)
                .map(|container| container.memory_mib)
                .sum(),
            Way::PageCache | Way::Fifo | Way::DoubleDecker => MEMORY_MIB,
        };
        mib << 20
    }

    fn busy<'s>(&'s self, stage: &'s Stage) -> impl Iterator<Item = &'s Vm> {
        let vms = self.vms.iter();
        vms.filter(|vm| stage.busy.contains(&vm.plan.name))
    }
}

fn list(ways: &[Way]) -> String {
    let names: Vec<_> = ways.iter().map(|way| way.name()).collect();
    names.join(", ")
}
