// SPDX-License-Identifier: GPL-2.0-only

//! Running a machine and noting what its containers hold and do.

use crate::control::{Control, INTERVAL_S};
use ddcore::policy::Policy;
use ddreport::chart::{Line, Points};
use ddsim::host::{Counts, Mode, TierKind};
use ddsim::machine::{Container, Machine, Work};
use ddsim::parameters::{
    MAIL_SET_MIB, MAIL_THREADS, PROXY_SET_MIB, PROXY_THREADS, SATA_MIB, SsdSpeed, UNIT_PAGES,
    UNITS_PER_MIB, VIDEO_MIB, VIDEO_THREADS, WEB_ANONYMOUS_MIB, WEB_SET_MIB, WEB_THREADS,
};
use ddsim::workload::Workload;
use ddsim::workload::filebench::{Mail, Proxy, Video, Webserver};

/// Seconds between two notes.
const STEP: u64 = 20;

/// Names of the four workloads, in the paper's order.
pub(super) const FOUR: [&str; 4] = ["Webserver", "Proxycache", "Mail", "Videoserver"];

/// The recorded values.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// MiB of the memory tier held by each container over seconds.
    pub(super) held: Vec<Points>,
    /// MiB of the SSD tier held by each container over seconds.
    pub(super) on_ssd: Vec<Points>,
    /// MiB of the VM's memory that each container has over seconds, without memory that is not
    /// simulated.
    pub(super) memory: Vec<Points>,
    works: Vec<Vec<Work>>,
}

impl Record {
    /// Runs until a second; `event` is called before each note with the second.
    pub(super) fn run(
        &mut self,
        machine: &mut Machine,
        containers: usize,
        until: u64,
        mut event: impl FnMut(&mut Machine, u64),
    ) {
        self.held.resize(containers, Vec::new());
        self.on_ssd.resize(containers, Vec::new());
        self.memory.resize(containers, Vec::new());
        self.works.resize(containers, Vec::new());
        let from = self.held.first().map_or(0, |held| held.len() as u64);
        for second in (from * STEP..until).step_by(STEP as usize) {
            event(machine, second);
            machine.run(second + STEP);
            self.note(machine, second + STEP);
        }
    }

    /// Runs until a second, with a daemon that looks whenever it is its time.
    pub(super) fn run_with(&mut self, machine: &mut Machine, control: &mut Control, until: u64) {
        let containers = control.containers();
        let event = |machine: &mut Machine, second: u64| {
            // The last look is the first one of the next round.
            for look in (second..second + STEP).step_by(INTERVAL_S as usize) {
                machine.run(look);
                control.look(machine, look);
            }
        };
        self.run(machine, containers, until, event);
    }

    fn note(&mut self, machine: &Machine, second: u64) {
        for (container, held) in self.held.iter_mut().enumerate() {
            held.push((second as f64, machine.held_mib(container)));
            let on_ssd = machine.held_on_ssd_mib(container);
            self.on_ssd[container].push((second as f64, on_ssd));
            let used = machine.usage(container).used as f64 / UNITS_PER_MIB as f64;
            self.memory[container].push((second as f64, used));
            self.works[container].push(machine.work(container));
        }
    }

    /// Returns the rates of a container between two seconds: operations a second, MB a second,
    /// their mean latency in milliseconds, and the part of reads that the store served after the
    /// page cache did not.
    pub(super) fn rate(&self, container: usize, from: u64, until: u64) -> Rate {
        let at = |second: u64| {
            let notes = &self.works[container];
            match (second / STEP) as usize {
                0 => Work::default(),
                note => notes[(note - 1).min(notes.len() - 1)],
            }
        };
        let (before, after) = (at(from), at(until));
        let seconds = (until - from) as f64;
        let operations = (after.operations - before.operations) as f64;
        let missed = (after.missed_units - before.missed_units) as f64;
        Rate {
            operations: operations / seconds,
            megabytes: (after.bytes - before.bytes) as f64 / 1e6 / seconds,
            latency_ms: (after.latency - before.latency) as f64 / 1e6 / operations.max(1.0),
            disk: (after.disk_units - before.disk_units) as f64 / seconds,
            ssd: (after.ssd_units - before.ssd_units) as f64 / seconds,
            miss_ratio: (after.disk_units - before.disk_units) as f64 / missed.max(1.0),
        }
    }

    /// Returns the mean of what a container held between two seconds, in MiB.
    pub(super) fn mean(&self, container: usize, from: u64, until: u64) -> f64 {
        mean(&self.held[container], from, until)
    }

    /// Returns the mean of what a container held on the SSD between two seconds, in MiB.
    pub(super) fn mean_on_ssd(&self, container: usize, from: u64, until: u64) -> f64 {
        mean(&self.on_ssd[container], from, until)
    }

    /// Returns the mean of the VM's memory that a container had between two seconds, in MiB.
    pub(super) fn mean_memory(&self, container: usize, from: u64, until: u64) -> f64 {
        mean(&self.memory[container], from, until)
    }

    /// Returns the memory of the first containers, under these names.
    pub(super) fn lines(&self, names: &[&str]) -> Vec<Line> {
        named(names, self.held.iter().cloned())
    }

    /// Returns what the first containers hold on the SSD, under these names.
    pub(super) fn lines_on_ssd(&self, names: &[&str]) -> Vec<Line> {
        named(names, self.on_ssd.iter().cloned())
    }
}

/// Returns lines with their names.
pub(super) fn named(names: &[&str], lines: impl IntoIterator<Item = Points>) -> Vec<Line> {
    let pairs = names.iter().zip(lines);
    pairs.map(|(name, line)| (name.to_string(), line)).collect()
}

fn mean(line: &[(f64, f64)], from: u64, until: u64) -> f64 {
    let inside = |(second, _): &&(f64, f64)| *second > from as f64 && *second <= until as f64;
    let values: Vec<f64> = line.iter().filter(inside).map(|(_, mib)| *mib).collect();
    values.iter().sum::<f64>() / (values.len() as f64).max(1.0)
}

/// The work of a container in a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub(super) operations: f64,
    pub(super) megabytes: f64,
    pub(super) latency_ms: f64,
    pub(super) miss_ratio: f64,
    /// Units read from disk.
    pub(super) disk: f64,
    /// Units read from the SSD tier.
    pub(super) ssd: f64,
}

/// Threads of the four workloads.
pub(super) const THREADS: [usize; 4] = [WEB_THREADS, PROXY_THREADS, MAIL_THREADS, VIDEO_THREADS];

/// Second at which all files of the four workloads are made, and the servers run.
pub(super) const MADE: u64 = 1_100;
/// Second at which the four workloads end, after about as long as table 2's evictions take.
pub(super) const UNTIL: u64 = 2_000;

/// One VM with the paper's four containers.
pub(super) fn four(
    capacity_mib: u64,
    mode: Mode,
    policy: Policy,
    limits: [u64; 4],
    weights: [u32; 4],
    threads: [usize; 4],
) -> Machine {
    let mut machine = Machine::new(capacity_mib, mode);
    let vm = machine.host().add_vm(100);
    let loads: [Box<dyn Workload>; 4] = [
        Box::new(Webserver::new(WEB_SET_MIB, 1).made_first()),
        Box::new(Proxy::new(PROXY_SET_MIB, 2).made_first()),
        Box::new(Mail::new(MAIL_SET_MIB, 3).made_first()),
        Box::new(Video::endless(VIDEO_MIB)),
    ];
    for (at, workload) in loads.into_iter().enumerate() {
        machine.add(Container {
            vm,
            limit_mib: limits[at] - if at == 0 { WEB_ANONYMOUS_MIB } else { 0 },
            weight: weights[at],
            policy,
            processors: 2,
            threads: threads[at],
            start_s: 0,
            workload,
        });
    }
    machine
}

/// Gives a machine of the paper's four containers its SSD, and their weights in the memory tier and
/// in the SSD tier.
pub(super) fn with_ssd(machine: &mut Machine, speed: SsdSpeed, weights: [(u32, u32); 4]) {
    machine.set_ssd(SATA_MIB, speed);
    for (container, (memory, ssd)) in weights.into_iter().enumerate() {
        machine.weigh(container, memory, ssd);
    }
}

/// Returns the counters of a container in both tiers.
fn tiers(machine: &Machine, container: usize) -> [Counts; 2] {
    [TierKind::Memory, TierKind::Ssd].map(|tier| machine.counts_in(container, tier))
}

/// Returns the evictions of a container in pages.
pub(super) fn evicted_pages(machine: &Machine, container: usize) -> f64 {
    let evicted = tiers(machine, container).map(|counts| counts.evictions);
    (evicted.iter().sum::<u64>() * UNIT_PAGES) as f64
}

/// Returns the hits for each hundred puts, the paper's *lookup-to-store ratio*.
pub(super) fn lookup_to_store(machine: &Machine, container: usize) -> f64 {
    let tiers = tiers(machine, container);
    let [hits, puts] = [
        tiers.iter().map(|counts| counts.hits).sum::<u64>(),
        tiers.iter().map(|counts| counts.puts).sum::<u64>(),
    ];
    100.0 * hits as f64 / (puts as f64).max(1.0)
}
