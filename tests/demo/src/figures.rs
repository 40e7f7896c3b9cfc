// SPDX-License-Identifier: GPL-2.0-only

//! The paper's experiments with shares that change, scaled to an emulated host:
//! its figures 13 and 14, and its webserver, proxy, mail and video mix under one
//! FIFO for all and under weights (section 5.1).

mod containers;
mod experiment;
mod mix;
mod paper;
mod vms;

pub(crate) use experiment::Experiment;

use anyhow::Result;
use ddlab::{Context, Lab, Scenario, Target};

use crate::{
    recorder::{NoObserver, Observer},
    table_4,
};

/// Runs an experiment.
type Make = fn(&Lab, Box<dyn Observer>) -> Result<Experiment>;

/// All experiments, in the paper's order.
pub(crate) const ALL: [Make; 3] = [mix::run, containers::run, vms::run];

/// Returns the experiments as scenarios. Each writes its curves to its output directory.
#[must_use]
pub fn scenarios() -> &'static [Scenario] {
    &[
        Scenario {
            name: "global-fifo",
            about: "webserver, proxy, mail and video: weights against one FIFO for all",
            quick: false,
            run: |context| record(context, mix::run),
        },
        Scenario {
            name: "figure-13",
            about: "weights of containers change, and a container comes and goes",
            quick: false,
            run: |context| record(context, containers::run),
        },
        Scenario {
            name: "figure-14",
            about: "four VMs come one after the other; weights and capacity follow",
            quick: false,
            run: |context| record(context, vms::run),
        },
        table_4::SCENARIO,
    ]
}

fn record(context: &mut Context, make: Make) -> Result<Vec<Target>> {
    let dir = context.output_dir()?;
    let experiment = make(context.lab()?, Box::new(NoObserver))?;
    experiment.write(&dir)?;
    context.say(format!("curves: {}", dir.join("report.html").display()));
    Ok(experiment.targets)
}
