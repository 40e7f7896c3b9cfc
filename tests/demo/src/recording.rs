// SPDX-License-Identifier: GPL-2.0-only

//! The data of a run: samples on one time axis, in seconds.

use ddabi::PAGE_SIZE;
use ddload::Interval;
use serde::Serialize;

use crate::latency::Latencies;

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Recording {
    /// Phases, in order and without gaps.
    pub(crate) phases: Vec<Phase>,
    /// Times of changes.
    pub(crate) changes: Vec<Change>,
    pub(crate) vms: Vec<VmTrack>,
    pub(crate) containers: Vec<ContainerTrack>,
    /// Time of the newest sample.
    pub(crate) now: f64,
}

/// A phase of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Phase {
    pub(crate) name: String,
    /// Whether weights divide the cache in this phase.
    pub(crate) weighted: bool,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Change {
    pub(crate) at: f64,
    pub(crate) text: String,
}

/// A VM.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct VmTrack {
    pub(crate) name: String,
    pub(crate) shares: Vec<Share>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ContainerTrack {
    pub(crate) vm: String,
    pub(crate) name: String,
    /// Description of its load.
    pub(crate) about: String,
    pub(crate) shares: Vec<Share>,
    /// The host's counters, at the times of `shares`.
    pub(crate) counts: Vec<Counts>,
    /// The progress of the load.
    pub(crate) work: Vec<Work>,
}

/// Part of the cache at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Share {
    pub(crate) at: f64,
    pub(crate) used_pages: u64,
    pub(crate) entitlement_pages: u64,
    pub(crate) weight: u32,
}

/// Counters since the creation of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Counts {
    pub(crate) at: f64,
    pub(crate) puts: u64,
    pub(crate) gets: u64,
    pub(crate) misses: u64,
    pub(crate) evictions: u64,
    pub(crate) calls: u64,
}

/// Progress of a load up to a moment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Work {
    pub(crate) at: f64,
    #[serde(flatten)]
    pub(crate) interval: Interval,
}

/// Figures of a container in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Figures {
    pub(crate) operations_per_s: f64,
    /// Latency that 99 % of the requests did not exceed; see [`Latencies`].
    pub(crate) p99_ms: Option<f64>,
    /// Fraction of the pages that its page cache missed and the host had.
    pub(crate) hit_ratio: Option<f64>,
    /// Exits for each page put or requested.
    pub(crate) exits_per_page: Option<f64>,
    /// Median latency.
    pub(crate) p50_ms: Option<f64>,
    /// KiB that the container read from its disk in a second.
    pub(crate) disk_kib_per_s: Option<f64>,
    /// Fraction of the time for which the processors of its VM were idle.
    pub(crate) idle: Option<f64>,
}

impl Share {
    pub(crate) fn used_mib(&self) -> f64 {
        mib(self.used_pages)
    }

    pub(crate) fn entitlement_mib(&self) -> f64 {
        mib(self.entitlement_pages)
    }
}

impl Recording {
    /// Returns the phase of a name.
    pub(crate) fn phase(&self, name: &str) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.name == name)
    }

    pub(crate) fn container(&self, name: &str) -> Option<&ContainerTrack> {
        self.containers.iter().find(|track| track.name == name)
    }

    pub(crate) fn vm(&self, name: &str) -> Option<&VmTrack> {
        self.vms.iter().find(|track| track.name == name)
    }
}

impl Phase {
    /// Returns its last `seconds`, when the system has settled.
    pub(crate) fn settled(&self, seconds: f64) -> (f64, f64) {
        ((self.to - seconds).max(self.from), self.to)
    }
}

impl ContainerTrack {
    /// Returns its work from one time to another.
    fn within(&self, (from, to): (f64, f64)) -> impl Iterator<Item = &Interval> {
        let work = self.work.iter();
        work.filter(move |work| work.at > from && work.at <= to)
            .map(|work| &work.interval)
    }

    /// Returns the latencies of all its requests from one time to another.
    pub(crate) fn latencies(&self, window: (f64, f64)) -> Latencies {
        Latencies::of(self.within(window))
    }

    /// Returns its figures from one time to another.
    pub(crate) fn over(&self, (from, to): (f64, f64)) -> Figures {
        let work: Vec<&Interval> = self.within((from, to)).collect();
        let seconds: f64 = work.iter().map(|interval| interval.seconds).sum();
        let operations: u64 = work.iter().map(|interval| interval.operations).sum();
        let stored: u64 = work.iter().map(|one| one.storage_bytes_read).sum();
        let latencies = self.latencies((from, to));
        let (hits, pages, calls) = self.counted(from, to);
        let stored_pages = stored as f64 / PAGE_SIZE as f64;
        Figures {
            operations_per_s: ratio(operations as f64, seconds).unwrap_or(0.0),
            p99_ms: latencies.percentile_us(99).map(|us| us as f64 / 1000.0),
            hit_ratio: ratio(hits, hits + stored_pages),
            exits_per_page: ratio(calls, pages),
            p50_ms: latencies.percentile_us(50).map(|us| us as f64 / 1000.0),
            disk_kib_per_s: ratio(stored as f64 / 1024.0, seconds),
            idle: ratio(work.iter().map(|one| one.idle * one.seconds).sum(), seconds),
        }
    }

    /// Returns the pages given, the pages put or requested, and the calls.
    fn counted(&self, from: f64, to: f64) -> (f64, f64, f64) {
        let zero = Counts::default();
        let first = self.counts.iter().rfind(|counts| counts.at <= from);
        let last = self.counts.iter().rfind(|counts| counts.at <= to);
        let (first, last) = (first.unwrap_or(&zero), last.unwrap_or(&zero));
        let since = |count: fn(&Counts) -> u64| count(last).saturating_sub(count(first)) as f64;
        (
            since(|counts| counts.gets.saturating_sub(counts.misses)),
            since(|counts| counts.puts + counts.gets),
            since(|counts| counts.calls),
        )
    }
}

/// Returns pages as MiB.
pub(crate) fn mib(pages: u64) -> f64 {
    (pages * PAGE_SIZE as u64) as f64 / f64::from(1 << 20)
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Returns a recording like the demo's, for tests of its readers.
#[cfg(test)]
pub(crate) fn sample() -> Recording {
    use crate::demo::{AGAIN, DEFAULT, FIFO, HOST, POLICY, WEIGHTS, WITHOUT};
    let starts = [
        (WITHOUT, 0.0),
        (FIFO, 15.0),
        (WEIGHTS, 25.0),
        (AGAIN, 33.0),
        (DEFAULT, 41.0),
        (POLICY, 70.0),
        (HOST, 90.0),
    ];
    let ends = starts[1..].iter().map(|start| start.1).chain([110.0]);
    let phases = starts.iter().zip(ends).map(|(&(name, from), to)| Phase {
        name: name.to_owned(),
        weighted: from >= 40.0 || name == WEIGHTS,
        from,
        to,
    });
    let change = |at, text: &str| Change {
        at,
        text: text.to_owned(),
    };
    let track = |vm: &str, name: &str, rates: [u64; 3], pages: u64| ContainerTrack {
        vm: vm.to_owned(),
        name: name.to_owned(),
        about: format!("{name}: 100 files"),
        shares: sample_shares(pages),
        // All of them need more.
        counts: (16_i32..110)
            .map(|second| Counts {
                at: second.into(),
                evictions: second.unsigned_abs().into(),
                ..Counts::default()
            })
            .collect(),
        work: (1..110)
            .map(|second| Work {
                at: f64::from(second),
                interval: Interval {
                    elapsed: f64::from(second),
                    seconds: 1.0,
                    operations: match second {
                        26..=33 => rates[0] * 2,
                        _ => rates[usize::from(second > 41) + usize::from(second > 70)],
                    },
                    bytes_read: 0,
                    bytes_written: 0,
                    storage_bytes_read: 4096,
                    idle: 0.25,
                    latency_us: None,
                },
            })
            .collect(),
    };
    Recording {
        phases: phases.collect(),
        changes: vec![
            change(15.5, "insmod both modules under load; ddctl mode fifo"),
            change(40.2, "ddctl mode weighted"),
            change(70.1, "policyd in shop: web 28, proxy 38"),
            change(
                90.1,
                "ddctl set-capacity 192M; ddctl set-weight warehouse 50",
            ),
        ],
        vms: vec![
            VmTrack {
                name: "shop".to_owned(),
                shares: sample_shares(24_000),
            },
            VmTrack {
                name: "warehouse".to_owned(),
                shares: sample_shares(8_000),
            },
        ],
        containers: vec![
            track("shop", "web", [60, 600, 590], 8_000),
            track("shop", "proxy", [30, 30, 120], 6_000),
            track("shop", "mail", [10, 10, 10], 1_000),
            track("shop", "video", [24, 24, 24], 9_000),
            track("warehouse", "db", [100, 100, 180], 8_000),
        ],
        now: 110.0,
    }
}

#[cfg(test)]
fn sample_shares(pages: u64) -> Vec<Share> {
    (17..110u32)
        .map(|second| Share {
            at: f64::from(second),
            used_pages: pages * u64::from(second.min(60)) / 60,
            entitlement_pages: if second < 90 { pages } else { pages * 3 / 2 },
            weight: 10,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use ddload::Latency;

    use super::*;

    fn work(at: f64, operations: u64, storage_pages: u64) -> Work {
        Work {
            at,
            interval: Interval {
                elapsed: at,
                seconds: 1.0,
                operations,
                bytes_read: 0,
                bytes_written: 0,
                storage_bytes_read: storage_pages * PAGE_SIZE as u64,
                idle: 0.0,
                latency_us: Some(Latency {
                    p50: 1,
                    p95: 2,
                    p99: 2000,
                    max: 5000,
                    counts: vec![(1, operations - 1), (2000, 1)],
                }),
            },
        }
    }

    #[test]
    fn figures_are_of_their_window() {
        let counts = |at, puts, gets, misses, calls| Counts {
            at,
            puts,
            gets,
            misses,
            evictions: 0,
            calls,
        };
        let track = ContainerTrack {
            vm: String::new(),
            name: String::new(),
            about: String::new(),
            shares: Vec::new(),
            counts: vec![counts(1.0, 50, 40, 40, 9), counts(3.0, 60, 130, 60, 19)],
            work: vec![work(1.0, 1, 99), work(2.0, 100, 10), work(3.0, 200, 20)],
        };
        let figures = track.over((1.0, 3.0));
        assert_eq!(figures.operations_per_s, 150.0);
        // The two slow ones are less than one request in a hundred.
        assert_eq!(figures.p99_ms, Some(0.001));
        assert_eq!(figures.p50_ms, Some(0.001));
        assert_eq!(figures.disk_kib_per_s, Some(60.0));
        assert_eq!(figures.hit_ratio, Some(0.7));
        assert_eq!(figures.exits_per_page, Some(0.1));
        assert_eq!(track.over((5.0, 6.0)).hit_ratio, None);
    }
}
