// SPDX-License-Identifier: GPL-2.0-only

//! The workloads.

use std::{fmt, str::FromStr};

use ddlab::Throttle;
use ddload::{Load, Profile};
use serde::Serialize;

use super::{memory::CGROUP, way::Way};
use crate::{
    demo::servers,
    plan::{ContainerPlan, HostSettings, VmPlan},
};

/// Memory of the host that is spent in one of the ways.
pub(crate) const MEMORY_MIB: u64 = 32;

type Weights = &'static [(&'static str, u32)];

/// The default weights.
const EQUAL: Weights = &[("east", 100), ("west", 100)];

/// Alternatives at west's peak to giving up all of east's files.
const KEPT: [(&str, Weights); 2] = [
    ("weights left", EQUAL),
    ("a tenth kept for east", &[("east", 10), ("west", 90)]),
];

/// VMs and their loads.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// A database in one container; disks of all speeds.
    One,
    /// Web, proxy, mail and video servers in a VM.
    Mix,
    /// Two VMs, of which one at a time is busy.
    Peaks,
}

/// A part of a workload that is measured separately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    /// Difference from the stage of that name that is compared; empty for that stage itself.
    pub(crate) variant: &'static str,
    /// VMs whose loads run.
    pub(crate) busy: &'static [&'static str],
    /// New weights of VMs.
    pub(crate) weights: Weights,
    /// Whether disks of all speeds are tried.
    pub(crate) sweep: bool,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Self; 3] = [Self::One, Self::Mix, Self::Peaks];

    /// Returns a line of description.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::One => "a database in one container, on disks of all speeds",
            Self::Mix => "web, proxy, mail and video servers in a VM",
            Self::Peaks => "a web server and a database in two VMs, busy in turns",
        }
    }

    /// Returns the VMs for a way.
    pub(crate) fn plans(self, way: Way) -> Vec<VmPlan> {
        let mut plans = self.base();
        let vms = plans.len() as u64;
        for plan in &mut plans {
            plan.host_settings = HostSettings {
                cache: way.host_cache(),
                cgroup: Some(CGROUP),
                populated: true,
            };
            if way == Way::Guests {
                // The memory is divided equally, as by equal weights.
                let more = MEMORY_MIB / vms;
                plan.memory_mib += more;
                let containers = plan.containers.len() as u64;
                for container in &mut plan.containers {
                    container.memory_mib += more / containers;
                }
            }
        }
        plans
    }

    pub(crate) fn stages(self, way: Way) -> Vec<Stage> {
        let stage = Stage {
            name: "",
            variant: "",
            busy: &[],
            weights: &[],
            sweep: false,
        };
        match self {
            Self::One => vec![Stage {
                name: "one container",
                busy: &["db"],
                // With one container, weights lead to one FIFO as well.
                sweep: way != Way::Fifo,
                ..stage
            }],
            Self::Mix => vec![Stage {
                name: "four servers",
                busy: &["servers"],
                ..stage
            }],
            Self::Peaks => {
                let mut stages = vec![
                    Stage {
                        name: "east's peak",
                        busy: &["east"],
                        ..stage
                    },
                    Stage {
                        name: "west's peak",
                        busy: &["west"],
                        // East's files are given up for it, which one FIFO does by itself.
                        weights: &[("east", 1), ("west", 99)],
                        ..stage
                    },
                ];
                if way == Way::DoubleDecker {
                    // These stages keep some of them. East has its peak before each, so that west
                    // starts as in the stage that is compared.
                    let [again, peak] = [stages[0], stages[1]];
                    for (variant, weights) in KEPT {
                        stages.push(Stage {
                            variant: "again",
                            weights: EQUAL,
                            ..again
                        });
                        stages.push(Stage {
                            variant,
                            weights,
                            ..peak
                        });
                    }
                }
                stages
            }
        }
    }

    /// Returns the VMs without the divided memory.
    fn base(self) -> Vec<VmPlan> {
        let vm = |name, containers| VmPlan {
            name,
            memory_mib: 288,
            vcpus: 1,
            // The throttle is below the host: see `Lab::throttle`.
            disk: Throttle::NONE,
            host_settings: HostSettings::default(),
            containers,
        };
        let database = |megabytes: fn(&str) -> Load| {
            vec![ContainerPlan {
                name: "db",
                memory_mib: 16,
                load: megabytes,
            }]
        };
        match self {
            Self::One => vec![vm(
                "db",
                database(|dir| Load::new(Profile::Zipf, dir).file_size(96 << 20).threads(2)),
            )],
            Self::Mix => vec![VmPlan {
                vcpus: 2,
                ..vm("servers", servers())
            }],
            Self::Peaks => vec![
                vm(
                    "east",
                    vec![ContainerPlan {
                        name: "web",
                        memory_mib: 8,
                        load: |dir| Load::new(Profile::Webserver, dir).files(1_800).threads(2),
                    }],
                ),
                vm(
                    "west",
                    database(|dir| Load::new(Profile::Zipf, dir).file_size(64 << 20).threads(2)),
                ),
            ],
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::One => "one",
            Self::Mix => "mix",
            Self::Peaks => "peaks",
        })
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|one| one.to_string() == text);
        found.ok_or_else(|| "expected one, mix or peaks".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_spend_the_same_memory() {
        for workload in Workload::ALL {
            let sum = |way| -> (u64, u64) {
                let plans = workload.plans(way);
                let vms = plans.iter().map(|plan| plan.memory_mib).sum();
                let containers = plans.iter().flat_map(|plan| &plan.containers);
                (vms, containers.map(|one| one.memory_mib).sum())
            };
            let (vms, containers) = sum(Way::Fifo);
            let (more_vms, more_containers) = sum(Way::Guests);
            assert_eq!(more_vms - vms, MEMORY_MIB);
            assert_eq!(more_containers - containers, MEMORY_MIB);
            assert_eq!(sum(Way::DoubleDecker), (vms, containers));
            assert_eq!(sum(Way::PageCache), (vms, containers));
        }
    }

    #[test]
    fn stages_name_only_their_own_vms() {
        for workload in Workload::ALL {
            let plans = workload.plans(Way::DoubleDecker);
            let known = |name: &str| plans.iter().any(|plan| plan.name == name);
            for stage in workload.stages(Way::DoubleDecker) {
                assert!(stage.busy.iter().all(|name| known(name)));
                assert!(stage.weights.iter().all(|(name, _)| known(name)));
            }
            // DoubleDecker has no measurement of its own before the one that is compared.
            let both = workload.stages(Way::Fifo).into_iter();
            for (fifo, own) in both.zip(workload.stages(Way::DoubleDecker)) {
                assert_eq!((own.name, own.variant), (fifo.name, ""));
            }
            assert_eq!(workload.to_string().parse(), Ok(workload));
        }
    }
}
