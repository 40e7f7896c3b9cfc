// SPDX-License-Identifier: GPL-2.0-only

//! Figures of one use of the memory, in a stage on a disk.

use std::time::Duration;

use ddabi::PAGE_SIZE;
use ddlab::Throttle;
use serde::Serialize;

use super::{meter::Spent, way::Way, workload::Workload};
use crate::recording::{ContainerTrack, Recording};

/// Percentage of a measurement for which the host may be without a processor. Beyond that the
/// figures depend on the machine.
pub(crate) const MAX_STARVED_PERCENT: f64 = 15.0;

const MIB: f64 = (1 << 20) as f64;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) workload: Workload,
    pub(crate) stage: &'static str,
    /// Difference from the stage that is compared; empty if it is compared with other ways.
    pub(crate) variant: &'static str,
    pub(crate) way: Way,
    /// The disk of each VM.
    pub(crate) disk_iops: u64,
    /// Whether the disk is the usual one, and not one of the sweep.
    pub(crate) usual: bool,
    /// Whether the caches were full and misses were steady before the stage was measured.
    pub(crate) warm: bool,
    /// Number of windows that were measured, of which the least starved one counts.
    pub(crate) tries: usize,
    pub(crate) containers: Vec<Rate>,
    #[serde(flatten)]
    pub(crate) cost: Cost,
}

/// Throughput of a container.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Rate {
    pub(crate) name: String,
    pub(crate) operations_per_s: f64,
    pub(crate) p99_ms: Option<f64>,
}

/// Costs for the whole host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Cost {
    /// Data read by requests from any source.
    pub(crate) read_mib_per_s: f64,
    /// Data read from the disks.
    pub(crate) disk_mib_per_s: f64,
    pub(crate) disk_reads_per_s: f64,
    /// The difference, which came from caches of any kind.
    pub(crate) avoided_mib_per_s: f64,
    /// Exits for each page that requests read.
    pub(crate) exits_per_page: Option<f64>,
    /// Processor time for each of these pages, in microseconds.
    pub(crate) cpu_us_per_page: Option<f64>,
    /// Percentage of the time for which the host itself had no processor. Figures of a starved host
    /// mean little.
    pub(crate) starved_percent: f64,
    /// Memory of the divided kind that the host used; `None` where guests have it.
    pub(crate) held_mib: Option<f64>,
    /// Memory of the modules in the host and in the guests, by which the tier was smaller.
    pub(crate) beside_mib: f64,
}

/// A window of a recording, with the host's costs in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) disk: Throttle,
    pub(crate) usual: bool,
    /// Start and end in the recording's time.
    pub(crate) span: (f64, f64),
    pub(crate) spent: Spent,
    /// Whether the caches were warm.
    pub(crate) warm: bool,
    /// Number of windows of which this one was chosen.
    pub(crate) tries: usize,
    /// Time for which the host had no processor.
    pub(crate) starved: Duration,
    pub(crate) held_bytes: Option<u64>,
    /// Memory of the modules.
    pub(crate) beside_bytes: u64,
}

impl Window {
    /// Returns the window in which the host waited least for a processor, whatever the figures are.
    pub(super) fn least_starved(windows: Vec<Self>) -> Self {
        let tries = windows.len();
        let least = windows.into_iter().min_by_key(|window| window.starved);
        Self {
            tries,
            ..least.expect("a window is measured at least once")
        }
    }

    /// Returns the throughput of the containers.
    pub(crate) fn rates(&self, recording: &Recording) -> Vec<Rate> {
        let rate = |track: &ContainerTrack| {
            let figures = track.over(self.span);
            Rate {
                name: track.name.clone(),
                operations_per_s: figures.operations_per_s,
                p99_ms: figures.p99_ms,
            }
        };
        recording.containers.iter().map(rate).collect()
    }

    /// Returns the percentage of the time for which the host had no processor. Threads add up.
    pub(crate) fn starved_percent(&self) -> f64 {
        let seconds = self.spent.seconds.max(f64::MIN_POSITIVE);
        100.0 * self.starved.as_secs_f64() / seconds
    }

    /// Returns the costs.
    pub(crate) fn cost(&self, recording: &Recording) -> Cost {
        let read: f64 = recording
            .containers
            .iter()
            .map(|track| read_per_s(track, self.span))
            .sum();
        let seconds = self.spent.seconds.max(f64::MIN_POSITIVE);
        let counters = self.spent.counters;
        let disk = counters.disk_bytes as f64 / seconds;
        let pages = read / PAGE_SIZE as f64;
        let per_page = |count: f64| (pages > 0.0).then(|| count / seconds / pages);
        Cost {
            read_mib_per_s: read / MIB,
            disk_mib_per_s: disk / MIB,
            disk_reads_per_s: counters.disk_requests as f64 / seconds,
            avoided_mib_per_s: (read - disk) / MIB,
            exits_per_page: per_page(counters.exits as f64),
            cpu_us_per_page: per_page(counters.cpu_s * 1e6),
            starved_percent: self.starved_percent(),
            held_mib: self.held_bytes.map(|bytes| bytes as f64 / MIB),
            beside_mib: self.beside_bytes as f64 / MIB,
        }
    }
}

impl Measured {
    /// Returns a line for progress messages.
    pub(crate) fn describe(&self) -> String {
        let rates = self.containers.iter();
        let rates: Vec<_> = rates
            .map(|rate| format!("{} {:.0}", rate.name, rate.operations_per_s))
            .collect();
        let cost = &self.cost;
        let stage = match self.variant {
            "" => self.stage.to_owned(),
            variant => format!("{}, {variant}", self.stage),
        };
        let cold = if self.warm { "" } else { "; not warm" };
        let again = match self.tries {
            1 => String::new(),
            tries => format!("; the least starved of {tries} windows"),
        };
        format!(
            "{stage}, {} IOPS: {} requests/s; {:.2} of {:.2} MiB/s from disk{cold}{again}",
            self.disk_iops,
            rates.join(", "),
            cost.disk_mib_per_s,
            cost.read_mib_per_s
        )
    }

    /// Returns the requests for each one of another way, as the geometric mean over containers.
    pub(crate) fn over(&self, other: &Self) -> Option<f64> {
        geometric_mean(self.containers.iter().map(|own| {
            let same = |rate: &&Rate| rate.name == own.name;
            let others = other.containers.iter().find(same)?.operations_per_s;
            Some(own.operations_per_s / others)
        }))
    }
}

/// Returns the geometric mean of factors, or `None` if there are none or one is missing.
pub(super) fn geometric_mean(factors: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let is_factor = |by: &f64| *by > 0.0 && by.is_finite();
    let logarithms = factors.map(|by| by.filter(is_factor).map(f64::ln));
    let logarithms: Vec<f64> = logarithms.collect::<Option<_>>()?;
    let count = logarithms.len() as f64;
    (count > 0.0).then(|| (logarithms.iter().sum::<f64>() / count).exp())
}

/// Returns the bytes a second that requests of a container read.
fn read_per_s(track: &ContainerTrack, (from, to): (f64, f64)) -> f64 {
    let within = track
        .work
        .iter()
        .filter(|work| work.at > from && work.at <= to);
    let (bytes, seconds) = within.fold((0, 0.0), |(bytes, seconds), work| {
        let one = &work.interval;
        (bytes + one.bytes_read, seconds + one.seconds)
    });
    if seconds > 0.0 {
        bytes as f64 / seconds
    } else {
        0.0
    }
}

#[cfg(test)]
pub(super) fn sample(way: Way, stage: &'static str, disk_iops: u64, rates: &[f64]) -> Measured {
    Measured {
        workload: Workload::One,
        stage,
        variant: "",
        way,
        disk_iops,
        usual: true,
        warm: true,
        tries: 1,
        containers: (0..)
            .zip(rates)
            .map(|(number, &operations_per_s)| Rate {
                name: format!("container {number}"),
                operations_per_s,
                p99_ms: None,
            })
            .collect(),
        cost: Cost::default(),
    }
}

#[cfg(test)]
mod tests {
    use ddload::Interval;

    use super::*;
    use crate::{bench::meter::Counters, recording::Work};

    #[test]
    fn factors_are_means_over_containers() {
        let one = sample(Way::DoubleDecker, "a", 50, &[80.0, 10.0]);
        let other = sample(Way::Fifo, "a", 50, &[10.0, 20.0]);
        assert!((one.over(&other).unwrap() - 2.0).abs() < 1e-9);
        let idle = sample(Way::Fifo, "a", 50, &[0.0, 20.0]);
        assert_eq!(one.over(&idle), None);
        assert_eq!(one.over(&sample(Way::Fifo, "a", 50, &[1.0])), None);
    }

    #[test]
    fn the_chosen_window_tells_how_many_there_were() {
        let window = |starved, at| Window {
            disk: Throttle::NONE,
            usual: true,
            span: (at, at + 1.0),
            spent: Spent {
                seconds: 1.0,
                counters: Counters::default(),
            },
            warm: true,
            tries: 1,
            starved: Duration::from_millis(starved),
            held_bytes: None,
            beside_bytes: 0,
        };
        let chosen = |starved: &[u64]| {
            let windows = (0..).zip(starved);
            let windows = windows.map(|(at, starved)| window(*starved, f64::from(at)));
            let chosen = Window::least_starved(windows.collect());
            (chosen.span.0, chosen.tries)
        };
        assert_eq!(chosen(&[100]), (0.0, 1));
        assert_eq!(chosen(&[400, 200, 300]), (1.0, 3));
    }

    #[test]
    fn costs_are_of_their_window() {
        let work = |at, pages: u64| Work {
            at,
            interval: Interval {
                elapsed: at,
                seconds: 1.0,
                operations: 4,
                bytes_read: pages * PAGE_SIZE as u64,
                bytes_written: 0,
                storage_bytes_read: 0,
                idle: 0.0,
                latency_us: None,
            },
        };
        let recording = Recording {
            containers: vec![ContainerTrack {
                vm: String::new(),
                name: "db".to_owned(),
                about: String::new(),
                shares: Vec::new(),
                counts: Vec::new(),
                work: vec![work(1.0, 9), work(2.0, 256), work(3.0, 768)],
            }],
            ..Recording::default()
        };
        let window = Window {
            disk: Throttle::NONE,
            usual: true,
            span: (1.0, 3.0),
            spent: Spent {
                seconds: 2.0,
                counters: Counters {
                    disk_bytes: 1 << 20,
                    disk_requests: 64,
                    exits: 512,
                    cpu_s: 1.024,
                },
            },
            warm: true,
            tries: 1,
            starved: Duration::from_millis(500),
            held_bytes: Some(3 << 20),
            beside_bytes: 1 << 20,
        };
        let cost = window.cost(&recording);
        assert_eq!((cost.read_mib_per_s, cost.disk_mib_per_s), (2.0, 0.5));
        assert_eq!(cost.avoided_mib_per_s, 1.5);
        assert_eq!(cost.disk_reads_per_s, 32.0);
        assert_eq!(cost.exits_per_page, Some(0.5));
        assert_eq!(cost.cpu_us_per_page, Some(1000.0));
        assert_eq!((cost.held_mib, cost.beside_mib), (Some(3.0), 1.0));
        assert_eq!(cost.starved_percent, 25.0);
        assert_eq!(window.rates(&recording)[0].operations_per_s, 4.0);
    }
}
