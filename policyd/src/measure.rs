// SPDX-License-Identifier: GPL-2.0-only

//! Measures cgroups, the machine, and applications.
//!
//! The kernel's files are read when the engine asks, because they answer at once. Applications are
//! asked by separate tasks ([`poller`]), each with a time limit, so that a hanging one delays no
//! other: the engine gets the last answer as long as it is fresh. Few are asked at a time. Answers
//! are read piece by piece, because tenants produce them, and an answer may be endless.

mod cgroup;
mod exposition;
mod figure;
mod machine;
mod origin;
mod poller;
mod pseudo;

pub use exposition::{Found, Metric, Search};
pub use figure::Figures;
pub use origin::{Ask, ContainerName, Origins};

use crate::{
    config::Container,
    engine::{Reading, Sample, ancestors},
};
use poller::{Pollers, Question};
use pseudo::Pseudo;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

/// Measures the machine, containers and applications.
pub struct Meter<A: Ask> {
    proc: PathBuf,
    pollers: Pollers<A>,
    files: Pseudo,
}

impl<A: Ask> Meter<A> {
    /// Creates a meter that reads `proc` as `/proc` and asks applications by `ask`.
    pub fn new(proc: &Path, ask: A) -> Self {
        Self {
            proc: proc.into(),
            pollers: Pollers::new(ask),
            files: Pseudo::new(),
        }
    }

    /// Measures the machine and containers below a cgroup root. `containers` are their cgroups,
    /// names of pools, and entries of the file.
    pub fn measure<'a>(
        &mut self,
        root: &Path,
        interval: Duration,
        containers: impl Iterator<Item = (&'a str, &'a str, &'a Container)> + Clone,
    ) -> Sample {
        let source = |(cgroup, name, container): (&'a str, &'a str, &'a Container)| {
            let target = container.target.as_ref()?;
            Some(Question {
                cgroup,
                name,
                source: target.source.as_ref()?,
                percentile: target.percentile,
                target: target.latency_ms,
            })
        };
        self.pollers
            .follow(interval, containers.clone().filter_map(source));
        let files = &mut self.files;
        let managed = containers.clone().filter(|(.., one)| one.manage_memory);
        let around: BTreeSet<&str> = managed.flat_map(|(cgroup, ..)| ancestors(cgroup)).collect();
        let mut low =
            |cgroup: &str| Some((cgroup.to_owned(), cgroup::limits(files, root, cgroup).low?));
        let lows = around.into_iter().filter_map(&mut low).collect();
        let machine = machine::read(files, &self.proc);
        let look = |(cgroup, _, container): (&'a str, &'a str, &'a Container)| {
            let mut reading = Reading {
                application: self.pollers.latest(cgroup),
                ..cgroup::read(files, root, cgroup)?
            };
            if container.manage_memory {
                reading.limits = cgroup::limits(files, root, cgroup);
            }
            Some((cgroup.to_owned(), reading))
        };
        Sample {
            machine,
            containers: containers.filter_map(look).collect(),
            lows,
        }
    }
}
