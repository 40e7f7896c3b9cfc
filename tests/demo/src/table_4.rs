// SPDX-License-Identifier: GPL-2.0-only

//! The paper's table 4, scaled: Redis, MariaDB, nginx and SQLite in one guest, each with a target
//! for its throughput (section 5.2.1).
//!
//! A partition that the host alone decides ("Morai++" in the paper) can only move file pages
//! between containers. policyd moves memory of the guest as well, and so do limits set by hand. The
//! run counts the targets that are met with each. All are measured in the same way, by clients that
//! send the next request as soon as they are answered.

mod outcome;
mod service;
mod testbed;

use anyhow::Result;
use ddlab::{Context, Scenario, Target};

use outcome::{Configuration, Outcome, Who};
use service::SERVICES;
use testbed::{Limits, Testbed};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "table-4",
    about: "Redis, MariaDB, nginx, SQLite: the targets that policyd, limits by hand and the host meet",
    quick: false,
    run,
};

/// Parts of the tier for nginx and SQLite, in percent.
const PARTITIONS: [(u32, u32); 3] = [(25, 75), (50, 50), (75, 25)];
/// The divisions without policyd.
const DIVISIONS: [(Who, Limits, &str); 3] = [
    (Who::Host, Limits::None, "host alone, no limits"),
    (Who::Host, Limits::Equal, "host alone, equal limits"),
    (Who::Hand, Limits::ByHand, "limits by hand"),
];

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let dir = context.output_dir()?;
    let mut testbed = Testbed::start(context.debian_lab()?)?;
    let most = testbed.most()?;
    say(&format!("on fast disks: {most:.1?}"));
    let targets = testbed::targets(&most);
    let mut configurations = Vec::new();
    for (who, limits, words) in DIVISIONS {
        for (web, store) in PARTITIONS {
            let figures = testbed.partition((web, store), limits)?;
            let name = format!("{words}, {web}:{store}");
            say(&format!("{name}: {figures:.1?}"));
            configurations.push(Configuration::new(who, name, figures));
        }
    }
    let (met, explained, figures) = testbed.promised(&targets)?;
    configurations.push(Configuration::new(
        Who::Policyd,
        "policyd".to_owned(),
        figures,
    ));
    let outcome = Outcome {
        limit_mib: testbed.limit_mib(),
        services: SERVICES.iter().map(|service| service.about).collect(),
        most,
        targets,
        configurations,
        found_met: met,
        explained,
    };
    outcome.write(&dir)?;
    say(&outcome.table());
    say(&format!("report: {}", dir.join("report.html").display()));
    Ok(outcome.promises())
}

fn say(text: &str) {
    for line in text.lines() {
        eprintln!("    table-4: {line}");
    }
}
