// SPDX-License-Identifier: GPL-2.0-only

//! Measuring: cgroups, the machine, and what applications say.
//!
//! The kernel's files are read when the engine asks; they answer at once. Applications are asked
//! by tasks of their own ([`poller`]), each with a time limit, so that one that hangs holds up
//! no task: the engine gets what was heard last, as long as it is fresh. Few are asked at a time,
//! and what they answer is read piece by piece: tenants write it, and may write without end.

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

/// Takes looks at everything.
pub struct Meter<A: Ask> {
    proc: PathBuf,
    pollers: Pollers<A>,
    files: Pseudo,
}

impl<A: Ask> Meter<A> {
    /// A meter for a `/proc` and something that asks applications.
    pub fn new(proc: &Path, ask: A) -> Self {
        Self {
            proc: proc.into(),
            pollers: Pollers::new(ask),
            files: Pseudo::new(),
        }
    }

    /// Takes a look at the machine and at containers below a cgroup root. `containers` are their
    /// cgroups, pools' names and places in the file.
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
